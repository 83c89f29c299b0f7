//! Random requests: both paths agree with each other and with a plain map.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

fn operation() -> impl Strategy<Value = (KvOp, u8, Vec<u8>)> {
    let op = prop_oneof![4 => Just(KvOp::Get), 4 => Just(KvOp::Put), 1 => Just(KvOp::Delete)];
    let value = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..=128),
        1 => Just(vec![]),
        1 => Just(vec![0; 128]),
    ];
    (op, 0u8..5, value)
}

fn reference(
    store: &mut HashMap<u8, Vec<u8>>,
    op: KvOp,
    key: u8,
    value: &[u8],
) -> (KvStatus, Vec<u8>) {
    match op {
        KvOp::Get => store
            .get(&key)
            .map_or((KvStatus::NotFound, vec![]), |value| {
                (KvStatus::Ok, value.clone())
            }),
        KvOp::Put => {
            store.insert(key, value.to_vec());
            (KvStatus::Ok, vec![])
        }
        KvOp::Delete => match store.remove(&key) {
            Some(_) => (KvStatus::Ok, vec![]),
            None => (KvStatus::NotFound, vec![]),
        },
    }
}

proptest! {
    #[test]
    fn behaves_like_a_map(operations in prop::collection::vec(operation(), 1..200)) {
        let (mut paths, mut map) = (paths(), HashMap::new());
        for (op, key, value) in operations {
            let request = request(op, key, &value);
            let (slow, both) = (paths[0].process(&request, Instant(1)), paths[1].process(&request, Instant(1)));
            prop_assert_eq!(&slow, &both);
            prop_assert_eq!(replied(&request, &slow), reference(&mut map, op, key, &value));
            prop_assert_eq!(slow.words[0] == 0, !map.contains_key(&key));
        }
    }

    /// Whatever the bytes are, both paths do the same with them, and every packet has one fate.
    #[test]
    fn nonsense_is_treated_alike(
        messages in prop::collection::vec((operation(), prop::collection::vec((0usize..40, any::<u8>()), 0..3), any::<bool>()), 1..60),
    ) {
        let mut paths = paths();
        for ((op, key, value), damage, v6) in messages {
            let mut payload = message(op, key, &value);
            for (place, byte) in damage {
                payload.get_mut(place).into_iter().for_each(|target| *target = byte);
            }
            let client = if v6 { endpoint("[2001:db8::7]:4000") } else { endpoint("198.51.100.7:4000") };
            let server = if v6 { Endpoint::new(endpoint("[2001:db8::1]:1").address, DEFAULT_PORT) } else { server() };
            let frame = datagram(client, server, &payload);
            let (slow, both) = (paths[0].process(&frame, Instant(1)), paths[1].process(&frame, Instant(1)));
            prop_assert_eq!(&slow, &both);
            prop_assert_eq!(slow.onward.len() + slow.replies.len() + slow.drops.len(), 1);
        }
    }
}
