//! The link header.
//!
//! Big-endian, in front of the packet (or alone, for a message without a packet):
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 2 | magic 0x7470 |
//! | 2 | 1 | version 1 |
//! | 3 | 1 | message (see [`Message`]) |
//! | 4 | 2 | which chain the element is of: both sides count the changes |
//! | 6 | 1 | flags: 1 a packet follows; 2 the flow's opener is the high end; 4 the packet came from the high end; 8 the packet is a reply made by a function; 16 the packet goes through the chain in reverse; 32 a function said by which port it leaves; 64 its transport checksum was wrong when its payload was parked; 128 it is a fragment whose place is known |
//! | 7 | 1 | role of the packet (bits 0-1), number of state words (bits 2-7) |
//! | 8 | 4 | sequence number of the frame in its queue |
//! | 12 | 4 | epoch: of the worker that sends, or of the one that granted the state |
//! | 16 | 4 | generation |
//! | 20 | 4 | slot |
//! | 24 | 8 | arrival time of the packet at the fast path, ns |
//! | 32 | 40 | flow key |
//! | 72 | 4 | alias row of the packet's source (0 none) |
//! | 76 | 2 | port that the packet arrived on |
//! | 78 | 2 | port that the packet leaves by |
//! | 80 | 1 | element of the chain that this is about |
//! | 81 | 1 | 1 if the packet is an answer on its way back through the chain, else 0 |
//! | 82 | 2 | bytes of the packet's payload that are parked on the fast path's side (0 none) |
//! | 84 | 4 each | state words |
//! | behind them | 8 | slot and generation of the parked payload, if there is one, or a fragment's place |
//!
//! Where payload is parked only the packet's header follows.
//!
//! Behind [`Message::RuleRequest`] and [`Message::RuleReport`] there is no packet but what the
//! workers and the fast path tell each other about rules; behind [`Message::Answer`] what a DPU's
//! policies have decided. The slot of a question is that of its answer, and of its packet on the way
//! back.

use twinpath_core::key::{KEY_BYTES, Role, Side};
use twinpath_core::{Direction, FlowKey, Frame, Instant, Keyed, Metadata, Ticket};

/// Most state words that a message carries: the 128 bytes of a key-value entry and a few more.
pub const MAX_WORDS: usize = 36;

/// Bytes of the header in front of the state words.
pub const FIXED_BYTES: usize = 84;

/// Longest header, in bytes.
pub const MAX_BYTES: usize = FIXED_BYTES + 4 * MAX_WORDS + TICKET_BYTES;

/// Bytes that name a parked payload.
const TICKET_BYTES: usize = 8;

const _: () = assert!(
    MAX_BYTES <= twinpath_core::pool::HEADROOM,
    "the longest header fits the headroom"
);

const MAGIC: u16 = 0x7470;
const VERSION: u8 = 1;

/// What a frame says. Those below 16 go to the slow path, the rest come back.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Message {
    /// Only a packet: the workers hold the state.
    Plain = 1,
    /// The fast path asks for the state.
    Pull = 2,
    /// The fast path gives the state back.
    WriteBack = 3,
    /// What the fast path tells of rules.
    RuleReport = 4,
    /// A packet that a DPU's policies have to judge, and in the state words what they look at.
    Question = 5,
    /// Only a packet on its way out.
    Return = 16,
    /// The state, granted to the fast path.
    State = 17,
    /// The workers keep the state for now.
    Decline = 18,
    /// The state given back has arrived.
    Acknowledge = 19,
    /// The workers would like to forget this flow: give its state back, or say that it is not held.
    Recall = 20,
    /// What the workers want done with rules.
    RuleRequest = 21,
    /// The workers have dropped the packet whose payload is parked.
    Dropped = 22,
    /// What a DPU's policies say. The packet that was asked about follows.
    Answer = 23,
}

impl Message {
    const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Plain,
            2 => Self::Pull,
            3 => Self::WriteBack,
            4 => Self::RuleReport,
            5 => Self::Question,
            16 => Self::Return,
            17 => Self::State,
            18 => Self::Decline,
            19 => Self::Acknowledge,
            20 => Self::Recall,
            21 => Self::RuleRequest,
            22 => Self::Dropped,
            23 => Self::Answer,
            _ => return None,
        })
    }

    /// The message's name, as stories and logs show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Pull => "PULL",
            Self::WriteBack => "WB",
            Self::RuleReport => "RULE-REPORT",
            Self::Question => "QUESTION",
            Self::Return => "RETURN",
            Self::State => "STATE",
            Self::Decline => "DECLINE",
            Self::Acknowledge => "ACK",
            Self::Recall => "RECALL",
            Self::RuleRequest => "RULE-REQUEST",
            Self::Dropped => "DROPPED",
            Self::Answer => "ANSWER",
        }
    }

    /// Whether the message goes towards the workers.
    pub const fn is_to_worker(self) -> bool {
        (self as u8) < 16
    }
}

