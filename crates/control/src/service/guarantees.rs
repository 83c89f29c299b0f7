//! Whether each function of a chain gets what it needs of those in front of it, in both directions.

use super::chain::Names;
use super::{Instance, Misplaced};
use std::sync::Arc;
use twinpath_core::guarantee::{Demand, Guarantee, Need, reply_order};

/// Checks a chain; what is wrong is at the name of the function that misses something.
pub(super) fn check(chain: &[Instance], names: &Names) -> Result<(), Misplaced> {
    let walks = [(0..chain.len()).collect(), reply_walk(chain)];
    for (place, instance) in chain.iter().enumerate() {
        let Some(need) = instance.config.guarantees().needs else {
            continue;
        };
        if is_demanded(need, chain) {
            let lacks = |walk: &Vec<usize>| !is_met(place, need.guarantee, walk, chain);
            if let Some(walk) = walks.iter().position(lacks) {
                let message = refusal(place, need, walk == 1, chain);
                let span = names.get_ref().get(place).map(toml::Spanned::span);
                return Err((span.unwrap_or_default(), message));
            }
        }
    }
    Ok(())
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
    if let Some((late, first)) = held_back(place, need.guarantee, chain).filter(|_| is_reply) {
        return format!(
            "{name} {reason}; answers meet {name} before {late}, which needs {first} in front of it and so waits for it: expected {late} in front of {name}, where it is for answers, too",
        );
    }
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

/// The function behind another in its element that would give answers what it needs, but waits itself
/// for one in front of both; and that one.
fn held_back(
    place: usize,
    guarantee: Guarantee,
    chain: &[Instance],
) -> Option<(&Arc<str>, &Arc<str>)> {
    let behind = chain[place + 1..].iter();
    let mut in_element = behind.take_while(|one| !one.makes_rules());
    let late = in_element.find(|one| gives(one, guarantee))?;
    let needed = late.config.guarantees().needs?.guarantee;
    let before = chain[..place].iter().rev();
    let mut before = before.take_while(|one| !one.makes_rules());
    let first = before.find(|one| gives(one, needed))?;
    Some((&late.name, &first.name))
}

#[cfg(test)]
mod tests {
    use crate::service::Service;
    use std::path::Path;

    /// What is said of a chain; `second` is another reassembler.
    fn refusal(chain: &str) -> Option<String> {
        let mut text = format!(
            "[service]\nchain = [{chain}]\ninside = [\"10.0.0.0/8\"]\n[firewall]\n[acl]\n[second]\nfunction = \"reassembler\"\n[inspector]\nrules = \"../../examples/inspector.rules\"\n"
        );
        for (word, needless) in [
            ("acl", "inside = [\"10.0.0.0/8\"]\n"),
            ("second", "[second]\nfunction = \"reassembler\"\n"),
        ] {
            if !chain.contains(word) {
                text = text.replace(needless, "");
            }
        }
        let read = Service::parse(&text, Path::new("x.toml"));
        read.err().map(|error| error.to_string())
    }

    #[test]
    fn what_holds_a_function_back_is_told() {
        let said = refusal("\"firewall\", \"reassembler\", \"inspector\", \"second\"");
        let said = said.expect("answers meet the inspector first");
        for part in [
            "x.toml:2:37: inspector ",
            "; answers meet inspector before second, which needs firewall in front of it and so waits for it: expected second in front of inspector, where it is for answers, too",
        ] {
            assert!(said.contains(part), "{part:?} in {said}");
        }
        // As told, and where nothing holds it back.
        for chain in [
            "\"firewall\", \"reassembler\", \"second\", \"inspector\"",
            "\"firewall\", \"reassembler\", \"inspector\"",
            "\"reassembler\", \"inspector\", \"second\"",
        ] {
            assert_eq!(refusal(chain), None, "{chain}");
        }
        // Here it is the list between them.
        let said = refusal("\"reassembler\", \"acl\", \"inspector\"").expect("in reverse");
        assert!(
            said.contains("for functions that make rules are between them"),
            "{said}"
        );
    }
}
