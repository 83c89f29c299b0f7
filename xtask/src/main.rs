//! What a developer runs: `cargo xtask test`, `cargo xtask fuzz`, `cargo xtask bench`, and
//! `cargo xtask manual`, which writes the pages of docs/ that follow from the code, and `cargo xtask
//! deb`, which makes a Debian package; `cargo xtask installed` makes it and tries it under a systemd.
//!
//! `test` is everything a change must pass: format, lints, the tests of all crates, that no oracle among
//! them ran without its fast path, the benches' smoke run, the examples, circles of files, the package where
//! it is installed (`installed`), and the tests with an RDMA card (`verbs`). All of it draws the same cases every time, so that what passed once passes
//! again.
//!
//! `cargo xtask explore` looks for what nobody has seen and fails when it finds something: property
//! tests, the fault simulation and the fuzz targets, each also alone: `properties`, `faults`, `fuzz`. What it
//! finds was there before a change, so it is no step of `test`; it tells the seed, with which it finds it again.
//!
//! `cargo xtask record` measures what is kept in the folder `measured`: lines of code beside those of
//! one or two other revisions, benches beside those of another, what DASH takes, the table of oracles, how long a clean clone
//! takes to be built and tested, how long a service takes to start, and how much memory a gateway takes that
//! is under load for half an hour, or as many minutes as somebody says, and what a DPU loses while connections
//! come and go and policies change. `cargo xtask garbage` has services on cables full of garbage for a minute each, or as
//! many seconds as somebody says. `cargo xtask beside-nftables`
//! measures Twinpath and the kernel's nftables on the same packets, between network namespaces, and `record
//! nftables` keeps what it writes. `cargo xtask verbs` runs the tests with an RDMA card in a virtual machine.
#![forbid(unsafe_code)]

mod circles;
mod deb;
mod failures;
mod features;
mod fuzz;
mod installed;
mod oracles;
mod packaged_docs;
mod programs;
mod properties;
mod record;
mod verbs;
mod virtual_machine;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test"] => run_all(&test_steps()),
        ["properties"] => run_all(&[properties_step(fresh_seed())]),
        ["properties", seed] => match seed.parse() {
            Ok(seed) => run_all(&[properties_step(seed)]),
            Err(_) => usage(),
        },
        ["faults"] => run_all(&[faults_step(fresh_seed())]),
        ["faults", seed] => match seed.parse() {
            Ok(seed) => run_all(&[faults_step(seed)]),
            Err(_) => usage(),
        },
        ["fuzz"] => run_all(&[fuzz_step(60)]),
        ["fuzz", seconds] => match seconds.parse() {
            Ok(seconds) => run_all(&[fuzz_step(seconds)]),
            Err(_) => usage(),
        },
        ["explore"] => run_all(&[
            properties_step(fresh_seed()),
            faults_step(fresh_seed()),
            fuzz_step(60),
        ]),
        ["manual"] => run_all(&[step(
            "manual",
            cargo(&["run", "--quiet", "--package", "twinpath-manual"]),
        )]),
        ["circles"] => run_all(&[circles_step()]),
        ["garbage"] => run_all(&[garbage_step(60)]),
        ["garbage", seconds] => match seconds.parse() {
            Ok(seconds) => run_all(&[garbage_step(seconds)]),
            Err(_) => usage(),
        },
        ["verbs"] => run_all(&[verbs_step()]),
        ["in-virtual-machine", program @ ..] => match verbs::run(program) {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        },
        ["deb"] => run_all(&[step("Debian package", deb::build)]),
        ["installed"] => run_all(&[step("Debian package", deb::build), installed_step()]),
        ["bench"] => run_all(&[step(
            "benches",
            cargo(&["bench", "--package", "twinpath-benches"]),
        )]),
        ["record", "oracles"] => run_all(&[step("table of oracles", || record::oracles(&root()))]),
        ["record", "times"] => run_all(&[step("times", || record::times(&root()))]),
        ["record", "start"] => run_all(&[step("start", || record::start(&root()))]),
        ["record", "soak"] => run_all(&[soak_step("30")]),
        ["record", "soak", minutes] if minutes.parse().is_ok_and(|minutes: f64| minutes > 0.0) => {
            run_all(&[soak_step(minutes)])
        }
        ["record", "zero-loss"] => run_all(&[zero_loss_step("2")]),
        ["record", "zero-loss", minutes]
            if minutes.parse().is_ok_and(|minutes: f64| minutes > 0.0) =>
        {
            run_all(&[zero_loss_step(minutes)])
        }
        ["record", "lines"] => run_all(&[lines_step(&[record::BEFORE])]),
        ["record", "lines", revisions @ ..] if (1..=2).contains(&revisions.len()) => {
            run_all(&[lines_step(revisions)])
        }
        ["record", "benches"] => run_all(&[benches_step(record::BEFORE)]),
        ["record", "benches", revision] => run_all(&[benches_step(revision)]),
        ["record", "dash"] => run_all(&[step("DASH", || record::dash(&root()))]),
        ["record", "nftables"] => run_all(&nftables_steps(&["--out", "measured/beside-nftables"])),
        ["beside-nftables", rest @ ..] => run_all(&nftables_steps(rest)),
        _ => usage(),
    }
}

