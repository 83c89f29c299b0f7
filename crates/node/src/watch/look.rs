//! Packets and rules in words.

use super::{EntryLook, RuleLook};
use serde::Serialize;
use std::fmt::Write;
use std::time::Duration;
use twinpath_core::wire::layout::{Fragment, Layout, Network, Transport};
use twinpath_core::wire::tunnel::{Encapsulation, Tunnel, VXLAN_PORT};
use twinpath_core::wire::{Address, Endpoint, dissect, fields};
use twinpath_nf::duration::Human;
use twinpath_rulecache::{Action, EntryId, MatchKey, words};

/// A packet, as bytes and in words.
#[derive(Clone, Debug, Serialize)]
pub struct PacketLook {
    /// Its bytes from Ethernet on, hexadecimal.
    pub hex: String,
    /// How many there are.
    pub bytes: usize,
    /// Its headers, outermost first; of a packet in a tunnel (VXLAN at its usual port, NVGRE) also those
    /// inside.
    pub headers: Vec<String>,
    /// IP protocol number, sender and whom it is for, of each packet that is told: a tunnel's, and those
    /// inside.
    #[serde(skip)]
    pub ends: Vec<(u8, Endpoint, Endpoint)>,
}

/// Some bits of a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Quantity {
    /// The field and its value, such as `source address 10.0.0.0/8`.
    pub what: String,
    /// How many bits.
    pub bits: u32,
}

impl PacketLook {
    /// A packet's looks.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hex = String::with_capacity(2 * bytes.len());
        for byte in bytes {
            let _ = write!(hex, "{byte:02x}");
        }
        let mut look = Self {
            hex,
            bytes: bytes.len(),
            headers: Vec::new(),
            ends: Vec::new(),
        };
        if let Ok(layout) = dissect(bytes) {
            look.tell(bytes, &layout);
        }
        look
    }

    fn tell(&mut self, mut bytes: &[u8], layout: &Layout) {
        let mut layout = *layout;
        for _ in 0..MOST_TUNNELS {
            let Some((tunnel, inside)) = inside(bytes, &layout) else {
                break;
            };
            self.tell_own(bytes, &layout);
            self.headers.push(in_words(&tunnel));
            bytes = &bytes[tunnel.inner()];
            layout = inside;
        }
        self.tell_own(bytes, &layout);
        let payload = fields::payload(bytes, &layout).len();
        if layout.network != Network::None {
            self.headers.push(format!("{payload} bytes of payload"));
        }
    }

    /// Headers down to the one that carries something else.
    fn tell_own(&mut self, bytes: &[u8], layout: &Layout) {
        let (source, destination) = (fields::source_mac(bytes), fields::destination_mac(bytes));
        self.headers
            .push(format!("Ethernet {source} > {destination}"));
        if layout.network == Network::None {
            self.headers.push("no IP".into());
            return;
        }
        self.headers.push(network(bytes, layout));
        self.headers.extend(transport(bytes, layout));
        let (source, destination) = (
            fields::source(bytes, layout),
            fields::destination(bytes, layout),
        );
        self.ends.push((layout.protocol, source, destination));
    }
}

/// Tunnels in tunnels that are told.
const MOST_TUNNELS: usize = 4;

/// The tunnel that a packet is, if what it carries can be read.
fn inside(bytes: &[u8], layout: &Layout) -> Option<(Tunnel, Layout)> {
    let tunnel = Tunnel::read(bytes, layout, VXLAN_PORT).ok()?;
    let inside = dissect(bytes.get(tunnel.inner())?).ok()?;
    Some((tunnel, inside))
}

fn in_words(tunnel: &Tunnel) -> String {
    let key = tunnel.key;
    match tunnel.encapsulation {
        Encapsulation::Vxlan => format!("VXLAN VNI {key}"),
        Encapsulation::Nvgre => format!("NVGRE VSID {key}"),
    }
}

fn network(bytes: &[u8], layout: &Layout) -> String {
    let (version, life) = match layout.network {
        Network::V6 => ("IPv6", "hop limit"),
        _ => ("IPv4", "time to live"),
    };
    let from = fields::source_address(bytes, layout);
    let to = fields::destination_address(bytes, layout);
    let ttl = fields::ttl(bytes, layout);
    let fragment = match layout.fragment {
        Fragment::Whole => "",
        Fragment::First => ", first fragment",
        Fragment::Later => ", later fragment",
    };
    let protocol = layout.protocol;
    format!("{version} {from} > {to}, {life} {ttl}, protocol {protocol}{fragment}")
}

