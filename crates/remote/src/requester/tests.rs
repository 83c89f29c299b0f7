use super::*;
use crate::payloads::DownReason;
use crate::responder::{self, Access, Region};
use crate::server::{Config as ServerConfig, MemoryServer};
use twinpath_core::wire::roce::{Aeth, Nak, Syndrome};

/// A requester and a server without a link between them: frames go when a test says so.
struct Both {
    requester: Requester,
    server: MemoryServer,
    pools: Pools,
    output: Output,
    now: Instant,
    slots: u32,
}

fn server_config(seed: u64) -> ServerConfig {
    let responder = responder::Config {
        mac: MacAddress([4; 6]),
        ip: Address::from_v4([10, 0, 0, 2]),
        mtu: 512,
        queue_pairs: 2,
        reads: 4,
        message_bytes: 4096,
    };
    ServerConfig {
        server: 1,
        memory_bytes: 1 << 16,
        responder,
        seed,
    }
}

fn server(seed: u64, now: Instant) -> MemoryServer {
    MemoryServer::new(server_config(seed), now)
}

impl Both {
    fn new() -> Self {
        let now = Instant(1_000_000);
        let ip = Address::from_v4([10, 0, 0, 1]);
        let config = Config {
            queue_pairs: 2,
            ..Config::new(1, MacAddress([2; 6]), ip, 5)
        };
        let mut both = Self {
            requester: Requester::new(config),
            server: server(1, now),
            pools: Pools::new(512, 1),
            output: Output::default(),
            now,
            slots: 0,
        };
        both.exchange();
        assert!(both.requester.is_ready(0) && both.requester.is_ready(1));
        both
    }

    /// All that waits at either end arrives, until nothing does.
    fn exchange(&mut self) {
        for _ in 0..6 {
            self.reach_server();
            let answers = self.answers();
            answers
                .into_iter()
                .for_each(|frame| self.reach_switch(frame));
            self.poll();
        }
    }

    fn poll(&mut self) {
        self.requester
            .poll(self.now, &mut self.pools, &mut self.output);
    }

    fn reach_server(&mut self) {
        for frame in self.output.frames.drain(..) {
            self.server.receive(frame.bytes(), self.now);
        }
    }

    fn answers(&mut self) -> Vec<Frame> {
        let mut answers = Vec::new();
        self.server
            .transmit(self.now, &mut self.pools, &mut answers, 100);
        answers
    }

    fn reach_switch(&mut self, frame: Frame) {
        let other = self
            .requester
            .receive(frame, self.now, &mut self.pools, &mut self.output);
        assert!(other.is_none());
    }

    fn write(&mut self, payload: &[u8]) -> Handle {
        let frame = self.pools.take_filled(payload).unwrap();
        let written = self.requester.write(0, frame, self.now, &mut self.output);
        written.expect("there is room")
    }

    fn read(&mut self, handle: &Handle) -> Result<(), Refusal> {
        self.slots += 1;
        let header = Ticket {
            slot: self.slots,
            generation: 1,
        };
        let (now, pools) = (self.now, &mut self.pools);
        self.requester
            .read(handle, header, now, pools, &mut self.output)
    }

    fn came(&mut self) -> Vec<Result<Vec<u8>, Lost>> {
        let payloads = self.output.payloads.drain(..);
        payloads
            .map(|returned| returned.payload.map(|frame| frame.bytes().to_vec()))
            .collect()
    }

    /// A NAK to the request in a frame, as the server could send it.
    fn nak_to(&mut self, request: &Frame, why: Nak) -> Frame {
        let layout = dissect(request.bytes()).unwrap();
        let request = RocePacket::read(request.bytes(), &layout).unwrap().header;
        let aeth = Aeth {
            syndrome: Syndrome::Nak(why),
            messages: 0,
        };
        let qpn = self.requester.queue_pairs[0].own_number();
        let header = Header {
            aeth: Some(aeth),
            ..Header::new(Opcode::ACKNOWLEDGE, qpn, request.psn)
        };
        let path = self.requester.peer.as_ref().unwrap().path.back();
        let mut frame = self.pools.take(100).unwrap();
        frame.set_len(path.frame_bytes(&header, 0));
        path.emit(&header, 0, frame.bytes_mut()).unwrap();
        frame
    }

