//! Which shard a packet belongs to.
//!
//! Whatever a chain's functions keep of packets is kept by connection, by the host inside that a
//! translation speaks for, by the service that a balancer spreads, or by the key of a store. A packet
//! belongs to the shard that its two hosts tell, or, coarser where a function needs that, one of them:
//!
//! | packet | what tells |
//! |---|---|
//! | to or from a DPU | the inner MAC address of its ENI |
//! | request to a key-value store | its key |
//! | from or to a balanced service, or one of its servers | the other end, or whose external address that is |
//! | from a host inside that is translated, to others | the host |
//! | to an external address | the host inside if that follows from the port, else the shard that gave the port out |
//! | ICMP error | the packet that it quotes |
//! | any other | both hosts |
//!
//! Nothing of it depends on what was seen before, so any queue of any port can tell.

use crate::build_error::BuildError;
use crate::wiring::{steering, tables_of};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use twinpath_classify::Prefix;
use twinpath_control::service::Service;
use twinpath_core::key::KeyKind;
use twinpath_core::wire::layout::{Fragment, Layout, Network};
use twinpath_core::wire::tunnel::Tunnel;
use twinpath_core::wire::{Address, Endpoint, MacAddress, dissect, fields};
use twinpath_core::{Direction, Steering};
use twinpath_dash::tables::ApplianceEntry;
use twinpath_nf::shard::{HostShards, Owners};
use twinpath_rulecache::Sides;

/// Assigns packets to shards.
#[derive(Clone)]
pub struct Partition {
    hosts: HostShards,
    steering: Steering,
    /// Addresses of balanced services and their servers.
    services: HashSet<Address>,
    has_store: bool,
    /// What tells ENIs of a DPU.
    dpu: Option<Dpu>,
    translations: Arc<[Translation]>,
}

/// How a DPU's packets are told: as its configuration says at the time.
#[derive(Clone, PartialEq, Eq)]
struct Dpu {
    appliance: ApplianceEntry,
    vxlan_port: u16,
}

impl Dpu {
    fn of(service: &Service) -> Option<Self> {
        let mut chain = service.chain.iter();
        let tables = chain.find_map(|instance| tables_of(service, instance))?;
        Some(Self {
            appliance: tables.appliance().clone(),
            vxlan_port: tables.switch().port,
        })
    }

    /// The MAC address of a packet's ENI.
    fn eni(&self, bytes: &[u8], layout: &Layout) -> Option<MacAddress> {
        let tunnel = Tunnel::read(bytes, layout, self.vxlan_port).ok()?;
        let inside = bytes.get(tunnel.inner())?;
        Some(self.appliance.names_eni(inside, tunnel.key).1)
    }
}

/// Whether a packet may go on in another shard than it belongs to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Crossing {
    /// It does not.
    None,
    /// In the one with this number.
    To(u16),
    /// In one that is not told by the packet alone: a later fragment.
    ToSome,
}

/// A function of the chain that translates addresses.
struct Translation {
    /// Whether packets between hosts inside go through it in both their shards.
    joins_shards: bool,
    inside: Sides,
    external: Sides,
    owners: Box<dyn Owners>,
    /// What it was made of.
    of: Translated,
}

/// Networks inside, external addresses, and to whom those belong.
#[derive(Clone, PartialEq, Eq)]
struct Translated {
    inside: Vec<Prefix>,
    external: Vec<Prefix>,
    owners: String,
}

/// Most addresses of services and servers, of all that there ever were.
const MOST_SERVICES: usize = 1 << 16;

/// The partition as it is now, which all shards see become another.
#[derive(Clone)]
pub struct CurrentPartition {
    shared: Arc<Shared>,
    known: Arc<Partition>,
    version: u64,
}

struct Shared {
    newest: Mutex<Arc<Partition>>,
    version: AtomicU64,
}

impl Shared {
    fn newest(&self) -> MutexGuard<'_, Arc<Partition>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connections would belong to other shards.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "connections would belong to other shards, which do not know them: expected the same networks inside, external addresses and forwards of translations, and no first or last balancer or key-value store, until the service is started again"
)]
pub struct DividesOtherwise;

impl CurrentPartition {
    /// As [`Partition::of`].
    ///
    /// # Errors
    /// As there.
    pub fn of(service: &Service, shards: u16) -> Result<Self, BuildError> {
        let partition = Arc::new(Partition::of(service, shards)?);
        Ok(Self {
            shared: Arc::new(Shared {
                newest: Mutex::new(Arc::clone(&partition)),
                version: AtomicU64::new(0),
            }),
            known: partition,
            version: 0,
        })
    }

    /// The partition.
    #[inline]
    pub fn get(&mut self) -> &Partition {
        let version = self.shared.version.load(Ordering::Acquire);
        if version != self.version {
            self.version = version;
            self.known = Arc::clone(&self.shared.newest());
        }
        &self.known
    }

