//! A connection's two state words.
//!
//! ```text
//! word 0   31..28 kind, 27 flipped, 26 closed, 25 FIN of the server, 24 FIN of the client,
//!          23 reset by the server, 22 reset by the client, 21 unanswered, 20 unconfirmed,
//!          19..16 last bits of what the SYN-ACK acknowledged, while unconfirmed,
//!          15..0 row of the backend table
//! word 1   when the last packet came, in ticks; earlier after one that leaves it half-open
//! ```
//! The kind is never 0, so words that are all zero are no connection. It says in one comparison
//! what the fast program must know: protocol and return path.

use super::config::{Config, ReturnPath};
use super::protocol::Protocol;
use twinpath_core::Instant;
use twinpath_slowpath::Eviction;
use twinpath_wire::tcp::flags;

/// State words of a flow.
pub(super) const WORDS: usize = 2;
/// Bits of word 0 that hold the row.
pub(super) const ROW_MASK: u32 = 0xffff;
/// Bits of word 0 that must equal a [`Kind::bits`] for packets of either end on the fast path.
pub(super) const SIMPLE_MASK: u32 = UNANSWERED_MASK | UNANSWERED;
/// The same for those of the client while nobody has answered, where an answer will be seen.
pub(super) const UNANSWERED_MASK: u32 =
    0xf << KIND_SHIFT | FLIPPED | CLOSED | RESET_BY_SERVER | RESET_BY_CLIENT | UNCONFIRMED;

/// The row of connections whose backend is no longer configured: no table has so many rows.
pub(super) const GONE: u16 = ROW_MASK as u16;

const KIND_SHIFT: u32 = 28;
const FLIPPED: u32 = 1 << 27;
const CLOSED: u32 = 1 << 26;
pub(super) const FIN_OF_SERVER: u32 = 1 << 25;
pub(super) const FIN_OF_CLIENT: u32 = 1 << 24;
const RESET_BY_SERVER: u32 = 1 << 23;
const RESET_BY_CLIENT: u32 = 1 << 22;
const UNANSWERED: u32 = 1 << 21;
const UNCONFIRMED: u32 = 1 << 20;
const ACKNOWLEDGED_SHIFT: u32 = 16;
const ACKNOWLEDGED_MASK: u8 = 0xf;

/// What a flow is to the balancer.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A connection to a service.
    Service(Protocol, ReturnPath),
    /// Neither end is a service: packets pass unchanged.
    Passing,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Service(Protocol::Tcp, ReturnPath::Through),
        Self::Service(Protocol::Udp, ReturnPath::Through),
        Self::Service(Protocol::Tcp, ReturnPath::Direct),
        Self::Service(Protocol::Udp, ReturnPath::Direct),
        Self::Passing,
    ];

    /// Word 0 of an ordinary connection of this kind, but for the row and half-closes.
    pub const fn bits(self) -> u32 {
        let number = match self {
            Self::Service(Protocol::Tcp, ReturnPath::Through) => 1,
            Self::Service(Protocol::Udp, ReturnPath::Through) => 2,
            Self::Service(Protocol::Tcp, ReturnPath::Direct) => 3,
            Self::Service(Protocol::Udp, ReturnPath::Direct) => 4,
            Self::Passing => 5,
        };
        number << KIND_SHIFT
    }

    /// The IP protocol number of a service; 0 for none.
    pub const fn protocol_number(self) -> u8 {
        match self {
            Self::Service(protocol, _) => protocol.number(),
            Self::Passing => 0,
        }
    }

    fn of(word: u32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.bits() == word & 0xf << KIND_SHIFT)
    }
}

/// What is known of a flow.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Connection {
    pub kind: Kind,
    /// The backend's row.
    pub row: u16,
    /// The client is not the end that the flow calls its initiator.
    pub flipped: bool,
    /// Both ends have sent FIN, or the one that is seen has.
    pub closed: bool,
    pub fin_of_client: bool,
    pub fin_of_server: bool,
    /// A reset was seen, and nothing since that tells against it.
    pub reset_by_client: bool,
    pub reset_by_server: bool,
    /// The client alone was heard: once, where the server's packets do not come by.
    pub unanswered: bool,
    /// The server has answered, and nothing shown that the client hears it.
    pub unconfirmed: bool,
    /// While that is so, the last bits of the number that the server's SYN acknowledged.
    pub acknowledged: u8,
    /// In ticks.
    pub last_seen: u32,
}

