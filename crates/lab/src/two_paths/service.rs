//! The service file that a plan's chain becomes, and what its functions must meet.

use super::parameters::{DeviceName, Setting, System};
use super::read_only::make_read_only;
use crate::model::ParameterError;
use crate::traffic::SERVICE;
use std::fmt::Write;
use std::path::Path;
use twinpath_control::service::Service;
use twinpath_traffic::config::{self, KeyValue, TrafficConfig};

/// Flows that the cores know, at most: as many as there are ever.
const MOST_FLOWS: u64 = 16_000_000;

impl Setting {
    /// The functions that run: where rules are cached and flow state is not, a stateful firewall is
    /// a list, and a balancer a monitor. That has an entry for each connection, too, so each needs
    /// a rule of its own.
    pub(super) fn chain(&self) -> Vec<String> {
        let mut chain = self.functions.clone();
        if self.parameters.system == System::RuleCache {
            for name in &mut chain {
                match name.as_str() {
                    "firewall" => *name = "acl".into(),
                    "load_balancer" => *name = "monitor".into(),
                    _ => {}
                }
            }
        }
        chain
    }

    pub(super) fn has(&self, function: &str) -> bool {
        self.functions.iter().any(|name| name == function)
    }

    /// Whether an inspector sees both directions of its connections.
    fn has_answers(&self) -> bool {
        self.parameters.answers && self.has("inspector")
    }

    /// The service, as a file would say it, but for functions whose state may only be read.
    pub(super) fn service(&self) -> Result<Service, ParameterError> {
        let text = self.service_text();
        let path = self.folder.join("service.toml");
        let service = Service::parse(&text, &path);
        let mut service =
            service.map_err(|error| ParameterError::new("chain", error.to_string()))?;
        if self.parameters.system == System::ReadOnlyCache {
            service.chain.iter_mut().for_each(make_read_only);
        }
        Ok(service)
    }

    fn service_text(&self) -> String {
        let parameters = &self.parameters;
        let chain = self.chain();
        let makes_rules = chain
            .iter()
            .any(|name| matches!(name.as_str(), "acl" | "monitor" | "napt"));
        let workers = match makes_rules {
            true => 1,
            false => self.devices * self.cores,
        };
        let ring = self.preset().ring_packets.count() * self.devices * self.cores / workers;
        let ns = |us: f64| format!("{}ns", (us * 1e3) as u64);
        let round_trip_us = 2.0 * self.one_way_us();
        let timeout = ns((1000.0f64).max(20.0 * round_trip_us));
        let device = match self.has_state() {
            true => parameters.device,
            false => DeviceName::Software,
        };
        let mut text = format!(
            "[service]\nname = \"plan\"\nchain = {chain:?}\nseed = {seed}\n\
             [fast_path]\ndevice = \"{device}\"\nslots = {slots}\nways = {ways}\nhot_packets = {hot}\nsketch_window = \"{sketch}\"\n\
             sketch_width = 65536\ntime_to_live = \"{life}\"\nsweep_slots = 16\nwaiting = 0\n\
             [slow_path]\nworkers = {workers}\nflows = {flows}\n\
             [link]\nring_frames = {ring}\nincomplete_timeout = \"{timeout}\"\nwrite_back_timeout = \"{timeout}\"\n",
            device = device.name(),
            seed = parameters.traffic.seed,
            slots = parameters.slots,
            ways = parameters.ways,
            hot = parameters.hot_packets,
            sketch = ns(parameters.sketch_window_us),
            life = ns(parameters.time_to_live_us),
            flows = self.flows_known(),
            ring = (2 * ring).clamp(1024, 1 << 17),
        );
        self.write_rule_cache(&mut text, &timeout);
        chain
            .iter()
            .for_each(|name| self.write_function(name, &mut text));
        text
    }

    /// Flows that the cores can know: more than come in the run.
    fn flows_known(&self) -> u64 {
        let traffic = &self.parameters.traffic;
        let most_by_time = self
            .packets_per_s()
            .map_or(f64::MAX, |per_s| per_s * traffic.end().s_f64());
        let packets = traffic.packets.min(most_by_time as u64);
        (2 * traffic.flows + 2 * packets).clamp(1024, MOST_FLOWS)
    }

