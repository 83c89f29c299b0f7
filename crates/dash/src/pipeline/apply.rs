//! Actions on packets.

use std::ops::Range;

use twinpath_core::wire::layout::{Fragment, Layout, Network, Transport};
use twinpath_core::wire::translate::{Untranslatable, translate};
use twinpath_core::wire::tunnel::{Encapsulation, Outer, Varying, ecn};
use twinpath_core::wire::{
    BuildError, Endpoint, MacAddress, ethernet, fields, ipv4, ipv6, rewrite,
};

use super::action::{Action, Layer};
use super::arrival::Received;
use super::template::Template;
use crate::reason::Reason;
use crate::settings::{Dscp, Settings};
use crate::tables::SwitchEntry;

/// A packet that is ready to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Where in its buffer it lies now.
    pub frame: Range<usize>,
    /// How long its inner frame is now.
    pub inner_bytes: usize,
}

/// What is left of a packet when its outer headers are off, and what they have said.
#[derive(Clone, Debug)]
pub struct Peeled {
    /// Where in its frame the inner one lies.
    pub inner: Range<usize>,
    /// Where the headers are in that.
    pub layout: Layout,
    /// DSCP and ECN of the outer header.
    pub outer_class: u8,
    /// The stations of the underlay: whom the frame was sent to, and by whom.
    pub stations: [MacAddress; 2],
    /// By which flows are spread.
    pub entropy: u32,
}

impl Peeled {
    /// That of a packet.
    #[must_use]
    #[inline]
    pub const fn of(received: &Received) -> Self {
        Self {
            inner: received.tunnel.inner(),
            layout: received.inner,
            outer_class: received.outer_class,
            stations: received.stations,
            entropy: received.arrival.entropy,
        }
    }
}

/// What all packets share.
#[derive(Copy, Clone)]
pub struct ApplyContext<'a> {
    /// What operators want otherwise.
    pub settings: &'a Settings,
    /// How VXLAN is spoken.
    pub switch: SwitchEntry,
}

/// How long the outermost IP packet will be around an inner frame of so many bytes. Not to be told of
/// fragments, which get a header more.
#[must_use]
pub fn sent_bytes(inner: &Layout, action: &Action, inner_bytes: usize) -> usize {
    let is_v4 = inner.network == Network::V4;
    let header = usize::from(inner.l4 - inner.l3);
    let translated = match action.addresses {
        Some([source, _]) if source.is_v4() != is_v4 => match source.is_v4() {
            true => inner_bytes - header + ipv4::HEADER_BYTES,
            false => inner_bytes - header + ipv6::HEADER_BYTES,
        },
        _ => inner_bytes,
    };
    let around = |bytes: usize, layer: &Layer| {
        let transport = match layer.encapsulation {
            Encapsulation::Vxlan => 16,
            Encapsulation::Nvgre => 8,
        };
        let ip = match layer.source.is_v4() {
            true => ipv4::HEADER_BYTES,
            false => ipv6::HEADER_BYTES,
        };
        bytes + transport + ip + ethernet::HEADER_BYTES
    };
    let bare = match action.layers[0] {
        Some(_) => translated,
        None => translated - tag_bytes(inner),
    };
    let frame = action.layers.iter().flatten().fold(bare, around);
    frame - ethernet::HEADER_BYTES
}

/// VLAN tags of an inner frame, in bytes.
fn tag_bytes(inner: &Layout) -> usize {
    usize::from(inner.l3).saturating_sub(ethernet::HEADER_BYTES)
}

/// Takes the outer headers off a packet that begins at `start` of its buffer, and does to it what an
/// action says. The buffer ends where the packet does or later; headers grow into what is in front.
///
/// # Errors
/// Why it is dropped; its bytes are then of no use.
pub fn apply(
    buffer: &mut [u8],
    start: usize,
    received: &Received,
    action: &Action,
    context: &ApplyContext<'_>,
) -> Result<Applied, Reason> {
    let inner = received.tunnel.inner();
    let (mut at, end) = (start + inner.start, start + inner.end);
    let buffer = buffer.get_mut(..end).ok_or(Reason::NoRoom)?;
    let frame = buffer.get_mut(at..).ok_or(Reason::NoRoom)?;
    let peeled = Peeled::of(received);
    let class = leaving_class(context.settings, &peeled, decapsulate(frame, &peeled)?);
    if action.layers[0].is_none() {
        // Its own header is the outer one.
        ecn::set_traffic_class(frame, &peeled.layout, class);
    }
    set_macs(frame, action.destination_mac, action.source_mac);
    set_ports(frame, received, action);
    if let Some([source, destination]) = action.addresses {
        let is_same = source.is_v4() == (received.inner.network == Network::V4);
        match is_same {
            true => set_addresses(frame, received, [source, destination]),
            false => {
                at = translate(buffer, at, &received.inner, source, destination)
                    .map_err(untranslatable)?;
            }
        }
    }
    let inner_bytes = end - at;
    let stations = next_stations(context.settings, received.stations);
    for layer in action.layers.iter().flatten() {
        let outer = outer(layer, stations, context);
        at = encapsulate(buffer, at, &outer, (peeled.entropy, class), context)?;
    }
    if action.layers[0].is_none() {
        // The machine's tags are of no network that this goes to.
        at += tag_bytes(&received.inner);
        let [own, next_hop] = stations;
        ethernet::set_destination(&mut buffer[at..], next_hop);
        ethernet::set_source(&mut buffer[at..], own);
    }
    let at = received.outer_tags.put(buffer, at).ok_or(Reason::NoRoom)?;
    Ok(Applied {
        frame: at..end,
        inner_bytes,
    })
}

