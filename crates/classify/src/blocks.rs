//! Runs of consecutive places in a table, handed out and taken back.

/// Run lengths up to this have a free list each; longer ones are rounded up to powers of two.
const EXACT: usize = 64;
const CLASSES: usize = EXACT + 32;

/// Which places of a table are taken: runs of any length, at most `limit` places in all.
///
/// A run that is given back is reused only for runs of its own length. The runs of the tables
/// here grow and shrink by one at a time, so that every length is soon wanted again.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    free: [Vec<u32>; CLASSES],
    end: usize,
    limit: usize,
    taken: usize,
}

impl Blocks {
    /// No run is taken.
    pub fn new(limit: usize) -> Self {
        Self {
            free: std::array::from_fn(|_| Vec::new()),
            end: 0,
            limit: limit.min(u32::MAX as usize),
            taken: 0,
        }
    }

    /// The first place of a run of `len`, or `None` when the table is full.
    pub fn take(&mut self, len: usize) -> Option<u32> {
        let (class, len) = class(len);
        let reused = self.free.get_mut(class)?.pop();
        let start = match reused {
            Some(start) => start,
            None => self.fresh(len)?,
        };
        self.taken += len;
        Some(start)
    }

    fn fresh(&mut self, len: usize) -> Option<u32> {
        let end = self.end.checked_add(len).filter(|&end| end <= self.limit)?;
        let start = self.end as u32;
        self.end = end;
        Some(start)
    }

    /// Takes back a run.
    pub fn give(&mut self, start: u32, len: usize) {
        let (class, len) = class(len);
        if let Some(free) = self.free.get_mut(class) {
            free.push(start);
            self.taken -= len;
        }
    }

    /// One more than the last place ever taken.
    pub fn end(&self) -> usize {
        self.end
    }

    /// How many places are taken now.
    pub fn taken(&self) -> usize {
        self.taken
    }
}

/// The free list of runs of this length, and the length that such a run has.
fn class(len: usize) -> (usize, usize) {
    if len <= EXACT {
        return (len, len);
    }
    let rounded = len.next_power_of_two();
    (EXACT + (rounded / EXACT).trailing_zeros() as usize, rounded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// No two runs share a place, and none lies beyond the limit.
        #[test]
        fn runs_never_overlap(steps in prop::collection::vec((1usize..200, any::<bool>()), 1..200)) {
            let mut blocks = Blocks::new(5_000);
            let mut owner = vec![None; 5_000];
            let mut held: Vec<(u32, usize)> = Vec::new();
            for (step, (len, give)) in steps.into_iter().enumerate() {
                if give && !held.is_empty() {
                    let (start, len) = held.swap_remove(len % held.len());
                    owner[start as usize..start as usize + len].fill(None);
                    blocks.give(start, len);
                } else if let Some(start) = blocks.take(len) {
                    for place in &mut owner[start as usize..start as usize + len] {
                        prop_assert_eq!(place.replace(step), None);
                    }
                    held.push((start, len));
                }
            }
            prop_assert!(blocks.taken() >= held.iter().map(|run| run.1).sum());
        }
    }

    #[test]
    fn a_full_table_refuses_and_a_run_given_back_is_used_again() {
        let mut blocks = Blocks::new(10);
        let first = blocks.take(6);
        assert_eq!(first, Some(0));
        assert_eq!(blocks.take(6), None);
        blocks.give(0, 6);
        assert_eq!(blocks.take(6), Some(0));
        assert_eq!(blocks.end(), 6);
    }
}
