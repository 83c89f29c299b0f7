//! `[split]`: payloads that wait in remote memory while the workers see headers (Ribosome).
//!
//! ```toml
//! [split]
//! threshold_bytes = 256
//! never = [{ protocol = "udp", ports = 53 }]
//!
//! [[split.servers]]
//! name = "memory-1"
//! number = 1
//! device = "eth2"
//! own_address = "169.254.0.1/16"
//! ```
//! Without servers payloads wait in memory of this process.

use super::devices::check_device;
use super::port_address::PortAddress;
use super::sections::{count, positive};
use super::{Instance, Misplaced, PortDevice, PortDriver, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use toml::Spanned;
use twinpath_classify::Prefix;
use twinpath_core::wire::unicast::check_host;
use twinpath_core::wire::{Address, MacAddress};
use twinpath_nf::duration::Human;
use twinpath_nf::firewall::rule::{Ports, Protocol};
use twinpath_nf::shard::Shard;
use twinpath_nf::text::Text;
use twinpath_remote::back_off::{self, MAX_SERVERS};
use twinpath_remote::fast;
use twinpath_remote::requester::{self, MAX_QUEUE_PAIRS};
use twinpath_remote::ring::MAX_RECORDS;

/// Most packets that are split at a time.
const MOST_SLOTS: u64 = 1 << 20;
/// Most payloads of a ring, or of the store.
const MOST_PAYLOADS: u64 = MAX_RECORDS as u64;
/// Most queue pairs of a server.
const MOST_QUEUE_PAIRS: u64 = MAX_QUEUE_PAIRS as u64;
/// Most requests of a queue pair.
const MOST_REQUESTS: u64 = 1 << 16;
/// Most classes that are never split: each packet is held against them all.
const MOST_CLASSES: usize = 32;
/// Fewest requests of a queue pair.
const LEAST_REQUESTS: usize = 4;
/// Bytes of the longest packet.
const LONGEST_PACKET: u32 = 65_535;
/// The shortest time in which a server may answer: what is shorter asks again and again in vain.
const SHORTEST_REQUEST: Duration = Duration::from_micros(10);
/// The shortest time in which a payload may come.
const SHORTEST_READ: Duration = Duration::from_millis(1);
/// The longest time for which others may wait for a payload.
const LONGEST_READ: Duration = Duration::from_secs(10);
/// Letters of a server's name at most.
const MOST_NAME: usize = 64;
/// The shortest time between two looks at links.
const SHORTEST_INTERVAL: Duration = Duration::from_micros(100);
/// The longest one: a link that is busy is noticed so late.
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);
/// Numbers of servers fit the numbers of their queue pairs.
const MOST_NUMBER: u16 = MAX_SERVERS as u16 - 1;

