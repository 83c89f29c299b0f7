//! A rule as a person writes it, and the values in it.

use std::collections::HashSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use twinpath_core::wire::{Address, protocol};

use crate::checked;
use crate::schema::TextOr;
use crate::similar::did_you_mean;

/// What happens to a packet, or to a connection, that a rule matches.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It passes.
    Allow,
    /// It is dropped silently (`denied`).
    Deny,
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        })
    }
}

/// One rule: what it matches and what then happens. What is not said matches everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash, JsonSchema)]
#[schemars(with = "Written")]
pub struct Rule {
    /// What happens.
    pub action: Action,
    /// The name of the node's port that they come in by, if it matters.
    pub ingress: Option<Box<str>>,
    /// The IP protocol.
    pub protocol: Protocol,
    /// Source addresses.
    pub from: Prefix,
    /// Destination addresses.
    pub to: Prefix,
    /// Source ports, of TCP and UDP.
    pub from_port: Ports,
    /// Destination ports, of TCP and UDP.
    pub to_port: Ports,
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        checked::table::<D, Written, Self>(deserializer)
    }
}

impl Rule {
    /// Whether there may be packets that both rules match, as far as addresses, protocols and ports
    /// of arrival say.
    pub fn may_meet(&self, other: &Self) -> bool {
        let protocols = [self.protocol.0, other.protocol.0];
        let same_protocol = match protocols {
            [Some(one), Some(other)] => one == other,
            _ => true,
        };
        let same_ingress = match [&self.ingress, &other.ingress] {
            [Some(one), Some(other)] => one == other,
            _ => true,
        };
        same_ingress && same_protocol && self.from.meets(&other.from) && self.to.meets(&other.to)
    }
}

/// As an operator writes it on one line: `deny ingress lan protocol tcp from 10.0.0.0/8 to_port 25`.
impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.action)?;
        if let Some(port) = &self.ingress {
            write!(formatter, " ingress {port}")?;
        }
        if self.protocol != Protocol::default() {
            write!(formatter, " protocol {}", self.protocol.word())?;
        }
        for (key, prefix) in [("from", self.from), ("to", self.to)] {
            if prefix != Prefix::ANY {
                write!(formatter, " {key} {prefix}")?;
            }
        }
        for (key, ports) in [("from_port", &self.from_port), ("to_port", &self.to_port)] {
            if !ports.are_any() {
                write!(formatter, " {key} {ports}")?;
            }
        }
        Ok(())
    }
}

/// The name of no port of the node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no port is called {0:?}: expected one that ports = [...] in [service] names ({1})")]
pub struct NoPort(String, String);

/// The number of the port of this name.
///
/// # Errors
/// There is none.
pub(crate) fn port_number(name: &str, ports: &[String]) -> Result<u16, NoPort> {
    let number = (0..).zip(ports).find(|(_, port)| **port == *name);
    let unknown = || NoPort(name.to_owned(), ports.join(", "));
    number.map(|(number, _)| number).ok_or_else(unknown)
}

/// What a rule may say of packets.
const KEYS: [&str; 6] = ["ingress", "protocol", "from", "to", "from_port", "to_port"];