    /// The service becomes another. Returns the partition as it was.
    ///
    /// # Errors
    /// Connections would belong to other shards; then all is as it was.
    pub fn becomes(&self, new: &Partition) -> Result<Arc<Partition>, DividesOtherwise> {
        let newest = Arc::clone(&self.shared.newest());
        let with = newest.with(new).ok_or(DividesOtherwise)?;
        if with.services != newest.services || with.dpu != newest.dpu {
            self.put(Arc::new(with));
        }
        Ok(newest)
    }

    /// The service has not become the other one: its partition is [what it was](Self::becomes).
    pub fn put_back(&self, former: Arc<Partition>) {
        if !Arc::ptr_eq(&former, &self.shared.newest()) {
            self.put(former);
        }
    }

    fn put(&self, partition: Arc<Partition>) {
        *self.shared.newest() = partition;
        self.shared.version.fetch_add(1, Ordering::Release);
    }
}

/// The ends of a packet, or of what it quotes as that would have come from the other side.
struct Ends {
    source: Endpoint,
    destination: Endpoint,
    protocol: u8,
}

impl Partition {
    /// That of a service's packets over so many shards.
    ///
    /// # Errors
    /// A file that a function needs, or too many networks inside.
    pub fn of(service: &Service, shards: u16) -> Result<Self, BuildError> {
        let steering = steering(service)?;
        let aliases = steering.aliases();
        let services = aliases
            .flat_map(|alias| [alias.from.address, alias.stands_for.address])
            .collect();
        let translations = service.chain.iter().filter_map(|instance| {
            let owners = instance.config.owners(shards)?;
            Some((&instance.config, instance.config.translation()?, owners))
        });
        let translations = translations.map(|(config, translated, owners)| {
            Ok(Translation {
                joins_shards: config.joins_shards(),
                inside: Sides::new(translated.inside)?,
                external: Sides::new(translated.external)?,
                of: Translated {
                    inside: translated.inside.to_vec(),
                    external: translated.external.to_vec(),
                    owners: format!("{owners:?}"),
                },
                owners,
            })
        });
        Ok(Self {
            hosts: HostShards::new(service.seed, shards),
            services,
            translations: translations.collect::<Result<_, BuildError>>()?,
            has_store: !steering.are_connections(),
            dpu: Dpu::of(service),
            steering,
        })
    }

    /// The partition of a service that this one's has become. Services that are balanced may come; those
    /// that were stay, for their connections may last. `None` if connections would belong to other
    /// shards than they do, where nobody knows them.
    fn with(&self, new: &Self) -> Option<Self> {
        let translated = |one: &Self| -> Vec<_> {
            let each = one.translations.iter().map(|one| one.of.clone());
            each.collect()
        };
        let is_kept = self.has_store == new.has_store
            && self.services.is_empty() == new.services.is_empty()
            && translated(self) == translated(new);
        let services = self.services.union(&new.services).copied();
        let services: HashSet<_> = services.collect();
        (is_kept && services.len() <= MOST_SERVICES).then(|| Self {
            services,
            ..new.clone()
        })
    }

    /// How many ends of balanced services are known.
    #[cfg(test)]
    pub fn services(&self) -> usize {
        self.services.len()
    }

