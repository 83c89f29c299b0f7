//! Points in parallel, and parts of a sweep.

use crate::model::ParameterError;
use crate::plan::Plan;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use toml::Table;

/// One of several parts of a sweep: every `of`-th point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    of: usize,
}

/// A shard that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a shard is I/N with I from 1 to N, as 2/8")]
pub struct NoShard;

impl Default for Shard {
    /// All of it.
    fn default() -> Self {
        Self { index: 1, of: 1 }
    }
}

impl std::str::FromStr for Shard {
    type Err = NoShard;

    fn from_str(text: &str) -> Result<Self, NoShard> {
        let (index, of) = text.split_once('/').ok_or(NoShard)?;
        let number = |text: &str| text.parse::<usize>().map_err(|_| NoShard);
        let shard = Self {
            index: number(index)?,
            of: number(of)?,
        };
        match (1..=shard.of).contains(&shard.index) {
            true => Ok(shard),
            false => Err(NoShard),
        }
    }
}

impl Shard {
    /// Whether this is all of the sweep.
    pub fn is_whole(self) -> bool {
        self.of == 1
    }

    /// What its table of results is called.
    pub fn file_name(self) -> String {
        match self.is_whole() {
            true => "points.csv".into(),
            false => format!("points.{}-of-{}.csv", self.index, self.of),
        }
    }

    /// The numbers of its points.
    pub fn points(self, count: usize) -> impl Iterator<Item = usize> {
        (self.index - 1..count).step_by(self.of)
    }
}

/// Runs the points with these numbers on all cores. `progress` hears how many are done. Once `stop` is
/// set no further point is begun, and the answer is what there is.
///
/// # Errors
/// A model that refuses its parameters, which a checked plan does not let happen.
pub(crate) fn run(
    plan: &Plan,
    points: &[Table],
    numbers: &[usize],
    stop: &AtomicBool,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<(usize, Vec<f64>)>, ParameterError> {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let next = AtomicUsize::new(0);
    let rows = Mutex::new(Vec::with_capacity(numbers.len()));
    let (done, finished) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads.min(numbers.len()) {
            let (next, rows, done) = (&next, &rows, done.clone());
            scope.spawn(move || {
                while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let row = plan
                        .model
                        .run(&points[*number], &plan.folder)
                        .map(|row| (*number, row));
                    rows.lock().expect("nobody panics with it").push(row);
                    let _ = done.send(());
                }
            });
        }
        drop(done);
        for (count, ()) in finished.iter().enumerate() {
            progress(count + 1);
        }
    });
    let rows = rows.into_inner().expect("nobody panics with it");
    let mut rows: Vec<_> = rows.into_iter().collect::<Result<_, _>>()?;
    rows.sort_by_key(|(number, _)| *number);
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_read_and_refused() {
        let shard = |text: &str| text.parse::<Shard>();
        assert_eq!(shard("1/1"), Ok(Shard::default()));
        assert_eq!(shard("2/3").unwrap().file_name(), "points.2-of-3.csv");
        for wrong in ["0/3", "4/3", "1", "a/b", "", "1/0", "-1/2"] {
            assert_eq!(shard(wrong), Err(NoShard), "{wrong}");
        }
    }

    #[test]
    fn shards_are_disjoint_and_complete() {
        let mut all: Vec<usize> = (1..=3)
            .flat_map(|index| Shard { index, of: 3 }.points(10))
            .collect();
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
    }
}
