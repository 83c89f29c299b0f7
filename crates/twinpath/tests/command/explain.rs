//! `twinpath explain`

use crate::place::Place;

const SERVICE: &str = "[service]\nname = \"x\"\nchain = [\"firewall\", \"reassembler\"]\n[firewall]\n[fast_path]\nslots = 1000\nways = 4\n";

#[test]
fn programs_devices_and_memory_are_told() {
    let said = Place::with("x.toml", SERVICE).succeed(&["explain", "x.toml"]);
    for expected in [
        "x: firewall -> reassembler\n",
        "  word[0] state: ",
        "  always complex: ip.protocol == 6 and",
        "  otherwise: escalate",
        "fragments, and ICMP errors about a flow",
        "flows with fewer than 2 packets in about 100ms",
        "  software (this service's)  fits: ",
        "  asic                       does not fit: ",
        "1,000 slots in 250 buckets of 4",
        " % of           250 flows",
        "Cores\n  workers: 1, each with up to 1,048,576 flows of ",
    ] {
        assert!(said.out.contains(expected), "{expected:?} in\n{}", said.out);
    }
}

#[test]
fn a_chain_that_does_not_fit_its_device_is_a_negative_answer() {
    let place = Place::with(
        "x.toml",
        &SERVICE.replace("[fast_path]", "[fast_path]\ndevice = \"asic\""),
    );
    let said = place.run(&["explain", "x.toml"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.out
            .contains("  asic (this service's)      does not fit: "),
        "{said:?}"
    );
}

#[test]
fn json_says_the_same() {
    let said = Place::with("x.toml", SERVICE).succeed(&["explain", "x.toml", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(told["functions"][0]["name"], "firewall");
    assert_eq!(told["functions"][1]["steps"][0]["exit"], "continue");
    assert_eq!(told["devices"][1]["refusal"], serde_json::Value::Null);
    assert!(told["devices"][0]["refusal"].is_string());
    assert_eq!(told["state_table"]["buckets"], 250);
}

#[test]
fn a_wrong_file_is_told_with_its_place() {
    let place = Place::with(
        "x.toml",
        "[service]\nchain = [\"reassembler\"]\n[fast_path]\nways = 3\n",
    );
    place.fail(
        &["explain", "x.toml"],
        "error: x.toml:4:8: 3 ways: expected 1, 2, 4 or 8",
    );
}
