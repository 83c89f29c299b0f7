//! Backends over time: which there are, from when and until when.
//!
//! The schedule is replayed once, when the configuration is read. What remains is a list of rows
//! that only grows (a row is never reused, so that a connection's row always means the same
//! backend) and a list of epochs, between which the set of backends for new connections changes.
//! Both are a function of packet time alone, so the two paths cannot disagree.

use super::error::ConfigError;
use super::limits::{MAX_CHANGES, MAX_WEIGHT};
use super::protocol::Protocol;
use super::values::{EndpointText, Weight};
use crate::checked;
use crate::duration::Human;
use crate::text::Text;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use std::collections::HashMap;
use twinpath_core::Instant;
use twinpath_wire::{Endpoint, MacAddress};

/// A backend as the configuration names it.
#[derive(Copy, Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Backend {
    /// Its address and port. With direct return it only names the backend.
    pub endpoint: EndpointText,
    /// Its share of new connections, relative to others'.
    #[serde(default)]
    #[schemars(range(min = 1, max = MAX_WEIGHT))]
    pub weight: Weight,
    /// Where packets for it are sent; for direct return, which needs it.
    pub mac: Option<Text<MacAddress>>,
    /// It gets no new connections from the start on.
    #[serde(default)]
    pub drained: bool,
}

/// A change of the backends at some time of the run.
#[derive(Copy, Clone, Debug, PartialEq, JsonSchema)]
#[schemars(with = "RawChange")]
pub(super) struct ScheduledChange {
    /// Since the start of the run.
    pub at: Human,
    pub kind: ChangeKind,
}

/// What changes.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) enum ChangeKind {
    /// No new connections for this one.
    Drain(Endpoint),
    /// This one is gone.
    Remove(Endpoint),
    /// Another one, or one that was drained again.
    Add(Backend),
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RawChange {
    /// When, since the start of the run.
    at: Human,
    /// A backend that gets no new connections from then on. A change has one of `drain`, `remove`
    /// and `add`.
    drain: Option<EndpointText>,
    /// A backend that is gone from then on.
    remove: Option<EndpointText>,
    /// A backend that takes new connections from then on.
    add: Option<EndpointText>,
    /// With `add`: its share of new connections; 1 if absent.
    #[schemars(range(min = 1, max = MAX_WEIGHT))]
    weight: Option<Weight>,
    /// With `add`: where packets for it are sent.
    mac: Option<Text<MacAddress>>,
}

impl<'de> Deserialize<'de> for ScheduledChange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        checked::table::<_, RawChange, _>(deserializer)
    }
}

impl TryFrom<RawChange> for ScheduledChange {
    type Error = ConfigError;

    fn try_from(raw: RawChange) -> Result<Self, ConfigError> {
        let RawChange {
            at,
            drain,
            remove,
            add,
            weight,
            mac,
        } = raw;
        let kind = match (drain, remove, add) {
            (Some(drain), None, None) => ChangeKind::Drain(drain.0),
            (None, Some(remove), None) => ChangeKind::Remove(remove.0),
            (None, None, Some(endpoint)) => ChangeKind::Add(Backend {
                endpoint,
                weight: weight.unwrap_or_default(),
                mac,
                drained: false,
            }),
            _ => return Err(ConfigError::ChangeKind),
        };
        match kind {
            ChangeKind::Add(_) => Ok(Self { at, kind }),
            _ if weight.is_none() && mac.is_none() => Ok(Self { at, kind }),
            _ => Err(ConfigError::OnlyWithAdd),
        }
    }
}

/// A backend with its time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlannedBackend {
    pub endpoint: Endpoint,
    /// Zero if packets are not sent by MAC address.
    pub mac: MacAddress,
    /// When it is gone, counted from the start of the run.
    pub until: Instant,
    /// The name of its counter. Names of counters live as long as the process, so they are made
    /// here: once for each configuration that is read.
    pub counter: &'static str,
}

/// A time in which new connections have the same choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Epoch {
    /// When it begins, counted from the start of the run.
    pub from: Instant,
    /// Backends that take new connections.
    pub members: Vec<Member>,
}

/// A backend that takes new connections.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// Index among the service's backends.
    pub backend: usize,
    pub weight: u32,
}

