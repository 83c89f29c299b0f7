//! What is sound in a service file and yet probably not meant so.

mod cables;
mod hairpins;
mod host;
mod networks;
mod sides;

pub use host::{Host, HostAddress, HostInterface, host_warnings};

use super::{Fault, Instance, SETTINGS, Service, place_of};
use crate::text_place::TextPlace;
use std::path::PathBuf;
use toml::de::DeTable;
use twinpath_classify::Prefix;
use twinpath_core::wire::Address;
use twinpath_nf::descriptor::{ConfigWarning, Translation};
use twinpath_nf::firewall::Opening;
use twinpath_nf::{acl, firewall, load_balancer, napt, nat64, router};

/// All that is to be told of a service, in the order of the file.
pub fn warnings(service: &Service) -> Vec<Fault> {
    let mut found = Found(Vec::new());
    found.unused_tables(service);
    found.forgeable_sides(service);
    for instance in &service.chain {
        for warning in instance.config.warnings() {
            found.of_function(service, &instance.name, warning);
        }
    }
    for (name, translation) in translations(service) {
        found.addresses_in_pool(service, name, &translation);
        found.networks_elsewhere(service, name, &translation);
    }
    found.dead_forwards(service);
    found.passed_by_hairpins(service);
    found.figures_for_all(service);
    found.half_open_of_all(service);
    found.hosts_of_two_shards(service);
    found.useless_split(service);
    found.held_too_long(service);
    found.lists_behind_monitors(service);
    found.on_cables(service);
    found.of_networks(service);
    found.swapped_sides(service, |device| cables::networks(device).collect());
    found.placed(service)
}

/// Something that is to be told of what keys lead to, or of a line of another file that they name.
struct Told {
    keys: Vec<String>,
    message: String,
    elsewhere: Option<(PathBuf, u32)>,
}

/// What is to be told.
struct Found(Vec<Told>);

fn translations(service: &Service) -> impl Iterator<Item = (&str, Translation<'_>)> {
    let chain = service.chain.iter();
    chain.filter_map(|instance| Some((&*instance.name, instance.config.translation()?)))
}

