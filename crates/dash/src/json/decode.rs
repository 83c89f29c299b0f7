//! What values mean.

use serde_json::value::RawValue;
use twinpath_classify::Prefix;
use twinpath_core::wire::{Address, Endpoint, MacAddress};

use super::problem::{Wrong, did_you_mean, shown};
use super::value::Value;
use crate::objects::*;

/// A type that values are read as.
pub(super) trait Decode: Sized {
    /// What is expected, as the end of a sentence.
    const EXPECTED: &'static str;

    /// Reads a value. What is worth a look in spite of that is added to `remarks`.
    fn decode(value: &Value<'_>, remarks: &mut Vec<Wrong>) -> Result<Self, Fault>;

    /// Whether a value says as much as none.
    fn is_absent(value: &Value<'_>) -> bool {
        match value {
            Value::Null => true,
            Value::Text(text) => text.is_empty(),
            _ => false,
        }
    }
}

/// Why a value means nothing.
pub(super) enum Fault {
    /// It is not what is expected.
    Unlike,
    /// It is not what is expected, but like something that would be.
    Like(String),
    /// It cannot be.
    Because(String),
}

impl Fault {
    /// What is wrong with a value that is written so.
    pub fn about<T: Decode>(self, written: &str) -> Wrong {
        let meant = match self {
            Self::Because(why) => return Wrong::Impossible(why),
            Self::Unlike => String::new(),
            Self::Like(meant) => meant,
        };
        Wrong::Value {
            found: shown(written),
            expected: T::EXPECTED,
            meant,
        }
    }
}

/// Reads a part of a key.
pub(super) fn decode_text<T: Decode>(text: &str, remarks: &mut Vec<Wrong>) -> Result<T, Wrong> {
    let value = Value::Text(text.into());
    T::decode(&value, remarks).map_err(|fault| fault.about::<T>(&format!("{text:?}")))
}

/// The text of a value that is one.
fn text<'v>(value: &'v Value<'_>) -> Result<&'v str, Fault> {
    match value {
        Value::Text(text) => Ok(text.trim()),
        _ => Err(Fault::Unlike),
    }
}

/// A number that is written as one, or as a text.
fn number(value: &Value<'_>) -> Result<u64, Fault> {
    let digits = match value {
        Value::Number(digits) => digits,
        Value::Text(text) => text.trim(),
        _ => return Err(Fault::Unlike),
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| plain);
    number.ok_or(Fault::Unlike)
}

macro_rules! numbers {
    ($($Number:ty: $expected:literal;)*) => {$(
        impl Decode for $Number {
            const EXPECTED: &'static str = $expected;

            fn decode(value: &Value<'_>, _: &mut Vec<Wrong>) -> Result<Self, Fault> {
                Self::try_from(number(value)?).map_err(|_| Fault::Unlike)
            }
        }
    )*};
}

numbers! {
    u8: "a number from 0 to 255";
    u16: "a number from 0 to 65535";
    u32: "a number from 0 to 4294967295";
}

/// A metering class, or bits of one: documents write some as hexadecimal.
pub(super) struct ClassBits(pub u32);

impl Decode for ClassBits {
    const EXPECTED: &'static str = "a number from 0 to 4294967295, or hexadecimal digits behind 0x";

    fn decode(value: &Value<'_>, remarks: &mut Vec<Wrong>) -> Result<Self, Fault> {
        let written = text(value).unwrap_or_default();
        let bits = match written.strip_prefix("0x") {
            None => u32::decode(value, remarks),
            // A sign is no digit.
            Some(digits) if digits.starts_with('+') => Err(Fault::Unlike),
            Some(digits) => u32::from_str_radix(digits, 16).map_err(|_| Fault::Unlike),
        };
        bits.map(Self)
    }
}

/// The number of a protocol in IP headers; a name is told with the number that is meant.
pub(super) struct ProtocolNumber(pub u8);

impl Decode for ProtocolNumber {
    const EXPECTED: &'static str = u8::EXPECTED;

