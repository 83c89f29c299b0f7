//! Key-value requests in the shape of a capture.

use std::collections::HashMap;
use twinpath_core::key::Role;
use twinpath_core::{FlowKey, HashKey, Side, Steering};
use twinpath_io::Trace;
use twinpath_traffic::key_bytes;
use twinpath_traffic::popularity::Zipf;
use twinpath_traffic::random::{FlowRandom, RandomSource};
use twinpath_wire::kv::{DEFAULT_PORT, KvOp, KvRepr, MAX_MESSAGE_BYTES, MAX_VALUE_BYTES};
use twinpath_wire::{Endpoint, PacketBuilder, dissect};

/// Each key is asked for so often on average.
const REQUESTS_PER_KEY: u64 = 20;
/// As in YCSB.
const EXPONENT: f64 = 0.99;
/// Of a hundred requests, so many read, and so many of the others write; the rest deletes.
const GETS: u64 = 70;
const PUTS: u64 = 25;

/// Each whole packet of the capture as a request: at the same time, from the first end of its
/// conversation that was heard to the other one's address. Keys follow Zipf's law; keys,
/// operations and values are drawn from the hash of the conversation's name, so that the same
/// capture gives the same requests.
pub fn key_value_requests(trace: &Trace) -> Trace {
    let mut clients = HashMap::<FlowKey, Client>::new();
    let keys = Zipf::new((trace.len() as u64 / REQUESTS_PER_KEY).max(2), EXPONENT);
    let mut requests = Trace::new();
    for (sequence, frame) in (1..).zip(trace.iter()) {
        let layout = dissect(frame.frame).ok();
        let keyed = layout.and_then(|layout| Steering::new(0).key(frame.frame, &layout));
        let Some(keyed) = keyed.filter(|keyed| keyed.role == Role::Member) else {
            continue;
        };
        let new = || Client::new(&keyed.key, keyed.side);
        let client = clients.entry(keyed.key).or_insert_with(new);
        if let Some(request) = client.request(&keys, sequence) {
            requests.push(frame.timestamp_ns, &request);
        }
    }
    requests
}

struct Client {
    client: Endpoint,
    server: Endpoint,
    random: FlowRandom,
}

impl Client {
    fn new(key: &FlowKey, side: Side) -> Self {
        let own = key.end(side);
        // A client at the store's own port would get its answers refused.
        let port = if own.port == DEFAULT_PORT {
            1
        } else {
            own.port
        };
        Self {
            client: Endpoint::new(own.address, port),
            server: Endpoint::new(key.end(side.other()).address, DEFAULT_PORT),
            random: FlowRandom::new(0, key.hash(&HashKey::new(0))),
        }
    }

    /// The next request; `None` between addresses that no UDP goes between.
    fn request(&mut self, keys: &Zipf, sequence: u32) -> Option<Vec<u8>> {
        let key = key_bytes(keys.sample(&mut self.random));
        let op = match self.random.below(100) {
            0..GETS => KvOp::Get,
            number if number < GETS + PUTS => KvOp::Put,
            _ => KvOp::Delete,
        };
        let value = [sequence as u8; MAX_VALUE_BYTES];
        let length = self.random.below(MAX_VALUE_BYTES as u64 + 1) as usize;
        let value = if op == KvOp::Put {
            &value[..length]
        } else {
            &[]
        };
        let mut message = [0; MAX_MESSAGE_BYTES];
        let written = KvRepr::request(op, sequence, key, value)
            .emit(&mut message)
            .ok()?;
        let request = PacketBuilder::udp(self.client, self.server).payload(&message[..written]);
        request.to_vec().ok()
    }
}
