//! The configuration of a run of generated traffic, as a service file says it.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use twinpath_wire::kv;

mod hosts;

pub use hosts::{Hosts, Protocol, Service};

/// Everything about a run but its seed. Each field has a default, so an empty
/// table is a valid configuration: a million packets per second of TCP over a
/// thousand flows, without an end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TrafficConfig {
    /// Packets to generate, all kinds counted. No limit if absent.
    pub packets: Option<u64>,
    /// Length of the run in nanoseconds of the packets' own time. No limit if
    /// absent; without either limit the caller stops when it likes.
    pub duration_ns: Option<u64>,
    /// Time of the start of the run, in nanoseconds since the Unix epoch.
    pub start_ns: u64,
    /// When packets come.
    pub arrivals: Arrivals,
    /// Flows that live at the same time.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub flows: u64,
    /// How the packets are spread over the flows.
    pub popularity: Popularity,
    /// New flows per minute of the packets' time, each replacing the oldest one.
    #[schemars(range(min = 0.0, max = 1e12))]
    pub churn_per_minute: f64,
    /// Of the flows, how many `churn_per_minute` replaces by no new ones: they stay as long as their
    /// `flow_size` lets them. At most all but one, if there is churn.
    pub lasting_flows: u64,
    /// How much a flow carries before it ends and a new one takes its place.
    pub flow_size: FlowSize,
    /// Length of the frames that carry data.
    pub packet_size: PacketSize,
    /// Largest IP packet, in bytes. Longer draws of `packet_size` are cut to it.
    #[schemars(range(min = 1280, max = 9216))]
    pub mtu_bytes: u16,
    /// Whether frames shorter than 60 bytes (without the FCS) are padded with
    /// zeros behind the IP packet, as a network card does.
    pub padded: bool,
    /// Share of the flows that are TCP, 0 to 1; the others are UDP. A service
    /// that names its protocol overrides it.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub tcp_share: f64,
    /// How TCP connections behave.
    pub tcp: Tcp,
    /// Share of the data packets that go from server to client, 0 to 1. A UDP
    /// flow's first packet is the client's all the same.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub reply_share: f64,
    /// Whether there are packets of servers at all. Without them `reply_share`
    /// and `icmp_error_share` count for nothing, and only the clients' half of
    /// each conversation is written, as in front of a load balancer whose
    /// backends answer directly.
    pub server_packets: bool,
    /// Share of the UDP packets that are sent as two IP fragments, 0 to 1. Those
    /// with fewer than 8 bytes of payload are too short for it.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub fragment_share: f64,
    /// Share of the packets that are an ICMP error about a flow that has begun,
    /// 0 to 1: the server says to the client that the host is unreachable,
    /// quoting a packet. The flow goes on.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub icmp_error_share: f64,
    /// Byte strings to be planted at the start of some payloads.
    #[schemars(length(max = 255))]
    pub signatures: Vec<Signature>,
    /// Who talks to whom.
    pub hosts: Hosts,
    /// Requests of the key-value protocol beside, or instead of, the flows.
    pub kv: Option<KeyValue>,
}

impl Default for TrafficConfig {
    fn default() -> Self {
        Self {
            packets: None,
            duration_ns: None,
            start_ns: 0,
            arrivals: Arrivals::default(),
            flows: 1024,
            popularity: Popularity::default(),
            churn_per_minute: 0.0,
            lasting_flows: 0,
            flow_size: FlowSize::default(),
            packet_size: PacketSize::default(),
            mtu_bytes: 1500,
            padded: true,
            tcp_share: 1.0,
            tcp: Tcp::default(),
            reply_share: 0.5,
            server_packets: true,
            fragment_share: 0.0,
            icmp_error_share: 0.0,
            signatures: Vec::new(),
            hosts: Hosts::default(),
            kv: None,
        }
    }
}

/// The process by which packets arrive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "process", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// Evenly spaced.
    Constant {
        /// Packets per second.
        #[schemars(range(min = 1e-3, max = 1e10))]
        rate_pps: f64,
    },
    /// With exponentially distributed gaps.
    Poisson {
        /// Mean packets per second.
        #[schemars(range(min = 1e-3, max = 1e10))]
        rate_pps: f64,
    },
    /// Evenly spaced during bursts and silent between them; the lengths of
    /// bursts and silences are exponentially distributed.
    OnOff {
        /// Mean packets per second over bursts and silences; during a burst
        /// the rate is higher by `(on_ns + off_ns) / on_ns`.
        #[schemars(range(min = 1e-3, max = 1e10))]
        rate_pps: f64,
        /// Mean length of a burst in nanoseconds.
        #[schemars(range(min = 1.0, max = 1e18))]
        on_ns: f64,
        /// Mean length of a silence in nanoseconds.
        #[schemars(range(min = 1.0, max = 1e18))]
        off_ns: f64,
    },
}

impl Default for Arrivals {
    fn default() -> Self {
        Self::Constant { rate_pps: 1e6 }
    }
}

