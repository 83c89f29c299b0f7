//! `twinpath lab`

use crate::folder::{Folder, signal, waits_for_signals};
use std::io::{BufRead, BufReader};
use std::time::Duration;

const PLAN: &str = r#"
[plan]
title = "A question"
figure = "none"
model = "turboswitch"

[parameters]
input_gbps = [20, 50, 80]
packets = 5_000

[quick]
packets = 1_000

[[figure]]
name = "queue"
x = "input_gbps"
y = ["queue_kb"]

[[expect]]
of = "output_gbps"
source = "nobody"
values = 50.0
within = 0.1
"#;

#[test]
fn a_plan_is_run_and_values_outside_without_a_cause_are_a_negative_answer() {
    let folder = Folder::with("question.toml", PLAN);
    let said = folder.run(&["lab", "run", "question.toml"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.out.contains("1 of 3 inside"), "{said:?}");
    assert!(said.out.contains("outside at input_gbps = 20"), "{said:?}");
    let points = String::from_utf8(folder.read("lab-results/question/points.csv")).unwrap();
    assert_eq!(points.lines().count(), 4);

    let explained = PLAN.replace("within = 0.1", "within = 0.1\ncause = \"it varies\"");
    folder.write("question.toml", explained.as_bytes());
    let said = folder.succeed(&["lab", "run", "question.toml", "--quick", "--out", "again"]);
    assert!(said.out.contains("because: it varies"), "{said:?}");
}

#[test]
fn shards_are_joined_to_what_one_run_writes() {
    let folder = Folder::with("question.toml", PLAN);
    let run = |out: &str, shard: &str| {
        folder.run(&[
            "lab",
            "run",
            "question.toml",
            "--out",
            out,
            "--shard",
            shard,
        ]);
    };
    run("whole", "1/1");
    run("first", "1/2");
    run("second", "2/2");
    let said = folder.run(&["lab", "merge", "second", "first", "--out", "merged"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    for file in ["points.csv", "verdicts.csv", "queue.svg"] {
        let [whole, merged] =
            ["whole", "merged"].map(|part| folder.read(&format!("{part}/{file}")));
        assert!(whole == merged, "{file}");
    }
    let said = folder.run(&["lab", "merge", "first", "--out", "merged"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("point 1 of 3 is in no shard"), "{said:?}");
}

#[test]
fn all_plans_make_a_page() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("plans")).unwrap();
    folder.write(
        "plans/question.toml",
        PLAN.replace("within = 0.1", "within = 1.0").as_bytes(),
    );
    folder.succeed(&["lab", "all"]);
    let page = String::from_utf8(folder.read("REPRODUCTION.md")).unwrap();
    assert!(
        page.contains("](reproduction/question/queue.svg)"),
        "{page}"
    );
}

#[test]
fn a_wrong_plan_is_told_with_its_place() {
    let folder = Folder::with(
        "question.toml",
        &PLAN.replace("packets = 5_000", "packetz = 5_000"),
    );
    let said = folder.run(&["lab", "run", "question.toml"]);
    assert_eq!(said.code, Some(2));
    assert!(
        said.err.contains("question.toml:9:11: packetz:"),
        "{said:?}"
    );
}

#[test]
fn models_tell_what_they_measure() {
    let said = Folder::new().succeed(&["lab", "models"]);
    assert!(
        said.out.contains("turboswitch measures") && said.out.contains("queue_kb"),
        "{said:?}"
    );
}

/// The question that the plans' page goes through is asked as it stands there: its files as printed, and
/// its commands.
#[test]
fn the_page_of_plans_has_an_example_that_runs_as_printed() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("plans/README.md")).unwrap();
    let folder = Folder::new();
    let commands = |program: &str| -> Vec<Vec<String>> {
        let lines = page.lines().filter_map(|line| line.strip_prefix("    "));
        let ours = lines.filter_map(|line| line.strip_prefix(program));
        let words = |line: &str| {
            let command = line.split('#').next().unwrap_or_default();
            command.split_whitespace().map(str::to_owned).collect()
        };
        ours.map(words).collect()
    };
    let copies = commands("cp ");
    assert_eq!(copies.len(), 2, "{copies:?}");
    for copy in &copies {
        std::fs::copy(root.join(&copy[0]), folder.path(&copy[1])).unwrap();
    }
    // A block belongs to the file that the line before it names.
    let mut written = 0;
    let parts: Vec<&str> = page.split("```").collect();
    for pair in parts.chunks_exact(2) {
        let (before, block) = (pair[0], pair[1]);
        let name = before.trim().rsplit('`').nth(1).expect("a file's name");
        let (_, text) = block.split_once('\n').expect("a block");
        folder.write(name, text.as_bytes());
        written += 1;
    }
    assert_eq!(written, 2);
    let runs = commands("twinpath ");
    assert!(runs.len() >= 2, "{runs:?}");
    for run in runs {
        let arguments: Vec<&str> = run.iter().map(String::as_str).collect();
        let said = folder.run(&arguments);
        // Bursts spoil what was hoped for.
        let is_run = arguments[1] == "run";
        assert_eq!(said.code, Some(i32::from(is_run)), "{said:?}");
        assert_eq!(said.out.contains("5 of 6 inside"), is_run, "{said:?}");
    }
    for file in ["points.csv", "verdicts.csv", "latency.svg"] {
        assert!(!folder.read(&format!("lab-results/mine/{file}")).is_empty());
    }
}

/// Points may take minutes: whoever asks for the end hears at once that it comes behind them, and has it at
/// once by asking again.
#[test]
fn a_request_to_end_is_answered_at_once_and_a_second_one_ends_the_run() {
    let plan = PLAN.replace("packets = 5_000", "packets = 1_000_000_000");
    let folder = Folder::with("question.toml", &plan);
    let mut child = folder.start(&["lab", "run", "question.toml"]);
    waits_for_signals(&child);
    // Its points are under way.
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, "TERM");
    let mut said = String::new();
    let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
    errors.read_line(&mut said).expect("it says something");
    assert!(
        said.starts_with("stopping: the points under way"),
        "{said:?}"
    );
    signal(&child, "TERM");
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(128 + 15), "{status}");
    assert!(!folder.path("lab-results").exists());
}

/// A table of what was measured ends a run, and values that were put in are told apart.
#[test]
fn a_run_ends_with_its_values() {
    let plan = PLAN.replace("within = 0.1", "within = 0.1\ninput = \"it was chosen so\"");
    let folder = Folder::with("question.toml", &plan);
    let said = folder.succeed(&["lab", "run", "question.toml"]);
    assert!(said.out.contains("input: it was chosen so"), "{said:?}");
    let lines: Vec<&str> = said.out.lines().map(str::trim).collect();
    let head = lines
        .iter()
        .position(|line| line.starts_with("input_gbps  queue_kb  output_gbps"));
    let head = head.expect("a table");
    let cells: Vec<&str> = lines[head + 2].split_whitespace().collect();
    assert_eq!((lines.len() - head, cells[0]), (4, "50"), "{said:?}");
    assert!(
        cells[2]
            .parse::<f64>()
            .is_ok_and(|gbps| (45.0..55.0).contains(&gbps)),
        "{said:?}"
    );
}
