//! Rules as an operator reads them.

use crate::action::{Action, Fate, Rewrites};
use crate::field::Field;
use crate::key::MatchKey;
use std::fmt::{self, Display, Formatter};
use twinpath_core::wire::Address;

/// What a rule matches: `source 10.0.0.7/32:4000, destination 10.1.0.0/16, protocol 6`.
pub struct Matched<'a> {
    /// The bits that are compared.
    pub mask: &'a MatchKey,
    /// What they must be.
    pub value: &'a MatchKey,
}

impl Matched<'_> {
    /// A field's bits: those compared, and what they must be.
    fn field(&self, field: Field) -> (u128, u128) {
        (field.of(self.mask), field.of(self.value))
    }

    fn address(&self, field: Field) -> Option<String> {
        let (mask, value) = self.field(field);
        let zeros = mask.trailing_zeros();
        let is_prefix = mask != 0 && mask.leading_ones() + zeros == 128;
        let is_v4 = !self.value.is_v6();
        let bits = mask.leading_ones();
        match (mask, is_prefix) {
            (0, _) => None,
            // All of an IPv4 address's upper bits are in every rule, as its version.
            (_, true) if is_v4 && bits <= 96 => None,
            (_, true) if is_v4 => Some(format!("{}/{}", v4(value), bits - 96)),
            (_, true) => Some(format!("{}/{bits}", Address(value))),
            (_, false) => Some(format!("{value:032x} in the bits {mask:032x}")),
        }
    }

    fn number(&self, field: Field, all: u128) -> Option<String> {
        match self.field(field) {
            (0, _) => None,
            (mask, value) if mask == all => Some(value.to_string()),
            (mask, value) => Some(format!("{value:#x} in the bits {mask:#x}")),
        }
    }
}

/// An IPv4 address of which only a prefix may be known: its mapping is not compared.
fn v4(value: u128) -> Address {
    Address::from_v4((value as u32).to_be_bytes())
}

impl Display for Matched<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let version = if self.value.is_v6() { "IPv6" } else { "IPv4" };
        let echo = if self.value.is_echo() { " echo" } else { "" };
        write!(f, "{version}{echo}")?;
        let address = |field| self.address(field);
        let parts = [
            ("source", address(Field::SourceAddress)),
            ("destination", address(Field::DestinationAddress)),
            ("source port", self.number(Field::SourcePort, 0xffff)),
            (
                "destination port",
                self.number(Field::DestinationPort, 0xffff),
            ),
            ("protocol", self.number(Field::Protocol, 0xff)),
            ("TCP flags", self.number(Field::TcpFlags, 0xff)),
            ("arrived on port", self.number(Field::Ingress, 0xffff)),
        ];
        for (name, text) in parts {
            if let Some(text) = text {
                write!(f, ", {name} {text}")?;
            }
        }
        match self.value.segment() & 1 {
            0 => Ok(()),
            _ => f.write_str(", in reverse"),
        }
    }
}

impl Display for Rewrites {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for field in self.written.iter() {
            let value = match field {
                Field::SourceAddress => format!("source {}", self.source.address),
                Field::DestinationAddress => format!("destination {}", self.destination.address),
                Field::SourcePort => format!("source port {}", self.source.port),
                Field::DestinationPort => format!("destination port {}", self.destination.port),
                Field::SourceMac => format!("source MAC {}", self.source_mac),
                Field::DestinationMac => format!("destination MAC {}", self.destination_mac),
                Field::Egress => format!("leaves by port {}", self.egress),
                Field::TimeToLive => format!("time to live - {}", self.decrements),
                Field::Protocol | Field::TcpFlags | Field::Ingress => continue,
            };
            write!(f, "{separator}{value}")?;
            separator = ", ";
        }
        if self.decrements > 0 && !self.written.has(Field::TimeToLive) {
            write!(f, "{separator}time to live - {}", self.decrements)?;
        }
        Ok(())
    }
}

impl Display for Action {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rewrites = self.rewrites.to_string();
        match self.fate {
            Fate::Forward if rewrites.is_empty() => f.write_str("forward"),
            Fate::Forward => write!(f, "{rewrites}, forward"),
            Fate::Drop(reason) => write!(f, "drop ({})", reason.name()),
        }?;
        match self.idle {
            Some(idle) => write!(f, ", idle time-out {idle:?}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::wire::Endpoint;

    #[test]
    fn rules_read_well() {
        let prefix = u128::MAX << 16;
        let mask = Field::SourceAddress
            .mask()
            .or(&Field::DestinationAddress.place(prefix))
            .or(&Field::DestinationPort.mask())
            .or(&MatchKey::ALWAYS);
        let host = Address::from_v4([10, 0, 0, 7]).0;
        let value = Field::SourceAddress
            .place(host)
            .or(&Field::DestinationAddress.place(Address::from_v4([10, 1, 2, 3]).0))
            .or(&Field::DestinationPort.place(443))
            .with_segment(1)
            .and(&mask);
        let (mask, value) = (&mask, &value);
        assert_eq!(
            Matched { mask, value }.to_string(),
            "IPv4, source 10.0.0.7/32, destination 10.1.0.0/16, destination port 443, in reverse"
        );
    }

    #[test]
    fn actions_read_well() {
        let mut rewrites = Rewrites {
            source: Endpoint::v4([192, 0, 2, 1], 4000),
            decrements: 1,
            ..Rewrites::default()
        };
        let action = |rewrites, fate| Action {
            rewrites,
            fate,
            idle: None,
        };
        assert_eq!(
            action(Rewrites::default(), Fate::Forward).to_string(),
            "forward"
        );
        rewrites.written.add(Field::SourceAddress);
        assert_eq!(
            action(rewrites, Fate::Forward).to_string(),
            "source 192.0.2.1, time to live - 1, forward"
        );
    }
}
