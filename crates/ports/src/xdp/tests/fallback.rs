//! Which driver it becomes where none is said.

use super::{config, network};
use crate::interface::Interface;
use crate::{Driver, Part, Port};
use twinpath_netns::is_possible;

/// An interface as if a device were behind it.
fn card(name: &str) -> Interface {
    Interface {
        is_hardware: true,
        ..Interface::of(name).expect("it is there")
    }
}

fn opened(name: &str, driver: Driver, part: Part) -> Result<Port, crate::OpenError> {
    Port::open_on(config(name, driver), part, card(name))
}

/// A card gets AF_XDP, and AF_PACKET where it is not to be had, which is said; who names AF_XDP hears
/// why it is not.
#[test]
fn a_card_without_af_xdp_has_af_packet() {
    if !is_possible() {
        return;
    }
    let network = network();
    network.ip("middle", "link set port1 mtu 9000");
    let middle = network.on("middle", || {
        let first = opened("port0", Driver::Auto, Part::default()).expect("root may");
        assert_eq!((first.driver(), first.fallback()), (Driver::AfXdp, None));
        // Its packets are longer than a buffer.
        let long = opened("port1", Driver::Auto, Part::default()).expect("root may");
        let why = long.fallback().expect("it is said");
        assert!(why.contains("an MTU of 9000"), "{why}");
        assert_eq!(long.driver(), Driver::AfPacket);
        let error = opened("port1", Driver::AfXdp, Part::default()).err();
        assert!(
            error
                .expect("too long")
                .to_string()
                .contains("an MTU of 9000")
        );
        // Another has its program there: found when it is tried, by the first part for all.
        let parts = Part::all(2).into_iter();
        let open = |part| opened("port0", Driver::Auto, part).expect("there is AF_PACKET");
        let both: Vec<_> = parts.map(open).collect();
        assert!(both.iter().all(|part| part.driver() == Driver::AfPacket));
        assert!(both[0].fallback().is_some_and(|why| !why.is_empty()));
        assert_eq!(both[1].fallback(), None, "said once");
        assert!(opened("port0", Driver::AfXdp, Part::default()).is_err());
    });
    middle.join().expect("no panic");
}

/// What the kernel alone is behind gets AF_PACKET, and nothing has to be said.
#[test]
fn a_virtual_interface_has_af_packet() {
    if !is_possible() {
        return;
    }
    let network = network();
    let middle = network.on("middle", || {
        let port = Port::open(config("port0", Driver::Auto)).expect("root may");
        (port.driver(), port.fallback().map(str::to_owned))
    });
    assert_eq!(middle.join().expect("no panic"), (Driver::AfPacket, None));
}
