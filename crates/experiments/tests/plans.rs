//! Every plan of the repository in its reduced form: it runs, gives the same bytes again, in one
//! piece or in shards, and what theory says of it holds.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use tempfile::{TempDir, tempdir};
use twinpath_experiments::run::{self, Outcome, plans};
use twinpath_experiments::verdict::Verdict;
use twinpath_experiments::{ExperimentError, Options, Plan, Scale, Shard, document};

static PLANS: LazyLock<Vec<Plan>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans");
    plans(&folder).expect("the repository's plans are good")
});

fn quick(plan: &Plan, shard: &str, out: &Path) -> Outcome {
    let options = Options {
        scale: Scale::Quick,
        shard: shard.parse().expect("a shard"),
    };
    run::run(plan, options, out, &mut |_, _| ()).expect("a run")
}

/// Every file of a folder.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("a folder");
    entries
        .map(|entry| entry.expect("an entry").path())
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy();
            (name.into_owned(), fs::read(&path).expect("a file"))
        })
        .collect()
}

fn plan(name: &str) -> &'static Plan {
    let found = PLANS.iter().find(|plan| plan.name == name);
    found.expect("one of the repository's plans")
}

/// Bounds and facts hold for short runs, too.
fn is_theory(source: &str) -> bool {
    ["Fact", "Theorem", "Corollary", "the mechanism"]
        .iter()
        .any(|word| source.starts_with(word))
}

/// In a short run the packets that come by chance are a percent or two more or less than asked for.
fn is_near(verdict: &Verdict) -> bool {
    verdict.deviation().abs() < 0.04
}

#[test]
fn every_plan_runs_and_gives_the_same_bytes_again() {
    let folders = [tempdir().unwrap(), tempdir().unwrap()];
    for plan in PLANS.iter() {
        let [first, second] = folders.each_ref().map(|f| f.path().join(&plan.name));
        let outcome = quick(plan, "1/1", &first);
        quick(plan, "1/1", &second);
        assert!(files(&first) == files(&second), "{} differs", plan.name);
        let expects = !plan.expectations.is_empty();
        assert_eq!(expects, !outcome.verdicts.is_empty(), "{}", plan.name);
        assert_eq!(files(&first).len(), 3 + plan.figures.len());
        let theory = |index: usize| is_theory(&plan.expectations[index].source);
        let mut verdicts = outcome.verdicts.iter();
        let broken = verdicts.find(|v| theory(v.expectation) && !v.inside && !is_near(v));
        assert_eq!(broken, None, "{}", plan.name);
    }
}

#[test]
fn shards_join_to_the_whole() {
    let plan = plan("turboswitch-fig5");
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    quick(plan, "1/1", &at("whole"));
    let parts: Vec<PathBuf> = (1..=3)
        .map(|part| {
            let out = at(&part.to_string());
            let outcome = quick(plan, &format!("{part}/3"), &out);
            assert!(outcome.points == 4 && outcome.verdicts.is_empty());
            out
        })
        .collect();
    let reversed: Vec<PathBuf> = parts.iter().rev().cloned().collect();
    run::merge(&reversed, &at("merged")).unwrap();
    assert!(files(&at("merged")) == files(&at("whole")));
}

#[test]
fn shards_that_do_not_make_a_whole_are_refused() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let fig4 = plan("turboswitch-fig4");
    quick(fig4, "1/2", &at("a"));
    quick(fig4, "2/2", &at("b"));
    quick(fig4, "1/1", &at("all"));
    quick(plan("turboswitch-fig7"), "2/2", &at("other"));
    let merge = |names: &[&str]| {
        let folders: Vec<PathBuf> = names.iter().map(|name| at(name)).collect();
        run::merge(&folders, &at("out")).err()
    };
    assert!(matches!(
        merge(&["a"]),
        Some(ExperimentError::MissingPoint {
            point: 1,
            points: 9
        })
    ));
    assert!(matches!(
        merge(&["a", "all"]),
        Some(ExperimentError::DoubledPoint(0))
    ));
    assert!(matches!(
        merge(&["a", "other"]),
        Some(ExperimentError::DifferentPlans { .. })
    ));
    assert!(merge(&["a", "b"]).is_none() && merge(&["a", "b", "a"]).is_none());
    let table = at("b").join("points.2-of-2.csv");
    let text = fs::read_to_string(&table).unwrap();
    fs::write(&table, text.replacen("\n1,20,", "\n1,21,", 1)).unwrap();
    assert!(matches!(
        merge(&["a", "b"]),
        Some(ExperimentError::ForeignRow { row: 1, .. })
    ));
}

#[test]
fn figures_are_well_formed_and_show_what_is_expected() {
    let (folder, plan) = (tempdir().unwrap(), plan("turboswitch-fig4"));
    quick(plan, "1/1", folder.path());
    for figure in &plan.figures {
        let path = folder.path().join(format!("{}.svg", figure.name));
        let svg = fs::read_to_string(path).unwrap();
        roxmltree::Document::parse(&svg).expect("well-formed");
    }
    let queue = fs::read_to_string(folder.path().join("queue.svg")).unwrap();
    let document = roxmltree::Document::parse(&queue).unwrap();
    let texts: Vec<&str> = document
        .descendants()
        .filter_map(|node| node.text())
        .map(str::trim)
        .collect();
    for expected in ["at most: Theorem 1", "at least: Fact 2", "queue_kb", "kB"] {
        assert!(texts.contains(&expected), "{expected} is not in {texts:?}");
    }
    let circles = document
        .descendants()
        .filter(|node| node.has_tag_name("circle"));
    // Nine of the independent simulation and one in the legend, twice one for 90 Gb/s.
    assert_eq!(circles.count(), 9 + 1 + 2 * 2);
}

#[test]
fn the_page_tells_every_plan_and_what_is_outside() {
    let folder: TempDir = tempdir().unwrap();
    let names = ["turboswitch-fig6-exact", "turboswitch-fig7"];
    let outcomes = names.map(|name| {
        let out = folder.path().join("reproduction").join(name);
        quick(plan(name), "1/1", &out)
    });
    let page = folder.path().join("REPRODUCTION.md");
    document::write(&outcomes, &page).unwrap();
    let text = fs::read_to_string(page).unwrap();
    for expected in [
        "## turboswitch-fig6-exact",
        "](reproduction/turboswitch-fig7/queue.svg)",
        "Outside, recirculations by paper: 3 at low load: 3 rounds at 10 Gb/s",
        "- input_gbps = 10: ",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
}

#[test]
fn a_shard_is_not_taken_for_the_whole() {
    assert_ne!("1/2".parse::<Shard>().unwrap(), Shard::default());
}
