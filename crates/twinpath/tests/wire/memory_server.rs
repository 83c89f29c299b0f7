//! `twinpath memory-server` at the other end of a cable: payloads go and come, through a server that is
//! killed and started again, and what is on the cable is RoCE to tshark.

use super::middle::wait_for;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant as Clock};
use twinpath_core::wire::roce::icrc;
use twinpath_core::wire::{Address, MacAddress, dissect};
use twinpath_core::{Instant, Pools, Ticket};
use twinpath_io::CaptureWriter;
use twinpath_netns::{Network, has_program, is_possible};
use twinpath_ports::{Driver, Port, PortConfig, wait};
use twinpath_remote::{Output, PayloadMemory, Requester, requester};

/// How many payloads are written and read in [`Switch::rounds`].
pub const PAYLOADS: u32 = 3000;

/// A switch that writes payloads and reads them back.
pub struct Switch {
    requester: Requester,
    port: Port,
    pools: Pools,
    began: Clock,
    capture: CaptureWriter,
    came: u32,
    lost: u32,
    /// Of each payload that was asked for, its number.
    asked: Vec<u32>,
    /// The first frames that it sent.
    sent: Vec<Vec<u8>>,
    /// Whether it waits for what it asked for before it goes on: a slow machine would lose frames otherwise.
    is_patient: bool,
    /// Whether it sends some requests otherwise than they are meant, and what is drawn for that.
    spoils: bool,
    random: u64,
}

/// Frames that are sent again, changed.
const CHANGED: usize = 4000;

fn content(number: u32) -> Vec<u8> {
    let bytes = 1 + number as usize * 7 % 1300;
    (0..bytes as u32)
        .map(|at| (number.wrapping_mul(2_654_435_761).wrapping_add(at * 31) >> 5) as u8)
        .collect()
}

impl Switch {
    fn open(capture: &Path, seed: u64) -> Self {
        Self::open_at(capture, seed, Address::from_v4([169, 254, 0, 1]), 1)
    }

    /// Opens its end of the cable, where it has this address, on a machine that is so many times as slow.
    pub fn open_at(capture: &Path, seed: u64, ip: Address, slowness: u32) -> Self {
        let port = Port::open(PortConfig {
            device: "eth0".into(),
            driver: Driver::AfPacket,
            is_shared: true,
        });
        let port = port.expect("root may open it");
        let mac = MacAddress(port.interface().mac);
        Self {
            requester: Requester::new(requester::Config {
                queue_pairs: 4,
                timeout: slowness * Duration::from_millis(20),
                read_timeout: slowness * Duration::from_millis(500),
                ..requester::Config::new(5, mac, ip, seed)
            }),
            port,
            pools: Pools::new(4096, 16),
            began: Clock::now(),
            capture: CaptureWriter::create(capture).expect("a file"),
            came: 0,
            lost: 0,
            asked: Vec::new(),
            sent: Vec::new(),
            is_patient: slowness > 1,
            spoils: false,
            random: 1,
        }
    }

    fn now(&self) -> Instant {
        Instant(1_700_000_000_000_000_000) + self.began.elapsed()
    }

    fn record(&mut self, frame: &[u8]) {
        let now = self.now().0;
        self.capture.write(now, frame).expect("room on the disk");
    }

    /// What comes is taken, what is due is sent.
    fn exchange(&mut self) {
        let (mut burst, mut output) = (Vec::new(), Output::default());
        self.port.receive(&mut self.pools, &mut burst, 64);
        if burst.is_empty() {
            wait(
                std::slice::from_ref(&self.port),
                None,
                Duration::from_millis(1),
            );
        }
        for frame in burst {
            self.record(frame.bytes());
            let (now, pools) = (self.now(), &mut self.pools);
            let other = self.requester.receive(frame, now, pools, &mut output);
            other.into_iter().for_each(|frame| pools.give(frame));
        }
        let now = self.now();
        self.requester.poll(now, &mut self.pools, &mut output);
        self.take(output);
    }

