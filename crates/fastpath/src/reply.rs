//! Turns a key-value request into its reply, in place.

use twinpath_core::Frame;
use twinpath_core::wire::layout::Layout;
use twinpath_core::wire::{fields, kv, rewrite};

/// Makes `frame`, a key-value request, the reply with this status and `length` bytes of value,
/// taken from `words` big-endian. Returns whether it was a request with room for the value.
pub fn write_reply(
    frame: &mut Frame,
    layout: &Layout,
    status: u8,
    words: &[u32],
    length: usize,
) -> bool {
    if kv::KvView::new(fields::payload(frame.bytes(), layout)).is_err() || length > 4 * words.len()
    {
        return false;
    }
    let start = usize::from(layout.payload);
    let payload_length = kv::HEADER_BYTES + length;
    if !frame.set_len(start + payload_length) {
        return false;
    }
    let payload = &mut frame.bytes_mut()[start..];
    payload[kv::OP_AT] |= kv::REPLY_BIT;
    payload[kv::STATUS_AT] = status;
    payload[kv::VALUE_LENGTH_AT] = length as u8;
    for (place, word) in payload[kv::HEADER_BYTES..].chunks_mut(4).zip(words) {
        place.copy_from_slice(&word.to_be_bytes()[..place.len()]);
    }
    let mut grown = *layout;
    rewrite::swap_endpoints(frame.bytes_mut(), layout).is_ok()
        && rewrite::set_udp_payload_length(frame.bytes_mut(), &mut grown, payload_length).is_ok()
        && rewrite::refresh_checksums(frame.bytes_mut(), &grown).is_ok()
}
