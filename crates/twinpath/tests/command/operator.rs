//! `twinpath rules`, `twinpath apply` and `twinpath change`, against `twinpath run --control`.

use crate::folder::{Folder, Said, interrupt};
use serde_json::Value;
use std::process::Child;
use std::time::{Duration, Instant};

const SERVICE: &str = "[service]\nname = \"edge\"\nchain = [\"acl\", \"napt\", \"monitor\"]\n\
    [acl]\ndefault = \"allow\"\n\
    [napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"198.51.100.1\"]\n\
    [rule_cache]\nwindow = \"50ms\"\nthreshold = 0\n\
    [traffic]\nflows = 20\nserver_packets = false\narrivals = { process = \"poisson\", rate_pps = 5000.0 }\n";

/// A service that runs until it is stopped.
pub struct Running {
    pub folder: Folder,
    child: Child,
}

impl Running {
    fn start() -> Self {
        Self::start_as(SERVICE)
    }

    pub fn start_as(service: &str) -> Self {
        Self::start_in(Folder::with("edge.toml", service), &[])
    }

    /// The same in a folder where the service file is already.
    pub fn start_in(folder: Folder, more: &[&str]) -> Self {
        let flags = ["--control", "edge.sock", "--report", "r"];
        let child = folder.start(&[&["run", "edge.toml"][..], &flags, more].concat());
        Self { folder, child }
    }

    pub fn ask(&self, arguments: &[&str]) -> Said {
        let control = ["--control", "edge.sock"];
        self.folder.run(&[arguments, &control].concat())
    }

    /// Asks until the answer has what is wanted.
    pub fn ask_until(&self, arguments: &[&str], is_wanted: impl Fn(&Said) -> bool) -> Said {
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
    pub fn stop(mut self) -> Folder {
        interrupt(&self.child);
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}");
        std::mem::replace(&mut self.folder, Folder::new())
    }
}

/// A test that fails leaves nothing running.
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where nothing is ever cached, that there is nothing is no failure.
#[test]
fn a_service_without_cached_functions_has_no_rules() {
    let running = Running::start_as(
        "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n\
         [traffic]\nflows = 2\narrivals = { process = \"poisson\", rate_pps = 100.0 }\n",
    );
    let said = running.ask_until(&["rules"], |said| said.code == Some(0));
    let told = "no rules: no function of this service caches rules";
    assert!(said.out.starts_with(told), "{said:?}");
    running.stop();
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
    assert!(
        said.out.contains("from acl: the default: allow, napt: "),
        "{}",
        said.out
    );
    let json = running.ask(&["rules", "--json", "--function", "napt", "--most", "2"]);
    let rules: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(rules.as_array().map(Vec::len), Some(2));
    for (filter, told) in [
        (
            ["--function", "nap"],
            "the chain has no function called \"nap\"; did you mean napt?",
        ),
        (["--element", "7"], "counted from 0, and none is 7"),
    ] {
        let said = running.ask(&["rules", filter[0], filter[1]]);
        assert!(said.code == Some(2) && said.err.contains(told), "{said:?}");
    }
    let nobody = running.ask(&["rules", "--address", "203.0.113.77"]);
    assert_eq!((nobody.code, nobody.out.as_str()), (Some(1), "0 rules\n"));
    let folder = running.stop();
    assert!(!folder.path("edge.sock").exists(), "the socket is removed");
}

