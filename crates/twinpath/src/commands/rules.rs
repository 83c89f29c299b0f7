//! `twinpath rules`: the rules that a running service has cached.

use crate::error::CommandError;
use crate::look::warn_of_more;
use crate::{Outcome, output};
use std::fmt::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use twinpath_control::flow_filter::FlowFilter;
use twinpath_control::operator::{Answer, EntryView, Filter, Request, RuleView, ask};
use twinpath_control::report::units;
use twinpath_nf::duration::Human;

/// Shows the rules that a running service has cached on its fast path
///
/// For each: what it matches and does, how many packets met it (as far as the fast path has
/// reported), how old it is, and the table entries that it came from: rules of lists and routes with their
/// text and their line of the service file, bindings with their ends. Those used most come first. Each begins
/// with the number of its element in the chain, counted from 0, and its own.
/// Exit code 1 if there is none, unless no function of the service caches rules.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath run examples/gateway.toml --control /run/gateway.sock &",
    "twinpath rules --control /run/gateway.sock --most 20",
    "twinpath rules --control /run/gateway.sock --function napt --address 10.0.0.7",
    "twinpath rules --control /run/gateway.sock --flow 'tcp 10.0.0.1:* 192.0.2.1:80'",
    "twinpath rules --control /run/gateway.sock --json | jq '.[].packets'",
))]
pub struct Arguments {
    /// The socket that the service was given with --control
    #[arg(long, value_name = "SOCKET", env = crate::look::CONTROL, hide_env = true)]
    control: PathBuf,
    /// Only those of this element of the chain, counted from 0
    #[arg(long, value_name = "N")]
    element: Option<u8>,
    /// Only those that came from an entry of this function
    #[arg(long, value_name = "NAME")]
    function: Option<String>,
    /// Only those that packets from or to this address may meet
    #[arg(long)]
    address: Option<IpAddr>,
    /// Only those that packets of such a flow may meet, in either direction: a protocol and two ends, as
    /// "tcp 10.0.0.1:* 192.0.2.1:80"
    #[arg(long)]
    flow: Option<FlowFilter>,
    /// Only those that so many packets have met
    #[arg(long, value_name = "PACKETS", default_value_t = 0)]
    least: u64,
    /// At most so many, those used most; never more than 20000, and where there are more a warning says so
    #[arg(long, value_name = "N")]
    most: Option<usize>,
    /// As JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Of a service whose fast path has flows, and a DPU's.
const NO_CACHE: &str = "no rules: no function of this service caches rules; its fast path knows flows, which `twinpath flows` shows\n";

/// Shows them.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let request = Request::Rules(Filter {
        element: arguments.element,
        function: arguments.function.clone(),
        address: arguments.address,
        flow: arguments.flow.clone(),
        least_packets: arguments.least,
        most: arguments.most,
    });
    let (rules, all, caches_none) = match ask(&arguments.control, &request)? {
        Answer::Rules {
            rules,
            matching,
            caches_none,
        } => (rules, matching, caches_none),
        other => return Err(CommandError::unexpected(other)),
    };
    let text = match (arguments.json, caches_none) {
        (true, _) => serde_json::to_string_pretty(&rules)? + "\n",
        (false, true) => NO_CACHE.to_owned(),
        (false, false) => table(&rules, all),
    };
    output::print(&text)?;
    warn_of_more(arguments.most, rules.len() < all);
    Ok(match all > 0 || caches_none {
        true => Outcome::Good,
        false => Outcome::Bad,
    })
}

fn table(rules: &[RuleView], all: usize) -> String {
    let mut text = String::new();
    for rule in rules {
        // Writing to a string never fails.
        let _ = writeln!(text, "{}", row(rule));
    }
    let told = units::counted(all as u64, "rule");
    let _ = match rules.len() {
        shown if shown == all => writeln!(text, "{told}"),
        shown => writeln!(text, "{} of {told}", units::count(shown as u64)),
    };
    text
}

fn row(rule: &RuleView) -> String {
    let time = |ns| {
        Human(Duration::from_millis(
            Duration::from_nanos(ns).as_millis() as u64
        ))
    };
    let waiting = if rule.is_installed {
        ""
    } else {
        ", on its way"
    };
    format!(
        "{}/{}  {}, {}; {} old, unused for {}{waiting}\n    {}\n    -> {}\n    from {}",
        rule.element,
        rule.id,
        units::counted(rule.packets, "packet"),
        units::bytes(rule.bytes),
        time(rule.age_ns),
        time(rule.unused_ns),
        rule.matches,
        rule.action,
        match rule.entries.is_empty() {
            true => "nothing that changes".into(),
            false => rule.entries.iter().map(told).collect::<Vec<_>>().join(", "),
        },
    )
}

/// An entry in words: as the function says, and where that is written.
fn told(entry: &EntryView) -> String {
    let EntryView {
        function,
        entry,
        rule,
        text,
        line,
    } = entry;
    let line = line.map_or_else(String::new, |line| format!(" (line {line})"));
    match (rule, text) {
        (Some(number), Some(text)) => format!("{function} rule {number}: {text}{line}"),
        (None, Some(text)) => format!("{function}: {text}{line}"),
        (_, None) => format!("{function} {entry}"),
    }
}
