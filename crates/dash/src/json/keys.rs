//! Keys as they are written: the parts with colons between them.

use super::decode::{Decode, decode_text};
use super::problem::{Wrong, shown};
use crate::objects::*;
use twinpath_classify::Prefix;
use twinpath_core::wire::Address;

/// A key that names are read from.
pub(super) type Parsed = Result<Key, Wrong>;

/// Reads the part of a key behind the table's name.
pub(super) fn key(table: Table, text: &str, remarks: &mut Vec<Wrong>) -> Parsed {
    let mut read = Reader { remarks };
    Ok(match table {
        Table::Switch if text == "switch" => Key::Switch(SwitchKey),
        Table::Switch => return Err(unlike(text, "switch")),
        Table::Appliance => Key::Appliance(read.all(text)?),
        Table::Vnet => Key::Vnet(read.first(text)?),
        Table::RoutingType => Key::RoutingType(read.all(text)?),
        Table::Tunnel => Key::Tunnel(read.all(text)?),
        Table::PortMap => Key::PortMap(read.first(text)?),
        Table::PortMapRange => {
            let (map, ports) = read.two(text, "a port map and its ports: map:8001-9000")?;
            Key::PortMapRange(PortMapRangeKey { map, ports })
        }
        Table::Qos => Key::Qos(read.all(text)?),
        Table::MeterPolicy => Key::MeterPolicy(read.first(text)?),
        Table::MeterRule => {
            let (policy, rule) = read.two(text, "a policy and a number: policy:1")?;
            Key::MeterRule(MeterRuleKey { policy, rule })
        }
        Table::PrefixTag => Key::PrefixTag(read.all(text)?),
        Table::AclGroup => Key::AclGroup(read.first(text)?),
        Table::AclRule => {
            let (group, rule) = read.two(text, "a group and a rule: group:1")?;
            Key::AclRule(AclRuleKey { group, rule })
        }
        Table::RouteGroup => Key::RouteGroup(read.first(text)?),
        Table::Route => {
            let (group, prefix) = read.two(text, "a group and a prefix: group:10.0.0.0/8")?;
            Key::Route(RouteKey { group, prefix })
        }
        Table::VnetMapping => {
            let expected = "a virtual network and an address: Vnet1:10.0.0.1";
            let (vnet, address) = read.two::<VnetName, Address>(text, expected)?;
            Key::VnetMapping(VnetMappingKey { vnet, address })
        }
        Table::LoadBalancer => Key::LoadBalancer(read.load_balancer(text)?),
        Table::NatPool => Key::NatPool(read.all(text)?),
        Table::PaValidation => Key::PaValidation(read.all(text)?),
        Table::Eni => Key::Eni(read.first(text)?),
        Table::EniRoute => Key::EniRoute(read.all(text)?),
        Table::EniNat => Key::EniNat(read.all(text)?),
        Table::RouteRule => Key::RouteRule(read.route_rule(text)?),
        Table::AclIn => Key::AclIn(read.stage(text)?),
        Table::AclOut => Key::AclOut(read.stage(text)?),
        Table::HaSet => Key::HaSet(read.all(text)?),
        Table::HaScope => Key::HaScope(read.all(text)?),
        Table::HaSetConfig => Key::HaSetConfig(read.all(text)?),
        Table::HaScopeConfig => {
            let (vdpu, scope) = read.two(text, "a virtual DPU and a scope: vdpu0_0:set0")?;
            Key::HaScopeConfig(HaScopeConfigKey { vdpu, scope })
        }
        Table::Vip => Key::Vip(read.all(text)?),
        Table::Dpu => Key::Dpu(read.all(text)?),
        Table::RemoteDpu => Key::RemoteDpu(read.all(text)?),
        Table::Vdpu => Key::Vdpu(read.all(text)?),
        Table::SwitchTunnel => Key::SwitchTunnel(read.all(text)?),
        Table::SwitchVnet => Key::SwitchVnet(read.all(text)?),
        Table::EniForward => {
            let expected = "a network and a MAC address: Vnet1:02:00:00:00:00:01";
            let (vnet, mac_address) = read.two(text, expected)?;
            Key::EniForward(EniForwardKey { vnet, mac_address })
        }
    })
}

fn unlike(text: &str, expected: &'static str) -> Wrong {
    Wrong::Value {
        found: format!("{:?}", shown(text)),
        expected,
        meant: String::new(),
    }
}

struct Reader<'r> {
    remarks: &'r mut Vec<Wrong>,
}

