//! `twinpath lab`: the papers' figures, redone under virtual time.

mod overheads;
mod text;

use crate::error::CommandError;
use crate::stop::Stop;
use crate::{Outcome, output};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use twinpath_lab::{Options, Plan, Scale, Shard, registry, reproduction, run};

/// Redoes the papers' figures, or asks a question of your own, under virtual time
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath lab all                                  # every figure, and REPRODUCTION.md",
    "twinpath lab run plans/turboswitch-fig4.toml      # one of them",
    "twinpath lab all --check                          # is REPRODUCTION.md current?",
    "twinpath lab models                               # what a plan can measure",
))]
pub struct Arguments {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(clap::Subcommand)]
enum Subject {
    Run(Run),
    All(All),
    Merge(Merge),
    Overheads(Overheads),
    /// What a plan can measure
    Models,
}

/// Runs one plan
///
/// Writes points.csv, verdicts.csv and a figure for each that the plan describes, and prints a table of
/// values. Exit code 0 if every value is where the plan expects it, or the plan tells why not, 1
/// otherwise. Ctrl-C, or a request to terminate, ends it after the points that are being run, which is said
/// at once: what was measured until then is written, in a folder `cancelled` of its own if there is a whole
/// result already. A second one ends it at once.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath lab run plans/turboswitch-fig4.toml",
    "twinpath lab run plans/turboswitch-fig5.toml --shard 2/8 --out part-2    # one machine of eight",
))]
struct Run {
    /// The plan
    #[arg(value_name = "PLAN.toml")]
    plan: PathBuf,
    /// Where results go [default: lab-results/PLAN]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Only this part of the sweep, for `twinpath lab merge`
    #[arg(
        long,
        value_name = "I/N",
        default_value = "1/1",
        hide_default_value = true
    )]
    shard: Shard,
    /// The reduced run that the plan describes
    #[arg(long)]
    quick: bool,
}

/// Runs all plans and writes REPRODUCTION.md
///
/// With --check nothing is written: the reduced runs are compared with what they measured when
/// REPRODUCTION.md was written. Exit code 1 if it is no longer current.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath lab all                                   # minutes",
    "twinpath lab all --only switchnic-fig7c            # one plan again, the others as they are kept",
    "twinpath lab all --check",
))]
struct All {
    /// Where the plans are
    #[arg(long, value_name = "DIR", default_value = "plans")]
    plans: PathBuf,
    /// Where REPRODUCTION.md and the folder reproduction/ go
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Only these plans; what is kept of the others stays, and is judged again where a plan expects
    /// something else now
    #[arg(long, value_name = "PLAN")]
    only: Vec<String>,
    /// Whether REPRODUCTION.md is current, by the reduced runs that the plans describe
    #[arg(long, conflicts_with = "only")]
    check: bool,
}

/// Joins the shards of a sweep
///
/// What it writes is what a run of the whole plan would have written, to the byte.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath lab merge part-1 part-2 part-3 --out whole",
))]
struct Merge {
    /// Directories that shards were written to
    #[arg(value_name = "DIR", required = true)]
    shards: Vec<PathBuf>,
    /// Where results go
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Measures what caching costs on the slow path of this machine
///
/// Writes the table that plans of the model `measured` show, and what machine it was. `twinpath lab all`
/// does so, too, whenever it runs such a plan.
#[derive(clap::Args)]
#[command(after_help = output::examples!("twinpath lab overheads     # a minute or so"))]
struct Overheads {
    /// The table
    #[arg(long, value_name = "FILE.csv", default_value = OVERHEADS)]
    out: PathBuf,
}

/// Where plans look for what was measured on the code.
const OVERHEADS: &str = "plans/measured/sfcache-overheads.csv";

/// Does what is asked.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    match &arguments.subject {
        Subject::Run(run) => run.execute(),
        Subject::All(all) => all.execute(),
        Subject::Merge(merge) => merge.execute(),
        Subject::Overheads(overheads) => overheads.execute(),
        Subject::Models => models(),
    }
}

impl Run {
    fn execute(&self) -> Result<Outcome, CommandError> {
        let plan = Plan::load(&self.plan)?;
        let stop = Stop::on_signals()?;
        let options = Options {
            scale: scale(self.quick),
            shard: self.shard,
            stop: stop.flag(),
        };
        let out = match &self.out {
            Some(out) => out.clone(),
            None => Path::new("lab-results").join(&plan.name),
        };
        let found = run_one(&plan, options, &out, &stop)?;
        output::print(&text::outcome(&found))?;
        output::print(&text::table(&found))?;
        Ok(judged(&[found]))
    }
}

impl All {
    fn execute(&self) -> Result<Outcome, CommandError> {
        let plans = run::plans(&self.plans)?;
        match self.check {
            true => self.check(&plans),
            false => self.write(&plans),
        }
    }

