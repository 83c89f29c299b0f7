//! `twinpath run --steps`: a DPU's configuration changes, packets come, and so on.

use super::super::dash::config_files;
use super::files::captures;
use crate::error::{CommandError, StepsError};
use crate::paths::check_name;
use crate::{Outcome, output};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use twinpath_control::report::{Dash, EniFigures, units};
use twinpath_control::service::Service;
use twinpath_node::run::{RunStep, StepFigures, run_steps};

/// A step as the file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    #[serde(default)]
    config: Paths,
    #[serde(rename = "in")]
    input: Option<PathBuf>,
    #[serde(rename = "out")]
    output: Option<PathBuf>,
}

/// A step that makes sense.
struct Written(Fields);

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(StepVisitor)
    }
}

/// Says what makes no sense while the step is read, so that it is told with its place.
struct StepVisitor;

impl<'de> Visitor<'de> for StepVisitor {
    type Value = Written;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a step")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Written, A::Error> {
        let fields = Fields::deserialize(MapAccessDeserializer::new(map))?;
        match (&fields.input, &fields.output) {
            (None, Some(_)) => Err(A::Error::custom(
                "a step with `out` and without `in` has no packets to write",
            )),
            _ => Ok(Written(fields)),
        }
    }
}

/// A path, or a list of paths.
#[derive(Default)]
struct Paths(Vec<PathBuf>);

impl<'de> Deserialize<'de> for Paths {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PathsVisitor)
    }
}

struct PathsVisitor;