    fn copy(&mut self, frame: &Frame) -> Frame {
        self.pools.take_filled(frame.bytes()).unwrap()
    }
}

/// What the switch's own end of the link does not carry is refused, and goes on whole; also when that changes.
#[test]
fn the_shorter_end_of_a_link_bounds_payloads() {
    let mut both = Both::new();
    let mac = MacAddress([2; 6]);
    // Headers of IPv4, UDP, BTH, RETH and ICRC are 60 bytes.
    for (mtu, fits, does_not) in [(260, 192, 201), (572, 504, 513), (1500, 504, 513)] {
        both.requester.set_link(mac, mtu);
        let mut write = |bytes: usize| {
            let payload = both.pools.take_filled(&vec![7; bytes]).expect("a buffer");
            let now = both.now;
            match both.requester.write(0, payload, now, &mut both.output) {
                Ok(_) => None,
                Err((payload, why)) => {
                    both.pools.give(payload);
                    Some(why)
                }
            }
        };
        assert_eq!(write(fits), None, "{mtu}");
        assert_eq!(write(does_not), Some(Refusal::TooLong), "{mtu}");
    }
}

#[test]
fn payloads_of_any_length_come_back() {
    let mut both = Both::new();
    for bytes in [0usize, 1, 2, 3, 4, 63, 500, 508] {
        let payload: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
        let handle = both.write(&payload);
        both.read(&handle).unwrap();
        assert_eq!(
            both.read(&handle),
            Err(Refusal::Unknown),
            "it is being read"
        );
        both.exchange();
        assert_eq!(both.came(), [Ok(payload)]);
        assert_eq!(both.read(&handle), Err(Refusal::Unknown), "it was read");
    }
    let long = both.pools.take_filled(&[0; 509]).unwrap();
    let refused = both.requester.write(0, long, both.now, &mut both.output);
    assert!(matches!(refused, Err((_, Refusal::TooLong))));
}

#[test]
fn no_more_reads_are_outstanding_than_the_server_allows() {
    let mut both = Both::new();
    let handles: Vec<_> = (0..20u8).map(|number| both.write(&[number])).collect();
    both.reach_server();
    handles.iter().for_each(|handle| both.read(handle).unwrap());
    assert_eq!(both.output.frames.len(), 4);
    both.exchange();
    let expected: Vec<_> = (0..20u8).map(|number| Ok(vec![number])).collect();
    assert_eq!(both.came(), expected);
    assert_eq!(both.server.endpoint().counters().naks_invalid, 0);
}

/// Each NAK that ends a life, and the life after it, in which what the server has is still there.
#[test]
fn what_the_server_has_outlives_an_error_and_a_late_nak_disables_nothing() {
    for why in [Nak::InvalidRequest, Nak::RemoteAccess, Nak::RemoteOperation] {
        let mut both = Both::new();
        let kept = both.write(b"kept");
        // What asks for an acknowledgement behind it.
        (0..8).for_each(|_| _ = both.write(b"more"));
        both.exchange();
        let lost = both.write(b"lost");
        let request = both.output.frames.pop().unwrap();
        both.read(&lost).unwrap();
        both.output.frames.clear();
        let nak = both.nak_to(&request, why);
        let late = both.copy(&nak);
        both.reach_switch(nak);
        assert!(!both.requester.is_ready(0) && both.requester.is_ready(1));
        assert_eq!(both.came(), [Err(Lost::Write)]);
        both.poll();
        both.exchange();
        assert!(both.requester.is_ready(0), "{why:?}");
        let stale = both.requester.counters().stale;
        both.reach_switch(late);
        assert!(both.requester.is_ready(0));
        assert_eq!(both.requester.counters().stale, stale + 1);
        both.read(&kept).unwrap();
        both.exchange();
        assert_eq!(both.came(), [Ok(b"kept".to_vec())]);
        assert_eq!(both.requester.counters().disabled, 1);
    }
}

