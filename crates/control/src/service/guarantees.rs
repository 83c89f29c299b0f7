//! Whether each function of a chain gets what it needs of those in front of it, in both directions.

use super::Instance;
use super::chain::Names;
use super::faults::Faults;
use twinpath_core::guarantee::{Demand, Guarantee, Need, reply_order};

/// Checks a chain; what is wrong is at the names of the functions that miss something.
pub(super) fn check(chain: &[Instance], names: &Names, faults: &mut Faults) {
    let walks = [(0..chain.len()).collect(), reply_walk(chain)];
    let needs = chain.iter().enumerate().flat_map(|(place, instance)| {
        let needs = instance.config.guarantees();
        needs
            .all_needs()
            .map(move |need| (place, need))
            .collect::<Vec<_>>()
    });
    for (place, need) in needs.filter(|(_, need)| is_demanded(*need, chain)) {
        let lacks = |walk: &Vec<usize>| !is_met(place, need.guarantee, walk, chain);
        if let Some(walk) = walks.iter().position(lacks) {
            let message = refusal(place, need, walk == 1, chain);
            let span = names.get_ref().get(place).map(toml::Spanned::span);
            faults.push((span.unwrap_or_default(), message));
        }
    }
}

/// The functions in the order in which answers pass them: elements in reverse, those of an element
/// that share flow state as they need each other.
fn reply_walk(chain: &[Instance]) -> Vec<usize> {
    let mut elements = Vec::new();
    let mut first = 0;
    for element in chain.chunk_by(|one, other| one.makes_rules() == other.makes_rules()) {
        let guarantees: Vec<_> = element.iter().map(|one| one.config.guarantees()).collect();
        let order = reply_order(&guarantees);
        elements.push(order.into_iter().map(move |place| first + place));
        first += element.len();
    }
    elements.into_iter().rev().flatten().collect()
}

fn gives(instance: &Instance, guarantee: Guarantee) -> bool {
    instance.config.guarantees().gives == Some(guarantee)
}

fn is_demanded(need: Need, chain: &[Instance]) -> bool {
    match need.demand {
        Demand::Preferred => false,
        Demand::IfGiven => chain.iter().any(|one| gives(one, need.guarantee)),
        Demand::Always => true,
    }
}

/// Whether a function that gives what is needed comes first on a walk.
fn is_met(place: usize, guarantee: Guarantee, walk: &[usize], chain: &[Instance]) -> bool {
    let mut in_front = walk.iter().take_while(|other| **other != place);
    in_front.any(|other| gives(&chain[*other], guarantee))
}

fn refusal(place: usize, need: Need, is_reply: bool, chain: &[Instance]) -> String {
    let (name, reason) = (&chain[place].name, need.reason);
    let giver = chain.iter().find(|one| gives(one, need.guarantee));
    match giver {
        Some(giver) if is_reply => format!(
            "{name} {reason}; answers meet {name} before {}, for functions that make rules are between them: expected both side by side, or another {} behind {name}",
            giver.name,
            giver.config.descriptor().name
        ),
        Some(giver) => format!("{name} {reason}; here {} is behind it", giver.name),
        None => format!("{name} {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use crate::service::Service;
    use std::path::Path;

    /// What is said of a chain; `second` is another reassembler.
    fn refusal(chain: &str) -> Option<String> {
        let mut text = format!(
            "[service]\nchain = [{chain}]\ninside = [\"10.0.0.0/8\"]\n[firewall]\n[acl]\n[second]\nfunction = \"reassembler\"\n[inspector]\nrules = \"../../examples/inspector.rules\"\n\
             [other]\nfunction = \"inspector\"\nrules = \"../../examples/inspector.rules\"\n"
        );
        for (word, needless) in [
            ("acl", "inside = [\"10.0.0.0/8\"]\n"),
            (
                "other",
                "[other]\nfunction = \"inspector\"\nrules = \"../../examples/inspector.rules\"\n",
            ),
            ("second", "[second]\nfunction = \"reassembler\"\n"),
        ] {
            if !chain.contains(word) {
                text = text.replace(needless, "");
            }
        }
        let read = Service::parse(&text, Path::new("x.toml"));
        read.err().map(|error| error.to_string())
    }

    /// Each direction has a reassembler in front of the inspector, and a firewall in front of that.
    #[test]
    fn each_direction_may_have_one_of_its_own() {
        for chain in [
            "\"firewall\", \"reassembler\", \"inspector\", \"second\"",
            "\"firewall\", \"reassembler\", \"second\", \"inspector\"",
            "\"firewall\", \"reassembler\", \"inspector\"",
            "\"reassembler\", \"inspector\", \"second\"",
        ] {
            assert_eq!(refusal(chain), None, "{chain}");
        }
    }

    /// Everything that is missing, each at the name that misses it.
    #[test]
    fn all_that_is_missing_is_told() {
        let said = refusal("\"reassembler\", \"acl\", \"inspector\"").expect("in reverse");
        assert!(
            said.contains("for functions that make rules are between them"),
            "{said}"
        );
        let said = refusal("\"inspector\", \"acl\", \"other\", \"reassembler\"").expect("two");
        for place in ["x.toml:2:10: inspector ", "x.toml:2:30: other "] {
            assert!(said.contains(place), "{place:?} in {said}");
        }
    }
}
