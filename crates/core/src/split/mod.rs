//! Packets whose headers alone go to the slow path: where a packet is cut, how it is put together
//! again, and what becomes of it on the way. Payloads wait in the switch's queues or in remote memory;
//! what workers see is the same either way.

mod stage;

pub use stage::{Outgoing, Output, PayloadStage};

use crate::wire::layout::{Fragment, Layout, Transport};
use crate::wire::{dissect, fields, verify_transport_checksum};
use crate::{DropReason, Frame, Metadata, Pools};

/// Functions of a chain that may each take one off a packet's time to live, at most.
pub const MOST_HOPS: u8 = 16;

/// A frame that is about to leave: a header, stretched to its packet's length, or a whole packet.
#[derive(Debug)]
pub struct DepartingFrame {
    /// The frame.
    pub frame: Frame,
    /// Whether it goes back to the sender of the request it answers.
    pub is_reply: bool,
}

/// What becomes of a packet that goes to the slow path.
#[derive(Debug)]
pub enum Sent {
    /// Its header goes.
    Header(Frame),
    /// It goes whole.
    Whole(Frame),
    /// There is no room for its payload, and the workers are not to have it whole: it is dropped.
    Refused(Frame),
}

/// What becomes of a frame that is about to leave.
#[derive(Debug)]
pub enum Left {
    /// It leaves now: it is whole, and overtakes nobody.
    Now(DepartingFrame),
    /// It waits: a header for its payload, a whole packet for others.
    Waits,
    /// It is dropped: a whole packet would have to wait, and there is no room; or a header's payload is
    /// not to be had.
    Dropped(Frame, DropReason),
    /// A header whose payload was given up, or that came a second time; that is counted already.
    Stale,
}

/// Why a packet goes to the slow path whole, as its headers tell.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// No TCP or UDP packet in one piece, or one whose time to live may end in the chain: who answers
    /// it quotes its payload.
    Unsuited,
    /// Too little payload.
    Small,
}

/// Where a packet is to be cut, which has at least so many bytes of payload then.
///
/// # Errors
/// It is not to be cut.
pub fn cut_at(frame: &[u8], layout: &Layout, least_payload_bytes: usize) -> Result<usize, Unfit> {
    let at = header_bytes(frame, layout);
    if !has_payload(layout) || fields::ttl(frame, layout) <= MOST_HOPS {
        return Err(Unfit::Unsuited);
    }
    match frame.len() - at < least_payload_bytes {
        true => Err(Unfit::Small),
        false => Ok(at),
    }
}

/// Whether what is behind the headers is for the other end alone.
fn has_payload(layout: &Layout) -> bool {
    let has_ports = matches!(layout.transport, Transport::Tcp | Transport::Udp);
    has_ports && layout.fragment == Fragment::Whole
}

/// How many bytes of a frame are headers: all up to the end of TCP's or UDP's. Anything else, as a
/// fragment or an ICMP error, has its whole frame for a header: there the workers may look further.
pub fn header_bytes(frame: &[u8], layout: &Layout) -> usize {
    match has_payload(layout) {
        true => usize::from(layout.payload).min(frame.len()),
        false => frame.len(),
    }
}

/// Cuts `frame` at `at`: a new frame with the header, whose buffer has room for all of the packet,
/// and the old one with what is left, which is not copied. If somebody may ask for it (`verifies`) the
/// header knows whether its transport checksum was right, which nobody can verify without the payload.
///
/// # Errors
/// The frame comes back if the pools have no buffer for the header, or the frame is shorter or has
/// more than 65535 bytes behind it.
pub fn split(
    mut frame: Frame,
    layout: &Layout,
    at: usize,
    verifies: bool,
    pools: &mut Pools,
) -> Result<(Frame, Frame), Frame> {
    let parked = frame
        .len()
        .checked_sub(at)
        .and_then(|rest| u16::try_from(rest).ok());
    let Some(parked_bytes) = parked.filter(|&bytes| bytes > 0) else {
        return Err(frame);
    };
    let has_bad_checksum = verifies && !verify_transport_checksum(frame.bytes(), layout);
    let Some(mut header) = pools.take(frame.len()) else {
        return Err(frame);
    };
    if !frame
        .bytes()
        .get(..at)
        .is_some_and(|bytes| header.fill(bytes))
    {
        pools.give(header);
        return Err(frame);
    }
    header.set_timestamp(frame.timestamp());
    header.set_received_ns(frame.received_ns());
    header.set_ordinal(frame.ordinal());
    header.set_port(frame.port());
    header.set_segment_bytes(frame.segment_bytes());
    header.set_metadata(Metadata {
        parked_bytes,
        has_bad_checksum,
        ..frame.metadata()
    });
    frame.pull_front(at);
    Ok((header, frame))
}

