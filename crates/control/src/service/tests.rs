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
