//! `twinpath lab`: the papers' figures, redone under virtual time.

mod told;

use crate::error::CommandError;
use crate::{Outcome, output};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};
use twinpath_experiments::{Options, Plan, Scale, Shard, document, model, run};

/// Redoes the papers' figures, or asks a question of your own, under virtual time
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath lab all                                  # every figure, and REPRODUCTION.md",
    "twinpath lab run plans/turboswitch-fig4.toml      # one of them",
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
    /// What a plan can measure
    Models,
}

/// Runs one plan
///
/// Writes points.csv, verdicts.csv and a figure for each that the plan describes. Exit code 0 if
/// every value is where the plan expects it, or the plan tells why not, 1 otherwise.
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
#[derive(clap::Args)]
struct All {
    /// Where the plans are
    #[arg(long, value_name = "DIR", default_value = "plans")]
    plans: PathBuf,
    /// Where REPRODUCTION.md and the folder reproduction/ go
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// The reduced runs that the plans describe
    #[arg(long)]
    quick: bool,
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

/// Does what is asked.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    match &arguments.subject {
        Subject::Run(run) => run.execute(),
        Subject::All(all) => all.execute(),
        Subject::Merge(merge) => merge.execute(),
        Subject::Models => models(),
    }
}

impl Run {
    fn execute(&self) -> Result<Outcome, CommandError> {
        let plan = Plan::load(&self.plan)?;
        let options = Options {
            scale: scale(self.quick),
            shard: self.shard,
        };
        let out = match &self.out {
            Some(out) => out.clone(),
            None => Path::new("lab-results").join(&plan.name),
        };
        let found = run_one(&plan, options, &out)?;
        output::print(&told::outcome(&found))?;
        Ok(judged(&[found]))
    }
}

impl All {
    fn execute(&self) -> Result<Outcome, CommandError> {
        let options = Options {
            scale: scale(self.quick),
            ..Options::default()
        };
        let mut outcomes = Vec::new();
        for plan in run::plans(&self.plans)? {
            let out = self.out.join("reproduction").join(&plan.name);
            let found = run_one(&plan, options, &out)?;
            output::print(&told::outcome(&found))?;
            outcomes.push(found);
        }
        document::write(&outcomes, &self.out.join("REPRODUCTION.md"))?;
        Ok(judged(&outcomes))
    }
}

impl Merge {
    fn execute(&self) -> Result<Outcome, CommandError> {
        let merged = run::merge(&self.shards, &self.out)?;
        output::print(&told::outcome(&merged))?;
        Ok(judged(&[merged]))
    }
}

fn models() -> Result<Outcome, CommandError> {
    for model in model::MODELS {
        output::print(&told::model(model))?;
    }
    Ok(Outcome::Good)
}

fn scale(quick: bool) -> Scale {
    match quick {
        true => Scale::Quick,
        false => Scale::Full,
    }
}

fn run_one(plan: &Plan, options: Options, out: &Path) -> Result<run::Outcome, CommandError> {
    let style = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} points, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::no_length()
        .with_style(style)
        .with_message(plan.name.clone());
    let found = run::run(plan, options, out, &mut |done, points| {
        bar.set_length(points as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    Ok(found?)
}

/// A value that is outside is a negative answer, unless the plan knows the cause.
fn judged(outcomes: &[run::Outcome]) -> Outcome {
    let unexplained = outcomes.iter().any(|outcome| {
        let outside = outcome.verdicts.iter().filter(|verdict| !verdict.inside);
        let expectations = &outcome.plan.expectations;
        outside
            .map(|verdict| &expectations[verdict.expectation])
            .any(|expectation| expectation.cause.is_empty())
    });
    match unexplained {
        true => Outcome::Bad,
        false => Outcome::Good,
    }
}
