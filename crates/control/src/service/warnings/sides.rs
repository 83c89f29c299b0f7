//! Ports whose networks say another side than `inside_ports`.

use super::{Found, translations};
use crate::service::{PortDevice, Service};
use twinpath_classify::Prefix;

/// A port, and what is known of the networks at it.
struct PortSide<'a> {
    name: &'a str,
    is_inside: bool,
    networks: Vec<Prefix>,
}

impl Found {
    /// Ports that are probably on the other side than `inside_ports` has them, by the networks that
    /// `networks` knows at each.
    pub(super) fn swapped_sides(
        &mut self,
        service: &Service,
        networks: impl Fn(&PortDevice) -> Vec<Prefix>,
    ) {
        if service.inside_ports.is_empty() {
            return;
        }
        let named = (0..).zip(service.ports.iter().zip(&service.devices));
        let ports: Vec<_> = named
            .map(|(number, (name, device))| PortSide {
                name,
                is_inside: service.inside_ports.contains(&number),
                networks: networks(device),
            })
            .collect();
        let outside = inside_networks_outside(service, &ports);
        let told = outside.or_else(|| external_addresses_inside(service, &ports));
        if let Some(message) = told {
            self.add(["service", "inside_ports"], message);
        }
    }
}

/// A network inside is at a port outside.
fn inside_networks_outside(service: &Service, ports: &[PortSide<'_>]) -> Option<String> {
    let inside = inside(service);
    let is_inside = |network: &&Prefix| inside.iter().any(|one| covers(one, network));
    let outside = ports.iter().filter(|port| !port.is_inside);
    let mut found =
        outside.filter_map(|port| Some((port.name, port.networks.iter().find(is_inside)?)));
    let (name, network) = found.next()?;
    Some(format!(
        "{network} at port {name} is of the networks inside, and {name} is not in inside_ports, so what hosts there send is taken for coming from outside: expected the ports to those inside"
    ))
}

/// External addresses of a translation are of a network at a port inside, and of none outside.
fn external_addresses_inside(service: &Service, ports: &[PortSide<'_>]) -> Option<String> {
    let at = |is_inside: bool, external: &Prefix| {
        let mut side = ports.iter().filter(|port| port.is_inside == is_inside);
        side.find(|port| port.networks.iter().any(|one| covers(one, external)))
    };
    translations(service).find_map(|(translation, one)| {
        let external = one.external.iter();
        let mut inside = external.filter(|one| at(false, one).is_none());
        let (external, port) = inside.find_map(|one| Some((one, at(true, one)?.name)))?;
        Some(format!(
            "{external} of {translation}'s external addresses is of a network at port {port}, which is in inside_ports, and so taken for a port to those inside: expected the ports to those inside"
        ))
    })
}

/// The networks inside: the service's, or else those that translations hide.
fn inside(service: &Service) -> Vec<Prefix> {
    if !service.inside.is_empty() {
        return service.inside.clone();
    }
    let all = translations(service).flat_map(|(_, one)| one.inside);
    all.copied().collect()
}

/// Whether all of a network is of another, which is not all there is.
fn covers(one: &Prefix, other: &Prefix) -> bool {
    one.length() > 0 && one.includes(other.network()) && one.includes(other.last())
}

#[cfg(test)]
mod tests {
    use crate::service::warnings::tests::told;

    const SOUND: &str = r#"[service]
chain = ["napt", "router"]
inside_ports = ["lan"]
inside = ["10.0.0.0/16"]
[ports]
lan = { device = "e1", addresses = ["10.0.0.1/24"] }
wan = { device = "e0", addresses = ["192.0.2.2/24"] }
[napt]
inside = ["10.0.0.0/16"]
external = ["192.0.2.2"]
[router]
next_hops = [
    { name = "home", port = "lan" },
    { name = "up", port = "wan", address = "192.0.2.1" },
]
routes = [
    { to = "10.0.0.0/24", via = "home" },
    { to = "0.0.0.0/0", via = "up" },
]
"#;

    const SWAPPED: (&str, &str) = ("inside_ports = [\"lan\"]", "inside_ports = [\"wan\"]");
    const AT_LAN: &str =
        "10.0.0.0/24 at port lan is of the networks inside, and lan is not in inside_ports";
    const AT_WAN: &str = "192.0.2.2/32 of napt's external addresses is of a network at port wan, which is in inside_ports";

    #[test]
    fn ports_on_the_wrong_side_are_told() {
        let changed = |changes: &[(&str, &str)]| {
            changes.iter().fold(SOUND.to_owned(), |text, (from, to)| {
                assert!(text.contains(from), "{from}");
                text.replace(from, to)
            })
        };
        for (changes, expected) in [
            (&[][..], None),
            (&[SWAPPED], Some(AT_LAN)),
            // What a translation hides is inside, whether or not the service says so.
            (
                &[SWAPPED, ("inside = [\"10.0.0.0/16\"]\n[ports]", "[ports]")],
                Some(AT_LAN),
            ),
            (
                &[SWAPPED, (", addresses = [\"10.0.0.1/24\"]", "")],
                Some(AT_WAN),
            ),
            // The networks of hosts behind routers say nothing of the link to them.
            (&[("10.0.0.1/24", "203.0.113.1/24")], None),
            // A network that has others than those inside is not theirs.
            (
                &[
                    ("192.0.2.2/24", "10.0.0.2/8"),
                    ("10.0.0.1/24", "172.16.0.1/24"),
                ],
                None,
            ),
        ] {
            let told = told(&changed(changes));
            let sides: Vec<_> = told.iter().filter(|(line, _)| *line == 3).collect();
            match expected {
                None => assert_eq!(sides, Vec::<&(usize, String)>::new(), "{changes:?}"),
                Some(expected) => {
                    assert_eq!(sides.len(), 1, "{told:#?}");
                    assert!(sides[0].1.starts_with(expected), "{told:#?}");
                }
            }
        }
    }
}
