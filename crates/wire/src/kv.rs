//! The key-value protocol: one request or reply in one UDP datagram.
//!
//! All numbers are big-endian. A message is 28 bytes and its value, nothing more:
//!
//! | offset | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 2 | magic | `0x4B56`, "KV" |
//! | 2 | 1 | version | 1 |
//! | 3 | 1 | op | 0 get, 1 put, 2 delete; a reply has bit `0x80` set |
//! | 4 | 1 | status | 0 ok, 1 not found, 2 bad request, 3 too large, 4 full; 0 in requests |
//! | 5 | 1 | value length | 0 to 128 bytes |
//! | 6 | 2 | reserved | 0 |
//! | 8 | 4 | sequence | chosen by the client, repeated in the reply |
//! | 12 | 16 | key | opaque bytes, short keys padded with zeros |
//! | 28 | value length | value | opaque bytes |
//!
//! The protocol is that of a key-value cache in the network (SwitchNIC §A.1): small enough that a
//! switch can hold and answer a whole item.

use thiserror::Error;

use crate::build_error::BuildError;
use crate::bytes::{array_at, put, u16_at, u32_at};

/// First two bytes of every message.
pub const MAGIC: u16 = 0x4b56;
/// The only version.
pub const VERSION: u8 = 1;
/// Everything before the value.
pub const HEADER_BYTES: usize = 28;
/// Bytes of a key.
pub const KEY_BYTES: usize = 16;
/// The longest value.
pub const MAX_VALUE_BYTES: usize = 128;
/// The longest message.
pub const MAX_MESSAGE_BYTES: usize = HEADER_BYTES + MAX_VALUE_BYTES;
/// The port a server listens on unless told otherwise.
pub const DEFAULT_PORT: u16 = 19_286;
/// Bit of the op that marks a reply.
pub const REPLY_BIT: u8 = 0x80;

/// Offset of the magic.
pub const MAGIC_AT: usize = 0;
/// Offset of the version.
pub const VERSION_AT: usize = 2;
/// Offset of the op.
pub const OP_AT: usize = 3;
/// Offset of the status.
pub const STATUS_AT: usize = 4;
/// Offset of the value length.
pub const VALUE_LENGTH_AT: usize = 5;
/// Offset of the reserved bytes.
pub const RESERVED_AT: usize = 6;
/// Offset of the sequence number.
pub const SEQUENCE_AT: usize = 8;
/// Offset of the key.
pub const KEY_AT: usize = 12;
/// Offset of the value.
pub const VALUE_AT: usize = 28;

/// What a request asks for, and a reply answers.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum KvOp {
    /// Read the key's value.
    Get = 0,
    /// Write the key's value.
    Put = 1,
    /// Forget the key.
    Delete = 2,
}

impl KvOp {
    /// Reads the op without its reply bit.
    const fn parse(byte: u8) -> Result<Self, KvMalformed> {
        match byte & !REPLY_BIT {
            0 => Ok(Self::Get),
            1 => Ok(Self::Put),
            2 => Ok(Self::Delete),
            _ => Err(KvMalformed::Op),
        }
    }
}

/// How a request went; [`Ok`](Self::Ok) in requests.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum KvStatus {
    /// Done.
    Ok = 0,
    /// There is no such key.
    NotFound = 1,
    /// The request makes no sense.
    BadRequest = 2,
    /// The value is longer than the store takes.
    TooLarge = 3,
    /// The store has no room for another key.
    Full = 4,
}

impl KvStatus {
    const fn parse(byte: u8) -> Result<Self, KvMalformed> {
        match byte {
            0 => Ok(Self::Ok),
            1 => Ok(Self::NotFound),
            2 => Ok(Self::BadRequest),
            3 => Ok(Self::TooLarge),
            4 => Ok(Self::Full),
            _ => Err(KvMalformed::Status),
        }
    }
}

/// Why a payload is no message of this protocol.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum KvMalformed {
    /// Fewer than 28 bytes.
    #[error("shorter than a message header")]
    Truncated,
    /// Another magic.
    #[error("not a key-value message")]
    Magic,
    /// Another version.
    #[error("unknown version")]
    Version,
    /// An unknown op.
    #[error("unknown op")]
    Op,
    /// An unknown status.
    #[error("unknown status")]
    Status,
    /// A value length above 128, or not the number of bytes that follow the header.
    #[error("value length above 128 or not what follows the header")]
    ValueLength,
    /// Reserved bytes that are not zero.
    #[error("reserved bytes not zero")]
    Reserved,
}