    fn take(&mut self, output: Output) {
        for mut frame in output.frames {
            self.record(frame.bytes());
            if self.spoils && self.draw().is_multiple_of(SPOILED_OF) {
                self.spoil(frame.bytes_mut());
            }
            if self.sent.len() < CHANGED {
                self.sent.push(frame.bytes().to_vec());
            }
            self.port.transmit(frame, &mut self.pools);
        }
        self.port.flush(&mut self.pools);
        for returned in output.payloads {
            let number = self.asked[returned.header.slot as usize];
            let Ok(frame) = returned.payload else {
                self.lost += 1;
                continue;
            };
            assert!(
                frame.bytes() == content(number),
                "payload {number} came otherwise"
            );
            self.came += 1;
            self.pools.give(frame);
        }
    }

    /// Exchanges until something is so.
    pub fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let end = Clock::now() + Duration::from_secs(20);
        while !is_so(self) {
            let counters = self.requester.counters();
            assert!(Clock::now() < end, "{what}: {counters:?}");
            self.exchange();
        }
    }

    /// Whether all its queue pairs serve.
    pub fn is_ready(&self) -> bool {
        (0..4).all(|pair| self.requester.is_ready(pair))
    }

    /// Writes a payload and asks for it.
    fn round(&mut self, number: u32) {
        let (now, mut output) = (self.now(), Output::default());
        let payload = self.pools.take_filled(&content(number)).expect("a buffer");
        let pair = (number % 4) as u16;
        let written = self.requester.write(pair, payload, now, &mut output);
        match written {
            Ok(handle) => {
                let slot = Ticket {
                    slot: self.asked.len() as u32,
                    generation: 0,
                };
                self.asked.push(number);
                let pools = &mut self.pools;
                let asked = self.requester.read(&handle, slot, now, pools, &mut output);
                asked.expect("a payload that was written");
            }
            Err((payload, _)) => self.pools.give(payload),
        }
        self.take(output);
    }

    /// Writes payloads and asks for all of them: those that come are as they were written.
    pub fn rounds(&mut self) {
        for number in 0..PAYLOADS {
            self.round(number);
            if number % 16 == 0 {
                self.exchange();
                if self.is_patient {
                    self.end();
                }
            }
        }
        self.end();
    }

    /// Waits for all payloads that were asked for.
    fn end(&mut self) {
        self.until("payloads come to their end", |switch| {
            switch.came + switch.lost == switch.asked.len() as u32
        });
    }
}

/// Queue pairs that are restored before spoiling ends.
const RESTORES: u64 = 40;

/// One request of so many is spoiled.
const SPOILED_OF: u64 = 8;

