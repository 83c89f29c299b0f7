//! What is let into the chain, and which way it goes there.
//!
//! This stands in front of both paths: what does not enter is dropped and counted by its reason, or
//! passes by the chain if the service says so. Which way a packet goes is told here once, by the
//! port that it came in by where the service names those inside; then its source is checked against
//! that, as it is only what a sender claims (RFC 2827, RFC 3704).

use twinpath_control::service::{Entrance, EtherType, SourceCheck};
use twinpath_core::wire::layout::{Layout, Plain, PlainEnds, unparsed};
use twinpath_core::wire::{
    Address, MacAddress, Malformed, Unparsed, dissect, fields, layout, verify_ipv4_checksum,
};
use twinpath_core::{Direction, DropReason, Frame};
use twinpath_nf::descriptor::Reception;
use twinpath_rulecache::Sides;

/// What is let into the chain.
pub struct Admission {
    sides: Sides,
    /// What a router in the chain takes.
    reception: Option<Reception>,
    /// Whether the router itself says which MAC addresses are its own.
    has_macs: bool,
    /// The networks inside, if sources are checked against the side that packets came from.
    inside: Option<Sides>,
    /// What translations give out to hosts inside, if nobody outside may send from there.
    given_out: Option<Sides>,
    /// Whether the chain takes packets out of tunnels.
    opens_tunnels: bool,
    entrance: Entrance,
}

impl Admission {
    /// Packets go the way that `sides` tell; `inside` are the networks that packets from inside
    /// may come from. All are taken by whatever is in the chain.
    pub fn new(sides: Sides, inside: Option<Sides>, entrance: &Entrance) -> Self {
        let is_checked =
            |inside: &Sides| entrance.source_check != SourceCheck::Off && !inside.is_one_way();
        Self {
            sides,
            inside: inside.filter(is_checked),
            given_out: None,
            reception: None,
            has_macs: false,
            opens_tunnels: false,
            entrance: entrance.clone(),
        }
    }

    /// The same in front of translations that give out these addresses, if sources are checked strictly.
    #[must_use]
    pub fn with_given_out(self, addresses: Option<Sides>) -> Self {
        let is_strict = self.inside.is_some() && self.entrance.source_check == SourceCheck::Strict;
        Self {
            given_out: addresses.filter(|addresses| is_strict && !addresses.is_one_way()),
            ..self
        }
    }

    /// The same in front of a router, which does not take all frames.
    #[must_use]
    pub fn with_reception(self, reception: Option<Reception>) -> Self {
        let has_macs = reception.as_ref().is_some_and(|one| !one.macs.is_empty());
        Self {
            reception,
            has_macs,
            ..self
        }
    }

    /// The same in front of a chain that takes packets out of tunnels, or does not.
    #[must_use]
    pub fn with_tunnels(self, opens_tunnels: bool) -> Self {
        Self {
            opens_tunnels,
            ..self
        }
    }

    /// Whether frames that are to be cut are cut where they enter, by the packets inside.
    #[inline(always)]
    pub const fn opens_tunnels(&self) -> bool {
        self.opens_tunnels
    }

    /// Packets come in by interfaces with these MAC addresses: a router that does not say which are
    /// its own takes what is for them, or for an address that it sends from.
    pub fn set_stations(&mut self, stations: &[MacAddress]) {
        let Some(reception) = self.reception.as_mut().filter(|_| !self.has_macs) else {
            return;
        };
        let own = stations.iter().chain(&reception.source_macs);
        if !own.clone().eq(&reception.macs) {
            reception.macs = own.copied().collect();
        }
    }

    /// What tells which way packets go.
    #[inline(always)]
    pub const fn sides(&self) -> &Sides {
        &self.sides
    }

    /// Whether not all plain packets enter.
    #[inline(always)]
    pub const fn looks_at_plain(&self) -> bool {
        let is_checked = self.inside.is_some() || self.reception.is_some();
        self.entrance.verify_ipv4_checksum || is_checked
    }

