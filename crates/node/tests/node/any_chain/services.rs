//! Any service: a chain of production's functions, any configuration of each, paths of any size.

use proptest::collection::vec;
use proptest::prelude::*;
use std::fmt;
use std::path::{Path, PathBuf};
use twinpath_control::service::Service;

/// Addresses that a translation gives out.
pub const EXTERNAL: &str = "198.51.100.0/24";

/// A service, and what tests must know of it.
#[derive(Clone)]
pub struct AnyService {
    pub text: String,
    /// The functions of the chain, by the names that they have as functions.
    pub chain: Vec<&'static str>,
    /// Frames that may be under way to the worker.
    pub ring_frames: usize,
}

impl fmt::Debug for AnyService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "\n{}", self.text)
    }
}

impl AnyService {
    pub fn has(&self, function: &str) -> bool {
        self.chain.contains(&function)
    }

    /// Whether the names that a translation gives out must last: they are another matter in each run, and
    /// those that a chain's flow state has known for longer than the translation may not be given out again.
    pub fn names_must_last(&self) -> bool {
        names_must_last(&self.chain)
    }

    /// The same, with as many streams, hosts' streams and places in lines as there are: those that a
    /// function has room for are each shard's own.
    pub fn without_limits(&self) -> Self {
        let mut any = self.clone();
        for limit in ["streams = 1\n", "streams = 6\n"] {
            any.text = any.text.replace(limit, "streams = 65536\n");
        }
        for limit in [
            "streams_per_host = 1\n",
            "streams_per_host = 2\n",
            "most_packets = 3\n",
        ] {
            any.text = any.text.replace(limit, "");
        }
        any
    }

    /// The same over a link with a round trip.
    pub fn over_link(&self, round_trip: &str) -> Self {
        let link = format!("[link]\nround_trip = \"{round_trip}\"\n");
        let text = self.text.replacen("[link]\n", &link, 1);
        let ring_frames = format!("ring_frames = {}", self.ring_frames);
        assert!(text.contains(&link) && text.contains(&ring_frames));
        let chain = self.chain.clone();
        Self {
            text,
            chain,
            ring_frames: self.ring_frames,
        }
    }

    /// The service, with the inspector's rules beside it.
    pub fn parsed(&self) -> Service {
        let folder = folder();
        std::fs::write(folder.join("any.rules"), INSPECTED).expect("a file for tests");
        Service::parse(&self.text, &folder.join(Path::new("any.toml")))
            .unwrap_or_else(|error| panic!("{error}\n{}", self.text))
    }
}

/// Where these tests keep files.
pub fn folder() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("any_chain");
    std::fs::create_dir_all(&folder).expect("a folder for tests");
    folder
}

/// Where routers send ICMP errors from.
const ROUTER_ADDRESSES: &str = "address = \"192.0.2.254\"\naddress6 = \"2001:db8::fe\"\n";

/// How many of them, and a translation's, may be sent: as many as there are.
const ERRORS: &str = "errors_per_second = 1000000\n";

/// What the inspector looks for: [payloads](super::packets) have some of it.
const INSPECTED: &str = "look alert literal \"look at me\"\nforbidden ban literal \"forbidden\"\n\
    spread ban regex \"half[ -~]*whole\"\n";

/// The node's ports; the last one is for chains with a router.
const PORTS: [&str; 3] = ["lan", "uplink", "peer"];

/// What stands for hosts and endpoints inside in any case.
const FORWARDS: &str = "{ protocol = \"tcp\", external = \"198.51.100.1:80-90\", to = \"10.0.0.1:1000\" }, \
    { protocol = \"udp\", external = \"198.51.100.4:53\", to = \"10.0.0.2:1009\" }, \
    { external = \"198.51.100.3\", to = \"10.0.0.3\" }";

/// Functions that share flow state, and how many words of it each has. What a store has is all its own.
const SHARING: [(&str, usize); 8] = [
    ("firewall", 11),
    ("reassembler", 4),
    ("inspector", 6),
    ("load_balancer", 2),
    ("rate_limiter", 5),
    ("reframer", 1),
    ("telemetry", 7),
    ("kv_store", 0),
];