    /// What tells which shard a packet belongs to, in words, the first that applies first.
    pub fn told(&self) -> Vec<&'static str> {
        let kept = [
            (self.dpu.is_some(), "the ENI of a DPU's packet"),
            (self.has_store, "the key of a request to the store"),
            (
                !self.services.is_empty(),
                "the client of a balanced service",
            ),
            (
                !self.translations.is_empty(),
                "the host inside that is translated; of a packet to an external address whose that is, or which shard gave its port out",
            ),
            (self.dpu.is_none(), "both hosts of a packet"),
        ];
        let kept = kept.into_iter();
        kept.filter_map(|(is_kept, what)| is_kept.then_some(what))
            .collect()
    }

    /// The number of the shard that a frame belongs to; what has no addresses belongs to the first.
    pub fn shard(&self, bytes: &[u8]) -> u16 {
        if self.hosts.count() == 1 {
            return 0;
        }
        let Ok(layout) = dissect(bytes) else {
            return 0;
        };
        if let Some(dpu) = &self.dpu {
            let eni = dpu.eni(bytes, &layout);
            return eni.map_or(0, |mac| self.of_eni(mac));
        }
        if self.has_store
            && let Some(shard) = self.shard_of_key(bytes, &layout)
        {
            return shard;
        }
        match ends(bytes, &layout) {
            Some(ends) => self.shard_of(&ends),
            None => 0,
        }
    }

    /// Whether packets go on in other shards than they belong to.
    pub fn has_crossings(&self) -> bool {
        let mut translations = self.translations.iter();
        self.hosts.count() > 1 && translations.any(|translation| translation.joins_shards)
    }

    /// Whether a packet goes on in another shard than [it belongs to](Self::shard): one from inside to an
    /// external address that somebody else inside has.
    pub fn crossing(&self, bytes: &[u8]) -> Crossing {
        let Ok(layout) = dissect(bytes) else {
            return Crossing::None;
        };
        let ends = ends(bytes, &layout).filter(|_| self.dpu.is_none());
        ends.map_or(Crossing::None, |ends| {
            self.crossing_of(&ends, layout.fragment == Fragment::Later)
        })
    }

    fn crossing_of(&self, ends: &Ends, has_no_ports: bool) -> Crossing {
        let (from, to) = (ends.source.address, ends.destination.address);
        let mut translations = self.translations.iter();
        let translation = translations
            .find(|one| one.joins_shards && is_of(&one.inside, from) && is_of(&one.external, to));
        let Some(translation) = translation else {
            return Crossing::None;
        };
        if has_no_ports {
            return Crossing::ToSome;
        }
        match self.owner(translation, ends.destination, ends.protocol) {
            Some(shard) if shard != self.hosts.of_host(from) => Crossing::To(shard),
            _ => Crossing::None,
        }
    }

    fn shard_of_key(&self, bytes: &[u8], layout: &Layout) -> Option<u16> {
        let keyed = self.steering.key(bytes, layout)?;
        let is_entry = keyed.key.kind() == KeyKind::Entry;
        is_entry.then(|| self.hosts.of_hash(keyed.key.hash(self.hosts.key())))
    }

    fn of_eni(&self, MacAddress([a, b, c, d, e, f]): MacAddress) -> u16 {
        let bits = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        self.hosts.of_hash(self.hosts.key().hash([bits]))
    }

    fn shard_of(&self, ends: &Ends) -> u16 {
        let (from, to) = (ends.source.address, ends.destination.address);
        match [from, to].map(|address| self.services.contains(&address)) {
            [false, true] => return self.hosts.of_host(from),
            [true, false] => return self.of_client(ends.destination, ends.protocol),
            _ => {}
        }
        for translation in &*self.translations {
            match [from, to].map(|address| is_of(&translation.inside, address)) {
                [true, false] => return self.hosts.of_host(from),
                [false, true] => return self.hosts.of_host(to),
                _ => {}
            }
            if let Some(shard) = self.owner(translation, ends.destination, ends.protocol) {
                return shard;
            }
        }
        self.hosts.of_hosts(from.min(to), from.max(to))
    }

    /// The shard of whom a balanced service answers: a host inside may have asked by an external
    /// address.
    fn of_client(&self, client: Endpoint, protocol: u8) -> u16 {
        let mut translations = self.translations.iter();
        translations
            .find_map(|translation| self.owner(translation, client, protocol))
            .unwrap_or_else(|| self.hosts.of_host(client.address))
    }

    /// The shard that an external endpoint of a translation belongs to.
    fn owner(&self, translation: &Translation, end: Endpoint, protocol: u8) -> Option<u16> {
        if !is_of(&translation.external, end.address) {
            return None;
        }
        let owner = translation.owners.owner(end, protocol);
        Some(self.hosts.of_owner(owner))
    }
}

fn is_of(sides: &Sides, address: Address) -> bool {
    sides.direction(address, 0) == Direction::Original
}

