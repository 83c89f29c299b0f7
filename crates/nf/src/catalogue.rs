//! All functions that a service can name. Each is declared in its folder and listed here.

use crate::descriptor::Descriptor;
use crate::{
    acl, dash, firewall, inspector, kv_store, load_balancer, monitor, napt, nat64, nptv6,
    rate_limiter, reassembler, reframer, router, telemetry,
};

/// The functions.
pub const FUNCTIONS: [&Descriptor; 15] = [
    &firewall::FUNCTION,
    &reassembler::FUNCTION,
    &inspector::FUNCTION,
    &load_balancer::FUNCTION,
    &rate_limiter::FUNCTION,
    &reframer::FUNCTION,
    &telemetry::FUNCTION,
    &kv_store::FUNCTION,
    &acl::FUNCTION,
    &napt::FUNCTION,
    &nat64::FUNCTION,
    &nptv6::FUNCTION,
    &router::FUNCTION,
    &monitor::FUNCTION,
    &dash::FUNCTION,
];

/// The function of this name.
pub fn function(name: &str) -> Option<&'static Descriptor> {
    let mut functions = FUNCTIONS.into_iter();
    functions.find(|function| function.name == name)
}

/// The functions' names, for messages.
pub fn names() -> String {
    FUNCTIONS.map(|function| function.name).join(", ")
}

/// The functions' names.
pub fn all_names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.into_iter().map(|function| function.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::{Form, FunctionConfig, SectionContext};
    use crate::files::Disk;
    use std::path::Path;
    use std::sync::Arc;
    use toml::de::ValueDeserializer;
    use twinpath_core::Adjacencies;

    /// Two tables for each function whose decisions are cached.
    const TABLES: [[&str; 3]; 6] = [
        ["acl", "{ default = \"allow\" }", "{ default = \"deny\" }"],
        [
            "napt",
            "{ inside = [\"10.0.0.0/8\"], external = [\"192.0.2.1\"] }",
            "{ inside = [\"10.0.0.0/8\"], external = [\"192.0.2.2\"] }",
        ],
        [
            "nat64",
            "{ inside = [\"fd00::/8\"], external = [\"192.0.2.1\"] }",
            "{ inside = [\"fd00::/8\"], external = [\"192.0.2.1\"], mtu = 1400 }",
        ],
        [
            "nptv6",
            "{ prefixes = [{ inside = \"fd01::/48\", external = \"2001:db8:1::/48\" }] }",
            "{ prefixes = [{ inside = \"fd01::/48\", external = \"2001:db8:2::/48\" }] }",
        ],
        [
            "router",
            "{ next_hops = [{ name = \"a\", port = 0 }] }",
            "{ next_hops = [{ name = \"a\", port = 1 }] }",
        ],
        [
            "monitor",
            "{ by = \"hosts\" }",
            "{ by = \"hosts\", flows = 9 }",
        ],
    ];

    fn read(name: &str, table: &str) -> Arc<dyn FunctionConfig> {
        let adjacencies = Adjacencies::default();
        let context = SectionContext {
            folder: Path::new("."),
            files: &Disk,
            ports: &[],
            addresses: &[],
            networks: &[],
            adjacencies: &adjacencies,
        };
        let section = ValueDeserializer::parse(table).expect(table);
        let config = (function(name).expect(name).read)(section, context);
        config.unwrap_or_else(|_| panic!("{name}: {table}"))
    }

    /// What is kept when its table changes would go on as it was.
    #[test]
    fn functions_whose_decisions_are_cached_can_change() {
        let caching = FUNCTIONS
            .iter()
            .filter(|one| matches!(one.form, Form::Rules));
        let names: Vec<&str> = caching.map(|function| function.name).collect();
        assert!(
            names
                .iter()
                .all(|name| TABLES.iter().any(|table| table[0] == *name))
        );
        assert_eq!(names.len(), TABLES.len());
        for [name, before, after] in TABLES {
            let [former, config] = [before, after].map(|table| read(name, table));
            assert!(!config.is_same(&*former), "{name}");
            let change = config.change_from(&*former, Path::new("."), 1);
            assert!(change.expect("no file").is_some(), "{name}");
        }
    }
}
