//! `cargo xtask installed`: the package is installed on a Debian of its own, and its unit runs there as it is,
//! under a systemd of its own, with packets: it starts, is read again, begun anew, found when it stands still
//! or was killed, and stops.

mod cables;
mod container;

use cables::Cables;
use container::{Container, until};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// What the container, its network and those who ask there take and is not to be had.
pub fn missing() -> Option<&'static str> {
    let mut packages = container::PACKAGES.into_iter();
    packages.find(|package| !super::has_package(package))
}

/// Services, by the driver of their interfaces.
const DRIVERS: [&str; 2] = ["af_packet", "af_xdp"];

/// Questions while a service is begun anew, of which none is to be lost.
const QUESTIONS: u32 = 60;

/// How long a service may take to be there again, with a watchdog of ten seconds.
const LONGEST_RETURN: Duration = Duration::from_secs(40);

/// A container may have no right to raise limits of locked memory, which AF_XDP's buffers are.
const LOCKS: &str =
    "[Service]\nAmbientCapabilities=CAP_IPC_LOCK\nCapabilityBoundingSet=CAP_IPC_LOCK\n";

/// Tries a package.
pub fn works(package: &Path) -> bool {
    let tried = tried(package);
    tried.unwrap_or_else(|error| {
        println!("{error}");
        false
    })
}

fn tried(package: &Path) -> io::Result<bool> {
    container::install(package)?;
    DRIVERS.into_iter().try_for_each(write_service)?;
    let cables = Cables::lay().ok_or_else(|| io::Error::other("no network namespaces"))?;
    let container = Container::start(cables::MIDDLE)?;
    Ok(DRIVERS.into_iter().all(|driver| {
        let unit = format!("twinpath@{driver}");
        let service = Service {
            container: &container,
            cables: &cables,
            driver,
            unit,
        };
        service.passes_all()
    }))
}

/// The file of a firewall as a bump in the wire, and what its unit takes in a container beside what it has.
fn write_service(driver: &str) -> io::Result<()> {
    let files = container::files();
    fs::write(file_of(driver), service_file(driver, "deny"))?;
    let folder = files.join(format!("etc/systemd/system/twinpath@{driver}.service.d"));
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("container.conf"), LOCKS)
}

fn file_of(driver: &str) -> PathBuf {
    container::files().join(format!("etc/twinpath/{driver}.toml"))
}

fn service_file(driver: &str, default: &str) -> String {
    format!(
        "[service]\nname = \"{driver}\"\nchain = [\"firewall\"]\nunparsed = \"forward\"\n\
         [ports]\nleft = {{ device = \"eth1\", driver = \"{driver}\" }}\n\
         right = {{ device = \"eth2\", driver = \"{driver}\" }}\n\
         [firewall]\ndefault = \"{default}\"\nper_host_connections = 1_000\n\
         rules = [{{ action = \"allow\", from = \"10.9.0.1\" }}]\n"
    )
}

/// A service of the package.
struct Service<'a> {
    container: &'a Container,
    cables: &'a Cables,
    driver: &'a str,
    unit: String,
}

