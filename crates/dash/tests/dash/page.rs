//! The page about a DPU's configuration, held to what the reader knows.

use std::collections::{BTreeMap, BTreeSet};

use twinpath_dash::json::{self, Wrong};
use twinpath_dash::objects::Table;

const PAGE: &str = include_str!("../../../../docs/dash-configuration.md");

/// Words that the column "read" begins with.
const STATES: [&str; 5] = ["there", "differs", "absent", "passed over", "an error"];

/// The fields of each table that the page names, with what it says of reading them.
fn rows() -> BTreeMap<&'static str, Vec<(&'static str, &'static str)>> {
    let mut rows: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let mut tables: Vec<&str> = Vec::new();
    for line in PAGE.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            let names = Table::ALL.iter().map(|table| table.name());
            let titles: Vec<_> = title.split(", ").collect();
            tables = names.filter(|name| titles.contains(name)).collect();
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, what, read, _] = cells[..] else {
            continue;
        };
        for table in &tables {
            rows.entry(*table).or_default().push((what, read));
        }
    }
    rows
}

const fn unknown_field(wrong: &Wrong) -> bool {
    matches!(wrong, Wrong::UnknownField { .. })
}

/// Whether the reader knows a field of a table; which it has may depend on the type of an object.
fn is_known(table: &str, field: &str) -> bool {
    let keys = [
        "a",
        "a:10.0.0.0/8",
        "a:10.0.0.1",
        "a:1",
        "a:100:10.0.0.0/8",
        "100",
        "vnet",
        "switch",
        "a:80-90",
        "a:02:00:00:00:00:01",
        "10.0.0.1",
        "a:b",
        "a:10.0.0.1:tcp:80",
    ];
    let types = [
        "vnet",
        "vnet_direct",
        "servicetunnel",
        "drop",
        "privatelink",
        "decap",
        "skip_mapping",
        "allow",
        "map_private_link_service",
    ];
    let known = |key: &str, kind: &str| {
        let kinds = ["routing_type", "action_type", "action"]
            .iter()
            .filter(|name| **name != field);
        let kinds: Vec<_> = kinds.map(|name| format!(r#""{name}": "{kind}""#)).collect();
        let text = format!(
            r#"{{"{table}:{key}": {{"{field}": null, {}}}}}"#,
            kinds.join(", ")
        );
        let reading = json::read(text.as_bytes());
        let wrong = |wrong: fn(&Wrong) -> bool, name: &str| {
            reading
                .problems
                .iter()
                .filter(|problem| !problem.is_remark())
                .any(|problem| problem.field.as_deref() == Some(name) && wrong(&problem.wrong))
        };
        let is_of_kind = ["routing_type", "action_type", "action"]
            .iter()
            .all(|name| *name == field || !wrong(|wrong| !unknown_field(wrong), name));
        is_of_kind && !wrong(|_| true, "key") && !wrong(unknown_field, field)
    };
    keys.iter()
        .any(|key| types.iter().any(|kind| known(key, kind)))
}

/// What stands between back ticks, if it is a field.
fn field(what: &'static str) -> Option<&'static str> {
    what.strip_prefix('`')?.split('`').next()
}

#[test]
fn every_field_of_the_page_is_known_or_said_to_be_absent() {
    let rows = rows();
    for (table, fields) in &rows {
        for (what, read) in fields {
            if *what == "field" || what.starts_with("---") {
                continue;
            }
            let state = STATES.iter().any(|state| read.starts_with(state));
            assert!(state, "{table} {what}: {read}");
            let Some(field) = field(what) else { continue };
            let absent = read.starts_with("absent") || read.starts_with("an error");
            assert_eq!(is_known(table, field), !absent, "{table} {field}: {read}");
        }
    }
    // A field that nobody has is found to be unknown.
    assert!(!is_known("DASH_ENI_TABLE", "colour"));
}

#[test]
fn every_table_of_dash_is_on_the_page() {
    let rows = rows();
    let dash = Table::ALL.iter().map(|table| table.name());
    let dash: BTreeSet<_> = dash
        .filter(|name| name.starts_with("DASH_") || *name == "SWITCH_TABLE")
        .collect();
    assert_eq!(rows.keys().copied().collect::<BTreeSet<_>>(), dash);
}

/// Tables of DASH that are not supported are named, and a file with one is told so.
#[test]
fn absent_tables_are_on_the_page_and_told() {
    let from = PAGE.find("## Tables that are absent").expect("there");
    let named: BTreeSet<_> = PAGE[from..]
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('|').next())
        .flat_map(|cell| cell.split('`').step_by(2))
        .map(|name| name.trim_end_matches("_TABLE"))
        .collect();
    assert_eq!(named, json::ABSENT_TABLES.into_iter().collect());
    for name in json::ABSENT_TABLES {
        for end in ["", "_TABLE"] {
            let text = format!(r#"[{{"{name}{end}:a": {{"field": 1}}, "OP": "SET"}}]"#);
            let reading = json::read(text.as_bytes());
            let told: Vec<_> = reading.problems.iter().map(|one| &one.wrong).collect();
            assert_eq!(told, [&Wrong::AbsentTable], "{name}{end}");
            assert!(reading.changes.is_empty() && reading.problems[0].is_remark());
        }
    }
}

#[test]
fn what_the_public_configurations_have_is_on_the_page() {
    let rows = rows();
    // Fields of the public scale test and of the public tests.
    for (table, fields) in [
        (
            "DASH_APPLIANCE_TABLE",
            &[
                "sip",
                "vm_vni",
                "local_region_id",
                "trusted_vnis",
                "trusted_vnis_list",
                "outbound_direction_lookup",
            ][..],
        ),
        (
            "DASH_ENI_TABLE",
            &[
                "eni_id",
                "qos",
                "mac_address",
                "underlay_ip",
                "admin_state",
                "vnet",
                "pl_underlay_sip",
                "pl_sip_encoding",
                "eni_mode",
                "v4_meter_policy_id",
                "trusted_vnis_list",
            ],
        ),
        (
            "DASH_VNET_MAPPING_TABLE",
            &[
                "routing_type",
                "underlay_ip",
                "mac_address",
                "use_dst_vni",
                "overlay_sip_prefix",
                "overlay_dip_prefix",
                "metering_class_or",
                "tunnel",
                "port_map",
            ],
        ),
        (
            "DASH_ROUTE_TABLE",
            &[
                "action_type",
                "routing_type",
                "vnet",
                "overlay_ip",
                "tunnel",
                "metering_class_or",
                "metering_class_and",
            ],
        ),
        (
            "DASH_ACL_RULE_TABLE",
            &[
                "priority",
                "action",
                "terminating",
                "src_addr",
                "dst_addr",
                "src_tag",
                "dst_tag",
                "src_port",
                "dst_port",
                "protocol",
            ],
        ),
        (
            "DASH_ROUTE_RULE_TABLE",
            &["action_type", "priority", "pa_validation", "vnet"],
        ),
    ] {
        for name in fields {
            let told = rows[table]
                .iter()
                .any(|(what, _)| field(what) == Some(name));
            assert!(told, "{table} {name}");
        }
    }
}

const CONFORMANCE: &str = include_str!("../../../../docs/dash-conformance.md");

/// All that tests of this crate are called.
fn test_names() -> BTreeSet<String> {
    let mut folders = vec![
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests").into(),
        std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src")),
    ];
    let mut names = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a text");
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            let tests = lines
                .iter()
                .enumerate()
                .filter(|(_, line)| **line == "#[test]");
            for (at, _) in tests {
                let mut below = lines[at..].iter();
                let name = below.find_map(|line| line.strip_prefix("fn "));
                let name = name.and_then(|line| line.split('(').next());
                names.extend(name.map(String::from));
            }
        }
    }
    names
}

/// The rows of a table of the page about conformance.
fn conformance(title: &str) -> impl Iterator<Item = &'static str> {
    let from = CONFORMANCE.find(title).expect("the table");
    let until = CONFORMANCE[from..].find("\n\n## ").expect("more") + from;
    let lines = CONFORMANCE[from..until].lines();
    lines.filter(|line| line.starts_with("| "))
}

