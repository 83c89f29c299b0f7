//! What hosts and cards leave to each other: VLAN tags beside frames, and half-made checksums.

use super::{LONG, config, network, packet};
use crate::interface::{set_strips_tags, strips_tags};
use crate::program::assembler::Assembler;
use crate::program::{load_for, words};
use crate::{Driver, Port, PortConfig, sys, wait};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};
use twinpath_core::Pools;
use twinpath_core::wire::{dissect, verify_transport_checksum};
use twinpath_netns::{Network, is_possible};

/// Every frame that leaves by an interface has a tag beside it for as long as this is there, as those
/// have that a VLAN interface sends.
struct Tagging {
    _link: OwnedFd,
}

impl Tagging {
    fn begin(interface: &str, kind: u16, number: i32) -> Self {
        const TRAFFIC_CONTROL: u32 = 3;
        const EGRESS: u32 = 47;
        const LINK_CREATE: i32 = 28;
        const PUSH_TAG: i32 = 18;
        const GO_ON: i32 = 0;
        let mut code = Assembler::default();
        code.set(2, kind.to_be().into());
        code.set(3, number);
        code.call(PUSH_TAG);
        code.set(0, GO_ON);
        code.exit();
        let (code, count) = code.finish();
        let program = load_for(&code, count, TRAFFIC_CONTROL, None).expect("root may");
        let index = sys::interface_index(interface).expect("it is there");
        let mut attributes = words(&[program.as_raw_fd() as u32, index, EGRESS, 0, 0, 0]);
        attributes.extend([0; 8]);
        let link = sys::bpf_descriptor(LINK_CREATE, &attributes);
        Self {
            _link: link.expect("Linux 6.6 or later"),
        }
    }
}

/// Sends a frame from the host at the left, by AF_PACKET, until somebody has heard it.
fn sends(network: &Network, kind: u16, number: i32) -> std::sync::mpsc::Sender<()> {
    let (heard, is_heard) = std::sync::mpsc::channel();
    let (ready, is_ready) = std::sync::mpsc::channel();
    network.on("left", move || {
        let _tagging = Tagging::begin("eth0", kind, number);
        ready.send(()).expect("somebody waits");
        let mut pools = Pools::new(64, 1);
        let mut eth0 = Port::open(config("eth0", Driver::AfPacket)).expect("root may");
        let again = Duration::from_millis(20);
        while is_heard.recv_timeout(again) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            let frame = pools.take_filled(&packet()).expect("room");
            eth0.transmit(frame, &mut pools);
            eth0.flush(&mut pools);
        }
    });
    is_ready.recv().expect("it begins");
    heard
}

/// The first frame to come that is UDP to the packet's port, with or without a tag.
fn first_of(port: &mut Port, wanted: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
    let (mut pools, mut burst) = (Pools::new(64, 1), Vec::new());
    let end = Instant::now() + LONG;
    while Instant::now() < end {
        wait(std::slice::from_ref(port), None, Duration::from_millis(10));
        port.receive(&mut pools, &mut burst, 64);
        let found = burst.iter().find(|frame| wanted(frame.bytes()));
        let found = found.map(|frame| frame.bytes().to_vec());
        burst.drain(..).for_each(|frame| pools.give(frame));
        if found.is_some() {
            return found;
        }
    }
    None
}

/// A tag that a far end's VLAN interface has left beside the frame is in it, whoever has the interface.
#[test]
fn tags_beside_frames_are_put_back() {
    if !is_possible() {
        return;
    }
    for (is_shared, kind, number) in [
        (false, 0x8100, 7),
        (true, 0x8100, 0x6123),
        (false, 0x88a8, 9),
    ] {
        let network = network();
        let middle = network.on("middle", move || {
            let shared = PortConfig {
                is_shared,
                ..config("port0", Driver::AfXdp)
            };
            let mut port = Port::open(shared).expect("root may");
            (
                port.may_lose_tags(),
                first_of(&mut port, |bytes| bytes.ends_with(b"carried")),
            )
        });
        let _sender = sends(&network, kind, number);
        let (may_lose, frame) = middle.join().expect("no panic");
        let tag = [kind.to_be_bytes(), (number as u16).to_be_bytes()].concat();
        let plain = packet();
        let tagged = [&plain[..12], &tag, &plain[12..]].concat();
        assert_eq!(frame, Some(tagged), "{kind:x} {number}");
        assert!(!may_lose);
    }
}

/// In front of the network stack nobody tells tags, and a port says that they may be lost.
#[test]
fn who_loses_tags_says_so() {
    if !is_possible() {
        return;
    }
    let network = network();
    network.ip(
        "middle",
        "link add over0 link port0 type macvlan mode passthru",
    );
    network.ip("middle", "link set over0 up");
    let middle = network.on("middle", || {
        let by = |driver| Port::open(config("over0", driver)).expect("root may");
        [Driver::AfXdp, Driver::AfPacket].map(|driver| by(driver).may_lose_tags())
    });
    assert_eq!(middle.join().expect("no panic"), [true, false]);
}

/// An interface leaves tags in frames for as long as a port has it, and does then what it did before.
#[test]
fn tags_are_not_taken_off_while_a_port_is_open() {
    if !is_possible() {
        return;
    }
    let network = network();
    let middle = network.on("middle", || {
        let strips = || strips_tags("port0").expect("it is there");
        for before in [true, false] {
            set_strips_tags("port0", before).expect("root may");
            assert_eq!(strips(), before);
            let port = Port::open(config("port0", Driver::AfXdp)).expect("root may");
            assert!(!strips());
            drop(port);
            assert_eq!(strips(), before);
        }
    });
    middle.join().expect("no panic");
}

/// A host leaves its checksum to the card; what comes by an interface that is no card's is complete,
/// whatever its driver.
#[test]
fn checksums_are_completed_on_every_virtual_interface() {
    if !is_possible() {
        return;
    }
    let network = network();
    network.address("left", "eth0", "10.9.0.1/24");
    network.ip(
        "middle",
        "link add over0 link port0 type macvlan mode passthru",
    );
    network.ip("middle", "link set over0 up");
    network.ip(
        "left",
        "neigh replace 10.9.0.2 lladdr ff:ff:ff:ff:ff:ff dev eth0",
    );
    let (ready, is_ready) = std::sync::mpsc::channel();
    let middle = network.on("middle", move || {
        let mut port = Port::open(config("over0", Driver::AfXdp)).expect("root may");
        ready.send(()).expect("somebody waits");
        first_of(&mut port, |bytes| bytes.ends_with(b"half made"))
    });
    is_ready.recv().expect("the port is open");
    let left = network.on("left", || {
        let socket = UdpSocket::bind("10.9.0.1:5").expect("its own address");
        socket.set_broadcast(true).expect("a socket");
        for _ in 0..5 {
            socket.send_to(b"half made", "10.9.0.2:9").expect("sent");
        }
    });
    left.join().expect("no panic");
    let frame = middle.join().expect("no panic").expect("it comes");
    let layout = dissect(&frame).expect("sound");
    assert!(verify_transport_checksum(&frame, &layout));
}