/// `[split]`
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Split {
    /// A packet for the slow path of at least so many bytes leaves its payload behind, if it has more
    /// than the 22 bytes that name one in the paper.
    pub threshold_bytes: u32,
    /// Packets that may be split at a time. A packet that finds no slot travels whole.
    #[serde(deserialize_with = "count::<_, MOST_SLOTS>")]
    #[schemars(range(min = 1, max = MOST_SLOTS))]
    pub header_slots: usize,
    /// For so long neither a packet's slot nor its place in remote memory is given to another packet,
    /// each time that the workers have its header; later a header that is not back costs its packet.
    /// With `"0s"` places are taken at once, as in the paper, which needs slots and rings that are
    /// longer than the workers are slow. In a run that must lose nothing they are never taken.
    pub header_timeout: Human,
    /// Packets that may wait for others of their flow, whose payloads are on their way from a server.
    /// Beyond it those that are waited for are dropped (`payload_lost`), so that nothing whole is,
    /// unless nothing may be lost.
    #[serde(deserialize_with = "count::<_, MOST_SLOTS>")]
    #[schemars(range(min = 1, max = MOST_SLOTS))]
    pub followers: usize,
    /// Traffic that is never split.
    pub never: Vec<Class>,
    /// Where payloads wait if no server is named: memory of this process.
    pub store: Store,
    /// Memory servers (`twinpath memory-server`).
    #[schemars(with = "Vec<MemoryServer>")]
    pub servers: Vec<Spanned<MemoryServer>>,
    /// Queue pairs of each server, over which flows are spread. Each shard has as many, and all
    /// together at most 1024.
    #[serde(deserialize_with = "count::<_, MOST_QUEUE_PAIRS>")]
    #[schemars(range(min = 1, max = MOST_QUEUE_PAIRS))]
    pub queue_pairs: usize,
    /// Payloads that the ring of a queue pair may hold. Its share of the server's memory bounds it,
    /// too.
    #[serde(deserialize_with = "count::<_, MOST_PAYLOADS>")]
    #[schemars(range(min = 1, max = MOST_PAYLOADS))]
    pub ring_payloads: usize,
    /// Requests of a queue pair that may be under way.
    #[serde(deserialize_with = "count::<_, MOST_REQUESTS>")]
    #[schemars(range(min = 1, max = MOST_REQUESTS))]
    pub requests: usize,
    /// How long a server may say nothing before it is asked again: for the first time, then twice as long
    /// each time. A server in software that rests for longer costs nothing until `read_timeout` ends.
    pub request_timeout: Human,
    /// How long a payload may take from when it is asked for; then its packet is lost. After as long without a
    /// word of the server payloads that it may not have are given up, and a queue pair begins anew.
    pub read_timeout: Human,
    /// Whether a keyed hash of each payload is kept here, and what comes back from a server is held against it:
    /// then neither somebody on the link nor a server can put other bytes in its place. Without it what comes
    /// is held against its length and number alone, which anybody on the link can read.
    pub authenticate: bool,
    /// When servers whose links are busy are left alone.
    pub back_off: BackOff,
    /// Whose share of it this is.
    #[serde(skip)]
    pub shard: Shard,
}

/// Memory of this process.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// Payloads that it holds, rounded up to a power of two.
    #[serde(deserialize_with = "count::<_, MOST_PAYLOADS>")]
    #[schemars(range(min = 1, max = MOST_PAYLOADS))]
    pub payloads: usize,
}

/// A class of traffic: what all that is said holds for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Class {
    /// The protocol, `tcp` or `udp`: others are never split in any case.
    pub protocol: Protocol,
    /// One of both ports: a number, or text such as `"53,5060-5070"`.
    pub ports: Ports,
    /// One of both addresses.
    pub addresses: Option<Text<Prefix>>,
    /// Differentiated services code point, 0 to 63, as 46 for voice.
    #[schemars(range(max = 63))]
    pub dscp: Option<u8>,
}

/// A memory server.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryServer {
    /// What it is called in reports.
    pub name: String,
    /// Its number, as `--server` says there.
    #[schemars(range(max = MOST_NUMBER))]
    pub number: u16,
    /// The interface that leads to it, which carries nothing else of this service. Several servers may
    /// share one.
    pub device: String,
    /// How packets are exchanged with it.
    #[serde(default)]
    pub driver: PortDriver,
    /// The switch's own address there, of the IP version that RoCE is to use.
    #[schemars(with = "PortAddress")]
    pub own_address: Text<PortAddress>,
    /// The server's address. Without it whoever announces itself under this number is taken for
    /// the server.
    #[serde(default)]
    pub address: Option<Text<Address>>,
}

/// When servers are left alone (Ribosome §3.1).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BackOff {
    /// How. Expected where anything else is said of it.
    pub mode: Option<BackOffMode>,
    /// A link that carries more is left alone, in bits a second in the direction that is the fuller, all headers
    /// counted. Of several shards each looks at what
    /// itself sends, and has its part of this and of the hysteresis.
    #[serde(deserialize_with = "positive")]
    #[schemars(range(min = 1))]
    pub threshold_bps: u64,
    /// So much less must it carry to be used again. If absent a nineteenth of the threshold, as in
    /// the paper's program.
    pub hysteresis_bps: Option<u64>,
    /// How often links are looked at.
    pub interval: Human,
    /// A server is left alone, too, of whose payloads none came faster than this within an interval: others
    /// fill its link, which our own octets do not tell. Without it that is not looked at.
    pub latency: Option<Human>,
}

/// How a server's share of the flows follows the load of its link.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackOffMode {
    /// It does not.
    #[default]
    Off,
    /// All below the threshold, nothing above; one server always stays.
    OnOff,
    /// As much as the link has room for.
    Proportional,
}

