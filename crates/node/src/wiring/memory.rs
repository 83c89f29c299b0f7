//! How much memory a service takes, told before any of it is taken.

use super::functions::{elements, slow_flows};
use super::settings::{buffers, coherence, rule_table};
use crate::build_error::BuildError;
use twinpath_control::service::{Instance, Paths, Service};
use twinpath_core::pool::{HEADROOM, LARGE_PACKET_BYTES, SMALL_PACKET_BYTES};
use twinpath_fastpath::StateTable;
use twinpath_nf::descriptor::Form;
use twinpath_nf::memory::TableMemory;
use twinpath_rulecache::RuleTable;

/// What a part of a service takes when it is full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryPart {
    /// What it is.
    pub what: String,
    /// How many of them.
    pub count: u64,
    /// What is counted.
    pub of: &'static str,
    /// Their bytes.
    pub bytes: u64,
    /// The key of the service file that says how many: its table and its name.
    pub key: [String; 2],
}

/// What each part of a service takes when it is full.
///
/// # Errors
/// A function cannot be built.
pub fn memory(service: &Service) -> Result<Vec<MemoryPart>, BuildError> {
    let mut parts = Vec::new();
    for instances in elements(service) {
        let names: Vec<&str> = instances.iter().map(|one| &*one.name).collect();
        let names = names.join(", ");
        match instances[0].form() {
            Form::Rules => parts.extend(cached_rules(service, &names)),
            Form::Flow => parts.extend(flow_state(service, instances, &names)?),
            // It says itself what its flows take.
            Form::Dash => {}
        }
    }
    for instance in &service.chain {
        parts.extend(own_tables(service, instance));
    }
    // Each shard has its own of these.
    let shared = parts.len();
    parts.extend(frames(service)?);
    if let Some(parking) = &service.parking {
        parts.push(MemoryPart {
            what: "parked payloads".into(),
            count: parking.limit_bytes as u64,
            of: "bytes",
            // Whole packets that must wait for others may take as much again.
            bytes: 2 * parking.limit_bytes as u64,
            key: ["parking", "limit_bytes"].map(Into::into),
        });
    }
    if let Some(split) = &service.split {
        let servers = split.servers.len();
        let what = match servers {
            0 => "split packets, and payloads that wait here",
            _ => "split packets, and what is on its way to memory servers",
        };
        parts.push(MemoryPart {
            what: what.into(),
            count: split.header_slots as u64,
            of: "slots",
            bytes: (split.header_slots * SLOT_BYTES
                + (split.header_slots + split.followers) * PLACE_BYTES
                + servers * split.queue_pairs * split.ring_payloads * RECORD_BYTES)
                as u64,
            key: ["split", "header_slots"].map(Into::into),
        });
    }
    let shards = u64::from(service.run.shards.0);
    for part in parts.iter_mut().skip(shared) {
        part.count *= shards;
        part.bytes *= shards;
    }
    Ok(parts)
}

/// What a header slot takes, a place in front of leaving, and a payload in the account of a ring.
const SLOT_BYTES: usize = 80;
const PLACE_BYTES: usize = 80;
const RECORD_BYTES: usize = 32;

/// Tables of so many rules tell what each more takes.
const FEW: usize = 1 << 10;

fn cached_rules(service: &Service, names: &str) -> Option<MemoryPart> {
    let cache = &service.rule_cache;
    if !cache.enabled || service.run.paths == Paths::Slow {
        return None;
    }
    let bytes = |exact: usize, masked: usize| {
        let mut config = rule_table(service);
        (config.exact, config.masked) = (exact, masked);
        config.masks = config.masks.min(FEW);
        RuleTable::new(config).memory_bytes() as u64
    };
    let few = bytes(FEW, FEW);
    let each = |more: u64, count: usize| more.saturating_sub(few) * count as u64 / (7 * FEW as u64);
    let exact = each(bytes(8 * FEW, FEW), cache.exact);
    let masked = each(bytes(FEW, 8 * FEW), cache.masked);
    Some(MemoryPart {
        what: format!("cached rules of {names}"),
        count: (cache.exact + cache.masked) as u64,
        of: "rules",
        bytes: exact + masked,
        key: ["rule_cache", "exact"].map(Into::into),
    })
}

