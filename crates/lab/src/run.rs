//! Runs a plan and writes what came of it.

use crate::chart;
use crate::error::{ExperimentError, PlanError};
use crate::plan::Plan;
use crate::results::Results;
use crate::sweep::{self, Shard};
use crate::verdict::{self, Verdict};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The plan as it was run, in the directory of its results.
pub const PLAN_FILE: &str = "plan.toml";

/// How much of a plan is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// As its parameters say.
    #[default]
    Full,
    /// With what its `[quick]` says instead.
    Quick,
}

/// How a plan is run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How much of it.
    pub scale: Scale,
    /// Which part of it.
    pub shard: Shard,
    /// Once this is set no further point is begun.
    pub stop: Arc<AtomicBool>,
}

/// What came of a plan.
#[derive(Clone)]
pub struct Outcome {
    /// The plan.
    pub plan: Plan,
    /// Where its files are.
    pub folder: PathBuf,
    /// Where an earlier whole result stayed as it was, because this one is not whole.
    pub spared: Option<PathBuf>,
    /// Points that were run or merged.
    pub points: usize,
    /// Points that were not run, because it was to stop.
    pub missing: usize,
    /// Every expected value and ours; none for a shard.
    pub verdicts: Vec<Verdict>,
    /// What the plan draws or expects at each point, for people, with a line of names first.
    pub table: Vec<Vec<String>>,
}

/// Where a run writes what it has that was to stop, if there is a whole result already.
const CANCELLED: &str = "cancelled";