impl Default for Split {
    fn default() -> Self {
        let stage = fast::Config::default();
        Self {
            threshold_bytes: stage.threshold_bytes as u32,
            header_slots: 8192,
            header_timeout: Human(Duration::from_millis(500)),
            followers: stage.followers,
            never: Vec::new(),
            store: Store::default(),
            servers: Vec::new(),
            queue_pairs: 8,
            ring_payloads: MAX_RECORDS,
            requests: 256,
            request_timeout: Human(Duration::from_millis(1)),
            read_timeout: Human(Duration::from_millis(200)),
            authenticate: true,
            back_off: BackOff::default(),
            shard: Shard::ONLY,
        }
    }
}

impl Default for Store {
    fn default() -> Self {
        Self { payloads: 8192 }
    }
}

impl Default for BackOff {
    fn default() -> Self {
        let back_off::Config {
            threshold_bps,
            interval,
            ..
        } = back_off::Config::PAPER;
        Self {
            mode: None,
            threshold_bps,
            hysteresis_bps: None,
            interval: Human(interval),
            latency: None,
        }
    }
}

impl MemoryServer {
    /// What is said of it alone.
    fn check(&self) -> Result<(), String> {
        let Self {
            name,
            device,
            own_address: Text(own),
            address,
            ..
        } = self;
        let is_name = !name.trim().is_empty()
            && name.chars().count() <= MOST_NAME
            && !name.chars().any(char::is_control);
        if !is_name {
            return Err(format!(
                "name = {name:?}: expected 1 to {MOST_NAME} characters that can be seen"
            ));
        }
        check_device(device)?;
        if device == "lo" {
            return Err(
                "device = \"lo\": expected an interface that leads to a memory server; for memory of this host leave servers away"
                    .into(),
            );
        }
        address.map_or(Ok(()), |Text(address)| check_peer(address, *own))
    }
}

/// Whether a server may have an address, on a link on which the switch has another.
fn check_peer(address: Address, own: PortAddress) -> Result<(), String> {
    if address.is_v4() != own.address.is_v4() {
        return Err(format!(
            "{address} and {} are of two IP versions: expected one",
            own.address
        ));
    }
    check_host(address).map_err(|why| format!("address = \"{address}\": {why}"))?;
    if address == own.address {
        return Err(format!(
            "address = \"{address}\": expected the server's, and own_address is the switch's"
        ));
    }
    let network = Prefix::covering(own.address, own.prefix_bits);
    match (network.network()..=network.last()).contains(&address) {
        true => Ok(()),
        false => Err(format!(
            "address = \"{address}\": expected one of {network}, as own_address has it: servers are on the link"
        )),
    }
}

impl Class {
    fn class(&self) -> fast::Class {
        fast::Class {
            protocol: self.protocol.0,
            ports: self.ports.ranges().to_vec(),
            addresses: self
                .addresses
                .map(|Text(prefix)| prefix.network()..=prefix.last()),
            dscp: self.dscp,
        }
    }
}

impl BackOff {
    fn hysteresis_bps(&self) -> u64 {
        // 5 of 95 Gb/s.
        self.hysteresis_bps.unwrap_or(self.threshold_bps / 19)
    }

    /// Whether its numbers go together.
    fn check(&self) -> Result<(), String> {
        let Self {
            threshold_bps,
            interval,
            latency,
            ..
        } = self;
        if self.mode.is_none() && *self != Self::default() {
            return Err(
                "back_off without mode: expected mode = \"on_off\" or \"proportional\", or \"off\""
                    .into(),
            );
        }
        let hysteresis_bps = self.hysteresis_bps();
        if hysteresis_bps >= *threshold_bps {
            return Err(format!(
                "back_off.hysteresis_bps = {hysteresis_bps}: expected less than threshold_bps, which is {threshold_bps}, or a link that was left alone is never used again"
            ));
        }
        if interval.duration() < SHORTEST_INTERVAL {
            return Err(format!(
                "back_off.interval = \"{interval}\": expected at least {SHORTEST_INTERVAL:?}, in which a link carries something to be measured"
            ));
        }
        if interval.duration() > LONGEST_INTERVAL {
            return Err(format!(
                "back_off.interval = \"{interval}\": expected at most {LONGEST_INTERVAL:?}"
            ));
        }
        let Some(latency) = latency else {
            return Ok(());
        };
        if latency.duration().is_zero() {
            return Err("back_off.latency = \"0s\": expected more than no time, or every server is left alone".into());
        }
        match latency.duration() < interval.duration() {
            true => Ok(()),
            false => Err(format!(
                "back_off.latency = \"{latency}\": expected less than interval, which is \"{interval}\", or no payload comes back within one"
            )),
        }
    }