fn flow_state(
    service: &Service,
    instances: &[Instance],
    names: &str,
) -> Result<Vec<MemoryPart>, BuildError> {
    let mut few = service.clone();
    few.slow_path.flows = FEW;
    let flows = slow_flows(&few, instances)?;
    let count = service.slow_path.workers as u64 * service.slow_path.flows as u64;
    let mut parts = vec![MemoryPart {
        what: format!("the workers' flows of {names}"),
        count,
        of: "flows",
        bytes: count * flows.store().bytes_per_flow() as u64,
        key: ["slow_path", "flows"].map(Into::into),
    }];
    if service.run.paths == Paths::Both {
        let config = coherence(service);
        let bucket = StateTable::new(config.ways, config.ways, flows.chain().word_count());
        let count = config.slots as u64;
        parts.push(MemoryPart {
            what: format!("the state table of {names}"),
            count,
            of: "slots",
            bytes: count * bucket.memory_bytes() as u64 / bucket.slots() as u64,
            key: ["fast_path", "slots"].map(Into::into),
        });
    }
    Ok(parts)
}

/// What a function has beside flow state. Functions that make rules are on one worker, all others on
/// each.
fn own_tables(service: &Service, instance: &Instance) -> impl Iterator<Item = MemoryPart> {
    let workers = match instance.shares_state() {
        false => 1,
        true => service.slow_path.workers as u64,
    };
    let tables = instance.config.memory(service.slow_path.flows);
    let part = move |table: TableMemory| MemoryPart {
        what: format!("the table of {}", instance.name),
        count: workers * table.count,
        of: table.of,
        bytes: workers * table.bytes,
        key: [instance.name.to_string(), table.key.into()],
    };
    tables.into_iter().map(part)
}

