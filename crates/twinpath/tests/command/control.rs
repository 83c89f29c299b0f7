//! The control socket and signals: who may ask, for how long, and what becomes of it.

use crate::folder::{Folder, signal};
use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const SERVICE: &str = "[service]\nname = \"edge\"\nchain = [\"acl\", \"router\"]\ninside = [\"10.0.0.0/8\"]\n\
    [acl]\ndefault = \"allow\"\n\
    [router]\nroutes_file = \"a.routes\"\n\
    next_hops = [{ name = \"up\", mac = \"02:00:00:00:01:01\", source_mac = \"02:00:00:00:00:01\", port = 1 }]\n\
    [rule_cache]\nwindow = \"50ms\"\nthreshold = 0\n\
    [traffic]\nflows = 20\narrivals = { process = \"poisson\", rate_pps = 2000.0 }\n";

/// A service that runs until it is stopped.
struct Running {
    folder: Folder,
    child: Child,
    /// What it says on standard error, line by line.
    said: Receiver<String>,
}

impl Running {
    fn start() -> Self {
        Self::start_with("")
    }

    /// With more arguments.
    fn start_with(arguments: &str) -> Self {
        let folder = Folder::with("edge.toml", SERVICE);
        folder.write("a.routes", b"0.0.0.0/0 up\n");
        // The socket's mode does not depend on the umask.
        let run =
            format!("umask 0000; exec \"$0\" run edge.toml --control s --report r {arguments}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &run, env!("CARGO_BIN_EXE_twinpath")]);
        shell.current_dir(folder.path("")).stdin(Stdio::null());
        shell.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = shell.spawn().expect("a shell");
        let errors = BufReader::new(child.stderr.take().expect("a pipe"));
        let (sender, said) = channel();
        std::thread::spawn(move || {
            let mut lines = errors.lines().map_while(Result::ok);
            lines.all(|line| sender.send(line).is_ok())
        });
        let running = Self {
            folder,
            child,
            said,
        };
        running.wait("it listens", || running.folder.path("s").exists());
        running
    }

    fn wait(&self, what: &str, is_so: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until standard error has a line with this.
    fn wait_for_line(&self, expected: &str) -> String {
        loop {
            let line = self.said.recv_timeout(Duration::from_secs(60));
            let line = line.unwrap_or_else(|_| panic!("nothing with {expected:?}"));
            if line.contains(expected) {
                return line;
            }
        }
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.folder.path("s")).expect("it listens");
        let timeout = Some(Duration::from_secs(60));
        stream.set_read_timeout(timeout).expect("possible");
        stream
    }

    fn routes(&self) -> String {
        let list = ["change", "route", "list", "--control", "s"];
        self.folder.succeed(&list).out
    }

    fn stop(mut self) -> Folder {
        signal(&self.child, "INT");
        assert!(self.child.wait().expect("it ends").success());
        assert!(!self.folder.path("s").exists(), "the socket is removed");
        std::mem::replace(&mut self.folder, Folder::new())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_user_alone_may_connect_whatever_the_umask() {
    let running = Running::start();
    let socket = running.folder.path("s").metadata().expect("a socket");
    assert_eq!(socket.permissions().mode() & 0o777, 0o600);
    running.stop();
}

const NOBODY: u32 = 65534;

/// Whether this test may be another user.
fn may_be_another() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        let message = "another user's connection needs root";
        assert!(std::env::var_os("CI").is_none(), "{message}");
        eprintln!("skipped: {message}");
    }
    is_root
}

impl Running {
    /// Says who may do what with the socket or its folder.
    fn open(&self, path: &str, mode: u32) {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(self.folder.path(path), mode).expect("it is ours");
    }

