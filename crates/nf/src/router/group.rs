//! Several next hops that share the flows of a route (ECMP).
//!
//! Which of them a packet gets is told by its addresses alone, as Linux does by itself: so
//! fragments and ICMP messages of a flow go where its other packets go, and there is one cached rule
//! for each pair of hosts. Each member of a group is given a number for the pair, and the
//! largest counts (rendezvous hashing): when a member goes, flows of all others stay where they are.

use twinpath_core::hash::{HashKey, seed_for};
use twinpath_core::wire::Address;

/// Numbers that the members of a group are given for a pair of hosts, all together, at most.
const MOST_DRAWS: u32 = 64;

/// Next hops that share the flows of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHopGroup {
    /// What routes call it; no next hop is called so.
    pub name: String,
    /// The names of the next hops, and the share of each, at least 1.
    pub members: Vec<(String, u16)>,
}

/// A group at work.
#[derive(Debug)]
pub(super) struct Group {
    pub name: String,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    /// The next hop's number.
    number: u32,
    /// The same for the same name, wherever it stands.
    secret: u64,
    draws: u32,
}

impl Group {
    /// Members that are no next hops are left out.
    pub fn new(group: &NextHopGroup, number: impl Fn(&str) -> Option<u32>) -> Self {
        let least = group.members.iter().map(|(_, weight)| *weight).min();
        let least = u32::from(least.unwrap_or(1).max(1));
        let total: u32 = group
            .members
            .iter()
            .map(|(_, weight)| u32::from(*weight))
            .sum();
        // Shares are in proportion, and each member has at least one.
        let unit = least.max(total.div_ceil(MOST_DRAWS)).max(1);
        let member = |(name, weight): &(String, u16)| {
            Some(Member {
                number: number(name)?,
                secret: seed_for(0, name),
                draws: ((u32::from(*weight) + unit / 2) / unit).max(1),
            })
        };
        Self {
            name: group.name.clone(),
            members: group.members.iter().filter_map(member).collect(),
        }
    }

    /// The number of the next hop for packets between two addresses.
    pub fn choose(&self, key: &HashKey, from: Address, to: Address) -> Option<u32> {
        let halves = |address: Address| [(address.0 >> 64) as u64, address.0 as u64];
        let ([a, b], [c, d]) = (halves(from), halves(to));
        let drawn = |member: &Member| {
            let draws = (0..member.draws).map(|draw| {
                let secret = member.secret ^ u64::from(draw);
                key.hash([a, b, c, d, secret])
            });
            draws.max()
        };
        let best = self.members.iter().max_by_key(|member| drawn(member));
        best.map(|member| member.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(members: &[(&str, u16)]) -> Group {
        let members = members
            .iter()
            .map(|(name, weight)| ((*name).to_owned(), *weight));
        let named = NextHopGroup {
            name: "all".into(),
            members: members.collect(),
        };
        Group::new(&named, |name| name.bytes().next().map(u32::from))
    }

    fn chosen(group: &Group) -> Vec<u32> {
        let key = HashKey::new(7);
        let from = Address::from_v4([10, 0, 0, 1]);
        let to = |number: u32| Address::from_v4(number.to_be_bytes());
        let choose = |number| group.choose(&key, from, to(number)).expect("members");
        (0..4000).map(choose).collect()
    }

    #[test]
    fn members_get_their_shares() {
        for (weights, expected) in [([1, 1], 2000), ([1, 3], 1000), ([256, 256], 2000)] {
            let group = group(&[("a", weights[0]), ("b", weights[1])]);
            let of_first = chosen(&group).iter().filter(|hop| **hop == 97).count();
            assert!(of_first.abs_diff(expected) < 200, "{weights:?}: {of_first}");
        }
    }

    #[test]
    fn flows_of_others_stay_where_one_goes() {
        let (before, after) = (
            group(&[("a", 1), ("b", 1), ("c", 1)]),
            group(&[("c", 1), ("a", 1)]),
        );
        for (old, new) in chosen(&before).into_iter().zip(chosen(&after)) {
            assert!(old == new || old == u32::from(b'b'));
        }
        assert_eq!(
            group(&[]).choose(&HashKey::new(1), Address(1), Address(2)),
            None
        );
    }
}