    fn decode(value: &Value<'_>, remarks: &mut Vec<Wrong>) -> Result<Self, Fault> {
        const NAMES: [(&str, u8); 9] = [
            ("icmp", 1),
            ("igmp", 2),
            ("tcp", 6),
            ("udp", 17),
            ("gre", 47),
            ("esp", 50),
            ("ah", 51),
            ("icmpv6", 58),
            ("sctp", 132),
        ];
        let name = text(value).unwrap_or_default();
        let named = NAMES
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        match named {
            Some((known, number)) => Err(Fault::Like(format!("; {known} is {number}"))),
            None => u8::decode(value, remarks).map(Self),
        }
    }
}

impl Decode for bool {
    const EXPECTED: &'static str = "true or false";

    fn decode(value: &Value<'_>, _: &mut Vec<Wrong>) -> Result<Self, Fault> {
        match value {
            Value::Bool(bool) => Ok(*bool),
            Value::Text(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Value::Text(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            _ => Err(Fault::Unlike),
        }
    }
}

impl Decode for Box<str> {
    const EXPECTED: &'static str = "a text";

    fn decode(value: &Value<'_>, _: &mut Vec<Wrong>) -> Result<Self, Fault> {
        match value {
            Value::Text(text) => Ok((**text).into()),
            Value::Number(digits) => Ok((*digits).into()),
            _ => Err(Fault::Unlike),
        }
    }
}

macro_rules! names {
    ($($Name:ty: $expected:literal;)*) => {$(
        impl Decode for $Name {
            const EXPECTED: &'static str = $expected;

            fn decode(value: &Value<'_>, _: &mut Vec<Wrong>) -> Result<Self, Fault> {
                match value {
                    Value::Text(text) if !text.is_empty() => Ok(Self::from(&**text)),
                    Value::Number(digits) => Ok(Self::from(*digits)),
                    _ => Err(Fault::Unlike),
                }
            }
        }
    )*};
}

names! {
    ApplianceId: "an appliance's name";
    VnetName: "a virtual network's name";
    QosName: "a QoS profile's name";
    EniId: "an ENI's name";
    RouteGroupId: "a route group's name";
    AclGroupId: "an ACL group's name";
    AclRuleId: "an ACL rule's number or name";
    TagName: "a prefix tag's name";
    TunnelName: "a tunnel's name";
    PortMapId: "a port map's name";
    MeterPolicyId: "a meter policy's name";
    NatPoolId: "a NAT pool's name";
    DpuId: "a DPU's name";
    VdpuId: "a virtual DPU's name";
    SwitchVnetName: "a switch's virtual network";
    SwitchTunnelName: "a switch's tunnel";
    HaSetId: "an HA set's name";
    HaScopeId: "an HA scope's name";
}

impl Decode for Vni {
    const EXPECTED: &'static str = "a VNI: a number from 0 to 16777215";

    fn decode(value: &Value<'_>, _: &mut Vec<Wrong>) -> Result<Self, Fault> {
        let number = u32::try_from(number(value)?).map_err(|_| Fault::Unlike)?;
        Self::new(number).ok_or(Fault::Unlike)
    }
}

impl Decode for Address {
    const EXPECTED: &'static str = "an address such as 10.0.0.1 or 2001:db8::1";

    fn decode(value: &Value<'_>, _: &mut Vec<Wrong>) -> Result<Self, Fault> {
        address(text(value)?)
    }
}

fn address(text: &str) -> Result<Address, Fault> {
    let address: Address = text.parse().map_err(|_| Fault::Unlike)?;
    match address.is_v4() && text.contains(':') {
        true => Err(Fault::Like(format!("; perhaps {address} is meant"))),
        false => Ok(address),
    }
}

impl Decode for Endpoint {
    const EXPECTED: &'static str = "an address with a port such as 10.0.0.1:80 or [2001:db8::1]:80";

    fn decode(value: &Value<'_>, _: &mut Vec<Wrong>) -> Result<Self, Fault> {
        text(value)?.parse().map_err(|_| Fault::Unlike)
    }
}

impl Decode for MacAddress {
    const EXPECTED: &'static str = "a MAC address such as 02:00:00:00:00:01";

    fn decode(value: &Value<'_>, _: &mut Vec<Wrong>) -> Result<Self, Fault> {
        let text = text(value)?;
        let digits = text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u64::from_str_radix(text, 16) {
            Ok(bits) if digits => {
                let [_, _, octets @ ..] = bits.to_be_bytes();
                Ok(Self(octets))
            }
            // Dashes or colons, and not both.
            _ if text.contains('-') && !text.contains(':') => {
                text.replace('-', ":").parse().map_err(|_| Fault::Unlike)
            }
            _ => text.parse().map_err(|_| Fault::Unlike),
        }
    }
}

impl Decode for Guid {
    const EXPECTED: &'static str = "a GUID such as 559c6ce8-26ab-4193-b946-ccc6e8f930b2";

    fn decode(value: &Value<'_>, _: &mut Vec<Wrong>) -> Result<Self, Fault> {
        let digits = text(value)?.replace('-', "");
        let plain = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let guid = u128::from_str_radix(&digits, 16).ok().filter(|_| plain);
        guid.map(Self).ok_or(Fault::Unlike)
    }
}

impl Decode for Prefix {
    const EXPECTED: &'static str = "a prefix such as 10.0.0.0/8 or 2001:db8::/32";

    /// The length may be written as a mask. Bits beyond it are a remark: SONiC takes them.
    fn decode(value: &Value<'_>, remarks: &mut Vec<Wrong>) -> Result<Self, Fault> {
        let text = text(value)?;
        let (network, length) = text.split_once('/').unwrap_or((text, ""));
        let network = address(network)?;
        let bits: u8 = if network.is_v4() { 32 } else { 128 };
        let length = match length {
            "" if text.contains('/') => return Err(Fault::Unlike),
            "" => bits,
            length => length.parse().or_else(|_| mask_length(length, bits))?,
        };
        if length > bits {
            return Err(Fault::Because(format!(
                "found the length {length}, but the address has {bits} bits"
            )));
        }
        let prefix = Self::covering(network, length);
        if prefix.network() != network {
            remarks.push(Wrong::Remark(format!(
                "{text} has bits beyond its length: taken for {prefix}"
            )));
        }
        Ok(prefix)
    }
}

/// The length of a mask whose ones are all in front.
fn mask_length(mask: &str, bits: u8) -> Result<u8, Fault> {
    let mask = address(mask)?;
    let own: u8 = if mask.is_v4() { 32 } else { 128 };
    let shifted = mask.0 << (128 - own);
    let length = shifted.leading_ones() as u8;
    let whole = length == 128 || shifted << length == 0;
    (whole && own == bits)
        .then_some(length)
        .ok_or(Fault::Unlike)
}

impl Decode for MaskedBits {
    const EXPECTED: &'static str = "an IPv6 address and a mask such as fd40::1/ffff::";

    fn decode(value: &Value<'_>, remarks: &mut Vec<Wrong>) -> Result<Self, Fault> {
        let text = text(value)?;
        let (bits, mask) = text.split_once('/').ok_or(Fault::Unlike)?;
        let mask = match mask.parse::<u32>() {
            Ok(length) if length <= 128 => !u128::MAX.checked_shr(length).unwrap_or(0),
            _ => v6_bits(mask)?,
        };
        let bits = v6_bits(bits)?;
        if bits & !mask != 0 {
            remarks.push(Wrong::Remark(format!(
                "{text} has bits outside its mask: they are ignored"
            )));
        }
        Ok(Self::new(bits, mask))
    }
}

fn v6_bits(text: &str) -> Result<u128, Fault> {
    let address: std::net::Ipv6Addr = text.parse().map_err(|_| Fault::Unlike)?;
    Ok(address.to_bits())
}

/// Bits of an IPv6 address around 32 of IPv4: a plain address has all others.
pub(super) struct BitsAround(pub MaskedBits);

impl Decode for BitsAround {
    const EXPECTED: &'static str = "an IPv6 address, perhaps with a mask, such as fd40::/ffff::";

    fn decode(value: &Value<'_>, remarks: &mut Vec<Wrong>) -> Result<Self, Fault> {
        const FIRST_96: u128 = !0 << 32;
        let text = text(value)?;
        match text.contains('/') {
            true => MaskedBits::decode(value, remarks).map(Self),
            false => Ok(Self(MaskedBits::new(v6_bits(text)?, FIRST_96))),
        }
    }
}

/// Bits of an IPv6 address: a plain address has all of them.
pub(super) struct AllBits(pub MaskedBits);

impl Decode for AllBits {
    const EXPECTED: &'static str = BitsAround::EXPECTED;

    fn decode(value: &Value<'_>, remarks: &mut Vec<Wrong>) -> Result<Self, Fault> {
        let text = text(value)?;
        match text.contains('/') {
            true => MaskedBits::decode(value, remarks).map(Self),
            false => Ok(Self(MaskedBits::new(v6_bits(text)?, u128::MAX))),
        }
    }
}

/// What ranges are of.
pub(super) trait Bound: Decode + Ord + Copy {
    /// What is expected of a range.
    const RANGE: &'static str;
}

impl Bound for u16 {
    const RANGE: &'static str = "a port or ports such as 80 or 8000-8010";
}

impl Bound for Vni {
    const RANGE: &'static str = "a VNI or VNIs such as 100, \"100-200\" or [100, 200]";
}

impl<T: Bound> Decode for Range<T> {
    const EXPECTED: &'static str = T::RANGE;

    fn decode(value: &Value<'_>, remarks: &mut Vec<Wrong>) -> Result<Self, Fault> {
        let (min, max) = match value {
            Value::Text(text) if text.contains('-') => {
                let (min, max) = text.split_once('-').ok_or(Fault::Unlike)?;
                let mut bound = |text: &str| T::decode(&Value::Text(text.into()), remarks);
                (bound(min)?, bound(max)?)
            }
            Value::List(items) => {
                let mut bound = |raw: &RawValue| T::decode(&inner(raw)?, remarks);
                match **items {
                    [one] => (bound(one)?, bound(one)?),
                    [min, max] => (bound(min)?, bound(max)?),
                    _ => return Err(Fault::Unlike),
                }
            }
            value => {
                let one = T::decode(value, remarks)?;
                (one, one)
            }
        };
        let nothing = || Fault::Because("the range ends before it begins".into());
        Self::new(min, max).ok_or_else(nothing)
    }
}

/// A value inside another.
fn inner(raw: &RawValue) -> Result<Value<'_>, Fault> {
    Value::of(raw).map_err(|error| Fault::Because(error.to_string()))
}

/// A list, that is written as one, as a text with commas, or as its only item.
pub(super) struct List<T>(pub Vec<T>);

impl<T: Decode> Decode for List<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn decode(value: &Value<'_>, remarks: &mut Vec<Wrong>) -> Result<Self, Fault> {
        match value {
            Value::List(items) => {
                let items = items
                    .iter()
                    .map(|raw| item(&inner(raw)?, raw.get(), remarks));
                items.collect::<Result<_, _>>().map(Self)
            }
            Value::Text(text) => {
                let items = text
                    .split(',')
                    .map(str::trim)
                    .filter(|item| !item.is_empty());
                let items = items.map(|text| item(&Value::Text(text.into()), text, remarks));
                items.collect::<Result<_, _>>().map(Self)
            }
            Value::Null => Ok(Self(Vec::new())),
            value => T::decode(value, remarks).map(|item| Self(vec![item])),
        }
    }
}

/// An item of a list; the fault says which.
fn item<T: Decode>(value: &Value<'_>, written: &str, remarks: &mut Vec<Wrong>) -> Result<T, Fault> {
    T::decode(value, remarks).map_err(|fault| match fault {
        Fault::Because(why) => Fault::Because(format!("{}: {why}", shown(written))),
        fault => Fault::Because(fault.about::<T>(written).to_string()),
    })
}

/// A type of a few words.
pub(super) trait Words: Copy + 'static {
    /// What is expected.
    const EXPECTED: &'static str;
    /// What SONiC's protobuf has in front of each word.
    const PREFIX: &'static str;
    /// The words, what they mean, and the numbers that protobuf has for them.
    const WORDS: &'static [(&'static str, Self, u32)];
}

