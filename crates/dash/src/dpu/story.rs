//! What a packet meets, stage by stage, told without changing anything.

use twinpath_core::Instant;
use twinpath_core::wire::layout::Fragment;
use twinpath_core::wire::tunnel::entropy_of;
use twinpath_core::wire::{fields, protocol};

use super::Dpu;
use crate::flows::{EntryKey, State};
use crate::pipeline::{Action, Arrival, Note, Notes, Policies, Received, tunnel_names};
use crate::reason::Reason;

impl Dpu {
    /// What a packet meets in front of policies: the stages that find its ENI, and the table of flows.
    #[must_use]
    pub fn story(&self, frame: &[u8], now: Instant) -> Vec<Note> {
        let mut notes = Vec::new();
        match Received::read(frame, &self.tables, &self.settings) {
            Err((reason, whose)) => {
                notes.push(self.unread(reason, whose.map(|(_, eni, _)| eni)));
            }
            Ok(received) => {
                self.tell_arrival(&received.arrival, &mut notes);
                let eni = self.tables.eni(received.arrival.eni);
                if eni.is_some_and(|eni| eni.is_enabled) {
                    self.tell_flow(frame, &received, now, &mut notes);
                }
            }
        }
        notes
    }

    /// What policies say about a packet, stage by stage.
    #[must_use]
    pub fn policy_story(&self, arrival: &Arrival) -> Vec<Note> {
        let Some(eni) = self.tables.eni(arrival.eni) else {
            return vec![Note::new("ENI", "gone", dropped(Reason::EniMiss))];
        };
        let notes = Notes::default();
        let policies = Policies {
            tables: &self.tables,
            settings: &self.settings,
            eni,
            notes: Some(&notes),
        };
        let decision = policies.decide(arrival);
        let mut notes = notes.into_list();
        match decision {
            Ok(decision) => {
                let there = match decision.source_ports {
                    None => decision.forward.to_string(),
                    // Whoever keeps the flow chooses.
                    Some(ports) => {
                        let without = Action {
                            source_port: None,
                            ..decision.forward
                        };
                        format!("{without}; source port one of {ports}")
                    }
                };
                notes.push(Note::new(Note::DECISION, "packets of the flow", there));
                let back = decision.reverse.to_string();
                notes.push(Note::new(Note::DECISION, "answers", back));
            }
            Err(reason) => notes.push(Note::new(Note::DECISION, reason.meaning(), dropped(reason))),
        }
        notes
    }

    /// What policies look at of a packet, if it is one of an ENI.
    #[must_use]
    pub fn arrival(&self, frame: &[u8]) -> Option<Arrival> {
        let received = Received::read(frame, &self.tables, &self.settings).ok()?;
        let inside = frame.get(received.tunnel.inner())?;
        let (headers, ports) = (received.arrival.headers, received.key_ports(inside));
        let addresses = [headers.source, headers.destination];
        Some(Arrival {
            entropy: entropy_of(addresses, ports, headers.protocol),
            ..received.arrival
        })
    }

    fn unread(&self, reason: Reason, eni: Option<u16>) -> Note {
        let eni = eni.and_then(|number| self.tables.eni(number));
        let of = eni.map_or_else(|| "no ENI".to_owned(), |eni| format!("ENI {}", eni.id));
        Note::new(
            "arrival",
            format!("{of}: {}", reason.meaning().trim_end_matches('.')),
            dropped(reason),
        )
    }

    fn tell_arrival(&self, arrival: &Arrival, notes: &mut Vec<Note>) {
        let way = format!("{:?}", arrival.direction).to_lowercase();
        let [name, number] = tunnel_names(arrival.encapsulation);
        let (source, key) = (arrival.outer_source, arrival.key);
        let tunnel = format!("{name} from {source}, {number} {key}");
        notes.push(Note::new("direction", tunnel, way));
        let Some(eni) = self.tables.eni(arrival.eni) else {
            return;
        };
        let action = match eni.is_enabled {
            true => "enabled".to_owned(),
            false => dropped(Reason::EniDisabled),
        };
        notes.push(Note::new(
            "ENI",
            format!("{} (MAC {})", eni.id, eni.mac),
            action,
        ));
    }

    fn tell_flow(&self, frame: &[u8], received: &Received, now: Instant, notes: &mut Vec<Note>) {
        let inside = frame.get(received.tunnel.inner()).unwrap_or(&[]);
        let arrival = &received.arrival;
        let Some(eni) = self.tables.eni(arrival.eni) else {
            return;
        };
        if received.inner.inner.is_some() {
            return notes.push(Note::new(
                "flow table",
                "an ICMP error",
                "goes the way of the flow that it quotes",
            ));
        }
        if received.inner.fragment == Fragment::Later {
            return notes.push(Note::new(
                "flow table",
                "a later fragment",
                "goes the way of the first of its datagram",
            ));
        }
        let headers = arrival.headers;
        let key = EntryKey::new(
            eni.serial,
            arrival.direction,
            &headers,
            received.key_ports(inside),
        );
        let [source, destination] = key.addresses();
        let [from, to] = key.ports();
        let name = format!(
            "protocol {} {source} port {from} to {destination} port {to}",
            headers.protocol
        );
        let found = self.flows.find(&key, self.flows.hash(&key));
        let entry = found.map(|place| self.flows.get(place));
        let note = match entry {
            Some(entry) if !self.is_over(&entry, key.protocol(), now) => {
                let is_current = entry.stamp == self.tables.stamp(eni, entry.mapping_epoch);
                let action = match (is_current, self.actions.get(entry.action)) {
                    (true, Some(action)) => action.to_string(),
                    _ => "policies have changed since: they judge it anew".to_owned(),
                };
                let state = State::of(entry.state).name();
                Note::new("flow table", format!("a flow ({state}): {name}"), action)
            }
            _ => {
                let flags = fields::tcp_flags(inside, &received.inner);
                let opens = headers.protocol != protocol::TCP || crate::flows::opens(flags);
                let action = match opens {
                    true => "policies judge it",
                    false => "it opens no connection",
                };
                Note::new("flow table", format!("no flow: {name}"), action)
            }
        };
        notes.push(note);
    }
}

fn dropped(reason: Reason) -> String {
    format!("dropped ({})", reason.name())
}