#[test]
fn a_running_service_is_changed() {
    let running = Running::start();
    running.ask_until(&["rules"], |said| said.code == Some(0));
    let denied =
        "[acl]\ndefault = \"allow\"\nrules = [{ action = \"deny\", from = \"10.0.0.0/8\" }]";
    let new = SERVICE.replace("[acl]\ndefault = \"allow\"", denied);
    running.folder.write("new.toml", new.as_bytes());
    let said = running.ask(&["apply", "new.toml"]);
    let expected = "changed: acl; untouched: napt, monitor; ";
    assert!(said.out.starts_with(expected), "{said:?}");
    assert!(
        said.out.contains(" stayed; packets waited for "),
        "{said:?}"
    );
    running.ask_until(&["rules"], |said| said.out.contains("-> drop (denied)"));
    let folder = running.stop();
    let report = folder.report("r");
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
        running.folder.write("new.toml", text.as_bytes());
        let said = running.ask(&["apply", "new.toml"]);
        assert_eq!(said.code, Some(0), "{said:?}");
        said.out
    };
    let said = applied(chain(beside, "[firewall]\ndefault = \"allow\"\n"));
    assert!(
        said.starts_with("new: firewall; untouched: acl, napt, monitor"),
        "{said}"
    );
    let said = applied(chain(beside, "[firewall]\ndefault = \"deny\"\n"));
    assert!(
        said.starts_with("changed: firewall; untouched: acl, napt, monitor"),
        "{said}"
    );
    let said = applied(SERVICE.to_owned());
    assert!(
        said.starts_with("untouched: acl, napt, monitor; removed: firewall"),
        "{said}"
    );
    let folder = running.stop();
    let report = folder.report("r");
    let dropped: u64 = report.drops.values().sum();
    let (totals, gone) = (report.totals, report.totals.packets_out + dropped);
    assert_eq!(totals.packets_in, gone, "nothing is lost");
}

/// One thing changes, and the file takes it back.
#[test]
fn one_thing_is_changed() {
    let running = Running::start_as(&routed());
    running.ask_until(&["rules"], |said| said.code == Some(0));
    let good = |arguments: &[&str]| {
        let said = running.ask(arguments);
        assert_eq!(said.code, Some(0), "{said:?}");
        said.out
    };
    let same = "nothing to change\n";
    assert_eq!(good(&["apply", "edge.toml"]), same);
    let deny = [
        "change", "rule", "add", "deny", "protocol", "tcp", "to_port", "80", "--number", "1",
    ];
    let said = good(&deny);
    assert!(
        said.starts_with("changed: acl; untouched: monitor, router; "),
        "{said}"
    );
    assert!(
        said.contains(" went, ") && said.contains("packets waited for"),
        "{said}"
    );
    assert_eq!(
        good(&["change", "rule", "list"]),
        "   1  deny protocol tcp to_port 80\n   2  deny to_port 9\n"
    );
    running.ask_until(&["rules"], |said| said.out.contains("-> drop (denied)"));
    // Of a rule that is in no file only its number and text are told; another has its line.
    let denied = good(&["rules", "--flow", "tcp * *:80", "--function", "acl"]);
    assert!(
        denied.contains("from acl rule 1: deny protocol tcp to_port 80"),
        "{denied}"
    );
    let json = good(&["rules", "--json", "--flow", "tcp *:80 *"]);
    let rules: Value = serde_json::from_str(&json).expect("JSON");
    assert!(!rules.as_array().expect("a list").is_empty());
    let none = running.ask(&["rules", "--flow", "tcp *:1 *:2"]);
    assert_eq!((none.code, none.out.as_str()), (Some(1), "0 rules\n"));
    good(&["change", "route", "add", "172.31.0.0/16", "via", "lab"]);
    good(&[
        "change",
        "route",
        "replace",
        "172.31.0.0/16",
        "via",
        "discard",
    ]);
    let routes = good(&["change", "route", "list", "--function", "router"]);
    assert_eq!(routes, "0.0.0.0/0 via up\n172.31.0.0/16 via discard\n");
    // Packets meet the first one, and there is no other for them.
    running.ask_until(&["rules", "--function", "router"], |said| {
        said.code == Some(0)
    });
    let said = good(&["change", "route", "delete", "0.0.0.0/0"]);
    let expected = "changed: router; untouched: acl, monitor; ";
    assert!(said.starts_with(expected), "{said}");
    assert!(rules_gone(&said) > 0, "{said}");
    let routes = good(&["change", "route", "list"]);
    assert_eq!(routes, "172.31.0.0/16 via discard\n");
    running.ask_until(&["drops"], |said| said.out.contains("no_route"));
    let said = good(&["apply", "edge.toml"]);
    assert!(
        said.starts_with("changed: acl, router; untouched: monitor; "),
        "{said}"
    );
    assert_eq!(good(&["change", "rule", "list"]), "   1  deny to_port 9\n");
    assert_eq!(good(&["change", "route", "list"]), "0.0.0.0/0 via up\n");
    assert_eq!(good(&["apply", "edge.toml"]), same);
    good(&["change", "rule", "delete", "deny", "to_port", "9"]);
    assert_eq!(good(&["change", "rule", "list"]), "");
    assert_ne!(good(&["apply", "edge.toml"]), same);
    let folder = running.stop();
    let report = folder.report("r");
    let dropped: u64 = report.drops.values().sum();
    let (totals, gone) = (report.totals, report.totals.packets_out + dropped);
    assert_eq!(totals.packets_in, gone, "nothing is lost");
}