impl Connection {
    /// Where it is in its life.
    pub const fn state(&self) -> &'static str {
        match self {
            Self {
                kind: Kind::Passing,
                ..
            } => "passing",
            Self { closed: true, .. } => "closed",
            Self {
                reset_by_client: true,
                ..
            }
            | Self {
                reset_by_server: true,
                ..
            } => "reset",
            Self {
                fin_of_client: true,
                ..
            }
            | Self {
                fin_of_server: true,
                ..
            } => "closing",
            Self {
                unanswered: true, ..
            } => "unanswered",
            Self {
                unconfirmed: true, ..
            } => "unconfirmed",
            _ => "established",
        }
    }

    /// A flow of which nothing more is known than what it is.
    pub const fn new(kind: Kind, row: u16) -> Self {
        Self {
            kind,
            row,
            flipped: false,
            closed: false,
            fin_of_client: false,
            fin_of_server: false,
            reset_by_client: false,
            reset_by_server: false,
            unanswered: false,
            unconfirmed: false,
            acknowledged: 0,
            last_seen: 0,
        }
    }

    /// Reads the words; `None` if nothing is known of the flow.
    pub fn read(words: &[u32]) -> Option<Self> {
        let &[word, last_seen] = words.first_chunk::<WORDS>()?;
        let has = |bit| word & bit != 0;
        Some(Self {
            kind: Kind::of(word)?,
            row: (word & ROW_MASK) as u16,
            flipped: has(FLIPPED),
            closed: has(CLOSED),
            fin_of_client: has(FIN_OF_CLIENT),
            fin_of_server: has(FIN_OF_SERVER),
            reset_by_client: has(RESET_BY_CLIENT),
            reset_by_server: has(RESET_BY_SERVER),
            unanswered: has(UNANSWERED),
            unconfirmed: has(UNCONFIRMED),
            acknowledged: last_bits(word >> ACKNOWLEDGED_SHIFT),
            last_seen,
        })
    }

    /// Writes the words.
    pub fn write(&self, words: &mut [u32]) {
        let bit = |bit, on| if on { bit } else { 0 };
        let flags = bit(FLIPPED, self.flipped)
            | bit(CLOSED, self.closed)
            | bit(FIN_OF_CLIENT, self.fin_of_client)
            | bit(FIN_OF_SERVER, self.fin_of_server)
            | bit(RESET_BY_CLIENT, self.reset_by_client)
            | bit(RESET_BY_SERVER, self.reset_by_server)
            | bit(UNANSWERED, self.unanswered)
            | bit(UNCONFIRMED, self.unconfirmed);
        if let Some(place) = words.first_chunk_mut() {
            let acknowledged = u32::from(self.acknowledged) << ACKNOWLEDGED_SHIFT;
            *place = [
                self.kind.bits() | flags | acknowledged | u32::from(self.row),
                self.last_seen,
            ];
        }
    }
}

const fn last_bits(number: u32) -> u8 {
    number as u8 & ACKNOWLEDGED_MASK
}

/// What a packet of the server tells of what it has heard from the client.
#[derive(Copy, Clone, Debug)]
pub(super) struct Answer {
    pub tcp_flags: u8,
    pub acknowledgement: u32,
    pub bytes: usize,
}

/// What a TCP segment says about the life of its connection.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Fin,
    Reset,
    /// An acknowledgement without data.
    Acknowledgement,
    /// Data and no more.
    Data,
    Other,
}

