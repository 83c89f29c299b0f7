//! Simple means equal: with the fast program in front, every packet ends as on the slow path alone,
//! and leaves the same state words.

use std::collections::HashSet;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use twinpath_core::Instant;
use twinpath_core::wire::icmp::IcmpError;
use twinpath_core::wire::tcp::TcpOption;
use twinpath_core::wire::tcp::flags::{ACK, FIN, RST, SYN};
use twinpath_core::wire::{Endpoint, PacketBuilder};

use super::talk::{A, B, START, Twins};
use crate::firewall::connection::{Connection, Phase};
use crate::firewall::tcp_state::TcpState;

/// What happens next between A and B. Side 0 is A.
#[derive(Clone, Debug)]
enum Event {
    /// What a TCP in order does next: the handshake, then data or acknowledgements.
    Proceed {
        sender: usize,
        bytes: usize,
        lag: u32,
    },
    /// Bytes from before.
    Retransmit {
        sender: usize,
        back: u32,
        bytes: usize,
    },
    /// A FIN, or a RST, with the right numbers.
    End {
        sender: usize,
        flags: u8,
    },
    /// A new connection with the same ports.
    Restart {
        sender: usize,
        start: u32,
        scale: Option<u8>,
    },
    /// Any flags, numbers near the right ones or far from them.
    Hostile {
        sender: usize,
        flags: u8,
        offsets: [u32; 2],
        bytes: usize,
    },
    /// The sender's window changes.
    Window {
        sender: usize,
        window: u16,
    },
    /// No TCP.
    Datagram {
        sender: usize,
        kind: u8,
    },
    /// An ICMP error about the last packet.
    Error,
    /// The last packet again.
    Duplicate,
    /// Time passes; or a little less than none.
    Wait {
        milliseconds: u64,
    },
    Back {
        milliseconds: u64,
    },
}

