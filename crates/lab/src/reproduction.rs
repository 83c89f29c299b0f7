//! All plans, their kept results, and the page that tells them: written together, and checked to
//! belong together.
//!
//! Beside a plan's full results, its folder keeps what its reduced run measures (`quick.csv`). Running
//! everything in full takes minutes; the reduced runs take seconds and measure the same code. So
//! [`check`] runs those again: if one measures something else than it did when the page was written, or a
//! plan or the page was changed by hand, the page is no longer current.

use crate::document;
use crate::error::ExperimentError;
use crate::plan::Plan;
use crate::results::Results;
use crate::run::{self, Options, Outcome, PLAN_FILE, Scale};
use crate::sweep::Shard;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The page, in the root of what is written.
pub const PAGE: &str = "REPRODUCTION.md";
/// The folder beside it, with a folder for each plan.
pub const RESULTS: &str = "reproduction";
/// What the reduced run measured, in a plan's folder.
pub const QUICK_FILE: &str = "quick.csv";

/// Hears how far a plan's run is: its name, points done, points in all.
pub type Progress<'a> = &'a mut dyn FnMut(&str, usize, usize);

/// Where a plan's results are.
pub fn folder(root: &Path, plan: &Plan) -> PathBuf {
    root.join(RESULTS).join(&plan.name)
}

/// Runs a plan in full and in its reduced form, and writes its folder. If it is to stop before that is
/// done the folder stays as it was, and there is no outcome.
///
/// # Errors
/// A file that cannot be written.
pub fn renew(
    plan: &Plan,
    root: &Path,
    stop: &Arc<AtomicBool>,
    progress: Progress<'_>,
) -> Result<Option<Outcome>, ExperimentError> {
    let folder = folder(root, plan);
    let options = |scale| Options {
        scale,
        stop: Arc::clone(stop),
        ..Options::default()
    };
    let mut measure = |scale| {
        run::measure(plan, options(scale), &mut |done, points| {
            progress(&plan.name, done, points);
        })
    };
    let (full, quick) = (measure(Scale::Full)?, measure(Scale::Quick)?);
    if !full.is_complete() || !quick.is_complete() {
        return Ok(None);
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(ExperimentError::file(&folder))?;
    }
    let outcome = run::keep(plan, &full, Shard::default(), &folder)?;
    run::write(&folder.join(QUICK_FILE), &quick.text(plan)?)?;
    Ok(Some(outcome))
}

/// Writes the page of these outcomes, which are all plans'.
///
/// # Errors
/// It cannot be written.
pub fn tell(outcomes: &[Outcome], root: &Path) -> Result<(), ExperimentError> {
    document::write(outcomes, &root.join(PAGE))
}

/// What the plan's reduced run measures, as a table.
fn quick_points(plan: &Plan, progress: Progress<'_>) -> Result<String, ExperimentError> {
    let options = Options {
        scale: Scale::Quick,
        ..Options::default()
    };
    run::measure(plan, options, &mut |done, points| {
        progress(&plan.name, done, points);
    })?
    .text(plan)
}

/// Why something that was written is no longer what would be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stale {
    /// A plan without results.
    #[error("{0}: no results are kept: run it")]
    New(String),
    /// The plan was changed after its results were written.
    #[error("{0}: the plan has changed since it was run")]
    Plan(String),
    /// The reduced run measures something else than it did.
    #[error("{plan}: its reduced run measures something else now: {difference}")]
    Results {
        /// The plan.
        plan: String,
        /// The first line that differs: what was kept, and what it is now.
        difference: String,
    },
    /// Results without a plan.
    #[error("{0}: results of a plan that there is not")]
    Left(String),
    /// The page does not tell the kept results.
    #[error("REPRODUCTION.md does not tell the results beside it")]
    Page,
}

