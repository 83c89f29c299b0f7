//! What a running service tells from outside: figures and health over HTTP, its log, and the
//! service manager.

use crate::folder::{Folder, interrupt, signal};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use twinpath_netns::has_program;

/// Packets of both kinds of element, for as long as somebody watches.
const SERVICE: &str = "[service]\nname = \"edge\"\nchain = [\"acl\", \"firewall\"]\n\
    [acl]\ndefault = \"allow\"\n[firewall]\ndefault = \"allow\"\n\
    [traffic]\nflows = 20\narrivals = { process = \"poisson\", rate_pps = 5000.0 }\n";

const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A service that runs until it is stopped.
struct Running {
    folder: Folder,
    child: Child,
    port: u16,
}

impl Running {
    fn start(flags: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        let port = free_port();
        let metrics = format!("[metrics]\nlisten = \"127.0.0.1:{port}\"\n");
        let folder = Folder::with("edge.toml", &[SERVICE, &metrics].concat());
        let run = ["run", "edge.toml", "--report", "r"];
        let mut command = folder.command(&[&run[..], flags].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        change(&mut command);
        let child = command.spawn().expect("the command can be run");
        Self {
            folder,
            child,
            port,
        }
    }

    /// What a path answers: its status and its body; nothing while nobody listens.
    fn asked(&self, path: &str) -> Option<(String, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?;
        Some((status.to_owned(), body.to_owned()))
    }

    fn asked_until(&self, path: &str, is_wanted: impl Fn(&str, &str) -> bool) -> String {
        let deadline = Instant::now() + LONGEST_WAIT;
        loop {
            let answer = self.asked(path);
            if let Some((status, body)) = &answer
                && is_wanted(status, body)
            {
                return body.clone();
            }
            assert!(Instant::now() < deadline, "{path}: {answer:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it with Ctrl-C; nothing of it has failed.
    fn end(mut self) {
        interrupt(&self.child);
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}");
    }

    /// Ends it with Ctrl-C, and returns what it said on standard error.
    fn stop(self) -> (Folder, String) {
        let (folder, [_, said]) = self.stop_saying();
        (folder, said)
    }

    /// The same, with what it said on standard output in front.
    fn stop_saying(mut self) -> (Folder, [String; 2]) {
        interrupt(&self.child);
        let streams: [Option<Box<dyn Read>>; 2] = [
            self.child.stdout.take().map(|one| Box::new(one) as _),
            self.child.stderr.take().map(|one| Box::new(one) as _),
        ];
        let said = streams.map(|stream| {
            let mut said = String::new();
            let mut stream = stream.expect("a pipe");
            stream.read_to_string(&mut said).expect("it can be read");
            said
        });
        assert!(self.child.wait().expect("it ends").success(), "{said:?}");
        (std::mem::replace(&mut self.folder, Folder::new()), said)
    }
}

/// A test that fails leaves nothing running.
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it is bound").port()
}

fn sample(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|value| value.trim().parse().ok());
    value.unwrap_or_else(|| panic!("{name} is not told:\n{text}"))
}

#[test]
fn figures_are_told_over_http_and_agree_with_the_report() {
    let running = Running::start(&["--quiet"], |_| {});
    let (received, fast) = (
        "twinpath_received_packets_total",
        "twinpath_path_packets_total{path=\"fast\"}",
    );
    let text = running.asked_until("/metrics", |status, body| {
        status == "200" && body.contains(fast) && sample(body, fast) > 100
    });
    let later = running.asked_until("/metrics", |_, body| {
        sample(body, received) > sample(&text, received)
    });
    assert!(later.contains("twinpath_function_value{function=\"firewall\","));
    assert!(
        sample(
            &later,
            "twinpath_rules_active{element=\"0\",functions=\"acl\"}"
        ) > 0
    );
    assert_eq!(
        running.asked_until("/healthz", |status, _| status == "200"),
        "ready\n"
    );
    let unknown = running.asked("/secrets").expect("it listens");
    assert_eq!(unknown.0, "404");
    let (folder, _) = running.stop();
    let report = folder.report("r");
    assert!(report.totals.packets_in >= sample(&later, received));
    // What is gauged and what is counted once: the same as at the end.
    let slots = sample(&later, "twinpath_slots_capacity");
    assert_eq!(report.slots.capacity, slots);
    let capacity = "twinpath_rules_capacity";
    let element = &report.rules.elements[0];
    let functions = element.functions.join(",");
    let capacity = format!("{capacity}{{element=\"0\",functions=\"{functions}\"}}");
    assert_eq!(element.counts.table.capacity, sample(&later, &capacity));
    check_by_prometheus(&later);
}

/// What Prometheus itself says of the text.
fn check_by_prometheus(text: &str) {
    if !has_program("promtool", "prometheus") {
        return;
    }
    let mut tool = Command::new("promtool");
    let tool = tool.args(["check", "metrics"]).stdin(Stdio::piped());
    let tool = tool.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tool = tool.spawn().expect("it is there");
    let mut stdin = tool.stdin.take().expect("a pipe");
    stdin.write_all(text.as_bytes()).expect("it reads");
    drop(stdin);
    let said = tool.wait_with_output().expect("it ends");
    assert!(said.status.success(), "{said:?}\n{text}");
}

/// What is in one of the kernel's tables of sockets of this process: whole lines.
fn sockets_of(process: u32) -> Vec<String> {
    let number = |file: std::fs::DirEntry| {
        let to = std::fs::read_link(file.path()).ok()?;
        let to = to.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        Some(to.to_owned())
    };
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).expect("it runs");
    let own: Vec<_> = files.flatten().filter_map(number).collect();
    let mut found = Vec::new();
    for table in [
        "tcp", "tcp6", "udp", "udp6", "udplite", "udplite6", "raw", "raw6",
    ] {
        let path = format!("/proc/{process}/net/{table}");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let is_own = |line: &&str| {
            line.split(' ')
                .any(|word| own.iter().any(|one| one == word))
        };
        found.extend(text.lines().skip(1).filter(is_own).map(str::to_owned));
    }
    found
}

