//! A client of the key-value store without sockets and clocks.
//!
//! The caller brings both: it sends what [`Client::transmit`] writes, hands what it receives to
//! [`Client::receive`], and calls [`Client::expire`] when [`Client::deadline`] has come.
//!
//! ```
//! use std::time::Duration;
//! use twinpath_core::Instant;
//! use twinpath_nf::kv_store::client::{Client, Operation, Settings};
//!
//! let mut client = Client::new(Settings::default());
//! let key = *b"sixteen byte key";
//! client.request(key, Operation::Put(b"value"))?;
//! let mut datagram = [0; twinpath_wire::kv::MAX_MESSAGE_BYTES];
//! let now = Instant(1_000);
//! let length = client.transmit(now, &mut datagram).expect("a request is waiting");
//! assert_eq!(length, 33);
//! assert_eq!(client.deadline(), Some(now + Duration::from_millis(100)));
//! # Ok::<(), twinpath_nf::kv_store::client::ClientError>(())
//! ```
//!
//! A request that gets no reply in time is repeated with the same sequence number, each time after
//! twice as long, until [`Settings::attempts`] are used up. The store may then have done it once,
//! several times, or not at all. Repeating a get or a put changes nothing; a delete that had to be
//! repeated may answer [`Answer::NotFound`] because an earlier attempt succeeded. Requests for one
//! key that are in flight at the same time may be done in any order.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;
use thiserror::Error;
use twinpath_core::Instant;
use twinpath_wire::kv::{
    KEY_BYTES, KvMalformed, KvOp, KvRepr, KvStatus, KvView, MAX_MESSAGE_BYTES, MAX_VALUE_BYTES,
};

/// A key.
pub type Key = [u8; KEY_BYTES];

/// What a client may do.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Time to wait for the first reply; each repetition waits twice as long as the one before.
    pub timeout: Duration,
    /// How often a request is sent at most; at least once.
    pub attempts: u32,
    /// Requests that may be unanswered at a time; at least one.
    pub in_flight: usize,
    /// The first sequence number. Different clients behind one port do well to differ.
    pub first_sequence: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_millis(100),
            attempts: 4,
            in_flight: 1024,
            first_sequence: 0,
        }
    }
}

/// What to do with a key.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Read its value.
    Get,
    /// Write its value, of at most 128 bytes.
    Put(&'a [u8]),
    /// Forget it.
    Delete,
}

/// Why a request is not taken.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum ClientError {
    /// The value is too long for the protocol.
    #[error("a value has at most 128 bytes, this one has {0}")]
    ValueTooLong(usize),
    /// As many requests as allowed are unanswered.
    #[error("{0} requests are unanswered; wait for replies before sending more")]
    TooManyInFlight(usize),
}

/// A value as it came in a reply.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct Value {
    bytes: [u8; MAX_VALUE_BYTES],
    length: usize,
}

impl Value {
    fn new(value: &[u8]) -> Option<Self> {
        let mut bytes = [0; MAX_VALUE_BYTES];
        bytes.get_mut(..value.len())?.copy_from_slice(value);
        Some(Self {
            bytes,
            length: value.len(),
        })
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&[])
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "b\"{}\"", self.as_bytes().escape_ascii())
    }
}

/// How a request ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The key's value.
    Value(Value),
    /// The put or delete is done.
    Done,
    /// There is no such key.
    NotFound,
    /// The store would not do it; never with [`KvStatus::Ok`] or [`KvStatus::NotFound`].
    Refused(KvStatus),
    /// No attempt was answered.
    TimedOut,
}

/// A request that has ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Its number, as [`Client::request`] gave it.
    pub sequence: u32,
    /// Its key.
    pub key: Key,
    /// Its operation.
    pub operation: KvOp,
    /// How it ended.
    pub answer: Answer,
    /// How often it was sent.
    pub attempts: u32,
    /// From the first attempt to the end. (A reply does not tell which attempt it answers.)
    pub elapsed: Duration,
}

/// Why a datagram completes nothing.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum Ignored {
    /// Not a message of the protocol.
    #[error(transparent)]
    Malformed(#[from] KvMalformed),
    /// A request.
    #[error("a request, not a reply")]
    Request,
    /// A reply to nothing that is unanswered: late, or a duplicate.
    #[error("a reply to no unanswered request")]
    Unexpected,
    /// A reply with a known number but another key or operation.
    #[error("a reply whose key or operation is not its request's")]
    Mismatched,
}

struct Pending {
    key: Key,
    operation: KvOp,
    value: Value,
    attempts: u32,
    first_sent: Instant,
    deadline: Instant,
}

/// A key-value client.
pub struct Client {
    settings: Settings,
    next_sequence: u32,
    pending: HashMap<u32, Pending>,
    /// To be sent, in order.
    unsent: VecDeque<u32>,
    /// Sent and waiting, by deadline.
    waiting: BTreeSet<(Instant, u32)>,
    repeated: u64,
}

impl Client {
    /// A client with nothing to do.
    pub fn new(settings: Settings) -> Self {
        let settings = Settings {
            attempts: settings.attempts.max(1),
            in_flight: settings.in_flight.max(1),
            ..settings
        };
        Self {
            settings,
            next_sequence: settings.first_sequence,
            pending: HashMap::new(),
            unsent: VecDeque::new(),
            waiting: BTreeSet::new(),
            repeated: 0,
        }
    }