/// How many cached rules went because of a change.
fn rules_gone(said: &str) -> u64 {
    let before = said.split(" cached rule").next().expect("words");
    let count = before.rsplit("; ").next().expect("words");
    count.parse().unwrap_or_else(|_| panic!("no count: {said}"))
}

/// A service with a list, a router and generated traffic that both meet.
fn routed() -> String {
    "[service]\nchain = [\"acl\", \"monitor\", \"router\"]\ninside = [\"10.0.0.0/8\"]\n\
     [acl]\ndefault = \"allow\"\nrules = [{ action = \"deny\", to_port = 9 }]\n\
     [router]\nnext_hops = [{ name = \"up\", mac = \"02:00:00:00:01:01\", source_mac = \"02:00:00:00:00:01\", port = 1 },\n\
     { name = \"lab\", mac = \"02:00:00:00:02:01\", source_mac = \"02:00:00:00:00:02\", port = 2 }]\n\
     routes = [{ to = \"0.0.0.0/0\", via = \"up\" }]\n\
     [rule_cache]\nwindow = \"50ms\"\nthreshold = 0\n\
     [traffic]\nflows = 20\narrivals = { process = \"poisson\", rate_pps = 5000.0 }\n"
        .to_owned()
}

/// Backends come and go one by one behind a list, whose cached rules all stay; the file takes it back.
#[test]
fn one_backend_is_changed() {
    let running = Running::start_as(BALANCED);
    running.ask_until(&["rules"], |said| said.code == Some(0));
    let [first, second, third] = ["10.254.0.1:80", "10.254.0.2:80", "10.254.0.3:80"];
    let changed = |arguments: &[&str]| {
        let said = running.ask(arguments);
        let expected = "changed: load_balancer; untouched: acl; 0 cached rules went, ";
        assert!(said.out.starts_with(expected), "{said:?}");
        assert!(!said.out.contains(" went, 0 stayed"), "{said:?}");
        said.err
    };
    let backends = || names(&given(&running.ask(&LOOK)));
    assert_eq!(backends(), [first, second]);
    // What is drained gets no more connections, while the other does.
    changed(&["change", "backend", "drain", first]);
    let drained = format!("{first} drained");
    let before = given(&running.ask(&LOOK));
    assert_eq!(names(&before), [drained.as_str(), second]);
    let said = running.ask_until(&LOOK, |said| given(said)[1].1 > before[1].1);
    assert_eq!(given(&said)[0], before[0]);
    // What is added gets some.
    changed(&["change", "backend", "add", third, "--weight", "3"]);
    let heavy = format!("{third} weight 3");
    assert_eq!(backends(), [drained.as_str(), second, heavy.as_str()]);
    running.ask_until(&LOOK, |said| given(said)[2].1 > 0);
    let service = ["--service", "198.18.0.1:80/tcp"];
    changed(&[&["change", "backend", "remove", first][..], &service].concat());
    assert_eq!(backends(), [second, heavy.as_str()]);
    let said = running.ask(&["change", "backend", "drain", first]);
    assert_eq!(said.code, Some(2), "{said:?}");
    let expected = "10.254.0.1:80 is no backend of 198.18.0.1:80/tcp";
    assert!(said.err.contains(expected), "{said:?}");
    // The last one may be drained, and who does it is told what that means.
    assert_eq!(changed(&["change", "backend", "drain", second]), "");
    let warned = changed(&["change", "backend", "drain", third]);
    let expected =
        "all backends of 198.18.0.1:80/tcp are drained: who opens a connection there is dropped";
    assert!(warned.contains(expected), "{warned}");
    changed(&["apply", "edge.toml"]);
    assert_eq!(backends(), [first, second]);
    assert_eq!(
        running.ask(&["apply", "edge.toml"]).out,
        "nothing to change\n"
    );
    let folder = running.stop();
    let report = folder.report("r");
    let dropped: u64 = report.drops.values().sum();
    let (totals, gone) = (report.totals, report.totals.packets_out + dropped);
    assert_eq!(totals.packets_in, gone, "nothing is lost");
}

