//! A worker's cached rules, as an operator sees them.

use crate::worker::Worker;
use std::net::IpAddr;
use twinpath_control::flow_filter::{EndFilter, FlowFilter};
use twinpath_control::operator::{EntryView, Filter, RuleView};
use twinpath_control::report::units;
use twinpath_control::service::Service;
use twinpath_core::Adjacency;
use twinpath_core::adjacency::{FIRST_ADJACENCY, shard_of};
use twinpath_core::wire::Address;
use twinpath_core::{Direction, Instant, Named};
use twinpath_rulecache::{Action, CachedRule, EntryId, Field, NewRule, RuleFunction, words};

/// Most rules of an answer: the worker does nothing else while it puts them in words.
pub(super) const MOST_RULES: usize = 20_000;

/// Rules that were asked for.
pub(super) struct Views {
    pub rules: Vec<RuleView>,
    /// How many there are of that kind, told or not.
    pub matching: usize,
}

/// What the numbers mean by which rules say where packets arrive and leave.
#[derive(Clone, Debug)]
pub(super) struct PortNames {
    /// Those of the node's ports.
    names: Vec<String>,
    adjacencies: Vec<Adjacency>,
}

impl PortNames {
    /// Those of a service as it is now.
    pub fn of(service: &Service) -> Self {
        Self {
            names: service.ports.clone(),
            adjacencies: service.adjacencies.all(),
        }
    }

    /// The port of a number by its name; `None` if it has none.
    fn name(&self, port: u16) -> Option<&String> {
        self.names.get(usize::from(port))
    }

    /// The same of a number by which packets leave, and whom they leave for there.
    fn egress(&self, number: u16) -> Option<String> {
        if let Some(shard) = shard_of(Some(number)) {
            return Some(format!("shard {shard}"));
        }
        let Some(adjacency) = number.checked_sub(FIRST_ADJACENCY) else {
            return self.name(number).cloned();
        };
        let Adjacency { port, gateway } = self.adjacencies.get(usize::from(adjacency))?;
        let name = self.name(*port).cloned();
        let name = name.unwrap_or_else(|| port.to_string());
        Some(match gateway {
            Some(gateway) => format!("{name} towards {gateway}"),
            None => name,
        })
    }
}

/// Whether the element that is asked for, if one is, caches rules.
///
/// # Errors
/// What there is in place of it.
pub(super) fn check_element(worker: &Worker, filter: &Filter) -> Result<(), String> {
    let Some(element) = filter.element else {
        return Ok(());
    };
    let mut with_rules = worker.rules_by_element().map(|(number, _)| number);
    if with_rules.any(|number| number == element) {
        return Ok(());
    }
    let elements = worker.elements().len();
    Err(if usize::from(element) < elements {
        format!("element {element} of the chain caches no rules: it has the state of flows")
    } else {
        let count = units::counted(elements as u64, "element");
        format!("the chain has {count}, counted from 0, and none is {element}")
    })
}

/// A worker's cached rules at `now`, those used most first.
pub(super) fn views(worker: &Worker, filter: &Filter, ports: &PortNames, now: Instant) -> Views {
    let mut found = Vec::new();
    for (element, rules) in worker.rules_by_element() {
        if filter.element.is_some_and(|wanted| wanted != element) {
            continue;
        }
        let names = Named::names(rules.functions());
        for rule in rules.manager().iter() {
            if is_wanted(filter, &rule, &names) {
                found.push((rule.uses.packets, element, rule));
            }
        }
    }
    let matching = found.len();
    found.sort_by_key(|(packets, ..)| std::cmp::Reverse(*packets));
    found.truncate(filter.most.unwrap_or(MOST_RULES).min(MOST_RULES));
    let views = found.iter().filter_map(|(_, element, rule)| {
        let mut elements = worker.rules_by_element();
        let (_, slow_path) = elements.find(|(number, _)| number == element)?;
        Some(view(*element, rule, slow_path.functions(), ports, now))
    });
    Views {
        rules: views.collect(),
        matching,
    }
}

fn name(names: &[String], function: u8) -> &str {
    names.get(usize::from(function)).map_or("?", String::as_str)
}

fn view(
    element: u8,
    cached: &CachedRule<'_>,
    functions: &[Named<dyn RuleFunction>],
    ports: &PortNames,
    now: Instant,
) -> RuleView {
    let rule = cached.rule;
    let destination = rule.action.rewrites.destination_of(&rule.value);
    let entries = cached.entries();
    RuleView {
        element,
        id: cached.name.id,
        generation: cached.name.generation,
        matches: matches(rule, ports),
        action: action(&rule.action, ports),
        packets: cached.uses.packets,
        bytes: cached.uses.bytes,
        age_ns: now.since(rule.used).as_nanos() as u64,
        unused_ns: now.since(cached.uses.last.max(rule.used)).as_nanos() as u64,
        is_installed: cached.is_installed,
        entries: entries
            .map(|entry| entry_view(functions, entry, destination))
            .collect(),
    }
}

/// An entry of a rule whose packets go to `destination`. The line that it is in is known to the service.
fn entry_view(
    functions: &[Named<dyn RuleFunction>],
    entry: EntryId,
    destination: Address,
) -> EntryView {
    let EntryId { function, entry } = entry;
    let function = functions.get(usize::from(function));
    let text = function.and_then(|function| function.entry_towards(entry, destination));
    EntryView {
        function: function.map_or_else(String::new, |function| function.name.to_string()),
        entry,
        rule: text.as_ref().and_then(|text| text.rule),
        text: text.map(|text| text.text),
        line: None,
    }
}