impl Found {
    fn add<'k>(&mut self, keys: impl IntoIterator<Item = &'k str>, message: String) {
        let keys = keys.into_iter().map(str::to_owned).collect();
        self.0.push(Told {
            keys,
            message,
            elsewhere: None,
        });
    }

    /// What a function has to tell, with the lines of what is the cause of it.
    fn of_function(&mut self, service: &Service, name: &str, warning: ConfigWarning) {
        let text = &service.file.text;
        let line = |keys: Vec<String>| {
            let keys = std::iter::once(name).chain(keys.iter().map(String::as_str));
            TextPlace::of(place_of(keys, text), text).line
        };
        let lines: Vec<usize> = warning.because.into_iter().map(line).collect();
        let keys = std::iter::once(name.to_owned()).chain(warning.keys);
        let message = warning.message + &in_lines(&lines);
        self.0.push(Told {
            keys: keys.collect(),
            message,
            elsewhere: warning.elsewhere,
        });
    }

    /// Tables of functions that are not in the chain.
    fn unused_tables(&mut self, service: &Service) {
        let Ok(file) = DeTable::parse(&service.file.text) else {
            return;
        };
        for name in file.get_ref().keys() {
            let name = name.get_ref().as_ref();
            let is_used = |one: &Instance| *one.name == *name;
            if !SETTINGS.contains(&name) && !service.chain.iter().any(is_used) {
                let message = format!("the chain has no {name}: this table is not used");
                self.add([name], message);
            }
        }
    }

    /// Whoever reaches any address of the box reads all figures.
    fn figures_for_all(&mut self, service: &Service) {
        let listen = service.metrics.listen;
        if let Some(listen) = listen.filter(|listen| listen.ip().is_unspecified()) {
            let message = format!(
                "whoever reaches any address of this host reads all figures at port {}: expected one address, such as 127.0.0.1, or that of a network for management",
                listen.port()
            );
            self.add(["metrics", "listen"], message);
        }
    }

    /// More flows may be half-open than there may be.
    fn half_open_of_all(&mut self, service: &Service) {
        let (most, flows) = (service.slow_path.most_half_open(), service.slow_path.flows);
        if most > flows {
            let message = format!(
                "{most} flows may be half-open of {flows} in all, so a flood of openings takes the place of established connections: expected fewer"
            );
            self.add(["slow_path", "half_open"], message);
        }
    }

    /// Hosts inside that belong to two shards do not reach each other through a translation between IP
    /// versions.
    fn hosts_of_two_shards(&mut self, service: &Service) {
        let shards = service.run.shards.0;
        let mut chain = service.chain.iter();
        let translation = chain.find(|one| one.config.of::<nat64::Config>().is_some());
        if let Some(translation) = translation.filter(|_| shards > 1) {
            let message = format!(
                "hosts inside reach each other by external addresses of {} where they belong to one of the {shards} shards: other packets between them are dropped (other_shard)",
                translation.name
            );
            self.add(["run", "shards"], message);
        }
    }

    /// Packets are to be split, and a function needs their payloads.
    fn useless_split(&mut self, service: &Service) {
        let needs = |one: &Instance| Some((one.name.to_string(), one.config.needs_payload()?));
        let Some((name, why)) = service.chain.iter().find_map(needs) else {
            return;
        };
        if service.split.is_some() {
            let message = format!("no packet is split: {name} {why}");
            self.add(["split"], message);
        }
    }

    /// Packets are split, and functions may hold headers for longer than their slots are theirs.
    fn held_too_long(&mut self, service: &Service) {
        let Some(split) = service.splits() else {
            return;
        };
        let holds = |one: &Instance| Some((one.name.to_string(), one.config.longest_hold()?));
        let holding: Vec<_> = service.chain.iter().filter_map(holds).collect();
        let longest = holding.iter().map(|(_, longest)| *longest).sum();
        let timeout = split.header_timeout.duration();
        if timeout > longest || holding.is_empty() {
            return;
        }
        let names: Vec<&str> = holding.iter().map(|(name, _)| &**name).collect();
        let message = format!(
            "{} may hold packets for {longest:?}, and after {} another packet may get the slot of one whose header is away, which is dropped then (header_missing): expected a header_timeout of more than {longest:?}",
            names.join(", "),
            split.header_timeout
        );
        self.add(["split", "header_timeout"], message);
    }

    /// Ports are known, and yet sources tell which way packets go.
    fn forgeable_sides(&mut self, service: &Service) {
        if service.ports.len() > 1 && !service.inside.is_empty() && service.inside_ports.is_empty()
        {
            let message = "which way a packet goes is told by its source address, which anybody can forge: inside_ports beside it would tell by the port, and sources be checked";
            self.add(["service", "inside"], message.into());
        }
    }

    /// What a translation takes to be for a host inside never comes to where it was to go.
    fn addresses_in_pool(&mut self, service: &Service, napt: &str, translation: &Translation<'_>) {
        let is_in_pool = |address: Address| {
            let mut pool = translation.external.iter();
            pool.any(|prefix| prefix.includes(address))
        };
        for instance in &service.chain {
            let name = &*instance.name;
            if let Some(balancer) = instance.config.of::<load_balancer::Config>() {
                for (place, one) in balancer.services().iter().enumerate() {
                    if is_in_pool(one.vip().address) {
                        let message = format!(
                            "{} is one of the external addresses of {napt}, too, so one of the two does not get what is for it: expected an address of its own",
                            one.vip()
                        );
                        self.add([name, "services", &place.to_string(), "vip"], message);
                    }
                }
            }
            if let Some(router) = instance.config.of::<router::Config>()
                && let Some(own) = router.own_addresses().find(|own| is_in_pool(*own))
            {
                let message = format!(
                    "{own} is one of the external addresses of {napt}, too, which takes packets to it: expected an address of its own"
                );
                self.add([name], message);
            }
        }
    }

    /// Forwards of a translation that no connection from outside ever comes to, because a firewall
    /// denies them all. It sees them as they look outside if it stands behind the translation, which
    /// they pass after it.
    fn dead_forwards(&mut self, service: &Service) {
        let outside = outside_ports(service);
        for (place, instance) in service.chain.iter().enumerate() {
            for (number, ends) in forwards(instance).into_iter().enumerate() {
                if is_translated_twice(service, place, &ends) {
                    continue;
                }
                let [outer, inner] = &ends;
                let denies = |(other, one): &(usize, &Instance)| {
                    let opening = if *other > place { outer } else { inner };
                    let firewall = one.config.of::<firewall::Config>();
                    firewall.is_some_and(|one| one.denies(opening, &service.inside, &outside))
                };
                if let Some((_, firewall)) = service.chain.iter().enumerate().find(denies) {
                    let message = format!(
                        "no connection from outside ever comes by this forward: {} denies all of them, expected a rule that allows some",
                        firewall.name
                    );
                    self.add([&instance.name, "forward", &number.to_string()], message);
                }
            }
        }
    }

    /// Lists whose drops have a rule for each source, because of what stands in front of them among
    /// the same cached decisions.
    fn lists_behind_monitors(&mut self, service: &Service) {
        let has_sides = !service.inside.is_empty() || !service.inside_ports.is_empty();
        let of_whom = if has_sides {
            "packets from inside"
        } else {
            "packets"
        };
        let mut passed = 0;
        for element in service
            .chain
            .chunk_by(|one, next| one.makes_rules() && next.makes_rules())
        {
            let first = passed;
            passed += element.len();
            let monitor = element
                .iter()
                .position(|one| one.config.looks_at_each().is_some());
            let number = first + monitor.unwrap_or(0);
            let Some((monitor, behind)) = monitor.and_then(|place| element[place..].split_first())
            else {
                continue;
            };
            let is_list = |one: &&Instance| one.config.of::<acl::Config>().is_some();
            let each = monitor.config.looks_at_each();
            if let Some((list, each)) = behind.iter().find(is_list).zip(each) {
                let (monitor, list) = (&monitor.name, &list.name);
                let message = format!(
                    "{monitor} in front of {list} makes one rule for each {each}, also of {of_whom} that {list} drops, so a flood from many is the workers': expected what drops them in front of {monitor}"
                );
                self.add(["service", "chain", &number.to_string()], message);
            }
        }
    }

    /// Hosts that are translated, and packets of which pass the chain as if they came from outside.
    fn networks_elsewhere(&mut self, service: &Service, napt: &str, translation: &Translation<'_>) {
        for prefix in translation.inside {
            let holds = |inside: &&Prefix| {
                inside.length() <= prefix.length() && inside.includes(prefix.network())
            };
            if !service.inside.is_empty() && !service.inside.iter().any(|one| holds(&one)) {
                let message = format!(
                    "{prefix} is inside for {napt}, and not in [service]: its packets are not taken to come from inside"
                );
                self.add([napt, "inside"], message);
            }
        }
    }

    fn placed(self, service: &Service) -> Vec<Fault> {
        let text = &service.file.text;
        let place = |told: Told| (place_of(told.keys.iter().map(String::as_str), text), told);
        let mut all: Vec<(usize, Told)> = self.0.into_iter().map(place).collect();
        all.sort_by_key(|(at, _)| *at);
        let warning = |(at, told): (usize, Told)| match told.elsewhere {
            Some((path, line)) => Fault::in_line(path, line as usize, told.message),
            None => Fault::at(at, told.message, text, &service.file.path),
        };
        all.into_iter().map(warning).collect()
    }
}

