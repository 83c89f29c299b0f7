//! `twinpath kv`, against `twinpath run --listen`.

use crate::folder::{Folder, Said, interrupt};
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, ChildStderr};

/// A store that serves a port of its own.
struct Store {
    folder: Folder,
    child: Child,
    errors: BufReader<ChildStderr>,
    address: String,
}

impl Store {
    fn start(host: &str, settings: &str) -> Self {
        Self::start_with(host, settings, &[])
    }

    fn start_with(host: &str, settings: &str, more: &[&str]) -> Self {
        let free = UdpSocket::bind(format!("{host}:0"))
            .expect("loopback")
            .local_addr()
            .expect("bound");
        let service = format!(
            "[service]\nname = \"store\"\nchain = [\"kv_store\"]\n[kv_store]\nport = {}\n{settings}",
            free.port()
        );
        let folder = Folder::with("kv.toml", &service);
        let address = free.to_string();
        let run = ["run", "kv.toml", "--listen", &address, "--report", "r"];
        let mut child = folder.start(&[&run[..], more].concat());
        let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut line = String::new();
        errors.read_line(&mut line).expect("a line");
        // Nobody said a seed.
        assert!(
            line.starts_with("seed ") && line.contains(" was drawn: --seed "),
            "{line}"
        );
        line.clear();
        errors.read_line(&mut line).expect("a line");
        assert_eq!(line, format!("store serves {address}; Ctrl-C ends it\n"));
        Self {
            folder,
            child,
            errors,
            address,
        }
    }

    fn ask(&self, arguments: &[&str]) -> Said {
        self.folder.run(
            &[
                &["kv"][..],
                arguments,
                &["--server", &self.address, "--timeout", "1s"],
            ]
            .concat(),
        )
    }

    fn answer(&self, arguments: &[&str], code: i32, out: &str) {
        let said = self.ask(arguments);
        assert_eq!(
            (said.code, said.out.as_str()),
            (Some(code), out),
            "{arguments:?}: {said:?}"
        );
    }

    /// Ends it with Ctrl-C.
    fn stop(self) -> (Folder, Said) {
        interrupt(&self.child);
        let output = self.child.wait_with_output().expect("it ends");
        let rest: Vec<_> = self
            .errors
            .lines()
            .map(|line| line.expect("UTF-8"))
            .collect();
        (
            self.folder,
            Said {
                err: rest.join("\n"),
                ..output.into()
            },
        )
    }
}

#[test]
fn what_is_put_can_be_got_until_it_is_deleted() {
    for host in ["127.0.0.1", "[::1]"] {
        let store = Store::start(host, "");
        store.answer(&["get", "colour"], 1, "");
        assert!(
            store
                .ask(&["get", "colour"])
                .err
                .contains("colour: no such key")
        );
        store.answer(&["put", "colour", "green"], 0, "");
        store.answer(&["get", "colour"], 0, "green\n");
        store.answer(&["put", "colour", ""], 0, "");
        store.answer(&["get", "colour"], 0, "\n");
        store.answer(&["delete", "colour"], 0, "");
        store.answer(&["delete", "colour"], 1, "");
        let value = "v".repeat(128);
        store.answer(&["put", "0123456789abcdef", &value], 0, "");
        store.answer(&["get", "0123456789abcdef"], 0, &format!("{value}\n"));
        let (_, said) = store.stop();
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(
            said.out.starts_with("store: both paths, threads"),
            "{said:?}"
        );
    }
}

/// A service at a socket that nobody has sent anything to takes changes all the same, and serves behind
/// them.
#[test]
fn a_store_that_has_seen_no_packet_takes_changes() {
    let settings = "[slow_path]\nflows = 4096\n";
    let store = Store::start_with("127.0.0.1", settings, &["--control", "s"]);
    while !store.folder.path("s").exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let text = std::fs::read_to_string(store.folder.path("kv.toml")).expect("it was written");
    let port = "[kv_store]\n";
    let other = text.replace(port, &format!("{port}verify_checksums = \"none\"\n"));
    store.folder.write("other.toml", other.as_bytes());
    let said = store.folder.run(&["apply", "other.toml", "--control", "s"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("kv_store"), "{said:?}");
    store.answer(&["put", "colour", "green"], 0, "");
    store.answer(&["get", "colour"], 0, "green\n");
    let (_, said) = store.stop();
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
fn a_bench_is_answered_by_both_paths() {
    let store = Store::start("127.0.0.1", "[slow_path]\nflows = 4096\n");
    let said = store.ask(&[
        "bench",
        "--requests",
        "20000",
        "--keys",
        "500",
        "--preload",
        "--window",
        "8",
    ]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.starts_with("20,000 answers in "), "{said:?}");
    assert!(
        said.out.contains(" hits, 0 misses\n") && said.out.contains("lost      0 without"),
        "{said:?}"
    );
    assert!(said.out.contains("latency   min "), "{said:?}");
    let (folder, said) = store.stop();
    let report = folder.report("r");
    assert!(report.totals.packets_out >= 20_500, "{said:?}");
    assert!(
        report.fast.packets > 10_000 && report.slow.packets > 0,
        "{said:?}"
    );
}

#[test]
fn silence_is_told() {
    let folder = Folder::new();
    let mute = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let address = mute.local_addr().expect("bound").to_string();
    let quickly = ["--server", &address, "--timeout", "5ms", "--attempts", "2"];
    folder.fail(
        &[&["kv", "get", "a"][..], &quickly].concat(),
        &format!("no answer from {address} after 2 attempts"),
    );
    folder.fail(&[&["kv", "bench"][..], &quickly].concat(), "no answer from");
    drop(mute);
    folder.fail(
        &[&["kv", "get", "a"][..], &quickly].concat(),
        &format!("nothing listens at {address}"),
    );
}

#[test]
fn what_cannot_be_asked_is_told() {
    let folder = Folder::new();
    folder.fail(
        &["kv", "get", "0123456789abcdefg"],
        "a key has 1 to 16 bytes, this one has 17",
    );
    folder.fail(&["kv", "get", ""], "a key has 1 to 16 bytes");
    folder.fail(
        &["kv", "put", "a", &"v".repeat(129)],
        "a value has at most 128 bytes, this one has 129",
    );
    folder.fail(
        &["kv", "get", "a", "--server", "nowhere"],
        "cannot find nowhere",
    );
    folder.fail(
        &["kv", "bench", "--get-ratio", "2"],
        "expected a number from 0 to 1",
    );
    folder.fail(
        &["kv", "bench", "--popularity", "bell"],
        "expected uniform, zipf",
    );
}
