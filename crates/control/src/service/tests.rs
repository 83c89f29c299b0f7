use super::*;

fn parse(text: &str) -> Result<Service, ServiceError> {
    Service::parse(text, Path::new("folder/edge.toml"))
}

fn refusal(text: &str) -> String {
    parse(text).expect_err("the file is wrong").to_string()
}

#[test]
fn the_shortest_service_has_defaults_for_everything() {
    let service = parse("[service]\nchain = [\"reassembler\"]\n").expect("valid");
    assert_eq!(service.chain.len(), 1);
    assert_eq!(service.fast_path, FastPath::default());
    assert_eq!(service.folder, Path::new("folder"));
}

#[test]
fn errors_name_file_line_column_and_what_was_expected() {
    let unknown = refusal("[service]\nchain = [\"reassembler\", \"nat46\"]\n");
    assert!(
        unknown.starts_with(
            "folder/edge.toml:2:25: no function is called nat46: expected one of firewall, "
        ),
        "{unknown}"
    );
    let missing = refusal("[service]\nchain = [\"firewall\"]\n");
    assert!(
        missing.starts_with(
            "folder/edge.toml:2:10: the chain has firewall, so the file needs a table [firewall]"
        ),
        "{missing}"
    );
    let ways = refusal("[service]\nchain = [\"reassembler\"]\n[fast_path]\nways = 3\n");
    assert!(
        ways.starts_with("folder/edge.toml:4:8: 3 ways: expected 1, 2, 4 or 8"),
        "{ways}"
    );
    let twice = refusal("[service]\nchain = [\"reassembler\", \"reassembler\"]\n");
    assert!(
        twice.contains(":2:25: reassembler is in the chain twice"),
        "{twice}"
    );
    let misspelt = refusal("[service]\nchain = [\"reassembler\"]\n[link]\nround_tripp = \"1s\"\n");
    assert!(
        misspelt.starts_with("folder/edge.toml:4:1: unknown field `round_tripp`, expected one of"),
        "{misspelt}"
    );
    let share =
        refusal("[service]\nchain = [\"reassembler\"]\n[traffic]\nflows = 9\ntcp_share = 1.5\n");
    assert!(
        share.starts_with("folder/edge.toml:5:13: tcp_share is 1.5: expected a number from 0 to 1"),
        "{share}"
    );
    let endless = refusal("[service]\nchain = [\"firewall\"]\n[link]\nround_trip = \"100000d\"\n");
    assert!(
        endless.contains(":4:14: a round trip of 100000d is longer than 10s"),
        "{endless}"
    );
    for window in [
        "[fast_path]\nsketch_window",
        "[fast_path]\ntime_to_live",
        "[rule_cache]\nwindow",
    ] {
        let never = refusal(&format!(
            "[service]\nchain = [\"reassembler\"]\n{window} = \"0s\"\n"
        ));
        assert!(never.contains(": expected a time above zero"), "{never}");
        assert!(never.starts_with("folder/edge.toml:4:"), "{never}");
    }
    let empty = refusal("[service]\nchain = []\n");
    assert!(empty.contains("1 to 16 functions"), "{empty}");
    let many = refusal("[service]\nchain = [\"reassembler\"]\n[slow_path]\nworkers = 1000\n");
    assert!(
        many.starts_with("folder/edge.toml:4:11: 1000 is too many: at most 64"),
        "{many}"
    );
}

/// Two lists and a monitor between them.
const GUARDED: &str = r#"
[service]
chain = ["guard", "monitor", "edge"]
[guard]
function = "acl"
rules = [{ action = "deny", protocol = "tcp", to_port = 23 }]
[edge]
function = "acl"
default = "allow"
"#;

#[test]
fn functions_have_names_of_their_own() {
    let service = parse(GUARDED).expect("valid");
    let functions = service.chain.iter();
    let told: Vec<_> = functions
        .map(|one| (&*one.name, one.config.descriptor().name))
        .collect();
    assert_eq!(
        told,
        [("guard", "acl"), ("monitor", "monitor"), ("edge", "acl")]
    );
    // It may say so even if it is called like the function.
    let spoken = "[service]\nchain = [\"acl\"]\n[acl]\nfunction = \"acl\"\n";
    assert!(parse(spoken).is_ok());
    // One that was taken out of the chain waits there, and is checked.
    let unused = format!("{GUARDED}[napt]\ninside = [\"10.0.0.0/8\"]\n");
    let message = refusal(&format!("{unused}external = [\"10.0.0.256\"]\n"));
    assert!(message.starts_with("folder/edge.toml:12:12: "), "{message}");
    assert!(parse(&format!("{unused}external = [\"198.51.100.1\"]\n")).is_ok());
}