    fn config(&self) -> Option<back_off::Config> {
        let mode = match self.mode.unwrap_or_default() {
            BackOffMode::Off => return None,
            BackOffMode::OnOff => back_off::Mode::OnOff,
            BackOffMode::Proportional => back_off::Mode::Proportional,
        };
        Some(back_off::Config {
            threshold_bps: self.threshold_bps,
            hysteresis_bps: self.hysteresis_bps(),
            interval: self.interval.duration(),
            mode,
            latency: self.latency.map(|latency| latency.duration()),
        })
    }
}

impl Split {
    /// The stage that splits and rebuilds.
    pub fn stage(&self) -> fast::Config {
        fast::Config {
            threshold_bytes: self.threshold_bytes as usize,
            header_slots: self.header_slots,
            header_timeout: self.header_timeout.duration(),
            followers: self.followers,
            never: self.never.iter().map(Class::class).collect(),
            back_off: self.back_off.config(),
            ..fast::Config::default()
        }
    }

    /// The servers, in the order of the file.
    pub fn servers(&self) -> impl Iterator<Item = &MemoryServer> {
        self.servers.iter().map(Spanned::get_ref)
    }

    /// The switch's end of a server. Its MAC address is known when the interface is open.
    pub fn requester(&self, server: &MemoryServer, seed: u64) -> requester::Config {
        let own = server.own_address.0.address;
        let mac = MacAddress([0; 6]);
        requester::Config {
            expected: server.address.map(|Text(address)| address),
            queue_pairs: self.queue_pairs as u16,
            shard: requester::Shard {
                number: self.shard.number,
                of: self.shard.of,
            },
            window: self.requests,
            // No header waits without a slot.
            waiting: self.header_slots,
            records: self.ring_payloads,
            timeout: self.request_timeout.duration(),
            read_timeout: self.read_timeout.duration(),
            authenticates: self.authenticate,
            ..requester::Config::new(server.number, mac, own, seed)
        }
    }

    /// What it is for one of several shards: its own queue pairs of each server, and of a link what is
    /// its part. All other sizes are each shard's.
    pub fn become_share_of(&mut self, shard: Shard) {
        fn share(bps: u64, shard: Shard) -> u64 {
            bps.div_ceil(shard.of.into())
        }
        let BackOff {
            threshold_bps,
            hysteresis_bps,
            ..
        } = &mut self.back_off;
        *threshold_bps = share(*threshold_bps, shard);
        *hysteresis_bps = hysteresis_bps.map(|bps| share(bps, shard));
        self.shard = shard;
    }

    /// The interfaces that lead to servers, each once.
    pub fn links(&self) -> Vec<PortDevice> {
        let mut links: Vec<PortDevice> = Vec::new();
        for server in self.servers() {
            if !links.iter().any(|link| link.device == server.device) {
                links.push(PortDevice {
                    device: server.device.clone(),
                    driver: server.driver,
                    addresses: vec![server.own_address],
                    answers_for: Vec::new(),
                    mtu: None,
                });
            }
        }
        links
    }

    fn check_server(&self, place: usize, devices: &[PortDevice]) -> Result<(), Misplaced> {
        let written = &self.servers[place];
        let server = written.get_ref();
        let wrong = |message: String| Err((written.span(), message));
        let others = || self.servers[..place].iter().map(Spanned::get_ref);
        if server.number > MOST_NUMBER {
            return wrong(format!(
                "number = {}: expected 0 to {MOST_NUMBER}",
                server.number
            ));
        }
        if let Err(message) = server.check() {
            return wrong(message);
        }
        if devices.iter().any(|device| device.device == server.device) {
            return wrong(format!(
                "{} is a port of the service: expected an interface that leads to memory servers alone",
                server.device
            ));
        }
        if others().any(|other| other.name == server.name) {
            return wrong(format!(
                "two servers are called {}: expected different names",
                server.name
            ));
        }
        let is_beside = |other: &&MemoryServer| other.device == server.device;
        if let Some(other) = others().find(is_beside) {
            if other.number == server.number {
                return wrong(format!(
                    "{} has number {} on {}, too: expected another number, which the server is told with --server",
                    other.name, server.number, server.device
                ));
            }
            if (other.own_address, other.driver) != (server.own_address, server.driver) {
                return wrong(format!(
                    "{} is on {}, too: expected the same own_address and driver",
                    other.name, server.device
                ));
            }
        }
        Ok(())
    }

