//! `twinpath drops`: the packets that a running service drops, as it drops them.

use crate::error::CommandError;
use crate::follow::Follower;
use crate::look::{look, unexpected};
use crate::stop::Stop;
use crate::{Outcome, output};
use std::path::PathBuf;
use twinpath_control::look::{DropView, FlowPath, Look, LookResult, Stream};
use twinpath_control::report::units;
use twinpath_core::DropReason;

/// Shows why a running service drops packets: how many so far, or each as it is dropped
///
/// Of all so far those are told, too, that ports lost before they came in or when they left.
///
/// With --follow a line for each packet from now on: when it came (UTC; of generated traffic since the run
/// began), the reason, where and by which function, the port that it came in by, and its headers. At most 1000 in a second are told; how many were not is said in
/// each line. Packets never wait for whoever follows them. Ctrl-C ends it; that the service ends before is
/// an error (exit code 2).
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath drops --control /run/edge.sock",
    "twinpath drops --control /run/edge.sock --follow --reason denied --function acl",
    "twinpath drops --control /run/edge.sock --follow --json --count 100 | jq -r .reason | sort | uniq -c",
))]
pub struct Arguments {
    /// The socket that the service was given with --control
    #[arg(long, value_name = "SOCKET", env = crate::look::CONTROL, hide_env = true)]
    control: PathBuf,
    /// Show each packet that is dropped from now on
    #[arg(long)]
    follow: bool,
    /// Only those that are dropped for this reason
    #[arg(long, value_name = "NAME")]
    reason: Option<String>,
    /// With --follow: only those that this function drops, or those that decide together with it, by its name in the chain
    #[arg(long, value_name = "NAME", requires = "follow")]
    function: Option<String>,
    /// With --follow: end after so many packets
    #[arg(long, value_name = "N", requires = "follow")]
    count: Option<u64>,
    /// As JSON, for programs: with --follow an object on each line
    #[arg(long)]
    json: bool,
}

/// Shows them.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    if let Some(reason) = &arguments.reason
        && DropReason::named(reason).is_none()
    {
        return Err(CommandError::NoDropReason(reason.clone()));
    }
    match arguments.follow {
        true => arguments.follow(),
        false => arguments.tell_counts(),
    }
}

impl Arguments {
    fn tell_counts(&self) -> Result<Outcome, CommandError> {
        let report = match look(&self.control, Look::Figures)? {
            LookResult::Figures(report) => report,
            other => return Err(unexpected(other)),
        };
        let mut drops = report.drops;
        drops.extend(report.port_losses.by_name());
        drops.retain(|reason, _| self.is_reason_wanted(reason));
        let text = match self.json {
            true => serde_json::to_string_pretty(&drops)? + "\n",
            false if drops.is_empty() => match &self.reason {
                None => "no packet has been dropped\n".to_owned(),
                Some(reason) => format!("no packet has been dropped as {reason}\n"),
            },
            false => {
                let line = |(reason, count): (&String, &u64)| {
                    format!("{:>16}  {reason}\n", units::count(*count))
                };
                drops.iter().map(line).collect()
            }
        };
        output::print(&text)?;
        Ok(Outcome::Good)
    }

    /// A name that no function has is a mistake: nothing would ever be told.
    fn check_function(&self) -> Result<(), CommandError> {
        let Some(name) = &self.function else {
            return Ok(());
        };
        let report = match look(&self.control, Look::Figures)? {
            LookResult::Figures(report) => report,
            other => return Err(unexpected(other)),
        };
        let functions = report.functions.into_iter();
        let known: Vec<String> = functions.map(|function| function.name).collect();
        match known.contains(name) {
            true => Ok(()),
            false => Err(CommandError::NoFunction {
                name: name.clone(),
                known,
            }),
        }
    }

    fn follow(&self) -> Result<Outcome, CommandError> {
        self.check_function()?;
        let stop = Stop::on_signals()?;
        let mut follower = Follower::begin(&self.control, Stream::Drops, &stop)?;
        let mut told = 0;
        while self.count.is_none_or(|most| told < most) {
            let Some(line) = follower.next_line()? else {
                break;
            };
            let drop: DropView = serde_json::from_slice(&line)?;
            if !self.is_wanted(&drop) {
                continue;
            }
            told += 1;
            let text = match self.json {
                true => String::from_utf8_lossy(&line).into_owned(),
                false => in_words(&drop) + "\n",
            };
            if !output::print_on(&text)? {
                break;
            }
        }
        Ok(Outcome::Good)
    }

    fn is_wanted(&self, drop: &DropView) -> bool {
        let is_its = |wanted| drop.functions.contains(wanted);
        self.is_reason_wanted(&drop.reason) && self.function.as_ref().is_none_or(is_its)
    }

    fn is_reason_wanted(&self, reason: &str) -> bool {
        self.reason.as_deref().is_none_or(|wanted| wanted == reason)
    }
}

fn in_words(drop: &DropView) -> String {
    let path = match drop.path {
        FlowPath::Fast => "fast path",
        FlowPath::Slow => "slow path",
    };
    let by = match drop.functions.is_empty() {
        true => String::new(),
        false => format!(" by {}", drop.functions.join(",")),
    };
    let shed = match drop.shed {
        0 => String::new(),
        shed => format!("  ({} not shown)", units::count(shed)),
    };
    let (reason, port, headers) = (&drop.reason, &drop.port, drop.headers.join("; "));
    let at = time_of_day(drop.time_ns);
    format!("{at} {reason}{by}, {path}, port {port}: {headers}{shed}")
}

/// A time of the packet clock as hours, minutes and seconds of its day.
fn time_of_day(ns: u64) -> String {
    let millis = ns / 1_000_000;
    let [hours, minutes, seconds] = [3_600_000, 60_000, 1000].map(|unit| millis / unit);
    let (hours, minutes, seconds) = (hours % 24, minutes % 60, seconds % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02}.{:03}", millis % 1000)
}

#[cfg(test)]
mod tests {
    use super::time_of_day;

    #[test]
    fn times_are_those_of_a_day() {
        for (ns, told) in [
            (0, "00:00:00.000"),
            (61_001_999_999, "00:01:01.001"),
            (86_399_999_999_999, "23:59:59.999"),
            (86_400_000_000_000, "00:00:00.000"),
            (1_700_000_000_000_000_000, "22:13:20.000"),
        ] {
            assert_eq!(time_of_day(ns), told, "{ns}");
        }
    }
}