#[test]
fn what_is_wrong_with_a_named_function_is_told_with_its_place() {
    let refused = |from: &str, to: &str, start: &str| {
        let text = GUARDED.replacen(from, to, 1);
        assert_ne!(text, GUARDED, "{from} is there");
        let message = refusal(&text);
        let start = format!("folder/edge.toml:{start}");
        assert!(message.starts_with(&start), "{message}");
    };
    refused(
        "[\"guard\"",
        "[\"gaurd\"",
        "3:10: no function is called gaurd: expected one of firewall, ",
    );
    refused(
        "\"edge\"]",
        "\"guard\"]",
        "3:30: guard is in the chain twice: expected a name",
    );
    refused(
        "function = \"acl\"\nr",
        "function = \"alc\"\nr",
        "5:12: no such function: expected one of firewall, ",
    );
    refused(
        "function = \"acl\"\nr",
        "function = 7\nr",
        "5:12: expected one of firewall, ",
    );
    refused(
        "function = \"acl\"\nr",
        "r",
        "4:1: [guard] does not say what it is",
    );
    refused(
        "default",
        "defautl",
        "9:1: unknown field `defautl`, expected one of",
    );
    refused("[edge]", "[[edge]]", "7:1: expected a table [edge]");
    refused(
        "[edge]",
        "[egde]\nfunction = \"acl\"\n[edge]",
        "7:2: this table is for nothing: expected a name that the chain has (guard, monitor, edge), a function",
    );
    refused(
        "[edge]",
        "[monitor]\nfunction = \"acl\"\n[edge]",
        "8:12: [monitor] is a monitor: expected another name",
    );
    refused(
        "\"monitor\"",
        "\"run\"",
        "3:19: [run] has settings of the node",
    );
    refused("\"monitor\"", "\"a b\"", "3:19: a name in a chain has");
}

#[test]
fn an_error_far_along_a_line_is_told_with_what_stands_around_it() {
    let far = "x".repeat(70_000);
    let message = refusal(&format!("[service]\nchain = [ \"{far}\" ]\n"));
    assert!(
        message.contains(":2:11: a name in a chain has 1 to 32"),
        "{}",
        message.len()
    );
    let message = refusal(&format!("a = \"{far}\" ! # {far}\n"));
    assert!(message.contains(":1:70008: "), "{}", message.len());
    let shown: Vec<&str> = message.lines().rev().take(2).collect();
    assert!(
        shown.iter().all(|line| line.chars().count() < 200),
        "{shown:?}"
    );
    let marked = shown[0].chars().count() - 1;
    assert_eq!(shown[1].chars().nth(marked), Some('!'), "{shown:?}");
}

/// A service with functions that name ports, next hops and each other.
const LINKED: &str = r#"[service]
chain = ["guard", "router"]
ports = ["site", "world"]
inside = ["10.0.0.0/8"]
inside_ports = ["site"]
source_check = "loose"
[guard]
function = "acl"
rules = [{ action = "deny", ingress = "world", from = "10.0.0.0/8" }]
[router]
address = "192.0.2.1"
next_hops = [
    { name = "a", mac = "02:00:00:00:01:01", source_mac = "02:00:00:00:00:01", port = "site" },
    { name = "b", mac = "02:00:00:00:02:01", source_mac = "02:00:00:00:00:02", port = "world" },
]
routes = [
    { to = "10.0.0.0/8", via = "a" },
    { to = "0.0.0.0/0", via = "b" },
    { to = "192.0.2.0/24", via = "b" },
]
"#;

/// The places of all that is told of a text.
fn places(text: &str) -> Vec<(usize, String)> {
    match parse(text) {
        Ok(_) => Vec::new(),
        Err(ServiceError::Wrong(faults)) => {
            let each = faults.into_iter();
            each.map(|fault| (fault.place.line, fault.message))
                .collect()
        }
        Err(error) => panic!("{error}"),
    }
}

