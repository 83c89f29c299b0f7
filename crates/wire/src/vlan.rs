//! The VLAN tag (IEEE 802.1Q), as it follows an EtherType that announces it.

use crate::build_error::BuildError;
use crate::bytes::header_mut;
use crate::malformed::Malformed;
use crate::{ethernet, protocol};

/// Tag control information and the next EtherType.
pub const TAG_BYTES: usize = 4;
/// The largest VLAN identifier that fits 12 bits.
pub const MAX_VLAN_ID: u16 = 0xfff;

/// Bytes of all VLAN tags of a frame, behind its addresses: 0 if it has none.
#[must_use]
pub fn tags_len(frame: &[u8]) -> usize {
    let behind = frame.get(ethernet::ETHER_TYPE_AT..).unwrap_or_default();
    let (tags, _) = behind.as_chunks::<TAG_BYTES>();
    let is_tag = |tag: &&[u8; TAG_BYTES]| protocol::is_vlan(u16::from_be_bytes([tag[0], tag[1]]));
    tags.iter().take_while(is_tag).count() * TAG_BYTES
}

/// Where the bytes begin that a frame of no VLAN carries, right behind their EtherType: a tag that has a priority
/// alone, and names no VLAN, is passed over (IEEE 802.1Q §6.9.1).
#[must_use]
pub fn carried_at(frame: &[u8]) -> usize {
    let tag = frame.get(ethernet::ETHER_TYPE_AT..).unwrap_or_default();
    match *tag {
        [a, b, high, low, ..]
            if protocol::is_vlan(u16::from_be_bytes([a, b])) && (high & 0x0f, low) == (0, 0) =>
        {
            ethernet::HEADER_BYTES + TAG_BYTES
        }
        _ => ethernet::HEADER_BYTES,
    }
}

/// A VLAN tag that is there.
#[derive(Copy, Clone, Debug)]
pub struct VlanView<'a> {
    tag: &'a [u8; TAG_BYTES],
    payload: &'a [u8],
}

impl<'a> VlanView<'a> {
    /// Checks that the tag is complete; `bytes` start after the EtherType that announced it.
    ///
    /// # Errors
    /// [`Malformed::TruncatedVlan`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (tag, payload) = bytes.split_first_chunk().ok_or(Malformed::TruncatedVlan)?;
        Ok(Self { tag, payload })
    }

    /// Priority code point, 0 to 7.
    #[must_use]
    pub const fn priority(&self) -> u8 {
        self.tag[0] >> 5
    }

    /// Drop eligible indicator.
    #[must_use]
    pub const fn drop_eligible(&self) -> bool {
        self.tag[0] & 0x10 != 0
    }

    /// VLAN identifier, 0 to 4095.
    #[must_use]
    pub const fn id(&self) -> u16 {
        u16::from_be_bytes([self.tag[0] & 0x0f, self.tag[1]])
    }

    /// What follows the tag.
    #[must_use]
    pub const fn ether_type(&self) -> u16 {
        u16::from_be_bytes([self.tag[2], self.tag[3]])
    }

    /// Everything after the tag.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A checked VLAN tag.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct VlanRepr {
    /// Priority code point, 0 to 7.
    pub priority: u8,
    /// Drop eligible indicator.
    pub drop_eligible: bool,
    /// VLAN identifier, 0 to 4095.
    pub id: u16,
    /// What follows the tag.
    pub ether_type: u16,
}

impl VlanRepr {
    /// Reads every field of a view.
    #[must_use]
    pub const fn parse(view: &VlanView<'_>) -> Self {
        Self {
            priority: view.priority(),
            drop_eligible: view.drop_eligible(),
            id: view.id(),
            ether_type: view.ether_type(),
        }
    }

    /// Bytes that [`emit`](Self::emit) writes.
    #[must_use]
    pub const fn header_bytes(&self) -> usize {
        TAG_BYTES
    }

    /// Writes the tag to the start of `out`.
    ///
    /// # Errors
    /// [`BuildError::BufferTooSmall`]; [`BuildError::FieldRange`] for a priority above 7 or an
    /// identifier above 4095.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), BuildError> {
        if self.priority > 7 || self.id > MAX_VLAN_ID {
            return Err(BuildError::FieldRange);
        }
        let tag: &mut [u8; TAG_BYTES] = header_mut(out)?;
        let control =
            u16::from(self.priority) << 13 | u16::from(self.drop_eligible) << 12 | self.id;
        tag[..2].copy_from_slice(&control.to_be_bytes());
        tag[2..].copy_from_slice(&self.ether_type.to_be_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPR: VlanRepr = VlanRepr {
        priority: 5,
        drop_eligible: true,
        id: 0xabc,
        ether_type: 0x0800,
    };

    #[test]
    fn tags_are_as_long_as_there_are() {
        let addresses = [0; 12];
        for (behind, expected) in [
            (&[0x08, 0x00, 0x45, 0][..], 0),
            (&[0x81, 0, 0, 7, 0x08, 0], 4),
            (&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9, 0x08, 0], 8),
            (&[0x81, 0, 0], 0),
        ] {
            assert_eq!(tags_len(&[&addresses[..], behind].concat()), expected);
        }
        assert_eq!(tags_len(&addresses[..9]), 0);
    }

    #[test]
    fn a_tag_with_a_priority_alone_is_passed_over() {
        let addresses = [0; 12];
        for (behind, expected) in [
            (&[0x08, 0x06, 0, 1][..], 14),
            (&[0x81, 0, 0x60, 0, 0x08, 0x06], 18),
            (&[0x88, 0xa8, 0, 0, 0x08, 0x06], 18),
            (&[0x81, 0, 0x60, 7, 0x08, 0x06], 14),
            (&[0x81, 0, 0x61, 0, 0x08, 0x06], 14),
            (&[0x81, 0, 0x60], 14),
        ] {
            assert_eq!(carried_at(&[&addresses[..], behind].concat()), expected);
        }
        assert_eq!(carried_at(&addresses[..9]), 14);
    }

    #[test]
    fn round_trip() {
        let mut out = [0; 5];
        REPR.emit(&mut out).unwrap();
        assert_eq!(out, [0xba, 0xbc, 0x08, 0x00, 0]);
        let view = VlanView::new(&out).unwrap();
        assert_eq!(VlanRepr::parse(&view), REPR);
        assert_eq!(view.payload(), &[0]);
    }

    #[test]
    fn limits() {
        assert_eq!(VlanView::new(&[0; 3]).err(), Some(Malformed::TruncatedVlan));
        let mut out = [0; 4];
        assert_eq!(
            VlanRepr {
                priority: 8,
                ..REPR
            }
            .emit(&mut out),
            Err(BuildError::FieldRange)
        );
        assert_eq!(
            VlanRepr { id: 4096, ..REPR }.emit(&mut out),
            Err(BuildError::FieldRange)
        );
        assert_eq!(REPR.emit(&mut out[..3]), Err(BuildError::BufferTooSmall));
    }
}