    fn write_rule_cache(&self, text: &mut String, _timeout: &str) {
        let parameters = &self.parameters;
        let entries = match (parameters.entries, self.agent()) {
            (Some(entries), _) => entries,
            (None, Some(agent)) => agent.entries.count(),
            (None, None) => 1,
        };
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "[rule_cache]\nenabled = {}\nexact = {entries}\nmasked = 1024\nheld = 8192\nwindow = \"{}us\"\n\
             threshold = {}\nidle_windows = {}\n",
            parameters.system == System::RuleCache,
            (parameters.window_ms * 1e3) as u64,
            parameters.matches(),
            parameters.idle_windows,
        );
    }

    fn write_function(&self, name: &str, text: &mut String) {
        let _ = match name {
            "acl" => writeln!(
                text,
                "[acl]\ndefault = \"allow\"\nrules = [{{ action = \"deny\", protocol = \"tcp\", to_port = 25 }}]"
            ),
            "firewall" => writeln!(
                text,
                "[firewall]\ndefault = \"allow\"\nrules = [{{ action = \"deny\", protocol = \"tcp\", to_port = 25 }}]"
            ),
            "inspector" => writeln!(
                text,
                "[inspector]\nrules = {:?}\ngaps = \"inspect\"",
                absolute(&self.parameters.inspector_rules)
            ),
            "napt" => writeln!(
                text,
                "[napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [{}]\nsessions = {}",
                external(),
                self.flows_known()
            ),
            "load_balancer" => self.write_balancer(text),
            "monitor" => writeln!(
                text,
                "[monitor]\nflows = {}\nidle = \"2m\"",
                self.flows_known()
            ),
            "reassembler" => writeln!(text, "[reassembler]\ngap_timeout = \"100ms\""),
            _ => Ok(()),
        };
    }

    fn write_balancer(&self, text: &mut String) -> std::fmt::Result {
        let ([a, b, c, d], port) = SERVICE;
        let backends: Vec<String> = (1..=8)
            .map(|host| format!("{{ endpoint = \"192.168.1.{host}:{port}\" }}"))
            .collect();
        writeln!(
            text,
            "[[load_balancer.services]]\nvip = \"{a}.{b}.{c}.{d}:{port}\"\nprotocol = \"udp\"\nbackends = [{}]",
            backends.join(", ")
        )
    }

    /// What the generator sends: what the plan says, and what the functions must meet.
    pub(super) fn traffic(&self) -> Result<TrafficConfig, ParameterError> {
        let parameters = &self.parameters;
        let wire_bytes = self.testbed.switch.wire_bytes.value();
        let mut config = parameters.traffic.generator(wire_bytes)?;
        if self.has("kv_store") {
            config.kv = Some(self.requests());
        } else if self.has("reassembler") || self.has("inspector") {
            if !self.has_answers() {
                config.tcp.handshake = false;
                config.tcp.ack_every = 0;
            }
            if self.has("reassembler") {
                config.tcp.out_of_order_share = parameters.complex_share;
            } else if parameters.complex_share > 0.0 {
                config.signatures = vec![config::Signature {
                    // Looks bad in the first bytes, and is not.
                    text: "/bin/shine".into(),
                    offset: 0,
                    share: parameters.complex_share,
                }];
            }
            if self.has_answers() {
                config.server_packets = true;
                // Data comes from clients; what servers send are acknowledgements.
                config.reply_share = 0.0;
            }
        } else {
            let (address, port) = SERVICE;
            config.tcp_share = 0.0;
            config.hosts.services = vec![config::Service {
                address: std::net::IpAddr::from(address),
                port,
                protocol: Some(config::Protocol::Udp),
            }];
        }
        Ok(config)
    }

    fn requests(&self) -> KeyValue {
        let parameters = &self.parameters;
        KeyValue {
            get_share: 1.0 - parameters.write_share,
            keys: parameters.traffic.flows,
            popularity: parameters.traffic.popularity(),
            value_bytes: 64,
            preload: true,
            ..KeyValue::default()
        }
    }
}

/// As rules files are looked for beside the service, which is beside the testbed.
fn absolute(path: &Path) -> std::path::PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.into())
}

/// Addresses that clients share: enough ports for each flow to have its own.
fn external() -> String {
    let addresses: Vec<String> = (1..=250)
        .map(|host| format!("\"198.51.100.{host}\""))
        .collect();
    addresses.join(", ")
}