/// Checks that the page and the results below `root` are what these plans would give: by their reduced
/// runs.
///
/// # Errors
/// A file that cannot be read.
pub fn check(
    plans: &[Plan],
    root: &Path,
    progress: Progress<'_>,
) -> Result<Vec<Stale>, ExperimentError> {
    let mut stale = left_over(plans, root)?;
    let mut outcomes = Vec::new();
    for plan in plans {
        match kept(plan, root)? {
            Err(why) => stale.push(why),
            Ok(outcome) => {
                stale.extend(check_quick(plan, root, progress)?);
                outcomes.push(outcome);
            }
        }
    }
    let page = read(&root.join(PAGE))?;
    if outcomes.len() == plans.len() && page != document::page(&outcomes, root) {
        stale.push(Stale::Page);
    }
    Ok(stale)
}

/// The kept results of a plan, judged again.
///
/// # Errors
/// A file that cannot be read.
pub fn kept(plan: &Plan, root: &Path) -> Result<Result<Outcome, Stale>, ExperimentError> {
    let folder = folder(root, plan);
    if !folder.join(QUICK_FILE).exists() {
        return Ok(Err(Stale::New(plan.name.clone())));
    }
    if read(&folder.join(PLAN_FILE))? != plan.text {
        return Ok(Err(Stale::Plan(plan.name.clone())));
    }
    run::recall(plan, &folder).map(Ok)
}

/// The kept results of a plan. If it expects or draws something else now, and runs the same, they are
/// judged and drawn again; if it does not, there are none.
///
/// # Errors
/// A file that cannot be read or written.
pub fn kept_or_judged_again(plan: &Plan, root: &Path) -> Result<Option<Outcome>, ExperimentError> {
    let folder = folder(root, plan);
    match kept(plan, root)? {
        Ok(outcome) => Ok(Some(outcome)),
        Err(Stale::Plan(_)) => judge_again(plan, &folder),
        Err(_) => Ok(None),
    }
}

fn judge_again(plan: &Plan, folder: &Path) -> Result<Option<Outcome>, ExperimentError> {
    let runs_the_same =
        Plan::recall(&folder.join(PLAN_FILE)).is_ok_and(|kept| kept.runs_the_same(plan));
    if !runs_the_same {
        return Ok(None);
    }
    let results = Results::read(plan, &folder.join(Shard::default().file_name()))?;
    let quick = read(&folder.join(QUICK_FILE))?;
    fs::remove_dir_all(folder).map_err(ExperimentError::file(folder))?;
    let outcome = run::keep(plan, &results, Shard::default(), folder)?;
    run::write(&folder.join(QUICK_FILE), &quick)?;
    Ok(Some(outcome))
}

fn check_quick(
    plan: &Plan,
    root: &Path,
    progress: Progress<'_>,
) -> Result<Option<Stale>, ExperimentError> {
    let kept = read(&folder(root, plan).join(QUICK_FILE))?;
    let now = quick_points(plan, progress)?;
    Ok((kept != now).then(|| Stale::Results {
        plan: plan.name.clone(),
        difference: difference(&kept, &now),
    }))
}

/// The first line that differs.
fn difference(kept: &str, now: &str) -> String {
    let (mut kept, mut now) = (kept.lines(), now.lines());
    loop {
        match (kept.next(), now.next()) {
            (None, None) => return "line ends".into(),
            (kept, now) if kept != now => {
                let shown = |line: Option<&str>| line.unwrap_or("(nothing)").to_owned();
                return format!("\n  kept {}\n  now  {}", shown(kept), shown(now));
            }
            _ => (),
        }
    }
}

/// Folders of results that no plan has.
fn left_over(plans: &[Plan], root: &Path) -> Result<Vec<Stale>, ExperimentError> {
    let results = root.join(RESULTS);
    let entries = fs::read_dir(&results).map_err(ExperimentError::file(&results))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    names.sort();
    let is_left = |name: &String| !plans.iter().any(|plan| plan.name == *name);
    Ok(names.into_iter().filter(is_left).map(Stale::Left).collect())
}

fn read(path: &Path) -> Result<String, ExperimentError> {
    fs::read_to_string(path).map_err(ExperimentError::file(path))
}