/// Counters of the public model, but for those of HA.
const COUNTERS: [&str; 36] = [
    "vip_miss_drop",
    "eni_miss_drop",
    "port_lb_fast_path_icmp_in",
    "port_lb_fast_path_eni_miss_drop",
    "rx",
    "tx",
    "outbound_rx",
    "outbound_tx",
    "inbound_rx",
    "inbound_tx",
    "lb_fast_path_icmp_in",
    "flow_created",
    "flow_create_failed",
    "flow_updated",
    "flow_update_failed",
    "flow_updated_by_resimulation",
    "flow_update_by_resimulation_failed",
    "flow_deleted",
    "flow_delete_failed",
    "flow_aged",
    "outbound_routing_entry_miss_drop",
    "outbound_ca_pa_entry_miss_drop",
    "inbound_routing_entry_miss_drop",
    "outbound_routing_group_miss_drop",
    "outbound_routing_group_disabled_drop",
    "outbound_port_map_miss_drop",
    "outbound_port_map_port_range_entry_miss_drop",
    "eni_trusted_vni_entry_miss_drop",
    "outbound",
    "inbound",
    "eni_counter",
    "routing_counter",
    "ca_to_pa_counter",
    "outbound_port_map_counter",
    "outbound_port_map_port_range_counter",
    "inline_*",
];