/// Why a line is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleTextError {
    /// It does not begin with an action.
    #[error("expected \"allow\" or \"deny\" first, found {0:?}")]
    Action(String),
    /// A word that is no key.
    #[error(
        "{0:?} is unknown: expected ingress, protocol, from, to, from_port or to_port{meant}",
        meant = did_you_mean(.0, KEYS)
    )]
    Key(String),
    /// A key that was there before.
    #[error("expected {0} at most once")]
    KeyTwice(String),
    /// A key without a value.
    #[error("expected a value behind {0:?}")]
    NoValue(String),
    /// A protocol that is none.
    #[error(
        "expected \"tcp\", \"udp\", \"icmp\", \"icmp6\", \"any\" or a protocol number from 0 to 255, found {0:?}"
    )]
    Protocol(String),
    /// A prefix that is none.
    #[error(transparent)]
    Prefix(#[from] PrefixError),
    /// Ports that are none.
    #[error(transparent)]
    Ports(#[from] PortsError),
    /// A rule that can match nothing.
    #[error(transparent)]
    Rule(#[from] RuleError),
}

impl FromStr for Rule {
    type Err = RuleTextError;

    fn from_str(text: &str) -> Result<Self, RuleTextError> {
        let mut words = text.split_whitespace();
        let action = match words.next() {
            Some("allow") => Action::Allow,
            Some("deny") => Action::Deny,
            other => return Err(RuleTextError::Action(other.unwrap_or("").to_owned())),
        };
        let (mut written, mut known) = (Written::new(action), HashSet::new());
        while let Some(key) = words.next() {
            let is_new = known.insert(key);
            let value = words
                .next()
                .ok_or_else(|| RuleTextError::NoValue(key.to_owned()));
            match key {
                "ingress" if is_new => written.ingress = Some(value?.into()),
                "protocol" if is_new => written.protocol = value?.parse()?,
                "from" if is_new => written.from = value?.parse()?,
                "to" if is_new => written.to = value?.parse()?,
                "from_port" if is_new => written.from_port = value?.parse()?,
                "to_port" if is_new => written.to_port = value?.parse()?,
                key if KEYS.contains(&key) => {
                    return Err(RuleTextError::KeyTwice(key.to_owned()));
                }
                _ => return Err(RuleTextError::Key(key.to_owned())),
            }
        }
        Ok(Self::try_from(written)?)
    }
}

impl Written {
    fn new(action: Action) -> Self {
        Self {
            action,
            ingress: None,
            protocol: Protocol::default(),
            from: Prefix::ANY,
            to: Prefix::ANY,
            from_port: Ports::default(),
            to_port: Ports::default(),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    /// What happens to what the rule matches.
    action: Action,
    /// The node's port by which packets come in, by the name that `ports` in `[service]` gives it;
    /// without it, whichever.
    ingress: Option<Box<str>>,
    /// The IP protocol: `"tcp"`, `"udp"`, `"icmp"` (IPv4's), `"icmp6"`, `"any"`, or its number.
    #[serde(default)]
    protocol: Protocol,
    /// The source address. `"::/0"` is all of IPv6 and none of IPv4.
    #[serde(default)]
    from: Prefix,
    /// The destination address.
    #[serde(default)]
    to: Prefix,
    /// The source port of TCP and UDP. A rule with ports and without a protocol speaks of both.
    #[serde(default)]
    from_port: Ports,
    /// The destination port of TCP and UDP.
    #[serde(default)]
    to_port: Ports,
}

/// Why a rule can match nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Ports of a protocol that has none.
    #[error("a rule with ports needs protocol = \"tcp\", \"udp\" or \"any\", not {0}")]
    PortsWithoutPorts(Protocol),
    /// An IPv4 and an IPv6 prefix.
    #[error("no packet goes from {from} to {to}: one is IPv4, the other IPv6")]
    MixedVersions {
        /// Source.
        from: Prefix,
        /// Destination.
        to: Prefix,
    },
    /// ICMP of one version with addresses of the other.
    #[error(
        "{protocol} does not occur with {prefix}: use \"icmp\" with IPv4 and \"icmp6\" with IPv6"
    )]
    WrongIcmp {
        /// The protocol.
        protocol: Protocol,
        /// The prefix of the other version.
        prefix: Prefix,
    },
}

impl TryFrom<Written> for Rule {
    type Error = RuleError;

    fn try_from(written: Written) -> Result<Self, RuleError> {
        let Written {
            action,
            ingress,
            protocol,
            from,
            to,
            from_port,
            to_port,
        } = written;
        if !(protocol.may_have_ports() || from_port.are_any() && to_port.are_any()) {
            return Err(RuleError::PortsWithoutPorts(protocol));
        }
        if from.versions.and(to.versions).is_none() {
            return Err(RuleError::MixedVersions { from, to });
        }
        for prefix in [from, to] {
            if protocol.versions().and(prefix.versions).is_none() {
                return Err(RuleError::WrongIcmp { protocol, prefix });
            }
        }
        Ok(Self {
            action,
            ingress,
            protocol,
            from,
            to,
            from_port,
            to_port,
        })
    }
}

/// IP versions that a rule, or a part of it, speaks of.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Versions {
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
    /// Either.
    Both,
}

impl Versions {
    /// What both speak of, if anything.
    pub fn and(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Both, one) | (one, Self::Both) => Some(one),
            (one, same) => (one == same).then_some(one),
        }
    }

    /// Whether this speaks of IPv4 (or else of IPv6).
    pub fn includes(self, v4: bool) -> bool {
        match self {
            Self::V4 => v4,
            Self::V6 => !v4,
            Self::Both => true,
        }
    }
}

