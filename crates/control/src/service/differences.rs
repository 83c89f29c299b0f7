//! What of a service other than its functions is another than before.

use super::Service;

/// Keys of `[service]` that say something else than those of the service before, and can while it runs.
pub fn differing_keys(old: &Service, new: &Service) -> Vec<&'static str> {
    let (before, now) = (&old.entrance, &new.entrance);
    let keys = [
        ("name", old.name != new.name),
        ("inside", old.inside != new.inside),
        ("inside_ports", old.inside_ports != new.inside_ports),
        ("source_check", before.source_check != now.source_check),
        ("unparsed", before.unparsed != now.unparsed),
        (
            "forward_ether_types",
            before.forward_ether_types != now.forward_ether_types,
        ),
        (
            "verify_ipv4_checksum",
            before.verify_ipv4_checksum != now.verify_ipv4_checksum,
        ),
    ];
    let differs = |(key, differs): (&'static str, bool)| differs.then_some(key);
    keys.into_iter().filter_map(differs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn each_key_that_differs_is_told() {
        let service = |head: &str| {
            let text =
                format!("[service]\nchain = [\"acl\"]\nports = [\"a\", \"b\"]\n{head}[acl]\n");
            Service::parse(&text, Path::new("x.toml")).unwrap_or_else(|error| panic!("{error}"))
        };
        let plain = service("");
        for (head, expected) in [
            ("", vec![]),
            ("name = \"x\"\n", vec!["name"]),
            ("inside = [\"10.0.0.0/8\"]\n", vec!["inside"]),
            ("inside_ports = [\"a\"]\n", vec!["inside_ports"]),
            ("unparsed = \"forward\"\n", vec!["unparsed"]),
            (
                "unparsed = \"drop\"\nforward_ether_types = [\"arp\"]\n",
                vec!["forward_ether_types"],
            ),
            (
                "verify_ipv4_checksum = true\n",
                vec!["verify_ipv4_checksum"],
            ),
        ] {
            let mut told = differing_keys(&plain, &service(head));
            told.retain(|key| *key != "source_check");
            assert_eq!(told, expected, "{head}");
        }
        let both = "inside = [\"10.0.0.0/8\"]\ninside_ports = [\"a\"]\n";
        let loose = service(&format!("{both}source_check = \"off\"\n"));
        assert_eq!(differing_keys(&service(both), &loose), ["source_check"]);
    }
}