/// A service without words about it has no socket of the Internet's; one that tells figures has one.
#[test]
fn nobody_listens_where_nothing_is_said() {
    let telling = Running::start(&["--quiet"], |_| {});
    telling.asked_until("/healthz", |status, _| status == "200");
    let listening = sockets_of(telling.child.id());
    assert_eq!(listening.len(), 1, "{listening:?}");
    telling.stop();
    let folder = Folder::with("edge.toml", SERVICE);
    let mut command = folder.command(&["run", "edge.toml", "--log-format", "json"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command can be run");
    let said = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut lines = said.lines().map_while(Result::ok);
    let is_ready = lines.any(|line| line.contains("\"ready\""));
    let none = sockets_of(child.id());
    interrupt(&child);
    lines.for_each(drop);
    assert!(child.wait().expect("it ends").success() && is_ready);
    assert_eq!(none, Vec::<String>::new());
}

#[test]
fn an_address_that_is_taken_is_told() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = taken.local_addr().expect("bound").port();
    let metrics = format!("[metrics]\nlisten = \"127.0.0.1:{port}\"\n");
    let folder = Folder::with("taken.toml", &[SERVICE, &metrics].concat());
    folder.fail(
        &["run", "taken.toml", "--no-report"],
        "cannot listen for [metrics] on 127.0.0.1:",
    );
}

#[test]
fn the_log_is_json_where_that_is_wanted() {
    let running = Running::start(&["--log-format", "json"], |_| {});
    running.asked_until("/healthz", |status, _| status == "200");
    signal(&running.child, "HUP");
    std::thread::sleep(Duration::from_millis(300));
    let (folder, [out, said]) = running.stop_saying();
    assert_eq!(out, "", "all is in the log");
    let events: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect();
    let messages: Vec<_> = events
        .iter()
        .filter_map(|event| event["message"].as_str())
        .collect();
    for expected in ["figures are told over HTTP", "ready", "stopping"] {
        assert!(messages.contains(&expected), "{messages:?}");
    }
    let reloaded = |message: &&str| message.starts_with("service file read again: ");
    assert!(messages.iter().any(reloaded), "{messages:?}");
    assert!(
        events
            .iter()
            .all(|event| event["level"].is_string() && event["timestamp"].is_string())
    );
    let summary = events.last().expect("there are some");
    let totals = folder.report("r").totals;
    assert_eq!(summary["message"], "the run is over");
    assert_eq!(summary["packets_in"], totals.packets_in);
    assert_eq!(summary["packets_out"], totals.packets_out);
    assert!(totals.packets_in > 0);
}

/// Standard error is a pipe that is full, and nobody reads it: packets pass, and the service ends when it is asked to.
#[test]
fn nobody_waits_for_whoever_reads_the_log() {
    for flags in [
        &["--log-format", "json"][..],
        &["--log-format", "text"],
        &[],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut filler = writer.try_clone().expect("a copy");
        let mut running = Running::start(flags, |command| {
            command.stderr(writer).stdout(Stdio::null());
        });
        let received = "twinpath_received_packets_total";
        running.asked_until("/healthz", |status, _| status == "200");
        // Goes on until nobody can read it any more.
        let filling = std::thread::spawn(move || filler.write_all(&[b'\n'; 1 << 20]));
        let waiting = || rustix::io::ioctl_fionread(&reader).expect("a pipe");
        let least = rustix::pipe::fcntl_getpipe_size(&reader).expect("a pipe") as u64 / 2;
        let deadline = Instant::now() + LONGEST_WAIT;
        let mut before = 0;
        while before < least || waiting() > before {
            assert!(Instant::now() < deadline, "the pipe has an end");
            before = waiting();
            std::thread::sleep(Duration::from_millis(100));
        }
        // Whoever reads the service file again tells of it.
        signal(&running.child, "HUP");
        let before = running.asked_until("/metrics", |status, _| status == "200");
        running.asked_until("/metrics", |_, body| {
            sample(body, received) > sample(&before, received)
        });
        signal(&running.child, "TERM");
        let ended = loop {
            match running.child.try_wait().expect("its own child") {
                Some(status) => break status,
                None => assert!(Instant::now() < deadline, "{flags:?}: it waits"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(ended.success(), "{flags:?}: {ended}");
        drop(reader);
        let filled = filling.join().expect("no panic");
        assert!(filled.is_err(), "nobody has read it");
    }
}

#[test]
fn the_log_is_lines_where_that_is_wanted() {
    let flags = ["--log-format", "text", "--log-level", "warn"];
    let (_, said) = {
        let running = Running::start(&flags, |_| {});
        running.asked_until("/healthz", |status, _| status == "200");
        running.stop()
    };
    assert_eq!(said, "", "nothing is wrong");
}

/// A disk that is full takes lines of the log, and nothing else: threads that tell something go on.
#[test]
fn a_log_that_cannot_be_written_is_lost_and_no_more() {
    for format in ["text", "json"] {
        let running = Running::start(&["--log-format", format], |command| {
            let full = std::fs::File::options().write(true).open("/dev/full");
            command.stderr(full.expect("Linux has it"));
        });
        running.asked_until("/healthz", |status, _| status == "200");
        // Who reads the file again, and who tells of health, go on behind what they could not tell.
        for _ in 0..2 {
            signal(&running.child, "HUP");
            std::thread::sleep(Duration::from_millis(300));
        }
        running.end();
    }
}

/// The service manager hears of readiness, the watchdog's pings, reloading and the end.
#[test]
fn the_service_manager_is_told() {
    let socket_folder = tempfile::tempdir().expect("a folder");
    let path = socket_folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket
        .set_read_timeout(Some(LONGEST_WAIT))
        .expect("possible");
    let running = Running::start(&["--quiet"], |command| {
        command
            .env("NOTIFY_SOCKET", &path)
            .env("WATCHDOG_USEC", "600000");
    });
    let mut heard = String::new();
    let mut hear_until = |wanted: &str| {
        let mut bytes = [0; 4096];
        while !heard.contains(wanted) {
            let count = socket.recv(&mut bytes);
            let count = count.unwrap_or_else(|error| panic!("{wanted}: {error}; {heard}"));
            heard += &String::from_utf8_lossy(&bytes[..count]);
            heard.push('\n');
        }
        heard.clear();
    };
    hear_until("READY=1");
    hear_until("WATCHDOG=1");
    hear_until("WATCHDOG=1");
    signal(&running.child, "HUP");
    hear_until("RELOADING=1\nMONOTONIC_USEC=");
    hear_until("READY=1");
    running.stop();
    hear_until("STOPPING=1");
}
