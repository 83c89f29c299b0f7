//! One direction of the link, and what somebody who sits on it can do.

use super::{Random, Tally};
use crate::handle::HEADER_INFO_BYTES;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;
use twinpath_core::Instant;
use twinpath_core::wire::roce::{Aeth, Header, Nak, Opcode, Path, Psn, Reth, RocePacket, Syndrome};
use twinpath_core::wire::{Layout, dissect, fields};

/// How often something goes wrong, of a thousand times.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    /// A frame is lost.
    pub lost: u64,
    /// It comes twice.
    pub doubled: u64,
    /// It is late, and overtaken.
    pub late: u64,
    /// Some of its bits are turned.
    pub damaged: u64,
    /// It comes again after long.
    pub repeated_after_long: u64,
    /// A server that was started dies.
    pub crashes: u64,
    /// A server's memory fails for a while.
    pub failing: u64,
    /// Somebody on the link sends something.
    pub forged: u64,
    /// They put other bytes in a payload's place, with its Header Info and the right ICRC.
    pub rewritten: u64,
    /// There are few buffers at either end.
    pub has_few_buffers: bool,
}

impl Faults {
    /// Nothing goes wrong.
    pub const NONE: Self = Self {
        lost: 0,
        doubled: 0,
        late: 0,
        damaged: 0,
        repeated_after_long: 0,
        crashes: 0,
        failing: 0,
        forged: 0,
        rewritten: 0,
        has_few_buffers: false,
    };

    /// Each seed has some of them.
    #[must_use]
    pub fn drawn(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x5eed);
        let mut some = |most: u64| match random.happens(500) {
            true => 1 + random.below(most),
            false => 0,
        };
        Self {
            lost: some(50),
            doubled: some(50),
            late: some(100),
            damaged: some(50),
            repeated_after_long: some(20),
            crashes: some(900),
            failing: some(300),
            forged: some(900),
            rewritten: some(50),
            has_few_buffers: some(10) > 7,
        }
    }
}

const DELAY: Duration = Duration::from_micros(5);
/// Frames that were seen are kept to be sent again.
const KEPT: usize = 64;

/// One direction.
pub struct Link {
    random: Random,
    under_way: BinaryHeap<Reverse<(Instant, u64, Vec<u8>)>>,
    sent: u64,
    last_arrival: u64,
    seen: VecDeque<Vec<u8>>,
    overtaken: u64,
}