impl Sign {
    /// That of a segment with these flags and so much data; [`Self::Other`] of whatever is no TCP,
    /// which has no flags.
    pub const fn of(tcp_flags: u8, bytes: usize) -> Self {
        const ENDS: u8 = flags::SYN | flags::FIN | flags::RST;
        match tcp_flags & ENDS {
            _ if tcp_flags & flags::RST != 0 => Self::Reset,
            _ if tcp_flags & flags::FIN != 0 => Self::Fin,
            0 if tcp_flags & flags::ACK != 0 && bytes == 0 => Self::Acknowledgement,
            0 if tcp_flags & flags::ACK != 0 => Self::Data,
            _ => Self::Other,
        }
    }
}

impl Connection {
    /// When it may be forgotten to make room. Anybody may have sent what was heard of a half-open
    /// one, and what only passes has nothing to lose. With direct return nothing is heard that only
    /// a client can say who hears its server; `picks_up` tells whether such a connection goes on
    /// when it is met again.
    pub fn eviction(&self, picks_up: bool) -> Eviction {
        let half_open = self.kind == Kind::Passing || self.unanswered || self.unconfirmed;
        match self.kind {
            _ if self.is_ending() => Eviction::WhenFull,
            _ if half_open => Eviction::HalfOpen,
            Kind::Service(Protocol::Udp, ReturnPath::Direct) => Eviction::WhenFull,
            Kind::Service(Protocol::Tcp, ReturnPath::Direct) if picks_up => Eviction::WhenFull,
            _ => Eviction::Never,
        }
    }

    /// Whether none of its packets is for the fast path as it stands. One whose client alone is heard
    /// is, as where answers take another way: the slots are a bound to how many.
    pub fn is_complex(&self) -> bool {
        self.unconfirmed || self.is_ending()
    }

    /// Learns from a packet of the client, not its first, that it goes on: of UDP that it hears
    /// answers, or is in earnest where none come by. An acknowledgement of TCP proves nothing where
    /// they do: two words have no room for the number that would be right.
    pub fn note_client_goes_on(&mut self, tcp_flags: u8) {
        let goes_on = tcp_flags & flags::SYN == 0;
        let waits = self.kind == Kind::Service(Protocol::Tcp, ReturnPath::Through);
        let alone = matches!(self.kind, Kind::Service(_, ReturnPath::Direct));
        self.unconfirmed &= waits || !goes_on;
        self.unanswered &= !(alone && goes_on);
    }

    /// Learns from a packet of the server that it answers. A reset is no answer. TCP's server shows
    /// that the client has heard its SYN when it sends data or acknowledges more than the client's:
    /// until then it challenges whatever does not suit (RFC 9293 §3.10.7.4), with an acknowledgement
    /// of the client's SYN again.
    pub fn note_answer(&mut self, answer: Answer) {
        let is_udp = self.kind.protocol_number() == Protocol::Udp.number();
        let has = |flag| answer.tcp_flags & flag != 0;
        if has(flags::RST) {
            return;
        }
        if self.unanswered && (is_udp || has(flags::SYN)) {
            self.unconfirmed = true;
        }
        self.unanswered = false;
        if !self.unconfirmed || is_udp {
            return;
        }
        let acknowledged = last_bits(answer.acknowledgement);
        match has(flags::SYN) {
            true => self.acknowledged = acknowledged,
            false if answer.bytes > 0 || acknowledged != self.acknowledged => {
                (self.unconfirmed, self.acknowledged) = (false, 0);
            }
            false => {}
        }
    }

    /// Whether it is remembered for a short time only.
    pub const fn is_ending(&self) -> bool {
        self.closed || self.reset_by_client || self.reset_by_server
    }

    /// Learns from a packet of the client. Of a direct return the server's FIN may never be seen,
    /// so there the client's closes the connection.
    pub fn note_client(&mut self, sign: Sign) {
        note_fin(sign, &mut self.fin_of_client);
        self.close_if_finished();
        note_reset(sign, &mut self.reset_by_client, &mut self.reset_by_server);
    }

    /// Learns from a packet of the server.
    pub fn note_server(&mut self, sign: Sign) {
        note_fin(sign, &mut self.fin_of_server);
        self.close_if_finished();
        note_reset(sign, &mut self.reset_by_server, &mut self.reset_by_client);
    }