impl Reader<'_> {
    fn all<T: Decode>(&mut self, text: &str) -> Result<T, Wrong> {
        decode_text(text, self.remarks)
    }

    /// A name that keys of other tables begin with: they end it at their first colon.
    fn first<T: Decode>(&mut self, text: &str) -> Result<T, Wrong> {
        match text.contains(':') {
            true => Err(unlike(
                text,
                "a name without colons, as keys of other tables begin with it",
            )),
            false => self.all(text),
        }
    }

    /// Two parts; the second may have colons.
    fn two<A: Decode, B: Decode>(
        &mut self,
        text: &str,
        expected: &'static str,
    ) -> Result<(A, B), Wrong> {
        let parts = text.split_once(':');
        let (first, second) = parts.ok_or_else(|| unlike(text, expected))?;
        Ok((self.all(first)?, self.all(second)?))
    }

    /// A network, an address that may have colons, a protocol and a port.
    fn load_balancer(&mut self, text: &str) -> Result<LoadBalancerKey, Wrong> {
        const EXPECTED: &str =
            "a network, an address, a protocol and a port: Vnet1:10.0.0.1:tcp:80";
        let parts = text.split_once(':').and_then(|(vnet, rest)| {
            let (rest, port) = rest.rsplit_once(':')?;
            let (vip, protocol) = rest.rsplit_once(':')?;
            Some((vnet, vip, protocol, port))
        });
        let (vnet, vip, protocol, port) = parts.ok_or_else(|| unlike(text, EXPECTED))?;
        Ok(LoadBalancerKey {
            vnet: self.all(vnet)?,
            vip: self.all(vip)?,
            protocol: self.all(protocol)?,
            port: self.all(port)?,
        })
    }

    fn stage(&mut self, text: &str) -> Result<AclStageKey, Wrong> {
        const EXPECTED: &str = "an ENI and a stage from 1 to 5: eni:1";
        let (eni, number) = self.two::<EniId, u8>(text, EXPECTED)?;
        let stage = AclStage::new(number).ok_or_else(|| unlike(text, EXPECTED))?;
        Ok(AclStageKey { eni, stage })
    }

    fn route_rule(&mut self, text: &str) -> Result<RouteRuleKey, Wrong> {
        const EXPECTED: &str = "an ENI, a VNI and a prefix, perhaps with a priority: eni:100:10.0.0.0/8 or eni:100:10.0.0.0/8:5";
        let mut parts = text.splitn(3, ':');
        let (Some(eni), Some(vni), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(unlike(text, EXPECTED));
        };
        let (source, priority) = source_and_priority(rest);
        Ok(RouteRuleKey {
            eni: self.all(eni)?,
            vni: self.all(vni)?,
            source: self.all(source)?,
            priority: priority.map(|priority| self.all(priority)).transpose()?,
        })
    }
}

/// A priority stands behind a prefix and a colon. What an address has behind its last colon is no
/// priority.
fn source_and_priority(text: &str) -> (&str, Option<&str>) {
    if text.parse::<Prefix>().is_ok() || text.parse::<Address>().is_ok() {
        return (text, None);
    }
    let numeric = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match text.rsplit_once(':') {
        Some((source, priority)) if numeric(priority) && !priority.is_empty() => {
            (source, Some(priority))
        }
        _ => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(table: Table, text: &str) -> Result<String, String> {
        let key = key(table, text, &mut Vec::new());
        key.map(|key| key.to_string())
            .map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn keys_read_back() {
        for (table, text) in [
            (Table::Switch, "switch"),
            (Table::Vnet, "Vnet1"),
            (Table::Route, "group:10.0.0.0/8"),
            (Table::Route, "group:2001:db8::/32"),
            (Table::VnetMapping, "Vnet1:2001:db8::1"),
            (Table::RoutingType, "vnet_encap"),
            (Table::PortMapRange, "map:8001-9000"),
            (Table::PortMapRange, "map:80-80"),
            (Table::RouteRule, "eni:100:10.0.0.0/8"),
            (Table::RouteRule, "eni:100:10.0.0.0/8:5"),
            (Table::RouteRule, "eni:100:2001:db8::/32"),
            (Table::RouteRule, "eni:100:2001:db8::/32:5"),
            (Table::AclRule, "group:priority_1_deny"),
            (Table::AclIn, "eni:5"),
            (Table::MeterRule, "policy:7"),
            (Table::LoadBalancer, "Vnet1:10.0.0.100:tcp:80"),
            (Table::LoadBalancer, "Vnet1:2001:db8::5:udp:53"),
            (Table::EniNat, "eni"),
            (Table::PaValidation, "100"),
            (Table::EniForward, "Vnet1:f4:93:9f:ef:c4:7e"),
            (Table::HaScopeConfig, "vdpu0_0:haset0_0"),
            (Table::Vip, "10.1.0.5"),
        ] {
            let expected = format!("{}:{text}", table.name());
            assert_eq!(read(table, text), Ok(expected));
        }
    }

    #[test]
    fn an_address_alone_has_no_priority() {
        for (text, expected) in [
            ("10.0.0.1", "10.0.0.1/32"),
            ("10.0.0.1:5", "10.0.0.1/32:5"),
            ("2001:db8::5", "2001:db8::5/128"),
        ] {
            let key = read(Table::RouteRule, &format!("eni:100:{text}"));
            assert_eq!(key, Ok(format!("DASH_ROUTE_RULE_TABLE:eni:100:{expected}")));
        }
    }

    #[test]
    fn wrong_keys_say_what_is_expected() {
        for (table, text, expected) in [
            (Table::AclIn, "eni:6", "a stage from 1 to 5"),
            (Table::Vnet, "Vnet1:blue", "a name without colons"),
            (Table::Eni, "f4:93:9f:ef:c4:7e", "a name without colons"),
            (Table::AclIn, "eni", "a stage from 1 to 5"),
            (Table::Route, "group:10.0.0.0/33", "the address has 32 bits"),
            (Table::Route, "group", "a group and a prefix"),
            (
                Table::RoutingType,
                "vnet_encaps",
                "did you mean vnet_encap?",
            ),
            (Table::PaValidation, "16777216", "a VNI"),
            (
                Table::LoadBalancer,
                "Vnet1:10.0.0.100:80",
                "a protocol and a port",
            ),
            (
                Table::LoadBalancer,
                "Vnet1:10.0.0.100:icmp:80",
                "tcp or udp",
            ),
            (Table::LoadBalancer, "Vnet1", "a protocol and a port"),
            (
                Table::RouteRule,
                "eni:10.0.0.0/8",
                "an ENI, a VNI and a prefix",
            ),
        ] {
            let wrong = read(table, text).unwrap_err();
            assert!(wrong.contains(expected), "{wrong}");
        }
    }
}