impl<T: Words> Decode for T {
    const EXPECTED: &'static str = T::EXPECTED;

    fn decode(value: &Value<'_>, _: &mut Vec<Wrong>) -> Result<Self, Fault> {
        let mut words = T::WORDS.iter();
        if let Value::Number(_) = value {
            let number = number(value)?;
            let word = words.find(|(_, _, known)| u64::from(*known) == number);
            return word.map(|(_, value, _)| *value).ok_or(Fault::Unlike);
        }
        let written = text(value)?;
        let word = word::<T>(written);
        let known = words.find(|(known, _, _)| known.eq_ignore_ascii_case(word));
        known.map(|(_, value, _)| *value).ok_or_else(|| {
            let known = T::WORDS.iter().map(|(known, _, _)| *known);
            Fault::Like(did_you_mean(word, known))
        })
    }

    fn is_absent(value: &Value<'_>) -> bool {
        match value {
            Value::Null | Value::Number("0") => true,
            Value::Text(text) => {
                text.is_empty() || word::<T>(text).eq_ignore_ascii_case("UNSPECIFIED")
            }
            _ => false,
        }
    }
}

/// A word without what protobuf has in front of it.
fn word<T: Words>(written: &str) -> &str {
    match written.split_at_checked(T::PREFIX.len()) {
        Some((prefix, word)) if prefix.eq_ignore_ascii_case(T::PREFIX) => word,
        _ => written,
    }
}

