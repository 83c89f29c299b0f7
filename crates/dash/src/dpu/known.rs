//! Plain packets of known flows, by the shortest way: nearly all packets are some.
//!
//! Whatever is out of the ordinary goes the long way, from its beginning: here nothing is changed before
//! all has been looked at.

use std::ops::Range;

use twinpath_core::Instant;
use twinpath_core::wire::protocol;
use twinpath_core::wire::tunnel::{ecn, entropy_of};

use super::Dpu;
use crate::flows::{Entry, EntryNumber, State, opens};
use crate::headers::Direction;
use crate::pipeline::{Owner, Peeled, PlainPacket, Policies, Template, apply_template, stations};
use crate::tables::EniEntry;

impl Dpu {
    /// Forwards a packet that nothing stops, and of whose flow nothing changes but when it came last.
    /// `None` where that is not so, and nothing has been done yet.
    #[inline(always)]
    pub(super) fn forward_known(
        &mut self,
        buffer: &mut [u8],
        start: usize,
        (plain, owner): (&PlainPacket, Owner),
        hash: u64,
        now: Instant,
    ) -> Option<Range<usize>> {
        let (direction, number) = (owner.direction, owner.eni);
        let eni = self.tables.eni(number)?;
        let key = self.key_of(plain, owner)?;
        let place = self.flows.find(&key, hash)?;
        let entry = self.flows.get(place);
        let inside = buffer.get(start..)?.get(plain.inner())?;
        let tcp_flags = plain.inside.tcp_flags(inside);
        let is_plain = self.may_come(eni, plain, direction)
            && !self.is_asked(&key)
            && self.stays_as_it_is(&entry, plain.inside.protocol(), tcp_flags, now)
            && self.settings.caching
            && entry.stamp == self.tables.stamp(eni, entry.mapping_epoch);
        if !is_plain {
            return None;
        }
        let template = *self.template_for(&entry, eni, plain, direction)?;
        let headers = plain.headers();
        let peeled = Peeled {
            inner: plain.inner(),
            layout: plain.inside.layout(),
            outer_class: plain.outer_class,
            stations: stations(buffer.get(start..)?),
            entropy: entropy_of(
                [headers.source, headers.destination],
                headers.ports.unwrap_or_default(),
                headers.protocol,
            ),
        };
        let class = ecn::traffic_class(inside, &peeled.layout);
        ecn::decapsulated(peeled.outer_class, class)?;
        let (limits, bytes) = (eni.limits, inside.len());
        if !self.has_bandwidth(number, limits, bytes, now) {
            return None;
        }
        // From here on it leaves: there is as much room as the outer headers have left.
        let applied = apply_template(buffer, start, &peeled, &template, &self.context()).ok()?;
        self.count_known(place, &entry, (owner.way, number), applied.inner_bytes, now);
        Some(applied.frame)
    }

    /// Whether the ENI may have a packet that comes from there.
    #[inline(always)]
    fn may_come(&self, eni: &EniEntry, plain: &PlainPacket, direction: Direction) -> bool {
        let [outer_source, _] = plain.outer();
        eni.is_enabled && !self.is_spoofed(eni, direction, outer_source)
    }

    /// Whether a segment leaves its flow as far as it has come, and the flow is not over.
    #[inline(always)]
    fn stays_as_it_is(&self, entry: &Entry, number: u8, tcp_flags: u8, now: Instant) -> bool {
        let state = State::of(entry.state);
        let is_same = number != protocol::TCP
            || !opens(tcp_flags) && state.after(tcp_flags, entry.is_forward) == state;
        is_same && now.ticks_since(entry.last_seen) <= self.idle.of(number, state)
    }

    /// What is done to the packet, if that is all that is done, it comes with a VNI that it may have,
    /// and is not too long.
    #[inline(always)]
    fn template_for(
        &self,
        entry: &Entry,
        eni: &EniEntry,
        plain: &PlainPacket,
        direction: Direction,
    ) -> Option<&Template> {
        let template = self.actions.template(entry.action)?;
        let policies = Policies {
            tables: &self.tables,
            settings: &self.settings,
            eni,
            notes: None,
        };
        let leaves = template.sent_bytes(plain.inner().len()) <= self.settings.mtu
            && policies.accepts(direction, plain.key, &template.accepts);
        leaves.then_some(template)
    }

    #[inline(always)]
    fn count_known(
        &mut self,
        place: EntryNumber,
        entry: &Entry,
        (way, number): (Direction, u16),
        bytes: usize,
        now: Instant,
    ) {
        self.flows.touch_entry(place, now.ticks());
        let counters = &mut self.enis[usize::from(number)].counters;
        counters.receive(way, bytes);
        counters.flow_hits += 1;
        counters.send(way, bytes);
        counters.meters.count(entry.bucket, way, bytes);
    }
}

