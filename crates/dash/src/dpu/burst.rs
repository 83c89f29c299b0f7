//! Packets of a burst, which are looked at before the first of them is treated, so that reads of memory
//! that their flows need are under way together.

use twinpath_core::Instant;

use super::{Dpu, DpuStep, Verdict};
use crate::flows::EntryKey;
use crate::headers::{Direction, Headers};
use crate::pipeline::{Owner, PlainPacket, Received, Unreceived};

/// What is known of a burst's packets.
#[derive(Default)]
pub(super) struct Burst {
    packets: Vec<Ahead>,
    /// Those that are not plain.
    others: Vec<Result<Received, Unreceived>>,
    /// Hashes that answers to packets will probably have which open flows.
    answers: Vec<u64>,
}

/// What is known of a packet.
#[derive(Copy, Clone)]
struct Ahead {
    /// Of its flow.
    hash: u64,
    packet: AheadPacket,
}

#[derive(Copy, Clone)]
enum AheadPacket {
    Plain(PlainPacket, Owner),
    /// Its number among these.
    Other(usize),
}

impl Dpu {
    /// The same as [`Self::process`] for a burst, in its order: before the first packet is treated all
    /// have been taken apart. `each` is told what became of each.
    pub fn process_burst<B: AsMut<[u8]>>(
        &mut self,
        buffers: &mut [B],
        start: usize,
        now: Instant,
        mut each: impl FnMut(&mut B, Verdict),
    ) {
        let frames = buffers.iter_mut().map(|buffer| &*buffer.as_mut());
        self.look_ahead(frames.map(|bytes| bytes.get(start..).unwrap_or(&[])));
        for (number, buffer) in buffers.iter_mut().enumerate() {
            let step = self.begin_ahead(number, buffer.as_mut(), start, now);
            let verdict = self.verdict(step);
            each(buffer, verdict);
        }
    }

    /// Takes packets apart that come next, and brings what their flows need of memory: reads of it are
    /// under way together. [`Self::begin_ahead`] is told which of them a packet is.
    pub fn look_ahead<'a>(&mut self, frames: impl Iterator<Item = &'a [u8]>) {
        let mut burst = std::mem::take(&mut self.burst);
        burst.packets.clear();
        burst.others.clear();
        burst.answers.clear();
        for frame in frames {
            let ahead = self.ahead(frame, &mut burst.others);
            self.flows.fetch(ahead.hash);
            burst.packets.push(ahead);
        }
        // A bit for each packet whose flow is not in its first bucket.
        let mut others = 0u64;
        for (number, ahead) in burst.packets.iter().enumerate() {
            let is_other = !self.flows.fetch_on(ahead.hash);
            others |= u64::from(is_other).checked_shl(number as u32).unwrap_or(0);
        }
        for (number, ahead) in burst.packets.iter().enumerate() {
            let is_other = others.checked_shr(number as u32).unwrap_or(1) & 1 != 0;
            if is_other && !self.flows.fetch_other(ahead.hash) {
                let answers = self.fetch_for_opening(ahead, &burst.others);
                burst.answers.extend(answers);
            }
        }
        for hash in &burst.answers {
            self.flows.prefetch_room(*hash);
        }
        for ahead in &burst.packets {
            if let Some(entry) = self.flows.probable_entry(ahead.hash) {
                self.actions.fetch(entry.action);
                self.tables.prefetch_epoch(entry.mapping_epoch);
            }
        }
        self.burst = burst;
    }

    /// Takes a packet apart; one that is not plain is put among others.
    #[inline(always)]
    fn ahead(&self, frame: &[u8], others: &mut Vec<Result<Received, Unreceived>>) -> Ahead {
        let plain = PlainPacket::of(frame, self.tables.switch().port);
        if let Some(plain) = plain
            && let Ok(owner) = plain.whose(frame, &self.tables)
            && let Some(key) = self.key_of(&plain, owner)
        {
            return Ahead {
                hash: self.flows.hash(&key),
                packet: AheadPacket::Plain(plain, owner),
            };
        }
        let received = Received::read(frame, &self.tables, &self.settings);
        others.push(received);
        Ahead {
            hash: received.map_or(0, |it| self.hash(frame, &it)),
            packet: AheadPacket::Other(others.len() - 1),
        }
    }

    /// The key of a plain packet's flow.
    #[inline(always)]
    pub(super) fn key_of(&self, plain: &PlainPacket, owner: Owner) -> Option<EntryKey> {
        let (headers, eni) = (plain.headers(), self.tables.eni(owner.eni)?);
        let ports = headers.ports.unwrap_or_default();
        Some(EntryKey::new(eni.serial, owner.way, &headers, ports))
    }

    /// As [`Self::fetch_for_new`].
    fn fetch_for_opening(
        &self,
        ahead: &Ahead,
        others: &[Result<Received, Unreceived>],
    ) -> Option<u64> {
        let (way, eni, headers): (Direction, u16, Headers) = match ahead.packet {
            AheadPacket::Plain(plain, owner) => (owner.way, owner.eni, plain.headers()),
            AheadPacket::Other(number) => match others.get(number) {
                Some(Ok(Received { arrival, .. })) => (arrival.way, arrival.eni, arrival.headers),
                _ => return None,
            },
        };
        self.fetch_for_new((way, eni), &headers, ahead.hash)
    }

    /// As [`Self::begin`], for the packet with this number of those that were looked at last.
    pub fn begin_ahead(
        &mut self,
        number: usize,
        buffer: &mut [u8],
        start: usize,
        now: Instant,
    ) -> DpuStep {
        let Some(&Ahead { hash, packet }) = self.burst.packets.get(number) else {
            return self.begin(buffer, start, now);
        };
        if let AheadPacket::Plain(plain, owner) = packet
            && let Some(frame) = self.forward_known(buffer, start, (&plain, owner), hash, now)
        {
            return DpuStep::Done(Verdict::Forward(frame));
        }
        self.finish_ahead(packet, buffer, start, hash, now)
    }

    /// The long way, which is not to be where the shortest one is.
    #[inline(never)]
    fn finish_ahead(
        &mut self,
        packet: AheadPacket,
        buffer: &mut [u8],
        start: usize,
        hash: u64,
        now: Instant,
    ) -> DpuStep {
        let mut received = match packet {
            AheadPacket::Plain(plain, owner) => {
                let frame = buffer.get(start..).unwrap_or(&[]);
                Ok(Received::of_plain(frame, &plain, owner))
            }
            AheadPacket::Other(number) => self.burst.others[number],
        };
        self.finish(buffer, start, &mut received, Some(hash), now)
    }
}
