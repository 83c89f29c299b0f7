//! What steps lack that only the workers' books, the configuration and the service file know.

use crate::watch::{CachedRule, EntryLook, Found, Names, RuleLook, SlowLook, StateRun, Step};
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
    pub fn completed(&self, mut step: Step, node: &Node) -> Step {
        match &mut step {
            Step::Meet(meeting) => {
                if let Found::Rule(found) = &mut meeting.found {
                    found.rule = self.in_book(found, node, meeting.element);
                    let entries = found.rule.iter_mut().flat_map(|rule| &mut rule.entries);
                    entries.for_each(|entry| self.complete(entry, node, meeting.element));
                }
            }
            Step::Receive {
                element,
                slow_path: SlowLook::Rules(run),
            } => {
                let of_functions = run.functions.iter_mut().flat_map(|one| &mut one.entries);
                let of_rule = run.rule.iter_mut().flat_map(|rule| &mut rule.entries);
                of_functions
                    .chain(of_rule)
                    .for_each(|entry| self.complete(entry, node, *element));
            }
            Step::Receive {
                element,
                slow_path: SlowLook::State(run),
            } => run.rule = self.rule_of(run, *element),
            _ => {}
        }
        step
    }

    /// The fast path knows a rule by its name alone.
    fn in_book(&self, found: &CachedRule, node: &Node, element: u8) -> Option<RuleLook> {
        let functions = &self.names.get(usize::from(element))?.functions;
        let mut elements = node.workers.first()?.rules_by_element();
        let (_, slow) = elements.find(|(number, _)| *number == element)?;
        let mut rules = slow.manager().iter();
        let rule = rules.find(|rule| CachedRule::named(rule.name).is(found))?;
        let entries = rule.entries();
        let entries: Vec<EntryLook> = entries
            .map(|entry| entry_look(functions, entry, None))
            .collect();
        let NewRule {
            mask,
            value,
            action,
            ..
        } = rule.rule;
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
        if let Some(text) = function.and_then(|function| function.entry(entry.entry)) {
            self.write(entry, text);
        }
    }

    fn write(&self, entry: &mut EntryLook, text: EntryText) {
        let line = self.lines.line(&entry.function, &text.text);
        entry.line = line.filter(|_| text.rule.is_some());
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
        let mut entry = EntryLook {
            function: function.name.to_string(),
            ..EntryLook::default()
        };
        self.write(&mut entry, rule);
        Some(entry)
    }

    /// The function of an element that has no other.
    pub fn only_function(&self, element: u8) -> Option<String> {
        match elements(self.service).nth(usize::from(element))? {
            [only] => Some(only.name.to_string()),
            _ => None,
        }
    }
}