/// The connections that each forward of a translation is for, as they look outside and inside.
fn forwards(instance: &Instance) -> Vec<[Opening; 2]> {
    let (napt, nat64) = (instance.config.of(), instance.config.of());
    let napt = napt.map(|config: &napt::Config| config.forwarded().collect());
    let nat64 = nat64.map(|config: &nat64::Config| config.forwarded().collect());
    napt.or(nat64).unwrap_or_default()
}

/// Whether another translation than that in a place of the chain translates them on either side, so
/// that a firewall may see other ends than these.
fn is_translated_twice(service: &Service, place: usize, [outer, inner]: &[Opening; 2]) -> bool {
    let others = service.chain.iter().enumerate();
    let mut others = others.filter(|(other, _)| *other != place);
    others.any(|(_, other)| {
        other.config.translation().is_some_and(|other| {
            let has = |prefixes: &[Prefix], to| prefixes.iter().any(|one| one.includes(to));
            has(other.external, inner.to) || has(other.inside, outer.to)
        })
    })
}

/// The names of the ports by which packets from outside come in, if that is known.
fn outside_ports(service: &Service) -> Vec<String> {
    if service.inside_ports.is_empty() {
        return Vec::new();
    }
    let ports = (0..).zip(&service.ports);
    let outside = ports.filter(|(number, _)| !service.inside_ports.contains(number));
    outside.map(|(_, name)| name.clone()).collect()
}