fn offset() -> impl Strategy<Value = u32> {
    let edges = vec![
        0,
        1,
        2,
        100,
        65_535,
        65_536,
        66_000,
        66_001,
        1 << 30,
        1 << 31,
    ];
    prop_oneof![
        4 => Just(0),
        4 => (prop::sample::select(edges), any::<bool>(), 0..3u32).prop_map(|(edge, below, more)| {
            let near = edge + more;
            if below { near.wrapping_neg() } else { near }
        }),
        1 => any::<u32>(),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let waits = vec![
        0, 1, 70, 1000, 9900, 10_100, 29_900, 30_200, 179_000, 181_000, 239_000, 241_000,
        3_599_000, 3_601_000,
    ];
    let side = 0..2usize;
    prop_oneof![
        20 => (side.clone(), 0..1500usize, prop_oneof![3 => Just(0), 1 => 0..3000u32]).prop_map(|(sender, bytes, lag)| Event::Proceed { sender, bytes, lag }),
        3 => (side.clone(), 0..80_000u32, 0..1500usize).prop_map(|(sender, back, bytes)| Event::Retransmit { sender, back, bytes }),
        2 => (side.clone(), prop::sample::select(vec![FIN | ACK, FIN | ACK, RST, RST | ACK])).prop_map(|(sender, flags)| Event::End { sender, flags }),
        1 => (side.clone(), any::<u32>(), prop::option::of(0..16u8)).prop_map(|(sender, start, scale)| Event::Restart { sender, start, scale }),
        6 => (side.clone(), prop_oneof![Just(ACK), any::<u8>()], [offset(), offset()], 0..1500usize)
            .prop_map(|(sender, flags, offsets, bytes)| Event::Hostile { sender, flags, offsets, bytes }),
        2 => (side.clone(), prop_oneof![Just(0), 0..50u16, any::<u16>()]).prop_map(|(sender, window)| Event::Window { sender, window }),
        4 => (side, 0..6u8).prop_map(|(sender, kind)| Event::Datagram { sender, kind }),
        1 => Just(Event::Error),
        2 => Just(Event::Duplicate),
        3 => prop::sample::select(waits).prop_map(|milliseconds| Event::Wait { milliseconds }),
        1 => (0..200u64).prop_map(|milliseconds| Event::Back { milliseconds }),
    ]
}

/// Two ends that talk.
struct Talk {
    next: [u32; 2],
    windows: [u16; 2],
    scale: Option<u8>,
    handshake: usize,
    opener: usize,
    last: Vec<u8>,
    now: Instant,
}

impl Talk {
    fn new(next: [u32; 2], scale: Option<u8>, in_mid_stream: bool) -> Self {
        let handshake = if in_mid_stream { 3 } else { 0 };
        Self {
            next,
            windows: [5000, 60_000],
            scale,
            handshake,
            opener: 0,
            last: udp(0),
            now: START,
        }
    }

    /// The packet of an event, if it is one.
    fn packet(&mut self, event: &Event) -> Option<Vec<u8>> {
        let frame = match *event {
            Event::Proceed { sender, bytes, lag } => self.proceed(sender, bytes, lag),
            Event::Retransmit {
                sender,
                back,
                bytes,
            } => self.tcp(sender, ACK, self.next[sender].wrapping_sub(back), 0, bytes),
            Event::End { sender, flags } => self.end(sender, flags),
            Event::Restart {
                sender,
                start,
                scale,
            } => {
                (self.next[sender], self.handshake, self.opener, self.scale) =
                    (start, 0, sender, scale);
                self.proceed(sender, 0, 0)
            }
            Event::Hostile {
                sender,
                flags,
                offsets,
                bytes,
            } => {
                let sequence = self.next[sender].wrapping_add(offsets[0]);
                self.tcp(sender, flags, sequence, offsets[1].wrapping_neg(), bytes)
            }
            Event::Datagram { sender, kind } => datagram(sender, kind),
            Event::Error => {
                PacketBuilder::icmp_error(IcmpError::Unreachable { code: 3 }, &self.last)
                    .to_vec()
                    .ok()?
            }
            Event::Duplicate => self.last.clone(),
            Event::Window { sender, window } => {
                self.windows[sender] = window;
                return None;
            }
            Event::Wait { milliseconds } => {
                self.now = self.now + Duration::from_millis(milliseconds);
                return None;
            }
            Event::Back { milliseconds } => {
                self.now = self.now - Duration::from_millis(milliseconds);
                return None;
            }
        };
        self.last.clone_from(&frame);
        Some(frame)
    }

    fn proceed(&mut self, sender: usize, bytes: usize, lag: u32) -> Vec<u8> {
        let (opener, step) = (self.opener, self.handshake);
        self.handshake += 1;
        let (sender, flags, bytes) = match step {
            0 => (opener, SYN, 0),
            1 => (1 - opener, SYN | ACK, 0),
            2 => (opener, ACK, 0),
            _ => (sender, ACK, bytes),
        };
        let frame = self.tcp(sender, flags, self.next[sender], lag, bytes);
        self.next[sender] =
            self.next[sender].wrapping_add(bytes as u32 + u32::from(flags & SYN != 0));
        frame
    }

    fn end(&mut self, sender: usize, flags: u8) -> Vec<u8> {
        let frame = self.tcp(sender, flags, self.next[sender], 0, 0);
        self.next[sender] = self.next[sender].wrapping_add(u32::from(flags & FIN != 0));
        frame
    }

    fn tcp(&self, sender: usize, flags: u8, sequence: u32, lag: u32, bytes: usize) -> Vec<u8> {
        let scale = self
            .scale
            .filter(|_| flags & SYN != 0)
            .map(TcpOption::WindowScale);
        PacketBuilder::tcp(end(sender), end(1 - sender))
            .flags(flags)
            .seq(sequence)
            .ack(self.next[1 - sender].wrapping_sub(lag))
            .window(self.windows[sender])
            .tcp_options(scale.as_slice())
            .payload_len(bytes)
            .to_vec()
            .expect("a packet")
    }
}

fn end(side: usize) -> Endpoint {
    [A, B][side]
}

fn udp(sender: usize) -> Vec<u8> {
    PacketBuilder::udp(end(sender), end(1 - sender))
        .payload_len(9)
        .to_vec()
        .expect("a packet")
}

fn datagram(sender: usize, kind: u8) -> Vec<u8> {
    let (source, destination) = (end(sender), end(1 - sender));
    let (source_id, destination_id) = (
        Endpoint::new(source.address, 7),
        Endpoint::new(destination.address, 7),
    );
    let builder = match kind {
        0 | 1 => return udp(sender),
        2 => PacketBuilder::icmp_echo(source_id, destination_id),
        3 => PacketBuilder::icmp_echo(source_id, destination_id).echo_reply(),
        4 => PacketBuilder::raw(47, source.address, destination.address).payload_len(30),
        _ => PacketBuilder::udp(source, destination)
            .fragment(8, true)
            .payload_len(80),
    };
    builder.to_vec().expect("a packet")
}

const CONFIGS: [&str; 4] = [
    "default = \"allow\"",
    "default = \"allow\"\npick_up = false",
    "default = \"allow\"\nliberal = true",
    "rules = [{ action = \"allow\", from = \"10.0.0.0/8\" }]",
];

fn script() -> impl Strategy<Value = (usize, Talk, Vec<Event>)> {
    let talk = (
        [any::<u32>(), any::<u32>()],
        prop::option::of(0..16u8),
        any::<bool>(),
    );
    let talk = talk.prop_map(|(next, scale, in_mid_stream)| (next, scale, in_mid_stream));
    (
        0..CONFIGS.len(),
        talk,
        prop::collection::vec(event(), 1..80),
    )
        .prop_map(|(config, (next, scale, in_mid_stream), events)| {
            (config, Talk::new(next, scale, in_mid_stream), events)
        })
}

impl std::fmt::Debug for Talk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "Talk {{ next: {:?}, scale: {:?}, handshake: {} }}",
            self.next, self.scale, self.handshake
        )
    }
}

