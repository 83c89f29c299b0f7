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
        unknown.starts_with("folder/edge.toml:2:25: unknown variant `nat46`, expected one of"),
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

#[test]
fn an_error_far_along_a_line_is_told_with_what_stands_around_it() {
    let far = "x".repeat(70_000);
    let message = refusal(&format!("[service]\nchain = [ \"{far}\" ]\n"));
    assert!(
        message.contains(":2:11: unknown variant"),
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
