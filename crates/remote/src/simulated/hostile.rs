//! A memory server that does what it likes, as bytes say: for who looks for what a requester cannot bear.
//!
//! It hears every request, so that it can answer what was asked, and with right check sums: what nobody
//! has asked, twice, too early, with other lengths, numbers and contents, or not at all.

use crate::registration::{self, MAX_FRAME_BYTES, Memory, Message, QueuePair, Restore};
use crate::{Handle, Output, PayloadMemory, Requester, requester};
use std::collections::BTreeMap;
use std::time::Duration;
use twinpath_core::wire::roce::{Aeth, Header, Opcode, Path, Reth, RocePacket, Syndrome};
use twinpath_core::wire::{Address, MacAddress, dissect};
use twinpath_core::{Frame, Instant, Pools, Ticket};

const SWITCH: MacAddress = MacAddress([2; 6]);
const SERVER: MacAddress = MacAddress([4; 6]);
const BUFFERS: usize = 64;
const MTU: u16 = 256;
const BASE: u64 = 0x10_0000;

/// What a requester has asked last, so that there is something to answer.
#[derive(Copy, Clone)]
struct Asked {
    header: Header,
    reth: Reth,
}

struct World {
    requester: Requester,
    pools: Pools,
    output: Output,
    now: Instant,
    handles: Vec<Handle>,
    /// How many bytes are to come for each header that waits.
    waiting: BTreeMap<u32, u16>,
    next_header: u32,
    restores: Vec<Restore>,
    asked: Vec<Asked>,
    /// What is written, by address.
    written: BTreeMap<u64, Vec<u8>>,
    incarnation: u32,
}

/// Plays what the bytes say, eight for a step.
///
/// # Panics
/// If something comes back that was not asked for, twice, never, or in another length; if a buffer is lost,
/// or more is sent than requests can be under way.
pub fn play(bytes: &[u8]) {
    let mut world = World::new();
    for step in bytes.as_chunks::<8>().0.iter().take(512) {
        world.step(*step);
    }
    world.end();
}

impl World {
    fn new() -> Self {
        let ip = Address::from_v4([10, 0, 0, 1]);
        let config = requester::Config {
            queue_pairs: 2,
            mtu: MTU,
            window: 8,
            waiting: 4,
            records: 8,
            ack_every: 2,
            ..requester::Config::new(1, SWITCH, ip, 7)
        };
        let mut world = Self {
            requester: Requester::new(config),
            pools: Pools::new(BUFFERS, 1),
            output: Output::default(),
            now: Instant(1_000_000),
            handles: Vec::new(),
            waiting: BTreeMap::new(),
            next_header: 0,
            restores: Vec::new(),
            asked: Vec::new(),
            written: BTreeMap::new(),
            incarnation: 1,
        };
        world.announce(world.memory());
        world.poll();
        (0..2).for_each(|which| world.begin(which, 0));
        world
    }

    fn memory(&self) -> Memory {
        Memory {
            server: 1,
            incarnation: self.incarnation,
            address: BASE,
            bytes: 4096,
            rkey: 9,
            mtu: MTU,
            queue_pairs: 2,
            reads: 2,
            mac: SERVER,
            ip: Address::from_v4([10, 0, 0, 2]),
        }
    }

    fn step(&mut self, step: [u8; 8]) {
        let [what, which, a, b, c, d, e, f] = step;
        match what % 10 {
            0 | 1 => self.write(which, u16::from_be_bytes([a % 2, b])),
            2 => self.read(which),
            3 | 4 => self.answer(which, [a, b, c, d, e, f]),
            5 => self.begin(which, a),
            6 => self.announce_anything(step),
            7 => self.anything(step),
            8 => self.discard(which),
            _ => {
                self.now = self.now + Duration::from_micros(u64::from(which) * 100);
                self.poll();
            }
        }
        self.settle();
    }

    fn write(&mut self, pair: u8, bytes: u16) {
        let Some(mut payload) = self.pools.take(bytes.into()) else {
            return;
        };
        payload.set_len(bytes.into());
        let pair = u16::from(pair % 2);
        match self
            .requester
            .write(pair, payload, self.now, &mut self.output)
        {
            Ok(handle) => self.handles.push(handle),
            Err((payload, _)) => {
                assert_eq!(payload.len(), usize::from(bytes), "it comes back as it was");
                self.pools.give(payload);
            }
        }
    }

