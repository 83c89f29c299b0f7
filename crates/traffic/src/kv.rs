//! Requests of the key-value protocol.

use twinpath_wire::kv::{KEY_BYTES, KvOp};
use twinpath_wire::{Address, Endpoint};

use crate::config::{Hosts, KeyValue};
use crate::hosts::nth;
use crate::popularity::Chooser;
use crate::random::{Chance, Random, RandomSource, streams};
use crate::validate::FIRST_CLIENT_PORT;

/// Makes one request after the other.
#[derive(Debug, Clone)]
pub(crate) struct KvSource {
    random: Random,
    share: Chance,
    get: Chance,
    keys: Chooser,
    key_count: u64,
    clients: u32,
    first_client: Address,
    client_addresses: u32,
    server: Endpoint,
    value_bytes: u16,
    sequence: u32,
    preloaded: u64,
}

/// One request, but for its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KvRequest {
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
    pub(crate) op: KvOp,
    pub(crate) key: u64,
    pub(crate) sequence: u32,
    pub(crate) value_bytes: u16,
}

impl KvSource {
    pub(crate) fn new(config: &KeyValue, hosts: &Hosts, seed: u64) -> Self {
        let server = Endpoint::new(config.server_address.into(), config.server_port);
        let v4 = server.address.is_v4();
        Self {
            random: Random::stream(seed, streams::KEY_VALUE),
            share: Chance::new(config.share),
            get: Chance::new(config.get_share),
            keys: Chooser::new(&config.popularity, config.keys),
            key_count: config.keys,
            clients: config.clients,
            first_client: if v4 {
                hosts.first_client_v4.into()
            } else {
                hosts.first_client_v6.into()
            },
            client_addresses: hosts.clients,
            server,
            value_bytes: config.value_bytes,
            sequence: 0,
            preloaded: if config.preload { 0 } else { config.keys },
        }
    }

    /// Whether the next packet is a request.
    pub(crate) fn is_next(&mut self) -> bool {
        self.is_preloading() || self.share.draw(&mut self.random)
    }

    /// Whether keys are still being written for the first time.
    pub(crate) fn is_preloading(&self) -> bool {
        self.preloaded < self.key_count
    }

    /// The next request.
    pub(crate) fn next(&mut self) -> KvRequest {
        let client = self.client();
        let (op, key) = if self.is_preloading() {
            self.preloaded += 1;
            (KvOp::Put, self.preloaded - 1)
        } else {
            let get = self.get.draw(&mut self.random);
            (
                if get { KvOp::Get } else { KvOp::Put },
                self.keys.choose(&mut self.random),
            )
        };
        self.sequence = self.sequence.wrapping_add(1);
        let value_bytes = if op == KvOp::Put { self.value_bytes } else { 0 };
        let (server, sequence) = (self.server, self.sequence);
        KvRequest {
            client,
            server,
            op,
            key,
            sequence,
            value_bytes,
        }
    }

    fn client(&mut self) -> Endpoint {
        let client = self.random.below(self.clients.into()) as u32;
        let address = nth(self.first_client, client % self.client_addresses);
        let port = FIRST_CLIENT_PORT + (client / self.client_addresses) as u16;
        Endpoint::new(address, port)
    }
}

/// The key with this number: its sixteen hexadecimal digits as text.
pub fn key_bytes(number: u64) -> [u8; KEY_BYTES] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    std::array::from_fn(|place| DIGITS[(number >> (60 - 4 * place)) as usize & 15])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Popularity, TrafficConfig};
    use std::collections::HashSet;

    fn source(config: &KeyValue) -> KvSource {
        KvSource::new(config, &TrafficConfig::default().hosts, 1)
    }

    #[test]
    fn keys_are_readable_and_distinct() {
        assert_eq!(&key_bytes(0xabc), b"0000000000000abc");
        assert_eq!(&key_bytes(u64::MAX), b"ffffffffffffffff");
    }

    #[test]
    fn shares_of_reads_keys_and_clients_hold() {
        let config = KeyValue {
            get_share: 0.9,
            keys: 10,
            popularity: Popularity::Uniform {},
            clients: 5000,
            ..KeyValue::default()
        };
        let mut source = source(&config);
        let requests: Vec<KvRequest> = (0..100_000).map(|_| source.next()).collect();
        let gets = requests.iter().filter(|r| r.op == KvOp::Get).count();
        assert!((89_400..90_600).contains(&gets), "{gets}");
        let first = requests.iter().filter(|r| r.key == 0).count();
        assert!((9_500..10_500).contains(&first), "{first}");
        let clients: HashSet<Endpoint> = requests.iter().map(|r| r.client).collect();
        assert_eq!(clients.len(), 5000);
        assert!(
            requests
                .iter()
                .all(|r| (r.value_bytes == 0) == (r.op == KvOp::Get))
        );
    }

    #[test]
    fn sequences_count_up() {
        let mut source = source(&KeyValue::default());
        assert_eq!([source.next().sequence, source.next().sequence], [1, 2]);
    }

    #[test]
    fn preloading_writes_every_key_once_and_first() {
        let mut source = source(&KeyValue {
            keys: 3,
            preload: true,
            share: 0.0,
            ..KeyValue::default()
        });
        for key in 0..3 {
            assert!(source.is_next() && source.is_preloading());
            let request = source.next();
            assert_eq!((request.op, request.key), (KvOp::Put, key));
        }
        assert!(!source.is_preloading() && !source.is_next());
    }
}
