//! Matches and actions in a network engineer's words.

use crate::action::{Action, Rewrites};
use crate::field::Field;
use crate::key::MatchKey;
use twinpath_core::adjacency::{BACK, shard_of};
use twinpath_core::wire::Address;

/// Some bits of one field that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldMatch {
    /// The field.
    pub field: Field,
    /// How many bits.
    pub bits: u32,
    /// What they must be, such as `source address 10.0.0.0/8`.
    pub text: String,
}

/// The fields that a mask has bits of, with the value's bits. The value's shape tells IPv4 from
/// IPv6, and echoes from others, also where the mask leaves it out.
pub fn matched(mask: &MatchKey, value: &MatchKey) -> Vec<FieldMatch> {
    let in_key = Field::ALL.into_iter().filter(|field| field.is_in_key());
    in_key
        .filter_map(|field| field_match(field, mask, value))
        .collect()
}

fn field_match(field: Field, mask: &MatchKey, value: &MatchKey) -> Option<FieldMatch> {
    // Of an echo both ports are one number.
    if field == Field::DestinationPort && value.is_echo() {
        return None;
    }
    let is_v4_address = is_address(field) && !value.is_v6();
    let width = if is_v4_address { 32 } else { width(field) };
    let mask = field.of(mask) & low(width);
    let value = field.of(value) & mask;
    let text = match field {
        Field::SourceAddress | Field::DestinationAddress => address(value, mask, is_v4_address),
        Field::Protocol if mask == 0xff => protocol(value as u8),
        Field::TcpFlags => tcp_flags(value as u8, mask as u8),
        _ => number(value, mask, width),
    };
    (mask != 0).then(|| FieldMatch {
        field,
        bits: mask.count_ones(),
        text: format!("{} {text}", name(field)),
    })
}

const fn is_address(field: Field) -> bool {
    matches!(field, Field::SourceAddress | Field::DestinationAddress)
}

/// The field's name as people say it.
pub const fn name(field: Field) -> &'static str {
    match field {
        Field::SourceAddress => "source address",
        Field::DestinationAddress => "destination address",
        Field::SourcePort => "source port",
        Field::DestinationPort => "destination port",
        Field::Protocol => "protocol",
        Field::TcpFlags => "TCP flags",
        Field::Ingress => "arrival port",
        Field::SourceMac => "source MAC address",
        Field::DestinationMac => "destination MAC address",
        Field::Egress => "egress port",
        Field::TimeToLive => "time to live",
        Field::Identification => "identification",
    }
}

const fn width(field: Field) -> u32 {
    match field {
        Field::SourceAddress | Field::DestinationAddress => 128,
        Field::Protocol | Field::TcpFlags | Field::TimeToLive => 8,
        _ => 16,
    }
}

const fn low(width: u32) -> u128 {
    u128::MAX >> (128 - width)
}

/// How many bits a mask has, if they are the leading ones of the width.
fn prefix_bits(mask: u128, width: u32) -> Option<u32> {
    let bits = mask.count_ones();
    let leading = low(width) & !(low(width) >> (bits - 1) >> 1);
    (mask == leading).then_some(bits)
}

const V4_MAPPED: u128 = 0xffff << 32;

fn address(value: u128, mask: u128, is_v4: bool) -> String {
    let width = if is_v4 { 32 } else { 128 };
    let written = |bits| Address(if is_v4 { V4_MAPPED | bits } else { bits });
    match mask.count_ones() {
        0 => String::new(),
        all if all == width => written(value).to_string(),
        _ => match prefix_bits(mask, width) {
            Some(bits) => format!("{}/{bits}", written(value)),
            None => format!("{} mask {}", written(value), written(mask)),
        },
    }
}

fn number(value: u128, mask: u128, width: u32) -> String {
    match mask.count_ones() {
        0 => String::new(),
        all if all == width => value.to_string(),
        _ => match prefix_bits(mask, width) {
            Some(_) => format!("{value}-{}", value | !mask & low(width)),
            None => format!("{value:#x} mask {mask:#x}"),
        },
    }
}

fn protocol(number: u8) -> String {
    match number {
        1 => "icmp".into(),
        6 => "tcp".into(),
        17 => "udp".into(),
        58 => "icmp6".into(),
        other => other.to_string(),
    }
}

/// `SYN of FIN SYN RST`: of these flags, those that are set.
fn tcp_flags(value: u8, mask: u8) -> String {
    format!("{} of {}", flag_names(value), flag_names(mask))
}

