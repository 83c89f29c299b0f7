//! Conversations as tables: one line a packet and what is to become of it.

use std::time::Duration;

use twinpath_core::wire::tcp::TcpOption;
use twinpath_core::wire::tcp::flags::{ACK, SYN};
use twinpath_core::wire::{Endpoint, PacketBuilder};
use twinpath_core::{DropReason, Instant};

use crate::firewall::connection::{Connection, Phase};
use crate::firewall::tcp_state::TcpState::{self, Established, SynReceived, SynSent};
use crate::firewall::{Config, Firewall};
use crate::two_paths::{Fate, Path};

pub const A: Endpoint = Endpoint::v4([10, 0, 0, 1], 40_000);
pub const B: Endpoint = Endpoint::v4([192, 0, 2, 1], 80);

/// When conversations begin.
pub const START: Instant = Instant(1 << 40);

/// Anybody may connect; connections are not met in mid-stream.
pub const STRICT: &str = "default = \"allow\"\npick_up = false";
pub const DEFAULT: &str = "default = \"allow\"";
/// A may connect to B, nobody else to anybody.
pub const ONLY_A: &str =
    "rules = [{ action = \"allow\", protocol = \"tcp\", from = \"10.0.0.0/8\", to_port = \"80\" }]";

/// A at 1000, B at 5000, windows of 10,000 bytes, no scaling.
pub const HANDSHAKE: [Line; 3] = [
    a(SYN, 999, 0).passes(SynSent),
    b(SYN | ACK, 4999, 1000).passes(SynReceived),
    a(ACK, 1000, 5000).passes(Established),
];

/// A TCP segment between A and B.
#[derive(Copy, Clone, Debug)]
pub struct Segment {
    from_a: bool,
    flags: u8,
    sequence: u32,
    acknowledgement: u32,
    bytes: usize,
    window: u16,
    scale: Option<u8>,
    wait: Duration,
}

/// A segment from A: flags, sequence and acknowledgement number.
pub const fn a(flags: u8, sequence: u32, acknowledgement: u32) -> Segment {
    Segment {
        from_a: true,
        flags,
        sequence,
        acknowledgement,
        bytes: 0,
        window: 10_000,
        scale: None,
        wait: Duration::ZERO,
    }
}

/// A segment from B.
pub const fn b(flags: u8, sequence: u32, acknowledgement: u32) -> Segment {
    Segment {
        from_a: false,
        ..a(flags, sequence, acknowledgement)
    }
}

impl Segment {
    /// With so much payload.
    pub const fn bytes(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    /// With another window than 10,000.
    pub const fn window(self, window: u16) -> Self {
        Self { window, ..self }
    }

    /// With a window scale option.
    pub const fn scale(self, scale: u8) -> Self {
        Self {
            scale: Some(scale),
            ..self
        }
    }

    /// So long after the segment before.
    pub const fn after(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// Passes, and leaves the connection in this state.
    pub const fn passes(self, state: TcpState) -> Line {
        Line {
            segment: self,
            expected: Ok(state),
        }
    }

    /// Is dropped and changes nothing.
    pub const fn is_invalid(self) -> Line {
        Line {
            segment: self,
            expected: Err(DropReason::InvalidState),
        }
    }

    /// Is denied and changes nothing.
    pub const fn is_denied(self) -> Line {
        Line {
            segment: self,
            expected: Err(DropReason::Denied),
        }
    }

    pub fn frame(&self) -> Vec<u8> {
        let (source, destination) = if self.from_a { (A, B) } else { (B, A) };
        let options: &[_] = &self
            .scale
            .map(TcpOption::WindowScale)
            .into_iter()
            .collect::<Vec<_>>();
        PacketBuilder::tcp(source, destination)
            .flags(self.flags)
            .seq(self.sequence)
            .ack(self.acknowledgement)
            .window(self.window)
            .tcp_options(options)
            .payload_len(self.bytes)
            .to_vec()
            .expect("a packet")
    }
}

/// One line of a conversation.
#[derive(Copy, Clone, Debug)]
pub struct Line {
    segment: Segment,
    expected: Result<TcpState, DropReason>,
}

/// Both ways to run a firewall, which must never differ.
pub struct Twins {
    slow: Path<Firewall>,
    both: Path<Firewall>,
}

impl Twins {
    pub fn new(config: &str) -> Self {
        let config: Config = toml::from_str(config).expect("a good configuration");
        Self {
            slow: Path::slow(Firewall::new(&config), START).gathering(),
            both: Path::both(Firewall::new(&config), START).gathering(),
        }
    }

    pub fn process(&mut self, frame: &[u8], now: Instant) -> Fate {
        let (alone, together) = (self.slow.process(frame, now), self.both.process(frame, now));
        assert_eq!(alone, together, "the paths differ");
        alone
    }

    /// Both take another configuration.
    pub fn reconfigure(&mut self, config: &str) {
        let config: Config = toml::from_str(config).expect("a good configuration");
        self.slow.reconfigure(Firewall::new(&config));
        self.both.reconfigure(Firewall::new(&config));
    }

    /// How many packets the fast path handled.
    pub fn simple(&self) -> u64 {
        self.both.simple
    }

    pub fn counter(&self, name: &str) -> u64 {
        self.slow.counter(name)
    }
}

/// What a fate says: forwarded unchanged, or why not.
pub fn verdict(fate: &Fate, frame: &[u8]) -> Result<(), DropReason> {
    match (&fate.onward[..], &fate.drops[..]) {
        ([forwarded], []) if forwarded == frame => Ok(()),
        ([], &[(reason, 1)]) => Err(reason),
        _ => panic!("neither forwarded nor dropped: {fate:?}"),
    }
}

pub fn state(words: &[u32]) -> TcpState {
    match Connection::load(words).map(|connection| connection.phase) {
        None => TcpState::None,
        Some(Phase::Tcp(state)) => state,
        Some(other) => panic!("no TCP connection: {other:?}"),
    }
}

/// Plays a conversation under a configuration, on the slow path and on both paths.
pub fn play(config: &str, lines: &[Line]) -> Twins {
    let mut twins = Twins::new(config);
    let mut now = START;
    let mut words = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        now = now + line.segment.wait;
        let frame = line.segment.frame();
        let fate = twins.process(&frame, now);
        let outcome = verdict(&fate, &frame).map(|()| state(&fate.words));
        assert_eq!(
            outcome,
            line.expected,
            "line {}: {:?}",
            number + 1,
            line.segment
        );
        let unchanged =
            words == fate.words || words.is_empty() && fate.words.iter().all(|&word| word == 0);
        assert!(
            outcome.is_ok() || unchanged,
            "line {} is dropped and changes the words",
            number + 1
        );
        words = fate.words;
    }
    twins
}

/// Plays a conversation that begins with the [`HANDSHAKE`].
pub fn play_after_handshake(config: &str, lines: &[Line]) -> Twins {
    play(config, &[&HANDSHAKE, lines].concat())
}