/// Tables of the public model with their keys and attributes, as its stages and `dash_routing_types.p4`
/// call them.
const ATTRIBUTES: [(&str, &str); 32] = [
    ("vip", "VIP"),
    ("dash_appliance", "local_region_id"),
    ("internal_config", "neighbor_mac mac cpu_mac flow_enabled"),
    ("direction_lookup", "VNI dash_eni_mac_override_type"),
    ("eni_ether_address_map", "address eni_id"),
    (
        "eni",
        "cps pps flows admin_state ha_scope_id vm_underlay_dip vm_vni vnet_id pl_sip pl_sip_mask \
         pl_underlay_sip v4_meter_policy_id v6_meter_policy_id dash_tunnel_dscp_mode dscp \
         inbound_v4_stage1_dash_acl_group_id outbound_v6_stage5_dash_acl_group_id \
         disable_fast_path_icmp_flow_redirection full_flow_resimulation_requested \
         max_resimulated_flow_per_second outbound_routing_group_id enable_reverse_tunnel_learning \
         reverse_tunnel_sip is_ha_flow_owner flow_table_id dash_eni_mode",
    ),
    (
        "flow_table",
        "max_flow_count dash_flow_enabled_key flow_ttl_in_milliseconds",
    ),
    (
        "flow_entry",
        "eni_mac vnet_id src_ip dst_ip src_port dst_port ip_proto src_ip_is_v6 version dash_direction \
         dash_flow_action meter_class is_unidirectional_flow dash_flow_sync_state reverse_flow_eni_mac \
         reverse_flow_vnet_id reverse_flow_ip_proto reverse_flow_src_ip reverse_flow_dst_ip \
         reverse_flow_src_port reverse_flow_dst_port reverse_flow_dst_ip_is_v6 underlay0_vnet_id \
         underlay0_sip underlay0_dip underlay0_smac underlay0_dmac underlay0_dash_encapsulation \
         underlay1_vnet_id underlay1_sip underlay1_dip underlay1_smac underlay1_dmac \
         underlay1_dash_encapsulation dst_mac sip dip sip_mask dip_mask dip_is_v6 vendor_metadata \
         flow_data_pb",
    ),
    (
        "flow_entry_bulk_get_session",
        "bulk_get_session_id dash_flow_entry_bulk_get_session_mode GRPC VENDOR EVENT \
         EVENT_WITHOUT_FLOW_STATE bulk_get_entry_limitation bulk_get_session_server_ip \
         bulk_get_session_server_port first_flow_entry_bulk_get_session_filter_id \
         second_flow_entry_bulk_get_session_filter_id third_flow_entry_bulk_get_session_filter_id \
         fourth_flow_entry_bulk_get_session_filter_id fifth_flow_entry_bulk_get_session_filter_id",
    ),
    (
        "flow_entry_bulk_get_session_filter",
        "bulk_get_session_filter_id dash_flow_entry_bulk_get_session_filter_key FLOW_TABLE_ID ENI_MAC \
         IP_PROTOCOL SRC_IP_ADDR DST_IP_ADDR SRC_L4_PORT DST_L4_PORT KEY_VERSION \
         dash_flow_entry_bulk_get_session_op_key FILTER_OP_EQUAL_TO FILTER_OP_GREATER_THAN \
         FILTER_OP_GREATER_THAN_OR_EQUAL_TO FILTER_OP_LESS_THAN FILTER_OP_LESS_THAN_OR_EQUAL_TO \
         int_value ip_value mac_value",
    ),
    (
        "ha_scope",
        "ha_scope_id ha_set_id dash_ha_role flow_version flow_reconcile_requested \
         flow_reconcile_needed vip_v4 vip_v6 admin_state activate_role dash_ha_state",
    ),
    (
        "ha_set",
        "ha_set_id local_ip_is_v6 local_ip peer_ip_is_v6 peer_ip cp_data_channel_port \
         dp_channel_dst_port dp_channel_min_src_port dp_channel_max_src_port \
         dp_channel_probe_interval_ms dp_channel_probe_fail_threshold dp_channel_is_alive \
         dpu_driven_ha_switchover_wait_time_ms",
    ),
    ("global_trusted_vni", "vni_range"),
    ("eni_trusted_vni", "vni_range"),
    ("dash_acl_group", "ip_addr_family"),
    (
        "dash_acl_rule",
        "dash_acl_group_id dip sip protocol src_port dst_port permit permit_and_continue deny \
         deny_and_continue",
    ),
    (
        "outbound_routing_group",
        "outbound_routing_group_id disabled",
    ),
    (
        "outbound_routing",
        "outbound_routing_group_id destination_is_v6 destination dst_vnet_id dash_tunnel_id \
         meter_class_or meter_class_and routing_actions_disabled_in_flow_resimulation \
         overlay_ip_is_v6 overlay_ip overlay_dip_is_v6 overlay_dip overlay_dip_mask_is_v6 \
         overlay_dip_mask overlay_sip_is_v6 overlay_sip overlay_sip_mask_is_v6 overlay_sip_mask \
         underlay_dip_is_v6 underlay_dip underlay_sip_is_v6 underlay_sip dash_encapsulation tunnel_key",
    ),
    (
        "outbound_ca_to_pa",
        "dst_vnet_id dip_is_v6 dip underlay_dip overlay_dmac use_dst_vnet_vni meter_class_or \
         dash_tunnel_id flow_resimulation_requested routing_actions_disabled_in_flow_resimulation \
         overlay_sip overlay_sip_mask overlay_dip overlay_dip_mask dash_encapsulation tunnel_key \
         outbound_port_map_id",
    ),
    ("vnet", "vnet_id vni"),
    ("outbound_port_map", "outbound_port_map_id"),
    (
        "outbound_port_map_port_range",
        "outbound_port_map_id dst_port_range skip_mapping map_to_private_link_service backend_ip \
         match_port_base backend_port_base",
    ),
    (
        "dash_tunnel",
        "dash_tunnel_id dash_encapsulation tunnel_key max_member_size dip sip",
    ),
    (
        "dash_tunnel_member",
        "dash_tunnel_id dash_tunnel_next_hop_id",
    ),
    ("dash_tunnel_next_hop", "dash_tunnel_next_hop_id dip"),
    (
        "inbound_routing",
        "eni_id VNI sip tunnel_decap tunnel_decap_pa_validate src_vnet_id meter_class_or \
         meter_class_and",
    ),
    ("pa_validation", "vnet_id sip permit"),
    ("route", "destination packet_action next_hop_id"),
    ("meter_policy", "ip_addr_family"),
    ("meter_rule", "meter_policy_id dip meter_class"),
    ("meter_bucket", "eni_id meter_class outbound inbound"),
    (
        "routing actions",
        "nat46 nat64 snat_port dnat_port set_dmac set_smac encap_u0 encap_u1",
    ),
];

