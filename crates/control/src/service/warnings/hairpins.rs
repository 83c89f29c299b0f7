//! Rules that hosts inside get past by each other's external addresses.

use super::Found;
use crate::service::{Instance, Service};
use twinpath_classify::Prefix;
use twinpath_core::wire::Address;
use twinpath_nf::descriptor::Translation;
use twinpath_nf::firewall::rule::{self, Action, Protocol, Rule};
use twinpath_nf::{acl, firewall};

/// A function that decides by rules.
struct Ruled<'a> {
    name: &'a str,
    rules: &'a [Rule],
    default: Action,
}

impl Found {
    /// Rules in front of a translation about who reaches hosts inside: what one of those sends to
    /// another's external address meets them before it is known whom that stands for.
    pub(super) fn passed_by_hairpins(&mut self, service: &Service) {
        for (place, instance) in service.chain.iter().enumerate() {
            let Some(translation) = instance.config.translation() else {
                continue;
            };
            let (in_front, behind) = service.chain.split_at(place);
            let behind: Vec<_> = behind.iter().filter_map(Ruled::of).collect();
            for ruled in in_front.iter().filter_map(Ruled::of) {
                if let Some(keys) = ruled.passed(service, &translation, &behind) {
                    self.tell_of_hairpins(ruled.name, &keys, &instance.name);
                }
            }
        }
    }

    fn tell_of_hairpins(&mut self, name: &str, keys: &[String], translation: &str) {
        let message = format!(
            "hosts inside get past this by external addresses: {name}, in front of {translation}, sees those and not whom they stand for; expected an acl behind {translation} that denies the same \"to\", or rules of {name} that deny the external addresses"
        );
        let keys = keys.iter().map(String::as_str);
        self.add(std::iter::once(name).chain(keys), message);
    }
}

impl<'a> Ruled<'a> {
    fn of(instance: &'a Instance) -> Option<Self> {
        let acl = instance.config.of::<acl::Config>();
        let acl = acl.map(|one| (one.rules(), one.default));
        let firewall = instance.config.of::<firewall::Config>();
        let firewall = firewall.map(|one| (one.rules(), one.default));
        let (rules, default) = acl.or(firewall)?;
        Some(Self {
            name: &instance.name,
            rules,
            default,
        })
    }

    /// Where the first stands that hosts inside get past, unless rules deny them external addresses, or
    /// a function behind the translation denies the same.
    fn passed(
        &self,
        service: &Service,
        translation: &Translation<'_>,
        behind: &[Ruled<'_>],
    ) -> Option<Vec<String>> {
        let is_own = |one: &Rule| is_for_inside(one, service, translation);
        let denies = |one: &Rule| one.action == Action::Deny && is_own(one);
        let is_external = |one: &Rule| lies_in(&one.to, translation.external);
        if self.rules.iter().any(|one| denies(one) && is_external(one)) {
            return None;
        }
        let is_passed = |one: &Rule| {
            let is_denied = behind.iter().any(|other| other.denies_as(one));
            denies(one) && lies_in(&one.to, translation.inside) && !is_denied
        };
        if let Some(number) = self.rules.iter().position(is_passed) {
            return Some(vec!["rules".into(), number.to_string()]);
        }
        let allowed = self.rules.iter();
        let allowed: Vec<_> = allowed
            .filter(|one| one.action == Action::Allow && is_own(one))
            .map(|one| one.to)
            .collect();
        let has_default = |one: &Ruled<'_>| one.default == Action::Deny;
        let is_passed = has_default(self)
            && !behind.iter().any(has_default)
            && are_some_and_external(&allowed, translation);
        is_passed.then(|| vec!["default".into()])
    }

    /// Whether a rule denies what this one does, from wherever.
    fn denies_as(&self, rule: &Rule) -> bool {
        let last = Address(rule.to.network.0 | !rule.to.mask);
        self.rules.iter().any(|one| {
            let has_all = has(&one.to, rule.to.network) && has(&one.to, last);
            let has_protocol = [Protocol::default(), rule.protocol].contains(&one.protocol);
            let has_port = one.to_port.are_any() || one.to_port == rule.to_port;
            one.action == Action::Deny
                && one.from == rule::Prefix::ANY
                && one.from_port.are_any()
                && has_all
                && has_protocol
                && has_port
        })
    }
}

/// Whether external addresses are allowed, and of those inside some and not all.
fn are_some_and_external(allowed: &[rule::Prefix], translation: &Translation<'_>) -> bool {
    let covers = |to: &rule::Prefix, one: &Prefix| has(to, one.network()) && has(to, one.last());
    let is_whole = |one: &Prefix| allowed.iter().any(|to| covers(to, one));
    let is_any_of = |to: &rule::Prefix, networks: &[Prefix]| {
        let mut networks = networks.iter();
        networks.any(|one| has(to, one.network()) || one.includes(to.network))
    };
    allowed.iter().any(|to| is_any_of(to, translation.external))
        && allowed.iter().any(|to| lies_in(to, translation.inside))
        && !translation.inside.iter().all(is_whole)
}

/// Whether a rule may be for what hosts inside send.
fn is_for_inside(rule: &Rule, service: &Service, translation: &Translation<'_>) -> bool {
    let comes_in = rule.ingress.as_ref().is_none_or(|name| {
        let number = (0..).zip(&service.ports).find(|(_, port)| **port == **name);
        service.inside_ports.is_empty()
            || number.is_some_and(|(number, _)| service.inside_ports.contains(&number))
    });
    let mut inside = translation.inside.iter();
    let is_theirs =
        |one: &Prefix| has(&rule.from, one.network()) || one.includes(rule.from.network);
    comes_in && inside.any(is_theirs)
}

fn has(addresses: &rule::Prefix, address: Address) -> bool {
    addresses.versions.includes(address.is_v4())
        && address.0 & addresses.mask == addresses.network.0
}

/// Whether all of these addresses are of one of the networks.
fn lies_in(addresses: &rule::Prefix, networks: &[Prefix]) -> bool {
    let last = Address(addresses.network.0 | !addresses.mask);
    let mut networks = networks.iter();
    networks.any(|one| one.includes(addresses.network) && one.includes(last))
}

#[cfg(test)]
mod tests {
    use crate::service::warnings::tests::told;