/// A checked link header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame says.
    pub message: Message,
    /// Whether a packet follows.
    pub has_packet: bool,
    /// Whether that packet is a reply made by a function.
    pub is_reply: bool,
    /// What the packet is to its flow.
    pub role: Role,
    /// The end that opened the flow (meaningful with [`Message::WriteBack`] and
    /// [`Message::State`]).
    pub initiator: Side,
    /// The end that the packet came from.
    pub side: Side,
    /// The frame's number in its queue; set when it is sent.
    pub sequence: u32,
    /// The life of the worker that sent this, or (in a write-back) that granted the state.
    pub epoch: u32,
    /// The pull that this belongs to.
    pub generation: u32,
    /// The fast path's slot.
    pub slot: u32,
    /// When the packet arrived at the fast path.
    pub timestamp: Instant,
    /// The flow.
    pub key: FlowKey,
    /// See [`Keyed::alias_row`](twinpath_core::Keyed::alias_row).
    pub alias_row: u32,
    /// Changes of the chain before this one: elements of another have other numbers.
    pub chain: u16,
    /// The element of the chain that this is about.
    pub element: u8,
    /// The port that the packet arrived on; of the frame that the header is attached to.
    pub ingress: u16,
    /// What the node remembers of the packet; of the frame that the header is attached to.
    pub metadata: Metadata,
    /// What names the parked payload, if the metadata says that there is one.
    pub ticket: Ticket,
    words: [u32; MAX_WORDS],
    count: u8,
}

/// Why bytes are no link header.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Fewer bytes than the header says it has.
    #[error("truncated: {have} bytes, the header needs {need}")]
    Truncated {
        /// Bytes there are.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// Another protocol.
    #[error("magic {0:#06x}, expected 0x7470")]
    Magic(u16),
    /// Another version.
    #[error("version {0}, expected 1")]
    Version(u8),
    /// A message code that is none.
    #[error("unknown message {0}")]
    Message(u8),
    /// More words than fit.
    #[error("{0} state words, at most 36")]
    Words(u8),
    /// No headroom left for the header.
    #[error("the frame has no headroom for the link header")]
    Headroom,
}

impl Header {
    /// A header without state words, all else zero.
    pub fn new(message: Message, key: FlowKey) -> Self {
        Self {
            message,
            has_packet: false,
            is_reply: false,
            role: Role::Member,
            initiator: Side::Low,
            side: Side::Low,
            sequence: 0,
            epoch: 0,
            generation: 0,
            slot: 0,
            timestamp: Instant::ZERO,
            key,
            alias_row: 0,
            chain: 0,
            element: 0,
            ingress: 0,
            metadata: Metadata::default(),
            ticket: Ticket::default(),
            words: [0; MAX_WORDS],
            count: 0,
        }
    }

    /// A header for a packet of a flow, without state.
    pub fn of_packet(message: Message, frame: &Frame, keyed: &Keyed) -> Self {
        Self {
            has_packet: true,
            role: keyed.role,
            side: keyed.side,
            timestamp: frame.timestamp(),
            alias_row: keyed.alias_row,
            ..Self::new(message, keyed.key)
        }
    }

    /// The state words.
    #[inline]
    pub fn words(&self) -> &[u32] {
        &self.words[..usize::from(self.count)]
    }

    /// Sets the state words; those beyond [`MAX_WORDS`] are cut off (a program never has more).
    #[inline]
    pub fn set_words(&mut self, words: &[u32]) {
        let count = words.len().min(MAX_WORDS);
        self.words[..count].copy_from_slice(&words[..count]);
        self.count = count as u8;
    }

    /// Bytes that the header takes on the link.
    pub fn bytes(&self) -> usize {
        self.bytes_on(self.metadata)
    }

    #[inline]
    fn bytes_on(&self, metadata: Metadata) -> usize {
        let ticket = match has_ticket(metadata) {
            true => TICKET_BYTES,
            false => 0,
        };
        FIXED_BYTES + 4 * usize::from(self.count) + ticket
    }