    fn check(&self, context: &SplitContext<'_>) -> Result<(), String> {
        if self.never.contains(&Class::default()) {
            return Err(
                "never has a class without anything in it, which is all traffic: expected protocol, ports, addresses or dscp, or no [split]"
                    .into(),
            );
        }
        if !self.servers.is_empty() && self.store != Store::default() {
            return Err(
                "store goes with payloads that wait in memory of this process: expected none beside servers"
                    .into(),
            );
        }
        if self.servers.len() > MAX_SERVERS {
            return Err(format!(
                "{} servers: expected at most {MAX_SERVERS}",
                self.servers.len()
            ));
        }
        if self.never.len() > MOST_CLASSES {
            return Err(format!(
                "never has {} classes: expected at most {MOST_CLASSES}",
                self.never.len()
            ));
        }
        if let Some(dscp) = self
            .never
            .iter()
            .find_map(|class| class.dscp.filter(|&it| it > 63))
        {
            return Err(format!("dscp = {dscp}: expected 0 to 63"));
        }
        if self.threshold_bytes > LONGEST_PACKET {
            return Err(format!(
                "threshold_bytes = {}: expected at most {LONGEST_PACKET}, for no packet is longer",
                self.threshold_bytes
            ));
        }
        self.back_off.check()?;
        match self.servers.is_empty() {
            true => Ok(()),
            false => self.check_with_servers(context),
        }
    }

    /// What has to go together where there are servers.
    fn check_with_servers(&self, context: &SplitContext<'_>) -> Result<(), String> {
        let (shards, queue_pairs) = (context.shards, self.queue_pairs);
        if queue_pairs as u64 * u64::from(shards) > MOST_QUEUE_PAIRS {
            return Err(format!(
                "{queue_pairs} queue pairs for each of {shards} shards: expected at most {MOST_QUEUE_PAIRS} of a server together"
            ));
        }
        if self.requests < LEAST_REQUESTS {
            return Err(format!(
                "requests = {}: expected at least {LEAST_REQUESTS}, of which two are kept for what goes wrong",
                self.requests
            ));
        }
        let (asked, late) = (self.request_timeout, self.read_timeout);
        if asked.duration() < SHORTEST_REQUEST {
            return Err(format!(
                "request_timeout = \"{asked}\": expected at least {SHORTEST_REQUEST:?}, in which a server may answer"
            ));
        }
        if late.duration() < SHORTEST_READ {
            return Err(format!(
                "read_timeout = \"{late}\": expected at least {SHORTEST_READ:?}, in which a payload may come"
            ));
        }
        if late.duration() > LONGEST_READ {
            return Err(format!(
                "read_timeout = \"{late}\": expected at most {LONGEST_READ:?}, for which packets of a flow wait for one"
            ));
        }
        if late.duration() <= asked.duration() {
            return Err(format!(
                "read_timeout = \"{late}\" and request_timeout = \"{asked}\": expected a payload to be waited for longer than until it is asked for again"
            ));
        }
        Ok(())
    }
}

/// What else in a service `[split]` has to go with.
pub(super) struct SplitContext<'a> {
    pub is_parking: bool,
    pub devices: &'a [PortDevice],
    pub shards: u16,
}

/// Checks the table.
pub(super) fn checked(
    written: Option<Spanned<Split>>,
    context: &SplitContext<'_>,
) -> Result<Option<Split>, Misplaced> {
    let Some(written) = written else {
        return Ok(None);
    };
    let span = written.span();
    if context.is_parking {
        let message = "payloads cannot wait in two places: expected [parking] or [split]";
        return Err((span, message.into()));
    }
    let split = written.into_inner();
    if let (Some(server), true) = (split.servers.first(), context.devices.is_empty()) {
        let message = "memory servers are reached by interfaces beside those of the service, which has none: expected [ports], or no servers, so that payloads wait in memory of this process";
        return Err((server.span(), message.into()));
    }
    split.check(context).map_err(|message| (span, message))?;
    for place in 0..split.servers.len() {
        split.check_server(place, context.devices)?;
    }
    Ok(Some(split))
}