    /// Whether a plain packet with these ends enters that goes this way.
    #[inline(always)]
    pub fn admits_plain(
        &self,
        bytes: &[u8],
        (plain, ends): (Plain, PlainEnds),
        direction: Direction,
    ) -> bool {
        if self.entrance.verify_ipv4_checksum && !plain.has_valid_checksum(bytes) {
            return false;
        }
        let source = (ends.addresses >> 32) as u32;
        if let Some(reception) = &self.reception
            && !takes_plain(reception, bytes, source)
        {
            return false;
        }
        let Some(inside) = &self.inside else {
            return true;
        };
        let is_given_out =
            |given: &Sides| given.of_v4().direction(source, 0) == Direction::Original;
        let is_plain = inside.of_v4().direction(source, 0) == direction
            && (direction == Direction::Original
                || !self.given_out.as_ref().is_some_and(is_given_out));
        is_plain
            || self
                .refused_source(Address::from_v4(source.to_be_bytes()), direction)
                .is_none()
    }

    /// Which way a packet goes.
    ///
    /// # Errors
    /// Why it does not enter.
    pub fn admit(&self, frame: &Frame, layout: &Layout) -> Result<Direction, DropReason> {
        let bytes = frame.bytes();
        if let Some(what) = unparsed(bytes, layout) {
            return Err(DropReason::Unparsed(what));
        }
        if self.entrance.verify_ipv4_checksum && !verify_ipv4_checksum(bytes, layout) {
            return Err(DropReason::Malformed(Malformed::Ipv4Checksum));
        }
        let source = fields::source_address(bytes, layout);
        if let Some(reception) = &self.reception {
            check_reception(reception, bytes, layout, source)?;
        }
        if self.sides.is_one_way() {
            return Ok(Direction::Original);
        }
        let direction = self.sides.direction(source, frame.port());
        match self.refused_source(source, direction) {
            None => Ok(direction),
            Some(reason) => Err(reason),
        }
    }

    /// Why a packet does not enter that claims to come from this address.
    #[cold]
    fn refused_source(&self, source: Address, direction: Direction) -> Option<DropReason> {
        let inside = self.inside.as_ref()?;
        let is_among = |sides: &Sides| sides.direction(source, 0) == Direction::Original;
        match (direction, is_among(inside)) {
            _ if is_of_a_link(source) => None,
            (Direction::Reply, false) if self.given_out.as_ref().is_some_and(is_among) => {
                Some(DropReason::SourceInside)
            }
            (Direction::Reply, true) => Some(DropReason::SourceInside),
            (Direction::Original, false) => {
                let is_strict = self.entrance.source_check == SourceCheck::Strict;
                is_strict.then_some(DropReason::SourceOutside)
            }
            _ => None,
        }
    }

    /// Why a frame is dropped that does not enter; `None` if it passes by the chain.
    #[cold]
    pub fn refusal(&self, frame: &Frame) -> Option<DropReason> {
        let layout = match dissect(frame.bytes()) {
            Ok(layout) => layout,
            Err(malformed) => return Some(DropReason::Malformed(malformed)),
        };
        match self.admit(frame, &layout) {
            Err(DropReason::Unparsed(what)) if self.passes_by(what, frame, &layout) => None,
            Err(reason) => Some(reason),
            Ok(_) => None,
        }
    }

    fn passes_by(&self, what: Unparsed, frame: &Frame, layout: &Layout) -> bool {
        let ether_type = match what {
            Unparsed::Llc => EtherType::LLC,
            _ => EtherType(layout::ether_type(frame.bytes(), layout)),
        };
        self.entrance.forwards(ether_type)
    }
}

/// Whether a router takes a plain packet from this address.
#[inline(always)]
fn takes_plain(reception: &Reception, bytes: &[u8], source: u32) -> bool {
    let is_martian = |own: &Vec<Address>| {
        is_martian_v4(source.to_be_bytes()) || own.contains(&Address::from_v4(source.to_be_bytes()))
    };
    is_for(reception, bytes) && !reception.martians_of.as_ref().is_some_and(is_martian)
}