impl Words for IpVersion {
    const EXPECTED: &'static str = "ipv4 or ipv6";
    const PREFIX: &'static str = "IP_VERSION_";
    const WORDS: &'static [(&'static str, Self, u32)] =
        &[("ipv4", Self::V4, 1), ("ipv6", Self::V6, 2)];
}

impl Words for RoutingType {
    const EXPECTED: &'static str = "a routing type: direct, vnet, vnet_direct, vnet_encap, appliance, privatelink, privatelinknsg, servicetunnel or drop";
    const PREFIX: &'static str = "ROUTING_TYPE_";
    const WORDS: &'static [(&'static str, Self, u32)] = &[
        ("direct", Self::Direct, 1),
        ("vnet", Self::Vnet, 2),
        ("vnet_direct", Self::VnetDirect, 3),
        ("vnet_encap", Self::VnetEncap, 4),
        ("appliance", Self::Appliance, 5),
        ("privatelink", Self::PrivateLink, 6),
        ("privatelinknsg", Self::PrivateLinkNsg, 7),
        ("servicetunnel", Self::ServiceTunnel, 8),
        ("drop", Self::Drop, 9),
    ];
}

impl Words for ActionType {
    const EXPECTED: &'static str =
        "an action: maprouting, direct, staticencap, appliance, 4_to_6, mapdecap, decap or drop";
    const PREFIX: &'static str = "ACTION_TYPE_";
    const WORDS: &'static [(&'static str, Self, u32)] = &[
        ("maprouting", Self::MapRouting, 1),
        ("direct", Self::Direct, 2),
        ("staticencap", Self::StaticEncap, 3),
        ("appliance", Self::Appliance, 4),
        ("4_to_6", Self::FourToSix, 5),
        ("4to6", Self::FourToSix, 5),
        ("mapdecap", Self::MapDecap, 6),
        ("decap", Self::Decap, 7),
        ("drop", Self::Drop, 8),
    ];
}

