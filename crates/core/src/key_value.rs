//! What both paths share of the key-value protocol: how a fast program sees a request, and how a
//! request becomes its reply.
//!
//! The interpreter and the store's slow function call the same code here, so that a reply is the
//! same whoever writes it.

use crate::pool::Frame;
use crate::wire::kv::{self, KvView};
use crate::wire::layout::{Layout, Network};
use crate::wire::{fields, rewrite, udp};

/// Read the key's value.
pub const GET: u32 = 1;
/// Write the key's value.
pub const PUT: u32 = 2;
/// Forget the key.
pub const DELETE: u32 = 3;

/// What [`Field::KvOperation`](crate::program::Field::KvOperation) is for a message; 0 for a reply.
#[inline]
pub const fn operation(message: &KvView<'_>) -> u32 {
    if message.is_reply() {
        return 0;
    }
    message.op() as u32 + 1
}

/// Makes `frame`, whose payload is at least the header of a key-value request, the reply with
/// this status and `length` bytes of value, taken from `words` big-endian. Ends are swapped,
/// lengths and checksums are right; a UDP datagram over IPv4 without a checksum stays without.
///
/// Returns the reply's layout, or `None` (with the frame unchanged) if there is no header, or no
/// room for the value.
pub fn write_reply(
    frame: &mut Frame,
    layout: &Layout,
    status: u8,
    words: &[u32],
    length: usize,
) -> Option<Layout> {
    let is_request = fields::payload(frame.bytes(), layout).len() >= kv::HEADER_BYTES;
    let payload_bytes = kv::HEADER_BYTES + length;
    let end = usize::from(layout.payload) + payload_bytes;
    // Until the lengths say otherwise, the frame must hold the request as well as the reply.
    let both = end.max(frame.len());
    if !is_request || length > kv::MAX_VALUE_BYTES.min(4 * words.len()) || !frame.set_len(both) {
        return None;
    }
    let has_checksum = layout.network == Network::V6 || udp_checksum(frame, layout) != Some([0; 2]);
    let mut reply = *layout;
    rewrite::swap_endpoints(frame.bytes_mut(), layout).ok()?;
    rewrite::set_udp_payload_length(frame.bytes_mut(), &mut reply, payload_bytes).ok()?;
    frame.set_len(end);
    write_message(
        frame.bytes_mut().get_mut(usize::from(layout.payload)..)?,
        status,
        words,
        length,
    );
    rewrite::refresh_checksums(frame.bytes_mut(), &reply).ok()?;
    if !has_checksum {
        let at = usize::from(reply.l4) + udp::CHECKSUM_AT;
        frame.bytes_mut().get_mut(at..at + 2)?.fill(0);
    }
    Some(reply)
}

fn udp_checksum(frame: &Frame, layout: &Layout) -> Option<[u8; 2]> {
    let at = usize::from(layout.l4) + udp::CHECKSUM_AT;
    frame.bytes().get(at..)?.first_chunk().copied()
}

fn write_message(payload: &mut [u8], status: u8, words: &[u32], length: usize) {
    let Some((header, value)) = payload.split_first_chunk_mut::<{ kv::HEADER_BYTES }>() else {
        return;
    };
    header[kv::OP_AT] |= kv::REPLY_BIT;
    header[kv::STATUS_AT] = status;
    header[kv::VALUE_LENGTH_AT] = length as u8;
    header[kv::RESERVED_AT..kv::SEQUENCE_AT].fill(0);
    for (place, word) in value.chunks_mut(4).zip(words) {
        place.copy_from_slice(&word.to_be_bytes()[..place.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;
    use crate::wire::kv::{KvOp, KvRepr, KvStatus};
    use crate::wire::{
        Endpoint, PacketBuilder, dissect, verify_ipv4_checksum, verify_transport_checksum,
    };

    fn request(value: &[u8], key: [u8; 16]) -> Vec<u8> {
        let mut message = [0; kv::MAX_MESSAGE_BYTES];
        let length = KvRepr::request(KvOp::Get, 77, key, value)
            .emit(&mut message)
            .expect("room");
        let (client, server) = (
            Endpoint::v4([10, 0, 0, 1], 4000),
            Endpoint::v4([10, 0, 0, 2], kv::DEFAULT_PORT),
        );
        PacketBuilder::udp(client, server)
            .payload(&message[..length])
            .to_vec()
            .expect("a valid packet")
    }

    /// Every length of value, in request and reply.
    #[test]
    fn replies_are_valid_packets() {
        let mut pool = Pool::new(1, 1500);
        let words: Vec<u32> = (0..32).map(|word| word * 0x0304_0506).collect();
        let stored: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        for length in 0..=kv::MAX_VALUE_BYTES {
            let bytes = request(&stored[..(length * 7) % 129], [9; 16]);
            let mut frame = pool.take_filled(&bytes).expect("room");
            let layout = dissect(&bytes).expect("a valid packet");
            let reply = write_reply(
                &mut frame,
                &layout,
                KvStatus::NotFound as u8,
                &words,
                length,
            )
            .expect("room");
            assert_eq!(dissect(frame.bytes()), Ok(reply));
            assert!(
                verify_ipv4_checksum(frame.bytes(), &reply)
                    && verify_transport_checksum(frame.bytes(), &reply)
            );
            assert_eq!(
                fields::source(frame.bytes(), &reply),
                fields::destination(&bytes, &layout)
            );
            assert_eq!(
                fields::destination(frame.bytes(), &reply),
                fields::source(&bytes, &layout)
            );
            let message =
                KvView::new(fields::payload(frame.bytes(), &reply)).expect("a valid message");
            assert_eq!(
                (message.value(), message.sequence(), message.key()),
                (&stored[..length], 77, [9; 16])
            );
            assert_eq!(
                (message.status(), operation(&message)),
                (KvStatus::NotFound, 0)
            );
            assert_eq!(frame.len(), reply.end as usize);
            pool.give(frame);
        }
    }

    #[test]
    fn no_checksum_stays_none_and_what_is_too_long_is_refused() {
        let mut pool = Pool::new(1, 100);
        let mut bytes = request(&[], [1; 16]);
        let layout = dissect(&bytes).expect("a valid packet");
        let at = usize::from(layout.l4) + udp::CHECKSUM_AT;
        bytes[at..at + 2].fill(0);
        let mut frame = pool.take_filled(&bytes).expect("room");
        assert_eq!(write_reply(&mut frame, &layout, 0, &[0; 40], 160), None);
        assert_eq!(write_reply(&mut frame, &layout, 0, &[0; 1], 5), None);
        assert_eq!(frame.bytes(), bytes, "unchanged when refused");
        assert!(write_reply(&mut frame, &layout, 0, &[0; 1], 4).is_some());
        assert_eq!(frame.bytes()[at..at + 2], [0, 0]);
    }
}
