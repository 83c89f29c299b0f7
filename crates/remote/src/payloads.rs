//! What a place for payloads does, whatever is behind it: a [server](crate::Requester) over RoCE, or
//! [memory of this process](crate::Store).

use crate::handle::Handle;
use std::fmt;
use std::time::Duration;
use thiserror::Error;
use twinpath_core::wire::{Address, MacAddress};
use twinpath_core::{Frame, Instant, Pools, Ticket};

/// A place where payloads wait.
///
/// All calls return at once. Frames that are to be sent, and payloads that are back, are appended to
/// an [`Output`]. Whoever owns it gives it every frame that comes from the server, and calls
/// [`poll`](Self::poll) behind each burst and at the [deadline](Self::deadline).
pub trait PayloadMemory {
    /// Which queue pairs may be written to. Packets of one class use one, so that they stay in order.
    fn queue_pairs(&self) -> u16;

    /// Whether a queue pair takes payloads now.
    fn is_ready(&self, queue_pair: u16) -> bool;

    /// Writes a payload, which is all of the frame.
    ///
    /// # Errors
    /// The payload comes back as it was: its packet has to travel whole.
    fn write(
        &mut self,
        queue_pair: u16,
        payload: Frame,
        now: Instant,
        output: &mut Output,
    ) -> Result<Handle, (Frame, Refusal)>;

    /// Reads a payload, for a header that waits. It, or that it is lost, will be in an [`Output`]: of one
    /// queue pair those that are not lost in the order in which they were asked for.
    ///
    /// # Errors
    /// There is no such payload, or no room; nothing will come. An unread payload stays where it is.
    fn read(
        &mut self,
        handle: &Handle,
        header: Ticket,
        now: Instant,
        pools: &mut Pools,
        output: &mut Output,
    ) -> Result<(), Refusal>;

    /// Nobody will read a payload: the function has dropped its packet.
    fn discard(&mut self, handle: &Handle);

    /// Takes a frame that came from the server's side; what is not for this comes back.
    fn receive(
        &mut self,
        frame: Frame,
        now: Instant,
        pools: &mut Pools,
        output: &mut Output,
    ) -> Option<Frame>;

    /// Does what time and new room ask for.
    fn poll(&mut self, now: Instant, pools: &mut Pools, output: &mut Output);

    /// When [`poll`](Self::poll) is to be called at the latest.
    fn deadline(&self) -> Instant;

    /// For how long a payload does not lose its place to others; [`Duration::MAX`] if for ever.
    fn protect(&mut self, protection: Duration);

    /// Whether any queue pair takes payloads now.
    fn is_up(&self) -> bool {
        (0..self.queue_pairs()).any(|index| self.is_ready(index))
    }

    /// Payloads that were asked for and did not come back, by why.
    fn losses(&self) -> Losses {
        Losses::default()
    }

    /// The switch has this address on the link to it, which carries IP packets of so many bytes.
    fn set_link(&mut self, _mac: MacAddress, _mtu: usize) {}

    /// Octets that the link to it has carried of this, in the direction that is the fuller.
    fn octets(&self) -> u64 {
        0
    }

    /// How long the fastest READ took of those that were answered since this was asked last; `None` if
    /// none was, or nobody is at the other end.
    fn take_fastest_read(&mut self) -> Option<Duration> {
        None
    }

    /// All that was counted, by name.
    fn named_counters(&self) -> Vec<(&'static str, u64)>;

    /// What is known of each queue pair.
    fn queue_pair_figures(&self) -> Vec<QueuePairStatus> {
        Vec::new()
    }
}

/// What is known of a queue pair.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuePairStatus {
    /// Which of the server's it is.
    pub number: u16,
    /// Whether it takes payloads.
    pub is_ready: bool,
    /// Payloads that were sent by it.
    pub writes: u64,
    /// Payloads that were asked for by it.
    pub reads: u64,
    /// Payloads that came back by it.
    pub payloads: u64,
    /// Lives that have begun.
    pub lives: u64,
    /// Lives that ended by an error.
    pub errors: u64,
    /// Why the last of them ended.
    pub last_error: Option<DownReason>,
}

