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
    let routes = ["/proc/net/route", "/proc/net/ipv6_route"];
    let routes = routes.map(|path| fs::read_to_string(path).unwrap_or_default());
    interfaces_in(Path::new("/sys/class/net"), &routes, &host_addresses())
}

/// With the kernel's routes of IPv4 and of IPv6.
fn interfaces_in(folder: &Path, routes: &[String; 2], host: &[HostAddress]) -> Vec<Interface> {
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

/// The interface in the first line with destination 0, of IPv4 if there is one.
fn default_route([v4, v6]: &[String; 2]) -> Option<&str> {
    let mut rows = v4.lines().skip(1).map(str::split_whitespace);
    let by_v4 = rows.find_map(|mut row| {
        let name = row.next()?;
        (row.next()? == "00000000").then_some(name)
    });
    by_v4.or_else(|| v6.lines().find_map(default_route_v6))
}

/// The interface of a line of IPv6 routes, if its destination is 0. Where there is no such route the kernel
/// has one to nowhere, by the loopback.
fn default_route_v6(line: &str) -> Option<&str> {
    let mut row = line.split_whitespace();
    let destination = row.next()?;
    let is_all = destination.bytes().all(|digit| digit == b'0') && row.next()? == "00";
    row.last().filter(|name| is_all && *name != "lo")
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

/// Why nobody knows which interfaces are inside and outside.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Unclear {
    /// There are not two.
    TooFew,
    /// Nothing tells which is outside.
    NoDefaultRoute,
    /// Several may be inside.
    Several,
}

impl Unclear {
    /// In words.
    pub const fn why(self) -> &'static str {
        match self {
            Self::TooFew => "this host has no two interfaces beside the loopback",
            Self::NoDefaultRoute => {
                "this host has no default route, which would tell which interface is outside"
            }
            Self::Several => "several interfaces of this host may be the one inside",
        }
    }
}

/// Which of them is probably inside, and which outside: where the default route leads, and another
/// card, or whatever other there is alone.
///
/// # Errors
/// It is not clear. Without a default route none is taken: a firewall the wrong way round would keep out
/// who is inside, and let all others in.
pub fn likely(all: &[Interface]) -> Result<(&Interface, &Interface), Unclear> {
    if all.len() < 2 {
        return Err(Unclear::TooFew);
    }
    let outside = all.iter().find(|one| one.has_default_route);
    let outside = outside.ok_or(Unclear::NoDefaultRoute)?;
    let others = || all.iter().filter(|one| one.name != outside.name);
    let inside = others()
        .find(|one| one.is_card)
        .or_else(|| match others().count() {
            1 => others().next(),
            _ => None,
        });
    Ok((inside.ok_or(Unclear::Several)?, outside))
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

    fn routes() -> [String; 2] {
        [ROUTES.to_owned(), String::new()]
    }

    fn chosen(names: &[(&str, bool)]) -> Result<(String, String), Unclear> {
        let host = host(names);
        let all = interfaces_in(host.path(), &routes(), &[]);
        assert!(all.iter().all(|one| one.about == "up, MTU 1500, 02::1"));
        likely(&all).map(|(inside, outside)| (inside.name.clone(), outside.name.clone()))
    }

    #[test]
    fn outside_is_where_the_default_route_leads() {
        let both = |inside: &str| Ok((inside.to_owned(), "eth0".to_owned()));
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
            Err(Unclear::Several)
        );
        assert_eq!(
            chosen(&[("eth1", true), ("eth2", true)]),
            Err(Unclear::NoDefaultRoute)
        );
        assert_eq!(chosen(&[("eth1", true)]), Err(Unclear::TooFew));
        assert_eq!(chosen(&[]), Err(Unclear::TooFew));
    }

    /// Found by a reader: a host whose way to everywhere is of IPv6 alone had none.
    #[test]
    fn a_default_route_of_ipv6_counts() {
        let line = |destination: &str, bits: &str, name: &str| {
            let none = "0".repeat(32);
            format!(
                "{destination} {bits} {none} 00 {none} 00000400 00000001 00000000 00000003     {name}\n"
            )
        };
        let (all, network) = ("0".repeat(32), "20010db8".to_owned() + &"0".repeat(24));
        let v6 = [
            line(&network, "40", "eth2"),
            line(&all, "00", "lo"),
            line(&all, "00", "eth1"),
        ];
        let v4 = "Iface\tDestination\tGateway\neth2\t0001A8C0\t0\n".to_owned();
        assert_eq!(default_route(&[v4.clone(), v6.concat()]), Some("eth1"));
        assert_eq!(default_route(&[v4, v6[..2].concat()]), None);
        assert_eq!(
            default_route(&[ROUTES.to_owned(), v6.concat()]),
            Some("eth0")
        );
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
        let all = interfaces_in(host.path(), &routes(), &known);
        assert_eq!(all[0].addresses, known[1..2]);
        assert_eq!(all[0].about, "up, MTU 1500, 02::1, 192.0.2.2/24");
    }
}
