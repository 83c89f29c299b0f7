//! What steps lack that only the workers' books, the configuration and the service file know.

use crate::watch::{
    EntryLook, Names, RuleLook, SlowLook, StateRun, TableLookup, TraceStep, TracedRule, WordChange,
};
use crate::watch::{entry_look, rule_look};
use crate::wiring::{Node, elements};
use twinpath_control::service::{RuleLines, Service};
use twinpath_core::DropReason;
use twinpath_core::wire::dissect;
use twinpath_rulecache::{EntryText, NewRule};

/// Completes steps.
pub(super) struct Book<'a> {
    service: &'a Service,
    names: &'a [Names],
    lines: RuleLines,
}

impl<'a> Book<'a> {
    /// For a service whose elements have these names.
    pub fn new(service: &'a Service, names: &'a [Names]) -> Self {
        Self {
            service,
            names,
            lines: RuleLines::of(service),
        }
    }

    /// A step with all that is known of it.
    pub fn completed(&self, mut step: TraceStep, node: &Node) -> TraceStep {
        match &mut step {
            TraceStep::Meet(meeting) => {
                let element = meeting.element;
                match &mut meeting.found {
                    TableLookup::Rule(found) => {
                        found.rule = self.in_book(found, node, element);
                        let entries = found.rule.iter_mut().flat_map(|rule| &mut rule.entries);
                        entries.for_each(|entry| self.complete(entry, node, element));
                    }
                    TableLookup::Slot(slot) => {
                        let last = slot.programs.last();
                        let last = last.filter(|program| is_ban(&program.exit));
                        slot.rule =
                            last.and_then(|last| self.banning(&last.function, &slot.words, node));
                        let passed = |function: &str| {
                            let mut programs = slot.programs.iter();
                            programs.any(|one| one.function == function && has_passed(&one.exit))
                        };
                        self.choose(&mut slot.words, passed);
                    }
                    _ => {}
                }
            }
            TraceStep::Receive {
                element,
                slow_path: SlowLook::Rules(run),
            }
            | TraceStep::Release {
                element,
                slow_path: SlowLook::Rules(run),
            } => {
                let of_functions = run.functions.iter_mut().flat_map(|one| &mut one.entries);
                let of_rule = run.rule.iter_mut().flat_map(|rule| &mut rule.entries);
                of_functions
                    .chain(of_rule)
                    .for_each(|entry| self.complete(entry, node, *element));
            }
            TraceStep::Receive {
                element,
                slow_path: SlowLook::State(run),
            }
            | TraceStep::Release {
                element,
                slow_path: SlowLook::State(run),
            } => {
                if run.function.is_none() {
                    self.choose(&mut run.words, |_| true);
                }
                let dropper = run.function.as_deref().filter(|_| is_ban(&run.outcome));
                run.rule = match dropper {
                    Some(dropper) => self.banning(dropper, &run.words, node),
                    None => self.rule_of(run, *element),
                };
            }
            _ => {}
        }
        step
    }

    /// The fast path knows a rule by its name alone.
    fn in_book(&self, found: &TracedRule, node: &Node, element: u8) -> Option<RuleLook> {
        let functions = &self.names.get(usize::from(element))?.functions;
        let mut elements = node.workers.first()?.rules_by_element();
        let (_, slow) = elements.find(|(number, _)| *number == element)?;
        let mut rules = slow.manager().iter();
        let rule = rules.find(|rule| TracedRule::named(rule.name).is(found))?;
        let entries = rule.entries();
        let NewRule {
            mask,
            value,
            action,
            ..
        } = rule.rule;
        let destination = action.rewrites.destination_of(value);
        let entries: Vec<EntryLook> = entries
            .map(|entry| entry_look(functions, entry, None, destination))
            .collect();
        Some(rule_look(mask, value, action, entries))
    }