/// A protocol: `"tcp"`, `"udp"`, `"icmp"`, `"icmp6"`, `"any"`, or a number.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, JsonSchema)]
#[schemars(with = "TextOr<u8>", title = "protocol")]
pub struct Protocol(pub Option<u8>);

const PROTOCOL_NAMES: [(&str, Option<u8>); 5] = [
    ("any", None),
    ("tcp", Some(protocol::TCP)),
    ("udp", Some(protocol::UDP)),
    ("icmp", Some(protocol::ICMP)),
    ("icmp6", Some(protocol::ICMP6)),
];

impl Protocol {
    /// Whether packets with this protocol number are meant.
    pub fn includes(self, number: u8) -> bool {
        self.0.is_none_or(|wanted| wanted == number)
    }

    fn may_have_ports(self) -> bool {
        self.0.is_none_or(has_ports)
    }

    fn versions(self) -> Versions {
        match self.0 {
            Some(protocol::ICMP) => Versions::V4,
            Some(protocol::ICMP6) => Versions::V6,
            _ => Versions::Both,
        }
    }
}

/// Whether the firewall knows where this protocol has its ports.
pub fn has_ports(number: u8) -> bool {
    matches!(number, protocol::TCP | protocol::UDP)
}

impl FromStr for Protocol {
    type Err = RuleTextError;

    fn from_str(text: &str) -> Result<Self, RuleTextError> {
        let known = PROTOCOL_NAMES.iter().find(|(name, _)| *name == text);
        let number = || {
            text.parse()
                .map(Some)
                .map_err(|_| RuleTextError::Protocol(text.to_owned()))
        };
        known
            .map_or_else(number, |&(_, number)| Ok(number))
            .map(Self)
    }
}

impl Protocol {
    fn word(self) -> String {
        let known = PROTOCOL_NAMES.iter().find(|(_, number)| *number == self.0);
        known.map_or_else(
            || self.0.unwrap_or_default().to_string(),
            |(name, _)| (*name).to_owned(),
        )
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (
            PROTOCOL_NAMES.iter().find(|(_, number)| *number == self.0),
            self.0,
        ) {
            (Some((name, _)), _) => write!(formatter, "\"{name}\""),
            (None, number) => write!(formatter, "{}", number.unwrap_or_default()),
        }
    }
}

/// As a rule says it.
impl Serialize for Protocol {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.word())
    }
}

impl<'de> Deserialize<'de> for Protocol {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Protocol;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("\"tcp\", \"udp\", \"icmp\", \"icmp6\", \"any\" or a protocol number from 0 to 255")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Protocol, E> {
                let known = PROTOCOL_NAMES
                    .iter()
                    .find(|(name, _)| *name == text)
                    .map(|&(_, number)| Protocol(number));
                known.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Protocol, E> {
                let known = u8::try_from(number).map(|number| Protocol(Some(number)));
                known.map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(number), &self))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// Addresses that share their first bits: `"10.0.0.0/8"`, `"2001:db8::/32"`, one address, or
/// `"any"`.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", title = "prefix")]
pub struct Prefix {
    /// The first address.
    pub network: Address,
    /// The bits that all addresses share; of an IPv4 prefix the 96 of the mapped block too.
    pub mask: u128,
    /// The IP versions meant. `::/0` is all of IPv6 and none of IPv4, although the mapped block
    /// lies within it.
    pub versions: Versions,
}

impl Serialize for Prefix {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Default for Prefix {
    fn default() -> Self {
        Self::ANY
    }
}

impl Prefix {
    /// Every address.
    pub const ANY: Self = Self {
        network: Address(0),
        mask: 0,
        versions: Versions::Both,
    };

    /// Whether an address lies in both.
    fn meets(&self, other: &Self) -> bool {
        let shared = self.mask & other.mask;
        self.versions.and(other.versions).is_some()
            && (self.network.0 ^ other.network.0) & shared == 0
    }

