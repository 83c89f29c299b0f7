//! Chains of real functions, as services name them.

use std::path::Path;
use twinpath_nf::{acl, monitor, napt, router};
use twinpath_rulecache::RuleFunction;

/// A function of a chain.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A list of so many rules, all but the last of which miss.
    Acl(usize),
    /// A translation for clients of benches, to 64 addresses.
    Napt,
    /// A route for each backend's network.
    Router,
    /// Counts by source.
    Monitor,
}

const SESSIONS: usize = 2_200_000;

impl Kind {
    /// The function.
    pub fn build(self) -> Box<dyn RuleFunction> {
        match self {
            Self::Acl(rules) => {
                let config: acl::Config = read(&acl_text(rules));
                Box::new(acl::AccessList::new(
                    acl::Prepared::new(&config).expect("few rules"),
                ))
            }
            Self::Napt => Box::new(napt::Napt::new(&read(&napt_text()), 7)),
            Self::Router => {
                let router = router::Router::new(&read(ROUTES), Path::new(""), 1);
                Box::new(router.expect("few routes"))
            }
            Self::Monitor => Box::new(monitor::Monitor::new(&read(MONITOR), 7)),
        }
    }
}

/// The first `length` functions of a chain in which no function changes what a later one of the
/// same kind sees in vain.
pub fn chain(length: usize) -> Vec<Kind> {
    use Kind::{Acl, Monitor, Napt, Router};
    match length {
        1 => vec![Acl(100)],
        2 => vec![Acl(100), Napt],
        4 => vec![Acl(100), Napt, Monitor, Router],
        _ => {
            let eight = [
                Acl(100),
                Monitor,
                Acl(20),
                Napt,
                Acl(10),
                Monitor,
                Acl(5),
                Router,
            ];
            eight.into_iter().take(length).collect()
        }
    }
}

/// A chain in which every connection needs a rule of its own.
pub fn connections_chain() -> Vec<Kind> {
    vec![Kind::Acl(100), Kind::Napt, Kind::Monitor]
}

/// A service with room for so many flows: a list and a translation, cached as rules, and a balancer
/// that shares flow state.
pub fn gateway_service(flows: usize) -> String {
    let slots = (2 * flows + 1024).next_power_of_two();
    let (acl, napt, balancer) = (acl_text(100), napt_text(), balancer_text());
    format!(
        "[service]\nname = 'bench'\nchain = ['acl', 'napt', 'load_balancer']\n\
         [fast_path]\nslots = {slots}\nhot_packets = 1\ntime_to_live = '1h'\n[slow_path]\nflows = {slots}\n\
         [rule_cache]\nexact = {flows}\nthreshold = 0\nwindow = '500ms'\nidle_windows = 255\n\
         [acl]\n{acl}\n[napt]\n{napt}\n[load_balancer]\n{balancer}\n"
    )
    .replace("[[services]]", "[[load_balancer.services]]")
}

/// All functions of a chain.
pub fn build(kinds: &[Kind]) -> Vec<Box<dyn RuleFunction>> {
    kinds.iter().map(|kind| kind.build()).collect()
}

fn read<T: serde::de::DeserializeOwned>(text: &str) -> T {
    toml::from_str(text).unwrap_or_else(|error| panic!("{error}"))
}

/// Networks that nobody sends from, and one that clients do or, behind a translation, their
/// external addresses.
fn acl_text(rules: usize) -> String {
    let miss = |number: usize| {
        format!(
            "{{ action = 'deny', from = '172.{}.{}.0/24', to_port = {} }}",
            16 + number % 16,
            number / 16 % 256,
            1 + number % 1000
        )
    };
    let mut all: Vec<String> = (1..rules).map(miss).collect();
    all.push("{ action = 'allow', protocol = 'tcp' }".to_owned());
    format!("rules = [{}]", all.join(", "))
}

fn napt_text() -> String {
    let external: Vec<String> = (1..=64).map(|host| format!("'198.18.0.{host}'")).collect();
    format!(
        "inside = ['11.0.0.0/8']\nexternal = [{}]\nsessions = {SESSIONS}",
        external.join(", ")
    )
}

fn balancer_text() -> String {
    let backends: Vec<String> = (1..=8)
        .map(|host| format!("{{ endpoint = '10.254.0.{host}:8080' }}"))
        .collect();
    format!(
        "[[services]]\nvip = '10.255.0.1:80'\nprotocol = 'tcp'\nbackends = [{}]",
        backends.join(", ")
    )
}

const ROUTES: &str = "
    next_hops = [{ name = 'a', mac = '02:00:00:00:01:01', source_mac = '02:00:00:00:00:01', port = 1 }]
    routes = [{ to = '10.254.0.0/16', via = 'a' }, { to = '0.0.0.0/0', via = 'a' }]
";

const MONITOR: &str = "by = 'source'";
