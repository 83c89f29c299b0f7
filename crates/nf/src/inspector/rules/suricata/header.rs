//! What stands before a rule's options: action, protocol, and the ends of a connection.

use super::{Action, Refusal};
use crate::inspector::error::{Expected, Problem};
use crate::inspector::rules::Variables;
use crate::inspector::rules::scope::{Ends, Protocol, Scope};
use twinpath_classify::Prefix;

/// How deep lists and variables may nest.
const DEEPEST: usize = 8;

pub(super) struct Header {
    pub action: Action,
    pub scope: Scope,
    /// Where the options' parenthesis is.
    pub options_at: usize,
}

impl Header {
    pub fn read(text: &str, variables: &Variables) -> Result<Self, Refusal> {
        let options_at = text.find('(').unwrap_or(text.len());
        let words = words(&text[..options_at]);
        let [
            action,
            protocol,
            source,
            from_port,
            way,
            destination,
            to_port,
        ] = words[..]
        else {
            let problem = Problem::Expected(Expected::Header);
            return Err(Refusal::new(0, "header", problem));
        };
        let ends = |addresses, ports| ends(variables, addresses, ports);
        Ok(Self {
            action: match action.text {
                "alert" => Action::Alert,
                "pass" => return Err(Refusal::unknown(action.at, "pass")),
                _ => Action::Ban,
            },
            scope: Scope {
                protocol: protocol_of(protocol)?,
                source: ends(source, from_port)?,
                destination: ends(destination, to_port)?,
                either_way: match way.text {
                    "->" => false,
                    "<>" => true,
                    _ => {
                        let problem = Problem::Expected(Expected::Header);
                        return Err(Refusal::new(way.at, "header", problem));
                    }
                },
                by_packet: protocol.text == "tcp-pkt",
                ..Scope::default()
            },
            options_at,
        })
    }
}

/// None if packets of any match.
fn protocol_of(word: Word<'_>) -> Result<Option<Protocol>, Refusal> {
    Ok(match word.text {
        "ip" => None,
        "tcp" | "tcp-stream" | "tcp-pkt" => Some(Protocol::Tcp),
        "udp" => Some(Protocol::Udp),
        "icmp" => Some(Protocol::Icmp),
        other => return Err(Refusal::unknown(word.at, &format!("protocol {other}"))),
    })
}

fn ends(variables: &Variables, addresses: Word<'_>, ports: Word<'_>) -> Result<Ends, Refusal> {
    let mut ends = Ends::default();
    let mut reader = Reader {
        variables,
        ends: &mut ends,
    };
    reader
        .addresses(addresses.text, false, 0)
        .map_err(|name| wrong(addresses, name))?;
    reader
        .ports(ports.text, false, 0)
        .map_err(|name| wrong(ports, name))?;
    Ok(ends)
}

fn wrong(word: Word<'_>, name: Option<&str>) -> Refusal {
    match name {
        Some(name) => Refusal::new(
            word.at,
            &format!("${name}"),
            Problem::Undefined(name.into()),
        ),
        None => Refusal::new(word.at, "header", Problem::Expected(Expected::Ends)),
    }
}

#[derive(Clone, Copy)]
struct Word<'t> {
    text: &'t str,
    at: usize,
}

/// Words apart by blanks, but for those in brackets.
fn words(text: &str) -> Vec<Word<'_>> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0usize, None);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let is_blank = depth == 0 && byte.is_ascii_whitespace();
        match start {
            None if !is_blank => start = Some(at),
            Some(first) if is_blank => {
                found.push(Word {
                    text: &text[first..at],
                    at: first,
                });
                start = None;
            }
            _ => {}
        }
    }
    if let Some(first) = start {
        let text = &text[first..];
        found.push(Word { text, at: first });
    }
    found
}

struct Reader<'a> {
    variables: &'a Variables,
    ends: &'a mut Ends,
}

/// The name of a variable that nothing says, if it is that.
type Read<'t> = Result<(), Option<&'t str>>;

impl<'t> Reader<'t> {
    fn addresses(&mut self, text: &'t str, negated: bool, depth: usize) -> Read<'t> {
        each(text, negated, depth, self.variables, &mut |one, negated| {
            if one == "any" {
                return Some(()).filter(|()| !negated);
            }
            let network: Prefix = one.parse().ok()?;
            match negated {
                true => self.ends.not_networks.push(network),
                false => self.ends.networks.push(network),
            }
            Some(())
        })
    }

    fn ports(&mut self, text: &'t str, negated: bool, depth: usize) -> Read<'t> {
        each(text, negated, depth, self.variables, &mut |one, negated| {
            if one == "any" {
                return Some(()).filter(|()| !negated);
            }
            let (low, high) = one.split_once(':').unwrap_or((one, one));
            let port = |text: &str, open: u16| match text {
                "" => Some(open),
                text => text.parse().ok(),
            };
            let range = (port(low, 0)?, port(high, u16::MAX)?);
            match negated {
                true => self.ends.not_ports.push(range),
                false => self.ends.ports.push(range),
            }
            Some(())
        })
    }
}

/// Calls `take` with each member of lists and variables, and whether it is excluded.
fn each<'t>(
    text: &'t str,
    negated: bool,
    depth: usize,
    variables: &'t Variables,
    take: &mut dyn FnMut(&'t str, bool) -> Option<()>,
) -> Read<'t> {
    let text = text.trim();
    if depth > DEEPEST {
        return Err(None);
    }
    if let Some(rest) = text.strip_prefix('!') {
        return each(rest, !negated, depth + 1, variables, take);
    }
    if let Some(list) = text.strip_prefix('[') {
        let list = list.strip_suffix(']').ok_or(None)?;
        for member in members(list) {
            each(member, negated, depth + 1, variables, take)?;
        }
        return Ok(());
    }
    match text.strip_prefix('$') {
        Some(name) => match variables.get(name) {
            Some(value) => each(value, negated, depth + 1, variables, take),
            None => Err(Some(name)),
        },
        None => take(text, negated).ok_or(None),
    }
}

/// Parts of a list apart by commas, but for those of lists within.
fn members(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0i32;
    list.split(move |c| {
        depth += match c {
            '[' => 1,
            ']' => -1,
            _ => 0,
        };
        c == ',' && depth == 0
    })
}