    fn flags(&self) -> u8 {
        u8::from(self.has_packet)
            | (self.initiator as u8) << 1
            | (self.side as u8) << 2
            | u8::from(self.is_reply) << 3
    }

    /// Writes the header to the first [`Self::bytes`] of `out`.
    ///
    /// # Errors
    /// `out` is too short.
    #[inline]
    pub fn write(&self, out: &mut [u8]) -> Result<(), HeaderError> {
        self.write_for(out, self.ingress, self.metadata, self.ticket)
    }

    #[inline]
    fn write_for(
        &self,
        out: &mut [u8],
        ingress: u16,
        metadata: Metadata,
        ticket: Ticket,
    ) -> Result<(), HeaderError> {
        let (have, need) = (out.len(), self.bytes_on(metadata));
        let (Some((fixed, rest)), true) =
            (out.split_first_chunk_mut::<FIXED_BYTES>(), have >= need)
        else {
            return Err(HeaderError::Truncated { have, need });
        };
        self.write_fixed(fixed);
        write_metadata(fixed, ingress, metadata);
        for (place, word) in rest.as_chunks_mut::<4>().0.iter_mut().zip(self.words()) {
            *place = word.to_be_bytes();
        }
        if has_ticket(metadata) {
            write_ticket(rest, self.words().len(), ticket);
        }
        Ok(())
    }

    #[inline]
    fn write_fixed(&self, out: &mut [u8; FIXED_BYTES]) {
        out[0..2].copy_from_slice(&MAGIC.to_be_bytes());
        out[2] = VERSION;
        out[3] = self.message as u8;
        out[4..6].copy_from_slice(&self.chain.to_be_bytes());
        out[6] = self.flags();
        out[7] = self.role as u8 | self.count << 2;
        out[8..12].copy_from_slice(&self.sequence.to_be_bytes());
        out[12..16].copy_from_slice(&self.epoch.to_be_bytes());
        out[16..20].copy_from_slice(&self.generation.to_be_bytes());
        out[20..24].copy_from_slice(&self.slot.to_be_bytes());
        out[24..32].copy_from_slice(&self.timestamp.0.to_be_bytes());
        if let Some(place) = out[32..].first_chunk_mut::<KEY_BYTES>() {
            self.key.write(place);
        }
        out[72..76].copy_from_slice(&self.alias_row.to_be_bytes());
        out[80..84].copy_from_slice(&[self.element, 0, 0, 0]);
    }

    /// Reads and checks a header.
    ///
    /// # Errors
    /// Anything that is no header of this version.
    #[inline]
    pub fn read(bytes: &[u8]) -> Result<Self, HeaderError> {
        let truncated = |need| HeaderError::Truncated {
            have: bytes.len(),
            need,
        };
        let (fixed, rest) = bytes
            .split_first_chunk::<FIXED_BYTES>()
            .ok_or(truncated(FIXED_BYTES))?;
        let mut header = Self::read_fixed(fixed)?;
        let words = rest
            .get(..header.bytes() - FIXED_BYTES)
            .ok_or(truncated(header.bytes()))?;
        let (words, behind) = words.split_at(4 * usize::from(header.count));
        for (word, place) in header.words.iter_mut().zip(words.as_chunks::<4>().0) {
            *word = u32::from_be_bytes(*place);
        }
        header.read_ticket(behind.as_chunks::<4>().0);
        Ok(header)
    }

    /// Reads what is behind the state words.
    #[inline]
    fn read_ticket(&mut self, behind: &[[u8; 4]]) {
        if has_ticket(self.metadata)
            && let [slot, generation] = behind
        {
            self.ticket = Ticket {
                slot: u32::from_be_bytes(*slot),
                generation: u32::from_be_bytes(*generation),
            };
        }
    }