/// Whether a frame is for a router, and not for a group or for another station.
#[inline(always)]
fn is_for(reception: &Reception, bytes: &[u8]) -> bool {
    let station = fields::destination_mac(bytes);
    let is_own = reception.macs.is_empty() || reception.macs.contains(&station);
    is_own && station.0[0] & 1 == 0
}

fn check_reception(
    reception: &Reception,
    bytes: &[u8],
    layout: &Layout,
    source: Address,
) -> Result<(), DropReason> {
    let is_from_mars = |own: &Vec<Address>| is_martian(source) || own.contains(&source);
    if !is_for(reception, bytes) {
        return Err(DropReason::OtherStation);
    }
    if reception.martians_of.as_ref().is_some_and(is_from_mars) {
        return Err(DropReason::Martian);
    }
    match fields::is_source_routed(bytes, layout) {
        true => Err(DropReason::SourceRoute),
        false => Ok(()),
    }
}

/// An address that no packet on a wire comes from (RFC 1812 §5.3.7, RFC 3927 §2.7, RFC 4291 §2.5).
fn is_martian(source: Address) -> bool {
    match source.is_v4() {
        true => is_martian_v4(source.octets4()),
        // The unspecified address is 0, that of loopback 1.
        false => source.0 <= 1 || source.octets16()[0] == 0xff || is_of_a_link(source),
    }
}

#[inline(always)]
const fn is_martian_v4(source: [u8; 4]) -> bool {
    matches!(source, [0 | 127 | 224.., ..] | [169, 254, ..])
}