const LOOK: [&str; 2] = ["backends", "--json"];

/// The backends that a service tells, each with the connections that it was given.
fn given(said: &Said) -> Vec<(String, u64)> {
    let backends: Vec<Value> = serde_json::from_str(&said.out).expect("JSON");
    let given = |backend: &Value| {
        let mut name = backend["backend"].as_str().expect("a backend").to_owned();
        let weight = backend["weight"].as_u64().expect("a number");
        if weight > 1 {
            name += &format!(" weight {weight}");
        }
        if backend["is_drained"] == true {
            name += " drained";
        }
        (name, backend["opened"].as_u64().expect("a count"))
    };
    backends.iter().map(given).collect()
}

fn names(backends: &[(String, u64)]) -> Vec<String> {
    backends.iter().map(|(name, _)| name.clone()).collect()
}

/// A list in front of a balancer, and clients that open connections all the time. No cached rule is idle
/// for long enough to go by itself.
const BALANCED: &str = "[service]\nchain = [\"acl\", \"load_balancer\"]\ninside = [\"10.0.0.0/8\"]\n\
    [acl]\ndefault = \"allow\"\n\
    [[load_balancer.services]]\nvip = \"198.18.0.1:80\"\nprotocol = \"tcp\"\n\
    backends = [{ endpoint = \"10.254.0.1:80\" }, { endpoint = \"10.254.0.2:80\" }]\n\
    [rule_cache]\nwindow = \"50ms\"\nthreshold = 0\nidle_windows = 255\n\
    [traffic]\nflows = 20\nchurn_per_minute = 6000.0\nserver_packets = false\n\
    arrivals = { process = \"poisson\", rate_pps = 5000.0 }\n\
    [traffic.hosts]\nfirst_client_v4 = \"10.0.0.1\"\n\
    services = [{ address = \"198.18.0.1\", port = 80, protocol = \"tcp\" }]\n";

/// A cached rule names the rule that decided, and the line of the file that has it.
#[test]
fn rules_tell_the_line_of_what_decided() {
    let service = SERVICE.replace(
        "default = \"allow\"\n",
        "default = \"deny\"\nrules = [{ action = \"allow\", from = \"10.0.0.0/8\" }]\n",
    );
    let running = Running::start_as(&service);
    running.ask_until(&["rules"], |said| {
        said.out
            .contains("acl rule 1: allow from 10.0.0.0/8 (line 6)")
    });
    running.stop();
}

