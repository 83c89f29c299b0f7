//! What tests tell of runs that they compare with the slow path alone: `cargo xtask test` refuses those in
//! which nothing came to the fast path, and `cargo xtask record oracles` makes a table of all.

use crate::{files_in, names};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// The programs of tests that run a node on both paths, and where their modules are.
const PROGRAMS: [&str; 2] = ["node", "pressure"];
const FOLDER: &str = "crates/node/tests";

/// What a module names that runs a service on the slow path alone.
const SLOW_PATH_ALONE: &str = "Paths::Slow";

/// Modules that run a service on the slow path alone and compare nothing with it, and why.
const NO_ORACLES: [(&str, &str); 1] = [(
    "watch",
    "compares a run that is followed with one that is not",
)];

/// Tests in which nothing is to come to the fast path, and why.
const ON_SLOW_PATH: [(&str, &str); 11] = [
    (
        "time::latency",
        "its link is so slow that flows end before anything of them is back",
    ),
    ("rate_limiter::buckets_of_networks", MANY_FLOWS),
    (
        "steady_flows::where_none_may_wait_they_stay_on_the_slow_path",
        "it is what the test asserts",
    ),
    ("mtu::senders_behind_nat64_are_told_of_ipv6_lengths", NAT64),
    (
        "mtu::senders_to_hosts_behind_the_same_nat64_are_told",
        NAT64,
    ),
    (
        "direction::nobody_outside_sends_from_behind_a_translators_prefix",
        NAT64,
    ),
    ("direction::captures_without_ports_go_by_sources", FEW),
    (
        "direction::frames_without_an_ip_packet_are_dropped_and_counted_unless_they_may_pass",
        ASIDE,
    ),
    ("ports::what_has_no_port_to_leave_by_is_lost", ASIDE),
    ("recipes::nobody_gets_into_a_home_unasked", FEW),
    (
        "recipes::subscribers_keep_their_binding_and_can_be_called",
        FEW,
    ),
];
const MANY_FLOWS: &str = "what many flows share is on the slow path alone";
const NAT64: &str = "a translation between IP versions is on the slow path alone";
const FEW: &str = "a handful of packets, of which each asks something else";
const ASIDE: &str = "its frames enter no chain";

/// All runs of one test with the fast path on.
#[derive(Default)]
struct Test {
    runs: u64,
    /// Names of captures, and how packets were made that are in none.
    from: BTreeSet<String>,
    packets: u64,
    on_fast_path: u64,
    /// By function: what it counted.
    functions: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Where tests write their rows, and the variable that tells them.
const ROWS_FILE: &str = "target/oracle-rows.txt";
const ROWS: &str = "TWINPATH_ORACLE_ROWS";

/// Tests that this command runs write their rows; those of earlier ones are gone.
pub fn write_rows(command: &mut Command, root: &Path) {
    let file = root.join(ROWS_FILE);
    _ = std::fs::remove_file(&file);
    command.env(ROWS, file);
}

/// Whether every oracle of the tests that ran bites; what does not is an error.
///
/// # Errors
/// Tests in which nothing came to the fast path, and modules that compare and tell nothing.
pub fn check(root: &Path) -> Result<(), Vec<String>> {
    let tests = written(root);
    let void = void(&tests).into_iter();
    let void = void.map(|test| format!("nothing came to the fast path in {test}"));
    let modules = modules(root);
    let silent = silent(&tests, &modules).into_iter();
    let silent = silent.map(|module| format!("{module} compares and tells nothing"));
    let faults: Vec<String> = void.chain(silent).collect();
    println!(
        "tests that compare with the slow path alone: {}",
        tests.len()
    );
    match faults.is_empty() {
        true => Ok(()),
        false => Err(faults),
    }
}

/// Runs the tests and makes the page; nothing if one of them fails.
pub fn page(root: &Path) -> Option<String> {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["test", "--workspace", "--no-fail-fast"])
        .args(PROGRAMS.iter().flat_map(|program| ["--test", program]))
        .current_dir(root);
    write_rows(&mut command, root);
    if !super::succeeds(&mut command) {
        return None;
    }
    match check(root) {
        Ok(()) => Some(table(&written(root))),
        Err(faults) => {
            faults.iter().for_each(|fault| println!("{fault}"));
            None
        }
    }
}