    fn read_fixed(bytes: &[u8; FIXED_BYTES]) -> Result<Self, HeaderError> {
        let magic = u16::from_be_bytes([bytes[0], bytes[1]]);
        if magic != MAGIC {
            return Err(HeaderError::Magic(magic));
        }
        if bytes[2] != VERSION {
            return Err(HeaderError::Version(bytes[2]));
        }
        let message = Message::from_code(bytes[3]).ok_or(HeaderError::Message(bytes[3]))?;
        let count = bytes[7] >> 2;
        if usize::from(count) > MAX_WORDS {
            return Err(HeaderError::Words(count));
        }
        let mut header = Self::new(message, FlowKey::read(&field(bytes, 32)));
        header.has_packet = bytes[6] & 1 != 0;
        header.initiator = Side::from_bit(bytes[6] & 2 != 0);
        header.side = Side::from_bit(bytes[6] & 4 != 0);
        header.is_reply = bytes[6] & 8 != 0;
        header.role = Role::from_bits(bytes[7] & 3);
        header.sequence = u32::from_be_bytes(field(bytes, 8));
        header.epoch = u32::from_be_bytes(field(bytes, 12));
        header.generation = u32::from_be_bytes(field(bytes, 16));
        header.slot = u32::from_be_bytes(field(bytes, 20));
        header.timestamp = Instant(u64::from_be_bytes(field(bytes, 24)));
        header.alias_row = u32::from_be_bytes(field(bytes, 72));
        header.ingress = u16::from_be_bytes(field(bytes, 76));
        header.chain = u16::from_be_bytes(field(bytes, 4));
        header.element = bytes[80];
        header.metadata = read_metadata(bytes, header.message);
        header.count = count;
        Ok(header)
    }
}

/// Whether eight bytes more say what stands in a frame's ticket.
#[inline(always)]
const fn has_ticket(metadata: Metadata) -> bool {
    metadata.parked_bytes != 0 || metadata.has_place
}

/// Whatever comes from the slow path has been there.
fn read_metadata(bytes: &[u8; FIXED_BYTES], message: Message) -> Metadata {
    let direction = match bytes[6] & 16 {
        0 => Direction::Original,
        _ => Direction::Reply,
    };
    let egress = u16::from_be_bytes(field(bytes, 78));
    Metadata {
        direction,
        egress: (bytes[6] & 32 != 0).then_some(egress),
        was_on_slow_path: !message.is_to_worker(),
        is_answer: bytes[81] & 1 != 0,
        parked_bytes: u16::from_be_bytes(field(bytes, 82)),
        has_bad_checksum: bytes[6] & 64 != 0,
        has_place: bytes[6] & 128 != 0,
        // Its number is behind the state words.
    }
}

/// `N` bytes at a constant place inside the fixed part.
#[inline(always)]
fn field<const N: usize>(bytes: &[u8; FIXED_BYTES], from: usize) -> [u8; N] {
    *bytes[from..]
        .first_chunk()
        .expect("constant offsets inside the fixed header")
}

/// Puts a header in front of a frame's packet. The port of arrival, the metadata and the ticket are the
/// frame's.
///
/// # Errors
/// No headroom; the frame is unchanged.
#[inline]
pub fn attach(frame: &mut Frame, header: &Header) -> Result<(), HeaderError> {
    let (ingress, metadata, ticket) = (frame.port(), frame.metadata(), frame.ticket());
    let place = frame
        .push_front(header.bytes_on(metadata))
        .ok_or(HeaderError::Headroom)?;
    header.write_for(place, ingress, metadata, ticket)
}

/// Behind so many state words.
fn write_ticket(rest: &mut [u8], words: usize, ticket: Ticket) {
    let places = rest.as_chunks_mut::<4>().0.iter_mut().skip(words);
    for (place, number) in places.zip([ticket.slot, ticket.generation]) {
        *place = number.to_be_bytes();
    }
}

fn write_metadata(fixed: &mut [u8; FIXED_BYTES], ingress: u16, metadata: Metadata) {
    let has_egress = u8::from(metadata.egress.is_some());
    let has_bad_checksum = u8::from(metadata.has_bad_checksum);
    let has_place = u8::from(metadata.has_place);
    fixed[6] = fixed[6] & !240
        | (metadata.direction as u8) << 4
        | has_egress << 5
        | has_bad_checksum << 6
        | has_place << 7;
    fixed[81] = u8::from(metadata.is_answer);
    fixed[76..78].copy_from_slice(&ingress.to_be_bytes());
    fixed[78..80].copy_from_slice(&metadata.egress.unwrap_or(0).to_be_bytes());
    fixed[82..84].copy_from_slice(&metadata.parked_bytes.to_be_bytes());
}

/// Gives a frame that carries a header its number in its queue. Numbers are given last, to frames
/// that are really sent, so that what never left does not look lost.
#[inline]
pub fn number(frame: &mut Frame, sequence: u32) {
    if let Some(place) = frame.bytes_mut().get_mut(8..12) {
        place.copy_from_slice(&sequence.to_be_bytes());
    }
}

/// Whether a frame that carries a header carries a packet too.
#[inline]
pub fn carries_packet(frame: &Frame) -> bool {
    frame.bytes().get(6).is_some_and(|flags| flags & 1 != 0)
}

