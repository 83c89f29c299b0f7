//! The reassembler allocates nothing per packet, once its buffers have been used.

use twinpath_core::key::Role;
use twinpath_core::wire::{Endpoint, PacketBuilder, dissect};
use twinpath_core::{Direction, DropCounters, FlowKey, Instant, Packet, Pools, Side};
use twinpath_nf::reassembler::{Config, Reassembler};
use twinpath_slowpath::{Flow, NetworkFunction, Outbox};

const SEGMENT_BYTES: u32 = 100;

/// A connection whose segments come in a given order.
struct Connection {
    function: Reassembler,
    key: FlowKey,
    words: [u32; 4],
    handle: u32,
    pools: Pools,
    onward: Vec<Packet>,
    forwarded: u32,
}

impl Connection {
    fn new(key: FlowKey) -> Self {
        let function = Reassembler::new(&Config::default());
        let (pools, onward) = (Pools::new(64, 1), Vec::with_capacity(64));
        Self {
            function,
            key,
            words: [0; 4],
            handle: 0,
            pools,
            onward,
            forwarded: 0,
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        let frame = self.pools.take_filled(bytes).expect("a buffer");
        let layout = dissect(bytes).expect("well-formed");
        let packet = Packet {
            frame,
            layout,
            direction: Direction::Original,
            role: Role::Member,
            alias_row: 0,
        };
        let (mut replies, mut drops, mut initiator) =
            (Vec::new(), DropCounters::default(), Side::Low);
        let mut flow = Flow {
            key: &self.key,
            initiator: &mut initiator,
            words: &mut self.words,
            handle: &mut self.handle,
            now: Instant(1 << 40),
        };
        self.function.handle(
            packet,
            &mut flow,
            &mut Outbox::new(&mut self.onward, &mut replies, &mut drops, &mut self.pools),
        );
        for packet in self.onward.drain(..) {
            self.pools.give(packet.frame);
            self.forwarded += 1;
        }
    }
}

#[test]
fn neither_in_order_nor_out_of_order() {
    let [client, server]: [Endpoint; 2] =
        ["10.0.0.1:4000", "10.0.0.2:80"].map(|text| text.parse().expect("an endpoint"));
    let segment = |index: u32| {
        let builder = PacketBuilder::tcp(client, server).seq(index * SEGMENT_BYTES);
        builder
            .payload_len(SEGMENT_BYTES as usize)
            .to_vec()
            .expect("a frame")
    };
    // Three in order, then five that wait for a sixth.
    let order = [0, 1, 2, 8, 6, 7, 5, 4, 3];
    let frames: Vec<_> = (0..20)
        .flat_map(|round| order.map(|index| segment(9 * round + index)))
        .collect();
    let mut connection = Connection::new(FlowKey::connection(client, server, 6).0);
    let (warm_up, rest) = frames.split_at(9);
    warm_up.iter().for_each(|frame| connection.send(frame));
    let measured =
        allocation_counter::measure(|| rest.iter().for_each(|frame| connection.send(frame)));
    assert_eq!(measured.count_total, 0);
    assert_eq!(connection.forwarded, 180);
    assert_eq!(connection.function.statistics().held, 100);
}
