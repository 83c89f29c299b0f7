//! A Debian of its own under a systemd of its own, in a container: what a package does where it is installed.

use crate::{root, succeeds, target_folder};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What makes one, starts it, and gives it cables.
pub const PACKAGES: [&str; 4] = [
    "debootstrap",
    "systemd-container",
    "iproute2",
    "iputils-ping",
];

/// What it has beside the base.
const INSIDE: &str = "--include=systemd,systemd-sysv,dbus";

/// How long it may take to start.
const LONGEST_START: Duration = Duration::from_secs(60);

/// One that runs until this is dropped.
pub struct Container {
    nspawn: Child,
    /// Its first process.
    first: u32,
}

/// The folder of its files.
pub fn files() -> PathBuf {
    target_folder(&root()).join("installed")
}

/// Makes its files, once, and installs a package there.
pub fn install(package: &Path) -> io::Result<()> {
    let files = files();
    if !files.join("usr/bin/systemctl").exists() {
        let _ = fs::remove_dir_all(&files);
        let mut make = Command::new("debootstrap");
        make.args(["--variant=minbase", INSIDE, &release()?]);
        ensure(make.arg(&files).stdout(Stdio::null()))?;
    }
    fs::copy(package, files.join("root/twinpath.deb"))?;
    let words = ["dpkg", "--install", "/root/twinpath.deb"];
    ensure(Command::new("chroot").arg(&files).args(words))
}

/// The Debian that this is.
fn release() -> io::Result<String> {
    let about = fs::read_to_string("/etc/os-release")?;
    let mut names = about
        .lines()
        .filter_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let name = names.next().ok_or_else(|| io::Error::other("no Debian"))?;
    Ok(name.trim_matches('"').to_owned())
}

impl Container {
    /// Starts one in a network namespace.
    pub fn start(namespace: &str) -> io::Result<Self> {
        let log = fs::File::create(files().with_extension("log"))?;
        let mut nspawn = Command::new("systemd-nspawn")
            .args(["--boot", "--register=no", "--keep-unit", "--capability=all"])
            .args(["--system-call-filter=bpf", "--directory"])
            .arg(files())
            .arg(format!("--network-namespace-path=/run/netns/{namespace}"))
            .stdin(Stdio::null())
            .stderr(log.try_clone()?)
            .stdout(log)
            .spawn()?;
        match first_process(&mut nspawn) {
            Ok(first) => Ok(Self { nspawn, first }),
            Err(error) => {
                let _ = nspawn.kill();
                let _ = nspawn.wait();
                Err(error)
            }
        }
    }

    /// Runs a program there.
    pub fn run(&self, words: &[&str]) -> io::Result<Output> {
        inside(self.first, words).output()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.run(&["systemctl", "poweroff"]);
        let _ = until(LONGEST_START, || {
            self.nspawn.try_wait().is_ok_and(|end| end.is_some())
        });
        let _ = self.nspawn.kill();
        let _ = self.nspawn.wait();
    }
}

/// The first process of a container, once services can be started there.
fn first_process(nspawn: &mut Child) -> io::Result<u32> {
    let children = format!("/proc/{0}/task/{0}/children", nspawn.id());
    let mut first = None;
    let is_there = until(LONGEST_START, || {
        let said = fs::read_to_string(&children).unwrap_or_default();
        first = said
            .split_whitespace()
            .next()
            .and_then(|id| id.parse().ok());
        nspawn.try_wait().is_ok_and(|end| end.is_some()) || first.is_some_and(is_up)
    });
    let log = || fs::read_to_string(files().with_extension("log")).unwrap_or_default();
    match first.filter(|_| is_there) {
        Some(first) if is_up(first) => Ok(first),
        _ => Err(io::Error::other(format!("no container: {}", log()))),
    }
}

fn is_up(first: u32) -> bool {
    let words = ["systemctl", "is-active", "--quiet", "multi-user.target"];
    let said = inside(first, &words).stderr(Stdio::null()).status();
    said.is_ok_and(|status| status.success())
}

fn inside(first: u32, words: &[&str]) -> Command {
    let mut enter = Command::new("nsenter");
    enter.args(["--all", "--target", &first.to_string(), "--"]);
    enter.args(words);
    enter
}

/// Whether something comes true in so much time.
pub fn until(time: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !is_so() {
        if began.elapsed() > time {
            return false;
        }
        thread::sleep(Duration::from_millis(100));
    }
    true
}

fn ensure(command: &mut Command) -> io::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let said = succeeds(command);
    said.then_some(())
        .ok_or_else(|| io::Error::other(format!("{name} fails")))
}
