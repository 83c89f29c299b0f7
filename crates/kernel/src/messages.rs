//! Bytes from the kernel become events.
//!
//! Of each message the few attributes are read that matter here; what is unknown is passed over, so
//! that a newer kernel does no harm. A message that makes no sense is counted and makes no event.

use crate::event::{
    Event, Hop, Kind, Link, Neighbor, NextHopObject, ObjectKind, OwnAddress, Placement, Route,
};
use netlink_packet_core::{NetlinkBuffer, NlasIterator};
use twinpath_classify::Prefix;
use twinpath_core::wire::{Address, MacAddress};

/// Most next hops of a route or of a next hop object that are read.
pub const MOST_HOPS: usize = 64;

/// Types of messages (`linux/rtnetlink.h`).
pub(crate) mod kind {
    pub const ERROR: u16 = 2;
    pub const DONE: u16 = 3;
    pub const NEW_LINK: u16 = 16;
    pub const DEL_LINK: u16 = 17;
    pub const GET_LINK: u16 = 18;
    pub const NEW_ADDRESS: u16 = 20;
    pub const DEL_ADDRESS: u16 = 21;
    pub const GET_ADDRESS: u16 = 22;
    pub const NEW_ROUTE: u16 = 24;
    pub const DEL_ROUTE: u16 = 25;
    pub const GET_ROUTE: u16 = 26;
    pub const NEW_NEIGHBOR: u16 = 28;
    pub const DEL_NEIGHBOR: u16 = 29;
    pub const GET_NEIGHBOR: u16 = 30;
    pub const NEW_NEXT_HOP: u16 = 104;
    pub const DEL_NEXT_HOP: u16 = 105;
    pub const GET_NEXT_HOP: u16 = 106;
}

/// Address families.
pub(crate) mod family {
    pub const ANY: u8 = 0;
    pub const V4: u8 = 2;
    pub const V6: u8 = 10;
}

const FLAG_MULTI: u16 = 0x02;
const FLAG_INTERRUPTED: u16 = 0x10;
const FLAG_REPLACE: u16 = 0x100;
const FLAG_APPEND: u16 = 0x800;

/// Reads all messages of a datagram. Returns how many of them made no sense.
pub fn read(datagram: &[u8], each: &mut dyn FnMut(Event)) -> usize {
    let (mut rest, mut malformed) = (datagram, 0);
    while !rest.is_empty() {
        let Ok(message) = NetlinkBuffer::new_checked(rest) else {
            return malformed + 1;
        };
        let len = message.length() as usize;
        match event(&message) {
            Ok(Some(event)) => each(event),
            Ok(None) => {}
            Err(Malformed) => malformed += 1,
        }
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or(&[]);
    }
    malformed
}

/// A message that makes no sense.
struct Malformed;

type Read<T> = Result<T, Malformed>;

/// What a message says; nothing if it is about something else.
fn event(message: &NetlinkBuffer<&[u8]>) -> Read<Option<Event>> {
    let (body, flags) = (message.payload(), message.flags());
    let sequence = message.sequence_number();
    Ok(match message.message_type() {
        kind::NEW_LINK => link(body)?.map(Event::Link),
        kind::DEL_LINK => link(body)?.map(|link| Event::LinkGone(link.index)),
        kind::NEW_ADDRESS => address(body)?.map(Event::Address),
        kind::DEL_ADDRESS => address(body)?.map(Event::AddressGone),
        kind::NEW_ROUTE => route(body)?.map(|route| Event::Route(route, placement(flags))),
        kind::DEL_ROUTE => route(body)?.map(Event::RouteGone),
        kind::NEW_NEXT_HOP => next_hop(body)?.map(Event::NextHop),
        kind::DEL_NEXT_HOP => next_hop(body)?.map(|object| Event::NextHopGone(object.id)),
        kind::NEW_NEIGHBOR => neighbor(body)?.map(Event::Neighbor),
        kind::DEL_NEIGHBOR => neighbor(body)?.map(Event::NeighborGone),
        kind::DONE => Some(Event::Done {
            sequence,
            was_interrupted: flags & FLAG_INTERRUPTED != 0,
        }),
        kind::ERROR => match u32_of(body.get(..4))? as i32 {
            0 => None,
            code => Some(Event::Refused {
                sequence,
                errno: code.saturating_neg(),
            }),
        },
        _ => None,
    })
}