    fn read(&mut self, which: u8) {
        if self.handles.is_empty() {
            return;
        }
        let handle = self.handles[usize::from(which) % self.handles.len()];
        let header = Ticket {
            slot: self.next_header,
            generation: 1,
        };
        self.next_header += 1;
        let (now, pools) = (self.now, &mut self.pools);
        self.waiting.insert(header.slot, handle.bytes);
        let asked = self
            .requester
            .read(&handle, header, now, pools, &mut self.output);
        if asked.is_err() {
            self.waiting.remove(&header.slot);
        }
    }

    fn discard(&mut self, which: u8) {
        if !self.handles.is_empty() {
            let which = usize::from(which) % self.handles.len();
            self.requester.discard(&self.handles.swap_remove(which));
        }
    }

    /// An answer to a request, more or less.
    fn answer(&mut self, which: u8, [kind, code, psn, bytes, damage, at]: [u8; 6]) {
        let Some(&Asked { header, reth }) =
            self.asked.get(usize::from(which) % self.asked.len().max(1))
        else {
            return;
        };
        let opcode = match kind % 8 {
            0..4 if header.opcode == Opcode::READ_REQUEST => Opcode::READ_RESPONSE_ONLY,
            0..4 => Opcode::ACKNOWLEDGE,
            4 => Opcode::READ_RESPONSE_ONLY,
            5 => Opcode::ACKNOWLEDGE,
            _ => Opcode(code % 0x16),
        };
        let syndrome = match kind & 0x10 {
            0 => Syndrome::ACK,
            _ => Syndrome::of(code),
        };
        let mut payload = match opcode {
            Opcode::ACKNOWLEDGE => Vec::new(),
            _ => self.written.get(&reth.address).cloned().unwrap_or_default(),
        };
        if kind & 0x20 != 0 {
            payload.resize(usize::from(bytes), 0xaa);
        }
        let length = payload.len().max(1);
        if let Some(byte) = payload.get_mut(usize::from(at) % length) {
            *byte ^= damage;
        }
        // A few before and behind the one that was asked.
        let psn = match kind & 0x40 {
            0 => header.psn,
            _ => header.psn.plus(u32::from(psn)).plus((1 << 24) - 128),
        };
        let number = self.restores.iter().rev().map(|restore| restore.qpn);
        let number = number.take(2).nth(usize::from(kind >> 7)).unwrap_or(2);
        let answer = Header {
            aeth: opcode.has_aeth().then_some(Aeth {
                syndrome,
                messages: 0,
            }),
            reth: opcode.has_reth().then_some(reth),
            immediate: opcode.has_immediate().then_some(1),
            ..Header::new(opcode, number, psn)
        };
        self.emit(&answer, &payload);
    }

    fn emit(&mut self, header: &Header, payload: &[u8]) {
        let path = Path {
            source_mac: SERVER,
            destination_mac: SWITCH,
            source: Address::from_v4([10, 0, 0, 2]),
            destination: Address::from_v4([10, 0, 0, 1]),
            source_port: 50_000,
        };
        let mut frame = vec![0; path.frame_bytes(header, payload.len())];
        let front = path.front_bytes(header);
        frame[front..front + payload.len()].copy_from_slice(payload);
        if path.emit(header, payload.len(), &mut frame).is_ok() {
            self.arrives(&frame);
        }
    }

    /// A queue pair that was asked for begins its life, or one that was not.
    fn begin(&mut self, which: u8, change: u8) {
        let Some(asked) = self
            .restores
            .get(usize::from(which) % self.restores.len().max(1))
        else {
            return;
        };
        let answer = QueuePair {
            server: asked.server,
            incarnation: asked.incarnation ^ u32::from(change & 1),
            life: asked.life ^ u32::from(change >> 1 & 1),
            index: asked.index ^ u16::from(change >> 2 & 3),
            epoch: asked.epoch ^ u16::from(change >> 4 & 1),
            qpn: 2 + u32::from(which),
        };
        self.says(&Message::QueuePair(answer));
    }

