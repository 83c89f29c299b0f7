//! Routes with the prefix lengths of the Internet's tables.

use std::collections::BTreeSet;

use twinpath_core::wire::Address;

use super::Random;
use crate::Prefix;

/// Shares in thousandths of IPv4 routes with each length, as route collectors see them: three
/// fifths are `/24`, and nothing but a few internal routes is longer.
const V4_LENGTHS: [(u8, u32); 20] = [
    (8, 1),
    (10, 1),
    (11, 1),
    (12, 1),
    (13, 1),
    (14, 2),
    (15, 2),
    (16, 13),
    (17, 8),
    (18, 14),
    (19, 25),
    (20, 44),
    (21, 52),
    (22, 110),
    (23, 100),
    (24, 612),
    (27, 1),
    (29, 3),
    (30, 4),
    (32, 5),
];

/// The same of IPv6 routes: nearly half are `/48`.
const V6_LENGTHS: [(u8, u32); 16] = [
    (20, 1),
    (24, 2),
    (28, 5),
    (29, 35),
    (30, 5),
    (31, 3),
    (32, 115),
    (33, 20),
    (34, 25),
    (36, 50),
    (38, 20),
    (40, 110),
    (42, 20),
    (44, 100),
    (46, 30),
    (48, 459),
];

/// At least as many distinct IPv4 routes as the space of these lengths allows, up to `count`,
/// with next hops below 1024. Half of the long ones lie close together within allocations.
#[must_use]
pub fn routes_v4(count: usize, seed: u64) -> Vec<(Prefix, u32)> {
    let mut random = Random::new(seed);
    let blocks: Vec<u32> = (0..count / 40 + 1).map(|_| unicast(&mut random)).collect();
    distinct(count, &mut random, |random| {
        let length = random.weighted(&V4_LENGTHS).unwrap_or(24);
        let spread = match random.below(2) {
            0 => unicast(random),
            _ => {
                let block = blocks[random.below(blocks.len() as u64) as usize];
                block & 0xffff_c000 | random.bits() as u32 & 0x3fff
            }
        };
        Prefix::covering(Address::from_v4(spread.to_be_bytes()), length)
    })
}

/// An address from 1.0.0.0 to 223.255.255.255.
fn unicast(random: &mut Random) -> u32 {
    0x0100_0000 + random.below(0xdf00_0000) as u32
}

/// Up to `count` distinct IPv6 routes within `2000::/6`, most of them within few thousand
/// allocations of 32 bits, with next hops below 1024.
#[must_use]
pub fn routes_v6(count: usize, seed: u64) -> Vec<(Prefix, u32)> {
    let mut random = Random::new(seed);
    let blocks: Vec<u128> = (0..count / 10 + 1)
        .map(|_| allocation(&mut random))
        .collect();
    distinct(count, &mut random, |random| {
        let length = random.weighted(&V6_LENGTHS).unwrap_or(48);
        let block = match length {
            0..32 => allocation(random),
            _ => blocks[random.below(blocks.len() as u64) as usize],
        };
        // Operators number from the start of their block.
        let host = u128::from(random.bits() >> random.below(12)) << 32;
        Prefix::covering(Address(block | host), length)
    })
}

fn allocation(random: &mut Random) -> u128 {
    let registry = [0x2001, 0x2400, 0x2600, 0x2800, 0x2a00, 0x2c00];
    let top = registry[random.below(6) as usize] + random.below(0x10) as u128;
    top << 112 | u128::from(random.below(1 << 16)) << 96
}

fn distinct(
    count: usize,
    random: &mut Random,
    mut next: impl FnMut(&mut Random) -> Prefix,
) -> Vec<(Prefix, u32)> {
    let mut seen = BTreeSet::new();
    let mut routes = Vec::with_capacity(count);
    // Short prefixes run out; the number of attempts does not.
    for _ in 0..count * 8 {
        if routes.len() == count {
            break;
        }
        let prefix = next(random);
        if seen.insert((prefix.network(), prefix.length())) {
            routes.push((prefix, random.below(1024) as u32));
        }
    }
    routes
}

/// Addresses that random routes of the table cover, in random order.
#[must_use]
pub fn addresses(routes: &[(Prefix, u32)], count: usize, seed: u64) -> Vec<Address> {
    let mut random = Random::new(seed);
    (0..count)
        .filter_map(|_| {
            let (prefix, _) = routes.get(random.below(routes.len() as u64) as usize)?;
            Some(within(prefix, &mut random))
        })
        .collect()
}

/// A random address of a prefix; of either version if it is of both.
pub(super) fn within(prefix: &Prefix, random: &mut Random) -> Address {
    let host = u128::from(random.bits()) << 64 | u128::from(random.bits());
    let bits = if prefix.network().is_v4() { 32 } else { 128 };
    let free = bits - u32::from(prefix.length());
    let mask = 1u128.checked_shl(free).unwrap_or(0).wrapping_sub(1);
    Address(prefix.network().0 | host & mask)
}