    const NAPT: &str = "[napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"192.0.2.1\"]\n\
        forward = [{ external = \"192.0.2.8\", to = \"10.0.0.8\" }]\n";
    const NPTV6: &str = "[nptv6]\n\
        prefixes = [{ inside = \"fd00:1::/48\", external = \"2001:db8:1::/48\" }]\n";

    /// What is told of hairpins past the function `first`, with such rules.
    fn told_of(chain: &str, first: &str, last: &str, translation: &str) -> Vec<usize> {
        let text = format!(
            "[service]\nchain = [{chain}]\nports = [\"site\", \"world\"]\ninside_ports = [\"site\"]\n\
             [first]\n{first}{last}{translation}"
        );
        let told = told(&text).into_iter();
        told.filter(|(_, message)| message.contains("get past this"))
            .map(|(line, _)| line)
            .collect()
    }

    #[test]
    fn rules_that_hosts_inside_get_past_are_told_with_their_lines() {
        let allowing = "default = \"allow\"\n";
        let v4 = "{ action = \"deny\", to = \"10.0.0.8\" }";
        let external = "{ action = \"deny\", to = \"192.0.2.8\" }";
        let some = "{ action = \"allow\", from = \"10.0.0.0/8\", to = \"10.1.0.0/16\" }";
        let world = "{ action = \"allow\", from = \"10.0.0.0/8\", to = \"192.0.0.0/8\" }";
        let all = "{ action = \"allow\", from = \"10.0.0.0/8\" }";
        let by_world = "{ action = \"deny\", ingress = \"world\", to = \"10.0.0.8\" }";
        let by_site = "{ action = \"deny\", ingress = \"site\", to = \"10.0.0.8\" }";
        let others = "{ action = \"deny\", from = \"203.0.113.0/24\", to = \"10.0.0.8\" }";
        let anywhere = "{ action = \"deny\", protocol = \"tcp\", to_port = 25 }";
        let v6 = "{ action = \"deny\", to = \"fd00:1::8\" }";
        let (alone, both) = ("\"first\", \"napt\"", "\"first\", \"napt\", \"last\"");
        let (behind, prefixes) = ("\"napt\", \"first\"", "\"first\", \"nptv6\"");
        for (chain, default, rules, last, translation, line) in [
            (alone, allowing, &[v4][..], "", NAPT, Some(9)),
            (alone, allowing, &[anywhere, by_site], "", NAPT, Some(10)),
            (behind, allowing, &[v4], "", NAPT, None),
            (
                alone,
                allowing,
                &[by_world, others, anywhere],
                "",
                NAPT,
                None,
            ),
            (alone, allowing, &[v4, external], "", NAPT, None),
            (both, allowing, &[v4], v4, NAPT, None),
            (both, allowing, &[v4], anywhere, NAPT, Some(9)),
            (
                alone,
                "default = \"deny\"\n",
                &[some, world],
                "",
                NAPT,
                Some(7),
            ),
            (alone, "default = \"deny\"\n", &[some, all], "", NAPT, None),
            (alone, "default = \"deny\"\n", &[some], "", NAPT, None),
            (prefixes, allowing, &[v6], "", NPTV6, Some(9)),
            (prefixes, allowing, &[v4], "", NPTV6, None),
        ] {
            for function in ["acl", "firewall"] {
                let first = format!(
                    "function = \"{function}\"\n{default}rules = [\n{}]\n",
                    rules.join(",\n") + "\n"
                );
                let last = match chain.contains("last") {
                    true => format!(
                        "[last]\nfunction = \"acl\"\ndefault = \"allow\"\nrules = [{last}]\n"
                    ),
                    false => String::new(),
                };
                let told = told_of(chain, &first, &last, translation);
                assert_eq!(
                    told,
                    Vec::from_iter(line),
                    "{chain} {function} {first} {last}"
                );
            }
        }
    }
}
