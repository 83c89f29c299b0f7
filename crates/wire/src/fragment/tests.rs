//! Parts of datagrams.

use super::*;
use crate::address::{Address, Endpoint};
use crate::build::{Extension, PacketBuilder};
use crate::layout::dissect;
use crate::verify::verify_ipv4_checksum;

fn read(builder: PacketBuilder<'_>) -> Option<(Part, usize)> {
    let frame = builder.to_vec().expect("valid");
    let layout = dissect(&frame).expect("valid");
    part(&frame, &layout).map(|part| (part, usize::from(layout.l4)))
}

#[test]
fn parts_of_both_versions_say_where_they_belong() {
    let v4 = (
        Endpoint::v4([10, 0, 0, 1], 1),
        Endpoint::v4([10, 0, 0, 2], 2),
    );
    let v6 = (
        Endpoint::new(Address(1 << 64 | 1), 1),
        Endpoint::new(Address(1 << 64 | 2), 2),
    );
    for (source, destination) in [v4, v6] {
        let packet = || PacketBuilder::udp(source, destination).payload_len(56);
        assert_eq!(read(packet()), None);
        let (first, l4) = read(packet().identification(7).fragment(0, true)).expect("a part");
        assert_eq!((first.identification, first.offset), (7, 0));
        assert_eq!((first.end(), first.is_last), (64, false));
        assert_eq!(first.data_at, l4);
        let (last, l4) = read(packet().identification(7).fragment(64, false)).expect("a part");
        assert_eq!((last.identification, last.offset), (7, 64));
        assert!(last.is_last && last.data_at == l4);
    }
}

#[test]
fn what_is_cut_fits_together() {
    let v4 = [10, 20].map(|last| Endpoint::v4([10, 0, 0, last], 1));
    let v6 = [10, 20].map(|last| Endpoint::new(Address(1 << 64 | last), 1));
    for [source, destination] in [v4, v6] {
        let whole = PacketBuilder::udp(source, destination).payload_len(100);
        let whole = whole.to_vec().expect("valid");
        let layout = dissect(&whole).expect("valid");
        let mut data = Vec::new();
        for fragment in cut(&whole, &layout, 35, 9).expect("long enough") {
            let layout = dissect(&fragment).expect("valid");
            assert!(verify_ipv4_checksum(&fragment, &layout));
            let part = part(&fragment, &layout).expect("a part");
            assert_eq!((part.offset as usize, part.identification), (data.len(), 9));
            data.extend_from_slice(&fragment[part.data_at..]);
            assert_eq!(part.is_last, data.len() == 108);
        }
        assert_eq!(data, whole[usize::from(layout.l4)..]);
    }
}

/// What stands behind the fragment header is part of the data.
#[test]
fn extension_headers_in_front_do_not_count() {
    let source = Endpoint::new(Address(1 << 64 | 1), 1);
    let packet = PacketBuilder::udp(source, source)
        .ipv6_extension(Extension::HopByHop, 1)
        .payload_len(56)
        .fragment(0, true);
    let (first, l4) = read(packet).expect("a part");
    assert_eq!((first.data_at, first.bytes), (l4, 64));
}
