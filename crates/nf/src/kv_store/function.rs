//! What the store does on the slow path.

use super::config::Config;
use super::program::{VALUE_WORDS, program};
use crate::checksums::VerifyChecksums;
use std::any::Any;
use std::mem::swap;
use twinpath_core::key::Role;
use twinpath_core::key_value::write_reply;
use twinpath_core::program::FastProgram;
use twinpath_core::{DropReason, Instant, Packet};
use twinpath_slowpath::{Flow, NetworkFunction, Outbox};
use twinpath_wire::kv::{self, KvMalformed, KvOp, KvStatus, KvView};
use twinpath_wire::{Fragment, Transport};

/// The key-value store's part on the slow path.
pub struct KvStore {
    program: FastProgram,
    port: u16,
    checksums: VerifyChecksums,
    counters: Counters,
}

#[derive(Default)]
struct Counters {
    gets: u64,
    hits: u64,
    puts: u64,
    deletes: u64,
    too_large: u64,
    bad_requests: u64,
    answered: u64,
    bad_checksums: u64,
}

impl KvStore {
    /// An empty store.
    pub fn new(config: &Config) -> Self {
        Self {
            program: program(config),
            port: config.port(),
            checksums: config.verify_checksums,
            counters: Counters::default(),
        }
    }

    fn is_for_us(&self, packet: &Packet) -> bool {
        packet.layout.transport == Transport::Udp && packet.destination().port == self.port
    }

    fn handle_datagram(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        let (status, length) = match KvView::new(packet.payload()) {
            Ok(message) if message.is_reply() => return self.refuse(packet, out),
            Ok(request) if self.is_broken(&packet, &request) => {
                self.counters.bad_checksums += 1;
                return out.drop(packet, DropReason::BadChecksum);
            }
            Ok(request) => self.apply(&request, flow.words),
            Err(why) => match refusal(why, packet.payload()) {
                Some(status) => self.count_refusal(status),
                None => return self.refuse(packet, out),
            },
        };
        reply(packet, status, flow.words, length, out);
    }

    /// Whether a request would change a value, but its checksum is wrong. UDP over IPv4 need not
    /// have one.
    fn is_broken(&self, packet: &Packet, request: &KvView<'_>) -> bool {
        let changes = request.op() != KvOp::Get;
        changes && self.checksums.of_state() && !packet.checksums_hold()
    }

    /// Does what a request asks for; tells the status and length of the reply.
    fn apply(&mut self, request: &KvView<'_>, words: &mut [u32]) -> (KvStatus, usize) {
        match request.op() {
            KvOp::Get => {
                let length = words.first().and_then(|presence| presence.checked_sub(1));
                self.counters.gets += 1;
                self.counters.hits += u64::from(length.is_some());
                length.map_or((KvStatus::NotFound, 0), |length| {
                    (KvStatus::Ok, length as usize)
                })
            }
            KvOp::Put => {
                self.counters.puts += 1;
                store(words, request.value());
                (KvStatus::Ok, 0)
            }
            KvOp::Delete => {
                self.counters.deletes += 1;
                let present = words.first() != Some(&0);
                words.fill(0);
                (
                    if present {
                        KvStatus::Ok
                    } else {
                        KvStatus::NotFound
                    },
                    0,
                )
            }
        }
    }

    fn count_refusal(&mut self, status: KvStatus) -> (KvStatus, usize) {
        let too_large = status == KvStatus::TooLarge;
        self.counters.too_large += u64::from(too_large);
        self.counters.bad_requests += u64::from(!too_large);
        self.counters.answered += u64::from(!too_large);
        (status, 0)
    }

    fn refuse(&mut self, packet: Packet, out: &mut Outbox<'_>) {
        self.counters.bad_requests += 1;
        out.drop(packet, DropReason::BadRequest);
    }

    /// Only a first fragment tells its port.
    fn handle_fragment(&self, packet: Packet, out: &mut Outbox<'_>) {
        if packet.layout.fragment == Fragment::First && self.is_for_us(&packet) {
            return out.drop(packet, DropReason::Fragment);
        }
        out.forward(packet);
    }
}

/// How a datagram that is no valid message is answered; not at all if it is a reply, or so far
/// from the protocol that an answer would mean nothing to its sender.
fn refusal(why: KvMalformed, payload: &[u8]) -> Option<KvStatus> {
    let header = payload.first_chunk::<{ kv::HEADER_BYTES }>()?;
    let is_reply = header[kv::OP_AT] & kv::REPLY_BIT != 0;
    match why {
        KvMalformed::Truncated | KvMalformed::Magic | KvMalformed::Version => None,
        _ if is_reply => None,
        KvMalformed::ValueLength
            if usize::from(header[kv::VALUE_LENGTH_AT]) > kv::MAX_VALUE_BYTES =>
        {
            Some(KvStatus::TooLarge)
        }
        _ => Some(KvStatus::BadRequest),
    }
}

/// Writes a value as state words: length plus one, and the bytes, padded with zeros.
fn store(words: &mut [u32], value: &[u8]) {
    let Some((presence, place)) = words.split_first_mut() else {
        return;
    };
    *presence = value.len() as u32 + 1;
    place.fill(0);
    for (word, bytes) in place.iter_mut().zip(value.chunks(4)) {
        let mut padded = [0; 4];
        padded[..bytes.len()].copy_from_slice(bytes);
        *word = u32::from_be_bytes(padded);
    }
}

fn reply(mut packet: Packet, status: KvStatus, words: &[u32], length: usize, out: &mut Outbox<'_>) {
    let value = words.get(1..=VALUE_WORDS).unwrap_or(&[]);
    match write_reply(
        &mut packet.frame,
        &packet.layout,
        status as u8,
        value,
        length,
    ) {
        Some(layout) => {
            packet.layout = layout;
            out.reply(packet);
        }
        None => out.drop(packet, DropReason::FrameTooLong),
    }
}

impl NetworkFunction for KvStore {
    fn name(&self) -> &'static str {
        super::NAME
    }

    fn program(&self) -> FastProgram {
        self.program.clone()
    }

    fn handle(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        match packet.role {
            Role::Fragment => self.handle_fragment(packet, out),
            Role::Member if self.is_for_us(&packet) => self.handle_datagram(packet, flow, out),
            Role::Member | Role::Error => out.forward(packet),
        }
    }

    fn is_expired(&self, _words: &[u32], _now: Instant) -> bool {
        false
    }

    fn kv_port(&self) -> Option<u16> {
        Some(self.port)
    }

    /// Keys keep their values, whatever port they are asked for at.
    fn reconfigure(&mut self, new: &mut dyn NetworkFunction) -> bool {
        let Some(new) = (new as &mut dyn Any).downcast_mut::<Self>() else {
            return false;
        };
        swap(&mut self.program, &mut new.program);
        (self.port, self.checksums) = (new.port, new.checksums);
        true
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let Counters {
            gets,
            hits,
            puts,
            deletes,
            too_large,
            bad_requests,
            answered,
            bad_checksums,
        } = self.counters;
        each("gets", gets);
        each("hits", hits);
        each("puts", puts);
        each("deletes", deletes);
        each("too_large", too_large);
        each("bad_requests", bad_requests);
        each("answered", answered);
        each("packets_with_bad_checksum", bad_checksums);
    }
}