/// An address that is of a link and not of a network, which hosts have that look for one: they may
/// be on either side (RFC 1122 §3.2.1.3, RFC 3927, RFC 4291 §2.5).
fn is_of_a_link(source: Address) -> bool {
    match source.is_v4() {
        true => matches!(source.octets4(), [0, 0, 0, 0] | [169, 254, ..]),
        false => source == Address::UNSPECIFIED_V6 || source.word(0) >> 22 == 0xfe80 >> 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::Pool;
    use twinpath_core::wire::build::Extension;
    use twinpath_core::wire::{Endpoint, PacketBuilder};

    const INSIDE: u16 = 0;
    const OUTSIDE: u16 = 1;

    fn admission(entrance: &Entrance) -> Admission {
        let prefixes = ["10.0.0.0/8", "2001:db8:1::/48"].map(|text| text.parse().expect(text));
        let inside = Sides::new(&prefixes).expect("few");
        Admission::new(Sides::of_ports(&[INSIDE]), Some(inside), entrance)
    }

    /// Both ways to judge a packet, of which plain ones may go either.
    fn judged(entrance: &Entrance, bytes: &[u8], port: u16) -> Result<Direction, DropReason> {
        judged_by(admission(entrance), bytes, port)
    }

    fn judged_by(admission: Admission, bytes: &[u8], port: u16) -> Result<Direction, DropReason> {
        let mut frame = Pool::new(1, 1500).take_filled(bytes).expect("room");
        frame.set_port(port);
        let layout = dissect(bytes).expect("well formed");
        let told = admission.admit(&frame, &layout);
        if let Some(plain) = Plain::of(bytes) {
            let direction = admission.sides().direction(Address::UNSPECIFIED_V6, port);
            let enters = admission.admits_plain(bytes, (plain, plain.ends(bytes)), direction);
            assert_eq!(enters, told.is_ok());
        }
        assert_eq!(admission.refusal(&frame), told.err());
        told
    }

    fn packet(from: &str) -> Vec<u8> {
        let from: Endpoint = from.parse().expect(from);
        let to = match from.address.is_v4() {
            true => "192.0.2.1:53",
            false => "[2001:db8:2::1]:53",
        };
        let packet = PacketBuilder::udp(from, to.parse().expect(to));
        packet.to_vec().expect("short")
    }

    #[test]
    fn sources_are_checked_against_the_side() {
        let check = |source_check| Entrance {
            source_check,
            ..Entrance::default()
        };
        let (strict, loose) = (check(SourceCheck::Strict), check(SourceCheck::Loose));
        let (original, reply) = (Ok(Direction::Original), Ok(Direction::Reply));
        let (inside, outside) = (DropReason::SourceInside, DropReason::SourceOutside);
        for from in ["10.1.2.3:5", "[2001:db8:1::7]:5"] {
            let packet = packet(from);
            assert_eq!(judged(&strict, &packet, INSIDE), original);
            assert_eq!(judged(&strict, &packet, OUTSIDE), Err(inside));
            assert_eq!(judged(&loose, &packet, OUTSIDE), Err(inside));
            assert_eq!(judged(&check(SourceCheck::Off), &packet, OUTSIDE), reply);
        }
        for from in ["192.0.2.9:5", "[2001:db8:3::7]:5"] {
            let packet = packet(from);
            assert_eq!(judged(&strict, &packet, OUTSIDE), reply);
            assert_eq!(judged(&strict, &packet, INSIDE), Err(outside));
            assert_eq!(judged(&loose, &packet, INSIDE), original);
        }
        for from in ["0.0.0.0:68", "169.254.7.7:5", "[fe80::1]:5", "[::]:5"] {
            assert_eq!(judged(&strict, &packet(from), INSIDE), original, "{from}");
            assert_eq!(judged(&strict, &packet(from), OUTSIDE), reply, "{from}");
        }
    }

    #[test]
    fn nobody_outside_sends_from_what_is_given_out() {
        let given = || {
            let prefixes =
                ["198.51.100.7/32", "2001:db8:9::/48"].map(|text| text.parse().expect(text));
            Some(Sides::new(&prefixes).expect("few"))
        };
        let told = |source_check, from: &str, port| {
            let entrance = Entrance {
                source_check,
                ..Entrance::default()
            };
            judged_by(
                admission(&entrance).with_given_out(given()),
                &packet(from),
                port,
            )
        };
        let (inside, outside) = (DropReason::SourceInside, DropReason::SourceOutside);
        for from in ["198.51.100.7:9", "[2001:db8:9::7]:5"] {
            assert_eq!(told(SourceCheck::Strict, from, OUTSIDE), Err(inside));
            assert_eq!(told(SourceCheck::Strict, from, INSIDE), Err(outside));
            let reply = Ok(Direction::Reply);
            assert_eq!(told(SourceCheck::Loose, from, OUTSIDE), reply);
            assert_eq!(told(SourceCheck::Off, from, OUTSIDE), reply);
        }
        for from in ["198.51.100.8:9", "[2001:db8:a::7]:5"] {
            let reply = Ok(Direction::Reply);
            assert_eq!(told(SourceCheck::Strict, from, OUTSIDE), reply);
        }
    }

    #[test]
    fn header_checksums_are_verified_if_wanted() {
        let wrong = Err(DropReason::Malformed(Malformed::Ipv4Checksum));
        let verified = Entrance {
            verify_ipv4_checksum: true,
            ..Entrance::default()
        };
        let from: Endpoint = "10.0.0.1:5".parse().expect("an endpoint");
        let to = "192.0.2.1:53".parse().expect("an endpoint");
        let udp = PacketBuilder::udp(from, to).payload_len(30);
        for packet in [
            udp,
            udp.vlan(7),
            udp.ipv4_options(&[1; 4]),
            udp.fragment(8, true),
        ] {
            let mut packet = packet.to_vec().expect("short");
            assert_eq!(judged(&verified, &packet, INSIDE), Ok(Direction::Original));
            let l3 = usize::from(dissect(&packet).expect("sound").l3);
            packet[l3 + 8] ^= 1;
            assert_eq!(judged(&verified, &packet, INSIDE), wrong);
            let as_it_is = judged(&Entrance::default(), &packet, INSIDE);
            assert_eq!(as_it_is, Ok(Direction::Original));
        }
    }

    /// Both ways to judge a packet in front of a router.
    fn received(reception: &Reception, bytes: &[u8]) -> Option<DropReason> {
        let sides = Sides::ONE_WAY;
        let admission = Admission::new(sides, None, &Entrance::default());
        let admission = admission.with_reception(Some(reception.clone()));
        let frame = Pool::new(1, 1500).take_filled(bytes).expect("room");
        let refusal = admission.refusal(&frame);
        if let Some(plain) = Plain::of(bytes) {
            let enters =
                admission.admits_plain(bytes, (plain, plain.ends(bytes)), Direction::Original);
            assert_eq!(enters, refusal.is_none(), "{refusal:?}");
        }
        refusal
    }

    #[test]
    fn routers_take_what_is_for_them() {
        let own = MacAddress([2, 0, 0, 0, 0, 7]);
        let any = Reception::default();
        let some = Reception {
            macs: vec![own],
            ..Reception::default()
        };
        let addressed = |from: &str, to: MacAddress| {
            let mut packet = packet(from);
            packet[..6].copy_from_slice(&to.0);
            packet
        };
        for from in ["10.0.0.1:5", "[2001:db8:1::1]:5"] {
            let other = MacAddress([2, 0, 0, 0, 0, 8]);
            for (to, by_any, by_some) in [(own, true, true), (other, true, false)] {
                let refused = |takes: bool| (!takes).then_some(DropReason::OtherStation);
                assert_eq!(received(&any, &addressed(from, to)), refused(by_any));
                assert_eq!(received(&some, &addressed(from, to)), refused(by_some));
            }
            for group in [MacAddress([0xff; 6]), MacAddress([0x33, 0x33, 0, 0, 0, 1])] {
                let refused = Some(DropReason::OtherStation);
                assert_eq!(received(&any, &addressed(from, group)), refused);
            }
        }
    }

    /// On network interfaces a router that names no MAC addresses has theirs, and those that it sends
    /// from; interfaces may get others.
    #[test]
    fn routers_have_the_addresses_of_their_interfaces() {
        let [card, other_card, sender, named, stranger] =
            [1, 2, 3, 4, 5].map(|last| MacAddress([2, 0, 0, 0, 0, last]));
        let takes = |macs: &[MacAddress], stations: &[&[MacAddress]]| {
            let reception = Reception {
                macs: macs.to_vec(),
                source_macs: vec![sender],
                ..Reception::default()
            };
            let admission = Admission::new(Sides::ONE_WAY, None, &Entrance::default());
            let mut admission = admission.with_reception(Some(reception));
            stations
                .iter()
                .for_each(|some| admission.set_stations(some));
            [card, other_card, sender, named, stranger].map(|to| {
                let mut packet = packet("10.0.0.1:5");
                packet[..6].copy_from_slice(&to.0);
                let frame = Pool::new(1, 1500).take_filled(&packet).expect("room");
                admission.refusal(&frame).is_none()
            })
        };
        assert_eq!(takes(&[], &[]), [true; 5], "a capture");
        assert_eq!(takes(&[], &[&[card]]), [true, false, true, false, false]);
        let both = [card, other_card];
        assert_eq!(
            takes(&[], &[&[card], &both]),
            [true, true, true, false, false]
        );
        assert_eq!(
            takes(&[], &[&both, &[card]]),
            [true, false, true, false, false]
        );
        assert_eq!(
            takes(&[named], &[&both]),
            [false, false, false, true, false]
        );
        let mut bridge = Admission::new(Sides::ONE_WAY, None, &Entrance::default());
        bridge.set_stations(&both);
        let frame = Pool::new(1, 1500)
            .take_filled(&packet("10.0.0.1:5"))
            .expect("room");
        assert_eq!(bridge.refusal(&frame), None, "no router");
    }

    #[test]
    fn nobody_comes_from_mars() {
        let own = ["192.0.2.254", "2001:db8::254"].map(|text| text.parse().expect(text));
        let careful = Reception {
            martians_of: Some(own.to_vec()),
            ..Reception::default()
        };
        for from in [
            "0.1.2.3:5",
            "127.0.0.1:5",
            "169.254.1.1:5",
            "224.0.0.1:5",
            "240.0.0.1:5",
            "255.255.255.255:5",
            "192.0.2.254:5",
            "[::]:5",
            "[::1]:5",
            "[fe80::1]:5",
            "[ff02::1]:5",
            "[2001:db8::254]:5",
        ] {
            assert_eq!(
                received(&careful, &packet(from)),
                Some(DropReason::Martian),
                "{from}"
            );
            assert_eq!(received(&Reception::default(), &packet(from)), None);
        }
        for from in [
            "1.0.0.0:5",
            "126.0.0.1:5",
            "169.253.1.1:5",
            "223.255.255.255:5",
            "[::2]:5",
        ] {
            assert_eq!(received(&careful, &packet(from)), None, "{from}");
        }
    }

    #[test]
    fn senders_do_not_say_which_way_packets_go() {
        let (v4, v6) = ("10.0.0.1:5", "[2001:db8::1]:5");
        let udp = |from: &str| {
            let end = |text: &str| text.parse().expect(text);
            PacketBuilder::udp(
                end(from),
                end(if from == v4 {
                    "10.0.0.2:6"
                } else {
                    "[2001:db8::2]:6"
                }),
            )
        };
        let refused = Some(DropReason::SourceRoute);
        for (options, expected) in [
            (&[131u8, 7, 4, 1, 2, 3, 4][..], refused),
            (&[1, 137, 7, 4, 1, 2, 3, 4], refused),
            (&[7, 7, 4, 0, 0, 0, 0], None),
            (&[0, 131, 7, 4], None),
        ] {
            let packet = udp(v4).ipv4_options(options).to_vec().expect("short");
            assert_eq!(
                received(&Reception::default(), &packet),
                expected,
                "{options:?}"
            );
        }
        let routed = udp(v6).ipv6_extension(Extension::Routing, 3).to_vec();
        let mut routed = routed.expect("short");
        assert_eq!(
            received(&Reception::default(), &routed),
            None,
            "it is where it was to go"
        );
        routed[14 + 40 + 3] = 1;
        assert_eq!(received(&Reception::default(), &routed), refused);
        routed[14 + 40 + 2] = 4;
        assert_eq!(
            received(&Reception::default(), &routed),
            None,
            "another type"
        );
    }

    #[test]
    fn frames_without_an_ip_packet_pass_by_or_are_dropped_by_kind() {
        let frame = |ether_type: u16| {
            let mut frame = vec![0; 60];
            frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
            Pool::new(1, 1500).take_filled(&frame).expect("room")
        };
        let some = Entrance {
            forward_ether_types: vec![EtherType(0x0806), EtherType::LLC],
            ..Entrance::default()
        };
        let all = Entrance {
            unparsed: twinpath_control::service::UnparsedFate::Forward,
            ..Entrance::default()
        };
        for (ether_type, kind, passes) in [
            (0x0806, Unparsed::Arp, true),
            (0x0027, Unparsed::Llc, true),
            (0x88cc, Unparsed::EtherType, false),
            (0x8847, Unparsed::Mpls, false),
            (0x8863, Unparsed::Pppoe, false),
        ] {
            let (frame, dropped) = (frame(ether_type), Some(DropReason::Unparsed(kind)));
            assert_eq!(admission(&Entrance::default()).refusal(&frame), dropped);
            assert_eq!(admission(&all).refusal(&frame), None);
            let expected = dropped.filter(|_| !passes);
            assert_eq!(admission(&some).refusal(&frame), expected);
        }
    }
}
