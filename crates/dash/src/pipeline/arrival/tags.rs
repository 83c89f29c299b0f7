//! VLAN tags in front of a packet's outer IP header.

use twinpath_core::wire::layout::Layout;
use twinpath_core::wire::{ethernet, vlan};

/// The tags, at most two: what leaves has them, too. Whatever else is between Ethernet and IP is none.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct OuterTags {
    octets: [u8; OuterTags::MOST_BYTES],
    length: u8,
}

impl OuterTags {
    /// Octets of as many tags as are taken.
    pub const MOST_BYTES: usize = 2 * vlan::TAG_BYTES;

    /// Those of a frame; `None` if there are more, or something else.
    #[must_use]
    pub fn read(frame: &[u8], outer: &Layout) -> Option<Self> {
        let length = vlan::tags_len(frame);
        let is_behind_tags = usize::from(outer.l3) == ethernet::HEADER_BYTES + length;
        let tags = frame.get(ethernet::ETHER_TYPE_AT..ethernet::ETHER_TYPE_AT + length)?;
        let mut octets = [0; Self::MOST_BYTES];
        octets.get_mut(..length)?.copy_from_slice(tags);
        is_behind_tags.then_some(Self {
            octets,
            length: length as u8,
        })
    }

    /// Whether there are none.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Puts them into a frame without any that begins at `at` of its buffer. Returns where it begins
    /// then; `None` without room in front.
    #[must_use]
    pub fn put(&self, buffer: &mut [u8], at: usize) -> Option<usize> {
        let length = usize::from(self.length);
        let front = at.checked_sub(length)?;
        let stations_end = at + ethernet::ETHER_TYPE_AT;
        buffer.get(at..stations_end)?;
        buffer.copy_within(at..stations_end, front);
        let place = stations_end - length..stations_end;
        buffer[place].copy_from_slice(&self.octets[..length]);
        Some(front)
    }
}

#[cfg(test)]
mod tests {
    use twinpath_core::wire::dissect;
    use twinpath_core::wire::{Endpoint, PacketBuilder};

    use super::*;

    fn tagged(tags: &[u8]) -> Vec<u8> {
        let end = Endpoint::new("10.0.0.1".parse().expect("an address"), 5);
        let mut frame = PacketBuilder::udp(end, end).to_vec().expect("a packet");
        frame.splice(12..12, tags.iter().copied());
        frame
    }

    #[test]
    fn tags_are_put_back() {
        let bare = tagged(&[]);
        for tags in [
            &[][..],
            &[0x81, 0, 0xa0, 5],
            &[0x88, 0xa8, 0, 9, 0x81, 0, 0, 7],
        ] {
            let frame = tagged(tags);
            let read = OuterTags::read(&frame, &dissect(&frame).expect("sound")).expect("tags");
            assert_eq!(read.is_empty(), tags.is_empty());
            let mut buffer = [vec![0; 8], bare.clone()].concat();
            let front = read.put(&mut buffer, 8).expect("room");
            assert_eq!(buffer[front..], frame);
            if !tags.is_empty() {
                assert_eq!(read.put(&mut buffer, tags.len() - 1), None);
            }
        }
    }

    #[test]
    fn labels_and_sessions_are_no_tags() {
        let mut frame = tagged(&[0x88, 0x47, 0, 0, 0x11, 0x40]);
        // The label takes the place of the EtherType.
        frame.drain(18..20);
        let layout = dissect(&frame).expect("sound");
        assert_eq!(layout.l3, 18);
        assert_eq!(OuterTags::read(&frame, &layout), None);
        let three = tagged(&[0x81, 0, 0, 1].repeat(3));
        assert!(dissect(&three).map_or(true, |layout| {
            layout.l3 == 14 || OuterTags::read(&three, &layout).is_none()
        }));
    }
}