impl Service {
    /// `[split]`, if there is one and all functions of the chain do without payloads.
    pub fn splits(&self) -> Option<&Split> {
        let needs = |one: &Instance| one.config.needs_payload().is_some();
        let split = self.split.as_ref()?;
        (!self.chain.iter().any(needs)).then_some(split)
    }

    /// Whether any function of the chain may ask if a packet's transport checksum holds.
    pub fn asks_for_checksums(&self) -> bool {
        let mut functions = self.chain.iter();
        functions.any(|one| one.config.asks_for_checksums())
    }

    /// The interfaces that lead to memory servers, which are numbered behind the ports.
    pub fn memory_links(&self) -> Vec<PortDevice> {
        self.split.as_ref().map_or_else(Vec::new, Split::links)
    }

    /// Frames that wait here for their headers, with a header each on its way, and payloads that are on
    /// their way to or from servers.
    pub fn split_frames(&self) -> usize {
        self.split.as_ref().map_or(0, |split| {
            let waiting = match split.servers.len() {
                0 => split.store.payloads.next_power_of_two(),
                servers => servers * split.queue_pairs * 2 * split.requests,
            };
            waiting + 2 * split.header_slots + split.followers
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn parse(text: &str) -> Result<Service, String> {
        let parsed = Service::parse(text, Path::new("folder/edge.toml"));
        parsed.map_err(|error| error.to_string())
    }

    const FIREWALL: &str =
        "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n[split]\n";

    /// Memory servers go with interfaces.
    const PORTS: &str = "[ports]\nleft = { device = \"eth0\" }\nright = { device = \"eth1\" }\n";

    fn server(name: &str, more: &str) -> String {
        format!("[[split.servers]]\nname = \"{name}\"\ndevice = \"eth2\"\n{more}")
    }

    const FIRST: &str = "number = 1\nown_address = \"10.9.0.1/24\"\n";

    #[test]
    fn an_empty_table_has_defaults_and_a_store() {
        let service = parse(FIREWALL).expect("valid");
        assert_eq!(service.split, Some(Split::default()));
        assert!(service.splits().is_some() && service.memory_links().is_empty());
        assert_eq!(service.split_frames(), 8192 + 2 * 8192 + 4096);
        let none = parse("[service]\nchain = [\"reassembler\"]\n").expect("valid");
        assert_eq!((none.split.is_some(), none.split_frames()), (false, 0));
    }

    #[test]
    fn a_chain_that_needs_payloads_is_not_split() {
        let text = "[service]\nchain = [\"firewall\", \"reassembler\"]\n[firewall]\n[split]\n";
        let service = parse(text).expect("valid");
        assert!(service.split.is_some() && service.splits().is_none());
    }

    /// Else the payload of each packet is summed up before it is split.
    #[test]
    fn who_looks_at_lengths_and_addresses_alone_asks_for_no_checksum() {
        let text = "[service]\nchain = [\"rate_limiter\", \"reframer\", \"telemetry\"]\n[rate_limiter]\nrate_pps = 5\n[split]\n";
        assert!(!parse(text).expect("valid").asks_for_checksums());
        assert!(parse(FIREWALL).expect("valid").asks_for_checksums());
    }

    #[test]
    fn servers_classes_and_back_off() {
        let second = "number = 2\nown_address = \"10.9.0.1/24\"\naddress = \"10.9.0.3\"\n";
        let text = format!(
            "{FIREWALL}never = [{{ protocol = \"udp\", ports = \"53,5000-5010\", addresses = \"10.0.0.0/8\", dscp = 46 }}]\n\
             back_off = {{ mode = \"proportional\", threshold_bps = 1900, interval = \"100ms\", latency = \"50us\" }}\nqueue_pairs = 4\n{}{}{PORTS}",
            server("a", FIRST),
            server("b", second)
        );
        let service = parse(&text).expect("valid");
        let split = service.splits().expect("there");
        let stage = split.stage();
        assert_eq!(stage.never[0].ports, [53..=53, 5000..=5010]);
        assert_eq!(
            (stage.never[0].protocol, stage.never[0].dscp),
            (Some(17), Some(46))
        );
        let back_off = stage.back_off.expect("on");
        assert_eq!(back_off.mode, back_off::Mode::Proportional);
        assert_eq!(back_off.interval, Duration::from_millis(100));
        assert_eq!(back_off.latency, Some(Duration::from_micros(50)));
        assert_eq!(
            (back_off.threshold_bps, back_off.hysteresis_bps),
            (1900, 100)
        );
        let servers: Vec<_> = split.servers().collect();
        let requester = split.requester(servers[1], 7);
        assert_eq!((requester.server, requester.queue_pairs), (2, 4));
        assert_eq!(requester.expected, Some("10.9.0.3".parse().expect("one")));
        assert_eq!(service.memory_links().len(), 1);
    }

    #[test]
    fn what_does_not_go_together_is_told_with_its_place() {
        let refusal = |more: &str| {
            let ports = if more.contains("[ports]") { "" } else { PORTS };
            parse(&format!("{FIREWALL}{more}{ports}")).expect_err("wrong")
        };
        let cases = [
            (
                "[parking]\n",
                "folder/edge.toml:5:1: payloads cannot wait in two places",
            ),
            ("header_slots = 0\n", "folder/edge.toml:6:16:"),
            (
                "never = [{ dscp = 64 }]\n",
                "folder/edge.toml:5:1: dscp = 64: expected 0 to 63",
            ),
            (
                &server("a", "number = 64\nown_address = \"10.9.0.1/24\"\n"),
                "folder/edge.toml:6:1: number = 64: expected 0 to 63",
            ),
            (
                &server("a", "number = 1\nown_address = \"10.9.0.1\"\n"),
                "folder/edge.toml:10:15: ",
            ),
            (
                &server(
                    "a",
                    &FIRST.replace("10.9.0.1/24\"", "10.9.0.1/24\"\naddress = \"10.9.0.1\""),
                ),
                "folder/edge.toml:6:1: address = \"10.9.0.1\": expected the server's",
            ),
            (
                &server("a", &format!("{FIRST}address = \"10.8.0.1\"\n")),
                "folder/edge.toml:6:1: address = \"10.8.0.1\": expected one of 10.9.0.0/24",
            ),
            (
                &server("a", &format!("{FIRST}address = \"239.0.0.1\"\n")),
                "folder/edge.toml:6:1: address = \"239.0.0.1\": ",
            ),
            (
                &server("", FIRST),
                "folder/edge.toml:6:1: name = \"\": expected 1 to 64 characters",
            ),
            (
                &server("a\\u001b[2J", FIRST),
                "folder/edge.toml:6:1: name = \"a\\u{1b}[2J\": expected",
            ),
            (
                &server("a", FIRST).replace("eth2", "a-name-of-17-char"),
                "folder/edge.toml:6:1: device \"a-name-of-17-char\": expected the name",
            ),
            (
                &server("a", FIRST).replace("eth2", "lo"),
                "folder/edge.toml:6:1: device = \"lo\": expected an interface",
            ),
            (
                &format!("store = {{ payloads = 16 }}\n{}", server("a", FIRST)),
                "folder/edge.toml:5:1: store goes with payloads that wait in memory of this process",
            ),
            (
                "never = [{}]\n",
                "folder/edge.toml:5:1: never has a class without anything in it",
            ),
            (
                &format!("request_timeout = \"1us\"\n{}", server("a", FIRST)),
                "folder/edge.toml:5:1: request_timeout = \"1us\": expected at least 10µs",
            ),
            (
                &format!("read_timeout = \"11s\"\n{}", server("a", FIRST)),
                "folder/edge.toml:5:1: read_timeout = \"11s\": expected at most 10s",
            ),
            (
                "back_off = { threshold_bps = 1000 }\n",
                "folder/edge.toml:5:1: back_off without mode: expected mode = ",
            ),
            (
                &format!("{}{}", server("a", FIRST), server("a", FIRST)),
                "folder/edge.toml:11:1: two servers are called a",
            ),
            (
                &format!("{}{}", server("a", FIRST), server("b", FIRST)),
                "folder/edge.toml:11:1: a has number 1 on eth2, too",
            ),
            (
                &format!(
                    "{}{}",
                    server("a", FIRST),
                    server("b", "number = 2\nown_address = \"10.9.0.4/24\"\n")
                ),
                "folder/edge.toml:11:1: a is on eth2, too",
            ),
            (
                &server("a", &format!("{FIRST}address = \"2001:db8::1\"\n")),
                "folder/edge.toml:6:1: 2001:db8::1 and 10.9.0.1 are of two IP versions",
            ),
            (
                &format!(
                    "{}[ports]\nleft = {{ device = \"eth2\" }}\n",
                    server("a", FIRST)
                ),
                "folder/edge.toml:6:1: eth2 is a port of the service",
            ),
            (
                &format!(
                    "queue_pairs = 513\n{}[run]\nshards = 2\n",
                    server("a", FIRST)
                ),
                "folder/edge.toml:5:1: 513 queue pairs for each of 2 shards: expected at most 1024",
            ),
            (
                "threshold_bytes = 65536\n",
                "folder/edge.toml:5:1: threshold_bytes = 65536: expected at most 65535",
            ),
            (
                &format!("requests = 3\n{}", server("a", FIRST)),
                "folder/edge.toml:5:1: requests = 3: expected at least 4",
            ),
            (
                &format!("request_timeout = \"0s\"\n{}", server("a", FIRST)),
                "folder/edge.toml:5:1: request_timeout = \"0s\": expected at least 10µs",
            ),
            (
                &format!("read_timeout = \"1ms\"\n{}", server("a", FIRST)),
                "folder/edge.toml:5:1: read_timeout = \"1ms\" and request_timeout = \"1ms\": expected",
            ),
            (
                "back_off = { mode = \"on_off\", threshold_bps = 1000, hysteresis_bps = 1000 }\n",
                "folder/edge.toml:5:1: back_off.hysteresis_bps = 1000: expected less than threshold_bps, which is 1000",
            ),
            (
                "back_off = { mode = \"on_off\", interval = \"0s\" }\n",
                "folder/edge.toml:5:1: back_off.interval = \"0s\": expected at least 100µs",
            ),
            (
                "back_off = { mode = \"on_off\", interval = \"61s\" }\n",
                "folder/edge.toml:5:1: back_off.interval = \"61s\": expected at most 60s",
            ),
            (
                "back_off = { mode = \"on_off\", latency = \"0s\" }\n",
                "folder/edge.toml:5:1: back_off.latency = \"0s\": expected more",
            ),
            (
                "back_off = { mode = \"on_off\", interval = \"10ms\", latency = \"10ms\" }\n",
                "folder/edge.toml:5:1: back_off.latency = \"10ms\": expected less than interval, which is \"10ms\"",
            ),
        ];
        for (more, start) in cases {
            let told = refusal(more);
            assert!(told.starts_with(start), "{more}: {told}");
        }
    }

    #[test]
    fn servers_without_ports_are_told_with_their_place() {
        let told = parse(&format!("{FIREWALL}{}", server("a", FIRST))).expect_err("no ports");
        assert!(
            told.starts_with("folder/edge.toml:6:1: memory servers"),
            "{told}"
        );
        assert!(told.contains("expected [ports]"), "{told}");
    }

    #[test]
    fn each_shard_has_queue_pairs_of_its_own_and_its_part_of_a_link() {
        let text = format!(
            "{FIREWALL}queue_pairs = 4\nback_off = {{ mode = \"on_off\", threshold_bps = 1000, hysteresis_bps = 100 }}\n{}{PORTS}[run]\nshards = 2\n",
            server("a", FIRST)
        );
        let service = parse(&text).expect("valid");
        let mut split = service.split.expect("there");
        split.become_share_of(Shard { number: 1, of: 2 });
        let back_off = split.stage().back_off.expect("on");
        assert_eq!((back_off.threshold_bps, back_off.hysteresis_bps), (500, 50));
        let first = split.servers().next().expect("one").clone();
        let requester = split.requester(&first, 7);
        let shard = requester::Shard { number: 1, of: 2 };
        assert_eq!((requester.queue_pairs, requester.shard), (4, shard));
    }
}
