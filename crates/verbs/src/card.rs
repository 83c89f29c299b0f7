//! A card that executes requests, through libibverbs.

use crate::devices::{Device, Gid};
use sideway::ibverbs::AccessFlags;
use sideway::ibverbs::address::{AddressHandleAttribute, Gid as RawGid};
use sideway::ibverbs::completion::GenericCompletionQueue;
use sideway::ibverbs::device::{DeviceInfo, DeviceList};
use sideway::ibverbs::device_context::{DeviceContext, Mtu};
use sideway::ibverbs::memory_region::{MemoryRegion, RegisterMemoryRegionError};
use sideway::ibverbs::protection_domain::ProtectionDomain;
use sideway::ibverbs::queue_pair::{BasicQueuePair, QueuePair, QueuePairAttribute, QueuePairState};
use std::collections::BTreeMap;
use std::error::Error;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use twinpath_core::memory::ZeroedArray;
use twinpath_core::wire::roce::{Path, Psn, is_roce};
use twinpath_core::wire::{Address, MacAddress, dissect};
use twinpath_core::{Frame, Pools};
use twinpath_kernel::StaticNeighbors;
use twinpath_remote::endpoint::{BoxedError, Endpoint};
use twinpath_remote::registration::Memory;

/// What is asked of a card.
#[derive(Clone, Debug)]
pub struct Config {
    /// The card.
    pub device: Device,
    /// The number of the interface that it belongs to.
    pub interface: u32,
    /// That interface's hardware address.
    pub mac: MacAddress,
    /// The address at which it is reached; the first that it has if nobody says.
    pub address: Option<Address>,
    /// How much memory, in bytes.
    pub memory_bytes: usize,
    /// The most payload of a packet; what the card's port allows if nobody says.
    pub mtu: Option<u16>,
    /// How many queue pairs there are.
    pub queue_pairs: u16,
    /// The server's number.
    pub server: u16,
    /// Which run of the server's process this is.
    pub incarnation: u32,
}

/// Why a card cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// It has no such address.
    #[error("{name} has no address {}: expected one of {}", wanted.to_ip(), list(.there))]
    Address {
        /// The card.
        name: String,
        /// What was asked for.
        wanted: Address,
        /// What there is.
        there: Vec<Address>,
    },
    /// Packets cannot be as long as asked for.
    #[error("--mtu {mtu}: expected a power of two from 256 to {most}, as {name} takes it")]
    Mtu {
        /// The card.
        name: String,
        /// What was asked for.
        mtu: u16,
        /// The most that its port carries.
        most: u16,
    },
    /// libibverbs does not know it.
    #[error(
        "libibverbs does not know {name}: is the card's provider installed (ibverbs-providers), and ib_uverbs loaded?"
    )]
    Unknown {
        /// The card.
        name: String,
    },
    /// A step that failed.
    #[error("{name}: cannot {what}: {why}")]
    Refused {
        /// The card.
        name: String,
        /// What was tried.
        what: &'static str,
        /// What libibverbs and the kernel say.
        why: String,
    },
}

/// An error of a card, from what failed while this was tried.
fn refused<E: Error>(name: &str, what: &'static str) -> impl Fn(E) -> CardError {
    let name = name.to_owned();
    move |why| CardError::Refused {
        name: name.clone(),
        what,
        why: reason(&why),
    }
}

/// What an error says, and what is behind it, as far as it is known.
fn reason(why: &dyn Error) -> String {
    let mut texts = vec![why.to_string()];
    let mut cause = why.source();
    while let Some(why) = cause {
        texts.push(why.to_string());
        cause = why.source();
    }
    texts.dedup();
    texts.join(": ")
}

/// The same of what was tried for a queue pair.
fn failed<E: Error>(what: &'static str) -> impl Fn(E) -> BoxedError {
    move |why| format!("cannot {what}: {}", reason(&why)).into()
}

fn list(addresses: &[Address]) -> String {
    let texts: Vec<String> = addresses
        .iter()
        .map(|one| one.to_ip().to_string())
        .collect();
    texts.join(", ")
}