/// State words of a flow that the fast path has room for.
const MOST_WORDS: usize = 36;

/// The state words of a function; `None` if it makes rules.
fn words_of(name: &str) -> Option<usize> {
    let found = SHARING.iter().find(|(function, _)| *function == name);
    found.map(|&(_, words)| words)
}

/// Whether the decisions of a function are cached as rules, and not in the state of flows.
pub fn makes_rules(name: &str) -> bool {
    words_of(name).is_none()
}

/// Functions as they are drawn: those that several of a chain may be more often.
const DRAWN: [&str; 21] = [
    "acl",
    "firewall",
    "monitor",
    "napt",
    "nptv6",
    "nat64",
    "load_balancer",
    "router",
    "reassembler",
    "inspector",
    "acl",
    "firewall",
    "napt",
    "load_balancer",
    "monitor",
    "rate_limiter",
    "telemetry",
    "reframer",
    "rate_limiter",
    "telemetry",
    "kv_store",
];

/// A number that choices are taken from, one after another.
pub struct Choices(pub u64);

impl Choices {
    /// Any number below another, of a sequence that does not end.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        let count = all.len() as u64;
        let chosen = all[(self.0 % count) as usize];
        self.0 /= count;
        chosen
    }
}

type Drawn = (usize, u64, Vec<u64>);

prop_compose! {
    pub fn any_service(told_by_port: impl Strategy<Value = bool>)(
        functions in vec((0..DRAWN.len(), any::<u64>(), vec(any::<u64>(), 0..6)), 1..6),
        settings in any::<u64>(),
        told_by_port in told_by_port,
        entrance in any::<u64>(),
    ) -> AnyService {
        composed(&sound(functions), settings, told_by_port, entrance)
    }
}

fn names_must_last(chain: &[&str]) -> bool {
    let mut functions = chain.iter();
    let is_translated = chain.contains(&"napt") || chain.contains(&"nat64");
    is_translated && functions.any(|function| words_of(function).is_some())
}

/// A function's table that holds no packet for long.
fn held_briefly(table: &str) -> String {
    let table = table.replace("window = \"10ms\"", "window = \"300us\"");
    table.replace("excess = \"delay\"", "excess = \"drop\"")
}

fn composed(functions: &[Drawn], settings: u64, told_by_port: bool, entrance: u64) -> AnyService {
    let chain: Vec<_> = functions.iter().map(|function| DRAWN[function.0]).collect();
    let may_spread = chain.iter().all(|function| words_of(function).is_some());
    let (settings, ring_frames) = settings_text(settings, may_spread);
    let names = names(&chain);
    let head = head_text(&chain, told_by_port) + &entrance_text(&chain, told_by_port, entrance);
    let is_translated = chain.contains(&"napt");
    let mut text = format!("[service]\nchain = {names:?}\n{head}{settings}");
    for (place, (name, (function, choices, rules))) in names.iter().zip(functions).enumerate() {
        let function = DRAWN[*function];
        text += &format!("[{name}]\nfunction = \"{function}\"\n");
        let table = table(function, Choices(*choices), rules, is_translated);
        text += &said_alone(
            &chain,
            match names_must_last(&chain) {
                true => held_briefly(&table),
                false => table,
            },
        );
        text += &guarantees_text(&chain, place, Choices(!*choices));
    }
    AnyService {
        text,
        chain,
        ring_frames,
    }
}

