//! Files that the command makes for people, editors, shells and readers.

use crate::folder::Folder;
use serde_json::Value;
use twinpath_core::wire::PacketBuilder;
use twinpath_core::wire::tcp::flags::SYN;

#[test]
fn a_starter_runs_and_overwrites_nothing() {
    let folder = Folder::new();
    let init = ["init", "lan", "wan", "--out", "a.toml"];
    folder.succeed(&init);
    folder.fail(
        &init,
        "cannot write a.toml: it is there already, and no file is replaced",
    );
    let said = folder.succeed(&["explain", "a.toml"]);
    assert!(said.out.contains("firewall"), "{said:?}");
    let generate = ["generate", "--service", "a.toml", "--packets", "20000"];
    folder.succeed(&[&generate[..], &["--out", "in.pcapng"]].concat());
    folder.run_both_ways("a.toml", "in.pcapng");
    let report = folder.report("both");
    assert!(report.totals.packets_out > 10_000, "{:?}", report.totals);
    assert!(folder.undrawn_flows("both.pcap") == folder.undrawn_flows("slow.pcap"));
    let printed = folder.succeed(&["init", "lan", "wan"]).out;
    assert_eq!(printed.as_bytes(), folder.read("a.toml"));
}

/// Whoever is outside opens nothing, whatever source he names.
#[test]
fn a_starter_lets_nobody_in_who_names_an_address_inside() {
    let folder = Folder::new();
    folder.succeed(&["init", "lan", "wan", "--out", "a.toml"]);
    let end = |text: &str| text.parse().expect("an endpoint");
    let opening = PacketBuilder::tcp(end("10.0.0.66:1000"), end("192.168.1.10:22")).flags(SYN);
    let bytes = opening.to_vec().expect("short");
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let fate = |port| {
        let trace = ["trace", "a.toml", "--json", "--hex", &hex, "--port", port];
        let told: Value = serde_json::from_str(&folder.succeed(&trace).out).expect("JSON");
        told["end"]["fate"].clone()
    };
    assert_eq!(fate("lan"), "leaves");
    assert_ne!(fate("wan"), "leaves");
}

#[test]
fn names_of_ports_are_checked() {
    let folder = Folder::new();
    folder.fail(
        &["init", "lan", "lan"],
        "error: INSIDE and OUTSIDE: two ports are called lan",
    );
    folder.fail(&["init", "lan", "a name"], "a port's name has 1 to 15");
}

#[test]
fn the_schema_is_json() {
    let said = Folder::new().succeed(&["schema"]);
    let schema: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert!(schema["definitions"]["firewall"]["properties"]["rules"].is_object());
}

#[test]
fn shells_complete_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let said = Folder::new().succeed(&["completions", shell]);
        assert!(said.out.contains("compare"), "{shell}");
    }
}

#[test]
fn every_command_has_a_man_page() {
    let folder = Folder::new();
    folder.succeed(&["man", "pages"]);
    for name in ["twinpath", "twinpath-run", "twinpath-change-rule-add"] {
        let page = folder.read(&format!("pages/{name}.1"));
        let page = String::from_utf8(page).expect("UTF-8");
        assert!(page.contains(".TH") && !page.contains('\u{1b}'), "{name}");
    }
}