/// A message that is there, with known op and status.
#[derive(Copy, Clone, Debug)]
pub struct KvView<'a> {
    header: &'a [u8; HEADER_BYTES],
    value: &'a [u8],
    op: KvOp,
    status: KvStatus,
}

impl<'a> KvView<'a> {
    /// Checks a UDP payload.
    ///
    /// # Errors
    /// [`KvMalformed`].
    pub fn new(payload: &'a [u8]) -> Result<Self, KvMalformed> {
        let (header, value) = payload.split_first_chunk().ok_or(KvMalformed::Truncated)?;
        if u16_at(header, MAGIC_AT) != MAGIC {
            return Err(KvMalformed::Magic);
        }
        if header[VERSION_AT] != VERSION {
            return Err(KvMalformed::Version);
        }
        let (op, status) = (
            KvOp::parse(header[OP_AT])?,
            KvStatus::parse(header[STATUS_AT])?,
        );
        let value_bytes = usize::from(header[VALUE_LENGTH_AT]);
        if value_bytes > MAX_VALUE_BYTES || value_bytes != value.len() {
            return Err(KvMalformed::ValueLength);
        }
        if u16_at(header, RESERVED_AT) != 0 {
            return Err(KvMalformed::Reserved);
        }
        Ok(Self {
            header,
            value,
            op,
            status,
        })
    }

    /// What is asked for or answered.
    #[must_use]
    pub const fn op(&self) -> KvOp {
        self.op
    }

    /// Whether this is a reply.
    #[must_use]
    pub const fn is_reply(&self) -> bool {
        self.header[OP_AT] & REPLY_BIT != 0
    }

    /// How the request went.
    #[must_use]
    pub const fn status(&self) -> KvStatus {
        self.status
    }

    /// The client's number for the request.
    #[must_use]
    pub fn sequence(&self) -> u32 {
        u32_at(self.header, SEQUENCE_AT)
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> [u8; KEY_BYTES] {
        array_at(self.header, KEY_AT).unwrap_or_default()
    }

    /// The value.
    #[must_use]
    pub const fn value(&self) -> &'a [u8] {
        self.value
    }
}

/// A checked message.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct KvRepr<'a> {
    /// What is asked for or answered.
    pub op: KvOp,
    /// Whether this is a reply.
    pub reply: bool,
    /// How the request went.
    pub status: KvStatus,
    /// The client's number for the request.
    pub sequence: u32,
    /// The key.
    pub key: [u8; KEY_BYTES],
    /// The value, at most 128 bytes.
    pub value: &'a [u8],
}

impl<'a> KvRepr<'a> {
    /// A request.
    #[must_use]
    pub const fn request(op: KvOp, sequence: u32, key: [u8; KEY_BYTES], value: &'a [u8]) -> Self {
        Self {
            op,
            reply: false,
            status: KvStatus::Ok,
            sequence,
            key,
            value,
        }
    }

    /// The reply to this request.
    #[must_use]
    pub const fn answered<'b>(&self, status: KvStatus, value: &'b [u8]) -> KvRepr<'b> {
        let Self {
            op, sequence, key, ..
        } = *self;
        KvRepr {
            op,
            reply: true,
            status,
            sequence,
            key,
            value,
        }
    }

    /// Reads every field of a view.
    #[must_use]
    pub fn parse(view: &KvView<'a>) -> Self {
        Self {
            op: view.op(),
            reply: view.is_reply(),
            status: view.status(),
            sequence: view.sequence(),
            key: view.key(),
            value: view.value(),
        }
    }

    /// Bytes that [`emit`](Self::emit) writes.
    #[must_use]
    pub const fn message_bytes(&self) -> usize {
        HEADER_BYTES + self.value.len()
    }

    /// Writes the message to the start of `out` and returns its length.
    ///
    /// # Errors
    /// [`BuildError::TooLong`] for a value above 128 bytes; [`BuildError::BufferTooSmall`].
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, BuildError> {
        if self.value.len() > MAX_VALUE_BYTES {
            return Err(BuildError::TooLong);
        }
        let length = self.message_bytes();
        let message = out.get_mut(..length).ok_or(BuildError::BufferTooSmall)?;
        let op = self.op as u8 | if self.reply { REPLY_BIT } else { 0 };
        put(message, MAGIC_AT, MAGIC.to_be_bytes());
        put(
            message,
            VERSION_AT,
            [VERSION, op, self.status as u8, self.value.len() as u8],
        );
        put(message, RESERVED_AT, [0; 2]);
        put(message, SEQUENCE_AT, self.sequence.to_be_bytes());
        put(message, KEY_AT, self.key);
        message[VALUE_AT..].copy_from_slice(self.value);
        Ok(length)
    }
}