/// One mistake makes one error, wherever the rest of the file depends on what is wrong.
#[test]
fn one_mistake_is_told_once() {
    assert_eq!(places(LINKED), []);
    for (from, to, line, expected) in [
        // Names of functions.
        ("[\"guard\"", "[\"gaurd\"", 2, "did you mean guard?"),
        ("[guard]", "[gaurd]", 2, "did you mean gaurd?"),
        ("[guard]", "[wall]", 2, "no function is called guard"),
        ("\"acl\"", "\"alc\"", 8, "no such function"),
        // Names of keys.
        ("chain", "chian", 2, "did you mean chain?"),
        ("next_hops", "next_hop", 12, "did you mean next_hops?"),
        // Types.
        (
            "[\"guard\", \"router\"]",
            "7",
            2,
            "expected a list in [ ], found 7",
        ),
        (
            "[\"site\", \"world\"]",
            "2",
            3,
            "expected a list in [ ], found 2",
        ),
        (
            "[\"10.0.0.0/8\"]\n",
            "\"10.0.0.0/8\"\n",
            4,
            "expected a list in [ ], found \"10.0.0.0/8\"",
        ),
        ("[\"10.0.0.0/8\"]\n", "[\"10.0.0.0/33\"]\n", 4, "33"),
        (
            "inside_ports = [\"site\"]",
            "inside_ports = 0",
            5,
            "expected a list in [ ], found 0",
        ),
        (
            "inside_ports = [\"site\"]",
            "inside_ports = [\"sit\"]",
            5,
            "did you mean site?",
        ),
        // What others name.
        (
            "\"site\", ",
            "\"site\", \"site\", ",
            3,
            "two ports are called site",
        ),
        ("\"world\"]", "\"wolrd\"]", 9, "no port is called \"world\""),
        (
            "02:00:00:00:02:01",
            "02:00:00:00:02",
            14,
            "not a MAC address",
        ),
        (
            "02:00:00:00:02:01",
            "ff:ff:ff:ff:ff:ff",
            14,
            "group of stations",
        ),
        (
            "mac = \"02:00:00:00:02:01\", ",
            "",
            14,
            "source_mac without mac",
        ),
        ("name = \"b\"", "name = \"c\"", 18, "goes via \"b\""),
        (
            "name = \"b\"",
            "name = 2",
            14,
            "expected a text in quotes, found 2",
        ),
        ("name = \"b\", ", "", 14, "missing field `name`"),
        ("name = \"b\"", "name = \"a\"", 14, "the name is taken"),
        ("via = \"a\"", "via = \"x\"", 17, "goes via \"x\""),
        (
            "10.0.0.0/8\", via",
            "224.0.0.0/8\", via",
            17,
            "224.0.0.0/8 is multicast",
        ),
        (
            "10.0.0.0/8\", via",
            "ff02::/16\", via",
            17,
            "ff02::/16 is multicast",
        ),
        ("192.0.2.1\"", "127.0.0.1\"", 11, "loopback"),
        ("192.0.2.1\"", "2001:db8::1\"", 11, "is not IPv4"),
        // Words of others, and what one missing bracket does to the rest.
        (
            "action = \"deny\"",
            "action = \"drop\"",
            9,
            "did you mean deny?",
        ),
        (
            "action = \"deny\"",
            "action = \"accept\"",
            9,
            "did you mean allow?",
        ),
        ("[\"site\"]\n", "[\"site\"\n", 6, ""),
        // Files.
        (
            "[router]\n",
            "[router]\nroutes_file = \"none\"\n",
            11,
            "cannot read routes from",
        ),
    ] {
        let text = LINKED.replacen(from, to, 1);
        assert_ne!(text, LINKED, "{from}");
        let told = places(&text);
        assert_eq!(told.len(), 1, "{to}: {told:#?}");
        assert_eq!(told[0].0, line, "{to}: {told:#?}");
        assert!(told[0].1.contains(expected), "{to}: {told:#?}");
    }
}

/// A name of a port where a service has none.
#[test]
fn a_port_of_none_is_told_once() {
    let rule = "{ action = \"allow\", ingress = \"nope\" }";
    let told = places(&format!(
        "[service]\nchain = [\"acl\"]\n[acl]\nrules = [{rule}]\n"
    ));
    assert_eq!(told.len(), 1, "{told:#?}");
    assert_eq!(told[0].0, 4, "{told:#?}");
    assert!(told[0].1.contains("expected ports = [...]"), "{told:#?}");
}

/// What is named twice was meant otherwise.
#[test]
fn what_is_named_twice_is_refused() {
    for (service, line, expected) in [
        (
            "[service]\nchain = [\"acl\"]\nports = [\"a\"]\ninside_ports = [\"a\", \"a\"]\n[acl]\ndefault = \"allow\"\n",
            4,
            "a is named twice",
        ),
        (
            "[service]\nchain = [\"acl\"]\n[acl]\ndefault = \"allow\"\n[run]\ncpus = [0, 0]\n",
            6,
            "processor 0 is named twice",
        ),
    ] {
        let told = places(service);
        assert_eq!(told.len(), 1, "{told:#?}");
        assert_eq!(told[0].0, line, "{told:#?}");
        assert!(told[0].1.contains(expected), "{told:#?}");
    }
}

