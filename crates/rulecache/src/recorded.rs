//! A packet as functions see it: every look and every change is recorded.

use crate::field::Field;
use crate::key::MatchKey;
use crate::progress::TcpProgress;
use crate::recording::{Dependency, EntryId, Obstacle, Pattern, Recording};
use std::time::Duration;
use twinpath_classify::acl::{Examined, Headers};
use twinpath_core::adjacency::{BACK, in_shard};
use twinpath_core::wire::{Address, Endpoint, MacAddress, Network, ethernet, fields, rewrite};
use twinpath_core::{Direction, Identifications, Packet};

/// What a packet has waited for.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// The entry that it waited for last, if its rules have told how they were used, or are gone.
    pub entry: Option<EntryId>,
    /// How often it has waited.
    pub times: u32,
}

/// Who knows whether cached rules depend on an entry.
pub trait Dependents {
    /// Whether no cached rule depends on the entry and none will until it is used again.
    fn is_free(&self, entry: EntryId) -> bool;

    /// What the packet has waited for.
    fn waited(&self) -> Waited {
        Waited::default()
    }

    /// A packet's recording, which will be looked at soon, names this entry.
    #[inline]
    fn expect(&self, _entry: EntryId) {}
}

/// Nothing is cached anywhere.
pub struct NoRules;

impl Dependents for NoRules {
    #[inline]
    fn is_free(&self, _entry: EntryId) -> bool {
        true
    }
}

/// A packet in the hands of a function.
pub struct Recorded<'a> {
    packet: &'a mut Packet,
    recording: &'a mut Recording,
    dependents: &'a dyn Dependents,
    function: u8,
    can_wait: bool,
}

impl<'a> Recorded<'a> {
    /// A packet in the hands of the function at this place in the chain.
    pub fn new(
        packet: &'a mut Packet,
        recording: &'a mut Recording,
        dependents: &'a dyn Dependents,
        function: u8,
    ) -> Self {
        recording.end_pattern();
        Self {
            packet,
            recording,
            dependents,
            function,
            can_wait: true,
        }
    }

    /// The packet is an answer on its way back to a function that the packet which it answers has
    /// passed just now.
    pub(crate) fn turning_back(self) -> Self {
        let can_wait = false;
        Self { can_wait, ..self }
    }

    // What is known without looking at the packet.

    /// Which way the packet goes through the chain. What this was told from is recorded already.
    #[inline]
    pub fn direction(&self) -> Direction {
        self.packet.direction
    }

