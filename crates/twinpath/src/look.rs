//! What commands have in common that look at a running service.

use crate::error::CommandError;
use crate::{Outcome, output};
use serde::Serialize;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use twinpath_classify::Prefix;
use twinpath_control::flow_filter::FlowFilter;
use twinpath_control::look::{Look, LookResult, MOST_TOLD, Part, Query};
use twinpath_control::operator::{Answer, Request, ask};
use twinpath_control::report::units;
use twinpath_core::counted;
use twinpath_nf::duration::Human;

/// The environment variable that names the socket of a service where `--control` does not.
pub const CONTROL: &str = "TWINPATH_CONTROL";

/// Which service is asked, and how the answer is told.
#[derive(Clone, clap::Args)]
pub struct Service {
    /// The socket that the service was given with --control
    #[arg(long, value_name = "SOCKET", env = CONTROL, hide_env = true)]
    pub control: PathBuf,
    /// Only those of this function, by its name in the chain
    #[arg(long, value_name = "NAME")]
    pub function: Option<String>,
    /// At most so many; never more than 20000, and where there are more a warning says so
    #[arg(long, value_name = "N")]
    pub most: Option<usize>,
    /// As JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// Which ends are of interest.
#[derive(clap::Args)]
pub struct Ends {
    /// Only those with this address at either end
    #[arg(long, value_parser = address)]
    pub address: Option<IpAddr>,
    /// Only those with this port at either end
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
}

impl Service {
    /// All that there is.
    pub fn query(&self) -> Query {
        Query {
            function: self.function.clone(),
            most: self.most,
            ..Query::default()
        }
    }

    /// That with such ends.
    pub fn query_of(&self, ends: &Ends, flow: Option<&FlowFilter>) -> Query {
        Query {
            address: ends.address,
            port: ends.port,
            flow: flow.cloned(),
            ..self.query()
        }
    }

    /// Tells a part of a list of such things, which such functions have: a line for each, or JSON. Nothing
    /// at all is a negative answer.
    pub fn tell<T: Serialize>(
        &self,
        part: &Part<T>,
        (what, function): (&str, &str),
        line: impl Fn(&T) -> String,
    ) -> Result<Outcome, CommandError> {
        let text = match self.json {
            true => serde_json::to_string_pretty(&part.told)? + "\n",
            false => {
                let mut text: String = part.told.iter().map(|one| line(one) + "\n").collect();
                let count = counted(part.told.len() as u64, what);
                let more = match (part.has_more, part.is_without) {
                    (true, _) => ", and there are more".to_owned(),
                    (_, true) => format!(": no {function} in this chain has any"),
                    _ => String::new(),
                };
                text += &format!("{count}{more}\n");
                text
            }
        };
        output::print(&text)?;
        warn_of_more(self.most, part.has_more);
        warn_of_cut(part.is_cut);
        Ok(match part.told.is_empty() {
            true => Outcome::Bad,
            false => Outcome::Good,
        })
    }
}

/// Whoever did not ask for so few hears that there are more than an answer tells.
pub fn warn_of_more(most: Option<usize>, has_more: bool) {
    if let Some(warning) = more_than_told(most, has_more) {
        output::warning(warning);
    }
}

/// Everybody hears that there was no time to look at all.
pub fn warn_of_cut(is_cut: bool) {
    if is_cut {
        output::warning(
            "the service had no time to look at all that there is: ask for some of it alone",
        );
    }
}

fn more_than_told(most: Option<usize>, has_more: bool) -> Option<String> {
    let is_cut = has_more && most.is_none_or(|most| most > MOST_TOLD);
    is_cut.then(|| {
        let told = units::count(MOST_TOLD as u64);
        format!(
            "there are more than {told}, and no more are told at once: ask for some of them alone"
        )
    })
}

/// An address; of a network it is told where those go.
fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| match text.parse::<Prefix>() {
        Ok(_) => format!(
            "it is a network: expected an address; `flows` takes networks as --flow \"any {text} *\""
        ),
        Err(_) => "expected an address, such as 10.0.0.1".into(),
    })
}

/// Asks a service.
pub fn look(control: &Path, look: Look) -> Result<LookResult, CommandError> {
    match ask(control, &Request::Look(look))? {
        Answer::LookResult(seen) => Ok(*seen),
        other => Err(CommandError::unexpected(other)),
    }
}

/// What was seen is not what was asked for.
pub fn unexpected(seen: LookResult) -> CommandError {
    CommandError::unexpected(Answer::LookResult(Box::new(seen)))
}

/// A time as people read it, to the millisecond.
pub fn time(ns: u64) -> Human {
    let millis = Duration::from_nanos(ns).as_millis();
    Human(Duration::from_millis(millis as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_is_told_and_what_was_asked_for_is_not() {
        for (most, has_more, is_told) in [
            (None, false, false),
            (None, true, true),
            (Some(20), true, false),
            (Some(MOST_TOLD), true, false),
            (Some(MOST_TOLD + 1), true, true),
            (Some(MOST_TOLD + 1), false, false),
        ] {
            let told = more_than_told(most, has_more);
            assert_eq!(told.is_some(), is_told, "{most:?} {has_more}: {told:?}");
        }
    }
}
