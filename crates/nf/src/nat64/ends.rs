//! What all that translates knows: who a packet is from and for, why it has no counterpart, and how a
//! checksum follows.

use twinpath_core::DropReason;
use twinpath_core::wire::Endpoint;
use twinpath_core::wire::checksum::fold;

/// Who a packet is from, and for whom.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub source: Endpoint,
    pub destination: Endpoint,
}

/// Why a packet has no counterpart in the other version.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Untranslatable {
    /// Its header cannot be read, or asks for what the other version does not know.
    Header,
    /// Its time to live ends here.
    TimeToLive,
    /// Its checksum has to be computed from a whole datagram, of which it is a part.
    Part,
    /// An ICMP message without a counterpart.
    Message,
    /// There is no room.
    TooLong,
}

impl Untranslatable {
    /// The reason that such a packet is dropped for.
    pub const fn reason(self) -> DropReason {
        match self {
            Self::Header => DropReason::Untranslatable,
            Self::TimeToLive => DropReason::TimeToLive,
            Self::Part => DropReason::Fragment,
            Self::Message => DropReason::UntranslatableProtocol,
            Self::TooLong => DropReason::FrameTooLong,
        }
    }
}

/// Mends the checksum at a place of bytes of which some with one sum have become others with
/// another (RFC 1624). A damaged packet stays as damaged. UDP's may be absent.
pub(super) fn mend(bytes: &mut [u8], at: usize, old: u64, new: u64, is_udp: bool) {
    let Some(place) = bytes.get_mut(at..at + 2) else {
        return;
    };
    let checksum = u16::from_be_bytes([place[0], place[1]]);
    if is_udp && checksum == 0 {
        return;
    }
    let mended = !fold(u64::from(!checksum) + u64::from(!fold(old)) + u64::from(fold(new)));
    let mended = match mended {
        0 if is_udp => u16::MAX,
        mended => mended,
    };
    place.copy_from_slice(&mended.to_be_bytes());
}
