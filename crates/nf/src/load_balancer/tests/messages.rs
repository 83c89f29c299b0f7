//! What a person reads who made a mistake in the configuration.

use super::super::Config;

/// The message about a configuration of one service, whose lines begin with the second.
fn message(service: &str) -> String {
    let text = format!("[[services]]\n{service}");
    toml::from_str::<Config>(&text)
        .expect_err(service)
        .to_string()
}

fn assert_says(message: &str, expected: &[&str]) {
    for part in expected {
        assert!(message.contains(part), "{part:?} is not in\n{message}");
    }
}

#[test]
fn values_are_named_with_their_line() {
    assert_says(
        &message("vip = \"192.0.2.1\"\nprotocol = \"tcp\""),
        &[
            "line 2, column 7",
            "\"192.0.2.1\" is not an endpoint such as 10.0.0.1:80 or [2001:db8::1]:80",
        ],
    );
    assert_says(
        &message("vip = \"192.0.2.1:0\"\nprotocol = \"tcp\""),
        &["line 2", "192.0.2.1:0 has port 0"],
    );
    assert_says(
        &message("vip = \"192.0.2.1:80\"\nprotocol = \"sctp\""),
        &["line 3", "expected `tcp` or `udp`"],
    );
    let backend = |backend: &str| {
        message(&format!(
            "vip = \"192.0.2.1:80\"\nprotocol = \"tcp\"\nbackends = [\n  {backend},\n]"
        ))
    };
    assert_says(
        &backend("{ endpoint = \"10.0.0.1:80\", weight = 0 }"),
        &["line 5, column 40", "weight 0 is not from 1 to 1000"],
    );
    assert_says(
        &backend("{ endpoint = \"10.0.0.1:80\", mac = \"02:00\" }"),
        &["line 5", "\"02:00\" is not a MAC address such as"],
    );
    assert_says(
        &backend("{ endpoint = \"10.0.0.1:80\", wieght = 2 }"),
        &["line 5", "unknown field `wieght`"],
    );
    let table = toml::from_str::<Config>("table_size = 65536\nservices = []")
        .expect_err("not prime")
        .to_string();
    assert_says(
        &table,
        &[
            "line 1, column 14",
            "table_size 65536 is not a prime up to 655373",
        ],
    );
    let timeout = toml::from_str::<Config>("udp_timeout = \"0s\"\nservices = []")
        .expect_err("zero")
        .to_string();
    assert_says(
        &timeout,
        &["line 1, column 15", "a time-out of 0s is not longer than 0"],
    );
}

#[test]
fn changes_are_named_with_their_line() {
    let change = |change: &str| {
        message(&format!(
            "vip = \"192.0.2.1:80\"\nprotocol = \"tcp\"\nbackends = [{{ endpoint = \"10.0.0.1:80\" }}]\nchanges = [\n  {change},\n]"
        ))
    };
    assert_says(
        &change("{ at = \"1s\" }"),
        &["line 6", "exactly one of drain, remove and add"],
    );
    assert_says(
        &change("{ at = \"1s\", drain = \"10.0.0.1:80\", weight = 2 }"),
        &["line 6", "weight and mac go with add only"],
    );
    assert_says(
        &change("{ at = \"soon\", drain = \"10.0.0.1:80\" }"),
        &["line 6, column 10", "expected a duration such as"],
    );
    assert_says(
        &change("{ at = \"1s\", remove = \"10.0.0.9:80\" }"),
        &["at 1s 10.0.0.9:80 cannot be removed: it is no backend of 192.0.2.1:80 then"],
    );
    assert_says(
        &change("{ at = \"1s\", add = \"10.0.0.1:80\" }"),
        &["10.0.0.1:80 is already a backend of 192.0.2.1:80 at 1s"],
    );
    let back = "{ at = \"1s\", remove = \"10.0.0.1:80\" }, { at = \"2s\", add = \"10.0.0.1:80\" }";
    assert_says(
        &change(back),
        &[
            "cannot be added again at 2s",
            "drain it instead of removing it",
        ],
    );
}

#[test]
fn contradictions_between_parts_are_explained() {
    let service = |return_path: &str, backend: &str| {
        message(&format!(
            "vip = \"192.0.2.1:80\"\nprotocol = \"tcp\"\nreturn = \"{return_path}\"\nbackends = [{backend}]"
        ))
    };
    assert_says(
        &service("through", "{ endpoint = \"[2001:db8::1]:80\" }"),
        &["backend [2001:db8::1]:80 and service 192.0.2.1:80 are not of one IP version"],
    );
    assert_says(
        &service("direct", "{ endpoint = \"10.0.0.1:80\" }"),
        &["backend 10.0.0.1:80 needs a mac"],
    );
    assert_says(
        &service(
            "through",
            "{ endpoint = \"10.0.0.1:80\", mac = \"02:00:00:00:00:01\" }",
        ),
        &["used with return = \"direct\" only"],
    );
    assert_says(
        &service("through", ""),
        &["service 192.0.2.1:80 (tcp) has no backends"],
    );
    assert_says(
        &service("through", "{ endpoint = \"192.0.2.1:80\" }"),
        &["192.0.2.1:80 (tcp) is a service and also a backend"],
    );
}

#[test]
fn a_backend_of_two_services_is_ambiguous_only_with_return_through_twinpath() {
    let two = |return_path: &str, more: &str, second: &str| {
        let service = |vip: &str, protocol: &str| {
            format!(
                "[[services]]\nvip = \"{vip}\"\nprotocol = \"{protocol}\"\nreturn = \"{return_path}\"\nbackends = [{{ endpoint = \"10.0.0.1:80\"{more} }}]\n"
            )
        };
        toml::from_str::<Config>(&format!(
            "{}{}",
            service("192.0.2.1:80", "tcp"),
            service("192.0.2.2:80", second)
        ))
    };
    let message = two("through", "", "tcp")
        .expect_err("ambiguous")
        .to_string();
    assert_says(
        &message,
        &[
            "10.0.0.1:80 is a backend of both 192.0.2.1:80 and 192.0.2.2:80 (tcp)",
            "packets from it could belong to either",
        ],
    );
    assert!(two("through", "", "udp").is_ok(), "protocols differ");
    assert!(
        two("direct", ", mac = \"02:00:00:00:00:01\"", "tcp").is_ok(),
        "answers come from the services"
    );
}
