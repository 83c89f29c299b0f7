//! What is read, and what is told of what is wrong.

use super::problem::MOST_PROBLEMS;
use super::*;
use crate::objects::*;

fn objects(text: &str) -> Vec<Object> {
    let reading = read(text.as_bytes());
    assert_eq!(reading.problems, []);
    let changes = reading.changes.into_iter();
    changes
        .map(|(change, _)| match change {
            Change::Set(object) => object,
            Change::Delete(key) => panic!("{key} is not set"),
        })
        .collect()
}

fn object(text: &str) -> Object {
    let mut objects = objects(text);
    assert_eq!(objects.len(), 1);
    objects.remove(0)
}

fn problems(text: &str) -> Vec<String> {
    let reading = read(text.as_bytes());
    reading.problems.iter().map(Problem::to_string).collect()
}

#[test]
fn a_list_is_made_of_changes_in_order() {
    let text = r#"[
        {"DASH_VNET_TABLE:Vnet1": {"vni": "1001"}, "OP": "SET"},
        {"OP": "DEL",
         "DASH_ENI_TABLE:eni-1": {"whatever": "is told"}},
        {"DASH_QOS_TABLE:a": {}, "DASH_QOS_TABLE:b": {}, "OP": "SET"}
    ]"#;
    let reading = read(text.as_bytes());
    assert_eq!(reading.problems, []);
    assert!(reading.is_whole());
    let told: Vec<_> = reading
        .changes
        .iter()
        .map(|(change, line)| {
            let what = if matches!(change, Change::Set(_)) {
                "SET"
            } else {
                "DEL"
            };
            format!("{line} {what} {}", change.key())
        })
        .collect();
    assert_eq!(
        told,
        [
            "2 SET DASH_VNET_TABLE:Vnet1",
            "4 DEL DASH_ENI_TABLE:eni-1",
            "5 SET DASH_QOS_TABLE:a",
            "5 SET DASH_QOS_TABLE:b"
        ]
    );
}