/// Runs a script on both ways; `each` sees the words after every packet. Returns how many packets
/// there were and how many of them were simple.
fn run(
    config: usize,
    mut talk: Talk,
    events: &[Event],
    mut each: impl FnMut(&[u32]),
) -> (u64, u64) {
    let mut twins = Twins::new(CONFIGS[config]);
    let mut packets = 0;
    for event in events {
        if let Some(frame) = talk.packet(event) {
            each(&twins.process(&frame, talk.now).words);
            packets += 1;
        }
    }
    (packets, twins.simple())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn both_paths_do_the_same((config, talk, events) in script()) {
        run(config, talk, &events, |_| {});
    }
}

#[test]
fn the_scripts_reach_every_state_and_much_of_them_is_simple() {
    let mut runner = TestRunner::deterministic();
    let (mut states, mut packets, mut simple) = (HashSet::new(), 0, 0);
    for _ in 0..1000 {
        let (config, talk, events) = script().new_tree(&mut runner).expect("a script").current();
        let (more, more_simple) = run(config, talk, &events, |words| {
            states.extend(
                Connection::load(words).map(|connection| match connection.phase {
                    Phase::Tcp(state) => state as usize,
                    Phase::Unreplied => 97,
                    Phase::Answered => 98,
                    Phase::Replied => 99,
                }),
            );
        });
        (packets, simple) = (packets + more, simple + more_simple);
    }
    assert_eq!(
        states.len(),
        TcpState::ALL.len() - 1 + 3,
        "every state but none"
    );
    assert!(
        simple * 8 > packets,
        "{simple} of {packets} packets are simple"
    );
}
