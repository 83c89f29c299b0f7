//! Registration and restore (Ribosome §3.2, Appendices C and E): how a switch learns of a server's
//! memory, and how a queue pair begins a new life.
//!
//! Frames of their own EtherTypes, as in the paper: [`FROM_SERVER`] and [`FROM_SWITCH`]. The server
//! announces its memory when it starts and every second; the switch asks for each queue pair that it
//! has none of, again and again until it is answered:
//!
//! ```text
//!  server                                             switch
//!    │ ── Memory { incarnation, address, rkey, .. } ──► │   at the start, and every second
//!    │ ◄─ Restore { incarnation, index, epoch, psn } ── │   for each queue pair, after each error
//!    │ ── QueuePair { index, epoch, qpn } ────────────► │   writes and reads begin at that number
//! ```
//! What was added to the paper: a version and a check sum; the server's *incarnation*, since a
//! server that was restarted has lost all payloads; the switch's *life* and each queue pair's *epoch*,
//! so that an answer, or a NAK, to a former life is known for one; and a first packet sequence number
//! that the switch draws, where the paper begins with 0, so that a packet of a former life finds no
//! place in this one. The paper's frames about memory and addresses are one, so that no half of it
//! is ever known alone.

use thiserror::Error;
use twinpath_core::wire::roce::{MAX_NUMBER, Psn};
use twinpath_core::wire::{Address, MacAddress};

/// EtherType of what a server sends.
pub const FROM_SERVER: u16 = 0x1234;
/// EtherType of what a switch sends.
pub const FROM_SWITCH: u16 = 0x4321;
/// The only version.
pub const VERSION: u8 = 1;
/// The longest message, with its Ethernet header; frames are padded to 60 bytes.
pub const MAX_FRAME_BYTES: usize = 96;

const ETHERNET_BYTES: usize = 14;
const CHECK_BYTES: usize = 4;

/// What a server has, and where it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The server's number.
    pub server: u16,
    /// Which run of the server's process this is.
    pub incarnation: u32,
    /// Where the memory begins, as RDMA addresses it.
    pub address: u64,
    /// How much there is.
    pub bytes: u64,
    /// The key to it.
    pub rkey: u32,
    /// The most payload of a packet.
    pub mtu: u16,
    /// How many queue pairs there are.
    pub queue_pairs: u16,
    /// How many READs of a queue pair may be outstanding.
    pub reads: u8,
    /// The server on this link.
    pub mac: MacAddress,
    /// The server's address.
    pub ip: Address,
}

/// A queue pair begins a new life.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    /// The server's number.
    pub server: u16,
    /// Which run of it is meant.
    pub incarnation: u32,
    /// Which run of the switch this is.
    pub life: u32,
    /// Which queue pair.
    pub index: u16,
    /// Which life of the queue pair.
    pub epoch: u16,
    /// The switch's number for it, to which answers go.
    pub qpn: u32,
    /// The first request's number.
    pub psn: Psn,
    /// The switch on this link.
    pub mac: MacAddress,
    /// The switch's address.
    pub ip: Address,
}

/// A queue pair has begun a new life.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct QueuePair {
    /// The server's number.
    pub server: u16,
    /// Which run of the server this is.
    pub incarnation: u32,
    /// Which run of the switch asked.
    pub life: u32,
    /// Which queue pair.
    pub index: u16,
    /// Which life of it.
    pub epoch: u16,
    /// The server's number for it, to which requests go.
    pub qpn: u32,
}

/// What is said.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// By a server; code 0.
    QueuePair(QueuePair),
    /// By a server; code 1.
    Memory(Memory),
    /// By a switch; code 0.
    Restore(Restore),
}

/// Why a frame is no message.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum RegistrationError {
    /// Another EtherType.
    #[error("not a registration frame")]
    NotRegistration,
    /// The frame ends inside.
    #[error("frame ends inside a registration message")]
    Truncated,
    /// Another version.
    #[error("unknown version of registration")]
    Version,
    /// An unknown code.
    #[error("unknown registration message")]
    Code,
    /// The check sum does not hold.
    #[error("registration message was changed on its way")]
    CheckSum,
    /// A queue pair or sequence number of more than 24 bits, or memory that ends behind the last address.
    #[error("registration message with a number that cannot be")]
    Number,
}

impl Message {
    const fn ether_type(&self) -> u16 {
        match self {
            Self::QueuePair(_) | Self::Memory(_) => FROM_SERVER,
            Self::Restore(_) => FROM_SWITCH,
        }
    }

    const fn code(&self) -> u8 {
        match self {
            Self::QueuePair(_) | Self::Restore(_) => 0,
            Self::Memory(_) => 1,
        }
    }

