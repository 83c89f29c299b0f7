//! What of the frames that arrive is let into the chain.

use super::Misplaced;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use toml::Spanned;
use twinpath_core::wire::protocol::{ETHER_ARP, ETHER_IPV4, ETHER_IPV6, MIN_ETHER_TYPE};

/// What of the frames that arrive is let into the chain, of those keys of `[service]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entrance {
    /// Whether the source of a packet must be on the side that it came in from; for services that
    /// say both `inside` and `inside_ports`, and there strict if nothing is said.
    pub source_check: SourceCheck,
    /// What becomes of frames in which no IP packet is found.
    pub unparsed: UnparsedFate,
    /// EtherTypes of frames without an IP packet that are forwarded though others are not: by
    /// number, or `arp`, `lldp`, `lacp`, `eapol`, `ptp`, `llc` (spanning trees and the like).
    pub forward_ether_types: Vec<EtherType>,
    /// Whether IPv4 packets are dropped whose header's checksum is wrong (RFC 1812 §5.2.2): true
    /// where the chain has a router if nothing is said, else false.
    pub verify_ipv4_checksum: bool,
}

impl Entrance {
    /// Whether frames of this EtherType without an IP packet are forwarded.
    pub fn forwards(&self, ether_type: EtherType) -> bool {
        self.unparsed == UnparsedFate::Forward || self.forward_ether_types.contains(&ether_type)
    }
}

/// Whether the source of a packet must be on the side that it came in from (RFC 2827, RFC 3704).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SourceCheck {
    /// A source inside must come in by a port inside, any other by one outside, and none that a translation
    /// gives out by any; others are dropped.
    #[default]
    Strict,
    /// A source inside must come in by a port inside; other networks may be behind those ports, too.
    Loose,
    /// Sources are taken as they come.
    Off,
}

/// What becomes of frames in which no IP packet is found. What claims to be one and is malformed is
/// dropped in any case.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnparsedFate {
    /// They are dropped, and counted by what they are.
    #[default]
    Drop,
    /// They pass by the chain: no function sees them, whatever it denies.
    Forward,
}

/// What a frame without an IP packet carries.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(with = "String", title = "EtherType")]
pub struct EtherType(
    /// Its number; 0 for frames that have a length in its place.
    pub u16,
);

/// EtherTypes that have names.
const NAMES: [(&str, u16); 6] = [
    ("arp", ETHER_ARP),
    ("lldp", 0x88cc),
    ("lacp", 0x8809),
    ("eapol", 0x888e),
    ("ptp", 0x88f7),
    ("llc", 0),
];

impl EtherType {
    /// Frames that have a length in place of an EtherType (IEEE 802.3), behind which LLC follows.
    pub const LLC: Self = Self(0);

    fn named(text: &str) -> Option<Self> {
        let known = NAMES.iter().find(|(name, _)| *name == text);
        known.map(|(_, number)| Self(*number)).or_else(|| {
            let digits = text.strip_prefix("0x")?;
            Self::numbered(u16::from_str_radix(digits, 16).ok()?)
        })
    }

    /// What is IP enters the chain, and is never forwarded past it.
    fn numbered(number: u16) -> Option<Self> {
        let is_one = number >= MIN_ETHER_TYPE && number != ETHER_IPV4 && number != ETHER_IPV6;
        is_one.then_some(Self(number))
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => formatter.write_str(name),
            None => write!(formatter, "{:#06x}", self.0),
        }
    }
}

impl<'de> Deserialize<'de> for EtherType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u16),
            Text(String),
        }
        let found = match Written::deserialize(deserializer) {
            Ok(Written::Number(number)) => Self::numbered(number),
            Ok(Written::Text(text)) => Self::named(&text),
            Err(_) => None,
        };
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        found.ok_or_else(|| {
            serde::de::Error::custom(format!(
                "no EtherType of frames without an IP packet: expected one of {names}, or a number from 0x0600 on, such as 0x88cc"
            ))
        })
    }
}

/// These keys as `[service]` has them.
#[derive(Debug)]
pub(super) struct Written {
    pub source_check: Option<Spanned<SourceCheck>>,
    pub unparsed: UnparsedFate,
    pub forward_ether_types: Vec<EtherType>,
    pub verify_ipv4_checksum: Option<bool>,
}

impl Written {
    /// What they mean where sides are known both by port and by network, or are not, and where the
    /// chain has a router, or has none.
    pub fn checked(self, has_both_sides: bool, has_router: bool) -> Result<Entrance, Misplaced> {
        let source_check = match (self.source_check, has_both_sides) {
            (Some(written), false) => {
                let message = "nothing says which sources belong to which ports: expected inside and inside_ports beside source_check";
                return Err((written.span(), message.into()));
            }
            (Some(written), true) => written.into_inner(),
            (None, true) => SourceCheck::Strict,
            (None, false) => SourceCheck::Off,
        };
        Ok(Entrance {
            source_check,
            unparsed: self.unparsed,
            forward_ether_types: self.forward_ether_types,
            verify_ipv4_checksum: self.verify_ipv4_checksum.unwrap_or(has_router),
        })
    }
}