    fn close_if_finished(&mut self) {
        let alone = matches!(self.kind, Kind::Service(_, ReturnPath::Direct));
        self.closed = self.fin_of_client && (alone || self.fin_of_server);
    }
}

/// A FIN of any sequence number may come from anybody, too. Whoever goes on with data has sent none;
/// should it have, and send data again that was lost, the connection is remembered for longer than
/// it lives, and that is all.
fn note_fin(sign: Sign, fin: &mut bool) {
    *fin = sign == Sign::Fin || *fin && sign != Sign::Data;
}

/// A reset of any sequence number may come from anybody, and two words have no room for the right
/// one. The ends have it: the one that is not closed by it challenges it with an acknowledgement
/// (RFC 5961 §3), and the one that did not send it goes on. Either shows that the connection lives.
fn note_reset(sign: Sign, mine: &mut bool, theirs: &mut bool) {
    *mine = sign == Sign::Reset;
    *theirs &= sign != Sign::Acknowledgement;
}

/// How long flows are remembered after their last packet, in ticks.
#[derive(Copy, Clone, Debug)]
pub(super) struct Timeouts {
    tcp: u32,
    closing: u32,
    udp: u32,
    half_open: u32,
}

impl Timeouts {
    /// The configured ones.
    pub fn new(config: &Config) -> Self {
        Self {
            tcp: config.tcp_timeout.ticks(),
            closing: config.closing_timeout.ticks(),
            udp: config.udp_timeout.ticks(),
            half_open: config.half_open_timeout.ticks(),
        }
    }

    /// For a flow that is not closed. What only passes has nothing to lose but one visit to the
    /// workers, so it is remembered as briefly as UDP.
    pub const fn of_open(&self, kind: Kind) -> u32 {
        match kind {
            Kind::Service(Protocol::Tcp, _) => self.tcp,
            Kind::Service(Protocol::Udp, _) | Kind::Passing => self.udp,
        }
    }

    /// When a connection counts as last seen after a packet that opens it, or answers that: a
    /// half-open one is forgotten earlier than others of its kind.
    pub const fn last_seen_opening(&self, connection: &Connection, now: Instant) -> u32 {
        let is_half_open = connection.unanswered || connection.unconfirmed;
        let cut = match is_half_open && !connection.is_ending() {
            true => self.of_open(connection.kind).saturating_sub(self.half_open),
            false => 0,
        };
        now.ticks().wrapping_sub(cut)
    }

    /// Whether a connection has been silent for too long. A clock that is a little behind that of
    /// the last packet makes no difference.
    pub fn are_over(&self, connection: &Connection, now: Instant) -> bool {
        let limit = if connection.is_ending() {
            self.closing
        } else {
            self.of_open(connection.kind)
        };
        now.ticks_since(connection.last_seen) > limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_read_back(kind in prop::sample::select(&Kind::ALL[..]), row: u16, flags: [bool; 6], fins: [bool; 2], acknowledged in 0..=ACKNOWLEDGED_MASK, last_seen: u32) {
            let [flipped, closed, reset_by_client, reset_by_server, unanswered, unconfirmed] = flags;
            let [fin_of_client, fin_of_server] = fins;
            let connection = Connection {
                kind, row, flipped, closed, fin_of_client, fin_of_server, reset_by_client, reset_by_server,
                unanswered, unconfirmed, acknowledged, last_seen,
            };
            let mut words = [0; WORDS];
            connection.write(&mut words);
            prop_assert_eq!(Connection::read(&words), Some(connection));
            let is_simple = !flipped && !connection.is_ending() && !unanswered && !unconfirmed;
            prop_assert_eq!(words[0] & SIMPLE_MASK == kind.bits(), is_simple);
        }
    }

    #[test]
    fn zero_words_are_no_connection() {
        assert_eq!(Connection::read(&[0, 0]), None);
        assert_eq!(Connection::read(&[0, 7]), None);
        assert_eq!(Connection::read(&[0xf << KIND_SHIFT, 7]), None);
    }
}