impl<'de> Visitor<'de> for PathsVisitor {
    type Value = Paths;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the path of a file of configuration, or a list of such paths")
    }

    fn visit_str<E>(self, path: &str) -> Result<Paths, E> {
        Ok(Paths(vec![path.into()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Paths, A::Error> {
        let mut paths = Vec::new();
        while let Some(path) = list.next_element()? {
            paths.push(path);
        }
        Ok(Paths(paths))
    }
}

/// What is written of a step.
#[derive(Serialize)]
struct StepCounters {
    /// From 1.
    step: usize,
    packets_in: u64,
    fast_packets: u64,
    packets_out: u64,
    /// Objects of the configuration that wait for others.
    waiting: Vec<String>,
    /// Dropped packets by reason, all together: in front of the DPU, of ENIs, and of none.
    all_drops: BTreeMap<String, u64>,
    /// Those of no ENI.
    drops: BTreeMap<String, u64>,
    enis: BTreeMap<String, EniCounters>,
}

#[derive(Serialize)]
struct EniCounters {
    #[serde(flatten)]
    sai: BTreeMap<String, u64>,
    flows: u64,
    /// Dropped packets by reason.
    drops: BTreeMap<String, u64>,
    /// By metering class.
    meters: BTreeMap<u32, BTreeMap<&'static str, u64>>,
}

impl EniCounters {
    fn of(eni: &EniFigures) -> Self {
        let meter = |meter: &twinpath_control::report::MeterFigures| {
            (meter.class, BTreeMap::from(meter.sai()))
        };
        Self {
            sai: eni.sai(),
            flows: eni.flows,
            drops: eni.drops.clone(),
            meters: eni.meters.iter().map(meter).collect(),
        }
    }
}

/// Reads a list of steps; their paths start from the file's folder.
pub fn read(path: &Path) -> Result<Vec<RunStep>, CommandError> {
    let text = std::fs::read_to_string(path).map_err(|source| StepsError::Unreadable {
        path: path.into(),
        source,
    })?;
    let wrong = |error: serde_json::Error| StepsError::Wrong {
        path: path.into(),
        line: error.line(),
        column: error.column(),
        what: without_place(&error),
    };
    let written: Vec<Written> = serde_json::from_str(&text).map_err(wrong)?;
    if written.is_empty() {
        return Err(StepsError::Wrong {
            path: path.into(),
            line: 1,
            column: 1,
            what: "no steps".into(),
        }
        .into());
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let steps = written.into_iter().map(|Written(step)| RunStep {
        config: step.config.0.iter().map(|path| folder.join(path)).collect(),
        input: step.input.map(|path| folder.join(path)),
        output: step.output.map(|path| folder.join(path)),
    });
    Ok(steps.collect())
}

/// The message without the place, which is told in front of it.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    text[..end].to_owned()
}

/// Runs steps, and writes what was counted up to each as it ends: of many steps and ENIs it is much.
pub fn execute(
    service: &Service,
    steps: &[RunStep],
    counters: Option<&Path>,
    is_quiet: bool,
    is_stopped: &Arc<AtomicBool>,
) -> Result<Outcome, CommandError> {
    let mut counters = counters.map(CountersFile::create).transpose()?;
    let (mut over, mut written, mut printed) = (0, Ok(()), Ok(()));
    let ran = run_steps(service, steps, is_stopped, |number, figures| {
        over = number;
        if !is_quiet && printed.is_ok() {
            printed = output::print(&line(number, &figures));
        }
        if let Some(file) = counters.as_mut().filter(|_| written.is_ok()) {
            written = file.add(&counted(number, figures));
        }
    });
    written?;
    // What was counted up to a step that is wrong is told, too.
    if let Some(file) = counters {
        file.finish()?;
    }
    ran?;
    printed?;
    if is_stopped.load(Ordering::Relaxed) && !is_quiet {
        let all = units::counted(steps.len() as u64, "step");
        output::print(&format!("stopped after {over} of {all}\n"))?;
    }
    Ok(Outcome::Good)
}

/// A list that is being written.
struct CountersFile<'a> {
    path: &'a Path,
    file: BufWriter<File>,
    is_empty: bool,
}

impl<'a> CountersFile<'a> {
    fn create(path: &'a Path) -> Result<Self, CommandError> {
        let file = File::create(path).map_err(|source| unwritten(path, source))?;
        Ok(Self {
            path,
            file: BufWriter::new(file),
            is_empty: true,
        })
    }

    fn add(&mut self, step: &StepCounters) -> Result<(), CommandError> {
        let before = if self.is_empty { "[\n" } else { ",\n" };
        self.file
            .write_all(before.as_bytes())
            .and_then(|()| Ok(serde_json::to_writer_pretty(&mut self.file, step)?))
            .map_err(|source| unwritten(self.path, source))?;
        self.is_empty = false;
        Ok(())
    }

    fn finish(mut self) -> Result<(), CommandError> {
        let end = if self.is_empty { "[]\n" } else { "\n]\n" };
        self.file
            .write_all(end.as_bytes())
            .and_then(|()| self.file.flush())
            .map_err(|source| unwritten(self.path, source))
    }
}

fn unwritten(path: &Path, source: std::io::Error) -> CommandError {
    CommandError::Write {
        path: path.into(),
        source,
    }
}

fn counted(number: usize, figures: StepFigures) -> StepCounters {
    let Dash { drops, enis, .. } = figures.dash;
    let enis = enis.iter();
    StepCounters {
        step: number,
        packets_in: figures.packets_in,
        fast_packets: figures.fast_packets,
        packets_out: figures.packets_out,
        waiting: figures.waiting,
        all_drops: figures.drops,
        drops,
        enis: enis
            .map(|eni| (eni.eni.clone(), EniCounters::of(eni)))
            .collect(),
    }
}

fn line(number: usize, figures: &StepFigures) -> String {
    let waiting = match figures.waiting.len() {
        0 => String::new(),
        count => format!(", {count} waiting, the first {}", figures.waiting[0]),
    };
    let changed = units::counted(figures.changed as u64, "object");
    let packets = units::counted(figures.packets_in, "packet");
    let [fast, out] = [figures.fast_packets, figures.packets_out].map(units::count);
    format!(
        "step {number}: {changed} changed{waiting}; {packets} in, {fast} of them on the fast path alone, {out} out\n"
    )
}

/// All files that steps read, and all that they write: of paths with `{port}` those of the service's
/// ports.
pub fn files(
    service: &Service,
    steps: &[RunStep],
) -> Result<(Vec<PathBuf>, Vec<PathBuf>), CommandError> {
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for step in steps {
        read.extend(config_files(&step.config));
        let ends = [
            ("a step's in:", &mut read, &step.input),
            ("a step's out:", &mut written, &step.output),
        ];
        for (which, paths, path) in ends {
            if let Some(path) = path {
                check_name(which, path)?;
                paths.extend(captures(service, path)?);
            }
        }
    }
    Ok((read, written))
}