    fn announce_anything(&mut self, [_, which, a, b, c, d, e, f]: [u8; 8]) {
        let mut memory = self.memory();
        match which % 8 {
            0 => self.incarnation = self.incarnation.wrapping_add(1),
            1 => memory.bytes = u64::from_be_bytes([0, 0, 0, a, b, c, d, e]),
            2 => memory.mtu = u16::from_be_bytes([a, b]),
            3 => memory.queue_pairs = u16::from_be_bytes([a, b]),
            4 => memory.reads = f,
            5 => memory.address = u64::from_be_bytes([a, b, c, d, e, f, 0, 0]),
            6 => memory.server = a.into(),
            _ => memory.ip = Address(u128::from(a)),
        }
        memory.incarnation = self.incarnation ^ u32::from(f & 1);
        self.announce(memory);
    }

    fn announce(&mut self, memory: Memory) {
        self.says(&Message::Memory(memory));
    }

    fn says(&mut self, message: &Message) {
        let mut bytes = [0; MAX_FRAME_BYTES];
        let length = message.write(SERVER, SWITCH, &mut bytes);
        self.arrives(&bytes[..length]);
    }

    /// Bytes of no sense.
    fn anything(&mut self, step: [u8; 8]) {
        let mut frame = vec![step[1]; 12 + usize::from(step[2])];
        let from_server = registration::FROM_SERVER.to_be_bytes();
        for (byte, value) in frame
            .iter_mut()
            .skip(12)
            .zip(from_server.iter().chain(&step))
        {
            *byte = *value;
        }
        self.arrives(&frame);
    }

    fn arrives(&mut self, bytes: &[u8]) {
        let Some(frame) = self.pools.take_filled(bytes) else {
            return;
        };
        let (now, pools) = (self.now, &mut self.pools);
        let other = self.requester.receive(frame, now, pools, &mut self.output);
        other.into_iter().for_each(|frame| pools.give(frame));
    }

    fn poll(&mut self) {
        let (now, pools) = (self.now, &mut self.pools);
        self.requester.poll(now, pools, &mut self.output);
        self.settle();
    }

    /// Looks at all that the requester has put out.
    fn settle(&mut self) {
        assert!(self.output.frames.len() < BUFFERS);
        for frame in std::mem::take(&mut self.output.frames) {
            self.hear(&frame);
            self.pools.give(frame);
        }
        for returned in std::mem::take(&mut self.output.payloads) {
            let bytes = self.waiting.remove(&returned.header.slot);
            let bytes = bytes.expect("it was asked for, and ends once");
            if let Ok(payload) = returned.payload {
                assert_eq!(payload.len(), usize::from(bytes));
                self.pools.give(payload);
            }
        }
        self.output.events.clear();
        self.handles.drain(..self.handles.len().saturating_sub(64));
    }

    /// A server hears a request.
    fn hear(&mut self, frame: &Frame) {
        const REMEMBERED: usize = 16;
        if let Ok(Message::Restore(restore)) = Message::read(frame.bytes()) {
            self.restores.push(restore);
            self.restores
                .drain(..self.restores.len().saturating_sub(REMEMBERED));
            return;
        }
        let layout = dissect(frame.bytes()).expect("a packet");
        let packet = RocePacket::read(frame.bytes(), &layout).expect("a request");
        let header = packet.header;
        let reth = header.reth.expect("WRITEs and READs name memory");
        if header.opcode == Opcode::WRITE_ONLY {
            let stored = packet.payload(frame.bytes());
            assert_eq!(stored.len(), reth.bytes as usize);
            self.written.insert(reth.address, stored.to_vec());
        }
        self.asked.push(Asked { header, reth });
        self.asked
            .drain(..self.asked.len().saturating_sub(REMEMBERED));
    }

    /// All that was asked for ends when its time is over, and no buffer is missing.
    fn end(mut self) {
        let end = self.now + 2 * self.requester.config().read_timeout;
        while self.now < end {
            self.now = self.now + Duration::from_micros(500);
            self.poll();
        }
        assert!(self.waiting.is_empty(), "{:?} never end", self.waiting);
        let buffers = std::iter::from_fn(|| self.pools.small().take());
        let buffers: Vec<_> = buffers.collect();
        assert_eq!(buffers.len(), BUFFERS, "a buffer is lost");
    }
}