/// Buffers of the fast path, and of all workers.
fn frames(service: &Service) -> Result<Vec<MemoryPart>, BuildError> {
    let part = |what: &str, ordinary: usize, long: usize| {
        let bytes = |frames: usize, packet: usize| frames as u64 * (packet + HEADROOM) as u64;
        MemoryPart {
            what: what.into(),
            count: (ordinary + long) as u64,
            of: "buffers",
            bytes: bytes(ordinary, SMALL_PACKET_BYTES) + bytes(long, LARGE_PACKET_BYTES),
            key: ["link", "ring_frames"].map(Into::into),
        }
    };
    let (arriving, workers) = (buffers(service)?, service.slow_path.workers);
    let own = super::worker_buffers(service);
    Ok(vec![
        part("packets", arriving.ordinary, arriving.long),
        part(
            "the workers' own packets",
            workers * own.ordinary,
            workers * own.long,
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn parts(more: &str) -> Vec<MemoryPart> {
        let text = format!(
            "[service]\nchain = [\"acl\", \"firewall\"]\ninside = [\"10.0.0.0/8\"]\n[acl]\n[firewall]\n{more}"
        );
        let service = Service::parse(&text, Path::new("x.toml")).expect("sound");
        memory(&service).expect("sound")
    }

    fn bytes(parts: &[MemoryPart], what: &str) -> u64 {
        let found = parts.iter().find(|part| part.what.starts_with(what));
        found.map_or(0, |part| part.bytes)
    }

    /// Whatever the size, nothing of that size is made to tell it.
    #[test]
    fn what_is_told_grows_with_the_sizes() {
        let few = parts("[slow_path]\nflows = 1_000_000\n[fast_path]\nslots = 1_000_000\n");
        let many = parts("[slow_path]\nflows = 100_000_000\n[fast_path]\nslots = 50_000_000\n");
        for (what, times) in [("the workers' flows", 100), ("the state table", 50)] {
            let (few, many) = (bytes(&few, what), bytes(&many, what));
            assert!(few > 32_000_000, "{what}: {few}");
            assert!(
                many.abs_diff(times * few) <= times * few / 50,
                "{what}: {many}"
            );
        }
        let (one, four) = (parts(""), parts("[run]\nshards = 4\n"));
        assert_eq!(bytes(&four, "packets"), 4 * bytes(&one, "packets"));
        assert_eq!(bytes(&four, "the state"), bytes(&one, "the state"));
        let rules = parts("[rule_cache]\nexact = 60_000_000\n");
        assert!(bytes(&rules, "cached rules") > 60_000_000 * 64);
        assert!(bytes(&rules, "packets") > 10_000_000);
    }

    #[test]
    fn what_is_told_of_rules_is_what_a_table_takes() {
        let told = bytes(
            &parts("[rule_cache]\nexact = 65536\nmasked = 16384\n"),
            "cached rules",
        );
        let text =
            "[service]\nchain = [\"acl\"]\n[acl]\n[rule_cache]\nexact = 65536\nmasked = 16384\n";
        let service = Service::parse(text, Path::new("x.toml")).expect("sound");
        let taken = RuleTable::new(rule_table(&service)).memory_bytes() as u64;
        assert!(
            told.abs_diff(taken) < taken / 4,
            "{told}, and {taken} are taken"
        );
    }

    /// What is made before a run begins is told too: routes, lists and automata.
    #[test]
    fn routes_lists_and_automata_are_told() {
        let list = |text: &str, count: usize| vec![text; count].join(", ");
        let service = |rules: usize, routes: usize| {
            let text = format!(
                "[service]\nchain = [\"acl\", \"inspector\", \"router\"]\ninside = [\"10.0.0.0/8\"]\nports = [\"a\", \"b\"]\n\
                 [acl]\nrules = [{}, {{ action = \"allow\", ingress = \"a\" }}]\n\
                 [inspector]\ngaps = \"inspect\"\nrules = \"../../examples/inspector.rules\"\n\
                 [router]\nnext_hops = [{{ name = \"up\", port = \"b\" }}]\nroutes = [{}]\n",
                list(
                    "{ action = \"deny\", protocol = \"tcp\", to_port = \"25,80\" }",
                    rules
                ),
                list("{ to = \"10.0.0.0/8\", via = \"up\" }", routes)
            );
            let service = Service::parse(&text, Path::new("x.toml"));
            let service = service.unwrap_or_else(|error| panic!("{error}"));
            memory(&service).expect("sound")
        };
        let part = |parts: &[MemoryPart], name: &str, key: &str| {
            let key = [name, key].map(String::from);
            let part = parts.iter().find(|part| part.key == key);
            part.cloned()
                .unwrap_or_else(|| panic!("{key:?} in {parts:?}"))
        };
        let (few, many) = (service(10, 10), service(1010, 1010));
        // Two ranges of whole packets and one rule for those without ports, for each of two ports.
        let more = |name: &str, key: &str| {
            let (few, many) = (part(&few, name, key), part(&many, name, key));
            (many.count - few.count, (many.bytes - few.bytes) / 1000)
        };
        assert_eq!(more("acl", "rules"), (1000 * 2 * 3, 2 * 3 * 512));
        assert_eq!(more("router", "routes"), (1000, 28));
        assert!(part(&few, "inspector", "rules").bytes > 1000);
    }

    /// Every function that has a table of its own tells how large it may get.
    #[test]
    fn own_tables_of_functions_are_told() {
        let text = "[service]\nchain = [\"monitor\", \"napt\", \"firewall\", \"load_balancer\", \"reassembler\", \"inspector\"]\n\
            inside = [\"10.0.0.0/8\"]\n\
            [slow_path]\nflows = 1000\n\
            [monitor]\nflows = 16_000_000\n\
            [napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"192.0.2.0/30\"]\nsessions = 2_000_000\n\
            [firewall]\ndefault = \"allow\"\nper_host_connections = 100\n\
            [load_balancer]\ntable_size = 65537\nper_host_connections = 100\n\
            [[load_balancer.services]]\nvip = \"203.0.113.1:443\"\nprotocol = \"udp\"\nbackends = [{ endpoint = \"198.51.100.1:443\" }]\n\
            [reassembler]\nmost_segments = 5000\n\
            [inspector]\nrules = \"../../examples/inspector.rules\"\nstreams = 3000\n";
        let service = Service::parse(text, Path::new("x.toml"));
        let service = service.unwrap_or_else(|error| panic!("{error}"));
        let parts = memory(&service).expect("sound");
        for (name, key, count, of, least) in [
            ("monitor", "flows", 16_000_000, "flows", 90),
            ("napt", "sessions", 2_000_000, "sessions", 150),
            ("napt", "external", 4, "external addresses", 3 * 4 * 65_536),
            ("firewall", "per_host_connections", 1000, "hosts", 40),
            ("load_balancer", "table_size", 65_537, "rows", 2),
            ("load_balancer", "per_host_connections", 1000, "hosts", 40),
            ("reassembler", "most_segments", 5000, "held segments", 64),
            ("inspector", "streams", 3000, "streams", 100),
        ] {
            let key = [name, key].map(String::from);
            let part = parts.iter().find(|part| part.key == key);
            let part = part.unwrap_or_else(|| panic!("{key:?} in {parts:?}"));
            assert_eq!(
                (&*part.what, part.count, part.of),
                (&*format!("the table of {name}"), count, of)
            );
            let each = part.bytes / count;
            assert!(
                (least..8 * least).contains(&each),
                "{part:?}: {each} bytes each"
            );
        }
    }
}