/// What stands between back ticks.
fn names_in(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Every counter of the public model has a row, and what is said to be counted is held to it.
#[test]
fn every_counter_of_the_model_is_told_of() {
    let (tests, vectors) = (test_names(), twinpath_dash::samples::vectors::names());
    let mut told = BTreeSet::new();
    for line in conformance("## Counters").skip(1) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, counters, names, said, held_by, _] = cells[..] else {
            panic!("{line}");
        };
        told.extend(names_in(counters));
        let is_absent = said.starts_with("absent");
        let is_known = STATES.iter().any(|state| said.starts_with(state));
        assert!(is_known || counters.starts_with("drops for all"), "{line}");
        assert!(!is_absent || names.is_empty(), "named, and absent: {line}");
        assert!(is_absent || !held_by.is_empty(), "nothing holds: {line}");
        for name in names_in(held_by) {
            let is_known = tests.contains(name) || vectors.iter().any(|vector| vector == name);
            assert!(is_known, "no vector or test is called {name}");
        }
    }
    for counter in COUNTERS {
        assert!(told.contains(counter), "nothing is said of {counter}");
    }
}

/// Words that stand in what the page says of each of the model's tables. Of a row without a table it is
/// the one above, or else the stage.
fn words_by_table() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut words: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let mut tables = Vec::new();
    for line in conformance("## Stages").skip(1) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, stage, table, keys, attributes, said, _, _] = cells[..] else {
            panic!("{line}");
        };
        let is_known = STATES.iter().any(|state| said.starts_with(state));
        assert!(is_known, "there, differs or absent? {line}");
        match (stage, table) {
            ("", "") => {}
            (stage, "") => tables = vec![stage],
            (_, table) => tables = table.split(", ").collect(),
        }
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
        let parts = [keys, attributes, said].into_iter();
        let parts = parts.flat_map(|cell| cell.split(move |letter| !is_part(letter)));
        let parts: BTreeSet<_> = parts.collect();
        for table in &tables {
            words.entry(*table).or_default().extend(&parts);
        }
    }
    words
}