/// A key from a text, padded with zeros; `None` if it is longer than 16 bytes.
#[must_use]
pub fn key_from_text(text: &str) -> Option<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    key.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; KEY_BYTES] = *b"0123456789abcdef";

    #[test]
    fn offsets_are_those_of_the_table() {
        let request = KvRepr::request(KvOp::Put, 0x0102_0304, KEY, b"value");
        let mut out = [0xee; 40];
        assert_eq!(request.emit(&mut out), Ok(33));
        assert_eq!(out[..12], [0x4b, 0x56, 1, 1, 0, 5, 0, 0, 1, 2, 3, 4]);
        assert_eq!(out[12..28], KEY);
        assert_eq!(out[28..34], *b"value\xee");
    }

    #[test]
    fn messages_round_trip() {
        let value = [7; MAX_VALUE_BYTES];
        let statuses = [
            KvStatus::Ok,
            KvStatus::NotFound,
            KvStatus::BadRequest,
            KvStatus::TooLarge,
            KvStatus::Full,
        ];
        for op in [KvOp::Get, KvOp::Put, KvOp::Delete] {
            let request = KvRepr::request(op, u32::MAX, KEY, &value);
            let replies = statuses.map(|status| request.answered(status, &value[..9]));
            for repr in replies.into_iter().chain([request]) {
                let mut out = [0; MAX_MESSAGE_BYTES];
                let length = repr.emit(&mut out).unwrap();
                assert_eq!(KvRepr::parse(&KvView::new(&out[..length]).unwrap()), repr);
            }
        }
    }

    #[test]
    fn each_check() {
        let mut good = [0; 30];
        KvRepr::request(KvOp::Get, 1, KEY, b"ab")
            .emit(&mut good)
            .unwrap();
        let with = |at: usize, value: u8| {
            let mut bytes = good;
            bytes[at] = value;
            KvView::new(&bytes).err()
        };
        assert_eq!(with(0, 0), Some(KvMalformed::Magic));
        assert_eq!(with(VERSION_AT, 2), Some(KvMalformed::Version));
        assert_eq!(with(OP_AT, 3), Some(KvMalformed::Op));
        assert_eq!(with(OP_AT, 0x83), Some(KvMalformed::Op));
        assert_eq!(with(STATUS_AT, 5), Some(KvMalformed::Status));
        assert_eq!(with(VALUE_LENGTH_AT, 1), Some(KvMalformed::ValueLength));
        assert_eq!(with(VALUE_LENGTH_AT, 3), Some(KvMalformed::ValueLength));
        assert_eq!(with(RESERVED_AT + 1, 1), Some(KvMalformed::Reserved));
        assert_eq!(with(OP_AT, 0x82), None);
        assert_eq!(KvView::new(&good[..27]).err(), Some(KvMalformed::Truncated));
        let mut long = [0; HEADER_BYTES + 129];
        long[..28].copy_from_slice(&good[..28]);
        long[VALUE_LENGTH_AT] = 129;
        assert_eq!(KvView::new(&long).err(), Some(KvMalformed::ValueLength));
    }

    #[test]
    fn refuses_to_emit_nonsense() {
        let mut out = [0; 200];
        let long = KvRepr::request(KvOp::Put, 1, KEY, &[0; 129]);
        assert_eq!(long.emit(&mut out), Err(BuildError::TooLong));
        let short = KvRepr::request(KvOp::Put, 1, KEY, b"ab");
        assert_eq!(short.emit(&mut out[..29]), Err(BuildError::BufferTooSmall));
    }

    #[test]
    fn keys_from_text() {
        assert_eq!(
            key_from_text("ab").unwrap(),
            *b"ab\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
        );
        assert_eq!(key_from_text("0123456789abcdef"), Some(KEY));
        assert_eq!(key_from_text("0123456789abcdefg"), None);
    }
}