/// How packets are spread over flows, or requests over keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "distribution", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Popularity {
    /// All alike.
    Uniform {},
    /// Zipf's law: the i-th most popular has a weight of `1 / i^exponent`.
    Zipf {
        /// The exponent, above 0.
        #[serde(default = "zipf_exponent")]
        #[schemars(range(min = 0.01, max = 10.0))]
        exponent: f64,
    },
}

impl Default for Popularity {
    fn default() -> Self {
        Self::Uniform {}
    }
}

fn zipf_exponent() -> f64 {
    0.99
}

/// The unit in which flow sizes are given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SizeUnit {
    /// Bytes of payload, both directions together.
    #[default]
    Bytes,
    /// Packets with payload, both directions together.
    Packets,
}

/// How much a flow carries before it ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FlowSize {
    /// Flows end by churn only.
    Endless {},
    /// All flows alike.
    Fixed {
        /// The size.
        #[schemars(range(min = 1))]
        size: u64,
        /// The size's unit.
        #[serde(default)]
        unit: SizeUnit,
    },
    /// Drawn from a file of points of a cumulative [distribution](crate::Cdf): a size and the
    /// share of the sizes up to it on each line.
    Cdf {
        /// The file, relative to the service file.
        #[schemars(title = "file")]
        file: PathBuf,
        /// The unit of the file's sizes.
        #[serde(default)]
        unit: SizeUnit,
        /// What the distribution is straight over between two points of the file.
        #[serde(default)]
        between: Between,
        /// Accept a file that covers only the first part of its distribution,
        /// and draw from that part.
        #[serde(default)]
        partial: bool,
    },
}

/// What a distribution is straight over between two points of its file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Between {
    /// The sizes.
    #[default]
    Sizes,
    /// Their logarithms.
    Logarithms,
}

impl Default for FlowSize {
    fn default() -> Self {
        Self::Endless {}
    }
}

/// Length of the frames that carry data: from the Ethernet header to the end of
/// the payload, without the checksum (FCS). Never shorter than the headers and
/// one byte, never longer than the MTU allows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum PacketSize {
    /// All alike.
    Fixed {
        /// Length in bytes.
        #[schemars(range(min = 1))]
        frame_bytes: u16,
    },
    /// The simple Internet mix: 7 parts of 64, 4 of 594 and 1 of 1514 bytes.
    #[serde(rename = "imix")]
    Imix {},
    /// A weighted list.
    Mix {
        /// The list.
        entries: Vec<MixEntry>,
    },
    /// Drawn from a file of points of a cumulative [distribution](crate::Cdf) of bytes.
    Cdf {
        /// The file, relative to the service file.
        #[schemars(title = "file")]
        file: PathBuf,
        /// Accept a file that covers only the first part of its distribution,
        /// and draw from that part.
        #[serde(default)]
        partial: bool,
    },
}

impl Default for PacketSize {
    fn default() -> Self {
        Self::Fixed { frame_bytes: 64 }
    }
}

/// One line of a weighted list of frame lengths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MixEntry {
    /// Length in bytes without the checksum (FCS).
    pub frame_bytes: u16,
    /// Weight of this length, relative to the list's other ones.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub weight: u32,
}

/// How TCP connections behave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tcp {
    /// Whether connections begin with SYN, SYN-ACK, ACK and end with FINs.
    /// Without it flows are established from their first packet on, at random
    /// sequence numbers, and end without a word: the mode for measurements of
    /// established flows.
    pub handshake: bool,
    /// A receiver that has nothing to say acknowledges every so many data
    /// packets with a packet of its own. 0: never, so that a strict firewall
    /// will sooner or later find data beyond the window.
    #[schemars(range(min = 0, max = 1024))]
    pub ack_every: u16,
    /// Window that both sides announce, in bytes, not scaled.
    #[schemars(range(min = 1, max = 65535))]
    pub window_bytes: u16,
    /// Share of the data packets that arrive late, 0 to
    /// `1 / (out_of_order_distance + 1)`: each was overtaken by later ones of
    /// its direction. Nothing is lost; every gap closes. The last packet of a
    /// flow cannot be late, so flows of few packets have a smaller share.
    #[schemars(range(min = 0.0, max = 0.5))]
    pub out_of_order_share: f64,
    /// How many later data packets overtake a late one.
    #[schemars(range(min = 1, max = 64))]
    pub out_of_order_distance: u16,
    /// A late packet comes, with what must overtake it, at the latest this many
    /// packets (of all flows) after its time.
    #[schemars(range(min = 1, max = 65536))]
    pub out_of_order_delay_packets: u32,
    /// Share of the connections that the client ends with a RST instead of FINs, 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub reset_share: f64,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            handshake: true,
            ack_every: 2,
            window_bytes: u16::MAX,
            out_of_order_share: 0.0,
            out_of_order_distance: 1,
            out_of_order_delay_packets: 64,
            reset_share: 0.0,
        }
    }
}

