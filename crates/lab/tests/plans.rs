//! Every plan of the repository in its reduced form: it measures what it did when REPRODUCTION.md was
//! written, in one piece or in shards, and what theory says of it holds.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use tempfile::{TempDir, tempdir};
use twinpath_lab::reproduction::{self, Stale};
use twinpath_lab::run::{self, Outcome, plans};
use twinpath_lab::verdict::Verdict;
use twinpath_lab::{ExperimentError, Options, Plan, Scale, Shard, document};

static PLANS: LazyLock<Vec<Plan>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans");
    plans(&folder).expect("the repository's plans are good")
});

fn quick(plan: &Plan, shard: &str, out: &Path) -> Outcome {
    let options = Options {
        scale: Scale::Quick,
        shard: shard.parse().expect("a shard"),
        ..Options::default()
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

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The page is what `twinpath lab all` would write: judged by the reduced runs, whose bytes are kept. So
/// this is also the test that a plan gives the same bytes again.
#[test]
fn reproduction_is_current() {
    let stale = reproduction::check(&PLANS, &root(), &mut |_, _, _| ()).expect("all is there");
    let told: Vec<String> = stale.iter().map(ToString::to_string).collect();
    assert!(
        stale.is_empty(),
        "{}\nREPRODUCTION.md is not current: run `cargo run --release -- lab all`, or with --only the plans above",
        told.join("\n")
    );
}

#[test]
fn theory_holds_in_short_runs_and_every_file_is_written() {
    let folder = tempdir().unwrap();
    let proven = |plan: &&Plan| plan.expectations.iter().any(|e| is_theory(&e.source));
    for plan in PLANS.iter().filter(proven) {
        let out = folder.path().join(&plan.name);
        let outcome = quick(plan, "1/1", &out);
        let ratios = usize::from(!plan.ratios.is_empty());
        assert_eq!(files(&out).len(), 3 + ratios + plan.figures.len());
        let theory = |index: usize| is_theory(&plan.expectations[index].source);
        let mut verdicts = outcome.verdicts.iter();
        let broken = verdicts.find(|v| theory(v.expectation) && !v.inside && !is_near(v));
        assert_eq!(broken, None, "{}", plan.name);
    }
}

/// A cause counts as known if another plan has changed it, and that plan says what must come of it: of
/// the same column, with the same chain.
#[test]
fn causes_are_tested_by_plans_that_measure_the_same() {
    let mut wrong = Vec::new();
    for plan in PLANS.iter() {
        let tested = plan.expectations.iter();
        for expectation in tested.filter(|e| !e.tested_by.is_empty()) {
            let (name, of) = (&expectation.tested_by, &expectation.of);
            let found = PLANS.iter().find(|plan| plan.name == *name);
            let test = found.unwrap_or_else(|| panic!("{}: there is no {name}", plan.name));
            if test.tests_of(plan, expectation).is_empty() {
                wrong.push(format!("{}: {name} does not test {of}", plan.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A column that is also a parameter would be there twice in a table of results.
#[test]
fn every_column_of_a_table_has_a_name_of_its_own() {
    for plan in PLANS.iter() {
        let columns = plan
            .model
            .columns()
            .iter()
            .map(|column| column.name.to_owned());
        let mut names: Vec<String> = plan.parameters(false).into_iter().chain(columns).collect();
        names.sort();
        let doubled = names.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(doubled, None, "{}", plan.name);
    }
}

/// What was measured before a run was to stop is kept, and what was not is told.
#[test]
fn a_cancelled_run_keeps_what_it_has() {
    let (folder, plan) = (tempdir().unwrap(), plan("sfcache-fig13"));
    let stop = Arc::new(AtomicBool::new(false));
    let options = Options {
        stop: Arc::clone(&stop),
        ..Options::default()
    };
    stop.store(true, Ordering::Relaxed);
    let nothing = run::run(plan, options.clone(), folder.path(), &mut |_, _| ()).unwrap();
    assert_eq!((nothing.points, nothing.missing), (0, 8));
    let points = || fs::read_to_string(folder.path().join("points.csv")).unwrap();
    assert_eq!(points().lines().count(), 1);
    stop.store(false, Ordering::Relaxed);
    let turbo = self::plan("turboswitch-fig4");
    let some = run::run(
        turbo,
        Options {
            scale: Scale::Quick,
            ..options
        },
        folder.path(),
        &mut |_, _| stop.store(true, Ordering::Relaxed),
    )
    .unwrap();
    // Points that were being run are finished.
    assert!(
        some.points >= 1 && some.missing >= 1,
        "{} {}",
        some.points,
        some.missing
    );
    assert_eq!(points().lines().count(), 1 + some.points);
    assert_eq!(some.table.len(), 1 + some.points);
    let root = tempdir().unwrap();
    stop.store(true, Ordering::Relaxed);
    assert!(
        reproduction::renew(plan, root.path(), &stop, &mut |_, _, _| ())
            .unwrap()
            .is_none()
    );
    assert!(!root.path().join("reproduction").exists());
}

/// A whole result is worth more than a part of another, of whatever plan it is.
#[test]
fn a_cancelled_run_leaves_a_whole_result_as_it_is() {
    let (folder, plan) = (tempdir().unwrap(), plan("turboswitch-fig4"));
    let whole = quick(plan, "1/1", folder.path());
    let before = files(folder.path());
    let cancelled = |plan: &Plan| {
        let options = Options {
            scale: Scale::Quick,
            stop: Arc::new(AtomicBool::new(true)),
            ..Options::default()
        };
        run::run(plan, options, folder.path(), &mut |_, _| ()).unwrap()
    };
    for plan in [plan, self::plan("sfcache-fig13")] {
        let part = cancelled(plan);
        assert_eq!((part.points, whole.spared.as_ref()), (0, None));
        assert_eq!(part.spared.as_deref(), Some(folder.path()));
        assert_eq!(part.folder, folder.path().join("cancelled"));
        assert!(part.folder.join("points.csv").exists());
        fs::remove_dir_all(&part.folder).unwrap();
        assert_eq!(files(folder.path()), before);
    }
}

#[test]
fn a_page_that_is_not_current_is_told_why() {
    let folder = tempdir().unwrap();
    let root = folder.path();
    let plans = [plan("sfcache-fig13").clone(), plan("sfcache-fig8").clone()];
    let check = |plans: &[Plan]| reproduction::check(plans, root, &mut |_, _, _| ()).unwrap();
    let outcomes: Vec<_> = plans
        .iter()
        .map(|plan| reproduction::renew(plan, root, &Arc::default(), &mut |_, _, _| ()).unwrap())
        .map(|outcome| outcome.expect("nobody stopped it"))
        .collect();
    reproduction::tell(&outcomes, root).unwrap();
    assert_eq!(check(&plans), []);
    let change = |file: &str, from: &str, to: &str| {
        let path = root.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file}");
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
    };
    assert_eq!(
        check(&plans[..1]),
        [Stale::Left("sfcache-fig8".into()), Stale::Page]
    );
    change("REPRODUCTION.md", "# Reproduction", "# Production");
    assert_eq!(check(&plans), [Stale::Page]);
    change("reproduction/sfcache-fig13/quick.csv", "\n1,", "\n1,2");
    let found = check(&plans);
    assert!(
        matches!(&found[0], Stale::Results { plan, .. } if plan == "sfcache-fig13"),
        "{found:?}"
    );
    change("reproduction/sfcache-fig8/plan.toml", "model", "modell");
    assert!(check(&plans).contains(&Stale::Plan("sfcache-fig8".into())));
    fs::remove_file(root.join("reproduction/sfcache-fig8/quick.csv")).unwrap();
    assert!(check(&plans).contains(&Stale::New("sfcache-fig8".into())));
}

/// What a plan expects may change without a run; what it runs may not.
#[test]
fn kept_results_are_judged_again_if_the_same_runs() {
    let (folder, old) = (tempdir().unwrap(), plan("sfcache-fig13"));
    let root = folder.path();
    let renewed = reproduction::renew(old, root, &Arc::default(), &mut |_, _, _| ()).unwrap();
    let inside = |outcome: &Outcome| outcome.verdicts.iter().filter(|v| v.inside).count();
    let before = inside(&renewed.expect("nobody stopped it"));
    let changed = |from: &str, to: &str| {
        assert!(old.text.contains(from), "{from}");
        let text = old.text.replacen(from, to, 1);
        Plan::parse(&text, &old.folder.join("sfcache-fig13.toml")).expect("a plan")
    };
    let expects = changed("values = 1.25", "values = 1.7");
    let again = |plan: &Plan| reproduction::kept_or_judged_again(plan, root).unwrap();
    let judged = again(&expects).expect("it runs the same");
    assert_eq!(inside(&judged), before + 1);
    reproduction::tell(&[judged], root).unwrap();
    let check = reproduction::check(&[expects], root, &mut |_, _, _| ()).unwrap();
    assert_eq!(check, []);
    assert!(again(&changed("functions = [1,", "functions = [9, 1,")).is_none());
    assert!(again(plan("sfcache-fig8")).is_none());
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
    for expected in [
        "at most: Theorem 1",
        "at least: Fact 2",
        "queue",
        "input, Gb/s",
    ] {
        assert!(texts.contains(&expected), "{expected} is not in {texts:?}");
    }
    let circles = document
        .descendants()
        .filter(|node| node.has_tag_name("circle"));
    // Nine measured, nine of the independent simulation, and each once more in the legend.
    assert!(circles.count() >= 9 + 9 + 2);
}

#[test]
fn the_page_tells_every_plan_and_what_is_outside() {
    let folder: TempDir = tempdir().unwrap();
    let names = [
        "turboswitch-fig6-exact",
        "turboswitch-fig7",
        "turboswitch-fig7-port",
    ];
    let outcomes = names.map(|name| {
        let out = folder.path().join("reproduction").join(name);
        quick(plan(name), "1/1", &out)
    });
    let page = folder.path().join("REPRODUCTION.md");
    document::write(&outcomes, &page).unwrap();
    let text = fs::read_to_string(page).unwrap();
    let of_paper = |verdict: &&Verdict| {
        let expectations = &outcomes[0].plan.expectations;
        expectations[verdict.expectation].is_of_paper()
    };
    let count = |of_papers: bool, inside: bool| {
        let all = outcomes[0].verdicts.iter().filter(|v| !v.is_input);
        let all = all.filter(|v| of_paper(v) == of_papers && (v.inside || !inside));
        all.count()
    };
    let counts = [(true, false), (true, true), (false, false), (false, true)];
    let counts = counts.map(|(of_papers, inside)| count(of_papers, inside).to_string());
    assert!(counts.iter().all(|count| count != "0"), "{counts:?}");
    let [papers, others] = [&counts[..2], &counts[2..]].map(|counts| counts.join(" | "));
    let inputs = outcomes[0].verdicts.iter().filter(|v| v.is_input).count();
    let line = format!("correction | {papers} | 0 | 0 | {others} | {inputs} |");
    assert!(text.contains(&line), "{line} is not in\n{text}");
    for expected in [
        "## turboswitch-fig6-exact",
        "](reproduction/turboswitch-fig7/queue.svg)",
        "- recirculations, paper: 3 at low load: ",
        "cause unknown. It is not what was supposed: 3 rounds at 10 Gb/s fill 40 Gb/s",
        "Tested in [turboswitch-fig7-port](#turboswitch-fig7-port), where 0 of 1 values moved",
        "It tests a cause that is supposed in [turboswitch-fig7](#turboswitch-fig7).",
        "| recirculations | paper: 3 at low load | 3 | 2.55 to 3.45 |",
        "**Put in:** `cores_us` 25.0; `input_gbps` {10, 20,",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
}

#[test]
fn a_shard_is_not_taken_for_the_whole() {
    assert_ne!("1/2".parse::<Shard>().unwrap(), Shard::default());
}