/// A queue pair in the life that it is in, which ends with it.
struct Life {
    _queue_pair: BasicQueuePair,
    peer: Address,
}

/// A card with memory that it may write and read.
pub struct Card {
    device: Device,
    /// What it had counted before.
    before: BTreeMap<String, u64>,
    gid: Gid,
    mtu: Mtu,
    reads: u8,
    /// By index; before the region and the memory, since what is first goes first.
    lives: Vec<Option<Life>>,
    neighbors: StaticNeighbors,
    completions: GenericCompletionQueue,
    domain: Arc<ProtectionDomain>,
    _region: Arc<MemoryRegion>,
    _memory: ZeroedArray<u8>,
}

impl Card {
    /// Opens it, registers memory, and gives with it what the server is to announce.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn open(config: Config) -> Result<(Self, Memory), CardError> {
        let name = &config.device.name;
        let gid = gid_of(&config)?;
        let context = open_device(name)?;
        let attributes = context.query_device();
        let attributes = attributes.map_err(refused(name, "ask what it can do"))?;
        let port = context.query_port(config.device.port);
        let port = port.map_err(refused(name, "ask what its port can do"))?;
        let mtu = path_mtu(config.mtu, port.active_mtu()).ok_or_else(|| CardError::Mtu {
            name: name.clone(),
            mtu: config.mtu.unwrap_or_default(),
            most: bytes_of(port.active_mtu()),
        })?;
        let domain = context.alloc_pd();
        let domain = domain.map_err(refused(name, "get a protection domain"))?;
        let memory: ZeroedArray<u8> = ZeroedArray::new(config.memory_bytes);
        let what = "register memory, which `ulimit -l` has to allow";
        let region = register(&domain, &memory).map_err(refused(name, what))?;
        let completions = context.create_cq_builder().setup_cqe(1).build();
        let completions = completions.map_err(refused(name, "get a completion queue"))?;
        let neighbors = StaticNeighbors::new(config.interface);
        let neighbors = neighbors.map_err(refused(name, "speak to the kernel"))?;
        let reads = attributes.max_qp_rd_atom().clamp(1, MOST_READS) as u8;
        let announced = Memory {
            server: config.server,
            incarnation: config.incarnation,
            address: region.get_ptr() as u64,
            bytes: config.memory_bytes as u64,
            rkey: region.rkey(),
            mtu: bytes_of(mtu),
            queue_pairs: config.queue_pairs,
            reads,
            mac: config.mac,
            ip: gid.address,
        };
        let card = Self {
            gid,
            mtu,
            reads,
            lives: (0..config.queue_pairs).map(|_| None).collect(),
            neighbors,
            completions: completions.into(),
            domain,
            _region: region,
            _memory: memory,
            before: config.device.counters(),
            device: config.device,
        };
        Ok((card, announced))
    }

    /// The card.
    #[must_use]
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// What it has counted since it was opened, under the names that its driver gives.
    #[must_use]
    pub fn counters(&self) -> BTreeMap<String, u64> {
        let mut counters = self.device.counters();
        for (name, count) in &mut counters {
            let before = self.before.get(name).copied().unwrap_or_default();
            *count = count.saturating_sub(before);
        }
        counters
    }

    /// How many queue pairs are connected.
    #[must_use]
    pub fn connected(&self) -> usize {
        self.lives.iter().flatten().count()
    }

    /// A queue pair that executes a peer's requests.
    fn connect(&self, path: &Path, peer: u32, psn: Psn) -> Result<BasicQueuePair, BoxedError> {
        let mut builder = self.domain.create_qp_builder();
        builder
            .setup_send_cq(self.completions.clone())
            .setup_recv_cq(self.completions.clone())
            .setup_max_send_wr(1)
            .setup_max_recv_wr(1);
        let built = builder.build();
        let mut queue_pair = built.map_err(failed("make a queue pair"))?;
        let mut fresh = QueuePairAttribute::new();
        fresh
            .setup_state(QueuePairState::Init)
            .setup_pkey_index(0)
            .setup_port(self.device.port)
            .setup_access_flags(AccessFlags::RemoteWrite | AccessFlags::RemoteRead);
        let is_fresh = queue_pair.modify(&fresh);
        is_fresh.map_err(failed("begin with a queue pair"))?;
        let mut way = AddressHandleAttribute::new();
        way.setup_port(self.device.port).setup_grh(
            &raw(path.destination),
            0,
            self.gid.index,
            HOPS,
            0,
        );
        let mut ready = QueuePairAttribute::new();
        ready
            .setup_state(QueuePairState::ReadyToReceive)
            .setup_path_mtu(self.mtu)
            .setup_dest_qp_num(peer)
            .setup_rq_psn(psn.number())
            .setup_max_dest_read_atomic(self.reads)
            .setup_min_rnr_timer(0)
            .setup_address_vector(&way);
        let is_ready = queue_pair.modify(&ready);
        is_ready.map_err(failed("connect a queue pair to the switch"))?;
        Ok(queue_pair)
    }

    /// Forgets where a peer is, if no queue pair goes there any more.
    fn forget(&mut self, peer: Address) {
        let is_used = self.lives.iter().flatten().any(|life| life.peer == peer);
        if !is_used {
            // Somebody else may have removed it.
            let _ = self.neighbors.remove(peer);
        }
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        let lives: Vec<Life> = self.lives.iter_mut().filter_map(Option::take).collect();
        lives.into_iter().for_each(|life| self.forget(life.peer));
    }
}

