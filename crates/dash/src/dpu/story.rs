//! What a packet meets, stage by stage, told without changing anything.

use twinpath_core::Instant;
use twinpath_core::wire::layout::Fragment;
use twinpath_core::wire::tunnel::{Tunnel, entropy_of};
use twinpath_core::wire::{dissect, fields, protocol};

use super::Dpu;
use super::errors::Translation;
use super::flows::key_of_quoted;
use super::icmp::IcmpRole;
use super::redirect::key_of_answers;
use crate::flows::{Entry, EntryKey, State};
use crate::headers::Direction;
use crate::pipeline::{Action, Arrival, Note, Notes, Policies, Received, Redirect, tunnel_names};
use crate::reason::Reason;
use crate::tables::EniEntry;

impl Dpu {
    /// What a packet meets in front of policies: the stages that find its ENI, and the table of flows.
    #[must_use]
    pub fn story(&self, frame: &[u8], now: Instant) -> Vec<Note> {
        let mut notes = Vec::new();
        match Received::read(frame, &self.tables, &self.settings) {
            Err((reason, whose)) => {
                notes.push(self.unread(frame, reason, whose.map(|(_, eni, _)| eni)));
            }
            Ok(received) => {
                self.tell_arrival(&received.arrival, &mut notes);
                let eni = self.tables.eni(received.arrival.eni);
                if let Some(eni) = eni.filter(|eni| eni.is_enabled) {
                    match self.spoofed(eni, &received.arrival) {
                        Some(note) => notes.push(note),
                        None => self.tell_flow(eni, frame, &received, now, &mut notes),
                    }
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
            Err(reason) => notes.push(Note::new(Note::DECISION, meaning(reason), dropped(reason))),
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

    fn unread(&self, frame: &[u8], reason: Reason, eni: Option<u16>) -> Note {
        let eni = eni.and_then(|number| self.tables.eni(number));
        let of = eni.map_or_else(|| "no ENI".to_owned(), |eni| format!("ENI {}", eni.id));
        let addressee = match reason {
            Reason::VipMiss => self.addressee(frame),
            Reason::EniMiss => self.looked_up(frame).unwrap_or_default(),
            _ => String::new(),
        };
        let entry = format!("{of}: {}{addressee}", meaning(reason));
        Note::new("arrival", entry, dropped(reason))
    }

    /// Where a packet was sent that is not for the DPU, and where packets for it are.
    fn addressee(&self, frame: &[u8]) -> String {
        let outer = dissect(frame).ok();
        let to = outer.map(|outer| fields::destination_address(frame, &outer));
        let to = to.map_or_else(String::new, |to| format!(": {to}"));
        match self.tables.appliance().sip {
            Some(own) => format!("{to}, where the appliance's is {own}"),
            None => format!("{to}, and there is no appliance"),
        }
    }

    /// By what the ENI was looked for.
    fn looked_up(&self, frame: &[u8]) -> Option<String> {
        let outer = dissect(frame).ok()?;
        let tunnel = Tunnel::read(frame, &outer, self.tables.switch().port).ok()?;
        let inside = frame.get(tunnel.inner())?;
        let (direction, mac) = self.tables.appliance().names_eni(inside, tunnel.key);
        let [_, number] = tunnel_names(tunnel.encapsulation);
        let way = match direction {
            Direction::Outbound => "outbound",
            Direction::Inbound => "inbound",
        };
        let end = match mac == fields::source_mac(inside) {
            true => "source",
            false => "destination",
        };
        let key = tunnel.key;
        Some(format!(": {mac}, the {end} ({number} {key} is {way})"))
    }

    /// Says so if a packet of the machine's comes from another host.
    fn spoofed(&self, eni: &EniEntry, arrival: &Arrival) -> Option<Note> {
        let source = arrival.outer_source;
        let host = eni.underlay_ip?;
        let entry = format!("from {source}, where the ENI's host is {host}");
        let is_spoofed = self.is_spoofed(eni, arrival.direction, source);
        is_spoofed.then(|| Note::new("outer source", entry, dropped(Reason::SpoofedSource)))
    }

    fn tell_arrival(&self, arrival: &Arrival, notes: &mut Vec<Note>) {
        let way = match (arrival.direction, arrival.way) {
            (Direction::Outbound, _) => "outbound",
            (Direction::Inbound, Direction::Outbound) => "inbound, from a floating NIC's machine",
            (Direction::Inbound, Direction::Inbound) => "inbound",
        };
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

    fn tell_flow(
        &self,
        eni: &EniEntry,
        frame: &[u8],
        received: &Received,
        now: Instant,
        notes: &mut Vec<Note>,
    ) {
        let inside = frame.get(received.tunnel.inner()).unwrap_or(&[]);
        let told = |entry: &str, action: &str| Note::new("flow table", entry, action);
        if let Some(redirect) = self.redirect_in(inside, received) {
            let action = self.fate_of(&redirect, eni, &received.arrival, now);
            return notes.push(told("a load balancer's redirect", &action));
        }
        if received.inner.inner.is_some() {
            return notes.push(self.told_of_error(eni, inside, received, now));
        }
        if received.inner.fragment == Fragment::Later {
            let action = "goes the way of the first of its datagram";
            return notes.push(told("a later fragment", action));
        }
        let arrival = &received.arrival;
        let ports = received.key_ports(inside);
        let key = EntryKey::new(eni.serial, received.arrival.way, &arrival.headers, ports);
        let (key, _) = self.own_or_answered(key, self.flows.hash(&key), arrival);
        let role = match IcmpRole::of(inside, &received.inner) {
            Ok(role) => role,
            Err(reason) => {
                let entry = "an ICMP error or redirect that quotes no packet";
                return notes.push(told(entry, &dropped(reason)));
            }
        };
        let known = self.known(&key, now);
        let goes = |entry: &Entry| role.is_none_or(|role| role.goes(entry.is_forward));
        match known.filter(goes) {
            Some(entry) => self.tell_known(eni, &key, &entry, arrival, notes),
            None => {
                let flags = fields::tcp_flags(inside, &received.inner);
                let is_tcp = key.protocol() == protocol::TCP;
                let action = match role {
                    Some(role) if role != IcmpRole::Question || known.is_some() => {
                        "policies judge it, and it opens no flow"
                    }
                    None if is_tcp && !crate::flows::opens(flags) => "it opens no connection",
                    _ => "policies judge it",
                };
                notes.push(told(&format!("no flow: {}", name(&key)), action));
            }
        }
    }

    /// What becomes of a load balancer's redirect, and why.
    fn fate_of(
        &self,
        redirect: &Redirect,
        eni: &EniEntry,
        arrival: &Arrival,
        now: Instant,
    ) -> String {
        let refused = |reason: Reason, why: &str| format!("{}: {why}", dropped(reason));
        if arrival.way == Direction::Outbound {
            let why = "a machine sent it, and tenants are no load balancers";
            return refused(Reason::ForgedRedirect, why);
        }
        let known = self.known(&key_of_answers(eni.serial, redirect), now);
        let Some(entry) = known else {
            return refused(Reason::Redirect, "it is about no connection of the machine");
        };
        let sent = self.flows.get(entry.peer);
        let Some(before) = self.current(eni, &sent) else {
            return "its connection is judged anew first: policies have changed since".into();
        };
        match self.policies(eni).redirected(redirect, arrival, before) {
            Ok(_) => "moves its connection, and goes no further (redirect)".into(),
            Err(reason) => refused(reason, why_refused(reason)),
        }
    }

    /// The entry of a key, if its flow is not over.
    fn known(&self, key: &EntryKey, now: Instant) -> Option<Entry> {
        let place = self.flows.find(key, self.flows.hash(key))?;
        let entry = self.flows.get(place);
        (!self.is_over(&entry, key.protocol(), now)).then_some(entry)
    }

    /// What is done to packets of a flow, unless policies have changed since it was decided.
    fn current(&self, eni: &EniEntry, entry: &Entry) -> Option<&Action> {
        let is_current = entry.stamp == self.tables.stamp(eni, entry.mapping_epoch);
        self.actions.get(entry.action).filter(|_| is_current)
    }

    fn tell_known(
        &self,
        eni: &EniEntry,
        key: &EntryKey,
        entry: &Entry,
        arrival: &Arrival,
        notes: &mut Vec<Note>,
    ) {
        let flow = format!("a flow ({}): {}", State::of(entry.state).name(), name(key));
        let action = self.current(eni, entry);
        let told = action.map_or_else(
            || "policies have changed since: they judge it anew".to_owned(),
            Action::to_string,
        );
        notes.push(Note::new("flow table", flow, told));
        notes.extend(action.and_then(|action| self.foreign(eni, action, arrival)));
    }

    /// Says so if a packet of a flow comes with a VNI that the flow does not take.
    fn foreign(&self, eni: &EniEntry, action: &Action, arrival: &Arrival) -> Option<Note> {
        let policies = self.policies(eni);
        if policies.accepts(arrival.direction, arrival.key, &action.accepts) {
            return None;
        }
        let taken = action.accepts.into_iter().flatten();
        let mut taken: Vec<_> = taken.chain(self.tables.vni(eni.vnet)).collect();
        taken.sort_unstable();
        taken.dedup();
        let taken: Vec<_> = taken.iter().map(u32::to_string).collect();
        let entry = format!(
            "{}, where the flow takes {} and what is trusted",
            arrival.key,
            taken.join(", ")
        );
        Some(Note::new("flow's VNI", entry, dropped(Reason::FlowVni)))
    }

    fn told_of_error(
        &self,
        eni: &EniEntry,
        inside: &[u8],
        received: &Received,
        now: Instant,
    ) -> Note {
        let arrival = &received.arrival;
        let told = |entry: String, action: String| Note::new("flow table", entry, action);
        let no = |entry: String| told(entry, dropped(Reason::IcmpError));
        let key = key_of_quoted(eni.serial, received.arrival.way, inside, &received.inner);
        let Some(key) = key else {
            return no("an ICMP error that quotes no packet".into());
        };
        let (key, _) = self.own_or_answered(key, self.flows.hash(&key), arrival);
        let Some(entry) = self.known(&key, now) else {
            return no(format!("an ICMP error about no known flow: {}", name(&key)));
        };
        let action = self.current(eni, &entry);
        let is_refused = action.is_some_and(|action| {
            action.changes_inside() && Translation::of(inside, &received.inner, action).is_err()
        });
        if is_refused {
            return no(
                "an ICMP error about a changed packet, of another IP version or not to be believed"
                    .into(),
            );
        }
        if let Some(note) = action.and_then(|action| self.foreign(eni, action, arrival)) {
            return note;
        }
        told(
            "an ICMP error".into(),
            "goes the way of the flow that it quotes".into(),
        )
    }
}

/// Why a redirect that is about a connection does not move it.
fn why_refused(reason: Reason) -> &'static str {
    match reason {
        Reason::FlowVni => {
            "it does not come in NVGRE with the key of redirects about such connections"
        }
        Reason::UntrustedVni => {
            "the key that it comes with, or that it leads to, is in no list of trusted VNIs, or a network has it"
        }
        Reason::ForgedRedirect => {
            "it leads to no one host and machine, or back to where packets come from"
        }
        Reason::Unsupported => {
            "it leads to a host of the other IP version, or into a tunnel of another kind than NVGRE and VXLAN"
        }
        Reason::InboundRouteMiss | Reason::InboundRouteDrop => {
            "its sender is not who packets were sent to, and no inbound rule lets it in"
        }
        Reason::PaValidation => {
            "its sender is not who packets were sent to, and none of the network's physical addresses"
        }
        other => meaning(other),
    }
}

/// Protocol and ends of a flow's packets.
fn name(key: &EntryKey) -> String {
    let [source, destination] = key.addresses();
    let [from, to] = key.ports();
    let number = key.protocol();
    let known = match number {
        protocol::TCP => " (tcp)",
        protocol::UDP => " (udp)",
        protocol::ICMP => " (icmp)",
        protocol::ICMP6 => " (icmpv6)",
        _ => "",
    };
    format!("protocol {number}{known} {source} port {from} to {destination} port {to}")
}

/// What a reason means, as a part of a sentence.
fn meaning(reason: Reason) -> &'static str {
    reason.meaning().trim_end_matches('.')
}

fn dropped(reason: Reason) -> String {
    format!("dropped ({})", reason.name())
}
