//! What users are told about their configuration.

use std::time::Duration;

use crate::duration::Human;
use crate::firewall::Config;
use crate::firewall::config::{MAX_RULES, Timeouts};
use crate::firewall::rule::Action;

#[test]
fn an_empty_configuration_denies_everything() {
    let config: Config = toml::from_str("").expect("nothing is required");
    assert_eq!(config, Config::default());
    assert_eq!(
        (config.default, config.pick_up, config.liberal),
        (Action::Deny, true, false)
    );
}

#[test]
fn everything_can_be_said() {
    let config: Config = toml::from_str(
        r#"
        default = "allow"
        pick_up = false
        liberal = true
        rules = [
            { action = "allow", protocol = "tcp", from = "10.0.0.0/8", to = "any", to_port = "80,443,8000-8100" },
            { action = "deny", protocol = 132, to = "2001:db8::1" },
            { action = "deny", from_port = 0, to_port = "any" },
        ]
        [timeouts]
        tcp_established = "5d"
        tcp_transitory = "2m"
        tcp_closed = "5s"
        udp_unreplied = "10s"
        udp_replied = "60s"
        icmp = "5s"
        other = "1h"
        "#,
    )
    .expect("a good configuration");
    assert_eq!(config.rules.as_slice().len(), 3);
    assert_eq!(
        config.timeouts.tcp_established.ticks(),
        Human(Duration::from_secs(5 * 86_400)).ticks()
    );
    assert_ne!(config.timeouts, Timeouts::default());
}

/// The message for a wrong configuration says where and what.
fn assert_told(config: &str, place: &str, parts: &[&str]) {
    let message = toml::from_str::<Config>(config)
        .expect_err("a wrong configuration")
        .to_string();
    for part in [place].iter().chain(parts) {
        assert!(
            message.contains(part),
            "{part:?} is missing from:\n{message}"
        );
    }
}

#[test]
fn wrong_settings_are_named_with_their_place() {
    assert_told(
        "\ndefautl = \"allow\"",
        "line 2, column 1",
        &[
            "unknown field `defautl`",
            "expected one of `default`, `pick_up`",
        ],
    );
    assert_told(
        "default = \"drop\"",
        "line 1, column 11",
        &["unknown variant `drop`", "`allow` or `deny`"],
    );
    assert_told("liberal = 1", "line 1, column 11", &["expected a boolean"]);
    assert_told(
        "[timeouts]\n\nicmp = 30",
        "line 3, column 8",
        &["expected a time, such as \"30s\", found 30"],
    );
    assert_told(
        "[timeouts]\nicmp = \"30\"",
        "line 2, column 8",
        &["expected a duration such as", "found \"30\""],
    );
    assert_told(
        "[timeouts]\nicmp = \"0s\"",
        "line 2, column 8",
        &["a time-out of 0s is not between 100ms and 30d"],
    );
    assert_told(
        "[timeouts]\ntcp = \"5m\"",
        "line 2, column 1",
        &["unknown field `tcp`", "`tcp_established`"],
    );
}

/// The second of two rules is wrong.
fn assert_rule(rule: &str, column: usize, parts: &[&str]) {
    let config = format!("rules = [\n{{ action = \"allow\" }},\n{{ {rule} }},\n]");
    assert_told(&config, &format!("line 3, column {column}"), parts);
}

#[test]
fn wrong_rules_are_named_with_their_place() {
    assert_rule("protocol = \"tcp\"", 1, &["missing field `action`"]);
    assert_rule(
        "action = \"permit\"",
        12,
        &["unknown variant `permit`, expected `allow` or `deny`"],
    );
    assert_rule(
        "action = \"deny\", protocol = \"ip\"",
        31,
        &[
            "string \"ip\"",
            "\"icmp6\", \"any\" or a protocol number from 0 to 255",
        ],
    );
    assert_rule(
        "action = \"deny\", protocol = 256",
        31,
        &["integer `256`", "a protocol number from 0 to 255"],
    );
    assert_rule(
        "action = \"deny\", from = \"10.0.0.0/33\"",
        27,
        &["the prefix length of an IPv4 address is at most 32"],
    );
    assert_rule(
        "action = \"deny\", to = \"::1/129\"",
        25,
        &["the prefix length of an IPv6 address is at most 128"],
    );
    assert_rule(
        "action = \"deny\", to = \"10.1.2.3/8\"",
        25,
        &["has bits beyond its prefix length: write \"10.0.0.0/8\""],
    );
    assert_rule(
        "action = \"deny\", to = \"example.org\"",
        25,
        &["expected \"any\", an address or a prefix such as \"10.0.0.0/8\""],
    );
    assert_rule(
        "action = \"deny\", to_port = \"http\"",
        30,
        &["a range such as 8000-8100, found \"http\""],
    );
    assert_rule("action = \"deny\", to_port = \"80,\"", 30, &["found \"\""]);
    assert_rule(
        "action = \"deny\", to_port = \"90-80\"",
        30,
        &["the range \"90-80\" ends before it begins"],
    );
    assert_rule(
        "action = \"deny\", to_port = 65536",
        30,
        &["integer `65536`", "a port from 0 to 65535"],
    );
    let many = format!("action = \"deny\", to_port = \"{}1\"", "1,".repeat(64));
    assert_rule(&many, 30, &["65 port ranges in one rule are more than 64"]);
}

#[test]
fn rules_that_can_match_nothing_are_refused() {
    let ports = "a rule with ports needs protocol = \"tcp\", \"udp\" or \"any\", not \"icmp\"";
    assert_rule(
        "action = \"deny\", protocol = \"icmp\", to_port = 1",
        1,
        &[ports],
    );
    assert_rule(
        "action = \"deny\", protocol = 47, from_port = 1",
        1,
        &["not 47"],
    );
    let versions = "no packet goes from 10.0.0.0/8 to ::1/128: one is IPv4, the other IPv6";
    assert_rule(
        "action = \"deny\", from = \"10.0.0.0/8\", to = \"::1\"",
        1,
        &[versions],
    );
    assert_rule(
        "action = \"deny\", protocol = \"icmp6\", to = \"10.0.0.1\"",
        1,
        &["\"icmp6\" does not occur with 10.0.0.1/32"],
    );
    assert_rule(
        "action = \"deny\", protocol = \"icmp\", from = \"::/0\"",
        1,
        &["\"icmp\" does not occur with ::/0"],
    );
}

#[test]
fn there_is_a_limit_to_rules() {
    let config = format!(
        "rules = [{}]",
        "{ action = \"deny\" },".repeat(MAX_RULES + 1)
    );
    assert_told(
        &config,
        "line 1, column 9",
        &["10001 rules are more than 10000"],
    );
}