fn placement(flags: u16) -> Placement {
    match flags {
        flags if flags & FLAG_MULTI != 0 => Placement::Last,
        flags if flags & FLAG_REPLACE != 0 => Placement::Replace,
        flags if flags & FLAG_APPEND != 0 => Placement::Last,
        _ => Placement::First,
    }
}

/// The attributes of a message, by type.
fn attributes(bytes: Option<&[u8]>) -> impl Iterator<Item = Read<(u16, &[u8])>> {
    let bytes = bytes.unwrap_or_default();
    NlasIterator::new(bytes).map(move |attribute| {
        let attribute = attribute.map_err(|_| Malformed)?;
        let (kind, len) = (attribute.kind(), attribute.value_length());
        // The value lives as long as the message does.
        let whole = attribute.into_inner();
        Ok((kind, whole.get(4..4 + len).ok_or(Malformed)?))
    })
}

fn u16_of(bytes: Option<&[u8]>) -> Read<u16> {
    let bytes = bytes.and_then(<[u8]>::first_chunk).ok_or(Malformed)?;
    Ok(u16::from_ne_bytes(*bytes))
}

fn u32_of(bytes: Option<&[u8]>) -> Read<u32> {
    let bytes = bytes.and_then(<[u8]>::first_chunk).ok_or(Malformed)?;
    Ok(u32::from_ne_bytes(*bytes))
}

/// An address of either IP version, by its length.
fn address_of(bytes: &[u8]) -> Read<Address> {
    match bytes.len() {
        4 => Ok(Address::from_v4(*bytes.first_chunk().ok_or(Malformed)?)),
        16 => Ok(Address::from_v6(*bytes.first_chunk().ok_or(Malformed)?)),
        _ => Err(Malformed),
    }
}

const fn is_ip(family: u8) -> bool {
    matches!(family, family::V4 | family::V6)
}

/// `struct ifinfomsg`: family, padding, type, index, flags, change.
fn link(body: &[u8]) -> Read<Option<Link>> {
    const NAME: u16 = 3;
    const MTU: u16 = 4;
    const IS_UP: u32 = 1;
    /// `IFF_RUNNING` and `IFF_LOWER_UP`: with neither of them the kernel marks routes `linkdown`.
    const HAS_CARRIER: u32 = 0x40 | 0x1_0000;
    let family = *body.first().ok_or(Malformed)?;
    // Bridges tell of their ports by the same type of message.
    if family != family::ANY {
        return Ok(None);
    }
    let flags = u32_of(body.get(8..12))?;
    let mut link = Link {
        index: u32_of(body.get(4..8))?,
        name: String::new(),
        mtu: 0,
        is_up: flags & IS_UP != 0 && flags & HAS_CARRIER != 0,
    };
    for attribute in attributes(body.get(16..)) {
        match attribute? {
            (NAME, value) => {
                let name = value.split(|byte| *byte == 0).next().unwrap_or_default();
                link.name = String::from_utf8_lossy(name).into_owned();
            }
            (MTU, value) => link.mtu = u32_of(Some(value))?,
            _ => {}
        }
    }
    Ok(Some(link))
}

/// `struct ifaddrmsg`: family, length of the prefix, flags, scope, index.
fn address(body: &[u8]) -> Read<Option<OwnAddress>> {
    const ADDRESS: u16 = 1;
    const LOCAL: u16 = 2;
    const FLAGS: u16 = 8;
    const HAS_FAILED: u32 = 0x08;
    let [family, prefix_bits, flags, ..] = *body.first_chunk::<8>().ok_or(Malformed)?;
    if !is_ip(family) {
        return Ok(None);
    }
    let (mut of_link, mut local, mut flags) = (None, None, u32::from(flags));
    for attribute in attributes(body.get(8..)) {
        match attribute? {
            (ADDRESS, value) => of_link = Some(address_of(value)?),
            // On a link between two ends the other attribute is the other end's.
            (LOCAL, value) => local = Some(address_of(value)?),
            (FLAGS, value) => flags = u32_of(Some(value))?,
            _ => {}
        }
    }
    let address = local.or(of_link).ok_or(Malformed)?;
    let most = if address.is_v4() { 32 } else { 128 };
    if prefix_bits > most {
        return Err(Malformed);
    }
    Ok(Some(OwnAddress {
        interface: u32_of(body.get(4..8))?,
        address,
        prefix_bits,
        is_valid: flags & HAS_FAILED == 0,
    }))
}

