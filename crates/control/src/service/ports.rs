//! The ports that a service names.
//!
//! Ports are numbered from 0 in the order of their names. Wherever a function's table says
//! `port = "..."` or `ingress = "..."`, that is the name of one.

use super::Misplaced;
use super::faults::Faults;
use std::collections::HashSet;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use twinpath_core::adjacency::BACK;
use twinpath_nf::similar::did_you_mean;

/// Most ports of a service.
pub const MAX_PORTS: usize = 64;

// What is no port's number means another egress.
const _: () = assert!(MAX_PORTS <= BACK as usize);

/// Longest name of a port, as of an interface in Linux.
const MAX_NAME: usize = 15;

/// Names as they are written.
pub(super) type Names = Vec<Spanned<String>>;

/// Checks the names of ports.
pub(super) fn checked(written: Option<Spanned<Names>>) -> Result<Vec<String>, Misplaced> {
    let Some(written) = written else {
        return Ok(Vec::new());
    };
    let (span, names) = (written.span(), written.into_inner());
    if names.is_empty() || names.len() > MAX_PORTS {
        let message = format!("{} ports: expected 1 to {MAX_PORTS}", names.len());
        return Err((span, message));
    }
    let mut ports: Vec<String> = Vec::new();
    for name in names {
        let (span, name) = (name.span(), name.into_inner());
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_plain) {
            let message = format!("a port's name has 1 to {MAX_NAME} letters, digits, _, - and .");
            return Err((span, message));
        }
        if ports.contains(&name) {
            let message = format!("two ports are called {name}: expected different names");
            return Err((span, message));
        }
        ports.push(name);
    }
    Ok(ports)
}

/// The numbers of named ports; nothing if one is that of no port.
pub(super) fn numbers_of(
    written: Option<Spanned<Names>>,
    ports: &[String],
    faults: &mut Faults,
) -> Option<Vec<u16>> {
    let names = written.map(Spanned::into_inner).unwrap_or_default();
    let mut named = HashSet::new();
    let mut number = |name: Spanned<String>| {
        let (span, name) = (name.span(), name.into_inner());
        let number = number_of(&name, span.clone(), ports)?;
        match named.insert(number) {
            true => Ok(number),
            false => Err((
                span,
                format!("{name} is named twice: expected each port once"),
            )),
        }
    };
    let numbers: Vec<_> = names
        .into_iter()
        .map(|name| faults.take(number(name)))
        .collect();
    let numbers = numbers.into_iter();
    numbers.map(|number| Some(number? as u16)).collect()
}

/// The texts of all numbers that ports may have.
pub(super) fn number_texts() -> Vec<String> {
    (0..MAX_PORTS).map(|number| number.to_string()).collect()
}

/// Writes the numbers of ports where functions' tables have their names; any where it is not known
/// which ports there are.
pub(super) fn number<'i>(
    sections: &mut DeTable<'i>,
    ports: Option<&[String]>,
    texts: &'i [String],
    faults: &mut Faults,
) {
    let mut numbering = Numbering {
        ports,
        texts,
        faults,
        told: HashSet::new(),
    };
    for (_, section) in sections.iter_mut() {
        numbering.number_in(section, false);
    }
}

struct Numbering<'n, 'i> {
    /// Those that there are, if that is known.
    ports: Option<&'n [String]>,
    texts: &'i [String],
    faults: &'n mut Faults,
    /// Names of no port that have been told.
    told: HashSet<String>,
}

impl<'i> Numbering<'_, 'i> {
    fn number_in(&mut self, value: &mut Spanned<DeValue<'i>>, is_in_list: bool) {
        match value.get_mut() {
            DeValue::Array(list) => {
                for value in list.iter_mut() {
                    self.number_in(value, true);
                }
            }
            DeValue::Table(table) => {
                if self.ports.is_none() {
                    table.remove("ingress");
                }
                for (key, value) in table.iter_mut() {
                    match key.get_ref().as_ref() {
                        "port" => self.number_at(value, is_in_list),
                        "ingress" => self.check_name(value),
                        _ => self.number_in(value, is_in_list),
                    }
                }
                // Where there are no ports that was told just now, and no other name would do.
                if self.ports.is_some_and(<[String]>::is_empty) {
                    table.remove("ingress");
                }
            }
            _ => {}
        }
    }

    /// A port's name becomes its number; one that no port has becomes any, so that it is told once. A
    /// number is one of the node's ports in a list of neighbours alone; elsewhere it may be anything.
    fn number_at(&mut self, value: &mut Spanned<DeValue<'i>>, is_in_list: bool) {
        let (span, ports) = (value.span(), self.ports);
        match (value.get_ref(), ports) {
            (DeValue::String(name), _) => {
                let name = name.to_string();
                let text = self.texts.get(self.number_of(&name, span).unwrap_or(0));
                if let Some(Ok(number)) = text.map(|text| DeValue::parse(text)) {
                    *value.get_mut() = number.into_inner();
                }
            }
            (DeValue::Integer(number), Some(ports)) if is_in_list && !ports.is_empty() => {
                let number = u64::from_str_radix(number.as_str(), number.radix());
                if !number.is_ok_and(|number| number < ports.len() as u64) {
                    let message = format!("no such port: expected {}", names(ports));
                    self.faults.push((span, message));
                }
            }
            _ => {}
        }
    }

    /// A port that is known by its name stays a name; what is none becomes any, so that it is told once.
    fn check_name(&mut self, value: &mut Spanned<DeValue<'i>>) {
        let span = value.span();
        let number = match value.get_ref() {
            DeValue::String(name) => {
                let name = name.to_string();
                self.number_of(&name, span)
            }
            _ => {
                let message = "expected the name of a port, in quotes".to_owned();
                self.faults.push((span, message));
                None
            }
        };
        let first = self.ports.and_then(<[String]>::first);
        if let (None, Some(any)) = (number, first) {
            *value.get_mut() = DeValue::String(any.clone().into());
        }
    }

    /// The number of a port. A name of none is told where it is met first: perhaps it is the port's own
    /// that is wrong.
    fn number_of(&mut self, name: &str, span: Range<usize>) -> Option<usize> {
        let number = number_of(name, span, self.ports?);
        if number.is_err() && !self.told.insert(name.to_owned()) {
            return None;
        }
        self.faults.take(number)
    }
}

fn number_of(name: &str, span: Range<usize>, ports: &[String]) -> Result<usize, Misplaced> {
    let number = ports.iter().position(|port| port == name);
    number.ok_or_else(|| {
        let expected = match ports.is_empty() {
            true => "ports = [...] in [service] with its name".into(),
            false => names(ports),
        };
        let meant = did_you_mean(name, ports.iter().map(String::as_str));
        (
            span,
            format!("no port is called {name:?}: expected {expected}{meant}"),
        )
    })
}

fn names(ports: &[String]) -> String {
    let quoted: Vec<String> = ports.iter().map(|port| format!("{port:?}")).collect();
    format!("one of {}", quoted.join(", "))
}