/// What tests have written.
fn written(root: &Path) -> BTreeMap<String, Test> {
    let text = std::fs::read_to_string(root.join(ROWS_FILE));
    tests(&text.unwrap_or_default())
}

/// The modules of tests that run services on the slow path alone.
fn modules(root: &Path) -> Vec<String> {
    let folders = PROGRAMS.map(|program| root.join(FOLDER).join(program));
    let files = folders.iter().flat_map(|folder| files_in(folder));
    let files: Vec<_> = files.filter(|file| names_slow_path(file)).collect();
    names(&files)
}

fn names_slow_path(file: &Path) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| text.contains(SLOW_PATH_ALONE))
}

/// Modules of which the page would have no line.
fn silent<'m>(tests: &BTreeMap<String, Test>, modules: &'m [String]) -> Vec<&'m str> {
    let tells = |module: &str| {
        let start = format!("{module}::");
        tests.keys().any(|test| test.starts_with(&start))
    };
    let is_meant = |module: &str| NO_ORACLES.iter().any(|(name, _)| *name == module);
    let silent = modules.iter().map(String::as_str);
    silent
        .filter(|module| !tells(module) && !is_meant(module))
        .collect()
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
        let [test, from, packets, on_fast_path, did] = parts[..] else {
            continue;
        };
        let test = tests.entry(test.to_owned()).or_default();
        test.runs += 1;
        test.from.insert(from.to_owned());
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

    /// `25 captures; generated, answered`.
    fn over(&self) -> String {
        let (captures, others): (Vec<_>, Vec<_>) =
            self.from.iter().partition(|from| from.contains(".pcap"));
        let captures = match captures[..] {
            [] => None,
            [one] => Some(one.clone()),
            _ => Some(format!("{} captures", captures.len())),
        };
        let all = captures.into_iter().chain(others.into_iter().cloned());
        all.collect::<Vec<_>>().join("; ")
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
         element alone make of them in the order in which the element took them; where frames are lost and \
         functions panic, what is missing is counted, and the rest is the same. All figures are of the runs \
         with the fast path on, none of the slow path's own: packets that left and their share that the fast \
         path settled, and what functions counted there, as the sum over a test's runs. Tests assert more of \
         these, run by run.\n\n\
         | test | runs | packets come from | packets | on the fast path | what each function did |\n|---|---|---|---|---|---|\n",
    );
    for (name, test) in tests {
        let share = 100.0 * test.on_fast_path as f64 / test.packets.max(1) as f64;
        _ = writeln!(
            page,
            "| {name} | {} | {} | {} | {share:.1} % | {} |",
            test.runs,
            test.over(),
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
            page.contains("| a::one | 2 | 2 captures | 40 | 25.0 % |"),
            "{page}"
        );
        assert!(void(&found).is_empty());
    }

    #[test]
    fn captures_are_counted_and_what_is_made_is_told() {
        let text = "oracle | a::one | generated v6 | 10 | 5 | \noracle | a::one | x.pcapng | 10 | 5 | \n\
            oracle | a::one | generated, answered | 1 | 1 | \n";
        let found = tests(text);
        assert_eq!(
            found["a::one"].over(),
            "x.pcapng; generated v6; generated, answered"
        );
    }

    #[test]
    fn modules_that_compare_and_tell_nothing_are_found() {
        let found = tests("oracle | a::one | x | 9 | 1 | \n");
        let modules = ["a", "aa", "watch"].map(str::to_owned);
        assert_eq!(silent(&found, &modules), ["aa"]);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let own = super::modules(&root);
        for module in ["oracle_rules", "attack", "overload"] {
            assert!(own.iter().any(|name| name == module), "{own:?}");
        }
    }

    #[test]
    fn a_test_without_a_fast_path_is_void_but_for_those_that_are_meant_to_be() {
        let found =
            tests("oracle | a::one | x | 9 | 0 | \noracle | time::latency | x | 9 | 0 | \n");
        assert_eq!(void(&found), ["a::one"]);
        assert!(table(&found).contains("Nothing of time::latency is on the fast path: "));
    }
}