/// Puts a header in front of a payload. The packet leaves as the header would have.
///
/// # Errors
/// Both come back if the payload's headroom is too short, which takes a header that grew by more
/// than what the room in front of a frame allows.
pub fn join(header: Frame, mut payload: Frame) -> Result<(Frame, Frame), (Frame, Frame)> {
    let Some(front) = payload.push_front(header.len()) else {
        return Err((header, payload));
    };
    front.copy_from_slice(header.bytes());
    payload.set_timestamp(header.timestamp());
    payload.set_port(header.port());
    payload.set_metadata(Metadata {
        parked_bytes: 0,
        has_bad_checksum: false,
        ..header.metadata()
    });
    Ok((payload, header))
}

/// Makes a header look as long as the packet that it was cut from, so that who checks lengths finds
/// them in order. What stands behind it is of no meaning: the buffer's former packets may have left it
/// there. Nobody looks, and it never leaves; where debug assertions are on a pattern shows who does.
pub fn stretch(header: &mut Frame) -> bool {
    let (from, parked) = (header.len(), usize::from(header.metadata().parked_bytes));
    let fits = header.set_len(from + parked);
    if cfg!(debug_assertions) && fits {
        header.bytes_mut()[from..].fill(0xa5);
    }
    fits
}

/// A copy of a frame for others to see; of a header that is [stretched](stretch) with zeros for what is
/// not there.
pub fn copy_of(frame: &Frame, copy: &mut Vec<u8>) {
    copy.clear();
    copy.extend_from_slice(frame.bytes());
    let parked = usize::from(frame.metadata().parked_bytes);
    // A header that is not is shorter than its IP packet says.
    if parked != 0 && dissect(copy).is_ok() {
        let header_bytes = copy.len().saturating_sub(parked);
        copy[header_bytes..].fill(0);
    }
}

/// Cuts off again what [`stretch`] has added. Returns whether the frame is that long.
pub fn cut(header: &mut Frame) -> bool {
    let parked = usize::from(header.metadata().parked_bytes);
    let header_bytes = header.len().checked_sub(parked);
    header_bytes.is_some_and(|bytes| header.set_len(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Endpoint, PacketBuilder};

    fn packet(payload: &[u8]) -> Vec<u8> {
        let end = |text: &str| text.parse::<Endpoint>().unwrap();
        PacketBuilder::udp(end("10.0.0.1:1"), end("10.0.0.2:2"))
            .payload(payload)
            .to_vec()
            .unwrap()
    }

    #[test]
    fn a_packet_is_whole_again_after_split_and_join() {
        let whole = packet(b"something to park");
        let mut pool = Pools::new(2, 1);
        let mut frame = pool.take_filled(&whole).unwrap();
        frame.set_port(3);
        let layout = dissect(&whole).unwrap();
        assert_eq!(cut_at(&whole, &layout, 18), Err(Unfit::Small));
        let at = cut_at(&whole, &layout, 17).unwrap();
        assert_eq!(at, 42);
        let (mut header, payload) = split(frame, &layout, at, true, &mut pool).unwrap();
        assert_eq!(payload.bytes()[..17], *b"something to park");
        assert!(stretch(&mut header) && header.len() == whole.len());
        assert!(dissect(header.bytes()).is_ok());
        let mut copy = vec![1];
        copy_of(&header, &mut copy);
        assert_eq!((&copy[..42], &copy[42..]), (&whole[..42], &[0; 17][..]));
        assert!(cut(&mut header));
        copy_of(&header, &mut copy);
        assert_eq!(copy, whole[..42]);
        header.set_port(7);
        let (joined, _) = join(header, payload).unwrap();
        assert_eq!((joined.bytes(), joined.port()), (&whole[..], 7));
    }

    #[test]
    fn what_cannot_be_split_comes_back() {
        let mut pool = Pools::new(1, 1);
        let whole = packet(&[1; 100]);
        let layout = dissect(&whole).unwrap();
        let frame = pool.take_filled(&whole).unwrap();
        let frame = split(frame, &layout, whole.len(), true, &mut pool).unwrap_err();
        let frame = split(frame, &layout, 50, true, &mut pool).unwrap_err();
        assert_eq!(frame.bytes(), whole);
    }

    #[test]
    fn a_header_longer_than_the_headroom_is_refused() {
        let mut pool = Pools::new(2, 1);
        let header = pool.take_filled(&[1; 300]).unwrap();
        let payload = pool.take_filled(&[2; 100]).unwrap();
        let (_, payload) = join(header, payload).unwrap_err();
        assert_eq!(payload.len(), 100);
    }
}