    fn length(&self) -> u32 {
        let unmapped = if self.versions == Versions::V4 { 96 } else { 0 };
        self.mask.count_ones() - unmapped
    }
}

/// Why a text is no prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// Neither address nor prefix.
    #[error(
        "expected \"any\", an address or a prefix such as \"10.0.0.0/8\" or \"2001:db8::/32\", found {0:?}"
    )]
    Unreadable(String),
    /// A length that the address does not have.
    #[error("{text:?}: the prefix length of an {version} address is at most {most}")]
    Length {
        /// The text.
        text: String,
        /// IPv4 or IPv6.
        version: &'static str,
        /// Its bits.
        most: u32,
    },
    /// IPv4 within IPv6, which is for programs: no packet has it.
    #[error(
        "{text:?} is an IPv4 address written as one of IPv6, which no packet has: write \"{meant}\""
    )]
    Mapped {
        /// The text.
        text: String,
        /// The address.
        meant: Address,
    },
    /// Bits beyond the prefix's length.
    #[error("{text:?} has bits beyond its prefix length: write \"{meant}\"")]
    HostBits {
        /// The text.
        text: String,
        /// The prefix without them.
        meant: Prefix,
    },
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        if text == "any" {
            return Ok(Self::ANY);
        }
        let unreadable = || PrefixError::Unreadable(text.to_owned());
        let (address, length) = text
            .split_once('/')
            .map_or((text, None), |(address, length)| (address, Some(length)));
        let is_v6_text = address.contains(':');
        let address: Address = address.parse().map_err(|_| unreadable())?;
        if is_v6_text && address.is_v4() {
            return Err(PrefixError::Mapped {
                text: text.to_owned(),
                meant: address,
            });
        }
        let (versions, version, most) = if address.is_v4() {
            (Versions::V4, "IPv4", 32)
        } else {
            (Versions::V6, "IPv6", 128)
        };
        let length = length
            .map_or(Ok(most), str::parse)
            .map_err(|_| unreadable())?;
        if length > most {
            return Err(PrefixError::Length {
                text: text.to_owned(),
                version,
                most,
            });
        }
        let mask = u128::MAX.checked_shl(most - length).unwrap_or(0);
        let prefix = Self {
            network: Address(address.0 & mask),
            mask,
            versions,
        };
        if prefix.network != address {
            return Err(PrefixError::HostBits {
                text: text.to_owned(),
                meant: prefix,
            });
        }
        Ok(prefix)
    }
}

impl TryFrom<String> for Prefix {
    type Error = PrefixError;

    fn try_from(text: String) -> Result<Self, PrefixError> {
        text.parse()
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.versions {
            Versions::Both => formatter.write_str("any"),
            _ => write!(formatter, "{}/{}", self.network, self.length()),
        }
    }
}

/// Ports: a number, or a text such as `"80,443,8000-8100"`, or `"any"`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, JsonSchema)]
#[schemars(with = "TextOr<u16>", title = "ports")]
pub struct Ports(Vec<RangeInclusive<u16>>);

/// Most ranges in one rule.
pub const MAX_PORT_RANGES: usize = 64;

impl Ports {
    /// Whether every port is meant.
    pub fn are_any(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges; none for any port.
    pub fn ranges(&self) -> &[RangeInclusive<u16>] {
        &self.0
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.are_any() {
            return formatter.write_str("any");
        }
        for (index, range) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            match (range.start(), range.end()) {
                (first, last) if first == last => write!(formatter, "{comma}{first}")?,
                (first, last) => write!(formatter, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// Why a text names no ports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortsError {
    /// No port or range.
    #[error("expected a port from 0 to 65535 or a range such as 8000-8100, found {0:?}")]
    Unreadable(String),
    /// A range that ends before it begins.
    #[error("the range {0:?} ends before it begins")]
    Backwards(String),
    /// Too many ranges.
    #[error("{0} port ranges in one rule are more than {MAX_PORT_RANGES}")]
    TooMany(usize),
}

impl FromStr for Ports {
    type Err = PortsError;

    fn from_str(text: &str) -> Result<Self, PortsError> {
        if text.trim() == "any" {
            return Ok(Self::default());
        }
        let count = text.split(',').count();
        if count > MAX_PORT_RANGES {
            return Err(PortsError::TooMany(count));
        }
        text.split(',')
            .map(|part| port_range(part.trim()))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

fn port_range(text: &str) -> Result<RangeInclusive<u16>, PortsError> {
    let unreadable = |_| PortsError::Unreadable(text.to_owned());
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (u16, u16) = (
        first.trim().parse().map_err(unreadable)?,
        last.trim().parse().map_err(unreadable)?,
    );
    if first > last {
        return Err(PortsError::Backwards(text.to_owned()));
    }
    Ok(first..=last)
}

impl Serialize for Ports {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Ports {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Ports;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(
                    "a port from 0 to 65535, or a text such as \"80,443,8000-8100\" or \"any\"",
                )
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Ports, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Ports, E> {
                let port = u16::try_from(number)
                    .map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(number), &self))?;
                Ok(Ports(vec![port..=port]))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}
