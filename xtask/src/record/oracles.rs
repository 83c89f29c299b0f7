//! The table of oracles, of what tests tell while they run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The modules of tests that compare runs with the slow path alone, or, where packets race, with the functions
/// of each element alone.
const MODULES: [&str; 17] = [
    "any_chain",
    "crossings",
    "evasions",
    "migration",
    "oracle_both_versions",
    "oracle_captures",
    "oracle_derived",
    "oracle_generated",
    "oracle_instances",
    "oracle_rules",
    "oracle_split",
    "parking",
    "payloads",
    "racing",
    "shards",
    "split",
    "time",
];

/// Tests in which nothing is to come to the fast path, and why.
const ON_SLOW_PATH: [(&str, &str); 1] = [(
    "time::latency",
    "its link is so slow that flows end before anything of them is back",
)];

/// All runs of one test.
#[derive(Default)]
struct Test {
    runs: u64,
    over: BTreeSet<String>,
    packets: u64,
    on_fast_path: u64,
    /// By function: what it counted.
    functions: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Runs the tests and makes the page; nothing if one of them fails.
pub fn page(root: &Path) -> Option<String> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--workspace", "--no-fail-fast"]);
    let output = command
        .args(["--test", "node", "--test", "pressure", "--", "--nocapture"])
        .args(MODULES.map(|module| format!("{module}::")))
        .stderr(Stdio::inherit())
        .current_dir(root)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        println!("{text}");
        return None;
    }
    let tests = tests(&text);
    let void = void(&tests);
    if !void.is_empty() {
        println!("nothing came to the fast path in {}", void.join(", "));
        return None;
    }
    Some(table(&tests))
}

/// Tests in which nothing came to the fast path and should have.
fn void(tests: &BTreeMap<String, Test>) -> Vec<&str> {
    let is_meant = |name: &str| ON_SLOW_PATH.iter().any(|(test, _)| *test == name);
    let void = tests
        .iter()
        .filter(|(name, test)| test.on_fast_path == 0 && !is_meant(name));
    void.map(|(name, _)| name.as_str()).collect()
}

/// What lines of tests tell, by test.
fn tests(text: &str) -> BTreeMap<String, Test> {
    let mut tests: BTreeMap<String, Test> = BTreeMap::new();
    for line in text.lines() {
        let Some((_, told)) = line.split_once("oracle | ") else {
            continue;
        };
        let parts: Vec<&str> = told.splitn(5, " | ").collect();
        let [test, over, packets, on_fast_path, did] = parts[..] else {
            continue;
        };
        let test = tests.entry(test.to_owned()).or_default();
        test.runs += 1;
        test.over.insert(over.to_owned());
        test.packets += packets.parse().unwrap_or(0);
        test.on_fast_path += on_fast_path.parse().unwrap_or(0);
        test.add(did);
    }
    tests
}

impl Test {
    /// `acl: denied 3, allowed 5; napt: sessions_created 2`.
    fn add(&mut self, did: &str) {
        for function in did.split("; ") {
            let Some((name, counters)) = function.split_once(": ") else {
                continue;
            };
            let own = self.functions.entry(unnumbered(name).to_owned());
            let own = own.or_default();
            let counters = counters.split(", ");
            for (counter, count) in counters.filter_map(|one| one.rsplit_once(' ')) {
                *own.entry(counter.to_owned()).or_default() += count.parse().unwrap_or(0);
            }
        }
    }

    fn did(&self) -> String {
        let function = |(name, counters): (&String, &BTreeMap<String, u64>)| {
            let counters = counters.iter();
            let counters = counters.map(|(counter, count)| format!("{counter} {count}"));
            match counters.len() {
                0 => format!("{name}: nothing"),
                _ => format!("{name}: {}", counters.collect::<Vec<_>>().join(", ")),
            }
        };
        let functions = self.functions.iter().map(function);
        functions.collect::<Vec<_>>().join("; ")
    }
}

/// A function's name without the number of its place in the chain, `acl` of `acl_2`.
fn unnumbered(name: &str) -> &str {
    match name.rsplit_once('_') {
        Some((function, number)) if number.parse::<u32>().is_ok() => function,
        _ => name,
    }
}

fn table(tests: &BTreeMap<String, Test>) -> String {
    let mut page = String::from(
        "Each run is compared with the slow path alone: the same packets, byte for byte, in the same \
         order per flow and direction. Where packets race it is compared with what the functions of each \
         element alone make of them in the order in which the element took them. What functions did is the \
         sum over a test's runs; tests assert more of it, and of the share of the fast path, run by run.\n\n\
         | test | runs | over | packets | on the fast path | what each function did |\n|---|---|---|---|---|---|\n",
    );
    for (name, test) in tests {
        let share = 100.0 * test.on_fast_path as f64 / test.packets.max(1) as f64;
        let over = match test.over.len() {
            few @ 0..=3 if few > 0 => {
                let names: Vec<&str> = test.over.iter().map(String::as_str).collect();
                names.join(", ")
            }
            many => format!("{many} captures"),
        };
        _ = writeln!(
            page,
            "| {name} | {} | {over} | {} | {share:.1} % | {} |",
            test.runs,
            test.packets,
            test.did()
        );
    }
    let told = ON_SLOW_PATH
        .iter()
        .filter(|(test, _)| tests.contains_key(*test));
    for (test, why) in told {
        _ = write!(page, "\nNothing of {test} is on the fast path: {why}.\n");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_told_whatever_their_places() {
        let text = "oracle | any | z | 1 | 1 | acl_0: allowed 4; kv_store_12: gets 1; acl_3: denied 2; acl: allowed 1\n\
            oracle | any | z | 1 | 1 | kv_store: gets 2; nptv6: past 1\n";
        let did = tests(text)["any"].did();
        assert_eq!(
            did,
            "acl: allowed 5, denied 2; kv_store: gets 3; nptv6: past 1"
        );
    }

    #[test]
    fn runs_of_a_test_are_summed() {
        let text = "running 2 tests\noracle | a::one | x.pcap | 10 | 5 | acl: allowed 4, denied 1; napt: \n\
            test one ... oracle | a::one | y.pcap | 30 | 5 | acl: denied 2\noracle | a::two | z | 1 | 1 | \n";
        let found = tests(text);
        let one = &found["a::one"];
        assert_eq!((one.runs, one.packets, one.on_fast_path), (2, 40, 10));
        assert_eq!(one.did(), "acl: allowed 4, denied 3; napt: nothing");
        let page = table(&found);
        assert!(
            page.contains("| a::one | 2 | x.pcap, y.pcap | 40 | 25.0 % |"),
            "{page}"
        );
        assert!(void(&found).is_empty());
    }

    #[test]
    fn a_test_without_a_fast_path_is_void_but_for_those_that_are_meant_to_be() {
        let found =
            tests("oracle | a::one | x | 9 | 0 | \noracle | time::latency | x | 9 | 0 | \n");
        assert_eq!(void(&found), ["a::one"]);
        assert!(table(&found).contains("Nothing of time::latency is on the fast path: "));
    }
}