/// The ticket under which a packet asks a DPU's policies, if it does.
#[inline]
pub fn asked_with(frame: &Frame) -> Option<u32> {
    let fixed = frame.bytes().first_chunk::<FIXED_BYTES>()?;
    let asks = fixed[3] == Message::Question as u8;
    asks.then(|| u32::from_be_bytes(field(fixed, 20)))
}

/// The element and the flow that a frame is about, if it carries a header, which is not checked:
/// good for a guess at what will be read.
#[inline]
pub fn peek(frame: &Frame) -> Option<(u8, FlowKey)> {
    let fixed = frame.bytes().first_chunk::<FIXED_BYTES>()?;
    Some((fixed[80], FlowKey::read(&field(fixed, 32))))
}

/// Takes the header off a frame, leaving the packet.
///
/// # Errors
/// The frame does not start with a header; it is unchanged.
#[inline]
pub fn detach(frame: &mut Frame) -> Result<Header, HeaderError> {
    let header = Header::read(frame.bytes())?;
    frame.pull_front(header.bytes());
    frame.set_timestamp(header.timestamp);
    frame.set_port(header.ingress);
    frame.set_metadata(header.metadata);
    if has_ticket(header.metadata) {
        frame.set_ticket(header.ticket);
    }
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use twinpath_core::Pool;

    fn header() -> impl Strategy<Value = Header> {
        let message = prop::sample::select(vec![1u8, 2, 3, 4, 16, 17, 18, 19, 20, 21, 22]);
        (
            message,
            any::<[u32; 4]>(),
            any::<[u64; 5]>(),
            prop::collection::vec(any::<u32>(), 0..=MAX_WORDS),
            0u8..64,
            any::<u64>(),
        )
            .prop_map(|(code, numbers, key, words, bits, timestamp)| {
                let mut header =
                    Header::new(Message::from_code(code).expect("listed"), FlowKey(key));
                [
                    header.sequence,
                    header.epoch,
                    header.generation,
                    header.slot,
                ] = numbers;
                header.timestamp = Instant(timestamp);
                header.alias_row = numbers[1] ^ numbers[2];
                (header.has_packet, header.is_reply) = (bits & 1 != 0, bits & 8 != 0);
                (header.initiator, header.side) =
                    (Side::from_bit(bits & 2 != 0), Side::from_bit(bits & 4 != 0));
                header.role = Role::from_bits((numbers[1] % 3) as u8);
                (header.ingress, header.element) = (numbers[2] as u16, numbers[3] as u8);
                header.metadata = Metadata {
                    direction: Direction::BOTH[usize::from(bits >> 5)],
                    egress: (bits & 16 != 0).then_some(numbers[3] as u16),
                    was_on_slow_path: code >= 16,
                    is_answer: bits & 2 != 0,
                    parked_bytes: if numbers[0] & 1 == 0 {
                        0
                    } else {
                        numbers[1] as u16
                    },
                    has_bad_checksum: numbers[0] & 2 != 0,
                    has_place: numbers[0] & 4 != 0,
                };
                if has_ticket(header.metadata) {
                    let (slot, generation) = (numbers[1], numbers[2]);
                    header.ticket = Ticket { slot, generation };
                }
                header.set_words(&words);
                header
            })
    }

    proptest! {
        #[test]
        fn headers_survive_the_link(header in header(), packet: [u8; 60]) {
            let mut pool = Pool::new(1, 2048);
            let mut frame = pool.take_filled(&packet).expect("room");
            frame.set_port(header.ingress);
            frame.set_metadata(header.metadata);
            frame.set_ticket(header.ticket);
            attach(&mut frame, &header).expect("headroom");
            prop_assert_eq!(frame.len(), header.bytes() + packet.len());
            prop_assert_eq!(detach(&mut frame).expect("just attached"), header);
            prop_assert_eq!(frame.bytes(), &packet[..]);
        }

        #[test]
        fn nonsense_is_refused_and_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assume!(!bytes.starts_with(&MAGIC.to_be_bytes()));
            prop_assert!(Header::read(&bytes).is_err());
        }

        #[test]
        fn truncation_is_refused(header in header(), cut in 1usize..FIXED_BYTES) {
            let mut bytes = vec![0; header.bytes()];
            header.write(&mut bytes).expect("long enough");
            bytes.truncate(header.bytes() - cut);
            let refused = matches!(Header::read(&bytes), Err(HeaderError::Truncated { .. }));
            prop_assert!(refused);
        }
    }
}