/// Mistakes that have nothing to do with each other are told together.
#[test]
fn two_mistakes_are_told_both() {
    let both = [
        ("02:00:00:00:02:01", "ff:ff:ff:ff:ff:ff"),
        ("\"192.0.2.1\"", "\"224.0.0.1\""),
        ("to = \"0.0.0.0/0\"", "to = \"0.0.0.0/64\""),
        ("action = \"deny\"", "action = \"dney\""),
        ("[\"site\", \"world\"]", "2"),
    ];
    let mut text = LINKED.to_owned();
    for (from, to) in both {
        text = text.replacen(from, to, 1);
    }
    let lines: Vec<usize> = places(&text).into_iter().map(|(line, _)| line).collect();
    assert_eq!(lines, [3, 9, 11, 14, 18]);
    let two =
        LINKED
            .replace("via = \"a\"", "via = \"x\"")
            .replacen("via = \"b\"", "via = \"y\"", 1);
    let lines: Vec<usize> = places(&two).into_iter().map(|(line, _)| line).collect();
    assert_eq!(lines, [17, 18]);
}

/// Values that are right by themselves and do not go together are told in one run, each at its line,
/// and beside what is wrong by itself.
#[test]
fn all_that_does_not_go_together_is_told() {
    let text = r#"[service]
chain = ["load_balancer", "router"]
[ports]
one = { device = "e1", addresses = ["10.0.0.1/24"] }
two = { device = "e1", addresses = ["10.0.1.1/24"] }
three = { device = "e3", addresses = ["10.0.0.1/24"] }
[load_balancer]
table_size = 7
services = [
    { vip = "192.0.2.1:80", protocol = "tcp", backends = [{ endpoint = "10.0.0.5:80" }] },
    { vip = "192.0.2.1:80", protocol = "tcp", backends = [{ endpoint = "10.0.0.6:80" }] },
    { vip = "192.0.2.2:80", protocol = "tcp", backends = [{ endpoint = "10.0.0.5:80" }] },
    { vip = "10.0.0.6:80", protocol = "tcp", backends = [{ endpoint = "10.0.0.7:80", weight = 9 }] },
]
[router]
address = "2001:db8::1"
address6 = "192.0.2.1"
most_routes = 100_000_000
next_hops = [{ name = "up", address = "10.0.0.9", port = 0 }]
routes = [
    { to = "10.0.0.0/8", via = "up" },
    { to = "10.1.0.0/16", via = "down" },
    { to = "10.2.0.0/16", via = "down" },
    { to = "10.3.0.0/16", via = "left" },
]
"#;
    let lines = |text: &str| -> Vec<usize> {
        let told = places(text);
        told.iter().map(|(line, _)| *line).collect()
    };
    assert_eq!(
        lines(text),
        [5, 6, 8, 11, 12, 13, 16, 17, 18, 22, 24],
        "{:#?}",
        places(text)
    );
    let text = text
        .replace("\"10.0.0.9\"", "\"10.0.0.999\"")
        .replace("table_size = 7", "table_size = 8");
    let expected = [5, 6, 8, 11, 12, 13, 16, 17, 18, 19];
    assert_eq!(lines(&text), expected, "{:#?}", places(&text));
}

/// What is wrong with a function hides nothing about ports, a file, or another function's list.
#[test]
fn mistakes_of_different_stages_are_told_together() {
    let text = LINKED
        .replace(
            "inside_ports = [\"site\"]",
            "inside_ports = [\"siet\", \"wrold\"]",
        )
        .replace("via = \"a\"", "via = \"x\"")
        .replace("[router]\n", "[router]\nroutes_file = \"none\"\n");
    let told = places(&text);
    let lines: Vec<usize> = told.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [5, 5, 11, 18], "{told:#?}");
    let backends = |list: &str| format!("protocol = \"tcp\", backends = [{list}] }}");
    let [once, twice] = ["{ endpoint = \"10.0.0.5:80\" }"; 2].map(String::from);
    let twice = format!("{twice}, {once}");
    let text = format!(
        "[service]\nchain = [\"load_balancer\"]\n[load_balancer]\nservices = [\n\
         {{ vip = \"192.0.2.1:80\", {},\n{{ vip = \"192.0.2.1:80\", {},\n]\n",
        backends(&once),
        backends(&twice)
    );
    let told = places(&text);
    let lines: Vec<usize> = told.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [6, 6], "{told:#?}");
}