/// Each life of a queue pair at a server that serves nothing costs what is written in it, so lives become
/// rarer, to one a second. Once it serves again all is as before.
#[test]
fn lives_in_vain_become_rarer() {
    let mut both = Both::new();
    let memory = *both.server.memory();
    assert!(both.server.endpoint_mut().withdraw(memory.rkey));
    let milliseconds = |both: &mut Both, many: u32| {
        for _ in 0..many {
            both.now = both.now + Duration::from_millis(1);
            if both.requester.is_ready(0) {
                // What asks for an acknowledgement.
                (0..8).for_each(|_| _ = both.write(b"lost"));
            }
            both.exchange();
        }
        both.requester.counters().disabled
    };
    // 1 + 2 + 4 + ... + 512 ms, and each life one more.
    let lives = milliseconds(&mut both, 1100);
    assert!((9..=12).contains(&lives), "{lives}");
    assert_eq!(milliseconds(&mut both, 10_000) - lives, 10);
    let error = both.requester.queue_pair_figures()[0].last_error;
    assert_eq!(error, Some(DownReason::RemoteAccess));
    let bytes = memory.bytes as usize;
    let region = Region::new(memory.address, bytes, memory.rkey, Access::ReadWrite);
    both.server
        .endpoint_mut()
        .register(region)
        .expect("it has none");
    let lives = milliseconds(&mut both, 1100);
    assert_eq!(milliseconds(&mut both, 1000), lives);
    // An error after that costs a moment.
    both.server.endpoint_mut().set_failing(true);
    milliseconds(&mut both, 1);
    both.server.endpoint_mut().set_failing(false);
    milliseconds(&mut both, 2);
    assert_eq!(both.requester.counters().disabled, lives + 1);
    assert!(both.requester.is_ready(0));
}

#[test]
fn a_lost_write_takes_its_own_payload_and_those_behind_it() {
    let mut both = Both::new();
    let handles: Vec<_> = [b"a", b"b", b"c"].map(|text| both.write(text)).into();
    both.output.frames.remove(1);
    handles.iter().for_each(|handle| both.read(handle).unwrap());
    both.exchange();
    let lost = Err(Lost::Write);
    let came = both.came();
    assert_eq!(came.iter().filter(|one| **one == lost).count(), 2);
    assert!(
        came.len() == 3 && came.contains(&Ok(b"a".to_vec())),
        "{came:?}"
    );
    // The next one is not behind it any more.
    let next = both.write(b"next");
    both.read(&next).unwrap();
    both.exchange();
    assert_eq!(both.came(), [Ok(b"next".to_vec())]);
    let counters = both.requester.counters();
    assert_eq!((counters.naks_sequence, counters.disabled), (1, 0));
}

#[test]
fn a_server_that_begins_anew_has_nothing() {
    let mut both = Both::new();
    let (read, unread) = (both.write(b"read"), both.write(b"unread"));
    both.exchange();
    both.read(&read).unwrap();
    both.server = server(2, both.now);
    both.output.frames.clear();
    both.exchange();
    assert_eq!(both.came(), [Err(Lost::Server)]);
    assert_eq!(both.read(&unread), Err(Refusal::Unknown));
    assert!(both.requester.is_ready(0));
    let again = both.write(b"again");
    both.read(&again).unwrap();
    both.exchange();
    assert_eq!(both.came(), [Ok(b"again".to_vec())]);
}

/// Found by the fuzzer: where the second ring would begin was computed for a server that has one.
#[test]
fn a_server_with_one_queue_pair_may_have_nearly_all_addresses() {
    let mut both = Both::new();
    let known = both.requester.peer.as_ref().unwrap().memory;
    let all = Memory {
        incarnation: known.incarnation + 1,
        address: 1,
        bytes: u64::MAX - 1,
        queue_pairs: 1,
        ..known
    };
    both.requester.announced(&all, both.now, &mut both.output);
    assert_eq!(both.requester.peer.as_ref().unwrap().memory, all);
    assert_eq!(both.requester.counters().announcements_refused, 0);
}

/// What is told to who leaves servers alone: the fastest of an interval, from when it was wanted.
#[test]
fn the_fastest_read_is_told() {
    let mut both = Both::new();
    for micros in [70, 30, 50] {
        let handle = both.write(&[7; 100]);
        both.read(&handle).unwrap();
        both.reach_server();
        both.now = both.now + Duration::from_micros(micros);
        let answers = both.answers();
        answers
            .into_iter()
            .for_each(|frame| both.reach_switch(frame));
        assert_eq!(both.came(), [Ok(vec![7; 100])]);
    }
    let fastest = Some(Duration::from_micros(30));
    assert_eq!(both.requester.take_fastest_read(), fastest);
    assert_eq!(both.requester.take_fastest_read(), None);
}