fn ends(bytes: &[u8], layout: &Layout) -> Option<Ends> {
    if layout.network == Network::None {
        return None;
    }
    if let Some(inner) = &layout.inner
        && let (Some(source), Some(destination)) = (
            fields::inner_source(bytes, layout),
            fields::inner_destination(bytes, layout),
        )
    {
        return Some(Ends {
            source: destination,
            destination: source,
            protocol: inner.protocol,
        });
    }
    Some(Ends {
        source: fields::source(bytes, layout),
        destination: fields::destination(bytes, layout),
        protocol: layout.protocol,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use twinpath_core::wire::PacketBuilder;
    use twinpath_core::wire::icmp::IcmpError;

    const GATEWAY: &str = "[service]\nchain = [\"firewall\", \"napt\", \"load_balancer\"]\ninside = [\"10.0.0.0/8\"]\n\
        [firewall]\ndefault = \"allow\"\n\
        [napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"192.0.2.1\"]\nports = \"2000-9999\"\n\
        forward = [{ protocol = \"tcp\", external = \"192.0.2.1:80\", to = \"10.0.0.5:80\" }]\n\
        [load_balancer]\nservices = [{ vip = \"198.51.100.1:80\", protocol = \"tcp\", backends = [{ endpoint = \"198.51.100.9:8080\" }] }]\n";

    fn partition(text: &str) -> Partition {
        let service = Service::parse(text, Path::new("test.toml"));
        Partition::of(&service.expect("sound"), 8).expect("no files")
    }

    fn builder(from: &str, to: &str) -> PacketBuilder<'static> {
        let end = |text: &str| text.parse().expect(text);
        PacketBuilder::udp(end(from), end(to))
    }

    fn shard(partition: &Partition, from: &str, to: &str) -> u16 {
        partition.shard(&builder(from, to).to_vec().expect("short"))
    }

    /// Both directions, fragments, and errors about them.
    #[test]
    fn what_belongs_to_a_connection_stays_together() {
        let plain =
            partition("[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n");
        let mut seen = HashSet::new();
        for host in 1..100 {
            let (inside, outside) = (format!("10.0.0.{host}:5000"), "203.0.113.7:53");
            let own = shard(&plain, &inside, outside);
            assert_eq!(shard(&plain, outside, &inside), own);
            let question = builder(&inside, outside).payload_len(64);
            for (offset, more) in [(0, true), (64, false)] {
                let fragment = question.fragment(offset, more).to_vec().expect("short");
                assert_eq!(plain.shard(&fragment), own);
            }
            let quoted = question.to_vec().expect("short");
            let error = PacketBuilder::icmp_error(IcmpError::Unreachable { code: 1 }, &quoted);
            assert_eq!(plain.shard(&error.to_vec().expect("short")), own);
            seen.insert(own);
        }
        assert_eq!(seen.len(), 8, "all shards have some");
    }

    #[test]
    fn answers_come_to_the_shard_that_gave_the_port_out() {
        let gateway = partition(GATEWAY);
        for (port, owner) in [
            (2000, 0),
            (2999, 0),
            (3000, 1),
            (9999, 7),
            (1, 0),
            (1023, 7),
        ] {
            let to = format!("192.0.2.1:{port}");
            assert_eq!(shard(&gateway, "203.0.113.7:53", &to), owner, "{port}");
        }
        let host = |address: &str| shard(&gateway, &format!("{address}:7"), "203.0.113.7:53");
        assert_eq!(
            host("10.0.0.5"),
            shard(&gateway, "10.0.0.5:80", "203.0.113.9:1")
        );
        let forwarded = PacketBuilder::tcp(
            "203.0.113.7:4".parse().expect("one"),
            "192.0.2.1:80".parse().expect("one"),
        );
        let forwarded = gateway.shard(&forwarded.to_vec().expect("short"));
        assert_eq!(forwarded, host("10.0.0.5"));
    }

    #[test]
    fn a_balanced_client_has_one_shard() {
        let gateway = partition(GATEWAY);
        for client in 1..50 {
            let client = format!("203.0.113.{client}:4000");
            let asked = shard(&gateway, &client, "198.51.100.1:80");
            assert_eq!(shard(&gateway, "198.51.100.9:8080", &client), asked);
        }
    }

    /// Whole packets, fragments, and errors about them.
    #[test]
    fn packets_cross_to_who_has_the_external_endpoint() {
        let gateway = partition(GATEWAY);
        assert!(gateway.has_crossings());
        let mut crossed = 0;
        for port in (2000..10_000).step_by(50) {
            let (from, shown) = ("10.0.0.7:5000", format!("192.0.2.1:{port}"));
            let [own, owner] = [from, "203.0.113.7:53"].map(|from| shard(&gateway, from, &shown));
            let expected = match own == owner {
                true => Crossing::None,
                false => Crossing::To(owner),
            };
            let sent = builder(from, &shown).payload_len(64);
            let crossing =
                |packet: PacketBuilder<'_>| gateway.crossing(&packet.to_vec().expect("short"));
            assert_eq!(crossing(sent), expected, "{port}");
            assert_eq!(crossing(sent.fragment(0, true)), expected);
            assert_eq!(crossing(sent.fragment(32, false)), Crossing::ToSome);
            let seen = builder(&shown, from).to_vec().expect("short");
            let error = PacketBuilder::icmp_error(IcmpError::Unreachable { code: 3 }, &seen);
            assert_eq!(
                crossing(error),
                expected,
                "an error about what came from there"
            );
            crossed += u32::from(own != owner);
        }
        assert!(crossed > 100, "{crossed}");
        for (from, to) in [
            ("203.0.113.7:53", "192.0.2.1:2000"),
            ("10.0.0.7:5000", "203.0.113.7:53"),
            ("10.0.0.7:5000", "10.0.0.8:53"),
        ] {
            let packet = builder(from, to).to_vec().expect("short");
            assert_eq!(gateway.crossing(&packet), Crossing::None, "{from} {to}");
        }
    }

    #[test]
    fn what_is_no_packet_belongs_to_the_first() {
        let gateway = partition(GATEWAY);
        for frame in [&[][..], &[0; 13], &[0xff; 60]] {
            assert_eq!(gateway.shard(frame), 0);
        }
    }
}