fn transport(bytes: &[u8], layout: &Layout) -> Option<String> {
    let from = fields::source_port(bytes, layout);
    let to = fields::destination_port(bytes, layout);
    Some(match layout.transport {
        Transport::Tcp => {
            let flags = words::flag_names(fields::tcp_flags(bytes, layout));
            let sequence = fields::tcp_seq(bytes, layout);
            let acknowledged = fields::tcp_ack(bytes, layout);
            format!("TCP {from} > {to}, {flags}, seq {sequence}, ack {acknowledged}")
        }
        Transport::Udp => format!("UDP {from} > {to}"),
        Transport::Icmp | Transport::Icmp6 => {
            let (kind, code) = fields::icmp_kind(bytes, layout)?;
            let about = layout.inner.map_or("", |_| ", about another packet");
            format!("ICMP type {kind}, code {code}{about}")
        }
        Transport::None | Transport::Other => return None,
    })
}

/// Bits of a key in words.
pub(super) fn quantities(mask: &MatchKey, value: &MatchKey) -> Vec<Quantity> {
    let matched = words::matched(mask, value).into_iter();
    matched
        .map(|one| Quantity {
            what: one.text,
            bits: one.bits,
        })
        .collect()
}

/// A rule in words.
pub(crate) fn rule_look(
    mask: &MatchKey,
    value: &MatchKey,
    action: &Action,
    entries: Vec<EntryLook>,
) -> RuleLook {
    let decrements = action.rewrites.decrements;
    RuleLook {
        matches: quantities(mask, value),
        mask: hexadecimal(mask),
        value: hexadecimal(value),
        rewrites: words::rewritten(&action.rewrites),
        fate: words::fate(action),
        least_time_to_live: (decrements > 0).then(|| u16::from(decrements) + 1),
        idle: action.idle.map(idle_text),
        entries,
    }
}

fn hexadecimal(key: &MatchKey) -> String {
    let words: Vec<String> = key.0.iter().map(|word| format!("{word:016x}")).collect();
    words.join(" ")
}

/// An entry with its function's name; `functions` are those of the element, and packets that it has
/// decided about go to `destination`.
pub(crate) fn entry_look(
    functions: &[String],
    entry: EntryId,
    idle: Option<Duration>,
    destination: Address,
) -> EntryLook {
    let function = functions.get(usize::from(entry.function));
    EntryLook {
        function: function.cloned().unwrap_or_default(),
        entry: entry.entry,
        idle: idle.map(idle_text),
        destination: Some(destination),
        ..EntryLook::default()
    }
}

fn idle_text(idle: Duration) -> String {
    Human(idle).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::wire::tunnel::{Outer, Varying};
    use twinpath_core::wire::{MacAddress, PacketBuilder};

    #[test]
    fn a_packet_is_told_from_the_outside_in() {
        let (from, to) = ("10.0.0.1:4000", "192.0.2.1:80");
        let (from, to) = (from.parse().expect("v4"), to.parse().expect("v4"));
        let packet = PacketBuilder::tcp(from, to).flags(0x12).payload_len(7);
        let look = PacketLook::of(&packet.to_vec().expect("fits"));
        assert_eq!(look.hex.len(), 2 * look.bytes);
        assert!(look.headers[1].starts_with("IPv4 10.0.0.1 > 192.0.2.1, time to live "));
        assert!(look.headers[2].starts_with("TCP 4000 > 80, SYN ACK, seq "));
        assert_eq!(look.headers[3], "7 bytes of payload");
    }

    /// What is inside of a tunnel is what the packet is about.
    #[test]
    fn a_packet_in_tunnels_is_told_down_to_the_innermost() {
        let (from, to) = ("10.0.0.1:4000", "192.0.2.1:80");
        let (from, to) = (from.parse().expect("v4"), to.parse().expect("v4"));
        let packet = PacketBuilder::udp(from, to).payload_len(7);
        let mut frame = packet.to_vec().expect("fits");
        for (encapsulation, key) in [(Encapsulation::Nvgre, 7), (Encapsulation::Vxlan, 2001)] {
            let outer = Outer {
                source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
                destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
                source: from.address,
                destination: to.address,
                encapsulation,
                key,
                vxlan_port: VXLAN_PORT,
                ttl: 64,
            };
            frame.splice(0..0, vec![0; outer.header_bytes()]);
            outer.emit(&Varying::default(), &mut frame).expect("sound");
        }
        let look = PacketLook::of(&frame);
        assert_eq!(look.ends.len(), 3, "{look:?}");
        assert_eq!(look.ends[2], (17, from, to));
        let headers = look.headers;
        let kinds = headers.iter().map(|header| header.split(' ').next());
        let kinds: Vec<_> = kinds.flatten().collect();
        let expected = [
            "Ethernet", "IPv4", "UDP", "VXLAN", "Ethernet", "IPv4", "NVGRE", "Ethernet", "IPv4",
            "UDP", "7",
        ];
        assert_eq!(kinds, expected, "{headers:?}");
        assert_eq!(headers[3], "VXLAN VNI 2001");
        assert_eq!(headers[6], "NVGRE VSID 7");
    }
}