/// Two shards of a switch and their server.
struct Shards {
    requesters: Vec<Requester>,
    server: MemoryServer,
    pools: Pools,
    outputs: [Output; 2],
    now: Instant,
}

impl Shards {
    fn new(server: MemoryServer, queue_pairs: u16, now: Instant) -> Self {
        let ip = Address::from_v4([10, 0, 0, 1]);
        let requester = |number: u16| {
            Requester::new(Config {
                queue_pairs,
                shard: Shard { number, of: 2 },
                ..Config::new(1, MacAddress([2; 6]), ip, 5 + u64::from(number))
            })
        };
        Self {
            requesters: (0..2).map(requester).collect(),
            server,
            pools: Pools::new(512, 1),
            outputs: Default::default(),
            now,
        }
    }

    /// What the server sends goes to whom it is for, whichever shard that is.
    fn exchange(&mut self) {
        for _ in 0..6 {
            for output in &mut self.outputs {
                for frame in output.frames.drain(..) {
                    self.server.receive(frame.bytes(), self.now);
                    self.pools.give(frame);
                }
            }
            let mut answers = Vec::new();
            self.server
                .transmit(self.now, &mut self.pools, &mut answers, 100);
            for frame in answers {
                let shards = match Receiver::of(frame.bytes(), 2) {
                    Receiver::Shard(shard) => shard.into()..usize::from(shard) + 1,
                    Receiver::All => 0..2,
                    Receiver::Any => panic!("the server sends nothing else"),
                };
                for shard in shards {
                    let copy = self.pools.take_filled(frame.bytes()).unwrap();
                    let output = &mut self.outputs[shard];
                    let rest =
                        self.requesters[shard].receive(copy, self.now, &mut self.pools, output);
                    assert!(rest.is_none());
                }
                self.pools.give(frame);
            }
            for (requester, output) in self.requesters.iter_mut().zip(&mut self.outputs) {
                requester.poll(self.now, &mut self.pools, output);
            }
        }
    }

    fn write(&mut self, shard: usize, pair: u16, payload: &[u8]) -> Result<Handle, Refusal> {
        let frame = self.pools.take_filled(payload).unwrap();
        let output = &mut self.outputs[shard];
        let written = self.requesters[shard].write(pair, frame, self.now, output);
        written.map_err(|(_, why)| why)
    }
}

/// They have different queue pairs and different memory, each gets its own payloads back, and nothing
/// that is for one is taken by the other.
#[test]
fn shards_share_a_server() {
    let now = Instant(1_000_000);
    let mut both = Shards::new(server(1, now), 3, now);
    both.exchange();
    // The server has two queue pairs.
    for requester in &both.requesters {
        let ready: Vec<_> = (0..3).map(|pair| requester.is_ready(pair)).collect();
        assert_eq!(ready, [true, false, false]);
        assert_eq!(requester.queue_pairs(), 1, "flows use those that there are");
    }
    let numbers = |requester: &Requester| requester.queue_pair_figures()[0].number;
    assert_eq!(
        [numbers(&both.requesters[0]), numbers(&both.requesters[1])],
        [0, 1]
    );
    for round in 0..300u32 {
        let handles = [0, 1].map(|shard: usize| {
            let payload = [shard as u8; 100].map(|byte| byte ^ round as u8);
            let handle = both.write(shard, 0, &payload).expect("there is room");
            (payload, handle)
        });
        assert_ne!(handles[0].1.address, handles[1].1.address);
        for (shard, (_, handle)) in handles.iter().enumerate() {
            let header = Ticket {
                slot: round,
                generation: 1,
            };
            let (now, output) = (both.now, &mut both.outputs[shard]);
            both.requesters[shard]
                .read(handle, header, now, &mut both.pools, output)
                .expect("its own");
            // The other shard has nothing there.
            let output = &mut both.outputs[1 - shard];
            let other = &mut both.requesters[1 - shard];
            let read = other.read(handle, header, now, &mut both.pools, output);
            assert_eq!(read, Err(Refusal::Unknown));
        }
        both.exchange();
        for (shard, (payload, _)) in handles.iter().enumerate() {
            let came: Vec<_> = both.outputs[shard].payloads.drain(..).collect();
            assert_eq!(came.len(), 1);
            for returned in came {
                let frame = returned.payload.expect("nothing is lost");
                assert_eq!(frame.bytes(), payload);
                both.pools.give(frame);
            }
        }
    }
    for requester in &both.requesters {
        let counters = requester.counters();
        assert_eq!((counters.stale, counters.payloads), (0, 300));
    }
}

