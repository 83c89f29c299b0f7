//! The fuzz targets under libFuzzer, from what is kept of earlier runs.

use crate::{succeeds, target_folder};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Instrumentation that libFuzzer needs, on the stable compiler.
const FLAGS: &str = "--cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";
/// Flags are not those of programs that build others, if there is one.
const HOST: &str = "x86_64-unknown-linux-gnu";
/// Most targets that run at the same time: each may take gigabytes.
const MOST_AT_ONCE: usize = 4;

/// Builds all targets, and runs each for so many seconds. Each keeps one processor busy, and as many run
/// at the same time as there are processors. What one prints is printed when it ends.
pub fn run(root: &Path, seconds: u64) -> bool {
    let fuzzer = Fuzzer {
        folder: root.join("fuzz"),
        program: target_folder(root).join(HOST).join("fuzz/fuzz"),
        seconds,
    };
    let build = ["build", "--profile", "fuzz", "--target", HOST];
    let package = ["--package", "twinpath-fuzz", "--features", "libfuzzer"];
    let built = succeeds(
        Command::new(env!("CARGO"))
            .args(build)
            .args(package)
            .current_dir(root)
            .env("RUSTFLAGS", FLAGS),
    );
    built && fuzzer.run_all()
}

struct Fuzzer {
    /// The package of the targets.
    folder: PathBuf,
    program: PathBuf,
    seconds: u64,
}

impl Fuzzer {
    fn run_all(&self) -> bool {
        let targets = crate::names(&crate::files_in(&self.folder.join("src/targets")));
        let (next, passed) = (Mutex::new(targets.iter()), AtomicBool::new(true));
        let take = || next.lock().map_or(None, |mut targets| targets.next());
        let run = || {
            while let Some(target) = take() {
                passed.fetch_and(self.run_one(target), Ordering::Relaxed);
            }
        };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..processors.min(MOST_AT_ONCE) {
                scope.spawn(run);
            }
        });
        passed.into_inner()
    }

    fn run_one(&self, target: &str) -> bool {
        let found = self.folder.join("../target/corpus").join(target);
        let kept = self.folder.join("corpus").join(target);
        let made =
            std::fs::create_dir_all(&found).is_ok() && std::fs::create_dir_all(&kept).is_ok();
        if !made {
            println!("fuzz {target}: no room for what it finds");
            return false;
        }
        let mut command = Command::new(&self.program);
        command
            .arg(&found)
            .arg(&kept)
            .args(self.seeds(target))
            .arg(format!("-max_total_time={}", self.seconds))
            .args(["-timeout=10", "-rss_limit_mb=2048", "-max_len=4096"])
            .args(["-print_final_stats=1", "-verbosity=0"])
            .env("FUZZ_TARGET", target)
            .current_dir(&self.folder);
        println!("---- fuzz {target}, up to {} s ----", self.seconds);
        let (passed, told) = told(&mut command);
        let how = if passed { "passed" } else { "FAILED" };
        println!("---- fuzz {target}: {how} ----\n{told}");
        passed
    }

    /// Folders of the repository whose files a target starts from, besides its kept corpus.
    fn seeds(&self, target: &str) -> Vec<PathBuf> {
        let seeds = include_str!("../../fuzz/seeds.txt").lines();
        let seeds = seeds.filter_map(|line| line.strip_prefix(target)?.strip_prefix(' '));
        seeds
            .map(|folder| self.folder.join("..").join(folder))
            .collect()
    }
}

/// Whether a command succeeds, and what it prints.
fn told(command: &mut Command) -> (bool, String) {
    match command.output() {
        Ok(output) => {
            let bytes = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            (output.status.success(), text)
        }
        Err(error) => (false, error.to_string()),
    }
}