#[test]
fn an_object_is_what_is_set_with_or_without_tables() {
    let flat = objects(r#"{"DASH_VNET_TABLE:Vnet1": {"vni": 7}}"#);
    let nested = objects(r#"{"DASH_VNET_TABLE": {"Vnet1": {"vni": 7}}}"#);
    assert_eq!(flat, nested);
    assert_eq!(objects("[]"), []);
}

#[test]
fn numbers_booleans_and_words_are_read_in_all_their_forms() {
    let forms = [
        r#"{"routing_type": "vnet_encap", "underlay_ip": "20.0.0.1", "use_dst_vni": "true", "metering_class_or": "7"}"#,
        r#"{"routing_type": "ROUTING_TYPE_VNET_ENCAP", "underlay_ip": "20.0.0.1", "use_dst_vni": true, "metering_class_or": 7}"#,
        r#"{"routing_type": 4, "underlay_ip": "20.0.0.1", "use_dst_vni": "True", "metering_class_or": "7"}"#,
        r#"{"action_type": "Vnet_Encap", "underlay_ip": "20.0.0.1", "use_dst_vni": "true", "metering_class_or": "7", "tunnel": "", "port_map": null}"#,
    ];
    for form in forms {
        let Object::VnetMapping(key, mapping) = object(&format!(
            r#"{{"DASH_VNET_MAPPING_TABLE:blue:10.0.0.1": {form}}}"#
        )) else {
            panic!("no mapping");
        };
        assert_eq!(key.to_string(), "blue:10.0.0.1");
        assert_eq!(mapping.routing_type, RoutingType::VnetEncap);
        assert!(mapping.use_dst_vni && mapping.tunnel.is_none());
        assert_eq!(mapping.metering_class_or, 7);
    }
}

#[test]
fn lists_and_ranges_are_read_in_all_their_forms() {
    let rule = |fields: &str| {
        let text = format!(r#"{{"DASH_ACL_RULE_TABLE:g:rule1": {{"action": "allow", {fields}}}}}"#);
        match object(&text) {
            Object::AclRule(_, rule) => rule,
            other => panic!("{other:?}"),
        }
    };
    let text =
        rule(r#""protocol": "17, 6", "src_port": "8-10,12", "src_addr": "10.0.0.0/8, 11.0.0.0/8""#);
    let list = rule(
        r#""protocol": [17, "6"], "src_port": [[8, 10], 12], "src_addr": ["10.0.0.0/8", "11.0.0.0/255.0.0.0"]"#,
    );
    assert_eq!(text, list);
    assert_eq!(*text.protocols, [17, 6]);
    assert_eq!(*text.src_port, [Range::new(8, 10).unwrap(), Range::one(12)]);
    assert_eq!(text.src_addr.len(), 2);
    let all = rule(r#""src_port": "0-65535", "dst_port": "", "dst_tag": "a,b""#);
    assert!(all.src_port.is_empty() && all.dst_port.is_empty() && all.protocols.is_empty());
    assert_eq!(
        all.tags().map(TagName::as_str).collect::<Vec<_>>(),
        ["a", "b"]
    );
}

#[test]
fn trusted_vnis_are_values_and_ranges() {
    let vnis = |fields: &str| match object(&format!(
        r#"{{"DASH_APPLIANCE_TABLE:1": {{"sip": "10.0.0.1", {fields}}}}}"#
    )) {
        Object::Appliance(_, appliance) => appliance
            .trusted_vnis
            .iter()
            .map(Range::to_string)
            .collect::<Vec<_>>()
            .join(" "),
        other => panic!("{other:?}"),
    };
    assert_eq!(vnis(r#""trusted_vnis": "100""#), "100");
    assert_eq!(vnis(r#""trusted_vnis": [100, 200]"#), "100-200");
    assert_eq!(vnis(r#""trusted_vnis_list": [100, "200"]"#), "100 200");
    assert_eq!(
        vnis(r#""trusted_vnis_list": [[100, 200], 300]"#),
        "100-200 300"
    );
}

#[test]
fn routing_types_have_one_action_or_several() {
    let actions = |value: &str| match object(&format!(
        r#"{{"DASH_ROUTING_TYPE_TABLE:privatelink": {value}}}"#
    )) {
        Object::RoutingType(_, actions) => actions,
        other => panic!("{other:?}"),
    };
    let one = actions(r#"{"name": "a", "action_type": "staticencap", "encap_type": "vxlan"}"#);
    assert_eq!(one.items.len(), 1);
    let two = actions(
        r#"{"items": [{"action_name": "a", "action_type": "4_to_6"},
            {"action_name": "b", "action_type": 3, "encap_type": "ENCAP_TYPE_NVGRE", "vni": "100"}]}"#,
    );
    assert!(two.has(ActionType::FourToSix));
    let outer = two.encapsulations().next().unwrap();
    assert_eq!(outer.encapsulation, Some(Encapsulation::Nvgre));
    assert_eq!(outer.vni, Vni::new(100));
}

#[test]
fn routes_are_read_by_their_type() {
    let route = |fields: &str| match object(&format!(
        r#"{{"DASH_ROUTE_TABLE:g:10.0.0.0/8": {{{fields}}}}}"#
    )) {
        Object::Route(_, route) => route,
        other => panic!("{other:?}"),
    };
    let direct =
        route(r#""routing_type": "vnet_direct", "vnet": "blue", "overlay_ip": "10.0.0.6""#);
    let nested = route(
        r#""routing_type": "vnet_direct", "vnet_direct": {"vnet": "blue", "overlay_ip": "10.0.0.6"}"#,
    );
    assert_eq!(direct, nested);
    let tunnel = route(
        r#""routing_type": "servicetunnel", "overlay_sip": "fd00::", "overlay_dip_prefix": "fd01::1/ffff::ffff",
            "underlay_sip": "20.0.0.1""#,
    );
    let RouteAction::ServiceTunnel(addresses) = tunnel.action else {
        panic!("no service tunnel");
    };
    assert_eq!(addresses.overlay_sip.mask(), !0 << 32);
    assert_eq!(
        addresses.overlay_dip.over(0x1_0000),
        (0xfd01 << 112) | 0x1_0001
    );
    assert_eq!(tunnel.underlay_sip, None);
    let metered =
        route(r#""action_type": "drop", "metering_class_or": 1, "metering_class_and": "4080""#);
    assert_eq!(metered.metering, MeterBits { or: 1, and: 4080 });
}

#[test]
fn enis_have_what_the_public_tests_write() {
    let text = r#"{"DASH_ENI_TABLE:497f23d7": {"vnet": "Vnet1", "underlay_ip": "25.1.1.1",
        "mac_address": "F4939FEFC47E", "eni_id": "497f23d7", "admin_state": 2,
        "pl_underlay_sip": "10.1.0.5", "pl_sip_encoding": "::d107:64:ff71:0:0/::ffff:ffff:ffff:0:0",
        "eni_mode": "MODE_FNIC", "v4_meter_policy_id": "m", "trusted_vnis_list": ["800"]}}"#;
    let Object::Eni(_, eni) = object(text) else {
        panic!("no ENI");
    };
    assert_eq!(eni.mac_address.to_string(), "f4:93:9f:ef:c4:7e");
    assert_eq!(eni.admin_state, AdminState::Enabled);
    assert_eq!(eni.mode, EniMode::FloatingNic);
    let encoding = eni.pl_sip_encoding.unwrap();
    assert_eq!(
        encoding.to_string(),
        "::d107:64:ff71:0:0/::ffff:ffff:ffff:0:0"
    );
    assert_eq!(
        eni.meter_policy(IpVersion::V4).map(MeterPolicyId::as_str),
        Some("m")
    );
}

#[test]
fn an_inbound_rule_has_its_priority_in_the_key_or_in_a_field() {
    for (key, fields, priority, told) in [
        ("eni:100:10.0.0.0/8:5", "", 5, 0),
        ("eni:100:10.0.0.0/8", r#", "priority": "7""#, 7, 0),
        ("eni:100:10.0.0.0/8", "", 0, 0),
        ("eni:100:10.0.0.0/8:5", r#", "priority": 7"#, 5, 1),
    ] {
        let text =
            format!(r#"{{"DASH_ROUTE_RULE_TABLE:{key}": {{"action_type": "decap"{fields}}}}}"#);
        let reading = read(text.as_bytes());
        assert!(reading.is_whole());
        assert_eq!(reading.problems.len(), told);
        let [(Change::Set(Object::RouteRule(_, rule)), _)] = &reading.changes[..] else {
            panic!("{reading:?}");
        };
        assert_eq!(rule.priority, priority);
    }
}

#[test]
fn everything_wrong_is_told_with_line_object_and_field() {
    let text = r#"[
        {"DASH_ENI_TABLE:eni-1": {
            "mac_adress": "00:1A:C5:00:00:01",
            "vnet": "blue",
            "admin_state": "enable",
            "underlay_ip": "221.1.0.256",
            "pl_sip_encoding": "10.0.0.1/8"}, "OP": "SET"},
        {"DASH_VNET_TABLE:blue": {"vni": 16777216}, "OP": "SET"},
        {"DASH_VNETS_TABLE:blue": {"vni": 1}, "OP": "SET"},
        {"DASH_ROUTE_TABLE:g:10.0.0.0/8": {"routing_type": "vnet"}, "OP": "SET"},
        {"DASH_ACL_RULE_TABLE:g:1": {"action": "allow", "src_port": "80,8-x"}, "OP": "SET"},
        {"DASH_TUNNEL_TABLE:t": {"encap_type": "vxlan", "vni": 1, "endpoints": []}, "OP": "SET"},
        {"DASH_QOS_TABLE:q": {"bw": 1, "bw": 2}, "OP": "ADD"},
        {"DASH_QOS_TABLE:q": {"bw": 1, "bw": 2}, "OP": "SET"},
        {"DASH_QOS_TABLE:q": 7, "OP": "SET"},
        {"DASH_ACL_IN_TABLE:eni-1:6": {}, "OP": "SET"}
    ]"#;
    assert_eq!(
        problems(text),
        [
            "3: DASH_ENI_TABLE:eni-1: mac_adress: no such field; did you mean mac_address?",
            "5: DASH_ENI_TABLE:eni-1: admin_state: found \"enable\", expected enabled or disabled; did you mean enabled?",
            "6: DASH_ENI_TABLE:eni-1: underlay_ip: found \"221.1.0.256\", expected an address such as 10.0.0.1 or 2001:db8::1",
            "7: DASH_ENI_TABLE:eni-1: pl_sip_encoding: found \"10.0.0.1/8\", expected an IPv6 address and a mask such as fd40::1/ffff::",
            "8: DASH_VNET_TABLE:blue: vni: found 16777216, expected a VNI: a number from 0 to 16777215",
            "9: DASH_VNETS_TABLE:blue: DASH has no such table; did you mean DASH_VNET_TABLE?",
            "10: DASH_ROUTE_TABLE:g:10.0.0.0/8: vnet: missing: expected a virtual network's name",
            "11: DASH_ACL_RULE_TABLE:g:1: src_port: found 8-x, expected a port or ports such as 80 or 8000-8010",
            "12: DASH_TUNNEL_TABLE:t: endpoints: no endpoint: expected at least one address",
            "13: DASH_QOS_TABLE:q: OP: found \"ADD\", expected \"SET\" or \"DEL\"",
            "14: DASH_QOS_TABLE:q: bw: given twice, first in line 14",
            "15: DASH_QOS_TABLE:q: found 7, expected an object of fields",
            "16: DASH_ACL_IN_TABLE:eni-1:6: key: found \"eni-1:6\", expected an ENI and a stage from 1 to 5: eni:1",
        ]
    );
}

/// An entry alone is one entry, and no object of tables: what it says to delete is not set.
#[test]
fn one_entry_may_stand_alone() {
    let reading = read(br#"{"DASH_VNET_TABLE:Vnet1": {"vni": "1"}, "OP": "DEL"}"#);
    assert_eq!(reading.problems, []);
    let changes: Vec<_> = reading.changes.iter().map(|(change, _)| change).collect();
    assert!(matches!(changes[..], [Change::Delete(_)]), "{changes:?}");
}

/// A JSON object with one name twice says two things, of which most readers take one in silence.
#[test]
fn an_object_that_is_given_twice_is_told() {
    for (text, expected) in [
        (
            "{\"DASH_VNET_TABLE:a\": {\"vni\": 1},\n\"DASH_VNET_TABLE:a\": {\"vni\": 2}}",
            "2: DASH_VNET_TABLE:a: given twice, first in line 1",
        ),
        (
            "{\"DASH_VNET_TABLE\": {\"a\": {\"vni\": 1},\n\"a\": {\"vni\": 2}}}",
            "2: DASH_VNET_TABLE:a: given twice, first in line 1",
        ),
        (
            "{\"DASH_VNET_TABLE\": {\"a\": {\"vni\": 1}},\n\"DASH_VNET_TABLE\": {\"b\": {\"vni\": 2}}}",
            "2: DASH_VNET_TABLE: given twice, first in line 1",
        ),
        (
            "[{\"DASH_VNET_TABLE:a\": {\"vni\": 1},\n\"DASH_VNET:a\": {\"vni\": 2}, \"OP\": \"SET\"}]",
            "2: DASH_VNET:a: given twice, first in line 1",
        ),
    ] {
        let reading = read(text.as_bytes());
        assert_eq!(problems(text), [expected]);
        assert_eq!((reading.is_whole(), reading.changes.len()), (false, 1));
    }
}

/// Entries of a list come one after the other: the last counts, and that there is another is worth a look,
/// unless it is deleted in between.
#[test]
fn an_object_that_a_list_sets_twice_is_worth_a_look() {
    let entry = r#"{"DASH_VNET_TABLE:a": {"vni": 1}, "OP": "SET"}"#;
    let text = format!("[{entry},\n{entry}]");
    let told = "2: DASH_VNET_TABLE:a: set in line 1, too: this one counts, as it is later";
    assert_eq!(problems(&text), [told]);
    let reading = read(text.as_bytes());
    assert_eq!((reading.is_whole(), reading.changes.len()), (true, 2));
    let deletion = r#"{"DASH_VNET_TABLE:a": {}, "OP": "DEL"}"#;
    assert_eq!(
        problems(&format!("[{entry},\n{deletion},\n{entry}]")),
        [""; 0]
    );
}

#[test]
fn a_byte_order_mark_is_skipped() {
    let reading = read(b"\xef\xbb\xbf{\"DASH_VNET_TABLE:a\": {\"vni\": 1}}");
    assert_eq!((reading.problems, reading.changes.len()), (vec![], 1));
    let reading = read(b"\xef\xbb\xbf\n[,]");
    let told = reading.problems[0].to_string();
    assert_eq!(told, "2: no JSON: expected value at column 2");
}

#[test]
fn a_missing_operation_is_named() {
    assert_eq!(
        problems("[\n{\"DASH_VNET_TABLE:a\": {\"vni\": 1}}]"),
        ["2: DASH_VNET_TABLE:a: OP: missing: expected \"SET\" or \"DEL\" beside the object"]
    );
}

#[test]
fn a_protocol_by_name_is_told_with_its_number() {
    let rule = |protocol: &str| {
        let text = format!(
            r#"{{"DASH_ACL_RULE_TABLE:g:1": {{"action": "allow", "protocol": {protocol}}}}}"#
        );
        problems(&text)
    };
    let expected = "1: DASH_ACL_RULE_TABLE:g:1: protocol: found tcp, expected a number from 0 to 255; tcp is 6";
    assert_eq!(rule(r#""tcp""#), [expected]);
    assert!(rule(r#"["17", "TCP"]"#)[0].ends_with("; tcp is 6"));
    assert!(rule(r#""carrier-pigeon""#)[0].ends_with("to 255"));
    let text =
        r#"{"DASH_ROUTE_RULE_TABLE:e:1:10.0.0.0/8": {"action_type": "decap", "protocol": "udp"}}"#;
    assert!(problems(text)[0].ends_with("; udp is 17"));
}

/// Packets are sent to an appliance and to machines: their addresses are those of one host.
#[test]
fn addresses_of_nobody_and_of_groups_are_refused() {
    for sip in ["0.0.0.0", "255.255.255.255", "224.0.0.5", "::", "ff02::1"] {
        let text = format!(r#"{{"DASH_APPLIANCE_TABLE:a": {{"sip": "{sip}"}}}}"#);
        let told = problems(&text);
        let expected = format!("1: DASH_APPLIANCE_TABLE:a: sip: {sip}: the ");
        let group = format!("1: DASH_APPLIANCE_TABLE:a: sip: {sip}: a multicast address");
        assert!(
            told[0].starts_with(&expected) || told[0].starts_with(&group),
            "{told:?}"
        );
        for (object, fields) in [
            (
                "DASH_ENI_TABLE:e",
                r#""mac_address": "02:00:00:00:00:01", "vnet": "v""#,
            ),
            (
                "DASH_VNET_MAPPING_TABLE:v:10.0.0.1",
                r#""routing_type": "vnet_encap""#,
            ),
        ] {
            let text = format!(r#"{{"{object}": {{{fields}, "underlay_ip": "{sip}"}}}}"#);
            let expected = told[0].replace(
                "DASH_APPLIANCE_TABLE:a: sip",
                &format!("{object}: underlay_ip"),
            );
            assert_eq!(problems(&text), [expected]);
        }
    }
    for mac in [
        "00:00:00:00:00:00",
        "ff:ff:ff:ff:ff:ff",
        "01:00:5e:00:00:01",
    ] {
        let text = format!(r#"{{"DASH_ENI_TABLE:a": {{"mac_address": "{mac}", "vnet": "v"}}}}"#);
        let told = problems(&text);
        let expected = format!("1: DASH_ENI_TABLE:a: mac_address: {mac}: the MAC address of ");
        assert!(told[0].starts_with(&expected), "{told:?}");
    }
}

/// What a terminal would obey is told as text.
#[test]
fn names_have_no_control_characters() {
    assert_eq!(
        problems("[{\"DASH_VNET_TABLE:a\\u001b[31m\": {\"vni\": 1}, \"OP\": \"SET\"}]"),
        ["1: DASH_VNET_TABLE:a\\u{1b}[31m: a name with control characters"]
    );
}

#[test]
fn what_is_no_json_has_its_line() {
    assert_eq!(
        problems("[\n{\"a\": 1,}\n]"),
        ["2: no JSON: key must be a string at column 9"]
    );
    assert_eq!(problems(""), ["1: no JSON: EOF while parsing a value"]);
    assert_eq!(
        problems("[\n7]"),
        ["2: expected an object such as {\"DASH_VNET_TABLE:Vnet1\": {...}, \"OP\": \"SET\"}"]
    );
    assert_eq!(
        problems("7"),
        [
            "1: expected a list such as [{\"DASH_VNET_TABLE:Vnet1\": {...}, \"OP\": \"SET\"}], or an object of tables"
        ]
    );
    let reading = read(b"[\n\n\xff]");
    assert_eq!(reading.problems[0].to_string(), "3: no JSON: not UTF-8");
    let deep = "[".repeat(1_000_000);
    assert_eq!(read(deep.as_bytes()).problems.len(), 1);
}

#[test]
fn remarks_leave_the_object_as_it_is() {
    let text = r#"{
        "DASH_ROUTE_TABLE:g:10.0.0.1/8": {"routing_type": "direct", "vnet": "blue", "metering_class": 7},
        "DASH_VNET_MAPPING_TABLE:blue:10.0.0.1": {"routing_type": "privatelinknsg", "underlay_ip": "20.0.0.1",
            "overlay_sip": "fd00::", "overlay_dip": "fd01::1"},
        "DEVICE_METADATA": {"localhost": {}}
    }"#;
    let reading = read(text.as_bytes());
    assert!(reading.is_whole());
    assert_eq!(reading.changes.len(), 2);
    let [(Change::Set(Object::Route(key, _)), _), _] = &reading.changes[..] else {
        panic!("{reading:?}");
    };
    assert_eq!(key.to_string(), "g:10.0.0.0/8");
    assert_eq!(
        problems(text),
        [
            "2: DASH_ROUTE_TABLE:g:10.0.0.1/8: key: 10.0.0.1/8 has bits beyond its length: taken for 10.0.0.0/8",
            "2: DASH_ROUTE_TABLE:g:10.0.0.1/8: metering_class: has no effect: SONiC no longer reads it; metering_class_or and metering_class_and say it now",
            "2: DASH_ROUTE_TABLE:g:10.0.0.1/8: vnet: has no effect: the route is of another type",
            "3: DASH_VNET_MAPPING_TABLE:blue:10.0.0.1: routing_type: privatelinknsg is no longer in use: taken for privatelink",
            "5: DEVICE_METADATA: a table of SONiC's, not of DASH: not read",
        ]
    );
}

/// One who leaves the length out wants a network, as often as not; a table of host routes is told of once.
#[test]
fn routes_without_a_length_are_told_of_once() {
    let route =
        |address: &str| format!(r#""DASH_ROUTE_TABLE:g:{address}": {{"routing_type": "direct"}}"#);
    let file = |addresses: &[&str]| {
        let routes: Vec<_> = addresses.iter().map(|address| route(address)).collect();
        format!("{{\n{}}}", routes.join(",\n"))
    };
    let told = |others: &str| {
        let object = "2: DASH_ROUTE_TABLE:g:10.0.0.0: key";
        [format!(
            "{object}: has no length: taken for a route to that address alone{others}"
        )]
    };
    assert_eq!(problems(&file(&["10.0.0.0/32", "fd00::/8"])), [""; 0]);
    assert_eq!(problems(&file(&["10.0.0.0"])), told(""));
    let two = ["10.0.0.0", "10.0.0.0/8", "fd00::1"];
    let so_is = told("; so is DASH_ROUTE_TABLE:g:fd00::1");
    assert_eq!(problems(&file(&two)), so_is);
    let many: Vec<_> = (0..2 * MOST_PROBLEMS)
        .map(|host| format!("10.0.{}.{}", host / 256, host % 256))
        .collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let so_are = told("; so are 1999 more, DASH_ROUTE_TABLE:g:10.0.0.1 first");
    assert_eq!(problems(&file(&many)), so_are);
    assert!(read(file(&many).as_bytes()).is_whole());
}

#[test]
fn problems_have_a_limit() {
    let entry = r#"{"DASH_VNET_TABLE:v": {"vni": "x"}, "OP": "SET"}"#;
    let text = format!("[{}]", vec![entry; MOST_PROBLEMS + 5].join(","));
    let reading = read(text.as_bytes());
    assert_eq!(
        (reading.problems.len(), reading.more_errors),
        (MOST_PROBLEMS, 5)
    );
    assert!(!reading.is_whole());
}

/// However much is worth a look, an error behind it is told.
#[test]
fn remarks_hide_no_error() {
    let route = |at: usize| {
        let (b, c) = (at / 256, at % 256);
        format!(
            r#"{{"DASH_ROUTE_TABLE:g:10.{b}.{c}.1/24": {{"action_type": "drop"}}, "OP": "SET"}}"#
        )
    };
    let mut entries: Vec<_> = (0..MOST_PROBLEMS + 5).map(route).collect();
    entries.push(r#"{"DASH_VNET_TABLE:v": {"vni": "x"}, "OP": "SET"}"#.into());
    let reading = read(format!("[{}]", entries.join(",")).as_bytes());
    let errors = reading
        .problems
        .iter()
        .filter(|problem| !problem.is_remark());
    assert_eq!((errors.count(), reading.more_errors), (1, 0));
    assert_eq!(
        (reading.problems.len(), reading.more_remarks),
        (MOST_PROBLEMS + 1, 5)
    );
    assert!(!reading.is_whole());
}

#[test]
fn an_object_with_fields_without_end_is_refused_at_once() {
    let fields: Vec<_> = (0..200_000)
        .map(|number| format!("\"f{number}\": 1"))
        .collect();
    let text = format!("{{\"DASH_QOS_TABLE:q\": {{{}}}}}", fields.join(","));
    let reading = read(text.as_bytes());
    assert_eq!(reading.changes, []);
    let told = reading.problems.iter().map(Problem::to_string);
    let told: Vec<_> = told
        .filter(|told| told.contains("more than 64 fields"))
        .collect();
    assert_eq!(told.len(), 1);
    assert_eq!(reading.problems.len(), 65);
    // Nor is there an end to nesting.
    let nested = format!(
        "{}1{}",
        "{\"vnet_direct\": ".repeat(100_000),
        "}".repeat(100_000)
    );
    let text = format!("{{\"DASH_ROUTE_TABLE:g:10.0.0.0/8\": {nested}}}");
    assert!(!read(text.as_bytes()).is_whole());
    // A long word is not like any other.
    let text = format!(
        "{{\"DASH_QOS_TABLE:q\": {{\"{}\": 1}}}}",
        "b".repeat(1_000_000)
    );
    assert!(
        read(text.as_bytes()).problems[0]
            .to_string()
            .ends_with("no such field")
    );
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Any text is read or told, and told with a line that is there.
        #[test]
        fn nothing_falls_over(text in "[\\[\\]{}\":,a-zA-Z0-9_./ \n\\\\-]{0,200}") {
            check(&text);
        }

        /// So is what looks like a configuration.
        #[test]
        fn odd_values_are_told(
            table in prop::sample::select(Table::ALL),
            key in "[a-z0-9:./-]{0,20}",
            fields in prop::collection::vec((any::<prop::sample::Index>(), "[^\\p{C}\"\\\\]{0,20}"), 0..8),
        ) {
            let names = ["vni", "sip", "action_type", "routing_type", "vnet", "src_addr", "dst_port",
                "endpoints", "items", "mac_address", "pl_sip_encoding", "priority", "underlay_ip"];
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, value)| format!("\"{}\": \"{value}\"", name.get(&names)))
                .collect();
            check(&format!("[{{\"{table}:{key}\":\n{{{}}},\n\"OP\": \"SET\"}}]", fields.join(",\n")));
        }
    }

    fn check(text: &str) {
        let reading = read(text.as_bytes());
        let lines = text.lines().count().max(1) as u32 + 1;
        for problem in &reading.problems {
            assert!((1..=lines).contains(&problem.line), "{problem}");
        }
    }
}

/// In the public model an address of zeros stands for none.
#[test]
fn addresses_of_zeros_are_not_given() {
    let text = r#"{"DASH_ROUTE_TABLE:g:10.0.0.0/8": {"routing_type": "servicetunnel",
        "overlay_sip_prefix": "fd00::/8", "overlay_dip_prefix": "fd00::/8",
        "underlay_sip": "0.0.0.0", "underlay_dip": "::"}}"#;
    let reading = read(text.as_bytes());
    assert_eq!(reading.problems, []);
    let Change::Set(Object::Route(_, route)) = &reading.changes[0].0 else {
        panic!("a route");
    };
    let RouteAction::ServiceTunnel(tunnel) = &route.action else {
        panic!("a service tunnel");
    };
    assert_eq!((tunnel.underlay_sip, tunnel.underlay_dip), (None, None));
}

/// The forms of the high-level design's example of ExpressRoute, each beside the usual one.
#[test]
fn forms_of_the_design_document_are_read() {
    let same = |one: &str, other: &str| assert_eq!(object(one), object(other));
    same(
        r#"{"DASH_ROUTING_TYPE_TABLE:privatelink": [
            {"name": "action1", "action_type": "4to6"},
            {"name": "action2", "action_type": "staticencap", "encap_type": "gre", "vni": "100"}]}"#,
        r#"{"DASH_ROUTING_TYPE_TABLE:privatelink": {"items": [
            {"action_name": "action1", "action_type": "4_to_6"},
            {"action_name": "action2", "action_type": "staticencap", "encap_type": "nvgre", "vni": 100}]}}"#,
    );
    let eni = |mac: &str, mode: &str| {
        format!(r#"{{"DASH_ENI_TABLE:e": {{"mac_address": "{mac}", "vnet": "v", {mode}}}}}"#)
    };
    same(
        &eni("F4-93-9F-EF-C4-7E", r#""mode": "floating_nic_mode""#),
        &eni("F4:93:9F:EF:C4:7E", r#""eni_mode": "fnic""#),
    );
    let route = |or: &str, and: &str| {
        format!(
            r#"{{"DASH_ROUTE_TABLE:g:10.0.0.0/8": {{"routing_type": "drop", "metering_class_or": {or}, "metering_class_and": {and}}}}}"#
        )
    };
    same(&route(r#""0x60""#, r#""0xfF""#), &route("96", "\"255\""));
    // A list of actions is a routing type's alone, and no half of either form is read.
    let wrong = [
        r#"{"DASH_QOS_TABLE:q": []}"#.to_owned(),
        r#"{"DASH_ROUTING_TYPE_TABLE:direct": [7]}"#.to_owned(),
        eni("F4-93-9F:EF-C4-7E", r#""eni_mode": "vm""#),
        eni("F4-93-9F-EF-C4", r#""eni_mode": "vm""#),
        route(r#""0x""#, "1"),
        route(r#""0x+1""#, "1"),
        route(r#""0x100000000""#, "1"),
    ];
    for text in wrong {
        assert_eq!(problems(&text).len(), 1, "{text}");
    }
}

/// Also where the table's other fields depend on it.
#[test]
fn a_field_that_is_misspelt_is_not_missing() {
    for (fields, expected) in [
        (
            "\"routing_typ\": \"vnet\", \"vnet\": \"a\"",
            "routing_typ: no such field; did you mean routing_type?",
        ),
        (
            "\"vnet\": \"a\"",
            "routing_type: missing: expected a routing type: direct, vnet, vnet_direct, vnet_encap, appliance, privatelink, privatelinknsg, servicetunnel or drop",
        ),
    ] {
        let text = format!("{{\"DASH_ROUTE_TABLE:g:10.0.0.0/8\": {{{fields}}}}}");
        let expected = format!("1: DASH_ROUTE_TABLE:g:10.0.0.0/8: {expected}");
        assert_eq!(problems(&text), [expected]);
    }
}
