//! The cores: they count, and give the count away and take it back.

use super::program::{Found, Kind, Packet};

/// A flow's counter on the cores, and which generation it was last given to.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    count: u64,
    given_to: Option<u32>,
}

/// All counters.
#[derive(Debug)]
pub(crate) struct Cores {
    counters: Vec<Counter>,
}

impl Cores {
    pub(crate) fn new(flows: u32) -> Self {
        Self {
            counters: vec![Counter::default(); flows as usize],
        }
    }

    /// Tells the packet its value; answers with what goes back to the switch.
    pub(crate) fn process(&mut self, packet: &Packet) -> (u64, Option<Kind>) {
        let counter = &mut self.counters[packet.flow as usize];
        let answer = match (packet.found, packet.write_back) {
            (Found::Frozen { generation } | Found::Active { generation }, Some(state)) => {
                // Every packet of a frozen flow brings the state; the first one counts.
                if counter.given_to.take_if(|to| *to == generation).is_some() {
                    counter.count = state;
                }
                Some(Kind::Acknowledge { generation })
            }
            _ => {
                // Whatever was given has not arrived: this packet passed the slot before.
                counter.given_to = None;
                None
            }
        };
        counter.count += 1;
        let value = counter.count;
        let Found::Empty { generation } = packet.found else {
            return (value, answer);
        };
        counter.given_to = Some(generation);
        (value, Some(Kind::Install { generation, value }))
    }
}