#[test]
fn a_shard_for_which_a_server_has_no_queue_pair_says_so() {
    let now = Instant(1_000_000);
    let mut config = server_config(1);
    config.responder.queue_pairs = 1;
    let mut both = Shards::new(MemoryServer::new(config, now), 1, now);
    both.exchange();
    assert!(both.requesters[0].is_ready(0) && !both.requesters[1].is_ready(0));
    let whose = QueuePairs {
        first: 1,
        last: 1,
        count: 1,
    };
    let refused = Event::AnnouncementRefused(whose, AnnouncementRefusal::QueuePairs);
    assert_eq!(both.outputs[1].events, [refused]);
    assert_eq!(both.write(1, 0, b"whole"), Err(Refusal::Down));
}

impl Both {
    /// Milliseconds pass at the switch, and nothing arrives at either end.
    fn rest(&mut self, milliseconds: u32) {
        for _ in 0..milliseconds {
            self.now = self.now + Duration::from_millis(1);
            self.poll();
        }
    }

    fn announce(&mut self, memory: &Memory) {
        self.requester.announced(memory, self.now, &mut self.output);
    }

    fn events(&mut self) -> Vec<Event> {
        self.output.events.drain(..).collect()
    }

    fn memory(&self) -> Memory {
        *self.server.memory()
    }
}

/// Found on a loaded machine, and by an audit: a server in software that its machine did not let run for a few milliseconds
/// cost all that was under way, though it had lost nothing.
#[test]
fn a_server_that_rests_for_a_moment_loses_nothing() {
    let mut both = Both::new();
    let handles: Vec<_> = (0..10u8).map(|number| both.write(&[number])).collect();
    let patience = both.requester.config().read_timeout;
    both.rest(patience.as_millis() as u32 - 10);
    both.exchange();
    handles.iter().for_each(|handle| both.read(handle).unwrap());
    both.exchange();
    let expected: Vec<_> = (0..10u8).map(|number| Ok(vec![number])).collect();
    assert_eq!(both.came(), expected);
    let counters = both.requester.counters();
    assert_eq!((counters.disabled, counters.writes_lost), (0, 0));
    // What was sent again while nobody answered is little.
    assert!(counters.timeouts <= 8, "{}", counters.timeouts);
}

/// Found by an attack: READs that were given up were not counted among those of the server, which then called
/// one more an error.
#[test]
fn reads_that_were_given_up_count_until_the_server_is_beyond_them() {
    let mut both = Both::new();
    let handles: Vec<_> = (0..12u8).map(|number| both.write(&[number])).collect();
    both.exchange();
    handles.iter().for_each(|handle| both.read(handle).unwrap());
    // The server takes what it is asked, and has answered one when the others are given up.
    both.reach_server();
    both.now = both.now + both.requester.config().read_timeout / 2;
    let mut answer = Vec::new();
    both.server
        .transmit(both.now, &mut both.pools, &mut answer, 1);
    answer
        .into_iter()
        .for_each(|frame| both.reach_switch(frame));
    assert_eq!(both.came(), [Ok(vec![0])]);
    both.now = both.now + both.requester.config().read_timeout / 2;
    both.poll();
    assert_eq!(both.came(), vec![Err(Lost::Timeout); 11]);
    let next = both.write(b"next");
    both.read(&next).unwrap();
    both.exchange();
    assert_eq!(both.came(), [Ok(b"next".to_vec())]);
    assert_eq!(both.server.endpoint().counters().naks_invalid, 0);
    assert_eq!(both.requester.counters().disabled, 0);
}

