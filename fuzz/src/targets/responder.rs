//! A requester of any kind at a responder: a list of requests with right ICRCs, of any opcode, number,
//! key, address and length. What is not its to write stays as it is.

use twinpath_core::Pools;
use twinpath_remote::Endpoint;
use twinpath_remote::responder::{Access, Config, Region, Responder};
use twinpath_wire::roce::{Aeth, Header, Opcode, Path, Psn, Reth, RocePacket, Syndrome};
use twinpath_wire::{Address, MacAddress, dissect};

const BASE: u64 = 0x10_0000;
const BYTES: u64 = 4096;
const RKEY: u32 = 7;

/// One input.
pub fn run(bytes: &[u8]) {
    let [server, switch] = [1, 2].map(|last| Address::from_v4([10, 0, 0, last]));
    let (mac, peer_mac) = (MacAddress([2; 6]), MacAddress([4; 6]));
    let config = Config {
        mac,
        ip: server,
        mtu: 64,
        queue_pairs: 2,
        reads: 3,
        message_bytes: 512,
    };
    let mut responder = Responder::new(config);
    for (address, rkey, access) in [(BASE, RKEY, Access::ReadWrite), (2 * BASE, 8, Access::Read)] {
        let region = Region::new(address, BYTES as usize, rkey, access);
        responder.register(region).expect("two regions");
    }
    let path = Path {
        source_mac: mac,
        destination_mac: peer_mac,
        source: server,
        destination: switch,
        source_port: 50_000,
    };
    let mut qpn = responder
        .restore(0, path, 99, Psn::new(0))
        .expect("the first queue pair");
    let (mut pools, mut out) = (Pools::new(8, 1), Vec::new());
    let mut psn = Psn::new(0);
    for step in bytes.chunks_exact(8) {
        let [opcode, number, key, at, length, payload, flags, most] =
            *step.first_chunk().expect("eight");
        if flags & 0x40 != 0 {
            qpn = responder
                .restore(0, path, 99, Psn::new(0))
                .expect("the first queue pair");
            psn = Psn::new(0);
        }
        let opcode = Opcode(opcode % 0x16);
        psn = psn
            .plus(u32::from(number % 4))
            .plus(u32::from(number >= 128) * ((1 << 24) - 3));
        let address = BASE * u64::from(1 + key % 2) - 64 + 64 * u64::from(at);
        let reth = Reth {
            address,
            rkey: RKEY + u32::from(key / 64),
            bytes: 4 * u32::from(length),
        };
        let header = Header {
            ack_request: flags & 1 != 0,
            reth: opcode.has_reth().then_some(reth),
            aeth: opcode.has_aeth().then_some(Aeth {
                syndrome: Syndrome::of(key),
                messages: 0,
            }),
            immediate: opcode.has_immediate().then_some(1),
            ..Header::new(opcode, qpn ^ u32::from(flags & 0x20 != 0), psn)
        };
        let payload = vec![0xaa; if flags & 2 != 0 { 64 } else { payload.into() }];
        let there = path.back();
        let mut frame = vec![0; there.frame_bytes(&header, payload.len())];
        let front = there.front_bytes(&header);
        frame[front..front + payload.len()].copy_from_slice(&payload);
        there
            .emit(&header, payload.len(), &mut frame)
            .expect("sound");
        assert!(responder.receive(&frame));
        responder.transmit(&mut pools, &mut out, usize::from(most % 4));
        assert!(out.len() <= 3);
        out.drain(..).for_each(|frame| pools.give(frame));
    }
    assert_eq!(second_region(&mut responder, &path, &mut pools), [0; 512]);
}

/// What a sound READ yields of the region that nobody may write to.
fn second_region(responder: &mut Responder, path: &Path, pools: &mut Pools) -> Vec<u8> {
    let qpn = responder
        .restore(1, *path, 98, Psn::new(0))
        .expect("the second queue pair");
    let reth = Some(Reth {
        address: 2 * BASE,
        rkey: 8,
        bytes: 512,
    });
    let header = Header {
        reth,
        ..Header::new(Opcode::READ_REQUEST, qpn, Psn::new(0))
    };
    let mut frame = vec![0; path.back().frame_bytes(&header, 0)];
    path.back().emit(&header, 0, &mut frame).expect("sound");
    assert!(responder.receive(&frame));
    let (mut out, mut read) = (Vec::new(), Vec::new());
    while responder.has_answers() {
        responder.transmit(pools, &mut out, 4);
        for frame in out.drain(..) {
            let layout = dissect(frame.bytes()).expect("sound");
            let packet = RocePacket::read(frame.bytes(), &layout).expect("sound");
            if packet.header.destination_qp == 98 {
                read.extend_from_slice(packet.payload(frame.bytes()));
            }
            pools.give(frame);
        }
    }
    read
}
