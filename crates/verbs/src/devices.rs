//! RDMA devices, as the kernel tells of them in `/sys/class/infiniband`.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use twinpath_core::wire::Address;

/// Where the kernel tells of them.
pub const FOLDER: &str = "/sys/class/infiniband";

/// A port of an RDMA device, and the addresses of RoCEv2 under which it is reached by an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name, such as `mlx5_0`.
    pub name: String,
    /// The port's number, from 1.
    pub port: u8,
    /// Its addresses, at least one.
    pub gids: Vec<Gid>,
    interface: String,
    folder: PathBuf,
}

/// An address of a port: what the specification calls a GID.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Gid {
    /// Its place in the port's table.
    pub index: u8,
    /// The address.
    pub address: Address,
}

impl Device {
    /// The device of a network interface that has these addresses, if there is one in `folder`, which is
    /// [`FOLDER`]. The kernel tells of devices of all network namespaces there, by the names of interfaces
    /// alone: one that has none of the addresses is another's.
    #[must_use]
    pub fn of_interface(folder: &Path, interface: &str, own: &[Address]) -> Option<Self> {
        let ports = entries(folder).into_iter().flat_map(|device| {
            let ports = entries(&device.join("ports"));
            ports.into_iter().map(move |port| (device.clone(), port))
        });
        ports
            .filter_map(|(device, port)| Self::at(&device, port, interface, own))
            .next()
    }

    fn at(device: &Path, folder: PathBuf, interface: &str, own: &[Address]) -> Option<Self> {
        let mut gids: Vec<Gid> = entries(&folder.join("gids"))
            .iter()
            .filter_map(|gid| Gid::read(&folder, &name(gid), interface))
            .filter(|gid| own.contains(&gid.address))
            .collect();
        gids.sort_by_key(|gid| gid.index);
        let found = Self {
            name: name(device),
            port: name(&folder).parse().ok()?,
            gids,
            interface: interface.to_owned(),
            folder,
        };
        (!found.gids.is_empty()).then_some(found)
    }

    /// Its entry for this address, or the one that servers use if nobody says which: the first of IPv4, else
    /// the first that is of more than the link, else the first.
    #[must_use]
    pub fn gid(&self, address: Option<Address>) -> Option<Gid> {
        let gids = || self.gids.iter().copied();
        match address {
            Some(address) => gids().find(|gid| gid.address == address),
            None => gids().min_by_key(|gid| (!gid.address.is_v4(), is_link_local(gid.address))),
        }
    }

    /// The same of what the kernel tells now: entries come and go with the interface's addresses.
    #[must_use]
    pub fn gid_now(&self, address: Address) -> Option<Gid> {
        let files = entries(&self.folder.join("gids"));
        let mut gids = files
            .iter()
            .filter_map(|gid| Gid::read(&self.folder, &name(gid), &self.interface));
        gids.find(|gid| gid.address == address)
    }

    /// What the card counts of RDMA, under the names that its driver gives.
    #[must_use]
    pub fn counters(&self) -> BTreeMap<String, u64> {
        let files = entries(&self.folder.join("hw_counters"));
        let read = |file: &PathBuf| {
            let text = fs::read_to_string(file).ok()?;
            Some((name(file), text.trim().parse().ok()?))
        };
        let mut counters: BTreeMap<String, u64> = files.iter().filter_map(read).collect();
        // How often the driver looks is no count.
        counters.remove("lifespan");
        counters
    }
}

impl Gid {
    /// An entry of a port's table, if it is one of RoCEv2 at this interface; most places are empty.
    fn read(port: &Path, index: &str, interface: &str) -> Option<Self> {
        let attribute = |what: &str| fs::read_to_string(port.join(what).join(index)).ok();
        let is_at = attribute("gid_attrs/ndevs")?.trim() == interface;
        let is_v2 = attribute("gid_attrs/types")?.trim() == "RoCE v2";
        let gid: Ipv6Addr = attribute("gids")?.trim().parse().ok()?;
        let address = match gid.to_ipv4_mapped() {
            Some(v4) => Address::from_v4(v4.octets()),
            None => Address::from_v6(gid.octets()),
        };
        let index = index.parse().ok()?;
        (is_at && is_v2).then_some(Self { index, address })
    }
}

/// Whether an address of IPv6 is of its link alone (`fe80::/10`).
fn is_link_local(address: Address) -> bool {
    !address.is_v4() && address.octets16()[0] == 0xfe && address.octets16()[1] & 0xc0 == 0x80
}

