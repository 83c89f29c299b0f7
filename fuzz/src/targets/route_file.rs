//! Any text: a file of routes is taken or refused with its line; where it is taken, the table finds
//! what looking at every route finds.

use twinpath_classify::Prefix;
use twinpath_classify::lpm::{RouteLimits, RouteTable};
use twinpath_nf::router::{NextHopNames, read_routes};
use twinpath_wire::Address;

/// Of two routes to one prefix the later counts.
fn longest(routes: &[(Prefix, u32)], address: Address) -> Option<u32> {
    let matching = routes.iter().filter(|(prefix, _)| prefix.includes(address));
    matching
        .max_by_key(|(prefix, _)| prefix.length())
        .map(|(_, next_hop)| *next_hop)
}

/// One input.
pub fn run(text: &str) {
    let next_hops = NextHopNames::new(["a", "b"]);
    let lines = text.lines().count();
    let mut table = RouteTable::new(RouteLimits { v4: 512, v6: 512 });
    let mut routes = Vec::new();
    for route in read_routes(text, &next_hops) {
        match route {
            Ok((prefix, next_hop)) if table.insert(prefix, next_hop).is_ok() => {
                routes.push((prefix, next_hop))
            }
            Ok(_) => break,
            Err(wrong) => assert!((1..=lines).contains(&wrong.line)),
        }
    }
    for (prefix, _) in routes.iter().take(64) {
        let network = prefix.network();
        for address in [
            network,
            Address(network.0 ^ 1),
            Address(network.0 ^ 1 << 20),
        ] {
            assert_eq!(
                table.lookup(address),
                longest(&routes, address),
                "{address}"
            );
        }
    }
}
