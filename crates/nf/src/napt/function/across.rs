//! Packets between hosts inside that belong to two shards: of the sender's session its shard knows, of
//! the receiver's that of the receiver. So such a packet is translated in the one as if it left, goes on
//! in the other, and is translated there as if it came from outside; nobody on the way sees it between.

use super::Napt;
use super::fragments::Part;
use super::icmp_errors::quoted;
use super::translatable::{Translatable, is_echo_request};
use crate::records::Kind;
use twinpath_core::Instant;
use twinpath_rulecache::{Recorded, Verdict};

impl Napt {
    /// The other shard that has the external endpoint which a packet from inside is for; `None` if this
    /// one has it, or if each knows who is meant.
    pub(super) fn shard_across(
        &mut self,
        packet: &mut Recorded<'_>,
        translatable: &Translatable,
        now: Instant,
    ) -> Option<u16> {
        let others = self.other_shards.as_ref()?;
        match translatable {
            Translatable::Ports(kind)
            | Translatable::Part(Part {
                kind: Some(kind), ..
            }) => others.of(packet.destination(), kind.protocol()),
            Translatable::Error => {
                let quote = quoted(packet.quote())?;
                others.of(quote.source, quote.kind.protocol())
            }
            // As its first one.
            Translatable::Part(part) => self.fragments.became(&part.datagram, now)?.shard,
            Translatable::Fragment | Translatable::Other | Translatable::NotIp => None,
        }
    }

    /// Gives a packet its sender's external endpoint. An echo has one identifier: a request bears its
    /// sender's, anything else keeps that by which its receiver is found.
    pub(super) fn send_across(
        &mut self,
        packet: &mut Recorded<'_>,
        kind: Kind,
        now: Instant,
    ) -> Result<(), Verdict> {
        let receiver = packet.destination();
        let is_answer = kind == Kind::Icmp && !is_echo_request(packet.quote());
        self.send_out(packet, kind, now)?;
        if is_answer {
            packet.set_destination(receiver);
        }
        self.counters.hairpinned += 1;
        Ok(())
    }
}
