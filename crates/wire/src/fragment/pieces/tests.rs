//! Packets in pieces.

use super::*;
use crate::address::Endpoint;
use crate::build::PacketBuilder;
use crate::fragment::part;
use crate::layout::dissect;
use crate::verify::verify_ipv4_checksum;
use proptest::prelude::*;

fn ends() -> (Endpoint, Endpoint) {
    (
        Endpoint::v4([10, 0, 0, 1], 1),
        Endpoint::v4([10, 0, 0, 2], 2),
    )
}

fn frames(frame: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    let layout = dissect(frame).expect("valid");
    let write = |piece: Piece<'_>| {
        let mut out = vec![0; piece.len()];
        assert!(piece.write(&mut out) && !piece.write(&mut vec![0; piece.len() - 1]));
        out
    };
    pieces(frame, &layout, mtu)
        .expect("may be cut")
        .map(write)
        .collect()
}

proptest! {
    /// Pieces fit together again, are short enough, and pieces of pieces are too.
    #[test]
    fn pieces_fit_together(
        payload in 0usize..3000, mtus in prop::array::uniform2(68usize..1500),
        tagged: bool, options: bool,
    ) {
        let (from, to) = ends();
        let packet = PacketBuilder::udp(from, to).payload_len(payload).identification(7);
        let packet = if tagged { packet.vlan(5) } else { packet };
        let packet = if options { packet.ipv4_options(&[1, 0x94, 4, 0]) } else { packet };
        let whole = packet.to_vec().expect("valid");
        let layout = dissect(&whole).expect("valid");
        let expected = &whole[usize::from(layout.l4)..layout.end as usize];
        let mut data = Vec::new();
        let first = frames(&whole, mtus[0]);
        for frame in first.iter().flat_map(|frame| frames(frame, mtus[1])) {
            let layout = dissect(&frame).expect("valid");
            let longest = mtus.into_iter().min().expect("two");
            prop_assert!(layout.end as usize - usize::from(layout.l3) <= longest);
            prop_assert!(verify_ipv4_checksum(&frame, &layout));
            match part(&frame, &layout) {
                None => data.extend_from_slice(expected),
                Some(part) => {
                    prop_assert_eq!((part.offset as usize, part.identification), (data.len(), 7));
                    data.extend_from_slice(&frame[part.data_at..layout.end as usize]);
                    prop_assert_eq!(part.is_last, data.len() == expected.len());
                }
            }
        }
        prop_assert_eq!(&data[..], expected);
    }
}

#[test]
fn later_ones_have_the_options_that_are_copied() {
    let (from, to) = ends();
    // A record route, which is for the first alone, and a router alert, which is for all.
    let options = [7, 7, 4, 0, 0, 0, 0, 0x94, 4, 0, 0, 0];
    let packet = PacketBuilder::udp(from, to)
        .payload_len(100)
        .ipv4_options(&options);
    let pieces = frames(&packet.to_vec().expect("valid"), 80);
    let header = |frame: &Vec<u8>| usize::from(frame[14] & 15) * 4;
    assert_eq!(header(&pieces[0]), 32);
    assert!(pieces[1..].iter().all(|piece| header(piece) == 24));
    assert_eq!(pieces[1][34..38], [0x94, 4, 0, 0]);
}

#[test]
fn what_may_not_be_cut_stays_whole() {
    let (from, to) = ends();
    let atomic = PacketBuilder::udp(from, to)
        .payload_len(100)
        .dont_fragment();
    let frame = atomic.to_vec().expect("valid");
    let layout = dissect(&frame).expect("valid");
    assert!(pieces(&frame, &layout, 80).is_none());
    let frame = PacketBuilder::udp(from, to)
        .payload_len(100)
        .to_vec()
        .expect("valid");
    let layout = dissect(&frame).expect("valid");
    assert!(pieces(&frame, &layout, 27).is_none(), "no room");
    assert!(pieces(&frame, &layout, 28).is_some());
}
