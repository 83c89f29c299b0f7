//! What a configuration must hold for a generator to keep its promises.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use twinpath_wire::Address;
use twinpath_wire::kv::MAX_VALUE_BYTES;

use crate::config::{
    Arrivals, FlowSize, Hosts, KeyValue, PacketSize, Popularity, Signature, Tcp, TrafficConfig,
};
use crate::error::TrafficError;

/// Ports 1024 to 65535 of each client address.
pub(crate) const PORTS_PER_CLIENT: u64 = 64_512;
/// The first of them.
pub(crate) const FIRST_CLIENT_PORT: u16 = 1024;
/// Packets that replacing one flow can take: three to end it, four to begin the next one.
const PACKETS_PER_REPLACEMENT: f64 = 7.0;
const MOST_FLOWS: f64 = 16_777_216.0;
const MOST_HOSTS: f64 = 16_777_216.0;
const MOST_KEYS: f64 = 1_099_511_627_776.0;
const SMALLEST_HEADERS: u16 = 54;

type Checked = Result<(), TrafficError>;

impl TrafficConfig {
    /// Checks every field alone and against the others. Distribution files are
    /// read later, when a generator is made.
    ///
    /// # Errors
    /// The first field found wrong, and what was expected of it.
    pub fn validate(&self) -> Checked {
        self.validate_flows()?;
        self.validate_packets()?;
        validate_arrivals(&self.arrivals)?;
        validate_popularity("popularity.exponent", &self.popularity)?;
        self.validate_tcp(&self.tcp)?;
        validate_signatures(&self.signatures)?;
        self.validate_hosts(&self.hosts)?;
        self.kv.as_ref().map_or(Ok(()), |kv| self.validate_kv(kv))
    }

    fn validate_flows(&self) -> Checked {
        within("flows", self.flows as f64, 1.0, MOST_FLOWS)?;
        within("churn_per_minute", self.churn_per_minute, 0.0, 1e12)?;
        let churns = self.churn_per_minute > 0.0;
        let most_lasting = self.flows as f64 - f64::from(u8::from(churns));
        within(
            "lasting_flows",
            self.lasting_flows as f64,
            0.0,
            most_lasting,
        )?;
        if self.churn_per_minute / 60.0 * PACKETS_PER_REPLACEMENT > self.arrivals.rate_pps() {
            return Err(TrafficError::Contradiction {
                field: "churn_per_minute",
                other: "arrivals.rate_pps",
                rule: "each new flow takes up to 7 packets, and there are not so many",
            });
        }
        match self.flow_size {
            FlowSize::Fixed { size, .. } => within("flow_size.size", size as f64, 1.0, 1e18),
            FlowSize::Endless {} | FlowSize::Cdf { .. } => Ok(()),
        }
    }

    fn validate_packets(&self) -> Checked {
        within("mtu_bytes", self.mtu_bytes.into(), 1280.0, 9216.0)?;
        share("tcp_share", self.tcp_share)?;
        share("reply_share", self.reply_share)?;
        share("fragment_share", self.fragment_share)?;
        share("icmp_error_share", self.icmp_error_share)?;
        match &self.packet_size {
            PacketSize::Fixed { frame_bytes } => within(
                "packet_size.frame_bytes",
                (*frame_bytes).into(),
                1.0,
                65535.0,
            ),
            PacketSize::Mix { entries } if entries.is_empty() => Err(TrafficError::Empty {
                field: "packet_size.entries",
            }),
            PacketSize::Mix { entries } => entries.iter().try_for_each(|entry| {
                within("packet_size.entries.weight", entry.weight.into(), 1.0, 1e9)
            }),
            PacketSize::Imix {} | PacketSize::Cdf { .. } => Ok(()),
        }
    }

