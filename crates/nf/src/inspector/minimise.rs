//! Merges the states of a table that no input tells apart (Hopcroft 1971), so
//! that a state is equivalent to the start only if it *is* the start.

use super::automaton::Table;

/// The same table with equivalent states merged.
pub(super) fn minimised(table: &Table) -> Table {
    let block_of = equivalence(table);
    // Numbers of blocks are arbitrary; exploring gives the start its own.
    let mut member = vec![0; block_of.len()];
    for (state, block) in (0..).zip(&block_of) {
        member[*block as usize] = state;
    }
    let step = |block: u32, byte| block_of[table.step(member[block as usize], byte) as usize];
    let reports = |block: u32| table.reported(member[block as usize]).to_vec();
    Table::explore(
        table.classes.clone(),
        block_of[0],
        table.bytes(),
        step,
        reports,
    )
    .expect("there are at most as many blocks as states")
}

/// The number of each state's equivalence class.
fn equivalence(table: &Table) -> Vec<u32> {
    let mut partition = Partition::by_reports(table);
    let sources = Sources::new(table);
    let mut waiting: Vec<u32> = (0..partition.blocks.len() as u32).collect();
    let mut is_waiting = vec![true; waiting.len()];
    let (mut splitter, mut touched) = (Vec::new(), Vec::new());
    while let Some(block) = waiting.pop() {
        is_waiting[block as usize] = false;
        splitter.clear();
        splitter.extend_from_slice(partition.members(block));
        for class in 0..table.classes.representatives.len() {
            for &target in &splitter {
                for &source in sources.of(class, target) {
                    partition.mark(source, &mut touched);
                }
            }
            for old in touched.drain(..) {
                let Some(new) = partition.split(old) else {
                    continue;
                };
                let smaller = if is_waiting[old as usize] {
                    new
                } else {
                    partition.smaller(old, new)
                };
                is_waiting.push(false);
                is_waiting[smaller as usize] = true;
                waiting.push(smaller);
            }
        }
    }
    partition.block_of
}

/// A block's states are `states[begin..end]`, the marked ones first.
struct Block {
    begin: usize,
    end: usize,
    marked: usize,
}

/// The states, arranged so that those of a block stand together.
struct Partition {
    states: Vec<u32>,
    position_of: Vec<usize>,
    block_of: Vec<u32>,
    blocks: Vec<Block>,
}

impl Partition {
    /// One block for each set of rules that some state reports.
    fn by_reports(table: &Table) -> Self {
        let mut states: Vec<u32> = (0..table.states()).collect();
        let reports = |state: &u32| &table.reports[*state as usize];
        states.sort_by_key(reports);
        let mut position_of = vec![0; states.len()];
        let mut block_of = vec![0; states.len()];
        let mut blocks: Vec<Block> = Vec::new();
        for group in states.chunk_by(|a, b| reports(a) == reports(b)) {
            let begin = blocks.last().map_or(0, |block| block.end);
            for (position, &state) in (begin..).zip(group) {
                position_of[state as usize] = position;
                block_of[state as usize] = blocks.len() as u32;
            }
            blocks.push(Block {
                begin,
                end: begin + group.len(),
                marked: 0,
            });
        }
        Self {
            states,
            position_of,
            block_of,
            blocks,
        }
    }

    fn members(&self, block: u32) -> &[u32] {
        let Block { begin, end, .. } = self.blocks[block as usize];
        &self.states[begin..end]
    }

    /// Moves `state` among the marked ones of its block; the first mark of a
    /// block puts it on `touched`.
    fn mark(&mut self, state: u32, touched: &mut Vec<u32>) {
        let number = self.block_of[state as usize];
        let block = &mut self.blocks[number as usize];
        let (from, to) = (self.position_of[state as usize], block.begin + block.marked);
        if from < to {
            return;
        }
        if block.marked == 0 {
            touched.push(number);
        }
        block.marked += 1;
        self.states.swap(from, to);
        self.position_of[self.states[from] as usize] = from;
        self.position_of[state as usize] = to;
    }

