//! Packets on their way in: each enters when it is due, when there is room, and when what caused it
//! has left.

use crate::causality::{Causality, PacketSender};
use crate::late::{LatePacket, LatePackets};
use crate::machine::Machine;
use crate::source::{Read, Source};
use crate::watch::Watch;
use std::time::Duration;
use twinpath_core::{DropReason, Frame, Instant};
use twinpath_io::CaptureError;

/// When packets may enter.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// Whether nothing may be lost: packets wait for room. If not, they are dropped.
    pub is_lossless: bool,
    /// Whether packets wait for their time by the clock of the link.
    pub is_paced: bool,
    /// How far the packet clock may run ahead of packets on the slow path, if that is bounded.
    pub most_ahead: Option<Duration>,
}

/// Most conversations with waiting packets that are looked at each time.
const LATE_AT_ONCE: usize = 256;

/// Buffers that are left to messages.
const RESERVED: usize = 1;

/// Packets of a source, on their way into a machine.
pub struct Arrivals<'a> {
    source: &'a mut Source,
    next: Read,
    sender: Option<PacketSender>,
    causality: Causality,
    pacing: Pacing,
    /// The last packet's time: none is stamped with an earlier one.
    clock: Instant,
    /// Of live traffic: packets whose cause has not left. In a replay everybody waits.
    late: LatePackets,
    /// Packets that were read.
    read: u64,
    /// Which of them is followed.
    followed: Option<(u64, Watch)>,
}

/// What came of filling a burst.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Filled {
    /// As much as may enter now.
    Some,
    /// The source has no more.
    End,
}

impl<'a> Arrivals<'a> {
    /// The packets of a source.
    pub fn new(source: &'a mut Source, causality: Causality, pacing: Pacing) -> Self {
        Self {
            source,
            next: Read::Nothing,
            sender: None,
            causality,
            pacing,
            clock: Instant::ZERO,
            late: LatePackets::default(),
            read: 0,
            followed: None,
        }
    }

    /// The same, of which the packet with this number in the source, counted from 1, is followed
    /// when it enters; for replays, in which none comes late.
    #[must_use]
    pub fn following(self, number: u64, watch: Watch) -> Self {
        let followed = Some((number, watch));
        Self { followed, ..self }
    }

    /// Packets of the source that were read.
    pub fn packets_read(&self) -> u64 {
        self.read
    }

    /// When the first packet arrives; `None` if there is none now, or ever.
    ///
    /// # Errors
    /// The source cannot be read.
    pub fn first(&mut self) -> Result<Option<Instant>, CaptureError> {
        if matches!(self.next, Read::Nothing) {
            self.read()?;
        }
        Ok(match self.next {
            Read::Packet(at) => Some(at),
            _ => None,
        })
    }

    /// What time it is while none comes, where packets have the time at which they come.
    pub fn now(&mut self) -> Option<Instant> {
        match self.next {
            Read::Nothing => self.source.now(),
            _ => None,
        }
    }

    /// When the next packet arrives that is known of.
    pub fn next_at(&self) -> Option<Instant> {
        match self.next {
            Read::Packet(at) => Some(at),
            _ => None,
        }
    }

    /// Whether there are no more packets.
    pub fn is_over(&self) -> bool {
        self.next == Read::End && self.late.is_empty()
    }

    /// Says whether all packets that have entered are through.
    pub fn settle(&mut self, is_settled: bool) {
        self.source.settle(is_settled);
    }

    /// A packet goes on in another shard. Returns whether that still takes some.
    pub fn send_across(&self, shard: u16, frame: &Frame) -> bool {
        self.source.send_across(shard, frame)
    }

    /// When the first of the packets came that have crossed from other shards and may enter.
    pub fn first_across(&self) -> Option<Instant> {
        self.source.first_across()
    }

    /// Takes packets that have crossed from other shards and may enter, as many as there is room for.
    pub fn take_across(&mut self, machine: &mut Machine, frames: &mut Vec<Frame>) {
        let most = machine.room();
        self.source.take_across(most, machine.pools(), frames);
    }

    fn read(&mut self) -> Result<(), CaptureError> {
        self.next = self.source.read()?;
        self.read += u64::from(matches!(self.next, Read::Packet(_) | Read::TooLong));
        self.sender = match self.next {
            Read::Packet(_) => self.causality.sender(self.source.bytes()),
            _ => None,
        };
        Ok(())
    }

    /// Puts packets that may enter now into a burst. `now` is what time it is on the packet clock;
    /// `received_ns` on that of the link.
    ///
    /// # Errors
    /// The source cannot be read.
    pub fn fill(
        &mut self,
        machine: &mut Machine,
        now: Instant,
        received_ns: u64,
        burst: &mut Vec<Frame>,
    ) -> Result<Filled, CaptureError> {
        let room = machine.room();
        let first = burst.len();
        self.take_late(machine, now, room, burst);
        while burst.len() < room {
            match self.next {
                Read::Packet(at) if !self.may_enter(machine, at, now, burst) => {
                    if !self.comes_late(at, now) {
                        break;
                    }
                }
                Read::Packet(_) if self.leaves_no_reserve(machine, burst) => break,
                Read::Packet(at) => {
                    let frame = machine.pools().take_filled(self.source.bytes());
                    if frame.is_none() && self.waits_for_buffers(machine, burst) {
                        break;
                    }
                    let at = self.arrival(at, now);
                    self.enters(machine, frame, at, burst);
                }
                Read::TooLong => machine.count_drop(DropReason::FrameTooLong),
                Read::Nothing => {
                    self.read()?;
                    if self.next == Read::Nothing {
                        break;
                    }
                    continue;
                }
                Read::End => break,
            }
            self.read()?;
        }
        for frame in &mut burst[first..] {
            frame.set_received_ns(received_ns);
        }
        Ok(match self.is_over() {
            true => Filled::End,
            false => Filled::Some,
        })
    }