    fn write(&self, plans: &[Plan]) -> Result<Outcome, CommandError> {
        let stop = Stop::on_signals()?;
        let is_stopped = stop.flag();
        self.measure(plans, &stop)?;
        let mut outcomes = Vec::new();
        for plan in plans {
            let kept = match self.is_run(plan) {
                true => None,
                false => reproduction::kept_or_judged_again(plan, &self.out)?,
            };
            let found = match kept {
                Some(found) => Some(found),
                None => with_bar(Some(&stop), |progress| {
                    reproduction::renew(plan, &self.out, &is_stopped, progress)
                })?,
            };
            let Some(found) = found else {
                output::print("cancelled: plans that were done are written, the page is not\n")?;
                return Ok(Outcome::Bad);
            };
            output::print(&text::outcome(&found))?;
            outcomes.push(found);
        }
        reproduction::tell(&outcomes, &self.out)?;
        Ok(judged(&outcomes))
    }

    fn is_run(&self, plan: &Plan) -> bool {
        self.only.is_empty() || self.only.contains(&plan.name)
    }

    /// Plans that show what was measured on this machine need that first.
    fn measure(&self, plans: &[Plan], stop: &Stop) -> Result<(), CommandError> {
        let mut run = plans.iter().filter(|plan| self.is_run(plan));
        if run.any(|plan| plan.model.name() == "measured") {
            let table = self.plans.join("measured/sfcache-overheads.csv");
            write_overheads(&table, stop)?;
        }
        Ok(())
    }

    fn check(&self, plans: &[Plan]) -> Result<Outcome, CommandError> {
        let stale = with_bar(None, |progress| {
            reproduction::check(plans, &self.out, progress)
        })?;
        output::print(&text::stale(&stale))?;
        Ok(match stale.is_empty() {
            true => Outcome::Good,
            false => Outcome::Bad,
        })
    }
}

impl Overheads {
    fn execute(&self) -> Result<Outcome, CommandError> {
        let is_done = write_overheads(&self.out, &Stop::on_signals()?)?;
        let told = match is_done {
            true => format!("{}\n", self.out.display()),
            false => "cancelled: nothing was written\n".to_owned(),
        };
        output::print(&told)?;
        Ok(match is_done {
            true => Outcome::Good,
            false => Outcome::Bad,
        })
    }
}

impl Merge {
    fn execute(&self) -> Result<Outcome, CommandError> {
        let merged = run::merge(&self.shards, &self.out)?;
        output::print(&text::outcome(&merged))?;
        Ok(judged(&[merged]))
    }
}

fn models() -> Result<Outcome, CommandError> {
    for model in registry::MODELS {
        output::print(&text::model(model))?;
    }
    Ok(Outcome::Good)
}

fn scale(quick: bool) -> Scale {
    match quick {
        true => Scale::Quick,
        false => Scale::Full,
    }
}

/// Whether it was done; a table that is to stop is not written.
fn write_overheads(table: &Path, stop: &Stop) -> Result<bool, CommandError> {
    with_bar(Some(stop), |_| {
        overheads::write(table, overheads::Scale::FULL, &stop.flag())
    })
}

fn run_one(
    plan: &Plan,
    options: Options,
    out: &Path,
    stop: &Stop,
) -> Result<run::Outcome, CommandError> {
    let found = with_bar(Some(stop), |progress| {
        run::run(plan, options, out, &mut |done, points| {
            progress(&plan.name, done, points);
        })
    });
    Ok(found?)
}

/// What is said once it is time to stop.
const STOPPING: &str =
    "stopping: the points under way are run to their end; asked once more, it ends at once";

/// How soon that is seen.
const INTERVAL: Duration = Duration::from_millis(50);

/// Does something while a bar shows how far it is. Once it is time to stop that is said, for points may
/// take minutes.
fn with_bar<T>(stop: Option<&Stop>, act: impl FnOnce(reproduction::Progress<'_>) -> T) -> T {
    let style = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} points, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::no_length().with_style(style);
    if let Some(stop) = stop {
        say_when_stopping(stop.clone(), bar.clone());
    }
    let found = act(&mut |plan, done, points| {
        bar.set_message(plan.to_owned());
        bar.set_length(points as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    found
}

/// Waits on a thread of its own, for as long as the bar is there.
fn say_when_stopping(stop: Stop, bar: ProgressBar) {
    thread::spawn(move || {
        while !stop.is_requested() && !bar.is_finished() {
            thread::sleep(INTERVAL);
        }
        if !bar.is_finished() {
            bar.suspend(|| output::notice(STOPPING));
        }
    });
}

/// A value that is outside is a negative answer, unless the plan knows the cause. So are points that were
/// not run.
fn judged(outcomes: &[run::Outcome]) -> Outcome {
    let unexplained = outcomes.iter().any(|outcome| {
        let counted = outcome.verdicts.iter().filter(|verdict| !verdict.is_input);
        let outside = counted.filter(|verdict| !verdict.inside);
        let expectations = &outcome.plan.expectations;
        outside
            .map(|verdict| &expectations[verdict.expectation])
            .any(|expectation| expectation.cause.is_empty())
    });
    let is_incomplete = outcomes.iter().any(|outcome| outcome.missing > 0);
    match unexplained || is_incomplete {
        true => Outcome::Bad,
        false => Outcome::Good,
    }
}