/// `struct rtmsg`: family, lengths of destination and source, type of service, table, protocol,
/// scope, type, flags. Nothing for routes that are for some packets to a prefix alone, that follow
/// from others, or that are no unicast ones.
fn route(body: &[u8]) -> Read<Option<Route>> {
    const DESTINATION: u16 = 1;
    const METRIC: u16 = 6;
    const TABLE: u16 = 15;
    const OBJECT: u16 = 30;
    const IS_CACHED: u32 = 0x200;
    let [family, bits, source_bits, tos, table, _, _, kind, ..] =
        *body.first_chunk::<12>().ok_or(Malformed)?;
    let is_cached = u32_of(body.get(8..12))? & IS_CACHED != 0;
    let kind = route_kind(kind).filter(|_| is_ip(family) && !is_cached);
    let Some(kind) = kind.filter(|_| source_bits == 0 && tos == 0) else {
        return Ok(None);
    };
    let is_v4 = family == family::V4;
    let mut destination = match is_v4 {
        true => Address::UNSPECIFIED_V4,
        false => Address::UNSPECIFIED_V6,
    };
    let (mut table, mut metric, mut object) = (u32::from(table), 0, None);
    for attribute in attributes(body.get(12..)) {
        match attribute? {
            (DESTINATION, value) => destination = address_of(value)?,
            (METRIC, value) => metric = u32_of(Some(value))?,
            (TABLE, value) => table = u32_of(Some(value))?,
            (OBJECT, value) => object = Some(u32_of(Some(value))?),
            _ => {}
        }
    }
    let most = if is_v4 { 32 } else { 128 };
    if bits > most {
        return Err(Malformed);
    }
    // Addresses of IPv4 in the form of IPv6 are none on a wire.
    if destination.is_v4() != is_v4 {
        return Ok(None);
    }
    let hops = match kind {
        Kind::Unicast => hops(body.get(12..))?,
        _ => Vec::new(),
    };
    Ok(Some(Route {
        table,
        prefix: Prefix::covering(destination, bits),
        metric,
        kind,
        hops,
        object: object.filter(|_| kind == Kind::Unicast || kind == Kind::Blackhole),
    }))
}

const fn route_kind(number: u8) -> Option<Kind> {
    Some(match number {
        1 => Kind::Unicast,
        6 => Kind::Blackhole,
        7 => Kind::Unreachable,
        8 => Kind::Prohibit,
        9 => Kind::Throw,
        _ => return None,
    })
}

/// The next hops of a route: one in the message itself, or several in an attribute of it.
fn hops(of_route: Option<&[u8]>) -> Read<Vec<Hop>> {
    const MULTIPATH: u16 = 9;
    let mut several = Vec::new();
    let mut single = NOWHERE;
    for attribute in attributes(of_route) {
        match attribute? {
            (MULTIPATH, value) => several = multipath(value)?,
            (kind, value) => read_hop(&mut single, kind, value)?,
        }
    }
    if several.is_empty() && single.interface != 0 {
        several.push(single);
    }
    Ok(several)
}

/// What a next hop is before anything is read of it.
const NOWHERE: Hop = Hop {
    interface: 0,
    gateway: None,
    weight: 1,
    is_dead: false,
    is_encapsulated: false,
};

/// What an attribute says of a next hop.
fn read_hop(hop: &mut Hop, kind: u16, value: &[u8]) -> Read<()> {
    const INTERFACE: u16 = 4;
    const GATEWAY: u16 = 5;
    const VIA: u16 = 18;
    const ENCAPSULATION: u16 = 22;
    match kind {
        INTERFACE => hop.interface = u32_of(Some(value))?,
        GATEWAY => hop.gateway = Some(address_of(value)?),
        // `struct rtvia`: a family, and an address of it.
        VIA => {
            let address = value.get(2..).filter(|_| is_ip(value[0]) && value[1] == 0);
            hop.gateway = Some(address_of(address.ok_or(Malformed)?)?);
        }
        ENCAPSULATION => hop.is_encapsulated = true,
        _ => {}
    }
    Ok(())
}