    /// Writes the whole frame and says how long it is.
    pub fn write(
        &self,
        from: MacAddress,
        to: MacAddress,
        out: &mut [u8; MAX_FRAME_BYTES],
    ) -> usize {
        const MIN_FRAME_BYTES: usize = 60;
        out.fill(0);
        let mut writer = Writer { out, at: 0 };
        writer.put(to.0);
        writer.put(from.0);
        writer.put(self.ether_type().to_be_bytes());
        writer.put([VERSION, self.code()]);
        match self {
            Self::QueuePair(message) => writer.queue_pair(message),
            Self::Memory(message) => writer.memory(message),
            Self::Restore(message) => writer.restore(message),
        }
        let end = writer.at;
        let check = crc32fast::hash(&out[ETHERNET_BYTES..end]);
        out[end..end + CHECK_BYTES].copy_from_slice(&check.to_be_bytes());
        (end + CHECK_BYTES).max(MIN_FRAME_BYTES)
    }

    /// Reads a frame.
    ///
    /// # Errors
    /// It is no message, or was changed on its way.
    pub fn read(frame: &[u8]) -> Result<Self, RegistrationError> {
        let mut reader = Reader { bytes: frame };
        let _addresses = reader.take::<12>()?;
        let ether_type = reader.u16()?;
        if ether_type != FROM_SERVER && ether_type != FROM_SWITCH {
            return Err(RegistrationError::NotRegistration);
        }
        let [version, code] = reader.take()?;
        if version != VERSION {
            return Err(RegistrationError::Version);
        }
        let message = match (ether_type, code) {
            (FROM_SERVER, 0) => Self::QueuePair(reader.queue_pair()?),
            (FROM_SERVER, 1) => Self::Memory(reader.memory()?),
            (FROM_SWITCH, 0) => Self::Restore(reader.restore()?),
            _ => return Err(RegistrationError::Code),
        };
        let end = frame.len() - reader.bytes.len();
        let check = u32::from_be_bytes(reader.take()?);
        if check != crc32fast::hash(&frame[ETHERNET_BYTES..end]) {
            return Err(RegistrationError::CheckSum);
        }
        match message.has_possible_numbers() {
            true => Ok(message),
            false => Err(RegistrationError::Number),
        }
    }

    fn has_possible_numbers(&self) -> bool {
        match self {
            Self::QueuePair(message) => message.qpn <= MAX_NUMBER,
            Self::Memory(message) => message.address.checked_add(message.bytes).is_some(),
            Self::Restore(message) => message.qpn <= MAX_NUMBER,
        }
    }
}

struct Writer<'a> {
    out: &'a mut [u8; MAX_FRAME_BYTES],
    at: usize,
}

impl Writer<'_> {
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.out[self.at..self.at + N].copy_from_slice(&bytes);
        self.at += N;
    }

    fn queue_pair(&mut self, message: &QueuePair) {
        self.put(message.server.to_be_bytes());
        self.put(message.incarnation.to_be_bytes());
        self.put(message.life.to_be_bytes());
        self.put(message.index.to_be_bytes());
        self.put(message.epoch.to_be_bytes());
        self.put(message.qpn.to_be_bytes());
    }

    fn memory(&mut self, message: &Memory) {
        self.put(message.server.to_be_bytes());
        self.put(message.incarnation.to_be_bytes());
        self.put(message.address.to_be_bytes());
        self.put(message.bytes.to_be_bytes());
        self.put(message.rkey.to_be_bytes());
        self.put(message.mtu.to_be_bytes());
        self.put(message.queue_pairs.to_be_bytes());
        self.put([message.reads]);
        self.put(message.mac.0);
        self.put(message.ip.octets16());
    }

    fn restore(&mut self, message: &Restore) {
        self.put(message.server.to_be_bytes());
        self.put(message.incarnation.to_be_bytes());
        self.put(message.life.to_be_bytes());
        self.put(message.index.to_be_bytes());
        self.put(message.epoch.to_be_bytes());
        self.put(message.qpn.to_be_bytes());
        self.put(message.psn.number().to_be_bytes());
        self.put(message.mac.0);
        self.put(message.ip.octets16());
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], RegistrationError> {
        let (taken, rest) = self
            .bytes
            .split_first_chunk()
            .ok_or(RegistrationError::Truncated)?;
        self.bytes = rest;
        Ok(*taken)
    }

    fn u16(&mut self) -> Result<u16, RegistrationError> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, RegistrationError> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, RegistrationError> {
        self.take().map(u64::from_be_bytes)
    }

    fn ip(&mut self) -> Result<Address, RegistrationError> {
        self.take()
            .map(|octets| Address(u128::from_be_bytes(octets)))
    }

    fn queue_pair(&mut self) -> Result<QueuePair, RegistrationError> {
        Ok(QueuePair {
            server: self.u16()?,
            incarnation: self.u32()?,
            life: self.u32()?,
            index: self.u16()?,
            epoch: self.u16()?,
            qpn: self.u32()?,
        })
    }

    fn memory(&mut self) -> Result<Memory, RegistrationError> {
        Ok(Memory {
            server: self.u16()?,
            incarnation: self.u32()?,
            address: self.u64()?,
            bytes: self.u64()?,
            rkey: self.u32()?,
            mtu: self.u16()?,
            queue_pairs: self.u16()?,
            reads: self.take::<1>()?[0],
            mac: MacAddress(self.take()?),
            ip: self.ip()?,
        })
    }

    fn restore(&mut self) -> Result<Restore, RegistrationError> {
        Ok(Restore {
            server: self.u16()?,
            incarnation: self.u32()?,
            life: self.u32()?,
            index: self.u16()?,
            epoch: self.u16()?,
            qpn: self.u32()?,
            psn: self.psn()?,
            mac: MacAddress(self.take()?),
            ip: self.ip()?,
        })
    }

    fn psn(&mut self) -> Result<Psn, RegistrationError> {
        match self.u32()? {
            number @ 0..=MAX_NUMBER => Ok(Psn::new(number)),
            _ => Err(RegistrationError::Number),
        }
    }
}