    /// Takes a request and gives it a number; it is sent by [`Self::transmit`].
    ///
    /// # Errors
    /// A value that is too long, or too many unanswered requests.
    pub fn request(&mut self, key: Key, operation: Operation<'_>) -> Result<u32, ClientError> {
        if self.pending.len() >= self.settings.in_flight {
            return Err(ClientError::TooManyInFlight(self.pending.len()));
        }
        let (operation, value) = match operation {
            Operation::Get => (KvOp::Get, &[][..]),
            Operation::Put(value) => (KvOp::Put, value),
            Operation::Delete => (KvOp::Delete, &[][..]),
        };
        let value = Value::new(value).ok_or(ClientError::ValueTooLong(value.len()))?;
        let sequence = self.fresh_sequence();
        let pending = Pending {
            key,
            operation,
            value,
            attempts: 0,
            first_sent: Instant::ZERO,
            deadline: Instant::ZERO,
        };
        self.pending.insert(sequence, pending);
        self.unsent.push_back(sequence);
        Ok(sequence)
    }

    /// The next number that no unanswered request has. Their number is limited, so this ends.
    fn fresh_sequence(&mut self) -> u32 {
        while self.pending.contains_key(&self.next_sequence) {
            self.next_sequence = self.next_sequence.wrapping_add(1);
        }
        let sequence = self.next_sequence;
        self.next_sequence = sequence.wrapping_add(1);
        sequence
    }

    /// Writes the next datagram that should be sent now and tells its length; `None` if there is
    /// none.
    pub fn transmit(&mut self, now: Instant, out: &mut [u8; MAX_MESSAGE_BYTES]) -> Option<usize> {
        let sequence = self.unsent.pop_front()?;
        let pending = self.pending.get_mut(&sequence)?;
        if pending.attempts == 0 {
            pending.first_sent = now;
        }
        pending.deadline = now
            + self
                .settings
                .timeout
                .saturating_mul(1 << pending.attempts.min(16));
        pending.attempts += 1;
        self.waiting.insert((pending.deadline, sequence));
        KvRepr::request(
            pending.operation,
            sequence,
            pending.key,
            pending.value.as_bytes(),
        )
        .emit(out)
        .ok()
    }

    /// Takes a datagram that was received.
    ///
    /// # Errors
    /// Why it completes no request; it has then changed nothing.
    pub fn receive(&mut self, now: Instant, datagram: &[u8]) -> Result<Completion, Ignored> {
        let reply = KvView::new(datagram)?;
        if !reply.is_reply() {
            return Err(Ignored::Request);
        }
        let pending = self
            .pending
            .get(&reply.sequence())
            .filter(|pending| pending.attempts > 0)
            .ok_or(Ignored::Unexpected)?;
        if pending.key != reply.key() || pending.operation != reply.op() {
            return Err(Ignored::Mismatched);
        }
        let answer = match (reply.status(), reply.op()) {
            (KvStatus::Ok, KvOp::Get) => {
                Value::new(reply.value()).map_or(Answer::NotFound, Answer::Value)
            }
            (KvStatus::Ok, KvOp::Put | KvOp::Delete) => Answer::Done,
            (KvStatus::NotFound, _) => Answer::NotFound,
            (status, _) => Answer::Refused(status),
        };
        self.complete(reply.sequence(), answer, now)
            .ok_or(Ignored::Unexpected)
    }

    fn complete(&mut self, sequence: u32, answer: Answer, now: Instant) -> Option<Completion> {
        let pending = self.pending.remove(&sequence)?;
        if !self.waiting.remove(&(pending.deadline, sequence)) {
            // A late reply to an attempt that is about to be repeated: rare, and the queue short.
            self.unsent.retain(|&unsent| unsent != sequence);
        }
        let Pending {
            key,
            operation,
            attempts,
            first_sent,
            ..
        } = pending;
        Some(Completion {
            sequence,
            key,
            operation,
            answer,
            attempts,
            elapsed: now.since(first_sent),
        })
    }

    /// Ends one request whose last attempt has not been answered in time. Others that are late are
    /// queued to be sent again. Call it until it yields nothing.
    pub fn expire(&mut self, now: Instant) -> Option<Completion> {
        while let Some(&(deadline, sequence)) = self
            .waiting
            .first()
            .filter(|(deadline, _)| *deadline <= now)
        {
            let may_repeat = self
                .pending
                .get(&sequence)
                .is_some_and(|pending| pending.attempts < self.settings.attempts);
            if !may_repeat {
                return self.complete(sequence, Answer::TimedOut, now);
            }
            self.waiting.remove(&(deadline, sequence));
            self.unsent.push_back(sequence);
            self.repeated += 1;
        }
        None
    }

    /// When [`Self::expire`] has something to do, if no reply comes before.
    pub fn deadline(&self) -> Option<Instant> {
        self.waiting.first().map(|(deadline, _)| *deadline)
    }

    /// Requests that have not ended.
    pub fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// How often requests were sent again.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }
}