    fn validate_tcp(&self, tcp: &Tcp) -> Checked {
        let distance = f64::from(tcp.out_of_order_distance);
        within("tcp.out_of_order_distance", distance, 1.0, 64.0)?;
        let most = 1.0 / (distance + 1.0);
        within("tcp.out_of_order_share", tcp.out_of_order_share, 0.0, most)?;
        let delay = tcp.out_of_order_delay_packets.into();
        within("tcp.out_of_order_delay_packets", delay, 1.0, 65536.0)?;
        within("tcp.ack_every", tcp.ack_every.into(), 0.0, 1024.0)?;
        within("tcp.window_bytes", tcp.window_bytes.into(), 1.0, 65535.0)?;
        share("tcp.reset_share", tcp.reset_share)?;
        let in_flight = (f64::from(tcp.ack_every) + distance + 1.0) * self.largest_payload();
        if tcp.ack_every > 0 && self.server_packets && in_flight > tcp.window_bytes.into() {
            return Err(TrafficError::Contradiction {
                field: "tcp.window_bytes",
                other: "tcp.ack_every",
                rule: "the window must hold ack_every + out_of_order_distance + 1 packets",
            });
        }
        Ok(())
    }

    fn largest_payload(&self) -> f64 {
        let frame = match &self.packet_size {
            PacketSize::Fixed { frame_bytes } => *frame_bytes,
            PacketSize::Imix {} => 1514,
            PacketSize::Mix { entries } => entries.iter().map(|e| e.frame_bytes).max().unwrap_or(0),
            PacketSize::Cdf { .. } => u16::MAX,
        };
        let whole_packet = self.mtu_bytes - (SMALLEST_HEADERS - 14);
        f64::from(
            frame
                .saturating_sub(SMALLEST_HEADERS)
                .clamp(1, whole_packet),
        )
    }

    fn validate_hosts(&self, hosts: &Hosts) -> Checked {
        within("hosts.clients", hosts.clients.into(), 1.0, MOST_HOSTS)?;
        within("hosts.servers", hosts.servers.into(), 1.0, MOST_HOSTS)?;
        within("hosts.vlan", hosts.vlan.unwrap_or(1).into(), 1.0, 4094.0)?;
        share("hosts.ipv6_share", hosts.ipv6_share)?;
        if u64::from(hosts.clients) * PORTS_PER_CLIENT < 4 * self.flows {
            return Err(TrafficError::Contradiction {
                field: "hosts.clients",
                other: "flows",
                rule: "the clients need four times as many ports as there are flows",
            });
        }
        block_v4(
            "hosts.first_client_v4",
            hosts.first_client_v4,
            hosts.clients,
        )?;
        block_v6(
            "hosts.first_client_v6",
            hosts.first_client_v6,
            hosts.clients,
        )?;
        if hosts.services.is_empty() {
            validate_servers(hosts)
        } else {
            let mut services = hosts.services.iter();
            services.try_for_each(|s| not_a_client("hosts.services.address", s.address, hosts))
        }
    }

    fn validate_kv(&self, kv: &KeyValue) -> Checked {
        share("kv.share", kv.share)?;
        share("kv.get_share", kv.get_share)?;
        within("kv.keys", kv.keys as f64, 1.0, MOST_KEYS)?;
        validate_popularity("kv.popularity.exponent", &kv.popularity)?;
        within(
            "kv.value_bytes",
            kv.value_bytes.into(),
            0.0,
            MAX_VALUE_BYTES as f64,
        )?;
        let most_clients = f64::from(self.hosts.clients) * PORTS_PER_CLIENT as f64;
        within("kv.clients", kv.clients.into(), 1.0, most_clients)?;
        not_a_client("kv.server_address", kv.server_address, &self.hosts)
    }
}

impl Arrivals {
    /// The mean rate in packets per second.
    pub fn rate_pps(&self) -> f64 {
        match *self {
            Self::Constant { rate_pps } | Self::Poisson { rate_pps } => rate_pps,
            Self::OnOff { rate_pps, .. } => rate_pps,
        }
    }
}

fn validate_arrivals(arrivals: &Arrivals) -> Checked {
    within("arrivals.rate_pps", arrivals.rate_pps(), 1e-3, 1e10)?;
    if let Arrivals::OnOff { on_ns, off_ns, .. } = *arrivals {
        within("arrivals.on_ns", on_ns, 1.0, 1e18)?;
        within("arrivals.off_ns", off_ns, 1.0, 1e18)?;
    }
    Ok(())
}

fn validate_popularity(field: &'static str, popularity: &Popularity) -> Checked {
    match *popularity {
        Popularity::Uniform {} => Ok(()),
        Popularity::Zipf { exponent } => within(field, exponent, 0.01, 10.0),
    }
}