/// A byte string to be planted in payloads, for functions that look for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// The bytes.
    #[schemars(length(min = 1, max = 1024))]
    pub text: String,
    /// Where in the payload they begin, in bytes.
    #[serde(default)]
    #[schemars(range(min = 0, max = 9000))]
    pub offset: u16,
    /// Share of the data packets that carry them, 0 to 1; a payload too short
    /// for them goes without. All signatures' shares together are at most 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub share: f64,
}

/// Requests of the key-value protocol (see `twinpath_wire::kv`), from the
/// addresses of [`Hosts::first_client_v4`] on. For the generator, as for the
/// store, the flow is the key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KeyValue {
    /// Share of the packets that are requests, 0 to 1; the rest is flows.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub share: f64,
    /// Share of the requests that read (get), 0 to 1; the others write (put).
    #[schemars(range(min = 0.0, max = 1.0))]
    pub get_share: f64,
    /// Number of keys.
    #[schemars(range(min = 1, max = 1_099_511_627_776_u64))]
    pub keys: u64,
    /// How requests are spread over the keys.
    pub popularity: Popularity,
    /// Length of the values written, in bytes.
    #[schemars(range(min = 0, max = 128))]
    pub value_bytes: u16,
    /// Number of clients, each with an address and port of its own.
    pub clients: u32,
    /// The store's address, which decides the requests' IP version.
    pub server_address: IpAddr,
    /// The store's port.
    pub server_port: u16,
    /// Whether every key is written once, in order, before all else.
    pub preload: bool,
}

impl Default for KeyValue {
    fn default() -> Self {
        Self {
            share: 1.0,
            get_share: 0.95,
            keys: 100_000,
            popularity: Popularity::Zipf {
                exponent: zipf_exponent(),
            },
            value_bytes: 64,
            clients: 64,
            server_address: IpAddr::V4(Ipv4Addr::new(172, 31, 0, 1)),
            server_port: kv::DEFAULT_PORT,
            preload: false,
        }
    }
}

impl TrafficConfig {
    /// Takes relative paths of distribution files as relative to `folder`, the
    /// place of the file that holds this configuration.
    pub fn resolve_paths(&mut self, folder: &Path) {
        if let FlowSize::Cdf { file, .. } = &mut self.flow_size {
            *file = folder.join(&*file);
        }
        if let PacketSize::Cdf { file, .. } = &mut self.packet_size {
            *file = folder.join(&*file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_table_is_the_default() {
        let config: TrafficConfig = toml::from_str("").expect("the defaults");
        assert_eq!(config, TrafficConfig::default());
    }

    #[test]
    fn every_form_survives_a_round_trip() {
        let text = r#"
            packets = 10
            duration_ns = 1000
            arrivals = { process = "on-off", rate_pps = 1e5, on_ns = 1e4, off_ns = 1e5 }
            popularity = { distribution = "zipf" }
            flow_size = { kind = "cdf", file = "a.txt", unit = "packets", between = "logarithms", partial = true }
            packet_size = { kind = "mix", entries = [{ frame_bytes = 64, weight = 3 }] }
            signatures = [{ text = "attack", share = 0.1 }]
            [tcp]
            handshake = false
            [hosts]
            vlan = 7
            client_mac = "02:00:00:00:00:01"
            services = [{ address = "fd00::1", port = 80, protocol = "tcp" }]
            [kv]
            get_share = 0.5
            popularity = { distribution = "uniform" }
        "#;
        let config: TrafficConfig = toml::from_str(text).expect("every form");
        assert_eq!(config.popularity, Popularity::Zipf { exponent: 0.99 });
        let again = toml::to_string(&config).expect("a table");
        assert_eq!(
            toml::from_str::<TrafficConfig>(&again).expect("its own output"),
            config
        );
    }

    #[test]
    fn unknown_fields_are_refused_at_every_level() {
        for text in [
            "rate = 1",
            "arrivals = { process = 'poisson', rate_pps = 1.0, on_ns = 1.0 }",
            "popularity = { distribution = 'uniform', exponent = 1.0 }",
            "flow_size = { kind = 'endless', size = 1 }",
            "packet_size = { kind = 'imix', frame_bytes = 64 }",
            "packet_size = { kind = 'mix', entries = [{ frame_bytes = 64, weigth = 3 }] }",
            "tcp = { handshakes = true }",
            "hosts = { client = 1 }",
            "kv = { key = 1 }",
            "hosts = { client_mac = '02:00' }",
        ] {
            assert!(toml::from_str::<TrafficConfig>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn paths_are_resolved_beside_the_service_file() {
        let mut config = TrafficConfig {
            flow_size: FlowSize::Cdf {
                file: "a.txt".into(),
                unit: SizeUnit::Bytes,
                between: Between::default(),
                partial: false,
            },
            ..TrafficConfig::default()
        };
        config.resolve_paths(Path::new("examples"));
        let FlowSize::Cdf { file, .. } = &config.flow_size else {
            unreachable!()
        };
        assert_eq!(file, Path::new("examples/a.txt"));
    }
}