/// Bindings between IP versions are listed and ended like those of an address translation.
#[test]
fn a_binding_of_another_version_is_ended() {
    let service = "[service]\nname = \"edge\"\nchain = [\"acl\", \"nat64\", \"monitor\"]\n\
        [acl]\ndefault = \"allow\"\n\
        [nat64]\ninside = [\"2001:db8::/32\"]\nexternal = [\"198.51.100.1\"]\n\
        [traffic]\nflows = 20\nserver_packets = false\narrivals = { process = \"poisson\", rate_pps = 5000.0 }\n\
        [traffic.hosts]\nservices = [{ address = \"64:ff9b::203.0.113.53\", port = 53, protocol = \"udp\" }]\n";
    let running = Running::start_as(service);
    let list = ["change", "binding", "list"];
    let listed = running.ask_until(&list, |said| said.out.lines().count() > 5);
    let line = listed.out.lines().next().expect("a binding");
    let (endpoint, rest) = line
        .strip_prefix("udp ")
        .and_then(|rest| rest.split_once(' '))
        .expect("words");
    assert!(
        endpoint.starts_with("[2001:db8:") && rest.starts_with("as 198.51.100.1:"),
        "{line}"
    );
    // It is one thing, shown in one form.
    let binding = line.split("  ").next().expect("words");
    let is_shown = |said: &Said| said.out.lines().any(|other| other.starts_with(binding));
    running.ask_until(&["bindings"], is_shown);
    let said = running.ask(&["change", "binding", "delete", endpoint]);
    let expected = "changed: nat64; untouched: acl, monitor; ";
    assert!(said.out.starts_with(expected), "{said:?}");
    // The host goes on, and opens another.
    let is_back = format!("udp {endpoint} as ");
    running.ask_until(&list, |said| {
        said.out.lines().any(|line| line.starts_with(&is_back))
    });
    let other = ["change", "binding", "delete", endpoint, "--protocol", "tcp"];
    let said = running.ask(&other);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("has no binding of tcp"), "{said:?}");
    assert_one_binding_ended(&running.stop(), "nat64");
}

/// Forwards come and go one by one; what cannot be is refused, and nothing is changed.
#[test]
fn forwards_change_one_by_one() {
    let running = Running::start();
    let is_there = |said: &crate::folder::Said| said.code != Some(2);
    let none = running.ask_until(&["change", "forward", "list"], is_there);
    assert_eq!(none.out, "");
    let list = || running.ask(&["change", "forward", "list"]).out;
    let forward = |words: &[&str]| running.ask(&[&["change", "forward"], words].concat());
    let said = forward(&[
        "add",
        "198.51.100.1:8080-8081",
        "to",
        "10.0.0.7:80",
        "--protocol",
        "tcp",
    ]);
    assert!(said.out.starts_with("changed: napt; "), "{said:?}");
    let said = forward(&["add", "198.51.100.9", "to", "10.0.0.8"]);
    assert!(said.out.starts_with("changed: napt; "), "{said:?}");
    let both = "tcp 198.51.100.1:8080-8081 to 10.0.0.7:80\n198.51.100.9 to 10.0.0.8\n";
    assert_eq!(list(), both);
    for (words, expected) in [
        (
            &[
                "add",
                "198.51.100.1:8081",
                "to",
                "10.0.0.9:80",
                "--protocol",
                "tcp",
            ][..],
            "198.51.100.1:8081 is forwarded twice",
        ),
        (
            &[
                "add",
                "198.51.100.1:99",
                "to",
                "192.0.2.1:80",
                "--protocol",
                "udp",
            ],
            "192.0.2.1 is in no prefix of inside",
        ),
        (
            &["add", "198.51.100.1", "to", "10.0.0.9"],
            "198.51.100.1 stands for one host",
        ),
        (
            &[
                "add",
                "198.51.100.1:0",
                "to",
                "10.0.0.9:80",
                "--protocol",
                "tcp",
            ],
            "external = \"198.51.100.1:0\": expected",
        ),
        (
            &[
                "add",
                "198.51.100.1:9",
                "to",
                "10.0.0.9:80",
                "--protocol",
                "icmp",
            ],
            "expected tcp or udp",
        ),
        (
            &["delete", "198.51.100.1:8080", "--protocol", "tcp"],
            "there is no forward of 198.51.100.1:8080",
        ),
        (
            &["delete", "198.51.100.1:8080-8081", "--protocol", "udp"],
            "there is no forward of 198.51.100.1:8080-8081",
        ),
    ] {
        let said = forward(words);
        assert_eq!(said.code, Some(2), "{words:?}: {said:?}");
        assert!(said.err.contains(expected), "{words:?}: {said:?}");
        assert_eq!(list(), both);
    }
    let said = forward(&["delete", "198.51.100.1:8080-8081"]);
    assert!(said.out.starts_with("changed: napt; "), "{said:?}");
    assert_eq!(list(), "198.51.100.9 to 10.0.0.8\n");
    let said = forward(&["delete", "198.51.100.9"]);
    assert!(said.out.starts_with("changed: napt; "), "{said:?}");
    assert_eq!(list(), "");
    running.stop();
}