fn validate_signatures(signatures: &[Signature]) -> Checked {
    within(
        "signatures (their number)",
        signatures.len() as f64,
        0.0,
        255.0,
    )?;
    for signature in signatures {
        within(
            "signatures.text (its length)",
            signature.text.len() as f64,
            1.0,
            1024.0,
        )?;
        within("signatures.offset", signature.offset.into(), 0.0, 9000.0)?;
        share("signatures.share", signature.share)?;
    }
    // Decimal shares that make up 1 can add up to a little more in binary.
    let sum: f64 = signatures.iter().map(|s| s.share).sum();
    within("signatures.share (their sum)", sum, 0.0, 1.0 + 1e-9)
}

fn validate_servers(hosts: &Hosts) -> Checked {
    if hosts.server_ports.is_empty() {
        return Err(TrafficError::Empty {
            field: "hosts.server_ports",
        });
    }
    block_v4(
        "hosts.first_server_v4",
        hosts.first_server_v4,
        hosts.servers,
    )?;
    block_v6(
        "hosts.first_server_v6",
        hosts.first_server_v6,
        hosts.servers,
    )?;
    let apart = |client: Address, server: Address| {
        client.0 + u128::from(hosts.clients) <= server.0
            || server.0 + u128::from(hosts.servers) <= client.0
    };
    let v4 = apart(hosts.first_client_v4.into(), hosts.first_server_v4.into());
    let v6 = apart(hosts.first_client_v6.into(), hosts.first_server_v6.into());
    if v4 && v6 {
        return Ok(());
    }
    Err(TrafficError::Contradiction {
        field: if v4 {
            "hosts.first_server_v6"
        } else {
            "hosts.first_server_v4"
        },
        other: "hosts.clients",
        rule: "no address may be a client's and a server's",
    })
}

fn not_a_client(field: &'static str, address: IpAddr, hosts: &Hosts) -> Checked {
    if let IpAddr::V6(address) = address {
        block_v6(field, address, 1)?;
    }
    let first: Address = match address {
        IpAddr::V4(_) => hosts.first_client_v4.into(),
        IpAddr::V6(_) => hosts.first_client_v6.into(),
    };
    let address = Address::from(address).0;
    if (first.0..first.0 + u128::from(hosts.clients)).contains(&address) {
        let rule = "no address may be a client's and a server's";
        return Err(TrafficError::Contradiction {
            field,
            other: "hosts.clients",
            rule,
        });
    }
    Ok(())
}

fn block_v4(field: &'static str, first: Ipv4Addr, count: u32) -> Checked {
    let rule = "the addresses that follow must all be IPv4 addresses";
    first
        .to_bits()
        .checked_add(count - 1)
        .map(|_| ())
        .ok_or(TrafficError::Refused { field, rule })
}

fn block_v6(field: &'static str, first: Ipv6Addr, count: u32) -> Checked {
    let last = first.to_bits().checked_add(u128::from(count));
    let mapped = |address: Ipv6Addr| address.to_ipv4_mapped().is_some();
    let last = last.filter(|end| !mapped(first) && !mapped(Ipv6Addr::from_bits(end - 1)));
    let rule = "neither it nor those that follow may be IPv4-mapped, or beyond the last address";
    last.map(|_| ())
        .ok_or(TrafficError::Refused { field, rule })
}

fn share(field: &'static str, found: f64) -> Checked {
    within(field, found, 0.0, 1.0)
}

