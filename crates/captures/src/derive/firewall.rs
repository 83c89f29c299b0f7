//! A firewall that allows some of a capture's connections, from both sides, and denies others.

use super::slice::{Matches, OneDirection, by_protocol, slice};
use super::{FunctionText, Lacking, verified};
use crate::expectation::{Evidence, Expectation};
use crate::profile::Profile;
use crate::profile::networks::{is_in, subnet};
use std::cmp::Reverse;
use std::collections::HashMap;
use twinpath_classify::Prefix;

const NAME: &str = "firewall";

impl Profile {
    /// A firewall that denies a part of each protocol's connections, allows the others that hosts
    /// inside open and most of those that others open, and denies the rest.
    ///
    /// # Errors
    /// A capture without a whole IP packet.
    pub fn firewall(&self) -> Result<FunctionText, Lacking> {
        let ways = || self.conversations.iter().map(OneDirection::first);
        let groups = by_protocol(ways());
        if groups.is_empty() {
            return Err(Lacking("no conversation"));
        }
        let denied: Vec<_> = groups.iter().filter_map(|ways| slice(ways)).collect();
        let deny = denied
            .iter()
            .map(|part| format!("    {{ action = \"deny\", {part} }},\n"));
        let inside = self.inside.iter();
        let leave =
            inside.map(|from| format!("    {{ action = \"allow\", from = \"{from}\" }},\n"));
        let enter = self.entered(&denied);
        let enter = enter.iter();
        let enter = enter.map(|to| format!("    {{ action = \"allow\", to = \"{to}\" }},\n"));
        let rules: String = deny.chain(leave).chain(enter).collect();
        let mut expectations = vec![Expectation::counted(NAME, &["connections_opened"], 1)];
        if !denied.is_empty() {
            expectations.push(Expectation {
                function: NAME,
                seen: Evidence::Dropped("denied"),
                at_least: 1,
            });
        }
        Ok(FunctionText {
            function: NAME,
            variant: "",
            table: format!(
                "[firewall]\ndefault = \"deny\"\n{}rules = [\n{rules}]\n",
                verified(self)
            ),
            files: Vec::new(),
            expectations,
        })
    }

    /// Networks to which connections are opened from outside that are not denied: those with two
    /// thirds of the packets of such connections.
    fn entered(&self, denied: &[Matches]) -> Vec<Prefix> {
        let mut packets = HashMap::<Prefix, u64>::new();
        for way in self.conversations.iter().map(OneDirection::first) {
            let is_denied = denied.iter().any(|part| part.includes(&way));
            if !is_denied && !is_in(&self.inside, way.from.address) {
                *packets.entry(subnet(way.to.address)).or_default() += way.packets;
            }
        }
        let mut networks: Vec<_> = packets.into_iter().collect();
        networks.sort_by_key(|(network, packets)| (Reverse(*packets), network.network()));
        let all: u64 = networks.iter().map(|(_, packets)| packets).sum();
        let mut allowed = 0;
        let mut entered = Vec::new();
        for (network, packets) in networks {
            if 3 * allowed < 2 * all {
                entered.push(network);
            }
            allowed += packets;
        }
        entered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_io::Trace;
    use twinpath_wire::{Endpoint, PacketBuilder};

    #[test]
    fn connections_from_both_sides_are_allowed_and_a_part_is_denied() {
        let mut trace = Trace::new();
        let mut send = |from: &str, to: &str, packets: u64| {
            let ends: [Endpoint; 2] = [from, to].map(|end| end.parse().expect("an endpoint"));
            let packet = PacketBuilder::udp(ends[0], ends[1]).to_vec();
            (0..packets).for_each(|at_ns| trace.push(at_ns, packet.as_ref().expect("a packet")));
        };
        send("10.0.0.1:5000", "192.0.2.1:53", 30);
        send("10.0.0.1:5000", "192.0.3.1:123", 9);
        send("198.51.100.7:6000", "203.0.113.9:53", 8);
        let firewall = Profile::of(&trace).firewall().expect("conversations");
        let expected = "rules = [\n    \
            { action = \"deny\", protocol = \"udp\", to = \"192.0.3.0/24\", to_port = \"120-127\" },\n    \
            { action = \"allow\", from = \"10.0.0.0/16\" },\n    \
            { action = \"allow\", to = \"203.0.113.0/24\" },\n]";
        assert!(firewall.table.contains(expected), "{}", firewall.table);
        assert_eq!(firewall.expectations.len(), 2);
    }
}