impl Words for InboundAction {
    const EXPECTED: &'static str = "decap or drop";
    const PREFIX: &'static str = "ACTION_TYPE_";
    const WORDS: &'static [(&'static str, Self, u32)] =
        &[("decap", Self::Decap, 7), ("drop", Self::Drop, 8)];
}

impl Words for PortProtocol {
    const EXPECTED: &'static str = "tcp or udp";
    const PREFIX: &'static str = "";
    const WORDS: &'static [(&'static str, Self, u32)] =
        &[("tcp", Self::Tcp, 6), ("udp", Self::Udp, 17)];
}

impl Words for Encapsulation {
    const EXPECTED: &'static str = "vxlan or nvgre";
    const PREFIX: &'static str = "ENCAP_TYPE_";
    const WORDS: &'static [(&'static str, Self, u32)] = &[
        ("vxlan", Self::Vxlan, 1),
        ("nvgre", Self::Nvgre, 2),
        ("gre", Self::Nvgre, 2),
    ];
}

impl Words for AdminState {
    const EXPECTED: &'static str = "enabled or disabled";
    const PREFIX: &'static str = "STATE_";
    const WORDS: &'static [(&'static str, Self, u32)] = &[
        ("disabled", Self::Disabled, 1),
        ("enabled", Self::Enabled, 2),
    ];
}