/// A DPU whose policies change for so many minutes.
fn zero_loss_step(minutes: &str) -> Step {
    let minutes = minutes.to_owned();
    step("zero loss", move || record::zero_loss(&root(), &minutes))
}

/// A gateway under load for so many minutes.
fn soak_step(minutes: &str) -> Step {
    let minutes = minutes.to_owned();
    step("soak", move || record::soak(&root(), &minutes))
}

/// Each service and driver on a cable full of garbage for so many seconds.
fn garbage_step(seconds: u32) -> Step {
    step("garbage", move || {
        let test = [
            "test",
            "--release",
            "--package",
            "twinpath",
            "--test",
            "wire",
        ];
        succeeds(
            Command::new(env!("CARGO"))
                .args(test)
                .args(["--", "--nocapture", "--test-threads=1", "garbage::"])
                .env("TWINPATH_GARBAGE_SECONDS", seconds.to_string())
                .current_dir(root()),
        )
    })
}

/// Twinpath is built, and measured beside nftables.
fn nftables_steps(words: &[&str]) -> [Step; 2] {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    [
        step(
            "twinpath",
            cargo(&["build", "--release", "--package", "twinpath"]),
        ),
        step("beside nftables", move || beside_nftables(&words)),
    ]
}

/// Twinpath and nftables in turns; the words are the program's.
fn beside_nftables(words: &[String]) -> bool {
    let run = ["run", "--release", "--package", "twinpath-benches"];
    succeeds(
        Command::new(env!("CARGO"))
            .args(run)
            .args(["--bin", "beside_nftables", "--"])
            .args(words)
            .current_dir(root()),
    )
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: cargo xtask test | explore | properties [SEED] | faults [SEED] | fuzz [SECONDS PER TARGET] | bench | circles | garbage [SECONDS] | record oracles|times|start|dash|nftables | record lines [REVISION [LATER REVISION]] | record benches [REVISION] | record soak [MINUTES] | record zero-loss [MINUTES] | beside-nftables [--rounds N] [--seconds N] [--out DIR] | verbs | manual | deb"
    );
    ExitCode::from(2)
}

/// One thing to do, with its name.
struct Step {
    name: &'static str,
    does: Box<dyn Fn() -> Outcome>,
}

/// What came of a step: the error has lines that tell what failed.
type Outcome = Result<(), Vec<String>>;

/// A step that tells itself, while it runs, what fails.
fn step(name: &'static str, does: impl Fn() -> bool + 'static) -> Step {
    step_of_tests(name, move || does().then_some(()).ok_or_else(Vec::new))
}

/// A step whose failures are told again where all ends.
fn step_of_tests(name: &'static str, does: impl Fn() -> Outcome + 'static) -> Step {
    Step {
        name,
        does: Box::new(does),
    }
}

fn test_steps() -> Vec<Step> {
    vec![
        step("format", cargo(&["fmt", "--all", "--check"])),
        step("packages of features", || {
            features::missing().is_none_or(may_skip)
        }),
        step("lints", || {
            let mut lints = features::cargo("clippy");
            succeeds(lints.args(["--all-targets", "--", "--deny", "warnings"]))
        }),
        circles_step(),
        step_of_tests("tests", || passes(KNOWN_SEED, &[])),
        step_of_tests("oracles bite", || oracles::check(&root())),
        // Each once, as a test: what is built for tests does for that.
        step("benches run", || {
            succeeds(features::cargo("test").args(["--bench", "*", "--", "--test"]))
        }),
        step("first command", first_command()),
        step("Debian package", debian_package()),
        installed_step(),
        verbs_step(),
    ]
}

/// No two files need each other, but for a parent and what is inside it.
fn circles_step() -> Step {
    step("circles of files", || circles::check(&root()))
}

/// The package, where it is installed.
fn installed_step() -> Step {
    step("package installed", || match installed::missing() {
        Some(package) => may_skip(package),
        None => deb::newest().is_some_and(|package| installed::works(&package)),
    })
}

/// Tests with an RDMA card, which only a virtual machine has.
fn verbs_step() -> Step {
    step("verbs", || match verbs::missing() {
        Some(package) => may_skip(package),
        None => verbs::test(),
    })
}

/// All fuzz targets, each for so many seconds.
fn fuzz_step(seconds: u64) -> Step {
    step("fuzz", move || match has_compiler() {
        true => fuzz::run(&root(), seconds),
        false => may_skip("g++"),
    })
}

/// Whether there is a compiler of C++, or can be.
fn has_compiler() -> bool {
    succeeds(Command::new("c++").arg("--version")) || installs("g++")
}

/// Lines of code beside those of other revisions.
fn lines_step(revisions: &[&str]) -> Step {
    let revisions: Vec<String> = revisions.iter().map(|one| (*one).to_owned()).collect();
    step("lines of code", move || record::lines(&root(), &revisions))
}

/// All benches beside those of another revision.
fn benches_step(revision: &str) -> Step {
    let revision = revision.to_owned();
    step("benches side by side", move || {
        record::benches(&root(), &revision)
    })
}