    /// What an entry is, as its function says.
    fn complete(&self, entry: &mut EntryLook, node: &Node, element: u8) {
        let worker = node.workers.first();
        let mut elements = worker
            .into_iter()
            .flat_map(|worker| worker.rules_by_element());
        let Some((_, slow)) = elements.find(|(number, _)| *number == element) else {
            return;
        };
        let mut functions = slow.functions().iter();
        let function = functions.find(|function| *function.name == *entry.function);
        let text = function.and_then(|function| match entry.destination {
            Some(destination) => function.entry_towards(entry.entry, destination),
            None => function.entry(entry.entry),
        });
        if let Some(text) = text {
            self.write(entry, text);
        }
    }

    /// The rule by which a function has banned the flow that has these state words.
    fn banning(&self, function: &str, words: &[WordChange], node: &Node) -> Option<EntryLook> {
        let mut chain = self.service.chain.iter();
        let place = chain.position(|instance| *instance.name == *function)?;
        let config = &self.service.chain.get(place)?.config;
        let own = words.iter().filter(|word| word.function == function);
        let own = own.map(|word| word.after.or(word.before).unwrap_or(0));
        let own: Vec<u32> = own.collect();
        let worker = node.workers.first()?;
        let text = config.rule_of_flow(worker.flow_function(place)?, &own)?;
        Some(self.entry_of(function, text))
    }

    /// Writes down what functions chose, of those that had a choice.
    fn choose(&self, words: &mut [WordChange], has_chosen: impl Fn(&str) -> bool) {
        for instance in &self.service.chain {
            let is_own = |word: &WordChange| *word.function == *instance.name;
            let Some(first) = words.iter().position(is_own) else {
                continue;
            };
            let own = || words.iter().filter(|word| is_own(word));
            let before: Vec<u32> = own().map(|word| word.before.unwrap_or(0)).collect();
            let after: Vec<u32> = own().map(|word| word.after.unwrap_or(0)).collect();
            if has_chosen(&instance.name) {
                words[first].choice = instance.config.choice_text(&before, &after);
            }
        }
    }

    /// What no number stands for.
    fn entry_of(&self, function: &str, text: EntryText) -> EntryLook {
        let mut entry = EntryLook {
            function: function.to_owned(),
            ..EntryLook::default()
        };
        self.write(&mut entry, text);
        entry
    }

    fn write(&self, entry: &mut EntryLook, text: EntryText) {
        entry.line = self.lines.line(&entry.function, &text.text);
        (entry.rule, entry.text) = (text.rule, Some(text.text));
    }

    /// The rule by which a function that keeps flow state has denied a packet, or let it open what
    /// the function calls a connection.
    fn rule_of(&self, run: &StateRun, element: u8) -> Option<EntryLook> {
        let layout = dissect(&run.packet).ok()?;
        let instances = elements(self.service).nth(usize::from(element))?;
        let is_denied = run.outcome.contains(DropReason::Denied.name());
        let mut deciding = instances
            .iter()
            .filter(|one| match run.function.as_deref() {
                Some(dropper) => is_denied && *one.name == *dropper,
                None => run.opens_at(&one.name),
            });
        let (function, rule) = deciding.find_map(|one| {
            let rule = one.config.rule_for(&run.packet, &layout, run.ingress)?;
            Some((one, rule))
        })?;
        Some(self.entry_of(&function.name, rule))
    }

    /// The functions of an element.
    pub fn functions(&self, element: u8) -> Vec<String> {
        let names = self.names.get(usize::from(element));
        names.map_or(Vec::new(), |names| names.functions.clone())
    }

    /// The function of an element that has no other.
    pub fn only_function(&self, element: u8) -> Option<String> {
        match elements(self.service).nth(usize::from(element))? {
            [only] => Some(only.name.to_string()),
            _ => None,
        }
    }
}

/// Whether a program let a packet pass, by what is said of its end.
fn has_passed(exit: &str) -> bool {
    exit == "goes on"
}

/// Whether what became of a packet in words says that its flow is banned.
fn is_ban(outcome: &str) -> bool {
    outcome.contains(DropReason::Banned.name())
}
