use super::*;
use crate::FlowKey;
use crate::wire::{Address, Endpoint};

/// Keys that collided under the hash before this one, which hid its factors behind numbers that all
/// could read. The first two did so under any seed.
fn chosen() -> [(&'static str, Vec<FlowKey>); 4] {
    let connection = |one, other, protocol| FlowKey::connection(one, other, protocol).0;
    let entry = |number: u32| {
        let mut key = *b"\x9e\x37\x79\xb9\x7f\x4a\x7c\x15        ";
        key[12..].copy_from_slice(&number.to_be_bytes());
        FlowKey::entry(key)
    };
    let interface = |number: u32| {
        let host = Address(0x2001_0db8 << 96 | 0x243f_6a88_85a3_08d3);
        let server = Address(0x2001_0db8_ffff << 80 | u128::from(number));
        connection(Endpoint::new(host, 1), Endpoint::new(server, 443), 6)
    };
    let v4 = |server, client_port, server_port, protocol| {
        move |number: u32| {
            let client = 0xe000_0000_u32 + number;
            let client = Endpoint::v4(client.to_be_bytes(), client_port);
            connection(Endpoint::v4(server, server_port), client, protocol)
        }
    };
    let all = |key: &dyn Fn(u32) -> FlowKey| (0..60_000).map(key).collect();
    [
        ("key-value keys", all(&entry)),
        ("an interface id", all(&interface)),
        (
            "TCP, seed 0",
            all(&v4([0x6c, 0x95, 0xe2, 0x4b], 0x0be8, 0xa98f, 6)),
        ),
        (
            "UDP, seed 0",
            all(&v4([0xd2, 0x0d, 0x83, 0x3e], 0x2960, 0xe635, 17)),
        ),
    ]
}

/// Variance over mean of the load of 4096 buckets, 1 by chance, by each part of the hash that tables
/// use.
fn unevenness(hashes: &[u64]) -> [f64; 4] {
    const BUCKETS: usize = 4096;
    let mean = hashes.len() as f64 / BUCKETS as f64;
    [0, 16, 32, 48].map(|shift| {
        let mut load = vec![0u32; BUCKETS];
        for hash in hashes {
            load[(hash >> shift) as usize % BUCKETS] += 1;
        }
        let squares = load.iter().map(|&load| (f64::from(load) - mean).powi(2));
        squares.sum::<f64>() / BUCKETS as f64 / mean
    })
}

fn assert_spread(what: &str, seed: u64, hashes: &[u64]) {
    for part in unevenness(hashes) {
        assert!((0.85..1.15).contains(&part), "{what}, seed {seed}: {part}");
    }
}

const SEEDS: [u64; 5] = [0, 1, 42, 0x9e37_79b9_7f4a_7c15, u64::MAX];

#[test]
fn chosen_keys_spread_as_by_chance() {
    for (what, keys) in chosen() {
        for seed in SEEDS {
            let under = HashKey::new(seed);
            let hashes: Vec<_> = keys.iter().map(|key| key.hash(&under)).collect();
            assert_spread(what, seed, &hashes);
        }
    }
}

/// Keys that fall into one bucket of 256 under one seed do as others under the next.
#[test]
fn what_collides_under_one_seed_does_not_under_another() {
    let key = |number: u64| FlowKey([0, 0xffff_0a00_0000 | number, 0, 0xffff_0909_0909, 7 << 48]);
    for seed in SEEDS {
        let under = HashKey::new(seed);
        let colliding = |key: &FlowKey| key.hash(&under).is_multiple_of(256);
        let keys: Vec<_> = (0..1 << 22).map(key).filter(colliding).collect();
        assert!(keys.len() > 15_000);
        let other = HashKey::new(seed ^ 1);
        let hashes: Vec<_> = keys.iter().map(|key| key.hash(&other)).collect();
        assert_spread("chosen under another seed", seed ^ 1, &hashes);
    }
}

/// Sequential keys, the worst realistic case, in each word.
#[test]
fn sequential_keys_spread_as_by_chance() {
    for seed in SEEDS {
        let under = HashKey::new(seed);
        for word in 0..5 {
            for shift in [0, 16, 32, 48] {
                let key = |number: u64| {
                    let mut key = FlowKey([0, 7, 0, 7, 6 << 24]);
                    key.0[word] ^= number << shift;
                    key.hash(&under)
                };
                let hashes: Vec<_> = (0..65_536).map(key).collect();
                assert_spread(&format!("word {word} << {shift}"), seed, &hashes);
            }
        }
    }
}

/// Changing one input bit changes each output bit about half of the time.
#[test]
fn avalanche() {
    let under = HashKey::new(9);
    let base = [1u64, 2, 3, 4, 5, 6, 7];
    let mut flipped = 0u32;
    for bit in 0..7 * 64 {
        let mut words = base;
        words[bit / 64] ^= 1 << (bit % 64);
        flipped += (under.hash(words) ^ under.hash(base)).count_ones();
    }
    let share = f64::from(flipped) / (7.0 * 64.0 * 64.0);
    assert!((0.45..0.55).contains(&share), "{share}");
}

#[test]
fn names_and_seeds_make_different_seeds() {
    let seeds = [(0, "a"), (1, "a"), (0, "b"), (0, "ab"), (0, "ba"), (0, "")];
    let made: std::collections::BTreeSet<_> = seeds.map(|(seed, name)| seed_for(seed, name)).into();
    assert_eq!(made.len(), seeds.len());
    assert!(!made.contains(&0));
}