/// What happened at the other end, for people.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A server that was not known has announced itself; what another at its place had is lost.
    Announced,
    /// What announces itself is of no use to these queue pairs.
    AnnouncementRefused(QueuePairs, AnnouncementRefusal),
    /// Nobody has announced itself for long under this number, whom these queue pairs wait for.
    Silent(QueuePairs, u16),
    /// The server of these queue pairs has not announced itself any more for long.
    Gone(QueuePairs),
    /// It announces itself again, and has what it had.
    Heard,
    /// All of these queue pairs take payloads of so many bytes.
    Up(QueuePairs, u16),
    /// A queue pair's life has ended.
    Down(u16, DownReason),
    /// Payloads did not come back, and their packets are lost.
    Lost(Losses),
}

impl Event {
    /// Whether something is wrong.
    #[must_use]
    pub const fn is_error(self) -> bool {
        !matches!(self, Self::Announced | Self::Heard | Self::Up(..))
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Announced => write!(f, "it has announced its memory"),
            Self::AnnouncementRefused(whose, why) => {
                write!(f, "its announcement is of no use to {whose}: {why}")
            }
            Self::Silent(whose, number) => write!(
                f,
                "it has not announced itself to {whose}: expected a memory server at the other end of the port (twinpath memory-server --server {number})"
            ),
            Self::Gone(whose) => write!(
                f,
                "it does not announce itself to {whose} any more: its flows go elsewhere, or travel whole, until it does"
            ),
            Self::Heard => write!(f, "it announces itself again"),
            Self::Up(whose, most) => match whose.count {
                1 => write!(f, "{whose} takes payloads of up to {most} bytes"),
                _ => write!(f, "{whose} take payloads of up to {most} bytes"),
            },
            Self::Down(index, why) => write!(f, "queue pair {index} is down: {why}"),
            Self::Lost(losses) => write!(f, "{losses}"),
        }
    }
}

/// Payloads that were asked for and did not come back.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// They did not reach the server.
    pub write: u64,
    /// They did not come in time.
    pub timeout: u64,
    /// What came is not what was written.
    pub mismatch: u64,
    /// They were lost with the server that had them.
    pub server: u64,
    /// They were gone before they were asked for: given up before, or overtaken.
    pub gone: u64,
}

impl Losses {
    /// Those since others.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            write: self.write - before.write,
            timeout: self.timeout - before.timeout,
            mismatch: self.mismatch - before.mismatch,
            server: self.server - before.server,
            gone: self.gone - before.gone,
        }
    }

    /// All.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.write + self.timeout + self.mismatch + self.server + self.gone
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let causes = [
            (self.write, Lost::Write.to_string()),
            (self.timeout, Lost::Timeout.to_string()),
            (self.mismatch, Lost::Mismatch.to_string()),
            (self.server, Lost::Server.to_string()),
            (self.gone, "gone before it was asked for".into()),
        ];
        write!(f, "packets lost with their payloads: {}", self.total())?;
        let mut begin = " (";
        for (count, why) in causes.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "{begin}{count}: {why}")?;
            begin = "; ";
        }
        f.write_str(")")
    }
}

/// All queue pairs that a switch, or one of its shards, has at a server, by their numbers there.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuePairs {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
    /// How many there are.
    pub count: usize,
}

impl QueuePairs {
    /// Those of which something is known.
    #[must_use]
    pub fn of(known: &[QueuePairStatus]) -> Self {
        let number = |one: Option<&QueuePairStatus>| one.map_or(0, |one| one.number);
        Self {
            first: number(known.first()),
            last: number(known.last()),
            count: known.len(),
        }
    }
}

impl fmt::Display for QueuePairs {
    /// With several shards each has every so many.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last, count } = *self;
        match usize::from(last - first) + 1 {
            1 => write!(f, "queue pair {first}"),
            all if all == count => write!(f, "queue pairs {first} to {last}"),
            _ => write!(f, "{count} queue pairs of {first} to {last}"),
        }
    }
}