/// Plays a service's changes through, in the order of their times.
pub(super) fn replay(
    vip: Endpoint,
    protocol: Protocol,
    backends: &[Backend],
    mut changes: Vec<ScheduledChange>,
) -> Result<(Vec<PlannedBackend>, Vec<Epoch>), ConfigError> {
    if changes.len() > MAX_CHANGES {
        return Err(ConfigError::TooManyChanges {
            vip,
            changes: changes.len(),
        });
    }
    let mut replay = Replay {
        vip,
        protocol,
        indices: HashMap::new(),
        backends: Vec::new(),
        states: Vec::new(),
        epochs: Vec::new(),
    };
    for backend in backends {
        replay.add(Human::default(), backend)?;
        if backend.drained {
            replay.drain(Human::default(), backend.endpoint.0)?;
        }
    }
    replay.begin_epoch(Human::default());
    changes.sort_by_key(|change| change.at);
    for ScheduledChange { at, kind } in changes {
        match kind {
            ChangeKind::Drain(endpoint) => replay.drain(at, endpoint)?,
            ChangeKind::Remove(endpoint) => replay.remove(at, endpoint)?,
            ChangeKind::Add(backend) => replay.add(at, &backend)?,
        }
        replay.begin_epoch(at);
    }
    Ok((replay.backends, replay.epochs))
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum State {
    Live { weight: u32 },
    Draining,
    Removed,
}

impl State {
    const fn name(self) -> &'static str {
        match self {
            Self::Live { .. } => "a live backend",
            Self::Draining => "a draining backend",
            Self::Removed => "no longer a backend",
        }
    }
}

struct Replay {
    vip: Endpoint,
    protocol: Protocol,
    indices: HashMap<Endpoint, usize>,
    backends: Vec<PlannedBackend>,
    states: Vec<State>,
    epochs: Vec<Epoch>,
}

impl Replay {
    fn position(&self, endpoint: Endpoint) -> Option<usize> {
        self.indices.get(&endpoint).copied()
    }

    fn add(&mut self, at: Human, backend: &Backend) -> Result<(), ConfigError> {
        let (vip, endpoint) = (self.vip, backend.endpoint.0);
        let mac = backend.mac.map_or(MacAddress::ZERO, |mac| mac.0);
        let live = State::Live {
            weight: backend.weight.0,
        };
        let Some(index) = self.position(endpoint) else {
            self.indices.insert(endpoint, self.backends.len());
            self.backends.push(PlannedBackend {
                endpoint,
                mac,
                until: Instant::NEVER,
                counter: self.counter(endpoint),
            });
            self.states.push(live);
            return Ok(());
        };
        match self.states[index] {
            State::Live { .. } => Err(ConfigError::AlreadyThere { vip, endpoint, at }),
            State::Removed => Err(ConfigError::Returned { vip, endpoint, at }),
            State::Draining if self.backends[index].mac != mac => {
                Err(ConfigError::OtherMac { endpoint, at })
            }
            State::Draining => {
                self.states[index] = live;
                Ok(())
            }
        }
    }

    fn counter(&self, endpoint: Endpoint) -> &'static str {
        let Self { vip, protocol, .. } = self;
        format!("new_connections{{service=\"{vip}/{protocol}\",backend=\"{endpoint}\"}}").leak()
    }

    fn drain(&mut self, at: Human, endpoint: Endpoint) -> Result<(), ConfigError> {
        match self.state(endpoint) {
            (State::Live { .. }, index) => {
                self.states[index] = State::Draining;
                Ok(())
            }
            (state, _) => Err(self.not_there(at, endpoint, "drained", state)),
        }
    }

    fn remove(&mut self, at: Human, endpoint: Endpoint) -> Result<(), ConfigError> {
        match self.state(endpoint) {
            (State::Live { .. } | State::Draining, index) => {
                self.states[index] = State::Removed;
                self.backends[index].until = offset(at);
                Ok(())
            }
            (state, _) => Err(self.not_there(at, endpoint, "removed", state)),
        }
    }

    /// What an endpoint is, and its index if it is or was a backend.
    fn state(&self, endpoint: Endpoint) -> (State, usize) {
        self.position(endpoint)
            .map_or((State::Removed, 0), |index| (self.states[index], index))
    }

    fn not_there(
        &self,
        at: Human,
        endpoint: Endpoint,
        action: &'static str,
        state: State,
    ) -> ConfigError {
        let state = if self.position(endpoint).is_some() {
            state.name()
        } else {
            "no backend"
        };
        ConfigError::NotThere {
            vip: self.vip,
            endpoint,
            at,
            action,
            state,
        }
    }

    /// Replaces the epoch of the same moment, if there is one.
    fn begin_epoch(&mut self, at: Human) {
        let from = offset(at);
        let members = self
            .states
            .iter()
            .enumerate()
            .filter_map(|(backend, state)| match *state {
                State::Live { weight } => Some(Member { backend, weight }),
                _ => None,
            });
        let epoch = Epoch {
            from,
            members: members.collect(),
        };
        self.epochs.pop_if(|last| last.from == from);
        self.epochs.push(epoch);
    }
}