#[cfg(all(test, feature = "samples"))]
mod tests {
    use twinpath_core::wire::tunnel::{VXLAN_PORT, Varying};
    use twinpath_core::wire::{Endpoint, MacAddress, PacketBuilder, tcp::flags};

    use super::*;
    use crate::samples::{Large, large};
    use crate::{Settings, Verdict};

    const HEADROOM: usize = 64;

    fn dpu() -> Dpu {
        let objects = large(&Large {
            enis: 1,
            acl_stages: 0,
            acl_rules: 0,
            acl_prefixes: 0,
            routes: 1,
            mappings: 1,
        });
        let settings = Settings {
            flows: 64,
            ..Settings::default()
        };
        let mut dpu = Dpu::new(settings, 1);
        dpu.update(&objects, &objects.keys());
        dpu
    }

    fn segment(tcp_flags: u8, traffic_class: u8) -> Vec<u8> {
        let ends = [Large::machine(1), Large::mapped(0)].map(|end| Endpoint::new(end, 80));
        let inner = PacketBuilder::tcp(ends[0], ends[1]).flags(tcp_flags);
        let inner = inner.macs(Large::mac(0), MacAddress([2; 6])).to_vec();
        let varying = Varying {
            traffic_class,
            ..Varying::default()
        };
        let frame = Large::outbound(0, &inner.expect("a packet"), &varying);
        [vec![0; HEADROOM], frame].concat()
    }

    /// An answer to it, with a VNI.
    fn answer(vni: u32) -> Vec<u8> {
        let ends = [Large::mapped(0), Large::machine(1)].map(|end| Endpoint::new(end, 80));
        let inner = PacketBuilder::tcp(ends[0], ends[1]).flags(flags::ACK);
        let inner = inner.macs(MacAddress([2; 6]), Large::mac(0)).to_vec();
        let host = "222.0.0.0".parse().expect("an address");
        let inner = inner.expect("a packet");
        let frame = Large::encapsulated(host, vni, &inner, &Varying::default());
        [vec![0; HEADROOM], frame].concat()
    }

    /// Whether a packet goes by the shortest way.
    fn is_short(dpu: &mut Dpu, buffer: &mut [u8], now: Instant) -> bool {
        let frame = &buffer[HEADROOM..];
        let plain = PlainPacket::of(frame, VXLAN_PORT).expect("plain");
        let owner = plain.whose(frame, &dpu.tables).expect("an ENI's");
        let key = dpu.key_of(&plain, owner).expect("an ENI's");
        let hash = dpu.flows.hash(&key);
        let sent = dpu.forward_known(buffer, HEADROOM, (&plain, owner), hash, now);
        sent.is_some()
    }

    #[test]
    fn packets_of_known_flows_take_it_and_others_do_not() {
        let mut dpu = dpu();
        let at = |seconds: u64| Instant(seconds * 1_000_000_000);
        assert!(
            !is_short(&mut dpu, &mut segment(flags::ACK, 0), at(1)),
            "no flow"
        );
        let opened = dpu.process(&mut segment(flags::SYN, 0), HEADROOM, at(1));
        assert!(matches!(opened, Verdict::Forward(_)));
        let first = dpu.process(&mut answer(Large::vni(0)), HEADROOM, at(1));
        assert!(matches!(first, Verdict::Forward(_)));
        for _ in 0..2 {
            assert!(is_short(&mut dpu, &mut segment(flags::ACK, 0), at(2)));
        }
        assert!(is_short(&mut dpu, &mut answer(Large::vni(0)), at(2)));
        assert!(
            !is_short(&mut dpu, &mut answer(Large::vni(7)), at(2)),
            "from another network"
        );
        let hits = dpu.counters(&"eni-0".into()).expect("there").flow_hits;
        assert_eq!(hits, 1 + 3);
        let odd = [
            (flags::SYN, 0, 2, "opens it anew"),
            (flags::FIN | flags::ACK, 0, 2, "ends it"),
            (flags::ACK, ecn::CONGESTED, 2, "met congestion"),
            (flags::ACK, 0, 100_000, "over by then"),
        ];
        for (tcp_flags, class, seconds, what) in odd {
            let mut packet = segment(tcp_flags, class);
            let before = packet.clone();
            assert!(!is_short(&mut dpu, &mut packet, at(seconds)), "{what}");
            assert_eq!(packet, before, "{what}: nothing is done");
        }
        let counters = dpu.counters(&"eni-0".into()).expect("there");
        assert_eq!((counters.flow_hits, counters.drops.total()), (hits, 0));
    }
}