/// A binding is ended, and the host's next packet has another.
#[test]
fn a_binding_is_ended() {
    let running = Running::start();
    let list = ["change", "binding", "list"];
    let listed = running
        .ask_until(&list, |said| said.out.lines().count() > 5)
        .out;
    let line = listed.lines().next().expect("a binding");
    let (protocol, rest) = line.split_once(' ').expect("words");
    let (endpoint, rest) = rest.split_once(' ').expect("words");
    assert!(
        endpoint.starts_with("10.0.") && rest.starts_with("as 198.51.100.1:"),
        "{line}"
    );
    let delete = [
        "change",
        "binding",
        "delete",
        endpoint,
        "--protocol",
        protocol,
    ];
    // Its packets meet a cached rule by now.
    let own = format!("{protocol} {endpoint} *");
    running.ask_until(&["rules", "--flow", &own], |said| said.code == Some(0));
    let said = running.ask(&delete);
    assert!(
        said.out
            .starts_with("changed: napt; untouched: acl, monitor; "),
        "{said:?}"
    );
    assert!(rules_gone(&said.out) > 0, "{said:?}");
    // The host goes on, and opens another.
    let is_back = format!("{protocol} {endpoint} as ");
    running.ask_until(&list, |said| {
        said.out.lines().any(|line| line.starts_with(&is_back))
    });
    let other = if protocol == "tcp" { "udp" } else { "tcp" };
    for (arguments, expected) in [
        (
            [
                "change",
                "binding",
                "delete",
                "10.9.9.9:1",
                "--protocol",
                "tcp",
            ],
            "10.9.9.9:1 has no binding of tcp",
        ),
        (
            ["change", "binding", "delete", endpoint, "--protocol", other],
            "has no binding of",
        ),
        (
            [
                "change",
                "binding",
                "delete",
                "10.9.9.9:1",
                "--protocol",
                "gre",
            ],
            "\"gre\" is not tcp, udp or icmp",
        ),
        (
            [
                "change",
                "binding",
                "delete",
                "10.9.9.9",
                "--protocol",
                "tcp",
            ],
            "\"10.9.9.9\" is ",
        ),
    ] {
        let said = running.ask(&arguments);
        assert_eq!(said.code, Some(2), "{arguments:?}: {said:?}");
        assert!(said.err.contains(expected), "{arguments:?}: {}", said.err);
    }
    assert_eq!(
        running.ask(&["apply", "edge.toml"]).out,
        "nothing to change\n"
    );
    assert_one_binding_ended(&running.stop(), "napt");
}

/// A translation made one binding more than there are: what ended was opened again.
fn assert_one_binding_ended(folder: &Folder, name: &str) {
    let report = folder.report("r");
    let mut functions = report.functions.iter();
    let translation = functions.find(|one| one.name == name);
    let counters = &translation.expect("it is in the chain").counters;
    let (created, live) = (counters["bindings_created"], counters["bindings"]);
    assert_eq!(created, live + 1, "{counters:?}");
}

