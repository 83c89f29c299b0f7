//! What is probably not meant so in a service file is told by every command that reads it, with file,
//! line and column.

use crate::folder::{Folder, interrupt};
use std::process::Child;
use std::time::{Duration, Instant};

const SERVICE: &str = r#"[service]
chain = ["acl", "firewall", "napt", "load_balancer"]
inside = ["10.0.0.0/8"]
[acl]
rules = [
    { action = "allow" },
    { action = "deny", protocol = "tcp", to_port = 25 },
]
[monitor]
[firewall]
rules = [{ action = "allow", from = "10.0.0.0/8" }]
[napt]
inside = ["10.0.0.0/8"]
external = ["198.51.100.1"]
forward = [
    { protocol = "tcp", external = "198.51.100.1:8080", to = "10.0.0.9:80" },
]
[[load_balancer.services]]
vip = "198.51.100.1:443"
protocol = "udp"
backends = [{ endpoint = "192.0.2.1:443" }]
[traffic]
flows = 2
arrivals = { process = "poisson", rate_pps = 1000.0 }
"#;

/// A rule that nothing comes to, a table that nobody uses, a forward that is denied, and a service
/// at an address of the translation.
const WARNINGS: [&str; 4] = [
    "x.toml:7:5: no packet comes to this rule: rule 1 (allow) decides all that it would match (line 6)\n",
    "x.toml:9:2: the chain has no monitor: this table is not used\n",
    "x.toml:16:5: no connection from outside ever comes by this forward: firewall denies all of them",
    "x.toml:19:1: 198.51.100.1:443 is one of the external addresses of napt, too",
];

/// Each warning, once, in the order of the file.
fn assert_all_are_told(command: &str, err: &str) {
    let told: Vec<&str> = err.split("warning: ").skip(1).collect();
    assert_eq!(told.len(), WARNINGS.len(), "{command}: {err}");
    for (told, expected) in told.iter().zip(WARNINGS) {
        // Some commands tell a file by its whole path.
        let place = told.find("x.toml:").unwrap_or(0);
        let message = &told[place..];
        assert!(
            message.starts_with(expected),
            "{command}: {expected:?} in {err}"
        );
    }
}

#[test]
fn commands_that_read_a_file_tell_all_warnings() {
    let few = SERVICE.replace("[traffic]", "[traffic]\npackets = 10");
    let folder = Folder::with("x.toml", &few);
    for command in [
        &["validate", "x.toml"][..],
        &["explain", "x.toml"],
        &["run", "x.toml", "--execution", "virtual", "--no-report"],
    ] {
        let said = folder.succeed(command);
        assert_all_are_told(command[0], &said.err);
    }
}

/// Applying a file tells what is in it, also when the service has nothing to change.
#[test]
fn apply_tells_all_warnings() {
    let folder = Folder::with("x.toml", SERVICE);
    let mut running = Stopped(folder.start(&["run", "x.toml", "--control", "s", "--no-report"]));
    let deadline = Instant::now() + Duration::from_secs(60);
    while !folder.path("s").exists() {
        assert!(Instant::now() < deadline, "no control socket");
        std::thread::sleep(Duration::from_millis(20));
    }
    let said = folder.succeed(&["apply", "x.toml", "--control", "s"]);
    assert!(said.out.starts_with("nothing to change"), "{said:?}");
    assert_all_are_told("apply", &said.err);
    interrupt(&running.0);
    assert!(running.0.wait().expect("it ends").success());
}

/// A test that fails leaves nothing running.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
