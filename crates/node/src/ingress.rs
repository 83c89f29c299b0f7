//! By which port packets come in that do not say so themselves: generated ones, and those of
//! captures that know of one interface only.
//!
//! A packet's source tells: from a network inside it comes in by a port inside, else by one outside,
//! by that which the router's routes send answers to, if that is on the same side. So it is as
//! trustworthy as a source address is, which anybody can write: what is dropped where a port
//! contradicts a source never is dropped so.

use twinpath_classify::lpm::{RouteLimits, RouteTable};
use twinpath_control::service::Service;
use twinpath_core::Direction;
use twinpath_core::wire::{Address, dissect, fields};
use twinpath_rulecache::Sides;
use twinpath_traffic::Direction as Flow;

/// Tells ports by sources.
pub struct Ingress {
    ports: u16,
    inside_ports: Vec<u16>,
    inside: Option<Sides>,
    routes: RouteTable,
}

impl Ingress {
    /// Where packets of a service come in.
    pub fn of(service: &Service) -> Self {
        let inside = Sides::new(&service.inside).ok();
        Self {
            ports: service.ports.len() as u16,
            inside_ports: service.inside_ports.clone(),
            inside: inside.filter(|inside| !inside.is_one_way()),
            routes: routes(service),
        }
    }

    /// By which port a packet came in that was captured nobody knows where; `None` if that cannot
    /// be told, or need not.
    pub fn of_captured(&self, bytes: &[u8]) -> Option<u16> {
        let inside = self.inside.as_ref()?;
        if self.inside_ports.is_empty() {
            return None;
        }
        let source = source(bytes)?;
        let is_inside = inside.direction(source, 0) == Direction::Original;
        Some(self.port(source, is_inside))
    }

    /// By which port a generated packet comes in that goes this way. Hosts are inside if nothing
    /// says which networks are.
    pub fn of_generated(&self, bytes: &[u8], flow: Flow) -> u16 {
        let is_request = flow == Flow::ToServer;
        let by_way = || match self.inside_ports.is_empty() {
            true => u16::from(self.ports > 1 && !is_request),
            false => self.first(is_request),
        };
        self.of_captured(bytes).unwrap_or_else(by_way)
    }

    /// The port to an address on this side.
    fn port(&self, address: Address, is_inside: bool) -> u16 {
        let routed = self.routes.lookup(address).map(|port| port as u16);
        let is_there = |port: &u16| self.inside_ports.contains(port) == is_inside;
        let routed = routed.filter(is_there);
        routed.unwrap_or_else(|| self.first(is_inside))
    }

    /// The first port on this side.
    fn first(&self, is_inside: bool) -> u16 {
        let is_there = |port: &u16| self.inside_ports.contains(port) == is_inside;
        (0..self.ports).find(is_there).unwrap_or(0)
    }
}

fn source(bytes: &[u8]) -> Option<Address> {
    let layout = dissect(bytes).ok().filter(|layout| layout.is_ip())?;
    Some(fields::source_address(bytes, &layout))
}

/// The ports that the chain's router sends packets to, as far as the service file itself has routes.
fn routes(service: &Service) -> RouteTable {
    let mut each = service.chain.iter();
    let routes = each.find_map(|instance| instance.config.routed_ports());
    let routes = routes.unwrap_or_default();
    let mut table = RouteTable::new(RouteLimits {
        v4: routes.len(),
        v6: routes.len(),
    });
    for (prefix, port) in routes {
        // The limits count all of them.
        let _ = table.insert(prefix, port.into());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use twinpath_core::wire::PacketBuilder;

    const GATEWAY: &str = r#"
[service]
chain = ["router"]
ports = ["uplink", "site", "peer"]
inside = ["10.0.0.0/8"]
inside_ports = ["site"]
[router]
next_hops = [
    { name = "u", mac = "02:00:00:00:01:01", source_mac = "02:00:00:00:00:01", port = "uplink" },
    { name = "s", mac = "02:00:00:00:02:01", source_mac = "02:00:00:00:00:02", port = "site" },
    { name = "p", mac = "02:00:00:00:03:01", source_mac = "02:00:00:00:00:03", port = "peer" },
]
routes = [
    { to = "0.0.0.0/0", via = "u" }, { to = "10.0.0.0/8", via = "s" },
    { to = "192.0.2.0/24", via = "p" }, { to = "10.9.0.0/16", via = "p" },
]
"#;

    fn ingress(text: &str) -> Ingress {
        let service = Service::parse(text, Path::new("test.toml"));
        Ingress::of(&service.unwrap_or_else(|error| panic!("{error}")))
    }

    fn packet(from: &str) -> Vec<u8> {
        let to = "198.51.100.1:5".parse().expect("an endpoint");
        let packet = PacketBuilder::udp(from.parse().expect(from), to);
        packet.to_vec().expect("short")
    }

    #[test]
    fn sources_tell_by_which_port_packets_came_in() {
        let ingress = ingress(GATEWAY);
        for (from, port) in [
            ("10.0.0.1:5", 1),
            ("8.8.8.8:5", 0),
            ("192.0.2.7:5", 2),
            ("10.9.0.1:5", 1),
        ] {
            assert_eq!(ingress.of_captured(&packet(from)), Some(port), "{from}");
            for flow in [Flow::ToServer, Flow::ToClient] {
                assert_eq!(ingress.of_generated(&packet(from), flow), port);
            }
        }
        assert_eq!(ingress.of_captured(&[0; 60]), None, "no IP");
    }

    #[test]
    fn where_no_networks_are_inside_hosts_are() {
        let text = "[service]\nchain = [\"monitor\"]\nports = [\"world\", \"site\"]\n";
        let by_port = ingress(&format!("{text}inside_ports = [\"site\"]\n"));
        let bytes = packet("10.0.0.1:5");
        assert_eq!(by_port.of_captured(&bytes), None);
        assert_eq!(by_port.of_generated(&bytes, Flow::ToServer), 1);
        assert_eq!(by_port.of_generated(&bytes, Flow::ToClient), 0);
        let by_source = ingress(text);
        assert_eq!(by_source.of_generated(&bytes, Flow::ToServer), 0);
        assert_eq!(by_source.of_generated(&bytes, Flow::ToClient), 1);
    }
}