#[test]
fn a_server_that_is_silent_takes_no_payloads_until_it_is_heard() {
    let mut both = Both::new();
    both.output.events.clear();
    assert!(both.requester.is_up());
    both.now = both.now + LONGEST_SILENCE;
    both.poll();
    let whose = QueuePairs {
        first: 0,
        last: 1,
        count: 2,
    };
    assert_eq!(both.events(), [Event::Gone(whose)]);
    assert!(!both.requester.is_up());
    both.poll();
    assert_eq!(both.events(), []);
    let kept = both.write(b"kept");
    both.announce(&both.memory());
    assert_eq!(both.events(), [Event::Heard]);
    assert!(both.requester.is_up());
    both.read(&kept).unwrap();
    both.exchange();
    assert_eq!(both.came(), [Ok(b"kept".to_vec())]);
}

/// Found by an attack: two servers of one number took each other's place with each announcement, and all
/// payloads of the other with it.
#[test]
fn two_servers_of_one_number_are_told_and_the_first_one_stays() {
    let mut both = Both::new();
    both.output.events.clear();
    let kept = both.write(b"kept");
    let known = both.memory();
    let other = Memory {
        incarnation: known.incarnation ^ 1,
        mac: MacAddress([6; 6]),
        ..known
    };
    both.announce(&other);
    both.announce(&known);
    let why = AnnouncementRefusal::Another {
        known: known.mac,
        found: other.mac,
    };
    let events = both.events();
    assert!(
        matches!(events[..], [Event::AnnouncementRefused(_, told)] if told == why),
        "{events:?}"
    );
    both.read(&kept).unwrap();
    both.exchange();
    assert_eq!(both.came(), [Ok(b"kept".to_vec())]);
    // A new run of the same server is taken at once, and a former one does not come back beside it.
    let new = Memory {
        incarnation: known.incarnation ^ 2,
        ..known
    };
    both.announce(&new);
    both.announce(&known);
    assert_eq!(both.requester.peer.as_ref().unwrap().memory, new);
    // When it is gone the other one may serve.
    both.now = both.now + LONGEST_SILENCE;
    both.poll();
    both.announce(&other);
    assert_eq!(both.requester.peer.as_ref().unwrap().memory, other);
}

/// The link of a server may get shorter; what waits there stays.
#[test]
fn a_server_may_announce_another_mtu() {
    let mut both = Both::new();
    let kept = both.write(&[7; 500]);
    both.exchange();
    let memory = both.memory();
    both.server.set_mtu(256, both.now);
    both.now = both.now + Duration::from_millis(10);
    both.exchange();
    assert_eq!(both.requester.counters().incarnations, 1);
    let long = both.pools.take_filled(&[7; 260]).unwrap();
    let (now, output) = (both.now, &mut both.output);
    let refused = both.requester.write(0, long, now, output);
    assert!(matches!(refused, Err((_, Refusal::TooLong))));
    both.read(&kept).unwrap();
    both.exchange();
    assert_eq!(both.came(), [Ok(vec![7; 500])]);
    // It does not get longer than it was at the start.
    both.server.set_mtu(4096, both.now);
    both.now = both.now + Duration::from_millis(10);
    both.exchange();
    assert_eq!(both.memory(), memory);
    both.write(&[7; 508]);
}

impl Both {
    /// So many milliseconds pass. In each a payload is written and read, and answers arrive so many later. Tells
    /// how many were refused.
    fn at_a_distance(&mut self, milliseconds: usize, delay: usize) -> usize {
        let (mut refused, mut under_way) = (0, std::collections::VecDeque::new());
        for millisecond in 0..milliseconds + delay {
            self.now = self.now + Duration::from_millis(1);
            let frame = self.pools.take_filled(&[7; 100]).unwrap();
            match self.requester.write(0, frame, self.now, &mut self.output) {
                Ok(handle) => self.read(&handle).unwrap(),
                Err((frame, why)) => {
                    assert_eq!(why, Refusal::Window);
                    self.pools.give(frame);
                    refused += 1;
                }
            }
            self.reach_server();
            under_way.push_back((millisecond + delay, self.answers()));
            while under_way.front().is_some_and(|(at, _)| *at <= millisecond) {
                let (_, answers) = under_way.pop_front().expect("it was looked at");
                let answers = answers.into_iter();
                answers.for_each(|frame| self.reach_switch(frame));
            }
            self.poll();
            for returned in self.output.payloads.drain(..) {
                self.pools.give(returned.payload.expect("nothing is lost"));
            }
        }
        refused
    }
}