/// Runs a plan, or a shard of it, and writes its files to `out`, also if it was to stop before all of its
/// points were run; then not in place of a whole result, but in a folder `cancelled` beside it. `progress`
/// hears how many of how many points are done.
///
/// # Errors
/// A file that cannot be written.
pub fn run(
    plan: &Plan,
    options: Options,
    out: &Path,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Outcome, ExperimentError> {
    let shard = options.shard;
    let results = measure(plan, options, progress)?;
    let is_whole = results.rows.len() == shard.points(results.points.len()).count();
    if is_whole || !has_whole(shard, out) {
        return keep(plan, &results, shard, out);
    }
    Ok(Outcome {
        spared: Some(out.into()),
        ..keep(plan, &results, shard, &out.join(CANCELLED))?
    })
}

/// Whether results of all points of such a shard are in a folder, of whatever plan. What cannot be read is
/// taken for whole: nobody knows what would be lost with it.
fn has_whole(shard: Shard, folder: &Path) -> bool {
    let table = folder.join(shard.file_name());
    if !table.exists() {
        return false;
    }
    let plan = Plan::recall(&folder.join(PLAN_FILE)).ok();
    let results = plan.and_then(|plan| Results::read(&plan, &table).ok());
    results.is_none_or(|results| {
        let all = shard.points(results.points.len()).count();
        results.rows.len() == all
    })
}

/// Writes what was measured.
pub(crate) fn keep(
    plan: &Plan,
    results: &Results,
    shard: Shard,
    out: &Path,
) -> Result<Outcome, ExperimentError> {
    create(out)?;
    write(&out.join(PLAN_FILE), &plan.text)?;
    write(&out.join(shard.file_name()), &results.text(plan)?)?;
    let verdicts = match shard.is_whole() {
        true => tell(plan, results, out)?,
        false => Vec::new(),
    };
    let missing = shard.points(results.points.len()).count() - results.rows.len();
    Ok(Outcome {
        missing,
        ..outcome(plan.clone(), out, results, verdicts)
    })
}

/// Runs a plan, or a shard of it.
pub(crate) fn measure(
    plan: &Plan,
    options: Options,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Results, ExperimentError> {
    let quick = options.scale == Scale::Quick;
    let points = plan.points(quick);
    let numbers: Vec<usize> = options.shard.points(points.len()).collect();
    let count = numbers.len();
    let stop = &options.stop;
    let rows = sweep::run(plan, &points, &numbers, stop, &mut |done| {
        progress(done, count)
    });
    let rows = rows.map_err(|error| plan.placed(&error))?;
    Ok(Results {
        quick,
        points,
        rows: rows.into_iter().collect(),
    })
}

/// What came of a plan, from the results that a full run has written to this folder.
///
/// # Errors
/// There are none, or they are of another plan.
pub fn recall(plan: &Plan, folder: &Path) -> Result<Outcome, ExperimentError> {
    let results = Results::read(plan, &folder.join(Shard::default().file_name()))?;
    let verdicts = verdict::judge(plan, &results);
    Ok(outcome(plan.clone(), folder, &results, verdicts))
}

fn outcome(plan: Plan, out: &Path, results: &Results, verdicts: Vec<Verdict>) -> Outcome {
    Outcome {
        table: results.told(&plan),
        plan,
        folder: out.into(),
        spared: None,
        points: results.rows.len(),
        missing: 0,
        verdicts,
    }
}

/// Joins what shards have written to these directories, in any order, and writes to `out` what a
/// run of the whole plan would have written.
///
/// # Errors
/// Shards of different plans, points that are missing or there twice, files that cannot be read
/// or written.
pub fn merge(folders: &[PathBuf], out: &Path) -> Result<Outcome, ExperimentError> {
    let plan = common_plan(folders)?;
    let mut whole: Option<Results> = None;
    for path in tables(folders)? {
        let part = Results::read(&plan, &path)?;
        match &mut whole {
            None => whole = Some(part),
            Some(whole) => add(whole, part, &path)?,
        }
    }
    let results = whole.ok_or(ExperimentError::MissingPoint {
        point: 0,
        points: plan.points(false).len(),
    })?;
    let points = results.points.len();
    if let Some(point) = (0..points).find(|point| !results.rows.contains_key(point)) {
        return Err(ExperimentError::MissingPoint { point, points });
    }
    create(out)?;
    write(&out.join(PLAN_FILE), &plan.text)?;
    write(
        &out.join(Shard::default().file_name()),
        &results.text(&plan)?,
    )?;
    let verdicts = tell(&plan, &results, out)?;
    Ok(outcome(plan, out, &results, verdicts))
}

fn add(whole: &mut Results, part: Results, path: &Path) -> Result<(), ExperimentError> {
    if part.quick != whole.quick {
        let path = path.into();
        return Err(ExperimentError::ForeignRow { path, row: 1 });
    }
    for (point, row) in part.rows {
        if whole.rows.insert(point, row).is_some() {
            return Err(ExperimentError::DoubledPoint(point));
        }
    }
    Ok(())
}

/// Directories of shards are named freely, so the plan's name is the title of what they hold.
fn common_plan(folders: &[PathBuf]) -> Result<Plan, ExperimentError> {
    let first = folders
        .first()
        .ok_or_else(|| ExperimentError::NoPlans(PathBuf::new()))?;
    let plan = Plan::recall(&first.join(PLAN_FILE))?;
    for other in folders {
        if Plan::recall(&other.join(PLAN_FILE))?.text != plan.text {
            return Err(ExperimentError::DifferentPlans {
                first: first.clone(),
                other: other.clone(),
            });
        }
    }
    Ok(plan)
}

/// The tables of results in these directories, each once, also if one is named twice.
fn tables(folders: &[PathBuf]) -> Result<Vec<PathBuf>, ExperimentError> {
    let mut tables = BTreeMap::new();
    for folder in folders {
        let entries = fs::read_dir(folder).map_err(ExperimentError::file(folder))?;
        for entry in entries {
            let path = entry.map_err(ExperimentError::file(folder))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("points.") && name.ends_with(".csv") {
                let same = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
                tables.insert(same, path);
            }
        }
    }
    Ok(tables.into_values().collect())
}

/// Verdicts and figures.
fn tell(plan: &Plan, results: &Results, out: &Path) -> Result<Vec<Verdict>, ExperimentError> {
    let verdicts = verdict::judge(plan, results);
    verdict::write(plan, &verdicts, &out.join("verdicts.csv"))?;
    if !plan.ratios.is_empty() {
        results.write_ratios(plan, &out.join("ratios.csv"))?;
    }
    for figure in &plan.figures {
        let svg = chart::draw(plan, figure, results)?;
        write(&out.join(format!("{}.svg", figure.name)), &svg)?;
    }
    Ok(verdicts)
}

fn create(folder: &Path) -> Result<(), ExperimentError> {
    fs::create_dir_all(folder).map_err(ExperimentError::file(folder))
}

pub(crate) fn write(path: &Path, text: &str) -> Result<(), ExperimentError> {
    fs::write(path, text).map_err(ExperimentError::file(path))
}

/// The plans of a directory, by name.
///
/// # Errors
/// There are none, or one of them is wrong.
pub fn plans(folder: &Path) -> Result<Vec<Plan>, ExperimentError> {
    let entries = fs::read_dir(folder).map_err(ExperimentError::file(folder))?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect();
    paths.sort();
    if paths.is_empty() {
        return Err(ExperimentError::NoPlans(folder.into()));
    }
    let plans = paths.iter().map(|path| Plan::load(path));
    Ok(plans.collect::<Result<_, PlanError>>()?)
}