    /// What a user is answered who asks something incomplete. A thread has a user of its own, and groups.
    fn answer_to(&self, user: Option<(u32, &[u32])>) -> String {
        let socket = self.folder.path("s");
        let ask = || {
            if let Some((user, groups)) = user {
                let groups: Vec<Gid> = groups.iter().map(|&group| Gid::from_raw(group)).collect();
                set_thread_groups(&groups).expect("root may");
                let (user, group) = (Uid::from_raw(user), Gid::from_raw(user));
                set_thread_res_gid(group, group, group).expect("root may");
                set_thread_res_uid(user, user, user).expect("root may");
            }
            let mut client = UnixStream::connect(&socket).expect("the mode lets all");
            let timeout = Some(Duration::from_secs(60));
            client.set_read_timeout(timeout).expect("a socket");
            // It may be closed already.
            let _ = client.write_all(b"{\"request\":\"rules\"}\n");
            let mut answer = String::new();
            let mut reader = BufReader::new(client);
            reader.read_line(&mut answer).expect("it says why");
            answer
        };
        std::thread::scope(|scope| scope.spawn(ask).join().expect("no panic"))
    }
}

const IS_HEARD: &str = "the request cannot be read";
const IS_REFUSED: &str = "expected the user that the service runs as";

/// The file's mode is not all that keeps other users out: who they are is asked of the system.
#[test]
fn another_user_is_refused_whatever_the_files_mode() {
    if !may_be_another() {
        return;
    }
    let running = Running::start();
    let heard = running.answer_to(None);
    running.open("", 0o755);
    running.open("s", 0o666);
    let refused = running.answer_to(Some((NOBODY, &[])));
    assert!(heard.contains(IS_HEARD), "{heard}");
    assert!(refused.contains(IS_REFUSED), "{refused}");
    running.stop();
}

/// Members of the group may ask, whichever of their groups it is, and however many they have.
#[test]
fn members_of_the_group_are_heard() {
    const GROUP: u32 = 4242;
    if !may_be_another() {
        return;
    }
    let running = Running::start_with(&format!("--control-group {GROUP}"));
    running.open("", 0o755);
    running.open("s", 0o666);
    let many: Vec<u32> = (5000..5300).chain([GROUP]).collect();
    for (groups, expected) in [
        (&[GROUP][..], IS_HEARD),
        (&many, IS_HEARD),
        (&many[..300], IS_REFUSED),
        (&[], IS_REFUSED),
    ] {
        let answer = running.answer_to(Some((NOBODY, groups)));
        assert!(answer.contains(expected), "{groups:?}: {answer}");
    }
    running.stop();
}

/// Those who connect and say nothing, or half of something, keep nobody waiting.
#[test]
fn silent_clients_keep_nobody_waiting() {
    let running = Running::start();
    let silent: Vec<_> = (0..20).map(|_| running.connect()).collect();
    for mut one in &silent {
        one.write_all(b"{\"request\":").expect("it listens");
    }
    assert_eq!(running.routes(), "0.0.0.0/0 via up\n");
    drop(silent);
    let mut wrong = running.connect();
    wrong.write_all(b"sing\n").expect("it listens");
    let mut answer = String::new();
    wrong.read_to_string(&mut answer).expect("an answer");
    assert!(answer.contains("the request cannot be read"), "{answer}");
    assert_eq!(running.routes(), "0.0.0.0/0 via up\n");
    let report = running.stop().report("r");
    let control = report.control.expect("there was a socket");
    assert_eq!(
        (control.answered, control.unreadable),
        (2, 21),
        "{control:?}"
    );
    assert!(
        report
            .warnings
            .iter()
            .any(|told| told.contains("21 unreadable"))
    );
}

/// Where more clients connect than are served at a time, those that say nothing make room.
#[test]
fn the_number_of_clients_is_bounded() {
    let running = Running::start();
    let mut silent: Vec<_> = (0..64).map(|_| running.connect()).collect();
    running.routes();
    let mut answer = String::new();
    silent[0].read_to_string(&mut answer).expect("an answer");
    assert!(answer.contains("too many clients"), "{answer}");
    running.routes();
    drop(silent);
    let control = running.stop().report("r").control;
    let control = control.expect("there was a socket");
    assert!(control.shed >= 32 && control.too_many == 0, "{control:?}");
}

/// A service whose pipe has brought no packet yet answers all the same.
#[test]
fn who_asks_before_the_first_packet_is_answered() {
    let folder = Folder::with("edge.toml", SERVICE);
    folder.write("a.routes", b"0.0.0.0/0 up\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_twinpath"));
    command.args(["run", "edge.toml", "--in", "-", "--control", "s"]);
    command.current_dir(folder.path("")).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).spawn().expect("it runs");
    while !folder.path("s").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let rules = folder.run(&["rules", "--control", "s"]).out;
    let change = folder.run(&[
        "change",
        "route",
        "add",
        "10.9.0.0/16",
        "via",
        "up",
        "--control",
        "s",
    ]);
    drop(child.stdin.take());
    child.wait().expect("it ends");
    assert!(
        rules == "0 rules\n" && change.err.contains("no packet has come yet"),
        "{change:?}"
    );
}