/// What is in a folder, in order of names; nothing if it is not there.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: &str = "0000:0000:0000:0000:0000:ffff:c000:0207";
    const LINK_LOCAL: &str = "fe80:0000:0000:0000:0000:00ff:fe00:0001";
    const GLOBAL: &str = "fd00:0000:0000:0000:0000:0000:0000:0002";

    /// All addresses of these tests.
    fn own() -> Vec<Address> {
        let v6 = |text: &str| Address::from_v6(text.parse::<Ipv6Addr>().expect("one").octets());
        vec![Address::from_v4([192, 0, 2, 7]), v6(LINK_LOCAL), v6(GLOBAL)]
    }

    /// Devices with ports and entries: index, address, type, interface.
    fn folder(gids: &[(&str, &str, &str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, format!("{text}\n")).expect("a file");
        };
        for (index, gid, kind, interface) in gids {
            let port = "card_0/ports/2";
            write(&format!("{port}/gids/{index}"), gid);
            write(&format!("{port}/gid_attrs/types/{index}"), kind);
            write(&format!("{port}/gid_attrs/ndevs/{index}"), interface);
        }
        write("card_0/ports/2/hw_counters/rx_read_requests", "12");
        write("card_0/ports/2/hw_counters/lifespan", "10");
        // A place in the table that is empty has no type.
        write(
            "card_0/ports/2/gids/9",
            "0000:0000:0000:0000:0000:0000:0000:0000",
        );
        folder
    }

    fn found(gids: &[(&str, &str, &str, &str)]) -> Option<Device> {
        Device::of_interface(folder(gids).path(), "eth1", &own())
    }

    #[test]
    fn a_card_is_known_by_its_interface() {
        let v2 = |index, gid, interface| (index, gid, "RoCE v2", interface);
        let device = found(&[
            ("0", LINK_LOCAL, "IB/RoCE v1", "eth1"),
            v2("1", LINK_LOCAL, "eth1"),
            v2("10", V4, "eth2"),
            v2("3", V4, "eth1"),
        ]);
        let device = device.expect("it has entries at the interface");
        assert_eq!((&*device.name, device.port), ("card_0", 2));
        let indices: Vec<u8> = device.gids.iter().map(|gid| gid.index).collect();
        assert_eq!(indices, [1, 3]);
        let v4 = Address::from_v4([192, 0, 2, 7]);
        assert_eq!(device.gid(None).map(|gid| gid.index), Some(3));
        assert_eq!(device.gid(Some(v4)).map(|gid| gid.index), Some(3));
        let other = Address::from_v4([192, 0, 2, 8]);
        assert_eq!(device.gid(Some(other)), None);
    }

    #[test]
    fn without_an_address_of_roce_v2_there_is_none() {
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[("0", V4, "RoCE v2", "eth2")]), None);
        assert_eq!(found(&[("0", V4, "IB/RoCE v1", "eth1")]), None);
        assert_eq!(found(&[("0", "nonsense", "RoCE v2", "eth1")]), None);
        let nowhere = Device::of_interface(Path::new("/nowhere"), "eth1", &own());
        assert_eq!(nowhere, None);
    }

    /// An interface of the same name in another namespace has a card, this one has not.
    #[test]
    fn without_the_interface_s_own_addresses_it_is_another_s() {
        let folder = folder(&[("1", V4, "RoCE v2", "eth1")]);
        let other = [Address::from_v4([192, 0, 2, 8])];
        assert_eq!(Device::of_interface(folder.path(), "eth1", &other), None);
    }

    #[test]
    fn entries_come_and_go() {
        let folder = folder(&[("1", V4, "RoCE v2", "eth1")]);
        let device = Device::of_interface(folder.path(), "eth1", &own()).expect("it is there");
        let gids = folder.path().join("card_0/ports/2");
        assert_eq!(device.gid_now(own()[0]).map(|gid| gid.index), Some(1));
        for what in ["gids", "gid_attrs/types", "gid_attrs/ndevs"] {
            let place = gids.join(what);
            fs::rename(place.join("1"), place.join("4")).expect("a file");
        }
        assert_eq!(device.gid_now(own()[0]).map(|gid| gid.index), Some(4));
        fs::remove_file(gids.join("gids/4")).expect("a file");
        assert_eq!(device.gid_now(own()[0]), None);
    }

    #[test]
    fn of_ipv6_an_address_of_more_than_the_link_serves() {
        let index = |gids: &[(&str, &str, &str, &str)]| {
            let device = found(gids).expect("it is there");
            device.gid(None).map(|gid| gid.index)
        };
        let link_local = ("1", LINK_LOCAL, "RoCE v2", "eth1");
        assert_eq!(index(&[link_local]), Some(1));
        assert_eq!(
            index(&[link_local, ("3", GLOBAL, "RoCE v2", "eth1")]),
            Some(3)
        );
    }

    #[test]
    fn counters_are_the_driver_s() {
        let folder = folder(&[("1", V4, "RoCE v2", "eth1")]);
        let device = Device::of_interface(folder.path(), "eth1", &own()).expect("it is there");
        let expected = BTreeMap::from([("rx_read_requests".to_owned(), 12)]);
        assert_eq!(device.counters(), expected);
    }
}