    /// Whether the next packet is due, neither its cause nor too old a packet is under way, and no
    /// deadline comes before it.
    fn may_enter(&self, machine: &mut Machine, at: Instant, now: Instant, burst: &[Frame]) -> bool {
        let is_early = self.pacing.is_paced && at > now;
        !is_early
            && !self.is_ahead(machine, at, burst)
            && self.is_caused(machine, self.sender)
            && machine.lets_in(at.max(self.clock))
    }

    /// Whether packets under way are too old for one of this time to follow.
    fn is_ahead(&self, machine: &Machine, at: Instant, burst: &[Frame]) -> bool {
        let Some(most_ahead) = self.pacing.most_ahead else {
            return false;
        };
        let first = burst.first().map(|frame| frame.timestamp());
        let oldest = machine.oldest_waiting().into_iter().chain(first).min();
        oldest.is_some_and(|oldest| at > oldest + most_ahead)
    }

    fn is_caused(&self, machine: &Machine, sender: Option<PacketSender>) -> bool {
        sender.is_none_or(|sender| {
            !self.late.concerns(sender) && self.causality.is_due(sender, machine.watermark())
        })
    }

    /// Whether it comes at the pace of a clock, and nobody waits for it.
    const fn is_live(&self) -> bool {
        self.pacing.is_paced && !self.pacing.is_lossless
    }

    /// When a packet arrives that was due at `at`: what is live is not there before it is taken.
    fn arrival(&mut self, at: Instant, now: Instant) -> Instant {
        if !self.is_live() {
            return at;
        }
        self.source.taken_behind(now.since(at));
        at.max(now)
    }

    /// A packet of live traffic is put aside until its cause has left; others go on. If too many
    /// are, all their senders wait: the traffic falls behind its time, and nothing of it is lost.
    fn comes_late(&mut self, at: Instant, now: Instant) -> bool {
        let is_early = self.pacing.is_paced && at > now;
        let Some(sender) = self.sender else {
            return false;
        };
        if is_early || self.pacing.is_lossless || self.late.is_full() {
            return false;
        }
        let packet = LatePacket {
            sender,
            ingress: self.source.ingress(),
            bytes: self.source.bytes().to_vec(),
        };
        self.late.put(packet);
        self.source.taken_behind(now.since(at));
        true
    }

    /// Packets whose cause has left meanwhile enter now. They arrive now, too.
    fn take_late(
        &mut self,
        machine: &mut Machine,
        now: Instant,
        room: usize,
        burst: &mut Vec<Frame>,
    ) {
        for _ in 0..self.late.places().min(LATE_AT_ONCE) {
            let watermark = machine.watermark();
            while burst.len() < room
                && let Some(late) = self
                    .late
                    .take_if(|late| self.causality.is_due(late.sender, watermark))
            {
                let Some(mut frame) = machine.pools().take_filled(&late.bytes) else {
                    machine.count_drop(DropReason::NoBuffer);
                    continue;
                };
                self.clock = self.clock.max(now);
                frame.set_timestamp(self.clock);
                frame.set_port(late.ingress);
                let ordinal = machine.arrived() + burst.len() as u64;
                self.causality.enters(late.sender, ordinal);
                burst.push(frame);
            }
            self.late.rotate();
        }
    }

    fn enters(
        &mut self,
        machine: &mut Machine,
        frame: Option<Frame>,
        at: Instant,
        burst: &mut Vec<Frame>,
    ) {
        let Some(mut frame) = frame else {
            return machine.count_drop(DropReason::NoBuffer);
        };
        self.clock = self.clock.max(at);
        frame.set_timestamp(self.clock);
        frame.set_port(self.source.ingress());
        let ordinal = machine.arrived() + burst.len() as u64;
        if let Some(sender) = self.sender {
            self.causality.enters(sender, ordinal);
        }
        if let Some((number, watch)) = &self.followed
            && *number == self.read
        {
            watch.follow(ordinal..ordinal + 1);
        }
        burst.push(frame);
    }

    /// Where nothing may be lost, packets leave buffers to the machine's own messages: those inside
    /// may wait for what they say, and would keep all buffers meanwhile.
    fn leaves_no_reserve(&self, machine: &mut Machine, burst: &[Frame]) -> bool {
        self.pacing.is_lossless
            && !machine.pools().small().has_more_than(RESERVED)
            && !(burst.is_empty() && machine.is_quiet())
    }

    /// Where nothing may be lost, packets wait until a buffer is free; only if functions keep all of
    /// them is none to be had.
    fn waits_for_buffers(&self, machine: &Machine, burst: &[Frame]) -> bool {
        self.pacing.is_lossless && !(burst.is_empty() && machine.is_quiet())
    }
}
