//! What remote memory takes of one core, frames in memory.
//!
//! `cargo bench -p twinpath-benches --bench remote`: the ICRC alone, a memory server's end, packets that
//! are split and made whole again with memory of this process, a node whose slow path gets headers alone
//! beside one that gets whole packets, and a switch's end of WRITEs and READs; of each link what it carries.
//! Words behind `--` (`icrc`, `server`, `split`, `headers`, `switch`) run those parts alone.

use std::hint::black_box;
use std::time::Duration;
use twinpath_benches::bench_node::BenchNode;
use twinpath_benches::packets::{ARRIVAL, SERVICE, client};
use twinpath_benches::table::{Load, median, ns_each, row};
use twinpath_control::service::Paths;
use twinpath_core::split::{DepartingFrame, Left, Outgoing, PayloadStage, Sent, cut, stretch};
use twinpath_core::wire::roce::{Header, Opcode, Path, Psn, Reth, icrc};
use twinpath_core::wire::{Address, MacAddress, PacketBuilder, dissect};
use twinpath_core::{Frame, Instant, Pools, Ticket};
use twinpath_remote::fast::{self, Server};
use twinpath_remote::responder::{self, Access, Region, Responder};
use twinpath_remote::server::{Config as ServerConfig, MemoryServer};
use twinpath_remote::{
    Endpoint, Handle, Output, PayloadMemory, Requester, SplitStage, Store, requester,
};

const ROUNDS: usize = 5;
const SIZES: [usize; 5] = [64, 256, 512, 1024, 1500];
/// Requests between two turns of the other end.
const BURST: u64 = 16;
const NOW: Instant = Instant(1);

fn main() {
    // `cargo bench -- --test` only wants to know that it runs.
    let is_test = std::env::args().any(|argument| argument == "--test");
    let many = if is_test { 1_000 } else { 1_000_000 };
    if wanted("icrc") {
        SIZES.into_iter().for_each(|bytes| icrc_alone(many, bytes));
    }
    if wanted("server") {
        for bytes in SIZES {
            server(many, bytes, Opcode::WRITE_ONLY);
            server(many, bytes, Opcode::READ_REQUEST);
        }
    }
    if wanted("split") {
        for verifies in [false, true] {
            SIZES
                .into_iter()
                .for_each(|bytes| split(many, bytes, verifies));
        }
    }
    if wanted("headers") {
        SIZES.into_iter().for_each(|bytes| headers(many, bytes));
    }
    if wanted("switch") {
        for authenticates in [true, false] {
            let sizes = SIZES.into_iter();
            sizes.for_each(|bytes| switch(many, bytes, authenticates));
        }
    }
}

/// Whether a part was asked for: by name, or by naming none.
fn wanted(part: &str) -> bool {
    let words = std::env::args().skip(1);
    let mut named = words.filter(|word| !word.starts_with("--")).peekable();
    named.peek().is_none() || named.any(|name| name == part)
}

fn path() -> Path {
    Path {
        source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        source: Address::from_v4([10, 0, 0, 1]),
        destination: Address::from_v4([10, 0, 0, 2]),
        source_port: 50_000,
    }
}

fn request(opcode: Opcode, qpn: u32, psn: Psn, bytes: usize) -> Vec<u8> {
    let reth = Reth {
        address: 4096 * u64::from(psn.number() % 1024),
        rkey: 7,
        bytes: bytes as u32,
    };
    let header = Header {
        ack_request: psn.number() % 8 == 7,
        reth: Some(reth),
        ..Header::new(opcode, qpn, psn)
    };
    let payload = if opcode == Opcode::WRITE_ONLY {
        bytes
    } else {
        0
    };
    let mut frame = vec![0x5a; path().frame_bytes(&header, payload)];
    let emitted = path().emit(&header, payload, &mut frame);
    emitted.expect("a request that is sound");
    frame
}

fn icrc_alone(many: usize, bytes: usize) {
    let frame = request(Opcode::WRITE_ONLY, 2, Psn::new(0), bytes);
    let layout = dissect(&frame).expect("a request that is sound");
    let end = frame.len() - 4;
    let sum = |_: &mut ()| {
        for _ in 0..many {
            black_box(icrc(black_box(&frame), &layout, end));
        }
    };
    let time = median(ROUNDS, &mut (), |_| {}, sum);
    row(
        &format!("ICRC, {bytes} bytes of payload"),
        ns_each(time, many),
        Some(ICRC_LIMIT_NS),
    );
}

