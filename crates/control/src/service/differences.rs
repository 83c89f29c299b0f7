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