/// A router knows the networks at its ports, to whose broadcast addresses it forwards nothing.
#[test]
fn routers_are_told_the_networks_of_ports() {
    let chain = |address: &str| {
        let text = format!(
            "[service]\nchain = [\"router\"]\n[ports]\none = {{ device = \"e1\", addresses = [\"{address}\"] }}\n\
             [router]\nnext_hops = [{{ name = \"up\", address = \"10.0.0.9\", port = \"one\" }}]\n"
        );
        let service = Service::parse(&text, Path::new("x.toml"));
        service.unwrap_or_else(|error| panic!("{error}")).chain
    };
    assert!(chain("10.0.0.1/24") == chain("10.0.0.1/24"), "one network");
    assert!(chain("10.0.0.1/24") != chain("10.0.0.1/25"), "another");
}

/// What is for an address of a port is for the router: on its cable nobody else has it.
#[test]
fn addresses_of_ports_are_the_routers_own() {
    let text = "[service]\nchain = [\"router\"]\n[ports]\n\
        one = { device = \"e1\", addresses = [\"10.0.0.1/24\", \"2001:db8::1/64\"] }\n\
        two = { device = \"e2\", addresses = [\"192.0.2.1/24\"] }\n\
        [router]\naddress = \"192.0.2.1\"\nnext_hops = [{ name = \"a\", port = \"one\" }]\n";
    let service = parse(text).expect("sound");
    let router = service.chain[0].config.of::<twinpath_nf::router::Config>();
    let own: std::collections::BTreeSet<_> = router.expect("one").own_addresses().collect();
    let expected = ["10.0.0.1", "192.0.2.1", "2001:db8::1"];
    let expected = expected.map(|text| text.parse().expect("an address"));
    assert_eq!(own, expected.into());
}

/// Interfaces with addresses that cannot be theirs.
#[test]
fn addresses_of_ports_are_checked() {
    let text = |one: &str, other: &str| {
        format!(
            "[service]\nchain = [\"monitor\"]\n[ports]\none = {{ device = \"e1\", addresses = [{one}] }}\n\
             other = {{ device = \"e2\", addresses = [{other}] }}\n"
        )
    };
    let sound = text(
        "\"10.0.0.1/24\", \"fe80::1/64\"",
        "\"10.0.1.1/24\", \"fe80::1/64\"",
    );
    assert_eq!(places(&sound), []);
    for (one, other, line, expected) in [
        (
            "\"10.0.0.1/24\"",
            "\"10.0.0.1/8\"",
            5,
            "10.0.0.1 is an address of another port",
        ),
        (
            "\"10.0.0.1/24\", \"10.0.0.1/8\"",
            "",
            4,
            "twice of this one",
        ),
        ("\"255.255.255.255/32\"", "", 4, "is the broadcast address"),
        ("", "\"224.0.0.1/24\"", 5, "is a multicast address"),
        ("\"127.0.0.1/8\"", "", 4, "is a loopback address"),
    ] {
        let told = places(&text(one, other));
        assert_eq!(told.len(), 1, "{told:#?}");
        assert_eq!(told[0].0, line, "{told:#?}");
        assert!(told[0].1.contains(expected), "{told:#?}");
    }
}

/// A file that is no text says where, as other mistakes do; so do files that it names.
#[test]
fn files_that_are_no_text_are_told_with_their_place() {
    let folder = std::env::temp_dir().join(format!("twinpath-utf8-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (file, routes) = (folder.join("x.toml"), folder.join("a.routes"));
    std::fs::write(&file, b"[service]\nname = \"caf\xe9\"\n").expect("a file");
    let told = Service::load(&file).expect_err("Latin-1").to_string();
    let expected = format!(
        "{}:2:12: the byte 0xe9 is no UTF-8: expected a text in UTF-8\n",
        file.display()
    );
    assert!(told.starts_with(&expected), "{told}");
    std::fs::write(
        &file,
        LINKED.replace("[router]\n", "[router]\nroutes_file = \"a.routes\"\n"),
    )
    .expect("a file");
    std::fs::write(&routes, b"10.1.0.0/16 a\n10.2.0.0/16 \xff\n").expect("a file");
    let told = Service::load(&file).expect_err("no text").to_string();
    for part in [
        "x.toml:11:1: ",
        "a.routes: line 2, column 13: the byte 0xff is no UTF-8",
    ] {
        assert!(told.contains(part), "{told}");
    }
    std::fs::remove_dir_all(&folder).expect("ours");
}