/// What the ICRC may take: a tenth of splitting and rebuilding.
const ICRC_LIMIT_NS: f64 = SPLIT_LIMIT_NS / 10.0;
/// What an operation may take of a memory server: two million a second.
const SERVER_LIMIT_NS: f64 = 500.0;

struct Served {
    responder: Responder,
    pools: Pools,
    frames: Vec<Vec<u8>>,
}

fn server(many: usize, bytes: usize, opcode: Opcode) {
    let config = responder::Config {
        mac: MacAddress([2, 0, 0, 0, 0, 2]),
        ip: Address::from_v4([10, 0, 0, 2]),
        mtu: 4096,
        queue_pairs: 1,
        reads: 16,
        message_bytes: 4096,
    };
    let mut responder = Responder::new(config);
    let region = Region::new(0, 4096 * 1025, 7, Access::ReadWrite);
    responder.register(region).expect("the first region");
    let mut served = Served {
        responder,
        pools: Pools::new(64, 1),
        frames: Vec::new(),
    };
    let each = many.min(4096);
    let prepare = |served: &mut Served| {
        let back = path().back();
        let restored = served.responder.restore(0, back, 9, Psn::new(0));
        let qpn = restored.expect("the first queue pair");
        let frame = |number: usize| request(opcode, qpn, Psn::new(number as u32), bytes);
        served.frames = (0..each).map(frame).collect();
    };
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..many.div_ceil(each).min(64) {
        times.push(median(1, &mut served, prepare, serve));
    }
    times.sort();
    let ns = ns_each(times[times.len() / 2], each);
    let what = match opcode {
        Opcode::WRITE_ONLY => "WRITE",
        _ => "READ",
    };
    let name = format!("memory server, {what} of {bytes} bytes");
    row(&name, ns, Some(SERVER_LIMIT_NS));
}

fn serve(served: &mut Served) {
    let mut out: Vec<Frame> = Vec::with_capacity(64);
    for burst in served.frames.chunks(BURST as usize) {
        for frame in burst {
            assert!(served.responder.receive(frame));
        }
        served.responder.transmit(&mut served.pools, &mut out, 64);
        out.drain(..).for_each(|frame| served.pools.give(frame));
    }
    let counters = served.responder.counters();
    assert_eq!(
        counters.naks_invalid + counters.naks_access + counters.naks_sequence,
        0
    );
}

/// A switch and its server, without a link between them.
struct Both {
    requester: Requester,
    server: MemoryServer,
    pools: Pools,
    output: Output,
    answers: Vec<Frame>,
    /// What the link carries to the server, and from it.
    links: [Load; 2],
}

impl Both {
    fn new(authenticates: bool) -> Self {
        let [switch, server] = [1, 2].map(|last| Address::from_v4([10, 0, 0, last]));
        let config = requester::Config {
            queue_pairs: 1,
            authenticates,
            ..requester::Config::new(0, MacAddress([2; 6]), switch, 1)
        };
        let responder = responder::Config {
            mac: MacAddress([4; 6]),
            ip: server,
            mtu: 4096,
            queue_pairs: 1,
            reads: 16,
            message_bytes: 4096,
        };
        let server = ServerConfig {
            server: 0,
            memory_bytes: 1 << 22,
            responder,
            seed: 2,
        };
        let mut both = Self {
            requester: Requester::new(config),
            server: MemoryServer::new(server, NOW),
            pools: Pools::new(256, 1),
            output: Output::default(),
            answers: Vec::new(),
            links: <[Load; 2]>::default(),
        };
        for _ in 0..3 {
            both.serve();
            both.answers();
        }
        assert!(both.requester.is_ready(0));
        both.links = <[Load; 2]>::default();
        both
    }

    fn serve(&mut self) {
        for frame in self.output.frames.drain(..) {
            self.links[0].add(frame.len());
            self.server.receive(frame.bytes(), NOW);
            self.pools.give(frame);
        }
        self.server
            .transmit(NOW, &mut self.pools, &mut self.answers, 256);
    }

    fn answers(&mut self) {
        for frame in self.answers.drain(..) {
            self.links[1].add(frame.len());
            let (requester, pools) = (&mut self.requester, &mut self.pools);
            let other = requester.receive(frame, NOW, pools, &mut self.output);
            assert!(other.is_none());
        }
        self.requester.poll(NOW, &mut self.pools, &mut self.output);
    }
}

