//! The names that a translation gives out: where they stand in a packet, and how they are blanked.

use crate::options::Renaming;
use crate::protocol::Protocol;
use std::fmt::{self, Display, Formatter};
use twinpath_core::wire::{
    Address, Endpoint, Fragment, Inner, Layout, Network, RewriteError, Transport, fields, icmp,
    protocol, rewrite,
};

/// A name that a translation has given to an endpoint inside.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    /// TCP, UDP, ICMP or another IP protocol.
    pub protocol: u8,
    /// An external address.
    pub address: Address,
    /// The external port or echo identifier, of packets that have one.
    pub port: Option<u16>,
}

impl Display for Name {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", Protocol(self.protocol))?;
        match (self.port, self.protocol) {
            (None, _) => self.address.fmt(f),
            (Some(identifier), protocol::ICMP | protocol::ICMP6) => {
                write!(f, "{} identifier {identifier}", self.address)
            }
            (Some(port), _) => Endpoint::new(self.address, port).fmt(f),
        }
    }
}

/// Where names stood in a packet before they were blanked: part of what a flow is, so that nobody's
/// packet is taken for one whose name was blanked.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Blanks {
    /// Of all names.
    all: u8,
    /// Of the one whose life is looked at: what it says and what it hears are two directions.
    own: u8,
}

// The places of a packet in which a name can stand.
const SOURCE: u8 = 1;
const DESTINATION: u8 = 2;
const QUOTED_SOURCE: u8 = 4;
const QUOTED_DESTINATION: u8 = 8;
/// An ICMP error from or to the external address that its quote names.
const SOURCE_AS_QUOTED: u8 = 16;
const DESTINATION_AS_QUOTED: u8 = 32;

/// The names in a packet: at most its two ends and those of the packet that it quotes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// Each once, with all its places.
    names: [Option<(Name, u8)>; 4],
    /// All places.
    places: u8,
}

impl Names {
    /// The names, each with where it stood and where others did.
    pub fn each(&self) -> impl Iterator<Item = (Name, Blanks)> + '_ {
        let all = self.places;
        let named = self.names.iter().flatten();
        named.map(move |&(name, own)| (name, Blanks { all, own }))
    }

    /// Where names stood.
    pub const fn blanks(&self) -> Blanks {
        Blanks {
            all: self.places,
            own: 0,
        }
    }

    /// Whether there is one.
    pub const fn any(&self) -> bool {
        self.places != 0
    }

    /// The port of a name, if one has any.
    pub fn port(&self) -> Option<u16> {
        self.names.iter().flatten().find_map(|(name, _)| name.port)
    }

    fn add(&mut self, place: u8, name: Name) {
        self.places |= place;
        let is_for = |slot: &&mut Option<(Name, u8)>| slot.is_none_or(|(known, _)| known == name);
        if let Some(slot) = self.names.iter_mut().find(is_for) {
            let places = slot.map_or(0, |(_, places)| places);
            *slot = Some((name, places | place));
        }
    }

    fn has_address(&self, address: Address) -> bool {
        let mut names = self.names.iter().flatten();
        names.any(|(name, _)| name.address == address)
    }
}

/// Finds the names in a packet and blanks them there; `later_port` is asked for the port of a
/// fragment that has none.
pub(crate) fn blank(
    renaming: &Renaming,
    frame: &mut [u8],
    layout: &Layout,
    later_port: impl Fn() -> Option<u16>,
) -> Names {
    let mut names = Names::default();
    blank_quote(renaming, frame, layout, &mut names);
    let quoted = names;
    let ends = [
        fields::source(frame, layout),
        fields::destination(frame, layout),
    ];
    let port = |end: Endpoint| match layout.fragment {
        Fragment::Later => later_port(),
        _ => has_ports(frame, layout).then_some(end.port),
    };
    let places = [
        (SOURCE, SOURCE_AS_QUOTED),
        (DESTINATION, DESTINATION_AS_QUOTED),
    ];
    for (end, (place, as_quoted)) in ends.into_iter().zip(places) {
        if !renaming.has(end.address) {
            continue;
        }
        if quoted.has_address(end.address) {
            names.places |= as_quoted;
            continue;
        }
        let name = Name {
            protocol: layout.protocol,
            address: end.address,
            port: port(end),
        };
        names.add(place, name);
    }
    blank_ends(frame, layout, names.places);
    names
}

fn blank_ends(frame: &mut [u8], layout: &Layout, blanks: u8) {
    // The addresses are of the packet's own IP version and the frame is whole: these cannot fail.
    if blanks & (SOURCE | SOURCE_AS_QUOTED) != 0 {
        let _ = rewrite::set_source(frame, layout, nobody(layout.network));
    }
    if blanks & (DESTINATION | DESTINATION_AS_QUOTED) != 0 {
        let _ = rewrite::set_destination(frame, layout, nobody(layout.network));
    }
}