impl Switch {
    fn draw(&mut self) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        self.random >> 32
    }

    /// A request that is due says something else in its headers: its operation, queue pair, number, address,
    /// key or length. Its ICRC is right.
    fn spoil(&mut self, frame: &mut [u8]) {
        const HEADERS: u64 = 12 + 16;
        let Ok(layout) = dissect(frame) else {
            return;
        };
        let (place, bit) = (self.draw() % HEADERS, self.draw() % 8);
        if let Some(byte) = frame.get_mut(usize::from(layout.l4) + 8 + place as usize) {
            *byte ^= 1 << bit;
        }
        sum_up(frame);
    }

    /// How many payloads came, and how many were lost.
    pub const fn fates(&self) -> (u32, u32) {
        (self.came, self.lost)
    }

    /// Of which run of the server it knows, from 1.
    pub fn incarnations(&self) -> u64 {
        self.requester.counters().incarnations
    }

    /// Requests that are due go out spoiled, until queue pairs have been restored often enough; what comes is
    /// what was written all the same.
    pub fn spoil_requests(&mut self) {
        let restores = self.requester.counters().restores;
        self.spoils = true;
        let end = Clock::now() + Duration::from_secs(60);
        for number in 0.. {
            let counters = self.requester.counters();
            if counters.restores > restores + RESTORES {
                break;
            }
            assert!(Clock::now() < end, "{counters:?}");
            self.round(number);
            self.exchange();
        }
        self.spoils = false;
        self.until("the server is there", Self::is_ready);
    }

    /// Sends what was sent before once more, with other bytes in some places; of every two the second has an
    /// ICRC that is right, so that somebody looks at the rest. Answers are for nobody.
    fn send_changed(&mut self) {
        let sent = std::mem::take(&mut self.sent);
        for (number, mut frame) in sent.into_iter().enumerate() {
            for _ in 0..1 + number % 5 {
                let [.., at, value] = self.draw().to_be_bytes().map(usize::from);
                let place = at * frame.len() / 256;
                frame[place] ^= value as u8 | 1;
            }
            if number % 2 == 1 {
                sum_up(&mut frame);
            }
            let frame = self.pools.take_filled(&frame).expect("a buffer");
            self.port.transmit(frame, &mut self.pools);
            self.port.flush(&mut self.pools);
            let mut answers = Vec::new();
            self.port.receive(&mut self.pools, &mut answers, 64);
            answers.into_iter().for_each(|frame| self.pools.give(frame));
        }
    }
}