/// Packets that are under way at a time, as behind a ring to the slow path.
const UNDER_WAY: usize = 64;

/// What splitting and rebuilding takes on top of a slow path that does nothing: the payload is left
/// behind, the header is made as long as its packet and short again, and finds its payload. Where a
/// function of the chain may ask for it (`verifies`), the packet's checksum is looked at before.
fn split(many: usize, bytes: usize, verifies: bool) {
    let store = Server {
        name: "store".into(),
        port: None,
        memory: Box::new(Store::new(0, 4 * UNDER_WAY)),
    };
    let config = fast::Config {
        threshold_bytes: 1,
        least_payload_bytes: 1,
        ..fast::Config::default()
    };
    let end = |text: &str| text.parse().expect("an endpoint");
    let packet = PacketBuilder::tcp(end("10.0.0.1:1000"), end("192.0.2.1:80"))
        .payload(&vec![0x5a; bytes.saturating_sub(54)])
        .to_vec()
        .expect("a packet that is sound");
    let mut pools = Pools::new(4 * UNDER_WAY, 1);
    let frames = (0..UNDER_WAY).map(|_| pools.take_filled(&packet));
    let mut switch = Splitter {
        frames: frames.collect(),
        stage: SplitStage::new(config, vec![store]),
        pools,
    };
    switch.stage.set_verifying(verifies);
    if !verifies {
        let link = format!("link to the slow path, packets of {bytes} bytes");
        switch.load_of_headers().row(&link, UNDER_WAY);
    }
    let rounds = many / UNDER_WAY;
    let run = |switch: &mut Splitter| (0..rounds).for_each(|_| switch.round());
    let time = median(ROUNDS, &mut switch, |_| {}, run);
    let counters = switch.stage.counters();
    let unmeasured = if verifies { 0 } else { UNDER_WAY };
    let sent = (ROUNDS * rounds * UNDER_WAY + unmeasured) as u64;
    assert_eq!((counters.packets, counters.merged), (sent, sent));
    let looks = if verifies { ", checksums verified" } else { "" };
    row(
        &format!("split and rebuild, packets of {bytes} bytes{looks}"),
        ns_each(time, rounds * UNDER_WAY),
        Some(SPLIT_LIMIT_NS),
    );
}

/// What splitting and rebuilding may take on top of the slow path, at any size.
const SPLIT_LIMIT_NS: f64 = 120.0;

struct Splitter {
    stage: SplitStage,
    frames: Vec<Option<Frame>>,
    pools: Pools,
}

impl Splitter {
    /// All packets are split, pass a worker that does nothing, and are whole again.
    fn round(&mut self) {
        self.leave_payloads();
        self.get_payloads();
    }

    /// What all packets together are on the way to the worker.
    fn load_of_headers(&mut self) -> Load {
        self.leave_payloads();
        let mut load = Load::default();
        let headers = self.frames.iter().flatten();
        headers.for_each(|frame| load.add(frame.len()));
        self.get_payloads();
        load
    }

    fn leave_payloads(&mut self) {
        let Self {
            stage,
            frames,
            pools,
        } = self;
        for (flow, place) in (0..).zip(frames.iter_mut()) {
            let frame = place.take().expect("a packet");
            let layout = dissect(frame.bytes()).expect("a packet that is sound");
            let outgoing = Outgoing {
                frame,
                layout: &layout,
                flow: flow << 32,
                has_state: false,
            };
            *place = match stage.send(outgoing, NOW, pools) {
                Sent::Header(frame) | Sent::Whole(frame) | Sent::Refused(frame) => Some(frame),
            };
        }
    }

    fn get_payloads(&mut self) {
        let Self {
            stage,
            frames,
            pools,
        } = self;
        for (flow, place) in (0..).zip(frames.iter_mut()) {
            let mut frame = place.take().expect("a packet");
            // Once for the worker, and once for who puts the packet together.
            assert!(stretch(&mut frame) && cut(&mut frame) && stretch(&mut frame));
            stage.came_back(frame.ticket());
            let departing = DepartingFrame {
                frame,
                is_reply: false,
            };
            let Left::Now(departing) = stage.leave(departing, flow << 32, NOW, pools) else {
                panic!("the payload is at hand");
            };
            *place = Some(departing.frame);
        }
        stage.poll(NOW, pools);
    }
}

