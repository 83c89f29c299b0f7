//! `twinpath apply`: changes a running service.

use crate::error::CommandError;
use crate::{Outcome, output};
use std::path::{Path, PathBuf};
use std::time::Duration;
use twinpath_control::operator::{Answer, Applied, Request, ask};
use twinpath_control::report::units;
use twinpath_control::service::{Service, ServiceError};
use twinpath_nf::files::{Copied, Disk, Files};

/// Changes a running service to what a service file says
///
/// The chain, its functions and `inside` can change while packets flow: nothing is lost or
/// overtaken, and when this command ends no packet meets an old decision any more. What the file
/// says is compared with what the service is, rule by rule, route by route and backend by backend:
/// of what is cached only that goes which came from what differs. Functions go
/// on with all they know, with their new configuration if it is another: connections keep their
/// state, also when functions that share it (neighbours of firewall, reassembler, inspector,
/// load_balancer, kv_store) come, go or change places among themselves. Where a list, a monitor or a
/// router comes between two of them, or goes, one of the two begins anew and knows no connection, which is
/// told. New functions meet connections in mid-stream. The settings
/// of the paths have to stay as they are. If anything is wrong, nothing changes.
///
/// The file is the service's from then on: at SIGHUP the service reads this one again, with its own
/// rights, and not the one that it was started with.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath run examples/gateway.toml --control /run/gateway.sock &",
    "cp examples/gateway.toml my-gateway.toml    # then add a rule to it, or take one out",
    "twinpath apply my-gateway.toml --control /run/gateway.sock",
))]
pub struct Arguments {
    /// The service file
    service: PathBuf,
    /// The socket that the service was given with --control
    #[arg(long, value_name = "SOCKET", env = crate::look::CONTROL, hide_env = true)]
    control: PathBuf,
}

/// Changes it.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let path = absolute(&arguments.service)?;
    let text = Disk.read(&path);
    let text = text.map_err(|source| unreadable(&path, source))?;
    // Files that it names are read here, with the rights of whoever asks.
    let copied = Copied::default();
    output::warnings_about(&Service::parse_with(&text, &path, &copied)?);
    let request = Request::Apply {
        text: text.to_string(),
        path,
        files: copied.into_files(),
    };
    match ask(&arguments.control, &request)? {
        Answer::Applied(applied) => output::print(&told(&applied)).map(|()| Outcome::Good),
        other => Err(CommandError::unexpected(other)),
    }
}

/// The service may have been started elsewhere.
fn absolute(path: &Path) -> Result<PathBuf, CommandError> {
    std::path::absolute(path).map_err(|source| unreadable(path, source))
}

fn unreadable(path: &Path, source: std::io::Error) -> CommandError {
    ServiceError::unreadable(path, source).into()
}

/// What a change did, in words.
pub(super) fn told(applied: &Applied) -> String {
    let file = applied.file.as_ref().map(|file| {
        let file = file.display();
        format!("SIGHUP reads {file} from now on\n")
    });
    let waiting = applied.waiting.iter();
    let waiting: String = waiting.map(|one| format!("waits: {one}\n")).collect();
    let forgotten = applied.forgotten.iter();
    let forgotten: String = forgotten.map(|one| format!("forgotten: {one}\n")).collect();
    [
        what_changed(applied),
        begun_anew(&applied.anew),
        waiting,
        forgotten,
        file.unwrap_or_default(),
    ]
    .concat()
}

/// Why functions that were there know no connection any more.
fn begun_anew(functions: &[String]) -> String {
    match functions {
        [] => String::new(),
        [one] => {
            format!("{one} shares flow state with others than before: it knows no connection\n")
        }
        several => format!(
            "{} share flow state with others than before: they know no connection\n",
            several.join(", ")
        ),
    }
}

fn what_changed(applied: &Applied) -> String {
    if applied.is_same {
        let is_settled = applied.waiting.is_empty();
        return match is_settled {
            true => "nothing to change\n".into(),
            false => "nothing changes now\n".into(),
        };
    }
    let mut parts = Vec::new();
    for (what, functions) in [
        ("new", &applied.new),
        ("begun anew", &applied.anew),
        ("changed", &applied.changed),
        ("untouched", &applied.kept),
        ("removed", &applied.removed),
    ] {
        if !functions.is_empty() {
            parts.push(format!("{what}: {}", functions.join(", ")));
        }
    }
    if !applied.keys.is_empty() {
        parts.push(format!("[service]: {}", applied.keys.join(", ")));
    }
    parts.push(what_went_on(applied));
    let pause = Duration::from_nanos(applied.pause_ns);
    format!("{}; packets waited for {pause:.1?}\n", parts.join("; "))
}

/// What the fast path knows of packets that come next.
fn what_went_on(applied: &Applied) -> String {
    if let Some(flows) = applied.flows {
        let flows = units::counted(flows, "flow");
        return format!(
            "{flows} went on: those that it touches are judged anew with their next packet"
        );
    }
    let gone = units::counted(applied.rules_gone as u64, "cached rule");
    let kept = units::count(applied.rules_kept as u64);
    format!("{gone} went, {kept} stayed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_or_is_forgotten_is_told() {
        let same = Applied {
            is_same: true,
            ..Applied::default()
        };
        assert_eq!(told(&same), "nothing to change\n");
        let waits = Applied {
            waiting: vec!["V: deleted once nothing refers to it; E does".into()],
            ..same.clone()
        };
        assert_eq!(
            told(&waits),
            "nothing changes now\nwaits: V: deleted once nothing refers to it; E does\n"
        );
        let forgotten = Applied {
            forgotten: vec!["V: was to be deleted, and the service file says it".into()],
            ..same
        };
        assert_eq!(
            told(&forgotten),
            "nothing to change\nforgotten: V: was to be deleted, and the service file says it\n"
        );
    }

    /// A DPU has flows on its fast path, and no rules.
    #[test]
    fn of_a_dpu_flows_are_told_and_of_others_rules() {
        let changed = Applied {
            changed: vec!["dash".into()],
            rules_gone: 1,
            rules_kept: 2000,
            ..Applied::default()
        };
        let rules = told(&changed);
        assert!(
            rules.contains("; 1 cached rule went, 2,000 stayed; "),
            "{rules}"
        );
        let flows = told(&Applied {
            flows: Some(1200),
            ..changed
        });
        let expected =
            "; 1,200 flows went on: those that it touches are judged anew with their next packet; ";
        assert!(
            flows.contains(expected) && !flows.contains("rule"),
            "{flows}"
        );
    }

    #[test]
    fn functions_that_begin_anew_are_told_with_why() {
        let of = |anew: &[&str]| Applied {
            kept: vec!["firewall".into()],
            anew: anew.iter().map(|&name| name.into()).collect(),
            ..Applied::default()
        };
        assert!(!told(&of(&[])).contains("anew"));
        let one = told(&of(&["load_balancer"]));
        assert!(
            one.starts_with("begun anew: load_balancer; untouched: firewall; "),
            "{one}"
        );
        let why =
            "load_balancer shares flow state with others than before: it knows no connection\n";
        assert!(one.ends_with(why), "{one}");
        let two = told(&of(&["inspector", "load_balancer"]));
        assert!(
            two.contains("inspector, load_balancer share flow state"),
            "{two}"
        );
    }
}