/// A DPU with any settings, over what the example configures, and its file.
pub fn any_dpu(settings: u64, seed: u64) -> (String, Service) {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut choices = Choices(settings);
    let text = format!(
        "service = {{ chain = [\"dash\"] }}\n[link]\nring_frames = {}\n[dash]\nconfig = [\"{examples}/dpu.json\", \"{examples}/dpu-v6.json\"]\n\
         flows = 100_000\nmtu = 9100\nstray_tcp = \"{}\"\ndscp = \"{}\"\nudp_checksum_v6 = {}\nempty_acl_denies = {}\ncheck_outbound_source = {}\n{}",
        choices.one_of(&[1024, 16, 4, 1]),
        choices.one_of(&["drop", "judge"]),
        choices.one_of(&["preserve", "uniform", "pipe"]),
        choices.one_of(&["true", "false"]),
        choices.one_of(&["false", "true"]),
        choices.one_of(&["false", "true"]),
        choices.one_of(&[
            "",
            "udp_idle = \"1ms\"\n",
            "tcp_transitory_idle = \"1ms\"\n"
        ]),
    );
    let mut service = Service::parse(&text, Path::new("dpu.toml"));
    let example = Service::load(Path::new(&format!("{examples}/dpu.toml")));
    let mut traffic = example
        .expect("the example")
        .traffic
        .expect("it has traffic");
    traffic.packets = Some(400);
    traffic.flows = choices.one_of(&[20, 5, 100]);
    traffic.tcp_share = choices.one_of(&[0.7, 0.2, 1.0]);
    traffic.fragment_share = choices.one_of(&[0.05, 0.0, 0.3]);
    traffic.tcp.reset_share = choices.one_of(&[0.0, 0.3]);
    traffic.tcp.out_of_order_share = choices.one_of(&[0.0, 0.2]);
    if let Ok(service) = &mut service {
        (service.seed, service.traffic) = (seed, Some(traffic));
    }
    let service = service.unwrap_or_else(|error| panic!("{error}\n{text}"));
    (text, service)
}

/// A service of this chain in which there is room for all, and functions let nearly all pass.
pub fn roomy(chain: &[&str]) -> AnyService {
    let drawn = |name: &&str| {
        let place = DRAWN.iter().position(|function| function == name);
        (place.expect("a function that is drawn"), 0, Vec::new())
    };
    let functions: Vec<Drawn> = chain.iter().map(drawn).collect();
    composed(&functions, 0, false, 0)
}

/// An error that a function sends back through others with flow state races there with packets of
/// its flow that come later, such as one for which an inspector bans it: no order is owed between
/// what crosses. So there nobody has errors to send.
fn said_alone(chain: &[&str], table: String) -> String {
    match chain.iter().any(|function| words_of(function).is_some()) {
        true => table
            .replace(ROUTER_ADDRESSES, "")
            .replace(ERRORS, "errors_per_second = 0\n"),
        false => table,
    }
}

fn names(chain: &[&str]) -> Vec<String> {
    let numbered = chain.iter().enumerate();
    numbered
        .map(|(number, function)| format!("{function}_{number}"))
        .collect()
}

/// Without what no chain may have, or has no one answer: a store beside flows that are connections,
/// a second translation, balancer, inspector or reassembler, a second router, whose ICMP errors race
/// with those of the first. A router comes last.
fn sound(functions: Vec<Drawn>) -> Vec<Drawn> {
    let mut sound: Vec<Drawn> = Vec::new();
    for function in functions {
        let name = DRAWN[function.0];
        let words_before = || sound.iter().filter_map(|other| words_of(DRAWN[other.0]));
        let has = |names: &[&str]| sound.iter().any(|other| names.contains(&DRAWN[other.0]));
        let is_refused = match name {
            "napt" => has(&["napt", "nat64", "kv_store"]),
            "nptv6" => has(&["nptv6", "nat64"]),
            // An address of IPv4 that a translation gives out, or a balancer, may not become another.
            "nat64" => has(&["nat64", "nptv6", "napt", "load_balancer", "kv_store"]),
            "inspector" => has(&["inspector", "kv_store"]),
            // Around an inspector no order suits both, and the service is refused.
            "reassembler" => has(&["reassembler", "kv_store"]),
            "load_balancer" => has(&["load_balancer", "nat64", "kv_store"]),
            "router" => has(&["router"]),
            // Packets of a store's flow have no order but those about one entry, and then none by names.
            "kv_store" => words_before().next().is_some() || has(&["napt", "nat64"]),
            _ => words_of(name).is_some() && has(&["kv_store"]),
        };
        let words = words_before().sum::<usize>() + words_of(name).unwrap_or(0);
        let has_room = words <= MOST_WORDS;
        if !is_refused && has_room {
            sound.push(function);
        }
    }
    sound.sort_by_key(|function| DRAWN[function.0] == "router");
    sound
}

