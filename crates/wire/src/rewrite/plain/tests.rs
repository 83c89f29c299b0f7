use super::*;
use crate::build::PacketBuilder;
use crate::layout::dissect;
use crate::rewrite::{set_any_endpoint, set_plain_end_to};
use proptest::prelude::*;

proptest! {
    /// What this does is what the general way does, also to checksums that were wrong.
    #[test]
    fn agrees_with_the_general_way(
        udp in any::<bool>(),
        source in any::<bool>(),
        new in any::<([u8; 4], u16)>(),
        same in any::<(bool, bool)>(),
        checksums in any::<[Option<u16>; 2]>(),
    ) {
        let (from, to) = (Endpoint::v4([10, 0, 0, 1], 4000), Endpoint::v4([10, 0, 0, 2], 80));
        let builder = match udp {
            true => PacketBuilder::udp(from, to),
            false => PacketBuilder::tcp(from, to),
        };
        let mut frame = builder.payload_len(9).to_vec().unwrap();
        let layout = dissect(&frame).unwrap();
        let transport = if udp { udp::CHECKSUM_AT } else { tcp::CHECKSUM_AT };
        let places = [usize::from(layout.l3) + ipv4::CHECKSUM_AT, usize::from(layout.l4) + transport];
        for (at, checksum) in places.into_iter().zip(checksums) {
            if let Some(checksum) = checksum {
                frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
            }
        }
        let (side, old) = if source { (Side::Source, from) } else { (Side::Destination, to) };
        let mut new = Endpoint::v4(new.0, new.1);
        if same.0 { new.address = old.address; }
        if same.1 { new.port = old.port; }
        let mut general = frame.clone();
        set_any_endpoint(&mut general, &layout, side, new);
        let before = frame.clone();
        let done = set_endpoint(&mut frame, &layout, side, &NewEndpoint::new(new));
        prop_assert_eq!(done, new.address != old.address);
        prop_assert_eq!(&frame, if done { &general } else { &before });
        let mut frame = before;
        let plain = Plain::of(&frame).unwrap();
        set_plain_end_to(&mut frame, plain, side, &NewEndpoint::new(new)).unwrap();
        prop_assert_eq!(frame, general);
    }
}