impl Words for EniMode {
    const EXPECTED: &'static str = "vm or fnic";
    const PREFIX: &'static str = "MODE_";
    const WORDS: &'static [(&'static str, Self, u32)] = &[
        ("vm", Self::Vm, 1),
        ("fnic", Self::FloatingNic, 2),
        ("floating_nic_mode", Self::FloatingNic, 2),
    ];
}

impl Words for DirectionLookup {
    const EXPECTED: &'static str = "src_mac or dst_mac";
    const PREFIX: &'static str = "";
    const WORDS: &'static [(&'static str, Self, u32)] = &[
        ("src_mac", Self::SourceMac, u32::MAX),
        ("dst_mac", Self::DestinationMac, u32::MAX),
    ];
}

impl Words for AclAction {
    const EXPECTED: &'static str = "allow or deny";
    const PREFIX: &'static str = "ACTION_";
    const WORDS: &'static [(&'static str, Self, u32)] = &[
        ("deny", Self::Deny, 1),
        ("permit", Self::Permit, 2),
        ("allow", Self::Permit, 2),
    ];
}

/// What a range of a port map says is done; the rest is in other fields.
#[derive(Copy, Clone)]
pub(super) enum PortMapAction {
    SkipMapping,
    PrivateLinkService,
}

impl Words for PortMapAction {
    const EXPECTED: &'static str = "skip_mapping or map_private_link_service";
    const PREFIX: &'static str = "ACTION_";
    const WORDS: &'static [(&'static str, Self, u32)] = &[
        ("skip_mapping", Self::SkipMapping, 1),
        ("map_private_link_service", Self::PrivateLinkService, 2),
    ];
}

impl Words for HaScopeKind {
    const EXPECTED: &'static str = "dpu or eni";
    const PREFIX: &'static str = "HA_SCOPE_";
    const WORDS: &'static [(&'static str, Self, u32)] =
        &[("dpu", Self::Dpu, 1), ("eni", Self::Eni, 2)];
}

impl Words for HaOwner {
    const EXPECTED: &'static str = "dpu or switch";
    const PREFIX: &'static str = "HA_OWNER_";
    const WORDS: &'static [(&'static str, Self, u32)] =
        &[("dpu", Self::Dpu, 1), ("switch", Self::Switch, 2)];
}

impl Words for DesiredHaState {
    const EXPECTED: &'static str = "dead, active or standalone";
    const PREFIX: &'static str = "DESIRED_HA_STATE_";
    const WORDS: &'static [(&'static str, Self, u32)] = &[
        ("dead", Self::Dead, 1),
        ("active", Self::Active, 2),
        ("standalone", Self::Standalone, 3),
    ];
}

impl Words for HaRole {
    const EXPECTED: &'static str = "dead, active, standby, standalone or switching_to_active";
    const PREFIX: &'static str = "HA_ROLE_";
    const WORDS: &'static [(&'static str, Self, u32)] = &[
        ("dead", Self::Dead, 1),
        ("active", Self::Active, 2),
        ("standby", Self::Standby, 3),
        ("standalone", Self::Standalone, 4),
        ("switching_to_active", Self::SwitchingToActive, 5),
    ];
}

/// Whether a DPU takes packets.
#[derive(Copy, Clone)]
pub(super) enum DpuState {
    Up,
    Down,
}

impl Words for DpuState {
    const EXPECTED: &'static str = "up or down";
    const PREFIX: &'static str = "";
    const WORDS: &'static [(&'static str, Self, u32)] =
        &[("up", Self::Up, u32::MAX), ("down", Self::Down, u32::MAX)];
}