/// The ports, and what tells which way packets go.
fn head_text(chain: &[&str], told_by_port: bool) -> String {
    let ports = match chain.contains(&"router") {
        true => &PORTS[..],
        false => &PORTS[..2],
    };
    let makes_rules = chain.iter().any(|function| words_of(function).is_none());
    let inside = match (makes_rules, told_by_port) {
        (true, true) => "inside_ports = [\"lan\"]\n",
        (true, false) => "inside = [\"10.0.0.0/16\", \"fd00::/16\"]\n",
        (false, _) => "",
    };
    format!("ports = {ports:?}\n{inside}")
}

/// What is let into the chain.
fn entrance_text(chain: &[&str], told_by_port: bool, choices: u64) -> String {
    let mut choices = Choices(choices);
    let mut text = format!(
        "unparsed = \"{}\"\nforward_ether_types = {}\nverify_ipv4_checksum = {}\n",
        choices.one_of(&["drop", "forward"]),
        choices.one_of(&["[]", "[\"arp\", \"llc\"]"]),
        choices.one_of(&["true", "false"]),
    );
    let has_both = told_by_port && chain.iter().any(|function| words_of(function).is_none());
    if has_both && choices.one_of(&[true, false]) {
        let check = choices.one_of(&["strict", "loose", "off"]);
        text += &format!("inside = [\"10.0.0.0/16\", \"fd00::/16\"]\nsource_check = \"{check}\"\n");
    }
    text
}

/// Flows of chains without rules are spread over several workers.
fn settings_text(choices: u64, may_spread: bool) -> (String, usize) {
    let mut choices = Choices(choices);
    let mut of = |all: &[usize]| choices.one_of(all);
    let (exact, masked) = (of(&[4096, 1, 3, 64]), of(&[1024, 1, 4]));
    let (masks, held) = (of(&[32, 1, 2]), of(&[64, 1, 2]));
    let (slots, ways) = (of(&[1024, 1024, 8, 16]), of(&[8, 8, 1]));
    let (hot_packets, rearms) = (of(&[1, 1, 4]), of(&[8, 255]));
    let (window, idle_windows) = (of(&[5, 5, 1, 100]), of(&[3, 1]));
    let is_enabled = of(&[1, 1, 1, 1, 0]) == 1;
    let ring_frames = of(&[1024, 1024, 16, 4]);
    let workers = match may_spread {
        true => of(&[1, 3, 2]),
        false => 1,
    };
    let text = format!(
        "[fast_path]\nslots = {slots}\nways = {ways}\nhot_packets = {hot_packets}\nrearms = {rearms}\ntime_to_live = \"50ms\"\n\
         [slow_path]\nflows = 4096\nworkers = {workers}\n[link]\nring_frames = {ring_frames}\n\
         [rule_cache]\nenabled = {is_enabled}\nexact = {exact}\nmasked = {masked}\nmasks = {masks}\nheld = {held}\n\
         window = \"{window}ms\"\nidle_windows = {idle_windows}\nthreshold = 0\n"
    );
    (text, ring_frames)
}