/// Runs every step, also after one has failed, and tells at the end which did, and what in them.
fn run_all(steps: &[Step]) -> ExitCode {
    let (mut failed, all_started) = (Vec::new(), Instant::now());
    for step in steps {
        let started = Instant::now();
        println!("\n==== {} ====", step.name);
        let outcome = (step.does)();
        println!(
            "==== {}: {} in {} s ====",
            step.name,
            if outcome.is_ok() { "passed" } else { "FAILED" },
            started.elapsed().as_secs()
        );
        failed.extend(outcome.err().map(|lines| (step, lines)));
    }
    println!(
        "\nsteps: {} passed, {} failed, in {} s together",
        steps.len() - failed.len(),
        failed.len(),
        all_started.elapsed().as_secs()
    );
    for (step, lines) in &failed {
        println!("failed: {}", step.name);
        lines.iter().for_each(|line| println!("    {line}"));
    }
    match failed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn cargo(arguments: &'static [&'static str]) -> impl Fn() -> bool {
    move || {
        succeeds(
            Command::new(env!("CARGO"))
                .args(arguments)
                .current_dir(root()),
        )
    }
}

/// From where cases are drawn that are the same every time; the step after the tests draws new ones.
const KNOWN_SEED: u64 = 20_261_122;

/// Property tests once more, with cases that nobody has seen.
fn properties_step(seed: u64) -> Step {
    step_of_tests("property tests, new cases", move || {
        let again = format!("cargo xtask properties {seed}");
        println!("seed {seed}: the same again with `{again}`");
        let passed = passes(seed, &properties::tests(&root()));
        passed.map_err(|mut lines| {
            lines.push(format!("seed {seed}: the same again with `{again}`"));
            lines
        })
    })
}

/// Runs tests: all, or those that cargo is told of.
fn passes(seed: u64, which: &[String]) -> Outcome {
    let mut command = features::cargo("test");
    command
        .arg("--no-fail-fast")
        .args(which)
        .env("PROPTEST_RNG_SEED", seed.to_string());
    oracles::write_rows(&mut command, &root());
    failures::of(&mut command)
}

/// New runs of the fault simulation.
const FAULT_RUNS: &str = "2000";

/// The fault simulation with seeds that nobody has seen, from this one on. It is no step of `test`: what
/// it finds is for whoever looks for it, and not a reason to refuse the change that is tested.
fn faults_step(seed: u64) -> Step {
    step("fault simulation, new seeds", move || {
        let first = seed.to_string();
        println!("seeds from {first}: the same again with `cargo xtask faults {first}`");
        let runs = ["--seeds", FAULT_RUNS, "--first", &first];
        succeeds(
            Command::new(env!("CARGO"))
                .args(["run", "--release", "--", "check", "faults"])
                .args(runs)
                .current_dir(root()),
        )
    })
}

/// A seed that nobody has seen.
fn fresh_seed() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.map_or(0, |time| time.as_nanos() as u64)
}

/// What is in a folder; nothing if there is none.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The names of files without what follows the point, in order.
fn names(files: &[PathBuf]) -> Vec<String> {
    let name = |path: &PathBuf| Some(path.file_stem()?.to_string_lossy().into_owned());
    let mut names: Vec<String> = files.iter().filter_map(name).collect();
    names.sort();
    names
}

/// The README's first command, shortened.
fn first_command() -> impl Fn() -> bool {
    cargo(&[
        "run",
        "--release",
        "--",
        "run",
        "examples/edge.toml",
        "--for",
        "2s",
        "--report",
        "target/first-command",
    ])
}

/// A package, where there is what makes one.
fn debian_package() -> impl Fn() -> bool {
    || match Command::new("dpkg-deb").arg("--version").output() {
        Ok(_) => deb::build(),
        Err(_) => may_skip("dpkg"),
    }
}

/// What becomes of a step whose package is not there, and cannot be installed: it is skipped, but with
/// `CI=true` it fails.
fn may_skip(package: &str) -> bool {
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    match is_ci {
        true => println!("{package} is not installed, and CI is true: install it"),
        false => println!("skipped: {package} is not installed"),
    }
    !is_ci
}

/// Where things are built that are of a folder.
fn target_folder(folder: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| folder.join("target"), PathBuf::from)
}

/// Whether a package is installed; as root it is installed if it is not.
fn has_package(package: &str) -> bool {
    let mut known = Command::new("dpkg");
    known.args(["-s", package]);
    let known = known.stdout(Stdio::null()).stderr(Stdio::null()).status();
    known.is_ok_and(|status| status.success()) || installs(package)
}

/// Installs a Debian package where we may: as root.
fn installs(package: &str) -> bool {
    is_root()
        && succeeds(Command::new("apt-get").args(["update", "-qq"]))
        && succeeds(Command::new("apt-get").args(["install", "-y", "-qq", package]))
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.starts_with(b"0\n"))
}

fn succeeds(command: &mut Command) -> bool {
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            println!("{}: {error}", command.get_program().to_string_lossy());
            false
        }
    }
}

fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.parent().unwrap_or(folder).to_owned()
}