/// Says in which lines something is.
fn in_lines(lines: &[usize]) -> String {
    let mut lines: Vec<String> = lines.iter().map(usize::to_string).collect();
    lines.dedup();
    match (lines.pop(), lines.is_empty()) {
        (None, _) => String::new(),
        (Some(line), true) => format!(" (line {line})"),
        (Some(last), false) => format!(" (lines {} and {last})", lines.join(", ")),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::path::Path;

    /// Lines and messages.
    pub(super) fn told(text: &str) -> Vec<(usize, String)> {
        let service = Service::parse(text, Path::new("test.toml"));
        let service = service.unwrap_or_else(|error| panic!("{error}"));
        let all = warnings(&service).into_iter();
        all.map(|warning| (warning.place.line, warning.message))
            .collect()
    }

    const SOUND: &str = r#"[service]
chain = ["acl", "napt", "load_balancer", "router"]
ports = ["site", "world"]
inside_ports = ["site"]
inside = ["10.0.0.0/8"]
[acl]
rules = [
    { action = "deny", protocol = "tcp", to_port = 25 },
    { action = "allow", from = "10.0.0.0/8" },
]
[napt]
inside = ["10.1.0.0/16"]
external = ["198.51.100.1"]
[[load_balancer.services]]
vip = "203.0.113.1:443"
protocol = "udp"
backends = [{ endpoint = "192.0.2.1:443" }]
[router]
address = "198.51.100.254"
next_hops = [
    { name = "a", mac = "02:00:00:00:01:01", source_mac = "02:00:00:00:00:01", port = "site" },
    { name = "b", mac = "02:00:00:00:02:01", source_mac = "02:00:00:00:00:02", port = "world" },
]
routes = [
    { to = "10.0.0.0/8", via = "a" },
    { to = "0.0.0.0/0", via = "b" },
]
"#;

    #[test]
    fn a_service_as_it_should_be_has_none() {
        assert_eq!(told(SOUND), []);
    }

    #[test]
    fn what_is_probably_not_meant_is_told_with_its_line() {
        for (from, to, line, expected) in [
            ("to_port = 25", "from = \"10.0.0.0/8\"", 0, ""),
            (
                "tcp\", to_port = 25",
                "any\", from = \"10.0.0.0/7\"",
                9,
                "rule 1 (deny from 10.0.0.0/7)",
            ),
            ("[acl]", "[firewall]\n[acl]", 6, "the chain has no firewall"),
            (
                "[acl]",
                "[slow_path]\nflows = 10\nhalf_open = 11\n[acl]",
                8,
                "11 flows may be half-open of 10 in all",
            ),
            (
                "[acl]",
                "[metrics]\nlisten = \"0.0.0.0:9477\"\n[acl]",
                7,
                "reads all figures at port 9477",
            ),
            (
                "[acl]",
                "[metrics]\nlisten = \"[::]:9477\"\n[acl]",
                7,
                "reads all figures at port 9477",
            ),
            (
                "[acl]",
                "[metrics]\nlisten = \"127.0.0.1:9477\"\n[acl]",
                0,
                "",
            ),
            ("inside_ports = [\"site\"]\n", "", 4, "anybody can forge"),
            (
                "203.0.113.1:443",
                "198.51.100.1:443",
                15,
                "one of the external addresses of napt",
            ),
            (
                "198.51.100.254",
                "198.51.100.1",
                18,
                "one of the external addresses of napt",
            ),
            (
                "inside = [\"10.1.0.0/16\"]",
                "inside = [\"172.16.0.0/12\"]",
                12,
                "not in [service]",
            ),
            ("via = \"b\"", "via = \"a\"", 22, "no route goes via \"b\""),
            (
                "    { to = \"0.0.0.0/0\"",
                "    { to = \"10.0.0.0/8\", via = \"b\" },\n    { to = \"0.0.0.0/0\"",
                25,
                "in place of this one",
            ),
        ] {
            assert!(SOUND.contains(from), "{from}");
            let told = told(&SOUND.replacen(from, to, 1));
            match line {
                0 => assert_eq!(told, []),
                line => {
                    assert_eq!(told.len(), 1, "{told:?}");
                    assert_eq!(told[0].0, line, "{told:?}");
                    assert!(told[0].1.contains(expected), "{told:?}");
                }
            }
        }
    }

    #[test]
    fn hosts_of_two_shards_that_do_not_reach_each_other_are_told_of() {
        let text = |shards: u16, function: &str| {
            format!(
                "[service]\nchain = [\"{function}\"]\n[{function}]\ninside = [\"fd00::/8\"]\nexternal = [\"198.51.100.1\"]\n[run]\nshards = {shards}\n"
            )
        };
        assert_eq!(told(&text(1, "nat64")), []);
        let told = told(&text(2, "nat64"));
        assert_eq!(told.len(), 1, "{told:?}");
        let (line, message) = &told[0];
        assert!(*line == 7 && message.contains("(other_shard)"), "{told:?}");
    }

    /// A list behind what makes a rule for each source, and not in front of it.
    #[test]
    fn a_list_behind_a_monitor_is_told() {
        let text = |chain: &str, by: &str| {
            format!(
                "[service]\nchain = [{chain}]\n[monitor]\nby = \"{by}\"\n[acl]\n[firewall]\ndefault = \"allow\"\n"
            )
        };
        let in_front = "\"monitor\", \"acl\"";
        for by in ["source", "connection", "destination"] {
            let told = told(&text(in_front, by));
            assert_eq!(told[0].0, 2, "{told:?}");
            let expected = format!(
                "monitor in front of acl makes one rule for each {by}, also of packets that"
            );
            assert!(told[0].1.starts_with(&expected), "{told:?}");
        }
        // From outside packets meet the monitor last.
        let with_sides = text(in_front, "source")
            .replace("]\n[monitor]", "]\ninside = [\"10.0.0.0/8\"]\n[monitor]");
        let told_of_sides = told(&with_sides);
        assert!(
            told_of_sides
                .iter()
                .any(|(_, what)| what.contains("also of packets from inside that")),
            "{told_of_sides:?}"
        );
        for chain in ["\"acl\", \"monitor\"", "\"monitor\", \"firewall\", \"acl\""] {
            let told = told(&text(chain, "source"));
            assert!(
                told.iter().all(|(_, what)| !what.contains("in front of")),
                "{told:?}"
            );
        }
    }

    #[test]
    fn lines_of_rules_that_cover_one_together_are_told() {
        let by_port = ["site", "world"]
            .map(|port| {
                format!("{{ action = \"deny\", ingress = \"{port}\", from = \"10.0.0.0/8\" }},")
            })
            .join("\n    ");
        for (rules, line, expected) in [
            (
                "{ action = \"deny\", from = \"10.0.0.0/9\" },\n    { action = \"deny\", from = \"10.128.0.0/9\" },",
                10,
                "rules 1 (deny from 10.0.0.0/9) and 2 (deny from 10.128.0.0/9) decide all that it would match (lines 8 and 9)",
            ),
            (
                &by_port,
                10,
                "decide all that it would match (lines 8 and 9)",
            ),
            (
                "{ action = \"deny\", from = \"10.0.0.0/8\" },",
                9,
                "rule 1 (deny from 10.0.0.0/8) decides all that it would match (line 8)",
            ),
        ] {
            let from = "{ action = \"deny\", protocol = \"tcp\", to_port = 25 },";
            for function in ["acl", "firewall"] {
                let text = SOUND.replacen(from, rules, 1).replace("acl", function);
                let told = told(&text);
                assert_eq!(told.len(), 1, "{told:?}");
                assert_eq!(told[0].0, line, "{told:?}");
                assert!(told[0].1.ends_with(expected), "{told:?}");
            }
        }
    }

    /// A firewall on either side of a translation, whose forward it denies or does not.
    #[test]
    fn forwards_that_a_firewall_denies_are_told() {
        let text = |chain: &str, default: &str, rule: &str| {
            format!(
                "[service]\nchain = [{chain}]\nports = [\"site\", \"world\"]\ninside_ports = [\"site\"]\n\
                 [firewall]\ndefault = \"{default}\"\nrules = [\n{{ action = \"allow\", from = \"10.0.0.0/8\" }},\n{rule}]\n\
                 [napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"192.0.2.1\"]\nforward = [\n\
                 {{ protocol = \"tcp\", external = \"192.0.2.1:80-81\", to = \"10.0.0.1:8080\" }},\n]\n"
            )
        };
        let (before, behind) = ("\"firewall\", \"napt\"", "\"napt\", \"firewall\"");
        let inner = "{ action = \"allow\", to = \"10.0.0.1\", protocol = \"tcp\", to_port = \"8081-9000\" },\n";
        let outer = "{ action = \"allow\", to = \"192.0.2.1\", to_port = 80 },\n";
        let by_site = "{ action = \"allow\", ingress = \"site\" },\n";
        let denied = "{ action = \"deny\", to = \"10.0.0.0/8\", protocol = \"tcp\" },\n";
        for (chain, default, rule, is_dead) in [
            (before, "deny", "", true),
            (behind, "deny", "", true),
            (before, "allow", "", false),
            (before, "deny", inner, false),
            (behind, "deny", inner, true),
            (before, "deny", outer, true),
            (behind, "deny", outer, false),
            (before, "deny", by_site, true),
            (before, "allow", denied, true),
            (behind, "allow", denied, false),
        ] {
            let told = told(&text(chain, default, rule));
            let told: Vec<_> = told
                .iter()
                .filter(|(_, message)| message.contains("forward"))
                .collect();
            assert_eq!(
                !told.is_empty(),
                is_dead,
                "{chain} {default} {rule}: {told:?}"
            );
            if let [(line, message)] = told[..] {
                let lines = 14 + usize::from(!rule.is_empty());
                assert_eq!(*line, lines, "{message}");
                assert!(message.contains("firewall denies all of them"), "{message}");
            }
        }
    }

    /// The same of a translation between IP versions, beside one of IPv4 or not.
    #[test]
    fn forwards_to_ipv6_that_a_firewall_denies_are_told() {
        let napt = "[napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"192.0.2.1\"]\n";
        let text = |chain: &str, to: &str| {
            format!(
                "[service]\nchain = [{chain}]\nports = [\"site\", \"world\"]\ninside_ports = [\"site\"]\n\
                 [firewall]\nrules = [{{ action = \"allow\", to = \"{to}\", protocol = \"tcp\", to_port = 80 }}]\n\
                 [nat64]\ninside = [\"2001:db8:1::/48\"]\nexternal = [\"192.0.2.9\"]\nforward = [\n\
                 {{ protocol = \"tcp\", external = \"192.0.2.9:80\", to = \"[2001:db8:1::5]:80\" }},\n]\n\
                 {}",
                if chain.contains("napt") { napt } else { "" }
            )
        };
        let (before, behind) = ("\"firewall\", \"nat64\"", "\"nat64\", \"firewall\"");
        let beside = "\"firewall\", \"napt\", \"nat64\"";
        let (inner, outer) = ("2001:db8:1::5", "192.0.2.9");
        for (chain, to, is_dead) in [
            (before, inner, false),
            (before, outer, true),
            (behind, inner, true),
            (behind, outer, false),
            (beside, inner, false),
            (beside, outer, true),
        ] {
            let told = told(&text(chain, to));
            let is_told = |(line, message): &(usize, String)| {
                *line == 11 && message.contains("firewall denies all of them")
            };
            assert_eq!(told.iter().any(is_told), is_dead, "{chain} {to}: {told:?}");
        }
    }

    #[test]
    fn headers_that_are_held_for_longer_than_their_slots_are_told() {
        let text = |timeout: &str, excess: &str| {
            format!(
                "[service]\nchain = [\"rate_limiter\"]\n[rate_limiter]\nrate_pps = 1000\nexcess = \"{excess}\"\nlongest_delay = \"40ms\"\n[split]\nheader_timeout = \"{timeout}\"\n"
            )
        };
        for (timeout, excess, expected) in [
            ("40ms", "delay", 1),
            ("41ms", "delay", 0),
            ("1ms", "drop", 0),
        ] {
            let told = told(&text(timeout, excess));
            assert_eq!(told.len(), expected, "{told:?}");
            let is_placed = |(line, message): &(usize, String)| {
                *line == 8 && message.contains("may hold packets for 40ms")
            };
            assert!(told.iter().all(is_placed), "{told:?}");
        }
    }

    #[test]
    fn a_warning_says_where() {
        let text = SOUND.replacen("[acl]", "[firewall]\n[acl]", 1);
        let service = Service::parse(&text, Path::new("test.toml")).expect("sound");
        let told = warnings(&service)[0].to_string();
        assert!(
            told.starts_with("test.toml:6:2: the chain has no firewall: this table is not used\n"),
            "{told}"
        );
    }
}
