//! `twinpath rules` and `twinpath apply`, against `twinpath run --control`.

use crate::place::{Place, Said, interrupt};
use serde_json::Value;
use std::process::Child;
use std::time::{Duration, Instant};

const SERVICE: &str = "[service]\nname = \"edge\"\nchain = [\"acl\", \"napt\", \"monitor\"]\n\
    [acl]\ndefault = \"allow\"\n\
    [napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"198.51.100.1\"]\n\
    [rule_cache]\nwindow = \"50ms\"\nthreshold = 0\n\
    [traffic]\nflows = 20\nserver_packets = false\narrivals = { process = \"poisson\", rate_pps = 5000.0 }\n";

/// A service that runs until it is stopped.
struct Running {
    place: Place,
    child: Child,
}

impl Running {
    fn start() -> Self {
        let place = Place::with("edge.toml", SERVICE);
        let flags = ["--control", "edge.sock", "--report", "r"];
        let child = place.start(&[&["run", "edge.toml"][..], &flags].concat());
        Self { place, child }
    }

    fn ask(&self, arguments: &[&str]) -> Said {
        let control = ["--control", "edge.sock"];
        self.place.run(&[arguments, &control].concat())
    }

    /// Asks until the answer has what is wanted.
    fn ask_until(&self, arguments: &[&str], is_wanted: impl Fn(&Said) -> bool) -> Said {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let said = self.ask(arguments);
            if is_wanted(&said) {
                return said;
            }
            assert!(Instant::now() < deadline, "{arguments:?}: {said:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends it with Ctrl-C.
    fn stop(mut self) -> Place {
        interrupt(&self.child);
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}");
        std::mem::replace(&mut self.place, Place::new())
    }
}

/// A test that fails leaves nothing running.
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn rules_are_shown_and_filtered() {
    let running = Running::start();
    let said = running.ask_until(&["rules", "--least", "3"], |said| said.code == Some(0));
    assert!(
        said.out.contains("-> source address 198.51.100.1"),
        "{}",
        said.out
    );
    assert!(said.out.contains("from acl 0, napt "), "{}", said.out);
    let json = running.ask(&["rules", "--json", "--function", "napt", "--most", "2"]);
    let rules: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(rules.as_array().map(Vec::len), Some(2));
    let nobody = running.ask(&["rules", "--function", "router"]);
    assert_eq!((nobody.code, nobody.out.as_str()), (Some(1), "0 rules\n"));
    let place = running.stop();
    assert!(!place.path("edge.sock").exists(), "the socket is removed");
}

#[test]
fn a_running_service_is_changed() {
    let running = Running::start();
    running.ask_until(&["rules"], |said| said.code == Some(0));
    let denied =
        "[acl]\ndefault = \"allow\"\nrules = [{ action = \"deny\", from = \"10.0.0.0/8\" }]";
    let new = SERVICE.replace("[acl]\ndefault = \"allow\"", denied);
    running.place.write("new.toml", new.as_bytes());
    let said = running.ask(&["apply", "new.toml"]);
    let expected = "changed: acl; gone on: napt, monitor; packets waited for ";
    assert!(said.out.starts_with(expected), "{said:?}");
    running.ask_until(&["rules"], |said| said.out.contains("-> drop (denied)"));
    let place = running.stop();
    let report = place.report("r");
    assert!(report.drops["denied"] > 0);
    let dropped: u64 = report.drops.values().sum();
    let (totals, gone) = (report.totals, report.totals.packets_out + dropped);
    assert_eq!(totals.packets_in, gone, "nothing is lost");
}

/// Functions that share flow state join, take another configuration, and leave.
#[test]
fn functions_with_flow_state_are_changed() {
    let running = Running::start();
    running.ask_until(&["rules"], |said| said.code == Some(0));
    let chain =
        |functions: &str, more: &str| SERVICE.replace("\"acl\", \"napt\"", functions) + "\n" + more;
    let beside = "\"acl\", \"firewall\", \"napt\"";
    let applied = |text: String| {
        running.place.write("new.toml", text.as_bytes());
        let said = running.ask(&["apply", "new.toml"]);
        assert_eq!(said.code, Some(0), "{said:?}");
        said.out
    };
    let said = applied(chain(beside, "[firewall]\ndefault = \"allow\"\n"));
    assert!(
        said.starts_with("new: firewall; gone on: acl, napt, monitor"),
        "{said}"
    );
    let said = applied(chain(beside, "[firewall]\ndefault = \"deny\"\n"));
    assert!(
        said.starts_with("changed: firewall; gone on: acl, napt, monitor"),
        "{said}"
    );
    let said = applied(SERVICE.to_owned());
    assert!(
        said.starts_with("gone on: acl, napt, monitor; removed: firewall"),
        "{said}"
    );
    let place = running.stop();
    let report = place.report("r");
    let dropped: u64 = report.drops.values().sum();
    let (totals, gone) = (report.totals, report.totals.packets_out + dropped);
    assert_eq!(totals.packets_in, gone, "nothing is lost");
}

#[test]
fn wrong_changes_are_refused_and_change_nothing() {
    let running = Running::start();
    running.ask_until(&["rules"], |said| said.code == Some(0));
    let place = &running.place;
    place.write("wrong.toml", b"[service]\nchain = [\"acl\", \"nat46\"]\n");
    let wrong = running.ask(&["apply", "wrong.toml"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err.contains("wrong.toml:2:"), "{}", wrong.err);
    let slots = format!("{SERVICE}[link]\nring_frames = 7\n");
    place.write("slots.toml", slots.as_bytes());
    let refused = running.ask(&["apply", "slots.toml"]);
    assert_eq!(refused.code, Some(2));
    let expected = "the service refuses: [link] differs from the running service";
    assert!(refused.err.contains(expected), "{}", refused.err);
    assert_eq!(running.ask(&["rules"]).code, Some(0), "it goes on");
    running.stop();
}

#[test]
fn nobody_answers_where_nothing_runs() {
    let place = Place::with("edge.toml", SERVICE);
    let said = place.run(&["rules", "--control", "edge.sock"]);
    assert_eq!(said.code, Some(2));
    assert!(
        said.err.contains("cannot reach a service at edge.sock"),
        "{}",
        said.err
    );
    let virtual_time = [
        "run",
        "edge.toml",
        "--control",
        "edge.sock",
        "--execution",
        "virtual",
    ];
    let said = place.run(&virtual_time);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("--control needs threads"), "{}", said.err);
}