/// The names of TCP flags, or `none`.
pub fn flag_names(flags: u8) -> String {
    const NAMES: [&str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
    let set = (0..8).filter(|bit| flags >> bit & 1 == 1);
    let names: Vec<_> = set.map(|bit| NAMES[bit]).collect();
    match names.is_empty() {
        true => "none".into(),
        false => names.join(" "),
    }
}

/// What an action writes, one text for each field, such as `source port 1024`.
pub fn rewritten(rewrites: &Rewrites) -> Vec<String> {
    let mut texts: Vec<String> = rewrites
        .written
        .iter()
        .filter_map(|field| {
            Some(format!(
                "{} {}",
                name(field),
                written_value(field, rewrites)?
            ))
        })
        .collect();
    if rewrites.decrements > 0 {
        texts.push(format!("time to live less {}", rewrites.decrements));
    }
    texts
}

fn written_value(field: Field, rewrites: &Rewrites) -> Option<String> {
    Some(match field {
        Field::SourceAddress => rewrites.source.address.to_string(),
        Field::DestinationAddress => rewrites.destination.address.to_string(),
        Field::SourcePort => rewrites.source.port.to_string(),
        Field::DestinationPort => rewrites.destination.port.to_string(),
        Field::SourceMac => rewrites.source_mac.to_string(),
        Field::DestinationMac => rewrites.destination_mac.to_string(),
        Field::Egress if rewrites.egress == BACK => "the port of arrival".into(),
        Field::Egress => match shard_of(Some(rewrites.egress)) {
            Some(shard) => format!("shard {shard}"),
            None => rewrites.egress.to_string(),
        },
        Field::Identification => "drawn, if DF is 0".into(),
        Field::Protocol | Field::TcpFlags | Field::Ingress | Field::TimeToLive => return None,
    })
}

/// What becomes of the packet.
pub fn fate(action: &Action) -> String {
    match action.drop {
        None => "forward".into(),
        Some(reason) => format!("drop ({})", reason.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V6: MatchKey = MatchKey([0, 0, 0, 0, 1, 0]);
    const ECHO: MatchKey = MatchKey([0, 0, 0, 0, 2, 0]);

    fn texts(mask: &MatchKey, value: &MatchKey) -> Vec<(String, u32)> {
        let matched = matched(mask, value);
        matched
            .into_iter()
            .map(|one| (one.text, one.bits))
            .collect()
    }

    #[test]
    fn addresses_are_prefixes_where_they_can_be() {
        let source = |bits: u128| Field::SourceAddress.place(bits);
        let value = source(V4_MAPPED | 0x0a01_0203);
        let of = |mask: u128| texts(&source(mask), &value);
        assert_eq!(of(u128::MAX), [("source address 10.1.2.3".into(), 32)]);
        assert_eq!(of(!0 << 24), [("source address 10.0.0.0/8".into(), 8)]);
        assert_eq!(
            of(0xff),
            [("source address 0.0.0.3 mask 0.0.0.255".into(), 8)]
        );
        assert_eq!(of(!0 << 32), [], "that it is IPv4 is told by its shape");
        let value = source(0x2001_0db8 << 96).or(&V6);
        let mask = source(!0 << 80);
        assert_eq!(
            texts(&mask, &value),
            [("source address 2001:db8::/48".into(), 48)]
        );
    }

    #[test]
    fn ports_flags_and_protocols_have_names() {
        let value = Field::SourcePort
            .place(8080)
            .or(&Field::Protocol.place(6))
            .or(&Field::TcpFlags.place(0x12));
        let of = |mask: MatchKey| texts(&mask, &value);
        let full = of(Field::SourcePort.mask().or(&Field::Protocol.mask()));
        assert_eq!(
            full,
            [("source port 8080".into(), 16), ("protocol tcp".into(), 8)]
        );
        let range = of(Field::SourcePort.place(0xfff0));
        assert_eq!(range, [("source port 8080-8095".into(), 12)]);
        let flags = of(Field::TcpFlags.place(0x07));
        assert_eq!(flags, [("TCP flags SYN of FIN SYN RST".into(), 3)]);
    }

    #[test]
    fn an_echo_has_one_number() {
        let ports = Field::SourcePort.mask().or(&Field::DestinationPort.mask());
        let value = Field::SourcePort
            .place(7)
            .or(&Field::DestinationPort.place(7));
        assert_eq!(texts(&ports, &value).len(), 2);
        assert_eq!(texts(&ports, &value.or(&ECHO)).len(), 1);
    }

    #[test]
    fn only_what_is_written_is_told() {
        let mut rewrites = Rewrites::default();
        assert!(rewritten(&rewrites).is_empty());
        rewrites.written.add(Field::Egress);
        rewrites.written.add(Field::Identification);
        (rewrites.egress, rewrites.decrements) = (3, 1);
        let told = [
            "egress port 3",
            "identification drawn, if DF is 0",
            "time to live less 1",
        ];
        assert_eq!(rewritten(&rewrites), told);
    }
}
