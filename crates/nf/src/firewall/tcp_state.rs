//! What a TCP connection is doing: one enum and one transition function.
//!
//! The transition function knows flags and nothing else; whether a segment's numbers are
//! believable is the business of [`super::window`], which is asked first wherever the table says
//! that a segment moves the connection on. The whole table is in `tcp_state.txt`, which a test
//! holds it to.

use twinpath_core::wire::tcp::flags::{ACK, FIN, RST, SYN};

/// The state of a TCP connection. The opener is the end whose segment came first.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TcpState {
    /// Nothing is known.
    #[default]
    None = 0,
    /// The opener has sent a SYN.
    SynSent = 1,
    /// A SYN has been acknowledged with a SYN.
    SynReceived = 2,
    /// Met in mid-stream, and only the opener has been heard.
    PickedUp = 3,
    /// Both ends may send.
    Established = 4,
    /// The opener has sent a FIN; the responder may go on sending.
    OpenerFinWait = 5,
    /// The responder has sent a FIN; the opener may go on sending.
    ResponderFinWait = 6,
    /// Both ends have sent a FIN.
    Closing = 7,
    /// Both FINs have been sent and an acknowledgement has followed. A SYN opens a new connection.
    TimeWait = 8,
    /// The reset was seen that its receiver expected. A SYN opens a new connection.
    Closed = 9,
    /// Met in mid-stream, and the responder has been heard, but not yet that the opener hears it.
    Answered = 10,
}

impl TcpState {
    /// Its name in lists of flows.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::SynSent => "syn_sent",
            Self::SynReceived => "syn_received",
            Self::PickedUp => "picked_up",
            Self::Established => "established",
            Self::OpenerFinWait => "opener_fin_wait",
            Self::ResponderFinWait => "responder_fin_wait",
            Self::Closing => "closing",
            Self::TimeWait => "time_wait",
            Self::Closed => "closed",
            Self::Answered => "answered",
        }
    }

    /// Every state, in the order of its number.
    pub const ALL: [Self; 11] = [
        Self::None,
        Self::SynSent,
        Self::SynReceived,
        Self::PickedUp,
        Self::Established,
        Self::OpenerFinWait,
        Self::ResponderFinWait,
        Self::Closing,
        Self::TimeWait,
        Self::Closed,
        Self::Answered,
    ];
}

impl TcpState {
    /// Whether it is not sure yet that both ends take part: anybody may have sent the opener's
    /// segments, until it acknowledges what the responder has sent.
    pub const fn is_half_open(self) -> bool {
        matches!(
            self,
            Self::SynSent | Self::SynReceived | Self::PickedUp | Self::Answered
        )
    }

    /// Whether the connection is over: what is still to come changes nothing.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::TimeWait | Self::Closed)
    }
}

/// Which end of the connection a segment comes from.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The end whose segment came first.
    Opener,
    /// The other end.
    Responder,
}

/// What a segment's flags make of it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum SegmentKind {
    /// SYN without ACK.
    Syn,
    /// SYN and ACK.
    SynAck,
    /// ACK, with or without data.
    Ack,
    /// FIN and ACK, with or without data.
    Fin,
    /// RST, with or without ACK.
    Reset,
    /// A combination that no TCP sends.
    Nonsense,
}

impl SegmentKind {
    /// The kind that these flags make; PSH, URG, ECE and CWR do not matter.
    pub const fn of(tcp_flags: u8) -> Self {
        const SYN_ACK: u8 = SYN | ACK;
        const FIN_ACK: u8 = FIN | ACK;
        const RST_ACK: u8 = RST | ACK;
        match tcp_flags & (SYN | FIN | RST | ACK) {
            SYN => Self::Syn,
            SYN_ACK => Self::SynAck,
            ACK => Self::Ack,
            FIN_ACK => Self::Fin,
            RST | RST_ACK => Self::Reset,
            _ => Self::Nonsense,
        }
    }
}

/// What a segment does to a connection.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Transition {
    /// The connection goes on in this state, if the segment's numbers are believable.
    To(TcpState),
    /// A new connection begins, if the rules allow it.
    Open,
    /// A connection is met in mid-stream: it is picked up, if the configuration says so and the
    /// rules allow it.
    PickUp,
    /// The segment passes and changes nothing: its receiver knows better what to do with it.
    Ignore,
    /// The segment is dropped.
    Invalid,
}