/// Whether a frame is one of these, as its EtherType says.
#[must_use]
pub fn is_registration(frame: &[u8]) -> bool {
    let ether_type = frame.get(12..14).map(|word| [word[0], word[1]]);
    ether_type.is_some_and(|word| [FROM_SERVER, FROM_SWITCH].contains(&u16::from_be_bytes(word)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MACS: [MacAddress; 2] = [MacAddress([2; 6]), MacAddress([4; 6])];

    fn any_message() -> impl Strategy<Value = Message> {
        let words = (any::<u16>(), any::<u32>(), any::<u32>(), any::<[u16; 3]>());
        let numbers = (0..=MAX_NUMBER, 0..=MAX_NUMBER, any::<u64>(), any::<u64>());
        let rest = (any::<[u8; 6]>(), any::<u128>(), any::<u8>(), 0..3);
        (words, numbers, rest).prop_map(|(words, numbers, rest)| {
            let (server, incarnation, life, [index, epoch, mtu]) = words;
            let (qpn, psn, address, bytes) = numbers;
            let (mac, ip, reads, kind) = rest;
            let (mac, ip) = (MacAddress(mac), Address(ip));
            match kind {
                0 => Message::QueuePair(QueuePair {
                    server,
                    incarnation,
                    life,
                    index,
                    epoch,
                    qpn,
                }),
                1 => Message::Memory(Memory {
                    server,
                    incarnation,
                    address,
                    bytes: bytes.min(u64::MAX - address),
                    rkey: life,
                    mtu,
                    queue_pairs: index,
                    reads,
                    mac,
                    ip,
                }),
                _ => Message::Restore(Restore {
                    server,
                    incarnation,
                    life,
                    index,
                    epoch,
                    qpn,
                    psn: Psn::new(psn),
                    mac,
                    ip,
                }),
            }
        })
    }

    proptest! {
        #[test]
        fn a_message_is_read_as_it_was_written(message in any_message()) {
            let mut out = [0; MAX_FRAME_BYTES];
            let length = message.write(MACS[0], MACS[1], &mut out);
            prop_assert!(is_registration(&out[..length]));
            prop_assert_eq!(Message::read(&out[..length]), Ok(message));
        }

        #[test]
        fn a_changed_bit_is_noticed(message in any_message(), bit: prop::sample::Index) {
            let mut out = [0; MAX_FRAME_BYTES];
            let length = message.write(MACS[0], MACS[1], &mut out);
            let bit = bit.index(8 * (length - ETHERNET_BYTES));
            out[ETHERNET_BYTES + bit / 8] ^= 1 << (bit % 8);
            // What fills a short frame up is of no meaning.
            if let Ok(read) = Message::read(&out[..length]) {
                prop_assert_eq!(read, message);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100), ether_type in prop::sample::select(vec![FROM_SERVER, FROM_SWITCH]), code in 0u8..3) {
            let mut bytes = bytes;
            if let Some(start) = bytes.get_mut(12..16) {
                start[..2].copy_from_slice(&ether_type.to_be_bytes());
                start[2..].copy_from_slice(&[VERSION, code]);
            }
            prop_assert!(Message::read(&bytes).is_err());
        }
    }

    #[test]
    fn each_check() {
        let message = Message::QueuePair(QueuePair {
            server: 1,
            incarnation: 2,
            life: 3,
            index: 4,
            epoch: 5,
            qpn: 1 << 24,
        });
        let mut out = [0; MAX_FRAME_BYTES];
        let length = message.write(MACS[0], MACS[1], &mut out);
        let read = |frame: &[u8]| Message::read(frame).unwrap_err();
        assert_eq!(read(&out[..length]), RegistrationError::Number);
        assert_eq!(read(&out[..30]), RegistrationError::Truncated);
        let with = |at: usize, value: u8| {
            let mut frame = out;
            frame[at] = value;
            Message::read(&frame[..length]).unwrap_err()
        };
        assert_eq!(with(12, 0), RegistrationError::NotRegistration);
        assert_eq!(with(14, 2), RegistrationError::Version);
        assert_eq!(with(15, 9), RegistrationError::Code);
        assert_eq!(with(17, 9), RegistrationError::CheckSum);
    }
}
