//! What is told of memory, beside what is really allocated.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use twinpath_dash::Files;
use twinpath_dash::config::Store;

/// Counts the bytes that are allocated.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is left to the system's allocator; counting touches no memory that it gives out.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocated() -> usize {
    ALLOCATED.load(Ordering::Relaxed)
}

/// A configuration of one ENI with so many of each.
#[derive(Copy, Clone, Default)]
struct Sizes {
    routes: u32,
    mappings: u32,
    rules: u32,
}

/// Prefixes of a rule.
const PREFIXES: u32 = 20;

fn text(sizes: Sizes) -> String {
    let mut text = String::from(
        r#"[{"DASH_APPLIANCE_TABLE:1": {"sip": "10.1.0.5", "vm_vni": 2001}, "OP": "SET"},
        {"DASH_ROUTING_TYPE_TABLE:vnet_encap": {"action_name": "a", "action_type": "staticencap", "encap_type": "vxlan"}, "OP": "SET"},
        {"DASH_VNET_TABLE:blue": {"vni": 1001}, "OP": "SET"},
        {"DASH_ROUTE_GROUP_TABLE:routes": {"guid": "routes"}, "OP": "SET"},
        {"DASH_ACL_GROUP_TABLE:list": {"ip_version": "ipv4"}, "OP": "SET"}"#,
    );
    let address = |first: u32, number: u32| {
        let [_, a, b, c] = number.to_be_bytes();
        format!("{first}.{a}.{b}.{c}")
    };
    let mut put = |object: String| write!(text, ",\n{object}").expect("a text");
    for number in 0..sizes.routes {
        let prefix = address(10, number * 2);
        put(format!(
            r#"{{"DASH_ROUTE_TABLE:routes:{prefix}/32": {{"routing_type": "vnet", "vnet": "blue"}}, "OP": "SET"}}"#
        ));
    }
    for number in 0..sizes.mappings {
        let (own, host) = (address(11, number), address(100, number / 30));
        put(format!(
            r#"{{"DASH_VNET_MAPPING_TABLE:blue:{own}": {{"routing_type": "vnet_encap", "underlay_ip": "{host}"}}, "OP": "SET"}}"#
        ));
    }
    for number in 0..sizes.rules {
        let prefixes = (0..PREFIXES).map(|at| address(12, (number * PREFIXES + at) * 2) + "/32");
        let prefixes = prefixes.collect::<Vec<_>>().join(",");
        put(format!(
            r#"{{"DASH_ACL_RULE_TABLE:list:{number}": {{"priority": {number}, "action": "allow", "terminating": true, "src_addr": "{prefixes}"}}, "OP": "SET"}}"#
        ));
    }
    text + "]"
}

/// What a configuration takes, as it is told, and as it is allocated.
fn told_and_allocated(sizes: Sizes) -> [usize; 2] {
    let text = text(sizes);
    let before = allocated();
    let mut files = Files::default();
    files.add_text("large.json".into(), text.as_bytes());
    assert!(files.problems.is_empty(), "{:?}", files.problems);
    let mut store = Store::default();
    store.apply(files.changes);
    drop((files.paths, files.problems));
    assert_eq!(store.waiting().count(), 0);
    let told = store.snapshot().configuration.costs().bytes();
    [told, allocated() - before]
}

/// What `twinpath dash check` tells of routes, mappings and rules with prefixes: names of rules are all
/// that is left out.
#[test]
fn what_is_told_is_what_is_allocated() {
    let few = Sizes::default();
    let without = told_and_allocated(few);
    let cases = [
        (
            "routes",
            Sizes {
                routes: 100_000,
                ..few
            },
            0.97,
        ),
        (
            "mappings",
            Sizes {
                mappings: 100_000,
                ..few
            },
            0.97,
        ),
        (
            "rules",
            Sizes {
                rules: 5_000,
                ..few
            },
            0.85,
        ),
    ];
    for (what, sizes, least) in cases {
        let with = told_and_allocated(sizes);
        let [told, allocated] = [0, 1].map(|at| (with[at] - without[at]) as f64);
        let share = told / allocated;
        assert!(
            (least..1.03).contains(&share),
            "{what}: {told} told, {allocated} allocated"
        );
        assert!(allocated > 1_000_000.0, "{what}: {allocated} allocated");
    }
}
