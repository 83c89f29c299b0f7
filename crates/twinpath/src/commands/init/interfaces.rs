//! The network interfaces of this host, as the kernel tells of them in /sys and /proc.

use crate::checks::host_addresses;
use std::fs;
use std::path::{Path, PathBuf};
use twinpath_control::service::HostAddress;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// What there is to say of it, on one line.
    pub about: String,
    /// Whether the way to everywhere else leads by it.
    pub has_default_route: bool,
    /// Whether it is a card's, and not made of something else.
    pub is_card: bool,
    /// The addresses that this host has there, but for those of the link alone.
    pub addresses: Vec<HostAddress>,
}

/// All but the loopback, by name.
pub fn interfaces() -> Vec<Interface> {
    let routes = fs::read_to_string("/proc/net/route").unwrap_or_default();
    interfaces_in(Path::new("/sys/class/net"), &routes, &host_addresses())
}

fn interfaces_in(folder: &Path, routes: &str, host: &[HostAddress]) -> Vec<Interface> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let names = entries
        .flatten()
        .filter_map(|one| one.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name != "lo").collect();
    names.sort();
    let by_default = default_route(routes);
    names
        .into_iter()
        .map(|name| {
            let place = folder.join(&name);
            let addresses = addresses_of(&name, host);
            Interface {
                about: about(&place, &addresses),
                addresses,
                has_default_route: by_default == Some(name.as_str()),
                is_card: place.join("device").exists(),
                name,
            }
        })
        .collect()
}

/// The interface in the first line with destination 0.
fn default_route(routes: &str) -> Option<&str> {
    let mut rows = routes.lines().skip(1).map(str::split_whitespace);
    rows.find_map(|mut row| {
        let name = row.next()?;
        (row.next()? == "00000000").then_some(name)
    })
}

fn addresses_of(name: &str, host: &[HostAddress]) -> Vec<HostAddress> {
    let there = host.iter().filter(|one| one.device == name);
    there.filter(|one| !one.is_of_link()).cloned().collect()
}

fn about(place: &Path, addresses: &[HostAddress]) -> String {
    let read = |file: &str| {
        let text = fs::read_to_string(place.join(file)).unwrap_or_default();
        text.trim().to_owned()
    };
    let driver = fs::read_link(place.join("device/driver"));
    let driver = driver
        .ok()
        .as_deref()
        .and_then(Path::file_name)
        .map(PathBuf::from);
    let mut parts = vec![
        read("operstate"),
        format!("MTU {}", read("mtu")),
        read("address"),
    ];
    parts.extend(driver.map(|driver| format!("driver {}", driver.display())));
    parts.extend(addresses.iter().map(ToString::to_string));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// Which of them is probably inside, and which outside: where the default route leads, and another
/// card, or whatever other there is alone.
pub fn likely(all: &[Interface]) -> Option<(&Interface, &Interface)> {
    let outside = all.iter().find(|one| one.has_default_route)?;
    let others = || all.iter().filter(|one| one.name != outside.name);
    let inside = others()
        .find(|one| one.is_card)
        .or_else(|| match others().count() {
            1 => others().next(),
            _ => None,
        });
    Some((inside?, outside))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str =
        "Iface\tDestination\tGateway\neth1\t0001A8C0\t0\neth0\t00000000\t010200C0\n";

    fn host(names: &[(&str, bool)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, is_card) in names {
            let place = folder.path().join(name);
            let made = if *is_card {
                place.join("device")
            } else {
                place.clone()
            };
            fs::create_dir_all(made).expect("a folder");
            for (file, text) in [
                ("operstate", "up\n"),
                ("mtu", "1500\n"),
                ("address", "02::1\n"),
            ] {
                fs::write(place.join(file), text).expect("a file");
            }
        }
        folder
    }

    fn chosen(names: &[(&str, bool)]) -> Option<(String, String)> {
        let host = host(names);
        let all = interfaces_in(host.path(), ROUTES, &[]);
        assert!(all.iter().all(|one| one.about == "up, MTU 1500, 02::1"));
        likely(&all).map(|(inside, outside)| (inside.name.clone(), outside.name.clone()))
    }

    #[test]
    fn outside_is_where_the_default_route_leads() {
        let both = |inside: &str| Some((inside.to_owned(), "eth0".to_owned()));
        assert_eq!(
            chosen(&[("eth0", true), ("eth1", true), ("lo", false)]),
            both("eth1")
        );
        assert_eq!(chosen(&[("br0", false), ("eth0", true)]), both("br0"));
        assert_eq!(
            chosen(&[("br0", false), ("eth0", true), ("eth7", true)]),
            both("eth7")
        );
        assert_eq!(
            chosen(&[("br0", false), ("br1", false), ("eth0", true)]),
            None
        );
        assert_eq!(chosen(&[("eth1", true)]), None);
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn addresses_are_those_of_the_interface_and_not_of_its_link_alone() {
        let host = host(&[("eth0", true), ("eth1", true)]);
        let address = |device: &str, text: &str| HostAddress {
            device: device.into(),
            address: text.parse().expect(text),
            prefix_bits: 24,
        };
        let known = [
            address("eth1", "10.0.0.1"),
            address("eth0", "192.0.2.2"),
            address("eth0", "fe80::2"),
        ];
        let all = interfaces_in(host.path(), ROUTES, &known);
        assert_eq!(all[0].addresses, known[1..2]);
        assert_eq!(all[0].about, "up, MTU 1500, 02::1, 192.0.2.2/24");
    }
}
