use proptest::prelude::*;

use super::*;
use crate::address::Endpoint;
use crate::build::PacketBuilder;
use crate::fields;
use crate::layout::dissect_other;
use crate::layout::walk::walk;

fn frame(udp: bool, tagged: bool, payload: usize) -> Vec<u8> {
    let ends = (Endpoint::v4([1; 4], 1), Endpoint::v4([2; 4], 2));
    frame_between(ends, udp, tagged, payload)
}

fn frame_v6(udp: bool, tagged: bool, payload: usize) -> Vec<u8> {
    let end = |text: &str| text.parse().expect("an endpoint");
    let ends = (end("[fd00::1]:1"), end("[2001:db8::2]:2"));
    frame_between(ends, udp, tagged, payload)
}

fn frame_between(
    (source, destination): (Endpoint, Endpoint),
    udp: bool,
    tagged: bool,
    payload: usize,
) -> Vec<u8> {
    let builder = match udp {
        true => PacketBuilder::udp(source, destination),
        false => PacketBuilder::tcp(source, destination),
    };
    let builder = builder.payload_len(payload).padded();
    let builder = if tagged { builder.vlan(7) } else { builder };
    builder.to_vec().expect("a packet")
}

#[test]
fn takes_what_it_is_for() {
    for udp in [true, false] {
        assert!(Plain::of(&frame(udp, false, 0)).is_some());
        assert!(Plain::of(&frame(udp, true, 1400)).is_some());
        assert!(Plain::untagged(&frame(udp, true, 0)).is_none());
        assert!(plain_v6(&frame_v6(udp, false, 0)).is_some());
        assert!(plain_v6(&frame_v6(udp, true, 1400)).is_some());
        assert!(plain_v6(&frame(udp, false, 0)).is_none());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Whatever the fast path answers, the general path answers too.
    #[test]
    fn agrees_with_the_general_path(
        udp in any::<bool>(),
        tagged in any::<bool>(),
        payload in 0..30usize,
        damage in proptest::collection::vec((14..58usize, any::<u8>()), 0..3),
        length in 0..120usize,
    ) {
        let mut frame = frame(udp, tagged, payload);
        for (at, value) in damage {
            frame[at] = value;
        }
        frame.truncate(length);
        if let Some(plain) = Plain::of(&frame) {
            let layout = plain.layout();
            prop_assert_eq!(walk(&frame), Ok(layout));
            prop_assert_eq!(Some(plain.ends(&frame)), fields::v4_ends(&frame, &layout).map(PlainEnds::of));
            prop_assert_eq!(Plain::with_ends(&frame), Some((plain, plain.ends(&frame))));
            prop_assert_eq!((plain.l3(), plain.l4()), (layout.l3.into(), layout.l4.into()));
            prop_assert_eq!(plain.payload_bytes() as usize, layout.payload_bytes());
            prop_assert_eq!(plain.tcp_header(&frame).is_none(), plain.is_udp());
            prop_assert_eq!(plain.protocol(), layout.protocol);
            prop_assert_eq!(plain.tcp_flags(&frame), fields::tcp_flags(&frame, &layout));
        }
    }

    #[test]
    fn agrees_with_the_general_path_over_ipv6(
        udp in any::<bool>(),
        tagged in any::<bool>(),
        payload in 0..30usize,
        damage in proptest::collection::vec((14..62usize, any::<u8>()), 0..3),
        lost_prefix in any::<bool>(),
        length in 0..140usize,
    ) {
        let mut frame = frame_v6(udp, tagged, payload);
        if lost_prefix {
            // What is left may be an IPv4 address in IPv6's space.
            frame[22..32].fill(0);
        }
        for (at, value) in damage {
            frame[at] = value;
        }
        frame.truncate(length);
        if let Some(layout) = plain_v6(&frame) {
            prop_assert_eq!(walk(&frame), Ok(layout));
        }
        prop_assert_eq!(dissect_other(&frame), walk(&frame));
    }
}