impl Endpoint for Card {
    /// Each life is a queue pair of its own with a number of its own, so that requests of a former life find
    /// none.
    fn restore(&mut self, index: u16, path: Path, peer: u32, psn: Psn) -> Result<u32, BoxedError> {
        let is_host = path.destination_mac.0[0] & 1 == 0 && can_be_a_switch(path.destination);
        if !is_host || path.destination.is_v4() != self.gid.address.is_v4() {
            return Err("who asked for it gives no address that a switch here can have".into());
        }
        let gid = self.device.gid_now(self.gid.address);
        self.gid = gid.ok_or("the card has lost the address that the server announces")?;
        let former = self.lives.get_mut(usize::from(index));
        let former = former.ok_or("there is no such queue pair")?.take();
        if let Some(former) = former.filter(|former| former.peer != path.destination) {
            self.forget(former.peer);
        }
        let told = self.neighbors.set(path.destination, path.destination_mac);
        let told = told.map_err(failed(
            "tell the kernel where the switch is, which needs CAP_NET_ADMIN",
        ));
        let connected = told.and_then(|()| self.connect(&path, peer, psn));
        let peer = path.destination;
        match connected {
            Ok(queue_pair) => {
                let number = queue_pair.qp_number();
                self.lives[usize::from(index)] = Some(Life {
                    _queue_pair: queue_pair,
                    peer,
                });
                Ok(number)
            }
            Err(why) => {
                self.forget(peer);
                Err(why)
            }
        }
    }

    /// The card has taken them already; a card in software leaves copies.
    fn receive(&mut self, frame: &[u8]) -> bool {
        dissect(frame).is_ok_and(|layout| is_roce(frame, &layout))
    }

    /// The card answers itself.
    fn transmit(&mut self, _: &mut Pools, _: &mut Vec<Frame>, _: usize) {}

    fn has_answers(&self) -> bool {
        false
    }
}

/// As many READs of a queue pair as a requester uses.
const MOST_READS: i32 = 16;
/// How many routers may be between, in the packets' hop limit.
const HOPS: u8 = 64;

fn gid_of(config: &Config) -> Result<Gid, CardError> {
    let Config {
        device, address, ..
    } = config;
    device.gid(*address).ok_or_else(|| CardError::Address {
        name: device.name.clone(),
        // Without a wish there is always one.
        wanted: address.unwrap_or_else(|| Address::from_v4([0; 4])),
        there: device.gids.iter().map(|gid| gid.address).collect(),
    })
}