/// Every attribute of the public model is named where the page speaks of its table.
#[test]
fn every_attribute_of_the_model_is_told_of() {
    let words = words_by_table();
    for (table, attributes) in ATTRIBUTES {
        let told = words.get(table);
        let told = told.unwrap_or_else(|| panic!("nothing is said of {table}"));
        for name in attributes.split_whitespace() {
            assert!(told.contains(name), "nothing is said of {table} {name}");
        }
    }
}

/// What is said to be there is held to it by a vector or a test.
#[test]
fn what_conforms_is_held_by_vectors_or_tests() {
    let (tests, vectors) = (test_names(), twinpath_dash::samples::vectors::names());
    let (mut there, mut used) = (0, BTreeSet::new());
    for line in conformance("## Stages") {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, _, _, _, what, said, held_by, _] = cells[..] else {
            panic!("{line}");
        };
        let names: Vec<&str> = names_in(held_by).collect();
        for name in &names {
            let is_known = tests.contains(*name) || vectors.iter().any(|vector| vector == name);
            assert!(is_known, "{what}: no vector or test is called {name}");
            used.insert((*name).to_owned());
        }
        let is_there = said.starts_with("there") || said.contains("enforced");
        assert!(!is_there || !names.is_empty(), "nothing holds: {line}");
        there += usize::from(is_there);
    }
    assert!(there > 25, "{there} rows");
    // One over IPv6 is held by the row of what it is over IPv6.
    let of_no_row = |vector: &&String| !used.contains(vector.trim_end_matches("_over_v6"));
    let left: Vec<_> = vectors.iter().filter(of_no_row).collect();
    assert!(left.is_empty(), "no row is held by {left:?}");
}