/// A service opens no file that somebody names at its socket: what a file says comes from whoever
/// may read it.
#[test]
fn files_are_read_by_whoever_asks() {
    let running = Running::start();
    let secret = running.folder.path("secret");
    std::fs::write(&secret, "root:x:secret\n").expect("a file");
    let text = SERVICE.replace("a.routes", &secret.to_string_lossy());
    let ask = |files: &str| {
        let path = running.folder.path("edge.toml");
        let request =
            serde_json::json!({ "request": "apply", "text": text, "path": path, "files": {} });
        let request = request.to_string().replace("\"files\":{}", files);
        let mut client = running.connect();
        writeln!(client, "{request}").expect("it listens");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("an answer");
        answer
    };
    let answer = ask("\"files\":{}");
    assert!(
        answer.contains("it was not sent") && !answer.contains("root:x"),
        "{answer}"
    );
    let sent = format!("\"files\":{{{secret:?}:\"10.0.0.0/8 up\\n\"}}");
    assert!(ask(&sent).contains("\"answer\":\"applied\""));
    assert_eq!(running.routes(), "10.0.0.0/8 via up\n");
    running.stop();
}

/// Neither the command nor the service waits for somebody to write to a pipe.
#[test]
fn a_pipe_in_place_of_a_file_keeps_nobody_waiting() {
    let running = Running::start();
    let pipe = running.folder.path("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|status| status.success()), "a named pipe");
    running
        .folder
        .write("new.toml", SERVICE.replace("a.routes", "pipe").as_bytes());
    let said = running.folder.fail(
        &["apply", "new.toml", "--control", "s"],
        "it is no regular file",
    );
    assert!(said.err.contains("new.toml:8:1: "), "{said:?}");
    assert_eq!(running.routes(), "0.0.0.0/0 via up\n");
    running.stop();
}

/// A mistake far to the right of its line is told like any other.
#[test]
fn a_mistake_in_a_very_long_line_is_told() {
    let running = Running::start();
    let many = "{ action = \"deny\", to_port = 1 }, ".repeat(3000);
    let rules = format!("default = \"allow\"\nrules = [{many}{{ action = \"sing\" }}]");
    let text = SERVICE.replace("default = \"allow\"", &rules);
    running.folder.write("new.toml", text.as_bytes());
    let said = running.folder.run(&["apply", "new.toml", "--control", "s"]);
    assert_eq!(said.code, Some(2));
    assert!(
        said.err.contains("new.toml:7:") && said.err.contains("sing"),
        "{said:?}"
    );
    assert!(!said.err.contains("panicked"), "{said:?}");
    assert_eq!(running.routes(), "0.0.0.0/0 via up\n");
    running.stop();
}

#[test]
fn a_hangup_makes_the_service_what_its_file_says() {
    let running = Running::start();
    running
        .folder
        .write("a.routes", b"0.0.0.0/0 up\n10.7.0.0/16 discard\n");
    signal(&running.child, "HUP");
    let told = running.wait_for_line("service file read again");
    assert!(told.contains("changed: router; untouched: acl"), "{told}");
    assert_eq!(
        running.routes(),
        "0.0.0.0/0 via up\n10.7.0.0/16 via discard\n"
    );
    running.folder.write("a.routes", b"0.0.0.0/0 down\n");
    signal(&running.child, "HUP");
    let told = running.wait_for_line("service file read again");
    assert!(told.contains("stays as it was"), "{told}");
    assert_eq!(
        running.routes(),
        "0.0.0.0/0 via up\n10.7.0.0/16 via discard\n"
    );
    running
        .folder
        .write("a.routes", b"0.0.0.0/0 up\n10.7.0.0/16 discard\n");
    signal(&running.child, "HUP");
    let told = running.wait_for_line("service file read again");
    assert!(told.contains("nothing to change"), "{told}");
    let report = running.stop().report("r");
    let (totals, dropped) = (report.totals, report.dropped());
    assert_eq!(
        totals.packets_in,
        totals.packets_out + dropped,
        "nothing is lost"
    );
}

/// The file that was applied last is the service's: it is told, and read again at a hangup.
#[test]
fn a_hangup_reads_the_file_that_was_applied() {
    let running = Running::start();
    let (new, old) = (
        running.folder.path("new.toml"),
        running.folder.path("edge.toml"),
    );
    let apply = |name: &str| {
        running
            .folder
            .succeed(&["apply", name, "--control", "s"])
            .out
    };
    let denying = SERVICE.replace("default = \"allow\"", "default = \"deny\"");
    running.folder.write("new.toml", SERVICE.as_bytes());
    let from_now_on =
        |path: &std::path::Path| format!("SIGHUP reads {} from now on\n", path.display());
    assert_eq!(
        apply("new.toml"),
        format!("nothing to change\n{}", from_now_on(&new))
    );
    assert_eq!(apply("new.toml"), "nothing to change\n");
    // What the run began with counts no more.
    running.folder.write("edge.toml", b"no service");
    running.folder.write("new.toml", denying.as_bytes());
    signal(&running.child, "HUP");
    let told = running.wait_for_line("service file read again");
    let expected = format!("service file read again: {}: changed: acl", new.display());
    assert!(told.starts_with(&expected), "{told}");
    running.folder.write("edge.toml", SERVICE.as_bytes());
    assert!(apply("edge.toml").ends_with(&from_now_on(&old)));
    running.stop();
}

/// Whichever way a file is read again, what is probably not meant so in it is told.
#[test]
fn apply_and_a_hangup_tell_warnings() {
    let running = Running::start();
    let covered = "default = \"allow\"\nrules = [\n    { action = \"allow\", protocol = \"tcp\" },\n    { action = \"deny\", protocol = \"tcp\", to_port = 25 },\n]";
    let text = SERVICE.replace("default = \"allow\"", covered);
    running.folder.write("new.toml", text.as_bytes());
    let said = running
        .folder
        .succeed(&["apply", "new.toml", "--control", "s"]);
    assert!(said.out.starts_with("changed: acl"), "{said:?}");
    let expected = "new.toml:9:5: no packet comes to this rule: rule 1 (allow protocol tcp)";
    assert!(
        said.err.contains("warning: ") && said.err.contains(expected),
        "{said:?}"
    );
    signal(&running.child, "HUP");
    let told = running.wait_for_line("new.toml:9:5: no packet comes to this rule");
    assert!(told.starts_with("warning: "), "{told}");
    let told = running.wait_for_line("service file read again");
    assert!(told.contains("new.toml: nothing to change"), "{told}");
    running.stop();
}

/// Rules get older also when no packet of theirs comes to the workers.
#[test]
fn rules_get_older() {
    let running = Running::start();
    let oldest = || {
        let said = running.folder.run(&["rules", "--json", "--control", "s"]);
        let rules: serde_json::Value = serde_json::from_str(&said.out).unwrap_or_default();
        let ages = rules.as_array().into_iter().flatten();
        ages.filter_map(|rule| rule["age_ns"].as_u64()).max()
    };
    running.wait("a rule", || oldest().is_some());
    let before = oldest().expect("a rule");
    running.wait("it gets older", || {
        oldest().is_some_and(|age| age > before + 200_000_000)
    });
    running.stop();
}
