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
