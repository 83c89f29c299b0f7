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
    /// The device of a network interface, if there is one in `folder`, which is [`FOLDER`].
    #[must_use]
    pub fn of_interface(folder: &Path, interface: &str) -> Option<Self> {
        let ports = entries(folder).into_iter().flat_map(|device| {
            let ports = entries(&device.join("ports"));
            ports.into_iter().map(move |port| (device.clone(), port))
        });
        ports
            .filter_map(|(device, port)| Self::at(&device, port, interface))
            .next()
    }

    fn at(device: &Path, folder: PathBuf, interface: &str) -> Option<Self> {
        let mut gids: Vec<Gid> = entries(&folder.join("gids"))
            .iter()
            .filter_map(|gid| Gid::read(&folder, &name(gid), interface))
            .collect();
        gids.sort_by_key(|gid| gid.index);
        let found = Self {
            name: name(device),
            port: name(&folder).parse().ok()?,
            gids,
            folder,
        };
        (!found.gids.is_empty()).then_some(found)
    }

    /// Its entry for this address, or the one that servers use if nobody says which: the first of IPv4, else
    /// the first.
    #[must_use]
    pub fn gid(&self, address: Option<Address>) -> Option<Gid> {
        let mut gids = self.gids.iter();
        let found = match address {
            Some(address) => gids.find(|gid| gid.address == address),
            None => gids.find(|gid| gid.address.is_v4()).or(self.gids.first()),
        };
        found.copied()
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
        Device::of_interface(folder(gids).path(), "eth1")
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
        assert_eq!(Device::of_interface(Path::new("/nowhere"), "eth1"), None);
    }

    #[test]
    fn the_first_address_serves_where_none_is_of_ipv4() {
        let device = found(&[("1", LINK_LOCAL, "RoCE v2", "eth1")]);
        assert_eq!(
            device
                .and_then(|device| device.gid(None))
                .map(|gid| gid.index),
            Some(1)
        );
    }

    #[test]
    fn counters_are_the_driver_s() {
        let folder = folder(&[("1", V4, "RoCE v2", "eth1")]);
        let device = Device::of_interface(folder.path(), "eth1").expect("it is there");
        let expected = BTreeMap::from([("rx_read_requests".to_owned(), 12)]);
        assert_eq!(device.counters(), expected);
    }
}
