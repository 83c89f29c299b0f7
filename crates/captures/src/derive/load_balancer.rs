//! A load balancer whose services are a capture's busiest servers.

use super::{FunctionText, Lacking, verified};
use crate::expectation::Expectation;
use crate::profile::{Conversation, Profile};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use twinpath_wire::{Endpoint, protocol};

const NAME: &str = "load_balancer";
/// Of each protocol and IP version.
const MOST_SERVICES: usize = 4;
/// Weights of a service's backends.
const WEIGHTS: [u32; 3] = [1, 3, 1];
/// Fresh addresses from here on are backends.
const FIRST_BACKEND: u16 = 0x1000;

impl Profile {
    /// A balancer whose services are the busiest servers of TCP and UDP over IPv4 and IPv6. Beside
    /// functions that make rules it makes rules too, else it shares flow state.
    ///
    /// # Errors
    /// A capture without TCP and UDP between ports.
    pub fn load_balancer(&self) -> Result<FunctionText, Lacking> {
        let services = self.servers();
        if services.is_empty() {
            return Err(Lacking("neither TCP nor UDP"));
        }
        let mut first = FIRST_BACKEND;
        let mut table = format!("[load_balancer]\n{}services = [\n", verified(self));
        for (number, vip) in &services {
            let name = if *number == protocol::TCP {
                "tcp"
            } else {
                "udp"
            };
            let backends: Vec<String> = (first..)
                .zip(WEIGHTS)
                .map(|(at, weight)| {
                    let backend = Endpoint::new(self.fresh.address(at, vip.address), vip.port);
                    format!("{{ endpoint = \"{backend}\", weight = {weight} }}")
                })
                .collect();
            let backends = backends.join(", ");
            table += &format!(
                "    {{ vip = \"{vip}\", protocol = \"{name}\", backends = [{backends}] }},\n"
            );
            first += WEIGHTS.len() as u16;
        }
        let has = |v4: bool| services.iter().any(|(_, vip)| vip.address.is_v4() == v4);
        Ok(FunctionText {
            function: NAME,
            variant: "",
            table: table + "]\n",
            files: Vec::new(),
            expectations: [
                Some(Expectation::counted(NAME, &["new_connections"], 1)),
                self.rewritten(NAME, true, has(true)),
                self.rewritten(NAME, false, has(false)),
            ]
            .into_iter()
            .flatten()
            .collect(),
        })
    }

    /// The busiest servers, with their protocol.
    fn servers(&self) -> Vec<(u8, Endpoint)> {
        let mut packets = BTreeMap::<(u8, Endpoint), u64>::new();
        for conversation in self.conversations.iter().filter(can_be_balanced) {
            let server = (conversation.protocol(), conversation.server);
            *packets.entry(server).or_default() += conversation.packets;
        }
        let mut servers: Vec<_> = packets.into_iter().collect();
        servers.sort_by_key(|(_, packets)| Reverse(*packets));
        let mut taken = BTreeMap::<(u8, bool), usize>::new();
        servers.retain(|((protocol, server), _)| {
            let taken = taken
                .entry((*protocol, server.address.is_v4()))
                .or_default();
            *taken += 1;
            *taken <= MOST_SERVICES
        });
        servers.into_iter().map(|(server, _)| server).collect()
    }
}

fn can_be_balanced(conversation: &&Conversation) -> bool {
    let has_ports = matches!(conversation.protocol(), protocol::TCP | protocol::UDP);
    has_ports && conversation.server.port != 0
}