/// Found by an attack: a server that is further away than the first time-out was asked for everything again and
/// again, and answered all of it.
#[test]
fn a_server_that_is_far_away_is_not_asked_again_and_again() {
    let mut both = Both::new();
    // Of four READs at a time each takes three milliseconds: there is time for all.
    assert!(both.at_a_distance(1000, 3) < 10);
    let counters = both.requester.counters();
    assert!(counters.payloads > 990, "{counters:?}");
    assert!(counters.reads_repeated < 30, "{counters:?}");
    assert_eq!(both.requester.losses().total(), 0);
}

/// The same of one that takes so long that payloads would not be back in time: packets travel whole.
#[test]
fn what_would_not_be_back_in_time_is_not_written() {
    let mut both = Both::new();
    // Four READs in twenty milliseconds, where twenty are wanted.
    let refused = both.at_a_distance(2000, 20);
    let counters = both.requester.counters();
    assert!(
        refused > 1000 && counters.payloads > 300,
        "{refused}: {counters:?}"
    );
    assert!(counters.reads_repeated < counters.payloads, "{counters:?}");
    assert_eq!(both.requester.losses().total(), 0, "{counters:?}");
}

/// Found by an attack: each NAK had all that was behind it sent again at once, which was reordered again.
#[test]
fn a_link_that_reorders_does_not_make_a_storm() {
    let mut both = Both::new();
    let mut written = 0;
    for _ in 0..200 {
        both.now = both.now + Duration::from_micros(100);
        for _ in 0..100 {
            let frame = both.pools.take_filled(&[7; 100]).unwrap();
            match both.requester.write(0, frame, both.now, &mut both.output) {
                Ok(handle) => {
                    written += 1;
                    both.requester.discard(&handle);
                }
                Err((frame, _)) => both.pools.give(frame),
            }
        }
        for _ in 0..3 {
            both.output.frames.chunks_mut(2).for_each(<[_]>::reverse);
            both.reach_server();
            let answers = both.answers().into_iter();
            answers.for_each(|frame| both.reach_switch(frame));
            both.poll();
        }
    }
    let counters = both.requester.counters();
    assert!(
        counters.naks_sequence > 10 && written > 500,
        "{written}: {counters:?}"
    );
    assert!(
        counters.empty_writes < 3 * written,
        "{written}: {counters:?}"
    );
}

/// Found by a newcomer: headers that were let go one by one waited for a dead server one by one.
#[test]
fn nobody_waits_for_a_server_that_is_dead() {
    let mut both = Both::new();
    let handles: Vec<_> = (0..8u8).map(|number| both.write(&[number])).collect();
    both.exchange();
    let patience = both.requester.config().read_timeout;
    both.write(b"not answered");
    both.rest(2 * patience.as_millis() as u32 + 1);
    assert!(!both.requester.is_ready(0));
    for handle in &handles {
        assert_eq!(both.read(handle), Err(Refusal::Down));
    }
    assert_eq!(both.requester.losses().timeout, 8);
}

/// What neither key, address, length nor Header Info tell: other bytes in a payload's place.
#[test]
fn other_bytes_than_were_written_are_not_taken() {
    for (authenticates, expected) in [(true, Err(Lost::Mismatch)), (false, Ok(b"other".to_vec()))] {
        let mut both = Both::new();
        both.requester = Requester::new(Config {
            authenticates,
            ..*both.requester.config()
        });
        both.server = server(3, both.now);
        both.exchange();
        let handle = both.write(b"bytes");
        // Somebody on the link who computes ICRCs.
        let frame = both.output.frames.pop().expect("a WRITE");
        let layout = dissect(frame.bytes()).unwrap();
        let packet = RocePacket::read(frame.bytes(), &layout).unwrap();
        let stored = packet.payload(frame.bytes());
        let forged = [&stored[..stored.len() - 5], b"other"].concat();
        let path = path_of(both.requester.peer.as_ref().unwrap(), 0);
        let mut other = both.pools.take(200).unwrap();
        other.set_len(path.frame_bytes(&packet.header, forged.len()));
        let front = path.front_bytes(&packet.header);
        other.bytes_mut()[front..front + forged.len()].copy_from_slice(&forged);
        path.emit(&packet.header, forged.len(), other.bytes_mut())
            .unwrap();
        both.output.frames.push(other);
        both.exchange();
        both.read(&handle).unwrap();
        both.exchange();
        assert_eq!(both.came(), [expected]);
    }
}
