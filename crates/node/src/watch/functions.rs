//! Writes down what functions do while they do it.

use super::look::{entry_look, quantities, rule_look};
use super::{EntryLook, FieldChange, FunctionLook, NoRule, RulesRun};
use twinpath_core::wire::{Address, fields};
use twinpath_core::{DropReason, Instant, Named, Packet};
use twinpath_rulecache::{
    Dependency, Field, MatchKey, Offer, Probe, Recording, RuleFunction, Verdict, synthesise, words,
};

/// Writes down a packet's way through functions whose decisions are cached.
pub(crate) struct Functions {
    functions: Vec<String>,
    shown: MatchKey,
    before: Option<(Recording, Values)>,
    pub run: RulesRun,
}

/// The fields' values at one moment.
#[derive(Clone)]
struct Values([String; Field::ALL.len()]);

impl Values {
    fn of(packet: &Packet, recording: &Recording) -> Self {
        let (bytes, layout) = (packet.bytes(), &packet.layout);
        let (source, destination) = (packet.source(), packet.destination());
        let egress = recording.rewrites().egress();
        Self(Field::ALL.map(|field| match field {
            Field::SourceAddress => source.address.to_string(),
            Field::DestinationAddress => destination.address.to_string(),
            Field::SourcePort => source.port.to_string(),
            Field::DestinationPort => destination.port.to_string(),
            Field::SourceMac => fields::source_mac(bytes).to_string(),
            Field::DestinationMac => fields::destination_mac(bytes).to_string(),
            Field::Egress => egress.map_or("none".into(), |port| port.to_string()),
            Field::TimeToLive => fields::ttl(bytes, layout).to_string(),
            Field::Identification => {
                fields::identification(bytes, layout).map_or("none".into(), |id| id.to_string())
            }
            Field::Protocol | Field::TcpFlags | Field::Ingress => String::new(),
        }))
    }
}

impl Functions {
    /// A watch over an element of these functions.
    pub fn new(functions: &[Named<dyn RuleFunction>]) -> Self {
        let names = functions.iter().map(|function| function.name.to_string());
        let run = RulesRun {
            outcome: "waits until rules of an entry that it changes are gone".into(),
            selection: "no rule".into(),
            ..RulesRun::default()
        };
        Self {
            functions: names.collect(),
            shown: MatchKey::NONE,
            before: None,
            run,
        }
    }

    /// The entries that have decided about a packet between two moments.
    fn entries_since(
        &self,
        before: &Recording,
        after: &Recording,
        packet: &Packet,
    ) -> Vec<EntryLook> {
        let new = after.dependencies().as_slice().iter();
        let new = new.filter(|dependency| !before.dependencies().has(dependency.entry));
        new.map(|dependency| self.entry_look(dependency, packet.destination().address))
            .collect()
    }

    fn entry_look(&self, dependency: &Dependency, destination: Address) -> EntryLook {
        let Dependency { entry, idle, .. } = *dependency;
        entry_look(&self.functions, entry, idle, destination)
    }
}

/// What was written between two moments: fields that have another value, or that nobody had
/// written before.
fn changes(before: &(Recording, Values), after: &(Recording, Values)) -> Vec<FieldChange> {
    let written = |field: &Field| {
        let place = *field as usize;
        let is_new = !before.0.rewrites().written.has(*field);
        let differs = before.1.0[place] != after.1.0[place];
        // That of an atomic datagram is left as it is.
        let is_new = is_new && *field != Field::Identification;
        differs || (is_new && after.0.rewrites().written.has(*field))
    };
    let change = |field: Field| FieldChange {
        field: words::name(field),
        old: before.1.0[field as usize].clone(),
        new: after.1.0[field as usize].clone(),
    };
    let fields = Field::ALL.into_iter().filter(written);
    fields.map(change).collect()
}

fn verdict_text(verdict: Verdict) -> String {
    match verdict {
        Verdict::Forward => "forward".into(),
        Verdict::Drop(reason) => format!("drop ({})", reason.name()),
        Verdict::Consumed => "taken or answered".into(),
        Verdict::Wait(entry) => format!("wait until no rule depends on entry {entry}"),
    }
}

impl Probe for Functions {
    fn begins(&mut self, packet: &Packet, recording: &Recording) {
        let ingress = packet.frame.port();
        self.shown = MatchKey::shown(packet.bytes(), &packet.layout, ingress);
        self.before = Some((*recording, Values::of(packet, recording)));
    }

    fn handled(
        &mut self,
        _place: u8,
        name: &str,
        packet: &Packet,
        recording: &Recording,
        verdict: Verdict,
    ) {
        let after = (*recording, Values::of(packet, recording));
        let Some(before) = self.before.replace(after.clone()) else {
            return;
        };
        let examined = recording.mask().without(before.0.mask());
        self.run.functions.push(FunctionLook {
            name: name.to_owned(),
            examined: quantities(&examined, &self.shown),
            written: changes(&before, &after),
            entries: self.entries_since(&before.0, recording, packet),
            verdict: verdict_text(verdict),
        });
    }

    fn ends(&mut self, recording: &Recording, drop: Option<DropReason>, now: Instant) {
        match synthesise(recording, drop, now) {
            Ok(rule) => {
                let dependencies = rule.dependencies.as_slice().iter();
                let destination = rule.action.rewrites.destination_of(&rule.value);
                let entries =
                    dependencies.map(|dependency| self.entry_look(dependency, destination));
                let entries = entries.collect();
                self.run.rule = Some(rule_look(&rule.mask, &rule.value, &rule.action, entries));
                self.run.selection =
                    "not cached now: a rule is selected once in a window, and must have been used more often in the one before than the threshold".into();
            }
            Err(obstacle) => {
                self.run.no_rule = Some(NoRule {
                    name: obstacle.name(),
                    meaning: obstacle.meaning(),
                });
            }
        }
    }

    fn selected(&mut self, hotness: u32, offer: Offer) {
        let what = match offer {
            Offer::Added(_) => "it is on its way to the fast path",
            Offer::Replaces(_) => "it takes the place of a colder rule",
            Offer::Known => "it is cached already",
            Offer::Closed => "an entry that it came from is about to change",
            Offer::NoRoom => "there is no room, and no rule is colder",
        };
        let times = match hotness {
            u32::MAX => "often enough".to_owned(),
            times => format!("{times} times"),
        };
        self.run.selection = format!("hot, used {times} in the window before: {what}");
    }
}