/// Writes the ICRC that a frame should have, if it is still a RoCE packet.
fn sum_up(frame: &mut [u8]) {
    let Some(end) = frame.len().checked_sub(4) else {
        return;
    };
    let layout = dissect(frame).ok();
    let sum = layout.and_then(|layout| icrc(frame, &layout, end));
    if let Some(sum) = sum {
        frame[end..].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Whatever a requester sends, the server lives, and serves who asks for what is his.
#[test]
fn a_server_survives_a_requester_that_sends_anything() {
    if !is_possible() {
        return;
    }
    let mut network = Network::new();
    network.cable("switch eth0", "server eth0");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cable.pcap");
    let server = Server::start(&network, "server", 5);
    let thread = network.on("switch", move || {
        let mut switch = Switch::open(&path, 1);
        switch.until("the server is there", Switch::is_ready);
        switch.rounds();
        assert_eq!(switch.sent.len(), CHANGED);
        switch.send_changed();
        let before = switch.came;
        switch.until("the server is there again", Switch::is_ready);
        switch.rounds();
        let came = switch.came - before;
        assert!(came > PAYLOADS / 2, "{:?}", switch.requester.counters());
        switch.spoil_requests();
    });
    thread.join().expect("payloads came as they were written");
    let said = server.stop();
    for counter in [
        "bad_icrc",
        "naks_sequence",
        "naks_invalid",
        "naks_access",
        "restores",
    ] {
        assert!(counted(&said, counter) > 0, "{counter}: {said}");
    }
    assert!(counted(&said, "restores") > 4, "{said}");
}

/// A counter in what a server says at its end.
pub fn counted(said: &str, counter: &str) -> u64 {
    let line = said.lines().find_map(|line| line.strip_prefix(counter));
    let count = line.map(|count| count.trim().replace(',', ""));
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// `twinpath memory-server` on a host of its own.
pub struct Server(Option<Child>);

impl Server {
    /// Starts it, with this number.
    pub fn start(network: &Network, host: &str, number: u16) -> Self {
        let command = network.command(host, env!("CARGO_BIN_EXE_twinpath"));
        Self::start_by(command, "eth0", number, &[])
    }

    /// The same at an interface, where the command runs.
    pub fn start_by(mut command: Command, interface: &str, number: u16, more: &[&str]) -> Self {
        command.args(["memory-server", "--listen", interface, "--memory", "16M"]);
        command.args(["--server", &number.to_string()]).args(more);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(Some(command.spawn().expect("it starts")))
    }

    /// Ends it as Ctrl-C does, and gives what it said.
    pub fn stop(mut self) -> String {
        let child = self.0.take().expect("it runs");
        let pid = child.id().to_string();
        let killed = Command::new("kill").args(["-INT", &pid]).status();
        assert!(killed.expect("kill is there").success());
        let output = child.wait_with_output().expect("its own child");
        assert!(output.status.success(), "{output:?}");
        let said = [output.stderr, output.stdout].concat();
        String::from_utf8_lossy(&said).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// How many packets of a capture pass a filter of tshark's.
pub fn tshark(capture: &Path, filter: &str) -> usize {
    let output = Command::new("tshark")
        .args(["-n", "-r"])
        .arg(capture)
        .args(["-Y", filter])
        .output()
        .expect("tshark can be run");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    String::from_utf8_lossy(&output.stdout).lines().count()
}

#[test]
fn payloads_go_and_come_through_a_server_that_is_killed_and_back() {
    if !is_possible() {
        return;
    }
    let mut network = Network::new();
    network.cable("switch eth0", "server eth0");
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("cable.pcap");
    let first = Server::start(&network, "server", 5);
    let path = capture.clone();
    let (to_switch, from_test) = std::sync::mpsc::channel();
    let (to_test, from_switch) = std::sync::mpsc::channel();
    let thread = network.on("switch", move || {
        let mut switch = Switch::open(&path, 1);
        switch.until("the first server is there", Switch::is_ready);
        switch.rounds();
        assert!(
            switch.came > PAYLOADS / 2,
            "{:?}",
            switch.requester.counters()
        );
        to_test.send(()).expect("somebody waits");
        from_test.recv().expect("the server is gone");
        switch.round(0);
        let before = switch.came;
        switch.until("the second server is there", |switch| {
            switch.requester.counters().incarnations == 2 && switch.is_ready()
        });
        switch.rounds();
        assert!(
            switch.came - before > PAYLOADS / 2,
            "{:?}",
            switch.requester.counters()
        );
        switch.capture.finish().expect("room on the disk");
    });
    let is_first_done = wait_for(|| from_switch.try_recv().is_ok());
    assert!(
        is_first_done || thread.is_finished(),
        "the first server does not serve"
    );
    drop(first);
    let _ = to_switch.send(());
    let second = Server::start(&network, "server", 5);
    thread.join().expect("payloads came as they were written");
    let said = second.stop();
    assert!(said.contains("writes") && said.contains("reads"), "{said}");
    if has_program("tshark", "tshark") {
        let roce = tshark(&capture, "infiniband");
        assert!(roce > PAYLOADS as usize, "{roce}");
        let bad = tshark(&capture, "_ws.malformed || _ws.unreassembled || icmp");
        assert_eq!(bad, 0);
    }
}

#[test]
fn what_cannot_be_served_is_told() {
    let twinpath = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_twinpath"))
            .arg("memory-server")
            .args(arguments)
            .output()
            .expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = twinpath(&["--listen", "no-such", "--memory", "1M"]);
    assert!(said.contains("interface no-such"), "{said}");
    let said = twinpath(&["--listen", "lo", "--memory", "17179869183G"]);
    assert!(said.contains("more than the"), "{said}");
    if is_possible() {
        let said = twinpath(&["--listen", "lo", "--memory", "100"]);
        assert!(
            said.contains("expected room for a packet of 4096"),
            "{said}"
        );
        let mut network = Network::new();
        network.cable("switch eth0", "server eth0");
        let mut command = network.command("server", env!("CARGO_BIN_EXE_twinpath"));
        let arguments = ["--listen", "eth0", "--memory", "1M", "--mtu", "1421"];
        let output = command.arg("memory-server").args(arguments).output();
        let output = output.expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("--mtu 1421: expected at most 1420"), "{said}");
    }
    let said = twinpath(&["--listen", "lo", "--memory", "much"]);
    assert!(said.contains("such as 256M"), "{said}");
}
