//! Inputs that were worth keeping, and changed copies of them: the same every time.

use super::Target;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::fs;
use std::ops::Range;
use std::path::Path;

/// How many changed copies of each there are.
const COPIES: usize = 60;
/// How much of an input counts, as for the fuzzer.
const MAX_LEN: usize = 4096;

/// Feeds a target.
pub(super) fn replay(name: &str) {
    let target = Target::named(name).expect("a target of this name");
    let inputs = inputs(name);
    assert!(!inputs.is_empty(), "nothing is kept for {name}");
    let mut random = Random(Xoshiro256PlusPlus::seed_from_u64(20_261_122));
    for input in &inputs {
        target.run(input);
        for _ in 0..COPIES {
            let other = &inputs[random.below(inputs.len())];
            target.run(&random.changed(input, other));
        }
    }
}

/// What is kept for a target, and files of the repository that it starts from.
fn inputs(name: &str) -> Vec<Vec<u8>> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR"));
    let seeds = include_str!("../seeds.txt").lines();
    let seeds = seeds.filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let mut folders = vec![fuzz.join("corpus").join(name)];
    folders.extend(seeds.map(|folder| fuzz.join("..").join(folder)));
    let entries = folders.iter().filter_map(|folder| folder.read_dir().ok());
    let mut files: Vec<_> = entries.flatten().flatten().map(|one| one.path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    let read = |path| fs::read(path).expect("a file of the repository");
    files.iter().map(read).collect()
}

struct Random(Xoshiro256PlusPlus);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end.max(1) as u64) as usize
    }

    fn range(&mut self, len: usize) -> Range<usize> {
        let ends = [self.below(len + 1), self.below(len + 1)];
        ends[0].min(ends[1])..ends[0].max(ends[1])
    }

    /// A copy with a few changes, some of which bring parts of another input.
    fn changed(&mut self, input: &[u8], other: &[u8]) -> Vec<u8> {
        let mut bytes = input.to_vec();
        for _ in 0..=self.below(4) {
            let range = self.range(bytes.len());
            match self.below(5) {
                0 => drop(bytes.drain(range)),
                1 => bytes.extend_from_within(range),
                2 => {
                    let part = other[self.range(other.len())].to_vec();
                    bytes.splice(range, part);
                }
                kind => self.change_byte(kind == 3, &mut bytes),
            }
        }
        bytes.truncate(MAX_LEN);
        bytes
    }

    /// One bit of a byte is another, or all are what bounds are made of.
    fn change_byte(&mut self, is_bit: bool, bytes: &mut [u8]) {
        let at = self.below(bytes.len());
        let bit = 1 << self.below(8);
        let bound = [0, 1, 0x7f, 0x80, 0xff][self.below(5)];
        if let Some(byte) = bytes.get_mut(at) {
            *byte = if is_bit { *byte ^ bit } else { bound };
        }
    }
}