impl Link {
    /// An empty one.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            under_way: BinaryHeap::new(),
            sent: 0,
            last_arrival: 0,
            seen: VecDeque::new(),
            overtaken: 0,
        }
    }

    /// When the next frame arrives.
    #[must_use]
    pub fn next(&self) -> Instant {
        let first = self.under_way.peek();
        first.map_or(Instant::NEVER, |Reverse((at, ..))| *at)
    }

    /// What has arrived by now, one by one.
    pub fn arrived(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.next() > now {
            return None;
        }
        let Reverse((_, number, bytes)) = self.under_way.pop()?;
        self.overtaken += u64::from(number < self.last_arrival);
        self.last_arrival = self.last_arrival.max(number);
        Some(bytes)
    }

    fn put(&mut self, bytes: Vec<u8>, at: Instant) {
        self.sent += 1;
        self.under_way.push(Reverse((at, self.sent, bytes)));
    }

    /// A frame is sent.
    pub fn send(&mut self, bytes: &[u8], now: Instant, faults: &Faults, tally: &mut Tally) {
        tally.add_to("frames_overtaken", std::mem::take(&mut self.overtaken));
        if self.seen.len() == KEPT {
            self.seen.pop_front();
        }
        self.seen.push_back(bytes.to_vec());
        let random = &mut self.random;
        if random.happens(faults.lost) {
            tally.count("frames_lost");
            return;
        }
        let mut bytes = bytes.to_vec();
        if self.random.happens(faults.rewritten)
            && let Some(other) = self.rewritten(&bytes)
        {
            tally.count("frames_rewritten");
            bytes = other;
        }
        let random = &mut self.random;
        let clean = bytes.clone();
        if random.happens(faults.damaged) {
            tally.count("frames_damaged");
            for _ in 0..1 + random.below(3) {
                let bit = random.below(8 * bytes.len() as u64) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
        let is_late = random.happens(faults.late);
        tally.add_to("frames_late", u64::from(is_late));
        let more = match is_late {
            true => Duration::from_nanos(random.below(60_000)),
            false => Duration::ZERO,
        };
        let is_doubled = random.happens(faults.doubled);
        let again = Duration::from_nanos(random.below(40_000));
        let is_repeated = random.happens(faults.repeated_after_long);
        let after_long = Duration::from_nanos(random.below(20_000_000));
        self.put(bytes, now + DELAY + more);
        if is_doubled {
            tally.count("frames_doubled");
            self.put(clean.clone(), now + DELAY + again);
        }
        if is_repeated {
            tally.count("frames_repeated_after_long");
            self.put(clean, now + DELAY + after_long);
        }
    }

    // What somebody on the link can do, who computes right ICRCs.

    /// A frame with another payload in the place of its own, and its own Header Info.
    fn rewritten(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let frame = RoceFrame::of(bytes)?;
        let stored = frame.packet.payload(&frame.bytes);
        let info = stored.get(..HEADER_INFO_BYTES)?;
        let is_stored = |opcode| [Opcode::READ_RESPONSE_ONLY, Opcode::WRITE_ONLY].contains(&opcode);
        let mut random = self.random.clone();
        let other = self.seen(&mut random, is_stored)?;
        self.random = random;
        let other = other
            .packet
            .payload(&other.bytes)
            .get(HEADER_INFO_BYTES..)?;
        let others = other.iter().cycle().take(stored.len() - info.len());
        let payload: Vec<u8> = info.iter().chain(others).copied().collect();
        (payload.len() == stored.len() && payload != stored)
            .then(|| emitted(&frame.path(), &frame.packet.header, &payload))
    }

    /// A frame that was seen lately and is of such a kind.
    fn seen(&self, random: &mut Random, is_such: impl Fn(Opcode) -> bool) -> Option<RoceFrame> {
        let start = random.below(self.seen.len() as u64) as usize;
        let frames = self.seen.iter().cycle().skip(start).take(self.seen.len());
        frames
            .map(|bytes| RoceFrame::of(bytes))
            .find_map(|seen| seen.filter(|seen| is_such(seen.packet.header.opcode)))
    }

    /// Another READ's answer, or an old one, under a number that may be expected.
    pub fn move_response(&mut self, now: Instant, random: &mut Random, tally: &mut Tally) {
        let is_response = |opcode| opcode == Opcode::READ_RESPONSE_ONLY;
        let (Some(one), Some(other)) =
            (self.seen(random, is_response), self.seen(random, |_| true))
        else {
            return;
        };
        let ahead = random.below(8) as u32;
        let header = Header {
            destination_qp: other.packet.header.destination_qp,
            psn: other.packet.header.psn.plus(ahead),
            ..one.packet.header
        };
        tally.count("frames_moved");
        let payload = one.packet.payload(&one.bytes).to_vec();
        self.put(emitted(&one.path(), &header, &payload), now + DELAY);
    }

    /// An acknowledgement or NAK of any kind, to a number that may be expected.
    pub fn forge_answer(&mut self, now: Instant, random: &mut Random, tally: &mut Tally) {
        let Some(seen) = self.seen(random, |_| true) else {
            return;
        };
        let syndrome = match random.below(8) {
            0 => Syndrome::ACK,
            1 => Syndrome::NotReady(random.below(12) as u8),
            2 => Syndrome::Nak(Nak::InvalidRequest),
            3 => Syndrome::Nak(Nak::RemoteAccess),
            4 => Syndrome::Nak(Nak::RemoteOperation),
            5 => Syndrome::Nak(Nak::InvalidDatagram),
            6 => Syndrome::Reserved(0xe1),
            _ => Syndrome::Nak(Nak::Sequence),
        };
        // Of what the server has not executed it cannot say that it has: that would be a lie about
        // its memory, against which nothing helps.
        let psn = match syndrome {
            Syndrome::ACK => seen.packet.header.psn,
            Syndrome::Nak(_) | Syndrome::NotReady(_) => seen.packet.header.psn.plus(1),
            _ => seen.packet.header.psn.plus(random.below(8) as u32),
        };
        let header = Header {
            aeth: Some(Aeth {
                syndrome,
                messages: 7,
            }),
            ..Header::new(Opcode::ACKNOWLEDGE, seen.packet.header.destination_qp, psn)
        };
        tally.count("forged_answers");
        self.put(emitted(&seen.path(), &header, b""), now + DELAY);
    }

    /// A request that the server must refuse.
    pub fn forge_request(&mut self, now: Instant, random: &mut Random, tally: &mut Tally) {
        let Some(seen) = self.seen(random, Opcode::has_reth) else {
            return;
        };
        let known = seen.packet.header;
        let reth = known.reth.unwrap_or(Reth {
            address: 0,
            rkey: 0,
            bytes: 4,
        });
        let (opcode, reth) = match random.below(6) {
            0 => (
                Opcode::READ_REQUEST,
                Reth {
                    rkey: reth.rkey ^ 1,
                    bytes: 64,
                    ..reth
                },
            ),
            1 => (
                Opcode::WRITE_ONLY,
                Reth {
                    rkey: reth.rkey ^ 8,
                    bytes: 4,
                    ..reth
                },
            ),
            2 => (
                Opcode::WRITE_ONLY,
                Reth {
                    address: reth.address + (1 << 20),
                    bytes: 4,
                    ..reth
                },
            ),
            3 => (
                Opcode::READ_REQUEST,
                Reth {
                    address: u64::MAX,
                    bytes: 64,
                    ..reth
                },
            ),
            4 => (Opcode::WRITE_ONLY, Reth { bytes: 8, ..reth }),
            _ => (Opcode(0x04), reth),
        };
        let psn: Psn = known.psn.plus(1 + random.below(2) as u32);
        let header = Header {
            reth: opcode.has_reth().then_some(reth),
            ack_request: true,
            ..Header::new(opcode, known.destination_qp, psn)
        };
        let payload: &[u8] = if opcode == Opcode::WRITE_ONLY {
            b"evil"
        } else {
            b""
        };
        tally.count("forged_requests");
        self.put(emitted(&seen.path(), &header, payload), now + DELAY);
    }
}

/// A RoCE frame that was seen.
struct RoceFrame {
    bytes: Vec<u8>,
    layout: Layout,
    packet: RocePacket,
}

impl RoceFrame {
    fn of(bytes: &[u8]) -> Option<Self> {
        let layout = dissect(bytes).ok()?;
        let packet = RocePacket::read(bytes, &layout).ok()?;
        Some(Self {
            bytes: bytes.to_vec(),
            layout,
            packet,
        })
    }

    fn path(&self) -> Path {
        Path {
            source_mac: fields::source_mac(&self.bytes),
            destination_mac: fields::destination_mac(&self.bytes),
            source: fields::source_address(&self.bytes, &self.layout),
            destination: fields::destination_address(&self.bytes, &self.layout),
            source_port: fields::source_port(&self.bytes, &self.layout),
        }
    }
}

fn emitted(path: &Path, header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; path.frame_bytes(header, payload.len())];
    let front = path.front_bytes(header);
    frame[front..front + payload.len()].copy_from_slice(payload);
    path.emit(header, payload.len(), &mut frame).expect("sound");
    frame
}