/// A list of `struct rtnexthop`: length, flags, weight less one, interface; attributes behind.
fn multipath(mut bytes: &[u8]) -> Read<Vec<Hop>> {
    const IS_DEAD: u8 = 1;
    const HEADER: usize = 8;
    let mut hops = Vec::new();
    while !bytes.is_empty() && hops.len() < MOST_HOPS {
        let len = usize::from(u16_of(bytes.get(..2))?);
        let hop = bytes.get(..len).filter(|hop| hop.len() >= HEADER);
        let hop = hop.ok_or(Malformed)?;
        let mut read = Hop {
            interface: u32_of(hop.get(4..8))?,
            weight: u16::from(hop[3]) + 1,
            is_dead: hop[2] & IS_DEAD != 0,
            ..NOWHERE
        };
        for attribute in attributes(hop.get(HEADER..)) {
            let (kind, value) = attribute?;
            read_hop(&mut read, kind, value)?;
        }
        hops.push(read);
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
    }
    Ok(hops)
}

/// `struct nhmsg`: family, scope, protocol, padding, flags.
fn next_hop(body: &[u8]) -> Read<Option<NextHopObject>> {
    const ID: u16 = 1;
    const GROUP: u16 = 2;
    const BLACKHOLE: u16 = 4;
    const INTERFACE: u16 = 5;
    const GATEWAY: u16 = 6;
    const ENCAPSULATION: u16 = 8;
    const IS_DEAD: u32 = 1;
    let mut hop = Hop {
        is_dead: u32_of(body.get(4..8))? & IS_DEAD != 0,
        ..NOWHERE
    };
    let (mut id, mut group, mut is_blackhole) = (None, None, false);
    for attribute in attributes(body.get(8..)) {
        match attribute? {
            (ID, value) => id = Some(u32_of(Some(value))?),
            (GROUP, value) => group = Some(members(value)?),
            (BLACKHOLE, _) => is_blackhole = true,
            (INTERFACE, value) => hop.interface = u32_of(Some(value))?,
            (GATEWAY, value) => hop.gateway = Some(address_of(value)?),
            (ENCAPSULATION, _) => hop.is_encapsulated = true,
            _ => {}
        }
    }
    let is = match (group, is_blackhole) {
        (Some(members), _) => ObjectKind::Group(members),
        (None, true) => ObjectKind::Blackhole,
        (None, false) => ObjectKind::Hop(hop),
    };
    let id = id.ok_or(Malformed)?;
    Ok(Some(NextHopObject { id, is }))
}

/// A list of `struct nexthop_grp`: number, weight less one, its high byte, padding.
fn members(bytes: &[u8]) -> Read<Vec<(u32, u16)>> {
    const ENTRY: usize = 8;
    if !bytes.len().is_multiple_of(ENTRY) {
        return Err(Malformed);
    }
    let entries = bytes.chunks_exact(ENTRY).take(MOST_HOPS);
    let member = |entry: &[u8]| {
        let weight = u16::from(entry[4]) | u16::from(entry[5]) << 8;
        Ok((u32_of(entry.get(..4))?, weight.saturating_add(1)))
    };
    entries.map(member).collect()
}

/// `struct ndmsg`: family, padding, index, state, flags, type.
fn neighbor(body: &[u8]) -> Read<Option<Neighbor>> {
    const ADDRESS: u16 = 1;
    const MAC: u16 = 2;
    /// Reachable, stale, delay, probe, noarp, permanent.
    const IS_VALID: u16 = 0xde;
    const HAS_FAILED: u16 = 0x20;
    let family = *body.first().ok_or(Malformed)?;
    if !is_ip(family) {
        return Ok(None);
    }
    let state = u16_of(body.get(8..10))?;
    let interface = u32_of(body.get(4..8))?;
    let (mut address, mut mac) = (None, None);
    for attribute in attributes(body.get(12..)) {
        match attribute? {
            (ADDRESS, value) => address = Some(address_of(value)?),
            (MAC, value) => mac = value.try_into().ok().map(MacAddress),
            _ => {}
        }
    }
    Ok(Some(Neighbor {
        interface,
        address: address.ok_or(Malformed)?,
        mac: mac.filter(|_| state & IS_VALID != 0),
        has_failed: state & HAS_FAILED != 0,
    }))
}

#[cfg(test)]
mod tests;
