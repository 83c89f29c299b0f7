//! Window tracking against its definition, computed from the whole history with numbers that
//! never wrap.

use proptest::prelude::*;
use twinpath_core::Direction;

use crate::firewall::segment::Segment;
use crate::firewall::tcp_state::{End, SegmentKind, TcpState};
use crate::firewall::window::{WindowVerdict, Windows};

/// A segment with positions in place of sequence numbers: 0 is the SYN.
#[derive(Copy, Clone, Debug)]
struct Event {
    sender: usize,
    first: i64,
    end: i64,
    acknowledged: i64,
    window: i64,
}

/// Everything believable that was sent.
struct History(Vec<Event>);

impl History {
    fn of(&self, sender: usize) -> impl Iterator<Item = &Event> {
        self.0.iter().filter(move |event| event.sender == sender)
    }

    fn highest_end(&self, sender: usize) -> i64 {
        self.of(sender)
            .map(|event| event.end)
            .max()
            .expect("both ends have sent a SYN")
    }

    fn largest_window(&self, sender: usize) -> i64 {
        self.of(sender)
            .map(|event| event.window)
            .max()
            .expect("both ends have sent a SYN")
    }

    /// How far this end may send.
    fn limit(&self, sender: usize) -> i64 {
        self.of(1 - sender)
            .map(|event| event.acknowledged + event.window)
            .max()
            .expect("both ends have sent a SYN")
    }

    fn highest_acknowledgement(&self, sender: usize) -> i64 {
        // The first SYN acknowledges nothing.
        let events = self.0.iter().skip(1).filter(|event| event.sender == sender);
        events.map(|event| event.acknowledged).fold(0, i64::max)
    }

    fn oldest_acknowledgement(&self, sender: usize) -> i64 {
        let reach = self.largest_window(sender).clamp(66_000, 1 << 20);
        self.highest_acknowledgement(sender) - reach
    }

    fn believes(&self, event: &Event) -> bool {
        event.end <= self.limit(event.sender)
            && event.end >= self.highest_end(event.sender) - self.largest_window(1 - event.sender)
            && event.acknowledged <= self.highest_end(1 - event.sender)
            && event.acknowledged >= self.oldest_acknowledgement(event.sender)
    }
}

/// A segment to come, relative to what counts at its time.
#[derive(Clone, Debug)]
struct Plan {
    sender: usize,
    bytes: i64,
    end_from: usize,
    end_offset: i64,
    acknowledgement_from: usize,
    acknowledgement_offset: i64,
    window: u16,
}

fn offset() -> impl Strategy<Value = i64> {
    prop_oneof![4 => -1..=1i64, 2 => -3000..3000i64, 1 => -(1 << 20)..1i64 << 20, 1 => -(1 << 30)..1i64 << 30]
}

fn plan() -> impl Strategy<Value = Plan> {
    let window = prop_oneof![Just(0), 0..20u16, any::<u16>()];
    (
        0..2usize,
        0..3000i64,
        0..3usize,
        offset(),
        0..2usize,
        offset(),
        window,
    )
        .prop_map(
            |(
                sender,
                bytes,
                end_from,
                end_offset,
                acknowledgement_from,
                acknowledgement_offset,
                window,
            )| Plan {
                sender,
                bytes,
                end_from,
                end_offset,
                acknowledgement_from,
                acknowledgement_offset,
                window,
            },
        )
}

impl Plan {
    fn event(&self, history: &History, scales: [u8; 2]) -> Event {
        let sender = self.sender;
        let highest = history.highest_end(sender);
        let ends = [
            highest,
            history.limit(sender),
            highest - history.largest_window(1 - sender),
        ];
        let acknowledgements = [
            history.highest_end(1 - sender),
            history.oldest_acknowledgement(sender),
        ];
        let end = ends[self.end_from] + self.end_offset;
        Event {
            sender,
            first: end - self.bytes,
            end,
            acknowledged: acknowledgements[self.acknowledgement_from] + self.acknowledgement_offset,
            window: (i64::from(self.window) << scales[sender]).max(1),
        }
    }
}

fn segment(
    event: &Event,
    kind: SegmentKind,
    window: u16,
    scale: Option<u8>,
    starts: [u32; 2],
) -> Segment {
    let number = |side: usize, position: i64| starts[side].wrapping_add(position as u32);
    Segment {
        direction: Direction::BOTH[event.sender],
        kind,
        sequence: number(event.sender, event.first),
        end: number(event.sender, event.end),
        acknowledgement: (kind != SegmentKind::Syn)
            .then(|| number(1 - event.sender, event.acknowledged)),
        window,
        scale,
    }
}

/// The handshake, believed by both.
fn handshake(starts: [u32; 2], windows: [u16; 2], scales: [Option<u8>; 2]) -> (Windows, History) {
    let syn = |sender: usize| Event {
        sender,
        first: 0,
        end: 1,
        acknowledged: 1,
        window: i64::from(windows[sender]).max(1),
    };
    let mut tracked = Windows::open(&segment(
        &syn(0),
        SegmentKind::Syn,
        windows[0],
        scales[0],
        starts,
    ));
    let answer = segment(&syn(1), SegmentKind::SynAck, windows[1], scales[1], starts);
    let judged = tracked.judge(TcpState::SynSent, End::Responder, &answer);
    assert_eq!(judged, WindowVerdict::Believed);
    (tracked, History(vec![syn(0), syn(1)]))
}

fn both(scales: [Option<u8>; 2]) -> [u8; 2] {
    match scales {
        [Some(a), Some(b)] => [a, b],
        _ => [0, 0],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn believes_what_the_definition_believes(
        starts: [u32; 2],
        windows: [u16; 2],
        scales in [prop::option::of(0..=14u8), prop::option::of(0..=14u8)],
        plans in prop::collection::vec(plan(), 1..60),
    ) {
        let (mut tracked, mut history) = handshake(starts, windows, scales);
        prop_assert_eq!(tracked.scales, both(scales));
        for plan in plans {
            let event = plan.event(&history, both(scales));
            let segment = segment(&event, SegmentKind::Ack, plan.window, None, starts);
            let before = tracked;
            let from = if event.sender == 0 { End::Opener } else { End::Responder };
            let judged = tracked.judge(TcpState::Established, from, &segment);
            let believed = judged == WindowVerdict::Believed;
            prop_assert_eq!(believed, history.believes(&event), "{:?}", event);
            if believed {
                history.0.push(event);
            } else {
                prop_assert_eq!(tracked, before, "what is not believed changes nothing");
            }
            for (side, start) in starts.iter().enumerate() {
                let half = tracked.halves[side];
                prop_assert_eq!(half.end, start.wrapping_add(history.highest_end(side) as u32));
                prop_assert_eq!(half.limit, start.wrapping_add(history.limit(side) as u32));
                prop_assert_eq!(i64::from(half.window), history.largest_window(side));
                let acknowledged = history.highest_acknowledgement(1 - side) as u32;
                prop_assert_eq!(half.acknowledged, start.wrapping_add(acknowledged));
            }
        }
    }
}