fn blank_quote(renaming: &Renaming, frame: &mut [u8], layout: &Layout, names: &mut Names) {
    let Some(inner) = layout.inner else {
        return;
    };
    type Set = fn(&mut [u8], &Layout, Endpoint) -> Result<(), RewriteError>;
    let ends: [(_, _, Set); 2] = [
        (
            fields::inner_source(frame, layout),
            QUOTED_SOURCE,
            rewrite::set_inner_source,
        ),
        (
            fields::inner_destination(frame, layout),
            QUOTED_DESTINATION,
            rewrite::set_inner_destination,
        ),
    ];
    let has_port = quote_has_ports(frame, &inner);
    for (end, place, set) in ends {
        let Some(end) = end.filter(|end| renaming.has(end.address)) else {
            continue;
        };
        let name = Name {
            protocol: inner.protocol,
            address: end.address,
            port: has_port.then_some(end.port),
        };
        names.add(place, name);
        // As above.
        let _ = set(frame, layout, nobody(inner.network));
    }
}

const fn nobody(network: Network) -> Endpoint {
    let address = match network {
        Network::V6 => Address::UNSPECIFIED_V6,
        _ => Address::UNSPECIFIED_V4,
    };
    Endpoint::new(address, 0)
}

/// Whether a packet has ports or an echo's identifier.
pub(crate) fn has_ports(frame: &[u8], layout: &Layout) -> bool {
    match layout.transport {
        Transport::Tcp | Transport::Udp => true,
        _ => fields::icmp_kind(frame, layout)
            .is_some_and(|(kind, _)| icmp::is_echo(layout.network, kind)),
    }
}

fn quote_has_ports(frame: &[u8], inner: &Inner) -> bool {
    match inner.protocol {
        protocol::TCP | protocol::UDP => true,
        protocol::ICMP | protocol::ICMP6 => frame
            .get(usize::from(inner.l4))
            .is_some_and(|&kind| icmp::is_echo(inner.network, kind)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::wire::{PacketBuilder, dissect, icmp::IcmpError, verify_transport_checksum};

    const SERVER: Endpoint = Endpoint::v4([192, 0, 2, 1], 53);
    const NAME: Endpoint = Endpoint::v4([198, 51, 100, 1], 4001);

    /// The names in a packet, with where they stood, and its bytes without them.
    fn blanked(packet: PacketBuilder<'_>) -> (Vec<(String, u8)>, Vec<u8>) {
        let renaming = Renaming::of(vec!["198.51.100.0/24".parse().unwrap()]);
        let mut frame = packet.to_vec().unwrap();
        let layout = dissect(&frame).unwrap();
        let names = blank(&renaming, &mut frame, &layout, || Some(9));
        assert!(verify_transport_checksum(&frame, &layout));
        let told = |(name, blanks): (Name, Blanks)| (name.to_string(), blanks.own);
        (names.each().map(told).collect(), frame)
    }

    fn names(packet: PacketBuilder<'_>) -> Vec<(String, u8)> {
        blanked(packet).0
    }

    #[test]
    fn names_are_found_at_both_ends() {
        let name = |text: &str, places| vec![(text.to_owned(), places)];
        let udp = "udp 198.51.100.1:4001";
        assert_eq!(names(PacketBuilder::udp(SERVER, SERVER)), []);
        assert_eq!(names(PacketBuilder::udp(NAME, SERVER)), name(udp, SOURCE));
        assert_eq!(
            names(PacketBuilder::udp(SERVER, NAME)),
            name(udp, DESTINATION)
        );
        assert_eq!(
            names(PacketBuilder::udp(NAME, NAME)),
            name(udp, SOURCE | DESTINATION)
        );
        let echo = PacketBuilder::icmp_echo(NAME, SERVER);
        assert_eq!(
            names(echo),
            name("icmp 198.51.100.1 identifier 4001", SOURCE)
        );
        let gre = PacketBuilder::raw(47, NAME.address, SERVER.address);
        assert_eq!(names(gre), name("gre 198.51.100.1", SOURCE));
        let later = PacketBuilder::udp(NAME, SERVER)
            .fragment(8, false)
            .payload_len(8);
        assert_eq!(names(later), name("udp 198.51.100.1:9", SOURCE));
    }

    #[test]
    fn an_error_from_the_host_that_it_quotes_has_one_name() {
        let answer = PacketBuilder::udp(SERVER, NAME).to_vec().unwrap();
        let error = PacketBuilder::icmp_error(IcmpError::Unreachable { code: 3 }, &answer);
        let quoted = ("udp 198.51.100.1:4001".to_owned(), QUOTED_DESTINATION);
        assert_eq!(names(error), std::slice::from_ref(&quoted));
        let router = error.source_address(Address::from_v4([198, 51, 100, 254]));
        let own = ("icmp 198.51.100.254".to_owned(), SOURCE);
        assert_eq!(names(router), [quoted, own]);
    }

    #[test]
    fn packets_that_differ_by_their_name_alone_become_equal() {
        let other = Endpoint::v4([198, 51, 100, 77], 1);
        let packet = |name| PacketBuilder::tcp(name, SERVER).payload(b"1");
        assert_eq!(blanked(packet(NAME)).1, blanked(packet(other)).1);
        assert_ne!(blanked(packet(NAME)).1, blanked(packet(other).ttl(3)).1);
        assert_eq!(blanked(packet(SERVER)).1, packet(SERVER).to_vec().unwrap());
    }
}