fn table(function: &str, mut choices: Choices, rules: &[u64], is_translated: bool) -> String {
    let default = choices.one_of(&["allow", "allow", "allow", "deny"]);
    let flag = choices.one_of(&["true", "true", "false"]);
    match function {
        "acl" => format!(
            "default = \"{default}\"\nfragments = \"{}\"\n{}",
            choices.one_of(&["strict", "lenient"]),
            rules_text(rules)
        ),
        "firewall" => format!(
            "default = \"{default}\"\npick_up = {flag}\nliberal = {}\n{}{}",
            choices.one_of(&["false", "true"]),
            firewall_timeouts(&mut choices),
            rules_text(rules)
        ),
        "monitor" => format!(
            "by = \"{}\"\nidle = \"1s\"\n",
            choices.one_of(&["connection", "hosts", "source", "destination"])
        ),
        "napt" => format!(
            "inside = [\"10.0.0.0/16\", \"fd00::/16\"]\nexternal = [\"198.51.100.1\", \"198.51.100.2\"]\n\
             verify_checksums = \"{}\"\nfiltering = \"{}\"\npick_up = {flag}\nassignment = \"{}\"\npooling = \"{}\"\nforward = [{}]\n\
             errors_per_second = 1000000\n\
             timeouts = {{ udp = \"1s\", tcp_transitory = \"1s\", tcp_established = \"2s\", icmp = \"1s\" }}\n",
            choices.one_of(&["state", "none"]),
            choices.one_of(&[
                "endpoint_independent",
                "address_dependent",
                "address_and_port_dependent"
            ]),
            choices.one_of(&["random", "parity", "preserve"]),
            choices.one_of(&["paired", "arbitrary"]),
            choices.one_of(&["", FORWARDS])
        ),
        "nat64" => format!(
            "inside = [\"fd00::/16\"]\nexternal = [\"198.51.100.6\"]\nprefix = \"2001:db8::/96\"\n\
             verify_checksums = \"{}\"\nfiltering = \"{}\"\npick_up = {flag}\nerrors_per_second = 1000000\nassignment = \"{}\"\n\
             timeouts = {{ udp = \"1s\", tcp_transitory = \"1s\", tcp_established = \"2s\", icmp = \"1s\" }}\n",
            choices.one_of(&["state", "none"]),
            choices.one_of(&["endpoint_independent", "address_dependent"]),
            choices.one_of(&["random", "preserve"])
        ),
        "nptv6" => {
            "prefixes = [{ inside = \"fd00::/16\", external = \"2001:db8:ffff::/48\" }]\n".into()
        }
        "router" => router(choices),
        "load_balancer" => balancer(choices, flag, is_translated),
        "reassembler" => format!(
            "overlap = \"{}\"\nverify_checksums = \"{}\"\nurgent = \"{}\"\n{}",
            choices.one_of(&["first", "last"]),
            choices.one_of(&["state", "none"]),
            choices.one_of(&["inline", "drop"]),
            timeouts(
                &mut choices,
                &["gap_timeout", "half_open_timeout"],
                &["1ms", "20ms", "150ms"]
            ),
        ),
        "inspector" => format!(
            "rules = \"any.rules\"\nfragments = \"{}\"\n{}",
            choices.one_of(&["drop", "forward"]),
            timeouts(
                &mut choices,
                &[
                    "ban_timeout",
                    "stream_timeout",
                    "half_open_timeout",
                    "datagram_timeout"
                ],
                &SHORT
            )
        ),
        "rate_limiter" => rate_limiter(&mut choices),
        "telemetry" => format!(
            "idle = \"{}\"\nactive = \"{}\"\n",
            choices.one_of(&["1m", "1s"]),
            choices.one_of(&["5m", "1s"])
        ),
        "reframer" => format!(
            "window = \"{}\"\nbatch = {}\n{}",
            choices.one_of(&["30us", "300us", "10ms"]),
            choices.one_of(&["32", "1", "3"]),
            choices.one_of(&["", "most_bytes_per_flow = 500\n"])
        ),
        "kv_store" => format!(
            "port = 53\nverify_checksums = \"{}\"\n",
            choices.one_of(&["state", "none"])
        ),
        _ => String::new(),
    }
}

