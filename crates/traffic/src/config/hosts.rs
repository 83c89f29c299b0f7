//! Who talks to whom.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use twinpath_wire::MacAddress;

/// Who talks to whom, and over which link layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Hosts {
    /// Client addresses in each IP version. Each has ports 1024 to 65535, and
    /// together they must have four times as many as there are flows.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub clients: u32,
    /// The first IPv4 client; the others follow it.
    pub first_client_v4: Ipv4Addr,
    /// The first IPv6 client; the others follow it.
    pub first_client_v6: Ipv6Addr,
    /// Where flows go, each to one of these at random. If empty, to `servers`.
    pub services: Vec<Service>,
    /// Server addresses in each IP version, where there are no `services`.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub servers: u32,
    /// The first IPv4 server; the others follow it.
    pub first_server_v4: Ipv4Addr,
    /// The first IPv6 server; the others follow it.
    pub first_server_v6: Ipv6Addr,
    /// The ports that `servers` listen on.
    #[schemars(length(min = 1))]
    pub server_ports: Vec<u16>,
    /// Share of the flows over IPv6, 0 to 1, where there are no `services`.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub ipv6_share: f64,
    /// The 802.1Q tag of all frames, 1 to 4094. Untagged if absent.
    #[schemars(range(min = 1, max = 4094))]
    pub vlan: Option<u16>,
    /// Ethernet address of the clients' side: of the router in front of them.
    #[serde(with = "mac_text")]
    #[schemars(with = "String", title = "MAC address")]
    pub client_mac: MacAddress,
    /// Ethernet address of the servers' side.
    #[serde(with = "mac_text")]
    #[schemars(with = "String", title = "MAC address")]
    pub server_mac: MacAddress,
}

impl Default for Hosts {
    fn default() -> Self {
        Self {
            clients: 4096,
            first_client_v4: Ipv4Addr::new(10, 0, 0, 1),
            first_client_v6: Ipv6Addr::new(0x2001, 0xdb8, 0, 0xc, 0, 0, 0, 1),
            services: Vec::new(),
            servers: 1024,
            first_server_v4: Ipv4Addr::new(172, 16, 0, 1),
            first_server_v6: Ipv6Addr::new(0x2001, 0xdb8, 0, 0x5, 0, 0, 0, 1),
            server_ports: vec![80, 443],
            ipv6_share: 0.0,
            vlan: None,
            client_mac: MacAddress([2, 0, 0, 0, 0, 0xc]),
            server_mac: MacAddress([2, 0, 0, 0, 0, 0x5]),
        }
    }
}

/// An endpoint that clients talk to: a server, or the virtual address of a load balancer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Its address, which decides its flows' IP version.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// Its protocol; if absent, `tcp_share` decides.
    #[serde(default)]
    pub protocol: Option<Protocol>,
}

/// A transport protocol that flows can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// Ethernet addresses as text, `02:00:00:00:00:01`.
mod mac_text {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use twinpath_wire::MacAddress;

    pub fn serialize<S: Serializer>(mac: &MacAddress, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(mac)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<MacAddress, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}