fn open_device(name: &str) -> Result<Arc<DeviceContext>, CardError> {
    let unknown = || CardError::Unknown {
        name: name.to_owned(),
    };
    let list = DeviceList::new().map_err(|_| unknown())?;
    let device = list.iter().find(|device| device.name() == name);
    let opened = device.ok_or_else(unknown)?.open();
    opened.map_err(refused(
        name,
        "open it, which rights on /dev/infiniband have to allow",
    ))
}

fn register(
    domain: &Arc<ProtectionDomain>,
    memory: &ZeroedArray<u8>,
) -> Result<Arc<MemoryRegion>, RegisterMemoryRegionError> {
    let access = AccessFlags::LocalWrite | AccessFlags::RemoteWrite | AccessFlags::RemoteRead;
    let start = memory.as_ptr() as usize;
    // SAFETY: the memory stays where it is until the region, which is dropped before it, is gone; nobody
    // here reads or writes it meanwhile.
    unsafe { domain.reg_mr(start, memory.len(), access) }
}

/// The path MTU that is wished, if the port carries it, or the longest that it carries.
fn path_mtu(wished: Option<u16>, port: Mtu) -> Option<Mtu> {
    let all = [
        Mtu::Mtu4096,
        Mtu::Mtu2048,
        Mtu::Mtu1024,
        Mtu::Mtu512,
        Mtu::Mtu256,
    ];
    let is_wished = |mtu| wished.is_none_or(|wished| bytes_of(mtu) == wished);
    all.into_iter().find(|&mtu| mtu <= port && is_wished(mtu))
}

/// Whether a host on the link may have this address.
fn can_be_a_switch(address: Address) -> bool {
    let ip = address.to_ip();
    !ip.is_unspecified() && !ip.is_multicast() && !ip.is_loopback()
}

const fn bytes_of(mtu: Mtu) -> u16 {
    match mtu {
        Mtu::Mtu256 => 256,
        Mtu::Mtu512 => 512,
        Mtu::Mtu1024 => 1024,
        Mtu::Mtu2048 => 2048,
        Mtu::Mtu4096 => 4096,
    }
}

/// An address as cards write it: IPv4 within IPv6.
fn raw(address: Address) -> RawGid {
    let octets = match address.is_v4() {
        true => Ipv4Addr::from(address.octets4()).to_ipv6_mapped(),
        false => Ipv6Addr::from(address.octets16()),
    };
    octets.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sideway::ibverbs::memory_region::RegisterMemoryRegionErrorKind;

    #[test]
    fn the_path_carries_what_both_allow() {
        assert_eq!(path_mtu(None, Mtu::Mtu1024), Some(Mtu::Mtu1024));
        assert_eq!(path_mtu(Some(1024), Mtu::Mtu4096), Some(Mtu::Mtu1024));
        assert_eq!(path_mtu(Some(1500), Mtu::Mtu4096), None);
        assert_eq!(path_mtu(Some(4096), Mtu::Mtu2048), None);
    }

    #[test]
    fn an_error_tells_what_is_behind_it() {
        let error = RegisterMemoryRegionErrorKind::Ibverbs(std::io::Error::from_raw_os_error(12));
        let told = refused("mlx5_0", "register memory")(RegisterMemoryRegionError::from(error));
        assert_eq!(
            told.to_string(),
            "mlx5_0: cannot register memory: failed to register memory region: Cannot allocate memory (os error 12)"
        );
    }

    #[test]
    fn only_hosts_are_told_to_the_kernel() {
        for (address, may_be) in [
            (Address::from_v4([192, 0, 2, 7]), true),
            (Address::from_v4([0; 4]), false),
            (Address::from_v4([224, 0, 0, 1]), false),
            (Address::from_v4([127, 0, 0, 1]), false),
            (Address::from_v6([0xff; 16]), false),
        ] {
            assert_eq!(can_be_a_switch(address), may_be, "{address:?}");
        }
    }

    #[test]
    fn addresses_of_both_versions() {
        let v4 = raw(Address::from_v4([192, 0, 2, 7]));
        assert_eq!(v4.raw[10..], [0xff, 0xff, 192, 0, 2, 7]);
        let v6 = raw(Address::from_v6([9; 16]));
        assert_eq!(v6.raw, [9; 16]);
    }
}