fn within(field: &'static str, found: f64, low: f64, high: f64) -> Checked {
    if (low..=high).contains(&found) {
        Ok(())
    } else {
        Err(TrafficError::OutOfRange {
            field,
            found,
            low,
            high,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        let config: TrafficConfig = toml::from_str(text).expect(text);
        config.validate().expect_err(text).to_string()
    }

    #[test]
    fn the_default_is_valid() {
        assert!(TrafficConfig::default().validate().is_ok());
        let kv = TrafficConfig {
            kv: Some(KeyValue::default()),
            ..TrafficConfig::default()
        };
        assert!(kv.validate().is_ok());
    }

    #[test]
    fn each_refusal_names_its_field() {
        for (text, field) in [
            ("flows = 0", "flows"),
            ("churn_per_minute = -1.0", "churn_per_minute"),
            ("churn_per_minute = nan", "churn_per_minute"),
            ("churn_per_minute = 1e10", "churn_per_minute"),
            ("flows = 5\nlasting_flows = 6", "lasting_flows"),
            (
                "flows = 5\nlasting_flows = 5\nchurn_per_minute = 1.0",
                "lasting_flows",
            ),
            ("flow_size = { kind = 'fixed', size = 0 }", "flow_size.size"),
            ("mtu_bytes = 100", "mtu_bytes"),
            ("tcp_share = 1.1", "tcp_share"),
            ("reply_share = inf", "reply_share"),
            ("fragment_share = -0.1", "fragment_share"),
            ("icmp_error_share = 2.0", "icmp_error_share"),
            (
                "packet_size = { kind = 'fixed', frame_bytes = 0 }",
                "packet_size.frame_bytes",
            ),
            (
                "packet_size = { kind = 'mix', entries = [] }",
                "packet_size.entries",
            ),
            (
                "packet_size = { kind = 'mix', entries = [{ frame_bytes = 1, weight = 0 }] }",
                "packet_size.entries.weight",
            ),
            (
                "arrivals = { process = 'constant', rate_pps = 0.0 }",
                "arrivals.rate_pps",
            ),
            (
                "arrivals = { process = 'on-off', rate_pps = 1.0, on_ns = 0.0, off_ns = 1.0 }",
                "arrivals.on_ns",
            ),
            (
                "popularity = { distribution = 'zipf', exponent = 0.0 }",
                "popularity.exponent",
            ),
            (
                "tcp = { out_of_order_distance = 0 }",
                "tcp.out_of_order_distance",
            ),
            (
                "tcp = { out_of_order_share = 0.6 }",
                "tcp.out_of_order_share",
            ),
            (
                "tcp = { out_of_order_delay_packets = 0 }",
                "tcp.out_of_order_delay_packets",
            ),
            ("tcp = { window_bytes = 30 }", "tcp.window_bytes"),
            ("tcp = { reset_share = 7.0 }", "tcp.reset_share"),
            (
                "signatures = [{ text = '', share = 0.1 }]",
                "signatures.text",
            ),
            (
                "signatures = [{ text = 'a', share = 0.6 }, { text = 'b', share = 0.6 }]",
                "signatures.share",
            ),
            ("flows = 100000\nhosts = { clients = 1 }", "hosts.clients"),
            ("hosts = { server_ports = [] }", "hosts.server_ports"),
            ("hosts = { vlan = 4095 }", "hosts.vlan"),
            (
                "hosts = { first_client_v4 = '255.255.255.0' }",
                "hosts.first_client_v4",
            ),
            (
                "hosts = { first_client_v6 = '::ffff:1.2.3.4' }",
                "hosts.first_client_v6",
            ),
            (
                "hosts = { first_server_v4 = '10.0.0.7' }",
                "hosts.first_server_v4",
            ),
            (
                "hosts = { first_server_v6 = '2001:db8:0:c::7' }",
                "hosts.first_server_v6",
            ),
            (
                "hosts = { services = [{ address = '10.0.0.1', port = 80 }] }",
                "hosts.services.address",
            ),
            ("kv = { keys = 0 }", "kv.keys"),
            ("kv = { value_bytes = 129 }", "kv.value_bytes"),
            ("kv = { clients = 0 }", "kv.clients"),
            ("kv = { server_address = '10.0.0.1' }", "kv.server_address"),
        ] {
            let refusal = refusal(text);
            assert!(refusal.starts_with(field), "{text}: {refusal}");
        }
    }

    #[test]
    fn the_window_must_hold_what_is_in_flight() {
        let tight = "packet_size = { kind = 'imix' }\ntcp = { ack_every = 50 }";
        assert!(refusal(tight).starts_with("tcp.window_bytes contradicts tcp.ack_every"));
        let one_way: TrafficConfig =
            toml::from_str(&format!("server_packets = false\n{tight}")).expect("a valid table");
        assert!(one_way.validate().is_ok());
    }
}