/// The state machine: what a segment of this kind from this end does in this state.
pub const fn transition(state: TcpState, from: End, kind: SegmentKind) -> Transition {
    use SegmentKind as Kind;
    use TcpState as State;
    use Transition::{Ignore, Invalid, Open, PickUp, To};
    match (state, from, kind) {
        (_, _, Kind::Nonsense) => Invalid,

        (State::None, _, Kind::Syn) => Open,
        (State::None, _, Kind::Reset) => Invalid,
        (State::None, _, _) => PickUp,

        // The opener gives up, or answers the challenge of an old connection and will try again.
        (State::SynSent, End::Opener, Kind::Reset) => Ignore,
        (_, _, Kind::Reset) => To(State::Closed),

        (State::SynSent, End::Opener, Kind::Syn) => To(State::SynSent),
        // Both open at once: the opener acknowledges the responder's SYN with its own.
        (State::SynSent, End::Opener, Kind::SynAck) => To(State::SynSent),
        (State::SynSent, End::Opener, _) => PickUp,
        (State::SynSent, End::Responder, Kind::SynAck) => To(State::SynReceived),
        // The responder still has an old connection and challenges the SYN, or opens at once with
        // the opener. A SYN that acknowledges nothing proves nothing; what it leads to will.
        (State::SynSent, End::Responder, Kind::Syn | Kind::Ack) => Ignore,
        (State::SynSent, End::Responder, _) => Invalid,

        (State::SynReceived, End::Opener, Kind::SynAck | Kind::Ack) => To(State::Established),
        (State::SynReceived, End::Responder, Kind::SynAck | Kind::Ack) => To(State::SynReceived),

        (State::PickedUp, End::Opener, Kind::SynAck | Kind::Ack | Kind::Fin) => To(State::PickedUp),
        (State::PickedUp | State::Answered, End::Responder, Kind::SynAck | Kind::Ack) => {
            To(State::Answered)
        }
        (State::Answered, End::Opener, Kind::SynAck | Kind::Ack) => To(State::Established),

        (State::PickedUp | State::Answered | State::TimeWait | State::Closed, _, Kind::Syn) => Open,
        // An end that has forgotten the connection tries anew: the other end's answer shows it
        // that the connection lives, and its reset then closes it.
        (_, _, Kind::Syn) => Ignore,

        (State::OpenerFinWait, End::Responder, Kind::Fin) => To(State::Closing),
        (State::ResponderFinWait, End::Opener, Kind::Fin) => To(State::Closing),
        (State::SynReceived | State::Answered | State::Established, End::Opener, Kind::Fin) => {
            To(State::OpenerFinWait)
        }
        (
            State::SynReceived | State::PickedUp | State::Answered | State::Established,
            End::Responder,
            Kind::Fin,
        ) => To(State::ResponderFinWait),

        (State::Closing, _, Kind::Ack) => To(State::TimeWait),
        (
            State::Established
            | State::OpenerFinWait
            | State::ResponderFinWait
            | State::Closing
            | State::TimeWait
            | State::Closed,
            _,
            _,
        ) => To(state),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    const KINDS: [SegmentKind; 6] = [
        SegmentKind::Syn,
        SegmentKind::SynAck,
        SegmentKind::Ack,
        SegmentKind::Fin,
        SegmentKind::Reset,
        SegmentKind::Nonsense,
    ];

    /// The whole table as text.
    fn table() -> String {
        let mut text = String::from("TCP flags (FIN SYN RST ACK) -> kind of segment\n");
        for flags in 0..32u8 {
            if flags & 8 == 0 {
                let set = [(FIN, "FIN"), (SYN, "SYN"), (RST, "RST"), (ACK, "ACK")]
                    .iter()
                    .filter(|(bit, _)| flags & bit != 0);
                let names: Vec<_> = set.map(|&(_, name)| name).collect();
                let names = if names.is_empty() {
                    "none".into()
                } else {
                    names.join(" ")
                };
                writeln!(text, "{names:<16} {:?}", SegmentKind::of(flags))
                    .expect("writing to a string");
            }
        }
        for end in [End::Opener, End::Responder] {
            text.push('\n');
            let heading = format!("from the {end:?}").to_lowercase();
            row(&mut text, &heading, KINDS.map(|kind| format!("{kind:?}")));
            for state in TcpState::ALL {
                row(
                    &mut text,
                    &format!("{state:?}"),
                    KINDS.map(|kind| cell(transition(state, end, kind))),
                );
            }
        }
        text
    }

    fn row(text: &mut String, name: &str, cells: [String; 6]) {
        let cells: String = cells.iter().map(|cell| format!(" | {cell:<16}")).collect();
        writeln!(text, "{}", format!("{name:<18}{cells}").trim_end()).expect("writing to a string");
    }

    fn cell(transition: Transition) -> String {
        match transition {
            Transition::To(state) => format!("{state:?}"),
            other => format!("{other:?}").to_uppercase(),
        }
    }

    #[test]
    fn the_whole_table_is_as_recorded() {
        let (actual, recorded) = (table(), include_str!("tcp_state.txt"));
        assert!(
            actual == recorded,
            "the table has changed; if this is meant, put this into tcp_state.txt:\n{actual}"
        );
    }

    #[test]
    fn numbers_are_places_in_the_list() {
        for (index, state) in TcpState::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, index);
        }
    }

    #[test]
    fn flags_that_do_not_matter_do_not() {
        for flags in 0..=u8::MAX {
            assert_eq!(
                SegmentKind::of(flags),
                SegmentKind::of(flags & (SYN | FIN | RST | ACK))
            );
        }
    }
}