/// Why an announcement is of no use.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum AnnouncementRefusal {
    /// It comes from another address than the switch expects.
    #[error("it is at {}, and the service expects {}", found.to_ip(), expected.to_ip())]
    Address {
        /// Where it is.
        found: Address,
        /// Where the service says that it is.
        expected: Address,
    },
    /// A server of the same number is known and announces itself.
    #[error(
        "another server of this number, at {known}, serves already and this one is at {found}: expected each to have its own, by --server"
    )]
    Another {
        /// The one that serves.
        known: MacAddress,
        /// The other.
        found: MacAddress,
    },
    /// A former run of the server that is known.
    #[error(
        "a former run of it, from {mac}, announces itself still: expected one server of this number"
    )]
    Former {
        /// Where both are.
        mac: MacAddress,
    },
    /// It is of the other IP version.
    #[error("another IP version than the switch's address on that port")]
    Version,
    /// It has fewer queue pairs than the switch has shards.
    #[error("fewer queue pairs than the switch has shards, so that there is none for one of them")]
    QueuePairs,
    /// There is too little memory, or none that can be read.
    #[error("too little memory, or packets too short")]
    Memory,
}

/// Why a queue pair's life ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Error)]
pub enum DownReason {
    /// The server did not answer.
    #[error("the server does not answer")]
    NoAnswer,
    /// The server found a request wrong.
    #[error("the server calls a request invalid")]
    InvalidRequest,
    /// The server has no such memory.
    #[error("the key or the address does not fit the server's memory")]
    RemoteAccess,
    /// The server could not do it.
    #[error("the server's memory failed")]
    RemoteOperation,
}

/// What comes out of a place for payloads.
#[derive(Debug, Default)]
pub struct Output {
    /// To be sent to the server.
    pub frames: Vec<Frame>,
    /// Payloads that were asked for.
    pub payloads: Vec<Returned>,
    /// What happened; no more than a queue pair and burst can cause.
    pub events: Vec<Event>,
}

impl Output {
    /// Whether nothing came out.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.payloads.is_empty() && self.events.is_empty()
    }
}

/// What became of a payload that was asked for.
#[derive(Debug)]
pub struct Returned {
    /// Whose it is.
    pub header: Ticket,
    /// The payload, which is all of the frame; there is headroom for its headers.
    pub payload: Result<Frame, Lost>,
}

/// Why a payload is not taken or cannot be read.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// There is no such queue pair.
    #[error("no such queue pair")]
    QueuePair,
    /// The queue pair has no life at this moment.
    #[error("the queue pair is being restored")]
    Down,
    /// Longer than a packet of RDMA.
    #[error("payload longer than the path's MTU")]
    TooLong,
    /// As many requests are under way as may be.
    #[error("too many requests are under way")]
    Window,
    /// The memory is full of payloads that are being read.
    #[error("no room in remote memory")]
    Memory,
    /// The frame has no room for headers.
    #[error("no room for headers in front of the payload")]
    Headroom,
    /// A handle that was never given out like this, or whose payload is gone: overtaken, lost with its
    /// server, or read already.
    #[error("no such payload")]
    Unknown,
}

/// Why a payload does not come back.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Error)]
pub enum Lost {
    /// It did not reach the server.
    #[error("lost on the way to the server, or the server did not say that it has it")]
    Write,
    /// The server did not answer in time.
    #[error("the payload did not come in time")]
    Timeout,
    /// What came is not what was written.
    #[error("what came is not what was written")]
    Mismatch,
    /// The server has lost all that it had.
    #[error("the server has begun anew")]
    Server,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_pairs_are_told_by_their_numbers() {
        let told = |numbers: &[u16]| {
            let known = numbers.iter().map(|&number| QueuePairStatus {
                number,
                ..QueuePairStatus::default()
            });
            QueuePairs::of(&known.collect::<Vec<_>>()).to_string()
        };
        assert_eq!(told(&[3]), "queue pair 3");
        assert_eq!(told(&[0, 1, 2, 3]), "queue pairs 0 to 3");
        assert_eq!(told(&[1, 3, 5]), "3 queue pairs of 1 to 5");
    }
}