    /// Takes the marked states out into a new block, unless all are marked.
    fn split(&mut self, old: u32) -> Option<u32> {
        let new = self.blocks.len() as u32;
        let block = &mut self.blocks[old as usize];
        let (begin, end) = (block.begin, block.begin + block.marked);
        block.marked = 0;
        if end == block.end {
            return None;
        }
        block.begin = end;
        self.blocks.push(Block {
            begin,
            end,
            marked: 0,
        });
        for state in &self.states[begin..end] {
            self.block_of[*state as usize] = new;
        }
        Some(new)
    }

    fn smaller(&self, one: u32, other: u32) -> u32 {
        if self.members(one).len() < self.members(other).len() {
            one
        } else {
            other
        }
    }
}

/// The transitions backwards.
struct Sources {
    /// Where the sources of a class and target end; targets run fastest.
    ends: Vec<u32>,
    sources: Vec<u32>,
    states: usize,
}

impl Sources {
    fn new(table: &Table) -> Self {
        let (states, width) = (table.reports.len(), table.classes.representatives.len());
        let mut ends = vec![0; states * width];
        let key = |at: usize| at % width * states + table.next[at] as usize;
        (0..table.next.len()).for_each(|at| ends[key(at)] += 1);
        let mut total = 0;
        for end in &mut ends {
            // For now where each run begins; filling it moves that to its end.
            total += std::mem::replace(end, total);
        }
        let mut sources = vec![0; table.next.len()];
        for at in 0..table.next.len() {
            let slot = &mut ends[key(at)];
            sources[*slot as usize] = (at / width) as u32;
            *slot += 1;
        }
        Self {
            ends,
            sources,
            states,
        }
    }

    fn of(&self, class: usize, target: u32) -> &[u32] {
        let run = class * self.states + target as usize;
        let begin = run.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.sources[begin as usize..self.ends[run] as usize]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::automaton::ByteClasses;
    use super::*;

    /// Which pairs of states some input tells apart, by the book.
    fn distinguishable(table: &Table) -> Vec<Vec<bool>> {
        let n = table.reports.len();
        let mut apart: Vec<Vec<bool>> = (0..n)
            .map(|a| {
                (0..n)
                    .map(|b| table.reports[a] != table.reports[b])
                    .collect()
            })
            .collect();
        loop {
            let mut changed = false;
            for a in 0..n {
                for b in 0..n {
                    let pairs = table.row(a as u32).iter().zip(table.row(b as u32));
                    let differ = pairs
                        .into_iter()
                        .any(|(x, y)| apart[*x as usize][*y as usize]);
                    if differ && !apart[a][b] {
                        apart[a][b] = true;
                        changed = true;
                    }
                }
            }
            if !changed {
                return apart;
            }
        }
    }

    fn any_table() -> impl Strategy<Value = Table> {
        (1..12u32).prop_flat_map(|n| {
            let row = prop::collection::vec((0..n, 0..n), n as usize);
            let reports = prop::collection::vec(
                prop_oneof![3 => Just(vec![]), 1 => Just(vec![1])],
                n as usize,
            );
            (row, reports).prop_map(|(rows, reports)| {
                let classes = ByteClasses::new(|byte| usize::from(byte == b'a'));
                let next = rows.into_iter().flat_map(|(x, y)| [x, y]).collect();
                Table {
                    classes,
                    next,
                    reports,
                }
            })
        })
    }

    proptest! {
        #[test]
        fn states_share_a_block_exactly_if_nothing_tells_them_apart(table in any_table()) {
            let blocks = equivalence(&table);
            let apart = distinguishable(&table);
            for a in 0..blocks.len() {
                for b in 0..blocks.len() {
                    prop_assert_eq!(blocks[a] != blocks[b], apart[a][b], "{} {} {:?}", a, b, table);
                }
            }
        }

        #[test]
        fn the_smaller_table_reports_the_same(table in any_table(), input in prop::collection::vec(any::<bool>(), 0..40)) {
            let small = minimised(&table);
            let (mut a, mut b) = (0, 0);
            for bit in input {
                a = table.row(a)[usize::from(bit)];
                b = small.row(b)[usize::from(bit)];
                prop_assert_eq!(&table.reports[a as usize], &small.reports[b as usize]);
            }
            prop_assert!(small.states() <= table.states());
        }
    }
}