/// The same for an action that has a [`Template`].
///
/// # Errors
/// Why it is dropped.
#[inline(always)]
pub fn apply_template(
    buffer: &mut [u8],
    start: usize,
    peeled: &Peeled,
    template: &Template,
    context: &ApplyContext<'_>,
) -> Result<Applied, Reason> {
    let (at, end) = (start + peeled.inner.start, start + peeled.inner.end);
    let buffer = buffer.get_mut(..end).ok_or(Reason::NoRoom)?;
    let frame = buffer.get_mut(at..).ok_or(Reason::NoRoom)?;
    let class = leaving_class(context.settings, peeled, decapsulate(frame, peeled)?);
    set_macs(frame, template.destination_mac, template.source_mac);
    let stations = next_stations(context.settings, peeled.stations);
    let outer = outer(&template.layer(), stations, context);
    let front = encapsulate(buffer, at, &outer, (peeled.entropy, class), context)?;
    Ok(Applied {
        frame: front..end,
        inner_bytes: end - at,
    })
}

/// Puts headers in front of what begins at `at`. Returns where it begins now.
#[inline(always)]
fn encapsulate(
    buffer: &mut [u8],
    at: usize,
    outer: &Outer,
    (entropy, class): (u32, u8),
    context: &ApplyContext<'_>,
) -> Result<usize, Reason> {
    if outer.packet_bytes(buffer.len() - at) > context.settings.mtu {
        return Err(Reason::TooLong);
    }
    let at = at.checked_sub(outer.header_bytes()).ok_or(Reason::NoRoom)?;
    let varying = Varying {
        source_port: context.switch.source_ports.port(entropy),
        flow_label: entropy & 0xf_ffff,
        flow: 0,
        traffic_class: class,
        udp_checksum: context.settings.udp_checksum_v6,
    };
    let place = buffer.get_mut(at..).ok_or(Reason::NoRoom)?;
    outer.emit(&varying, place).map_err(unbuilt)?;
    Ok(at)
}

/// Takes congestion marks over into the inner packet. Returns its DSCP and ECN.
#[inline(always)]
fn decapsulate(frame: &mut [u8], peeled: &Peeled) -> Result<u8, Reason> {
    let class = ecn::traffic_class(frame, &peeled.layout);
    let marked = ecn::decapsulated(peeled.outer_class, class).ok_or(Reason::Congestion)?;
    let marked = class & !3 | marked;
    if marked != class {
        ecn::set_traffic_class(frame, &peeled.layout, marked);
    }
    Ok(marked)
}

/// DSCP and ECN of the outermost header that leaves, where the inner one has `class`.
const fn leaving_class(settings: &Settings, peeled: &Peeled, class: u8) -> u8 {
    let dscp = match settings.dscp {
        Dscp::Preserve => peeled.outer_class >> 2,
        Dscp::Uniform => class >> 2,
        Dscp::Pipe(dscp) => dscp & 0x3f,
    };
    dscp << 2 | class & 3
}

/// The DPU's MAC address and its next hop's: packets go back to where they came from.
#[inline(always)]
fn next_stations(settings: &Settings, [own, sender]: [MacAddress; 2]) -> [MacAddress; 2] {
    [
        settings.underlay_mac.unwrap_or(own),
        settings.next_hop_mac.unwrap_or(sender),
    ]
}

const fn outer(
    layer: &Layer,
    [own, next_hop]: [MacAddress; 2],
    context: &ApplyContext<'_>,
) -> Outer {
    Outer {
        source_mac: own,
        destination_mac: next_hop,
        source: layer.source,
        destination: layer.destination,
        encapsulation: layer.encapsulation,
        key: layer.key,
        vxlan_port: context.switch.port,
        ttl: context.settings.ttl,
    }
}

#[inline(always)]
fn set_macs(frame: &mut [u8], destination: Option<MacAddress>, source: Option<MacAddress>) {
    if let Some(mac) = destination {
        ethernet::set_destination(frame, mac);
    }
    if let Some(mac) = source {
        ethernet::set_source(frame, mac);
    }
}

/// Ports alone, or an echo's identifier; addresses stay. A later fragment has none.
fn set_ports(frame: &mut [u8], received: &Received, action: &Action) {
    let layout = &received.inner;
    let is_icmp = matches!(layout.transport, Transport::Icmp | Transport::Icmp6);
    let has_ports = received.arrival.headers.ports.is_some() || is_icmp;
    if !has_ports || layout.fragment == Fragment::Later {
        return;
    }
    if let Some(port) = action.source_port {
        let address = fields::source_address(frame, layout);
        let _ = rewrite::set_source(frame, layout, Endpoint::new(address, port));
    }
    if let Some(port) = action.destination_port {
        let address = fields::destination_address(frame, layout);
        let _ = rewrite::set_destination(frame, layout, Endpoint::new(address, port));
    }
}

fn set_addresses(
    frame: &mut [u8],
    received: &Received,
    [source, destination]: [twinpath_core::wire::Address; 2],
) {
    let layout = &received.inner;
    let ports = [
        fields::source_port(frame, layout),
        fields::destination_port(frame, layout),
    ];
    // The versions agree, which is all that can be wrong.
    let _ = rewrite::set_source(frame, layout, Endpoint::new(source, ports[0]));
    let _ = rewrite::set_destination(frame, layout, Endpoint::new(destination, ports[1]));
}

const fn untranslatable(why: Untranslatable) -> Reason {
    match why {
        Untranslatable::Room => Reason::NoRoom,
        Untranslatable::TooLong => Reason::TooLong,
        _ => Reason::Untranslatable,
    }
}

const fn unbuilt(why: BuildError) -> Reason {
    match why {
        BuildError::TooLong => Reason::TooLong,
        BuildError::BufferTooSmall => Reason::NoRoom,
        _ => Reason::Unsupported,
    }
}