/// What is held of all flows together has room here, or what becomes of a packet would follow from where
/// those of other connections are, between which no order is owed.
///
/// At the first rate all conforms; the second is one packet in a few, the third and the last are met now
/// and then.
fn rate_limiter(choices: &mut Choices) -> String {
    let rate = choices.one_of(&[
        "rate_pps = 1_000_000",
        "rate_pps = 2000\nburst_packets = 1",
        "rate_pps = 20\nburst_packets = 2",
        "rate_bps = 2_000_000\nburst_bytes = 600",
    ]);
    format!(
        "{rate}\nexcess = \"{}\"\ndirections = \"{}\"\nlongest_delay = \"{}\"\n{}",
        choices.one_of(&["drop", "delay"]),
        choices.one_of(&["both", "both", "from_opener", "to_opener"]),
        choices.one_of(&["100ms", "2ms", "1s"]),
        choices.one_of(&[
            "",
            "most_packets_per_flow = 2\n",
            "most_bytes_per_flow = 200\n",
        ])
    )
}

/// What a function may say only where another is in front of it in both directions.
fn guarantees_text(chain: &[&str], place: usize, mut choices: Choices) -> String {
    let is_behind = |other: &str| place > 0 && chain[place - 1] == other;
    match chain[place] {
        "reassembler" => {
            let may_drop = is_behind("firewall") || !chain.contains(&"firewall");
            let all: &[&str] = if may_drop {
                &["forward", "drop"]
            } else {
                &["forward"]
            };
            format!("retransmissions = \"{}\"\n", choices.one_of(all))
        }
        "inspector" => {
            // Whoever refuses segments stands in front, in both directions.
            let is_checked = place > 1 && chain[place - 2] == "firewall";
            let may_be_strict = is_checked || !chain.contains(&"firewall");
            let all: &[&str] = match is_behind("reassembler") && may_be_strict {
                true => &["drop", "drop", "ban", "inspect"],
                false => &["inspect"],
            };
            let depth = choices.one_of(&["64", "200", "1048576"]);
            let (gaps, streams) = (choices.one_of(all), choices.one_of(&["1", "6", "65536"]));
            let limit = choices.one_of(&["", "streams_per_host = 1\n", "streams_per_host = 2\n"]);
            format!("gaps = \"{gaps}\"\ndepth = {depth}\nstreams = {streams}\n{limit}")
        }
        _ => String::new(),
    }
}

/// Short against silences and round trips.
const SHORT: [&str; 3] = ["100ms", "150ms", "1s"];

/// Lines for these keys, or none.
fn timeouts(choices: &mut Choices, keys: &[&str], all: &[&str]) -> String {
    if choices.one_of(&[true, false]) {
        return String::new();
    }
    let line = |key: &&str| format!("{key} = \"{}\"\n", choices.one_of(all));
    keys.iter().map(line).collect()
}

fn firewall_timeouts(choices: &mut Choices) -> String {
    const KINDS: [&str; 7] = [
        "tcp_established",
        "tcp_transitory",
        "tcp_closed",
        "udp_unreplied",
        "udp_replied",
        "icmp",
        "other",
    ];
    let lines = timeouts(choices, &KINDS, &SHORT);
    let items: Vec<_> = lines.lines().collect();
    match items.is_empty() {
        true => String::new(),
        false => format!("timeouts = {{ {} }}\n", items.join(", ")),
    }
}

fn rules_text(rules: &[u64]) -> String {
    let rules = rules.iter().map(|rule| rule_text(*rule));
    let rules: Vec<_> = rules.collect();
    format!("rules = [{}]\n", rules.join(", "))
}

