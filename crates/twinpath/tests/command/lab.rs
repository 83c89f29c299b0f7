//! `twinpath lab`

use crate::folder::Folder;

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
