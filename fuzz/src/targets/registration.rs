//! Any registration frame, its check sum made right: what is read is written as it was; a requester and
//! a memory server take it.

use twinpath_core::{Instant, Pools};
use twinpath_remote::registration::{FROM_SERVER, FROM_SWITCH, MAX_FRAME_BYTES, Message};
use twinpath_remote::server::{Config as ServerConfig, MemoryServer};
use twinpath_remote::{Output, PayloadMemory, Requester, requester, responder};
use twinpath_wire::{Address, MacAddress};

const MAC: MacAddress = MacAddress([2; 6]);

fn taken(frame: &[u8]) {
    let (now, mut pools, mut output) = (Instant(1), Pools::new(16, 1), Output::default());
    let ip = Address::from_v4([10, 0, 0, 1]);
    let config = requester::Config {
        queue_pairs: 4,
        records: 16,
        ..requester::Config::new(0, MAC, ip, 1)
    };
    let mut requester = Requester::new(config);
    let responder = responder::Config {
        mac: MAC,
        ip,
        mtu: 256,
        queue_pairs: 4,
        reads: 4,
        message_bytes: 4096,
    };
    let config = ServerConfig {
        server: 0,
        memory_bytes: 4096,
        responder,
        seed: 1,
    };
    let mut server = MemoryServer::new(config, now);
    for _ in 0..2 {
        server.receive(frame, now);
        server.transmit(now, &mut pools, &mut output.frames, 16);
        let Some(frame) = pools.take_filled(frame) else {
            return;
        };
        let other = requester.receive(frame, now, &mut pools, &mut output);
        other.into_iter().for_each(|frame| pools.give(frame));
        requester.poll(now, &mut pools, &mut output);
        output.frames.drain(..).for_each(|frame| pools.give(frame));
    }
}

/// One input.
pub fn run(bytes: &[u8]) {
    let Some((&kind, body)) = bytes.split_first() else {
        return;
    };
    let (ether_type, code, length) = match kind % 3 {
        0 => (FROM_SERVER, 0, 18),
        1 => (FROM_SERVER, 1, 53),
        _ => (FROM_SWITCH, 0, 44),
    };
    let mut frame = vec![2; 12];
    frame.extend(ether_type.to_be_bytes());
    frame.extend([1, code]);
    frame.extend(body.iter().chain(std::iter::repeat(&0)).take(length));
    let check = crc32fast::hash(&frame[14..]);
    frame.extend(check.to_be_bytes());
    if let Ok(message) = Message::read(&frame) {
        let mut written = [0; MAX_FRAME_BYTES];
        let length = message.write(MAC, MAC, &mut written);
        assert_eq!(Message::read(&written[..length]), Ok(message));
    }
    taken(&frame);
    taken(bytes);
}
