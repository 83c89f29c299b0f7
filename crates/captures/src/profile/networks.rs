//! Networks of a capture: which to call inside, and which it does not use.

use super::Conversation;
use std::collections::{BTreeMap, HashSet};
use twinpath_classify::Prefix;
use twinpath_wire::{Address, Endpoint};

/// Most prefixes inside, of each IP version.
const MOST_INSIDE: usize = 4;

/// The network that an address is counted to where subnets are compared.
pub fn subnet(address: Address) -> Prefix {
    Prefix::covering(address, if address.is_v4() { 24 } else { 64 })
}

/// The networks of the busiest clients, of both IP versions: as many that most packets are of
/// connections that leave them, and some, if there are any, of connections opened elsewhere.
pub(super) fn inside(conversations: &[Conversation]) -> Vec<Prefix> {
    let of_version = |v4: bool, lengths: &[u8]| {
        let of_version: Vec<_> = conversations.iter().filter(|c| c.is_v4() == v4).collect();
        let candidates = lengths
            .iter()
            .flat_map(|&length| candidates(&of_version, length));
        candidates.max_by_key(|inside| worth(inside, &of_version))
    };
    let networks = [
        of_version(true, &[32, 24, 16]),
        of_version(false, &[128, 64, 48]),
    ];
    networks.into_iter().flatten().flatten().collect()
}

/// The one busiest network of clients of this length, the two busiest, and so on.
fn candidates(conversations: &[&Conversation], length: u8) -> Vec<Vec<Prefix>> {
    let mut packets = BTreeMap::<String, (u64, Prefix)>::new();
    for conversation in conversations {
        let prefix = Prefix::covering(conversation.client.address, length);
        packets.entry(prefix.to_string()).or_insert((0, prefix)).0 += conversation.packets;
    }
    let mut networks: Vec<_> = packets.into_values().collect();
    networks.sort_by_key(|(packets, _)| std::cmp::Reverse(*packets));
    let networks: Vec<Prefix> = networks.into_iter().map(|(_, prefix)| prefix).collect();
    (1..=networks.len().min(MOST_INSIDE))
        .map(|count| networks[..count].to_vec())
        .collect()
}

/// The better, the more packets are of connections from inside to outside, as long as at least a
/// quarter as many are of connections from outside; without such ones the former alone.
fn worth(inside: &[Prefix], conversations: &[&Conversation]) -> (u64, u64) {
    let has = |end: Endpoint| is_in(inside, end.address);
    let (mut leaving, mut from_outside) = (0, 0);
    for conversation in conversations {
        match (has(conversation.client), has(conversation.server)) {
            (true, false) => leaving += conversation.packets,
            (false, _) => from_outside += conversation.packets,
            (true, true) => {}
        }
    }
    (leaving.min(4 * from_outside), leaving)
}

/// Whether an address lies in one of the prefixes.
pub fn is_in(prefixes: &[Prefix], address: Address) -> bool {
    prefixes.iter().any(|prefix| prefix.includes(address))
}

/// Networks that no packet of the capture names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fresh {
    /// Over IPv4, 16 bits long.
    pub v4: Prefix,
    /// Over IPv6, 48 bits long.
    pub v6: Prefix,
}

impl Fresh {
    pub(super) fn among(addresses: &HashSet<Address>) -> Self {
        let v4 = (0..=255).map(|octet| Prefix::covering(Address::from_v4([100, octet, 0, 0]), 16));
        let v6 = (0..=255_u128)
            .map(|number| Prefix::covering(Address(0x2001_0db8_0000 << 80 | number << 80), 48));
        let unused = |prefix: &Prefix| !addresses.iter().any(|&address| prefix.includes(address));
        // A capture that names addresses in all of these is none of ours.
        Self {
            v4: v4.into_iter().find(unused).unwrap_or(Prefix::ANY),
            v6: v6.into_iter().find(unused).unwrap_or(Prefix::ANY),
        }
    }

    /// The address with this number, of the same IP version as another.
    pub fn address(&self, number: u16, beside: Address) -> Address {
        let network = if beside.is_v4() { self.v4 } else { self.v6 };
        Address(network.network().0 | u128::from(number))
    }

    /// The prefix of an IP version.
    pub fn prefix(&self, v4: bool) -> Prefix {
        if v4 { self.v4 } else { self.v6 }
    }
}