/// The mask of a rule that is for one port of arrival.
const ALL_OF_A_PORT: u128 = 0xffff;

fn matches(rule: &NewRule, ports: &PortNames) -> String {
    let version = if rule.value.is_v6() { "IPv6" } else { "IPv4" };
    let mut parts = vec![version.to_owned()];
    let fields = words::matched(&rule.mask, &rule.value);
    let arrival = match Field::Ingress.of(&rule.mask) {
        ALL_OF_A_PORT => ports.name(Field::Ingress.of(&rule.value) as u16),
        _ => None,
    };
    parts.extend(fields.into_iter().map(|matched| match arrival {
        Some(port) if matched.field == Field::Ingress => {
            format!("{} {port}", words::name(Field::Ingress))
        }
        _ => matched.text,
    }));
    if rule.value.direction() == Direction::Reply {
        parts.push("in reverse".into());
    }
    parts.join(", ")
}

fn action(action: &Action, ports: &PortNames) -> String {
    let mut parts = words::rewritten(&action.rewrites);
    let told = action.rewrites.egress().and_then(|port| ports.egress(port));
    if let Some(told) = told {
        let name = words::name(Field::Egress);
        let own = parts.iter_mut().filter(|part| part.starts_with(name));
        own.for_each(|part| *part = format!("{name} {told}"));
    }
    parts.push(words::fate(action));
    if let Some(idle) = action.idle {
        parts.push(format!("idle time-out {idle:?}"));
    }
    parts.join(", ")
}

fn is_wanted(filter: &Filter, cached: &CachedRule<'_>, names: &[String]) -> bool {
    let is_from = |function: &String| {
        let mut entries = cached.entries();
        entries.any(|entry| name(names, entry.function) == function)
    };
    cached.uses.packets >= filter.least_packets
        && filter.function.as_ref().is_none_or(is_from)
        && filter
            .address
            .is_none_or(|address| may_match(cached, address))
        && filter
            .flow
            .as_ref()
            .is_none_or(|flow| may_be_of(cached, flow))
}

/// Whether a packet of such a flow may meet the rule.
fn may_be_of(cached: &CachedRule<'_>, flow: &FlowFilter) -> bool {
    let meets = |field: Field, wanted: Option<u128>| {
        let (mask, value) = (field.of(&cached.rule.mask), field.of(&cached.rule.value));
        wanted.is_none_or(|wanted| wanted & mask == value)
    };
    let is_end = |end: &EndFilter, address: Field, port: Field| {
        let (mask, value) = (
            address.of(&cached.rule.mask),
            address.of(&cached.rule.value),
        );
        end.prefix.is_none_or(|prefix| prefix.meets(mask, value))
            && meets(port, end.port.map(u128::from))
    };
    let is_from = |from: &EndFilter, to: &EndFilter| {
        is_end(from, Field::SourceAddress, Field::SourcePort)
            && is_end(to, Field::DestinationAddress, Field::DestinationPort)
    };
    let [one, other] = &flow.ends;
    meets(Field::Protocol, flow.protocol.map(u128::from))
        && (is_from(one, other) || is_from(other, one))
}

/// Whether a packet from or to the address may meet the rule.
fn may_match(cached: &CachedRule<'_>, address: IpAddr) -> bool {
    let address = Address::from(address).0;
    [Field::SourceAddress, Field::DestinationAddress]
        .into_iter()
        .any(|field| {
            let (mask, value) = (field.of(&cached.rule.mask), field.of(&cached.rule.value));
            address & mask == value
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::adjacency::in_shard;
    use twinpath_rulecache::Rewrites;

    #[test]
    fn numbers_are_told_by_the_names_of_ports() {
        let towards = |gateway| Adjacency { port: 1, gateway };
        let gateway = Address::from_v4([10, 0, 0, 1]);
        let ports = PortNames {
            names: vec!["site".into(), "uplink".into()],
            adjacencies: vec![towards(None), towards(Some(gateway))],
        };
        for (egress, told) in [
            (0, Some("site")),
            (7, None),
            (FIRST_ADJACENCY - 1, None),
            (FIRST_ADJACENCY, Some("uplink")),
            (FIRST_ADJACENCY + 1, Some("uplink towards 10.0.0.1")),
            (FIRST_ADJACENCY + 2, None),
            (in_shard(3), Some("shard 3")),
        ] {
            assert_eq!(ports.egress(egress).as_deref(), told, "{egress}");
        }
        let rule = |mask, port| NewRule {
            mask: Field::Ingress.place(mask),
            value: Field::Ingress.place(port),
            action: Action {
                rewrites: Rewrites::default(),
                drop: None,
                idle: None,
                tells_progress: false,
            },
            used: Instant::ZERO,
        };
        for (mask, port, told) in [
            (0xffff, 1, "IPv4, arrival port uplink"),
            (0xffff, 7, "IPv4, arrival port 7"),
            (0xfffe, 0, "IPv4, arrival port 0-1"),
            (0, 0, "IPv4"),
        ] {
            assert_eq!(matches(&rule(mask, port), &ports), told);
        }
    }
}