fn rule_text(choices: u64) -> String {
    const V4: [&str; 6] = [
        "any",
        "10.0.0.0/30",
        "10.0.0.2",
        "192.0.2.0/31",
        "192.0.2.2",
        "0.0.0.0/1",
    ];
    const V6: [&str; 5] = ["::/0", "fd00::/126", "fd00::2", "2001:db8::/127", "any"];
    let mut choices = Choices(choices);
    let action = choices.one_of(&["allow", "deny"]);
    let protocol = choices.one_of(&[
        "\"any\"",
        "\"tcp\"",
        "\"udp\"",
        "\"icmp\"",
        "\"icmp6\"",
        "47",
    ]);
    let (from, to) = match (protocol, choices.one_of(&[false, false, true])) {
        ("\"icmp6\"", _) | ("\"any\"" | "\"tcp\"" | "\"udp\"" | "47", true) => {
            (choices.one_of(&V6), choices.one_of(&V6))
        }
        _ => (choices.one_of(&V4), choices.one_of(&V4)),
    };
    let mut ports = String::new();
    if !["\"icmp\"", "\"icmp6\"", "47"].contains(&protocol) {
        ports = choices
            .one_of(&[
                "",
                ", to_port = \"80,443\"",
                ", to_port = 53",
                ", from_port = \"1-1023\"",
                ", from_port = \"1000-1009,1020\"",
                ", to_port = \"0-1005\"",
            ])
            .to_owned();
    }
    let ingress = choices.one_of(&["", "", ", ingress = \"lan\"", ", ingress = \"uplink\""]);
    format!(
        "{{ action = \"{action}\"{ingress}, protocol = {protocol}, from = \"{from}\", to = \"{to}\"{ports} }}"
    )
}

fn router(mut choices: Choices) -> String {
    const ROUTES: [&str; 5] = [
        "{ to = \"10.0.0.0/16\", via = \"lab\" }, { to = \"fd00::/16\", via = \"lab\" }",
        "{ to = \"0.0.0.0/0\", via = \"uplink\" }, { to = \"::/0\", via = \"uplink\" }",
        "{ to = \"192.0.2.2/32\", via = \"discard\" }",
        "{ to = \"192.0.2.0/31\", via = \"lab\" }",
        "{ to = \"2001:db8::2/127\", via = \"lab\" }",
    ];
    let mut routes = vec![ROUTES[0]];
    for route in &ROUTES[1..] {
        routes.extend(choices.one_of(&[Some(*route), Some(*route), None]));
    }
    format!(
        "{ROUTER_ADDRESSES}errors_per_second = 1000000\nerrors_per_source = 1000000\nno_route = \"{}\"\n\
         next_hops = [{{ name = \"uplink\", mac = \"02:00:00:00:01:01\", source_mac = \"02:00:00:00:00:01\", port = \"uplink\" }},\n\
         {{ name = \"lab\", mac = \"02:00:00:00:02:01\", source_mac = \"02:00:00:00:00:02\", port = \"peer\" }}]\nroutes = [{}]\n",
        choices.one_of(&["unreachable", "drop"]),
        routes.join(", ")
    )
}

/// One that chooses by ports that a translation gives out must not have a choice.
fn balancer(mut choices: Choices, pick_up: &str, is_translated: bool) -> String {
    let back = choices.one_of(&["through", "through", "direct"]);
    let mac = match back {
        "direct" => ", mac = \"02:00:00:00:03:01\"",
        _ => "",
    };
    let service = |vip: &str, protocol: &str, backends: &[&str]| {
        let most = if is_translated { 1 } else { backends.len() };
        let backends: Vec<_> = backends
            .iter()
            .take(most)
            .map(|endpoint| format!("{{ endpoint = \"{endpoint}\"{mac} }}"))
            .collect();
        format!(
            "{{ vip = \"{vip}\", protocol = \"{protocol}\", return = \"{back}\", backends = [{}] }}",
            backends.join(", ")
        )
    };
    let services = [
        service(
            "203.0.113.1:80",
            "tcp",
            &["192.0.2.128:8080", "192.0.2.129:8080"],
        ),
        service("203.0.113.1:53", "udp", &["192.0.2.128:53"]),
        service(
            "[2001:db8:1::1]:80",
            "tcp",
            &["[2001:db8::80]:8080", "[2001:db8::81]:8080"],
        ),
    ];
    format!(
        "table_size = 251\npick_up = {pick_up}\n{}services = [{}]\n",
        timeouts(
            &mut choices,
            &["tcp_timeout", "closing_timeout", "udp_timeout"],
            &SHORT
        ),
        services.join(", ")
    )
}