fn offset(at: Human) -> Instant {
    Instant::ZERO + at.duration()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIP: Endpoint = Endpoint::v4([192, 0, 2, 1], 80);

    fn endpoint(number: u8) -> Endpoint {
        Endpoint::v4([10, 1, 0, number], 8080)
    }

    fn backend(number: u8, weight: u32) -> Backend {
        Backend {
            endpoint: EndpointText(endpoint(number)),
            weight: Weight(weight),
            mac: None,
            drained: false,
        }
    }

    fn play(
        changes: &[(u64, ChangeKind)],
    ) -> Result<(Vec<PlannedBackend>, Vec<Epoch>), ConfigError> {
        let changes = changes
            .iter()
            .map(|&(seconds, kind)| ScheduledChange {
                at: Human::seconds(seconds),
                kind,
            })
            .collect();
        replay(VIP, Protocol::Tcp, &[backend(1, 1), backend(2, 3)], changes)
    }

    fn seconds(seconds: u64) -> Instant {
        offset(Human::seconds(seconds))
    }

    #[test]
    fn epochs_follow_the_changes_in_order_of_time() {
        let changes = [
            (6, ChangeKind::Add(backend(3, 2))),
            (2, ChangeKind::Drain(endpoint(2))),
            (4, ChangeKind::Remove(endpoint(2))),
            (6, ChangeKind::Drain(endpoint(1))),
        ];
        let (backends, epochs) = play(&changes).expect("a possible schedule");
        let times: Vec<_> = epochs.iter().map(|epoch| epoch.from).collect();
        assert_eq!(times, [seconds(0), seconds(2), seconds(4), seconds(6)]);
        let member = |backend, weight| Member { backend, weight };
        assert_eq!(epochs[0].members, [member(0, 1), member(1, 3)]);
        assert_eq!(epochs[1].members, [member(0, 1)]);
        assert_eq!(epochs[3].members, [member(2, 2)]);
        let ends: Vec<_> = backends.iter().map(|backend| backend.until).collect();
        assert_eq!(ends, [Instant::NEVER, seconds(4), Instant::NEVER]);
    }

    #[test]
    fn a_drained_backend_comes_back_in_its_row() {
        let (backends, epochs) = play(&[
            (1, ChangeKind::Drain(endpoint(1))),
            (2, ChangeKind::Add(backend(1, 5))),
        ])
        .expect("possible");
        assert_eq!(backends.len(), 2);
        assert_eq!(
            epochs[2].members[0],
            Member {
                backend: 0,
                weight: 5
            }
        );
    }

    #[test]
    fn impossible_changes_are_refused() {
        let twice = play(&[
            (1, ChangeKind::Drain(endpoint(1))),
            (2, ChangeKind::Drain(endpoint(1))),
        ]);
        assert!(matches!(
            twice,
            Err(ConfigError::NotThere {
                state: "a draining backend",
                ..
            })
        ));
        let unknown = play(&[(1, ChangeKind::Remove(endpoint(9)))]);
        assert!(matches!(
            unknown,
            Err(ConfigError::NotThere {
                state: "no backend",
                action: "removed",
                ..
            })
        ));
        let back = play(&[
            (1, ChangeKind::Remove(endpoint(1))),
            (2, ChangeKind::Add(backend(1, 1))),
        ]);
        assert!(matches!(back, Err(ConfigError::Returned { .. })));
        let there = play(&[(1, ChangeKind::Add(backend(1, 1)))]);
        assert!(matches!(there, Err(ConfigError::AlreadyThere { .. })));
    }
}