    /// Whether the packet is one that rules can be made for (see [`MatchKey::of`]): a whole TCP,
    /// UDP or ICMP echo packet with a bare IP header. Others never meet a rule, so that telling
    /// them apart costs nothing.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.recording.obstacle() != Some(Obstacle::NotPlain)
    }

    /// The packet's number in the order of arrival: for whoever follows packets, not for decisions.
    #[inline]
    pub fn ordinal(&self) -> u64 {
        self.packet.frame.ordinal()
    }

    /// Bytes of the frame, for statistics only: a decision must not depend on it.
    #[inline]
    pub fn frame_bytes(&self) -> usize {
        self.packet.bytes().len()
    }

    /// How far a TCP segment says that its connection is. What a rule handles tells that with its
    /// [hits](crate::Hits::progress) alone, so nothing that is decided about this packet may depend on it,
    /// unless it makes no rule.
    #[inline]
    pub fn progress(&self) -> TcpProgress {
        TcpProgress {
            sequence: self.packet.tcp_sequence(),
            acknowledgement: self.packet.tcp_acknowledgement(),
        }
    }

    /// Whether this function may change or reuse one of its entries: no cached rule depends on
    /// it. If not, answer [`Verdict::Wait`](crate::Verdict::Wait).
    #[inline]
    pub fn is_free(&self, entry: u32) -> bool {
        let function = self.function;
        self.dependents.is_free(EntryId { function, entry })
    }

    /// Whether this function knows how cached rules have used one of its entries up to now: none depends on
    /// it, or all have told since this packet came. That is enough to decide about the packet by what the
    /// entry says, as long as rules would do with those behind it what the function does. If not, answer
    /// [`Verdict::Wait`](crate::Verdict::Wait): no rule goes unless that is answered again.
    #[inline]
    pub fn is_told(&self, entry: u32) -> bool {
        self.is_free(entry) || self.waited_for() == Some(entry)
    }

    /// The entry of this function that the packet has waited for last, if its rules have told how they
    /// were used, or are gone.
    pub fn waited_for(&self) -> Option<u32> {
        let waited = self.dependents.waited().entry;
        let own = waited.filter(|entry| entry.function == self.function);
        own.map(|entry| entry.entry)
    }

    /// How often the packet has waited.
    #[inline]
    pub fn waits(&self) -> u32 {
        self.dependents.waited().times
    }

    /// Whether the packet waits if that is answered; an answer on its way back within an element is
    /// dropped.
    #[inline]
    pub const fn can_wait(&self) -> bool {
        self.can_wait
    }

    // Looks.

    /// Source address and port; all their bits count as examined.
    #[inline]
    pub fn source(&mut self) -> Endpoint {
        self.recording.examine(Field::SourceAddress.mask());
        self.recording.examine(Field::SourcePort.mask());
        self.packet.source()
    }

    /// Destination address and port; all their bits count as examined.
    #[inline]
    pub fn destination(&mut self) -> Endpoint {
        self.recording.examine(Field::DestinationAddress.mask());
        self.recording.examine(Field::DestinationPort.mask());
        self.packet.destination()
    }

    /// IP protocol.
    #[inline]
    pub fn protocol(&mut self) -> u8 {
        self.recording.examine(Field::Protocol.mask());
        self.packet.layout.protocol
    }

    /// The port that the packet arrived on.
    #[inline]
    pub fn ingress(&mut self) -> u16 {
        self.recording.examine(Field::Ingress.mask());
        self.packet.frame.port()
    }

    /// Those TCP flags that are in `mask`; zero if there is no TCP header (so the protocol counts
    /// as examined).
    #[inline]
    pub fn tcp_flags(&mut self, mask: u8) -> u8 {
        self.recording.examine(Field::Protocol.mask());
        self.recording.examine(Field::TcpFlags.place(mask.into()));
        self.packet.tcp_flags() & mask
    }

    /// Those bits of a field that are in `mask`. Of a field that is not in the key, the packet
    /// makes no rule unless the field was written before.
    #[inline]
    pub fn bits(&mut self, field: Field, mask: u128) -> u128 {
        self.recording.examine_field(field, mask);
        self.value(field) & mask
    }

    /// What classifiers look at, unrecorded: say with [`Self::examined`] which bits counted.
    #[inline]
    pub fn headers(&self) -> Headers {
        let (source, destination) = (self.packet.source(), self.packet.destination());
        Headers {
            source: source.address,
            destination: destination.address,
            source_port: source.port,
            destination_port: destination.port,
            protocol: self.packet.layout.protocol,
        }
    }

    /// A classifier examined these bits of [`Self::headers`].
    #[inline]
    pub fn examined(&mut self, examined: &Examined) {
        let mut bits = MatchKey::NONE;
        for (field, examined) in [
            (Field::SourceAddress, examined.source),
            (Field::DestinationAddress, examined.destination),
            (Field::SourcePort, examined.source_port.into()),
            (Field::DestinationPort, examined.destination_port.into()),
            (Field::Protocol, examined.protocol.into()),
        ] {
            bits = bits.or(&field.place(examined));
        }
        self.recording.examine(bits);
    }

    /// The first `bits` bits (at most 128) of the destination address were examined, as a route
    /// table reports it.
    #[inline]
    pub fn examined_destination(&mut self, bits: u8) {
        let mask = leading(bits);
        self.recording
            .examine(Field::DestinationAddress.place(mask));
    }

    /// The same of the source address.
    #[inline]
    pub fn examined_source(&mut self, bits: u8) {
        let mask = leading(bits);
        self.recording.examine(Field::SourceAddress.place(mask));
    }

    /// From here to the function's end, its pattern stands for what it examines: looks cost
    /// nothing. With debug assertions they are checked to stay within it.
    #[inline]
    pub fn declare(&mut self, pattern: &Pattern) {
        self.recording.declare(pattern);
    }

    /// Whether the checksums of the IPv4 header and of the transport hold. If not, the packet makes no rule. If it does, the packet
    /// may: so whoever asks must let packets pass that come after this one without asking again.
    pub fn checksums_hold(&mut self) -> bool {
        let hold = self.packet.checksums_hold();
        if !hold {
            self.recording.obstruct(Obstacle::Payload);
        }
        hold
    }

    /// What the transport header carries; the packet makes no rule.
    pub fn payload(&mut self) -> &[u8] {
        self.recording.obstruct(Obstacle::Payload);
        self.packet.payload()
    }

    /// The packet to do anything with; it makes no rule.
    pub fn whole(&mut self) -> &mut Packet {
        self.recording.obstruct(Obstacle::Payload);
        self.packet
    }

    /// The packet to look at for a reply about it, unrecorded; the packet makes no rule.
    pub fn quote(&mut self) -> &Packet {
        self.recording.obstruct(Obstacle::Answered);
        self.packet
    }

    #[inline]
    fn value(&self, field: Field) -> u128 {
        let bytes = self.packet.bytes();
        let mac = |mac: MacAddress| {
            mac.0
                .iter()
                .fold(0, |bits, &byte| bits << 8 | u128::from(byte))
        };
        match field {
            Field::SourceAddress => self.packet.source().address.0,
            Field::DestinationAddress => self.packet.destination().address.0,
            Field::SourcePort => self.packet.source().port.into(),
            Field::DestinationPort => self.packet.destination().port.into(),
            Field::Protocol => self.packet.layout.protocol.into(),
            Field::TcpFlags => self.packet.tcp_flags().into(),
            Field::Ingress => self.packet.frame.port().into(),
            Field::SourceMac => mac(fields::source_mac(bytes)),
            Field::DestinationMac => mac(fields::destination_mac(bytes)),
            Field::Egress => self.recording.rewrites().egress.into(),
            Field::TimeToLive => fields::ttl(bytes, &self.packet.layout).into(),
            Field::Identification => {
                let identification = fields::identification(bytes, &self.packet.layout);
                identification.unwrap_or(0).into()
            }
        }
    }

    // Changes. The bytes change at once, so that the next function sees them.

    /// Rewrites source address and port. Returns whether the IP versions agree; if not, nothing
    /// has changed.
    #[inline]
    pub fn set_source(&mut self, new: Endpoint) -> bool {
        let old = self.packet.source();
        self.packet.set_source(new) && self.wrote_source(old, new, true)
    }

    /// Rewrites the source address alone. Returns whether the IP versions agree.
    #[inline]
    pub fn set_source_address(&mut self, address: Address) -> bool {
        let old = self.packet.source();
        let new = Endpoint::new(address, old.port);
        self.packet.set_source(new) && self.wrote_source(old, new, false)
    }

    /// Rewrites destination address and port, as [`Self::set_source`].
    #[inline]
    pub fn set_destination(&mut self, new: Endpoint) -> bool {
        let old = self.packet.destination();
        self.packet.set_destination(new) && self.wrote_destination(old, new, true)
    }

    /// Rewrites the destination address alone. Returns whether the IP versions agree.
    #[inline]
    pub fn set_destination_address(&mut self, address: Address) -> bool {
        let old = self.packet.destination();
        let new = Endpoint::new(address, old.port);
        self.packet.set_destination(new) && self.wrote_destination(old, new, false)
    }

    #[inline]
    fn wrote_source(&mut self, old: Endpoint, new: Endpoint, port: bool) -> bool {
        let same = old.address == new.address;
        self.recording
            .write(Field::SourceAddress, same)
            .source
            .address = new.address;
        if port {
            self.wrote_port(Field::SourcePort, old.port, new.port);
        }
        true
    }

    #[inline]
    fn wrote_destination(&mut self, old: Endpoint, new: Endpoint, port: bool) -> bool {
        let same = old.address == new.address;
        let rewrites = self.recording.write(Field::DestinationAddress, same);
        rewrites.destination.address = new.address;
        if port {
            self.wrote_port(Field::DestinationPort, old.port, new.port);
        }
        true
    }

    /// Of an echo both ports are one number.
    #[inline]
    fn wrote_port(&mut self, field: Field, old: u16, new: u16) {
        let is_echo = self.recording.original().is_echo();
        if is_echo || field == Field::SourcePort {
            let rewrites = self.recording.write(Field::SourcePort, old == new);
            rewrites.source.port = new;
        }
        if is_echo || field == Field::DestinationPort {
            let rewrites = self.recording.write(Field::DestinationPort, old == new);
            rewrites.destination.port = new;
        }
    }

    /// Sets the source MAC address.
    #[inline]
    pub fn set_source_mac(&mut self, mac: MacAddress) {
        ethernet::set_source(self.packet.frame.bytes_mut(), mac);
        self.recording.write(Field::SourceMac, false).source_mac = mac;
    }

    /// Sets the destination MAC address.
    #[inline]
    pub fn set_destination_mac(&mut self, mac: MacAddress) {
        ethernet::set_destination(self.packet.frame.bytes_mut(), mac);
        let rewrites = self.recording.write(Field::DestinationMac, false);
        rewrites.destination_mac = mac;
    }

    /// Says by which port the packet leaves. The last one counts.
    #[inline]
    pub fn set_egress(&mut self, port: u16) {
        self.recording.write(Field::Egress, false).egress = port;
    }

    /// The packet leaves by the port that it has come in by, unless a later function says another.
    pub fn goes_back(&mut self) {
        self.set_egress(BACK);
    }

    /// The packet goes on in another shard, where it meets this function again: here it meets none of
    /// those behind it.
    pub fn goes_on_in(&mut self, shard: u16) {
        self.set_egress(in_shard(shard));
    }

    /// Draws another identification for an IPv4 datagram whose source stands for several hosts,
    /// unless it is atomic; to be called when it has its new addresses. A rule draws from the fast
    /// path's half.
    #[inline]
    pub fn draw_identification(&mut self, numbers: &mut Identifications) {
        let layout = self.packet.layout;
        if layout.network == Network::V4 {
            self.recording.write(Field::Identification, false);
            numbers.number(self.packet.frame.bytes_mut(), &layout);
        }
    }

    /// Counts the time to live down. Returns false, with nothing changed, if it ends here: such a
    /// packet makes no rule, and no rule meets one that would end.
    #[inline]
    pub fn decrement_ttl(&mut self) -> bool {
        let ttl = fields::ttl(self.packet.bytes(), &self.packet.layout);
        if ttl <= 1 {
            self.recording.obstruct(Obstacle::Expired);
            return false;
        }
        let layout = self.packet.layout;
        let done = rewrite::set_ttl(self.packet.frame.bytes_mut(), &layout, ttl - 1);
        self.recording.count_down();
        done.is_ok()
    }

    // What else a decision came from.

    /// The decision came from one of this function's entries: while a rule made from it is
    /// cached, the entry must not change (see [`Self::is_free`]). With an idle time-out, the rule
    /// is not used later than that after its last use.
    #[inline]
    pub fn depends_on(&mut self, entry: u32, idle: Option<Duration>) {
        self.depend(entry, idle, false);
    }

    /// The same of an entry that stands for the sender of TCP segments: it is told how far the last one
    /// said that the connection is, with the [hits](crate::Hits::progress).
    #[inline]
    pub fn depends_on_sender(&mut self, entry: u32, idle: Option<Duration>) {
        self.depend(entry, idle, true);
    }

    #[inline]
    fn depend(&mut self, entry: u32, idle: Option<Duration>, hears_progress: bool) {
        let function = self.function;
        let entry = EntryId { function, entry };
        self.dependents.expect(entry);
        self.recording.depend(Dependency {
            entry,
            idle,
            hears_progress,
        });
    }

    /// The packet makes no rule.
    pub fn uncacheable(&mut self, why: Obstacle) {
        self.recording.obstruct(why);
    }
}

const fn leading(bits: u8) -> u128 {
    match bits {
        0 => 0,
        1..=127 => !(u128::MAX >> bits),
        _ => u128::MAX,
    }
}