/// After each refusal the service is what it was, and another try is refused alike.
#[test]
fn wrong_changes_are_refused_and_change_nothing() {
    let service = routed();
    let running = Running::start_as(&service);
    running.ask_until(&["rules"], |said| said.code == Some(0));
    let write = |name: &str, text: &str| running.folder.write(name, text.as_bytes());
    write("wrong.toml", "[service]\nchain = [\"acl\", \"nat46\"]\n");
    write("link.toml", &format!("{service}[link]\nring_frames = 7\n"));
    write(
        "seed.toml",
        &service.replace("[service]", "[service]\nseed = 9"),
    );
    write("run.toml", &format!("{service}[run]\npaths = \"slow\"\n"));
    write(
        "file.toml",
        &service.replace("[router]", "[router]\nroutes_file = \"nowhere\""),
    );
    write(
        "hop.toml",
        &service.replace("via = \"up\"", "via = \"down\""),
    );
    write(
        "rule.toml",
        &service.replace("to_port = 9", "to_port = \"9-5\""),
    );
    write(
        "most.toml",
        &service.replace("[router]", "[router]\nmost_routes = 2"),
    );
    let refused = [
        (&["apply", "wrong.toml"][..], "wrong.toml:2:"),
        (
            &["apply", "link.toml"],
            "link.toml:17:2: [link] differs from the running service",
        ),
        (&["apply", "seed.toml"], "the seed differs"),
        (&["apply", "run.toml"], "[run] differs"),
        (&["apply", "file.toml"], "cannot read routes from"),
        (&["apply", "hop.toml"], "hop.toml:"),
        (&["apply", "rule.toml"], "ends before it begins"),
        (&["apply", "most.toml"], "route to"),
        (
            &["change", "rule", "add", "deny", "tcp"],
            "\"tcp\" is unknown: expected ingress, protocol, from,",
        ),
        (
            &["change", "rule", "add", "deny", "--number", "7"],
            "expected a number from 1 to 2, found 7",
        ),
        (
            &["change", "rule", "delete", "2"],
            "expected a number from 1 to 1, found 2",
        ),
        (
            &["change", "rule", "delete", "deny"],
            "acl: there is no rule \"deny\"",
        ),
        (
            &["change", "rule", "add", "deny", "--function", "firewall"],
            "expected one of acl, monitor, router",
        ),
        (
            &["change", "rule", "add", "deny", "--function", "router"],
            "router: it has no rules",
        ),
        (
            &["change", "route", "add", "0.0.0.0/0", "via", "lab"],
            "there is a route to 0.0.0.0/0 via up already",
        ),
        (
            &["change", "route", "add", "10.0.0.1/8", "via", "lab"],
            "has bits beyond its prefix length",
        ),
        (
            &["change", "route", "add", "10.0.0.0/8", "via", "nobody"],
            "the next hops are up, lab",
        ),
        (
            &["change", "route", "delete", "10.0.0.0/8"],
            "there is no route to 10.0.0.0/8",
        ),
        (
            &["change", "backend", "drain", "10.0.0.1:80"],
            "no function of the chain has backends",
        ),
    ];
    let all_refused = || {
        for (arguments, expected) in &refused {
            let said = running.ask(arguments);
            assert_eq!(said.code, Some(2), "{arguments:?}: {said:?}");
            assert!(said.err.contains(expected), "{arguments:?}: {}", said.err);
        }
    };
    all_refused();
    assert_eq!(
        running.ask(&["apply", "edge.toml"]).out,
        "nothing to change\n"
    );
    assert_eq!(running.ask(&["rules"]).code, Some(0), "it goes on");
    // What was changed before a refusal stays changed, and is no reason to do nothing after it.
    write(
        "open.toml",
        &service.replace(
            "{ action = \"deny\", to_port = 9 }",
            "{ action = \"deny\", to_port = 80 }",
        ),
    );
    assert!(
        running
            .ask(&["apply", "open.toml"])
            .out
            .starts_with("changed: acl")
    );
    assert_eq!(running.ask(&["apply", "link.toml"]).code, Some(2));
    assert_eq!(
        running.ask(&["apply", "open.toml"]).out,
        "nothing to change\n"
    );
    let said = running.ask(&["apply", "edge.toml"]);
    assert!(said.out.starts_with("changed: acl"), "{said:?}");
    all_refused();
    let folder = running.stop();
    let report = folder.report("r");
    let dropped: u64 = report.drops.values().sum();
    let (totals, gone) = (report.totals, report.totals.packets_out + dropped);
    assert_eq!(totals.packets_in, gone, "nothing is lost");
}

#[test]
fn nobody_answers_where_nothing_runs() {
    let folder = Folder::with("edge.toml", SERVICE);
    let said = folder.run(&["rules", "--control", "edge.sock"]);
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
    let said = folder.run(&virtual_time);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("--control needs threads"), "{}", said.err);
}