impl Service<'_> {
    fn passes_all(&self) -> bool {
        self.passes("it starts, and packets pass", Self::starts)
            && self.passes(
                "it has a user of its own, and few rights",
                Self::has_few_rights,
            )
            && self.passes("what is wrong is not taken, and told", Self::refuses)
            && self.passes("what is changed is taken", Self::reloads)
            && self.passes("a restart loses nothing", Self::restarts)
            && self.passes(
                "the watchdog finds it when it stands still",
                Self::stands_still,
            )
            && self.passes("it ends, and has written its report", Self::ends)
    }

    fn passes(&self, name: &str, check: fn(&Self) -> Result<(), String>) -> bool {
        let outcome = check(self);
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("{}: {name}: {word}", self.unit);
        if let Err(why) = &outcome {
            println!(
                "{why}\n{}",
                self.said(&["journalctl", "--no-pager", "--unit", &self.unit])
            );
        }
        outcome.is_ok()
    }

    /// What a program says in the container; nothing if it fails.
    fn said(&self, words: &[&str]) -> String {
        let output = self.container.run(words);
        let output = output.ok().filter(|output| output.status.success());
        output.map_or_else(String::new, |output| {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        })
    }

    fn manager(&self, words: &[&str]) -> bool {
        let words = [&["systemctl"], words, &[&self.unit]].concat();
        let output = self.container.run(&words);
        output.is_ok_and(|output| output.status.success())
    }

    fn property(&self, name: &str) -> String {
        self.said(&[
            "systemctl",
            "show",
            "--property",
            name,
            "--value",
            &self.unit,
        ])
    }

    fn starts(&self) -> Result<(), String> {
        ensure(self.manager(&["start"]), "it does not start")?;
        let status = self.property("StatusText");
        ensure(status == "ready", &format!("its status is {status:?}"))?;
        self.carries(5)
    }

    fn carries(&self, questions: u32) -> Result<(), String> {
        let answers = self.cables.answers(questions);
        let what = format!("{answers} answers to {questions} questions");
        ensure(answers == questions, &what)
    }

    fn has_few_rights(&self) -> Result<(), String> {
        let status = format!("/proc/{}/status", self.property("MainPID"));
        let status = self.said(&["cat", &status]);
        let of = |name: &str| {
            let mut lines = status.lines().filter_map(|line| line.strip_prefix(name));
            lines.next().unwrap_or_default().trim().to_owned()
        };
        let rights = u64::from_str_radix(&of("CapEff:"), 16).unwrap_or(u64::MAX);
        let user = of("Uid:");
        let is_own = !user.is_empty() && user.split_whitespace().all(|user| user != "0");
        ensure(
            is_own && rights.count_ones() <= 3 && of("NoNewPrivs:") == "1" && of("Seccomp:") == "2",
            &status,
        )
    }

    fn refuses(&self) -> Result<(), String> {
        self.write("dney")?;
        ensure(!self.manager(&["reload"]), "a mistake is taken")?;
        let journal = self.said(&["journalctl", "--no-pager", "--unit", &self.unit]);
        ensure(
            journal.contains("dney"),
            "the journal does not name the mistake",
        )?;
        self.carries(5)
    }

    fn reloads(&self) -> Result<(), String> {
        self.write("allow")?;
        ensure(self.manager(&["reload"]), "the file is not taken")?;
        self.carries(5)
    }

    fn write(&self, default: &str) -> Result<(), String> {
        let text = service_file(self.driver, default);
        fs::write(file_of(self.driver), text).map_err(|error| error.to_string())
    }

    fn restarts(&self) -> Result<(), String> {
        thread::scope(|scope| {
            let asks = scope.spawn(|| self.carries(QUESTIONS));
            thread::sleep(Duration::from_secs(1));
            ensure(self.manager(&["restart"]), "it is not begun anew")?;
            asks.join().unwrap_or_else(|_| Err("nobody asked".into()))
        })
    }

    fn stands_still(&self) -> Result<(), String> {
        let process = self.property("MainPID");
        let stopped = self.manager(&["kill", "--signal", "STOP", "--kill-who", "main"]);
        ensure(stopped, "it goes on")?;
        let is_another = || {
            let now = self.property("MainPID");
            now != process && now != "0" && self.property("ActiveState") == "active"
        };
        ensure(until(LONGEST_RETURN, is_another), "it is not begun anew")?;
        self.carries(5)
    }

    fn ends(&self) -> Result<(), String> {
        ensure(self.manager(&["stop"]), "it does not stop")?;
        let result = self.property("Result");
        ensure(result == "success", &format!("its result is {result}"))?;
        let report = format!(
            "var/lib/private/twinpath-{}/report/report.json",
            self.driver
        );
        let report = container::files().join(report);
        let has_written = fs::metadata(report).is_ok_and(|file| file.len() > 0);
        ensure(has_written, "there is no report")
    }
}

fn ensure(is_so: bool, else_what: &str) -> Result<(), String> {
    is_so.then_some(()).ok_or_else(|| else_what.to_owned())
}
