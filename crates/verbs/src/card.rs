//! A card that executes requests, through libibverbs.

use crate::devices::{Device, Gid};
use sideway::ibverbs::AccessFlags;
use sideway::ibverbs::address::{AddressHandleAttribute, Gid as RawGid};
use sideway::ibverbs::completion::GenericCompletionQueue;
use sideway::ibverbs::device::{DeviceInfo, DeviceList};
use sideway::ibverbs::device_context::{DeviceContext, Mtu};
use sideway::ibverbs::memory_region::MemoryRegion;
use sideway::ibverbs::protection_domain::ProtectionDomain;
use sideway::ibverbs::queue_pair::{BasicQueuePair, QueuePair, QueuePairAttribute, QueuePairState};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use thiserror::Error;
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
#[derive(Debug, Error)]
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
    /// Packets may not be as short as asked for.
    #[error("--mtu {mtu}: expected at least 256, the least that an RDMA card takes")]
    Mtu {
        /// What was asked for.
        mtu: u16,
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
        /// What libibverbs or the kernel says.
        why: BoxedError,
    },
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
        let refused = |what| {
            move |why: BoxedError| CardError::Refused {
                name: name.clone(),
                what,
                why,
            }
        };
        let gid = gid_of(&config)?;
        let context = open_device(name)?;
        let attributes = context.query_device();
        let attributes = attributes.map_err(|why| refused("ask what it can do")(why.into()))?;
        let port = context.query_port(config.device.port);
        let port = port.map_err(|why| refused("ask what its port can do")(why.into()))?;
        let mtu = path_mtu(config.mtu, port.active_mtu());
        let mtu = mtu.ok_or_else(|| CardError::Mtu {
            mtu: config.mtu.unwrap_or_default(),
        })?;
        let domain = context.alloc_pd();
        let domain = domain.map_err(|why| refused("get a protection domain")(why.into()))?;
        let memory: ZeroedArray<u8> = ZeroedArray::new(config.memory_bytes);
        let region = register(&domain, &memory).map_err(refused("register memory"))?;
        let completions = context.create_cq_builder().setup_cqe(1).build();
        let completions =
            completions.map_err(|why| refused("get a completion queue")(why.into()))?;
        let neighbors = StaticNeighbors::new(config.interface);
        let neighbors = neighbors.map_err(|why| refused("speak to the kernel")(why.into()))?;
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
        let mut queue_pair = builder.build()?;
        let mut fresh = QueuePairAttribute::new();
        fresh
            .setup_state(QueuePairState::Init)
            .setup_pkey_index(0)
            .setup_port(self.device.port)
            .setup_access_flags(AccessFlags::RemoteWrite | AccessFlags::RemoteRead);
        queue_pair.modify(&fresh)?;
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
        queue_pair.modify(&ready)?;
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
        let former = self.lives.get_mut(usize::from(index));
        let former = former.ok_or("there is no such queue pair")?.take();
        if let Some(former) = former.filter(|former| former.peer != path.destination) {
            self.forget(former.peer);
        }
        self.neighbors.set(path.destination, path.destination_mac)?;
        let connected = self.connect(&path, peer, psn);
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
    opened.map_err(|why| CardError::Refused {
        name: name.to_owned(),
        what: "open it",
        why: why.into(),
    })
}

fn register(
    domain: &Arc<ProtectionDomain>,
    memory: &ZeroedArray<u8>,
) -> Result<Arc<MemoryRegion>, BoxedError> {
    let access = AccessFlags::LocalWrite | AccessFlags::RemoteWrite | AccessFlags::RemoteRead;
    let start = memory.as_ptr() as usize;
    // SAFETY: the memory stays where it is until the region, which is dropped before it, is gone; nobody
    // here reads or writes it meanwhile.
    let region = unsafe { domain.reg_mr(start, memory.len(), access) };
    Ok(region?)
}

/// The longest path MTU that is neither above what is wished nor above what the port carries.
fn path_mtu(wished: Option<u16>, port: Mtu) -> Option<Mtu> {
    let all = [
        Mtu::Mtu4096,
        Mtu::Mtu2048,
        Mtu::Mtu1024,
        Mtu::Mtu512,
        Mtu::Mtu256,
    ];
    let wished = wished.unwrap_or(u16::MAX);
    all.into_iter()
        .find(|&mtu| mtu <= port && bytes_of(mtu) <= wished)
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

    #[test]
    fn the_path_carries_what_both_allow() {
        assert_eq!(path_mtu(None, Mtu::Mtu1024), Some(Mtu::Mtu1024));
        assert_eq!(path_mtu(Some(1500), Mtu::Mtu4096), Some(Mtu::Mtu1024));
        assert_eq!(path_mtu(Some(4096), Mtu::Mtu2048), Some(Mtu::Mtu2048));
        assert_eq!(path_mtu(Some(255), Mtu::Mtu4096), None);
    }

    #[test]
    fn addresses_of_both_versions() {
        let v4 = raw(Address::from_v4([192, 0, 2, 7]));
        assert_eq!(v4.raw[10..], [0xff, 0xff, 192, 0, 2, 7]);
        let v6 = raw(Address::from_v6([9; 16]));
        assert_eq!(v6.raw, [9; 16]);
    }
}