/// Flows of a node's packets, one of each in a round.
const FLOWS: usize = 1024;

/// A firewall on the slow path alone: first it gets whole packets, then headers, while their payloads wait
/// in memory of this process.
fn headers(many: usize, bytes: usize) {
    for (what, section) in [("whole packets", ""), ("headers alone", SPLIT)] {
        let service = format!(
            "[service]\nname = 'bench'\nchain = ['firewall']\n[slow_path]\nflows = {}\n\
             [firewall]\ndefault = 'allow'\n{section}",
            2 * FLOWS
        );
        let mut bench = BenchNode::new(&service, Paths::Slow);
        let mut frames = datagrams(bytes);
        let rounds = (many / FLOWS).max(1);
        let run = |(bench, frames): &mut (&mut BenchNode, &mut Vec<Frame>)| {
            (0..rounds).for_each(|_| bench.send(frames));
        };
        let mut node = (&mut bench, &mut frames);
        let time = median(ROUNDS, &mut node, |_| {}, run);
        assert_eq!(frames.len(), FLOWS);
        let split = bench.node.machine.path().split();
        let merged = split.map_or(0, |stage| stage.counters().merged);
        let are_split = section == SPLIT && bytes > 64;
        let expected = u64::from(are_split) * (ROUNDS * rounds * FLOWS) as u64;
        assert_eq!(merged, expected, "{bytes} bytes, {what}");
        let name = format!("slow path, {what} of {bytes} bytes");
        row(&name, ns_each(time, rounds * FLOWS), None);
    }
}

const SPLIT: &str = "[split]\n";

/// A datagram of each flow, as long as is said with its headers.
fn datagrams(bytes: usize) -> Vec<Frame> {
    let payload = vec![0x5a; bytes.saturating_sub(42)];
    let mut pools = Pools::new(FLOWS, 1);
    let frame = |flow: usize| {
        let (from, to) = (client(flow as u64), SERVICE);
        let packet = PacketBuilder::udp(from, to).payload(&payload).to_vec();
        let frame = pools.take_filled(&packet.expect("a packet that is sound"));
        let mut frame = frame.expect("a buffer");
        frame.set_timestamp(ARRIVAL);
        frame
    };
    (0..FLOWS).map(frame).collect()
}

/// The switch's share of WRITE, READ, and the payload's arrival, which is held against a keyed hash or is not.
fn switch(many: usize, bytes: usize, authenticates: bool) {
    let mut both = Both::new(authenticates);
    let (mut writing, mut reading, mut arriving) = (Vec::new(), Vec::new(), Vec::new());
    let payload = vec![0x5a; bytes];
    for _ in 0..many / BURST as usize {
        let frames = (0..BURST).map(|_| both.pools.take_filled(&payload).expect("a buffer"));
        let frames: Vec<_> = frames.collect();
        let mut handles: Vec<Handle> = Vec::with_capacity(BURST as usize);
        let began = std::time::Instant::now();
        for frame in frames {
            let written = both.requester.write(0, frame, NOW, &mut both.output);
            handles.push(written.expect("there is room"));
        }
        writing.push(began.elapsed());
        both.serve();
        let began = std::time::Instant::now();
        for handle in &handles {
            let header = Ticket::default();
            let (requester, pools) = (&mut both.requester, &mut both.pools);
            let read = requester.read(handle, header, NOW, pools, &mut both.output);
            read.expect("it is there");
        }
        reading.push(began.elapsed());
        both.serve();
        let began = std::time::Instant::now();
        both.answers();
        arriving.push(began.elapsed());
        assert_eq!(both.output.payloads.len(), handles.len());
        for returned in both.output.payloads.drain(..) {
            both.pools.give(returned.payload.expect("no link, no loss"));
        }
    }
    for (what, mut times) in [("WRITE", writing), ("READ", reading), ("arrival", arriving)] {
        times.sort();
        let ns = ns_each(times[times.len() / 2], BURST as usize);
        let hash = if authenticates { "" } else { ", no hash" };
        row(&format!("switch, {what} of {bytes} bytes{hash}"), ns, None);
    }
    if !authenticates {
        return;
    }
    let packets = many / BURST as usize * BURST as usize;
    for (load, way) in both.links.iter().zip(["to", "from"]) {
        let link = format!("link {way} the server, payloads of {bytes} bytes");
        load.row(&link, packets);
    }
}
