//! What is known of a neighbour (RFC 4861 §7.3.2; the same for IPv4).

use std::time::Duration;

/// How sure a neighbour's MAC address is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is asked for; packets wait.
    Incomplete,
    /// It was confirmed a short time ago.
    Reachable,
    /// It was right once.
    Stale,
    /// Packets were sent to it again: it may be confirmed by itself.
    Delay,
    /// The neighbour is asked whether it is still there; packets go on meanwhile.
    Probe,
}

/// What happens to a neighbour.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A packet is for it.
    Used,
    /// It has answered a question that was asked.
    Answered,
    /// It has told its MAC address by itself, and it is the one that is known.
    Announced,
    /// It has told another.
    AnnouncedOtherwise,
    /// A packet is for it, and its link was gone since it was confirmed.
    Doubted,
    /// The state's time is over, and it may be asked once more.
    TimeOver,
    /// The state's time is over, and it was asked often enough.
    Unanswered,
}

/// What is to be done besides.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    None,
    /// All on the cable are asked.
    AskAll,
    /// The neighbour is asked.
    Ask,
    /// Packets that waited go.
    Release,
    /// It is forgotten; packets that waited are dropped.
    Forget,
}

/// Questions before a neighbour counts as gone.
pub const QUESTIONS: u8 = 3;

impl State {
    /// Whether a question is open that an answer is awaited to.
    pub const fn has_asked(self) -> bool {
        matches!(self, Self::Incomplete | Self::Probe)
    }

    /// How long the state lasts by itself; `None` if it has no end.
    pub const fn time(self) -> Option<Duration> {
        match self {
            Self::Incomplete | Self::Probe => Some(Duration::from_secs(1)),
            Self::Reachable => Some(Duration::from_secs(30)),
            Self::Delay => Some(Duration::from_secs(5)),
            Self::Stale => None,
        }
    }

    /// The next state, and what is to be done. The time of a state that is entered anew begins again.
    pub const fn next(self, event: Event) -> (Self, Action) {
        use {Action as Do, Event as On, State as To};
        match (self, event) {
            (To::Incomplete, On::Used) => (To::Incomplete, Do::None),
            (To::Incomplete, On::TimeOver) => (To::Incomplete, Do::AskAll),
            (To::Incomplete, On::Answered) => (To::Reachable, Do::Release),
            (To::Incomplete, On::Announced | On::AnnouncedOtherwise) => (To::Stale, Do::Release),
            (To::Reachable | To::Stale | To::Delay | To::Probe, On::Answered) => {
                (To::Reachable, Do::None)
            }
            // Whoever had the address before is asked, too: it answers if it is still there.
            (To::Reachable | To::Stale | To::Delay, On::AnnouncedOtherwise) => {
                (To::Probe, Do::AskAll)
            }
            (To::Probe, On::AnnouncedOtherwise) => (To::Probe, Do::None),
            // It may be another station: all are asked. Packets go on to the one that was right.
            (To::Incomplete, On::Doubted) => (To::Incomplete, Do::AskAll),
            (To::Reachable | To::Stale | To::Delay | To::Probe, On::Doubted) => {
                (To::Probe, Do::AskAll)
            }
            (To::Reachable | To::Delay | To::Probe, On::Used | On::Announced) => (self, Do::None),
            (To::Reachable, On::TimeOver | On::Unanswered) => (To::Stale, Do::None),
            (To::Stale, On::Used) => (To::Delay, Do::None),
            (To::Stale, On::Announced | On::TimeOver | On::Unanswered) => (To::Stale, Do::None),
            (To::Delay | To::Probe, On::TimeOver) => (To::Probe, Do::Ask),
            (To::Delay, On::Unanswered) => (To::Probe, Do::Ask),
            (To::Incomplete | To::Probe, On::Unanswered) => (self, Do::Forget),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole table.
    #[test]
    fn every_event_in_every_state() {
        use State::{Delay, Incomplete, Probe, Reachable, Stale};
        let events = [
            Event::Used,
            Event::Answered,
            Event::Announced,
            Event::AnnouncedOtherwise,
            Event::Doubted,
            Event::TimeOver,
            Event::Unanswered,
        ];
        let mut table = String::new();
        for state in [Incomplete, Reachable, Stale, Delay, Probe] {
            for event in events {
                let (next, action) = state.next(event);
                table += &format!("{state:?} {event:?} -> {next:?} {action:?}\n");
            }
        }
        assert_eq!(table, include_str!("state_table.txt"));
    }
}
