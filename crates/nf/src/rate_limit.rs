//! How many packets the router sends of its own accord.

use twinpath_core::HashKey;
use twinpath_core::Instant;
use twinpath_core::wire::Address;

/// Networks that are told apart; those that share a place share its allowance.
const PLACES: usize = 4096;

const SECOND_NS: u64 = 1_000_000_000;

/// An allowance that fills up at a rate, up to as much as a second gives (a token bucket, told by
/// the time at which it will be full again).
#[derive(Copy, Clone, Debug, Default)]
struct Bucket {
    full_at: u64,
}

impl Bucket {
    /// Whether one more may be sent now, at this rate.
    const fn has_one(&self, now: u64, per_second: u32) -> bool {
        per_second > 0 && self.full_at.saturating_sub(now) <= SECOND_NS - cost(per_second)
    }

    fn take_one(&mut self, now: u64, per_second: u32) {
        self.full_at = self.full_at.max(now) + cost(per_second);
    }
}

const fn cost(per_second: u32) -> u64 {
    match per_second {
        0 => SECOND_NS,
        rate => SECOND_NS / rate as u64,
    }
}

/// Limits what is sent, to each network and overall, by packet time.
#[derive(Debug)]
pub(crate) struct RateLimit {
    pub per_second: u32,
    pub per_source: u32,
    hash_key: HashKey,
    all: Bucket,
    networks: Box<[Bucket; PLACES]>,
}

impl RateLimit {
    pub fn new(per_second: u32, per_source: u32, seed: u64) -> Self {
        Self {
            per_second,
            per_source,
            hash_key: HashKey::new(seed),
            all: Bucket::default(),
            networks: Box::new([Bucket::default(); PLACES]),
        }
    }

    /// Whether one may be sent to this address now; if so it counts.
    pub fn allows(&mut self, to: Address, now: Instant) -> bool {
        let bucket = &mut self.networks[place(to, &self.hash_key)];
        let has_both =
            bucket.has_one(now.0, self.per_source) && self.all.has_one(now.0, self.per_second);
        if has_both {
            bucket.take_one(now.0, self.per_source);
            self.all.take_one(now.0, self.per_second);
        }
        has_both
    }

    /// What was sent before counts.
    pub fn continue_from(&mut self, before: &Self) {
        (self.hash_key, self.all) = (before.hash_key, before.all);
        self.networks.copy_from_slice(before.networks.as_slice());
    }
}

/// The place of an address's network.
fn place(address: Address, hash_key: &HashKey) -> usize {
    let network = match address.is_v4() {
        true => (address.0 as u64) >> 8,
        false => (address.0 >> 64) as u64,
    };
    let version = u64::from(address.is_v4());
    hash_key.hash([network, version]) as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Instant {
        Instant(milliseconds * 1_000_000)
    }

    fn sent(limit: &mut RateLimit, to: &str, now: Instant) -> usize {
        let to: Address = to.parse().expect(to);
        (0..1000).filter(|_| limit.allows(to, now)).count()
    }

    #[test]
    fn a_bucket_gives_a_seconds_worth_at_once_and_then_its_rate() {
        let mut limit = RateLimit::new(1000, 10, 1);
        assert_eq!(sent(&mut limit, "192.0.2.1", at(5000)), 10);
        assert_eq!(sent(&mut limit, "192.0.2.77", at(5099)), 0, "its network");
        assert_eq!(sent(&mut limit, "192.0.2.1", at(5100)), 1);
        assert_eq!(sent(&mut limit, "192.0.2.1", at(5550)), 4);
        assert_eq!(sent(&mut limit, "192.0.2.1", at(60_000)), 10);
    }

    #[test]
    fn all_networks_together_have_a_limit() {
        let mut limit = RateLimit::new(15, 10, 1);
        assert_eq!(sent(&mut limit, "192.0.2.1", at(1)), 10);
        assert_eq!(sent(&mut limit, "2001:db8::1", at(1)), 5);
        assert_eq!(sent(&mut limit, "2001:db8:0:0:8::1", at(2)), 0);
        assert_eq!(sent(&mut limit, "198.51.100.1", at(2)), 0);
        let mut none = RateLimit::new(0, 10, 1);
        assert_eq!(sent(&mut none, "192.0.2.1", at(9)), 0);
        let mut none = RateLimit::new(10, 0, 1);
        assert_eq!(sent(&mut none, "192.0.2.1", at(9)), 0);
    }
}
