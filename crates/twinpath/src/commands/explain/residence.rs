//! How many flows find a slot.

/// The share of `flows` flows that hold a slot when each that finds one free keeps it, in a table
/// of `buckets` buckets of `ways` slots.
///
/// Hashing puts a number of flows into each bucket that follows Poisson's law with the mean `load =
/// flows / buckets`; a bucket with `k` flows keeps `min(k, ways)` of them and leaves `ways - k`
/// slots unused if there are fewer. So a bucket keeps `ways - sum over k < ways of (ways - k) *
/// P(k)` flows of its `load`. With one way that is the `(1 - e^-load) / load` of a switch. With
/// several, flows that find their bucket full try another, which is to each bucket as if more
/// flows came: see [`with_second_choice`].
pub fn resident_share(flows: usize, buckets: usize, ways: usize) -> f64 {
    if flows == 0 || buckets == 0 {
        return 1.0;
    }
    let load = flows as f64 / buckets as f64;
    let tried = match ways {
        1 => load,
        _ => with_second_choice(load, ways),
    };
    let Bucket { unused, .. } = Bucket::with(tried, ways);
    ((ways as f64 - unused) / load).clamp(0.0, 1.0)
}

/// Flows that try each bucket when `load` flows have it for their first choice. The share of flows
/// that come while a bucket is full try a second, so this grows by `1 + P(full)` with each flow
/// that comes.
fn with_second_choice(load: f64, ways: usize) -> f64 {
    const STEPS: u32 = 2_000;
    let step = load / f64::from(STEPS);
    (0..STEPS).fold(0.0, |tried, _| {
        tried + step * (1.0 + Bucket::with(tried, ways).full)
    })
}

/// What to expect of a bucket.
struct Bucket {
    /// The probability that it is full.
    full: f64,
    /// Its unused slots.
    unused: f64,
}

impl Bucket {
    /// Of one that a number of flows with the mean `tried` tries.
    fn with(tried: f64, ways: usize) -> Self {
        let mut probability = (-tried).exp();
        let mut bucket = Self {
            full: 1.0,
            unused: 0.0,
        };
        for k in 0..ways {
            bucket.full -= probability;
            bucket.unused += (ways - k) as f64 * probability;
            probability *= tried / (k + 1) as f64;
        }
        bucket
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::{FlowKey, HashKey};
    use twinpath_fastpath::StateTable;

    /// Several times, for what one hash finds is chance.
    const SEEDS: u64 = 8;

    /// Puts flows into real tables.
    fn measured_share(flows: usize, slots: usize, ways: usize) -> f64 {
        let shares = (0..SEEDS).map(|seed| share_of_table(flows, slots, ways, seed));
        shares.sum::<f64>() / SEEDS as f64
    }

    fn share_of_table(flows: usize, slots: usize, ways: usize, seed: u64) -> f64 {
        let mut table = StateTable::new(slots, ways, 1);
        let mut resident = 0;
        for number in 0..flows as u64 {
            let key = FlowKey([number, 1, 2, 3, 4]);
            let hash = key.hash(&HashKey::new(seed));
            if let Some(slot) = table.vacant(hash, |control| control[0] == 0) {
                table.assign(slot, &key, hash);
                table.set_control(slot, [1, 0, 0, 0, 0]);
                resident += 1;
            }
        }
        f64::from(resident) / flows as f64
    }

    #[test]
    fn the_formula_is_what_the_table_does() {
        for ways in [1, 2, 4, 8] {
            for flows in [4_000, 16_384, 60_000] {
                let (expected, found) = (
                    resident_share(flows, 16_384 / ways, ways),
                    measured_share(flows, 16_384, ways),
                );
                assert!(
                    (expected - found).abs() < 0.01,
                    "{flows} flows, {ways} ways: {found}, not {expected}"
                );
            }
        }
    }

    #[test]
    fn one_way_is_a_switch() {
        let load: f64 = 2.0;
        assert!((resident_share(2000, 1000, 1) - (1.0 - (-load).exp()) / load).abs() < 1e-12);
    }

    #[test]
    fn few_flows_all_find_a_slot() {
        assert_eq!(resident_share(0, 0, 4), 1.0);
        assert!(resident_share(1, 1 << 26, 8) > 0.999);
        assert!(resident_share(1 << 30, 1, 8) < 1e-6);
    }
}
