//! What a device can hold, and whether a chain fits.
//!
//! A switch pipeline touches each register once per packet, in the stage where it lives, and what
//! decides an update must be known by then. So every state word gets a stage: later than every
//! word that it depends on. Words that depend on each other must share a stateful ALU, which
//! holds a pair and no more. Software has no such limits, but the same check runs with other
//! numbers, so that `explain` can tell for any chain which devices could run it and why not.

use std::borrow::Cow;
use std::collections::BTreeSet;
use twinpath_core::program::{Action, Condition, FastProgram, Operand, Step};

/// The limits of one kind of device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The preset's name, as configuration gives it.
    pub name: &'static str,
    /// State words per flow, over the chain.
    pub words: usize,
    /// Steps per program.
    pub steps: usize,
    /// Conditions per step.
    pub conditions: usize,
    /// Pipeline stages for state words.
    pub stages: usize,
    /// Words that may depend on each other: what one stateful ALU holds.
    pub words_per_alu: usize,
    /// Memory for the state table, in bytes.
    pub table_bytes: usize,
    /// Ways per bucket of the state table.
    pub ways: usize,
    /// Ternary entries for window matchers.
    pub ternary_entries: usize,
    /// Whether values of variable length can be copied between packet and state.
    pub copies_values: bool,
}

impl Budget {
    /// A switch ASIC of the Tofino kind: twelve stages, of which the protocol's own registers and
    /// the sketch take five (SwitchNIC §5.1, §6.5).
    pub const fn asic() -> Self {
        Self {
            name: "asic",
            words: 8,
            steps: 8,
            conditions: 4,
            stages: 7,
            words_per_alu: 2,
            table_bytes: 8 << 20,
            ways: 1,
            ternary_entries: 24_576,
            copies_values: false,
        }
    }

    /// A general-purpose core.
    pub const fn software() -> Self {
        Self {
            name: "software",
            words: 36,
            steps: 32,
            conditions: 16,
            stages: 64,
            words_per_alu: 36,
            table_bytes: 4 << 30,
            ways: 8,
            ternary_entries: 1 << 24,
            copies_values: true,
        }
    }
}

/// Why a chain does not fit a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// Too many state words.
    #[error("the chain has {have} state words per flow; {device} has room for {limit}")]
    Words {
        /// Device.
        device: &'static str,
        /// Words of the chain.
        have: usize,
        /// Words of the device.
        limit: usize,
    },
    /// Too many steps in a program.
    #[error("{program} has {have} steps; {device} runs {limit} per function")]
    Steps {
        /// Device.
        device: &'static str,
        /// Program.
        program: Cow<'static, str>,
        /// Its steps.
        have: usize,
        /// The device's.
        limit: usize,
    },
    /// Too many conditions in a step.
    #[error("{program}, step \"{step}\": {have} conditions; {device} evaluates {limit}")]
    Conditions {
        /// Device.
        device: &'static str,
        /// Program.
        program: Cow<'static, str>,
        /// Step.
        step: &'static str,
        /// Its conditions.
        have: usize,
        /// The device's.
        limit: usize,
    },
    /// A state word written twice by one packet.
    #[error(
        "{program}, step \"{step}\": word[{word}] is written twice; a register can be accessed once per packet"
    )]
    WrittenTwice {
        /// Program.
        program: Cow<'static, str>,
        /// Step.
        step: &'static str,
        /// The word.
        word: u8,
    },
    /// Words that decide about each other.
    #[error(
        "{program}: words {words:?} depend on each other; one stateful ALU of {device} holds {limit}"
    )]
    Cycle {
        /// Device.
        device: &'static str,
        /// Program.
        program: Cow<'static, str>,
        /// The words.
        words: Vec<u8>,
        /// How many an ALU holds.
        limit: usize,
    },
    /// The chain of dependencies is longer than the pipeline.
    #[error("the chain needs {have} dependent stages; {device} has {limit} left for state")]
    Stages {
        /// Device.
        device: &'static str,
        /// Stages needed.
        have: usize,
        /// Stages there are.
        limit: usize,
    },
    /// The state table is too large.
    #[error("{slots} slots take {have} bytes; {device} has {limit}")]
    Memory {
        /// Device.
        device: &'static str,
        /// Slots asked for.
        slots: usize,
        /// Bytes they take.
        have: usize,
        /// Bytes there are.
        limit: usize,
    },
    /// The window matcher is too large.
    #[error("{program}: its patterns need {have} ternary entries; {device} has {limit}")]
    Ternary {
        /// Device.
        device: &'static str,
        /// Program.
        program: Cow<'static, str>,
        /// Entries needed.
        have: usize,
        /// Entries there are.
        limit: usize,
    },
    /// Values of variable length.
    #[error(
        "{program} copies values of variable length between packet and state, which {device} cannot"
    )]
    Values {
        /// Device.
        device: &'static str,
        /// Program.
        program: Cow<'static, str>,
    },
}

/// What a chain takes of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// State words per flow.
    pub words: usize,
    /// Dependent stages.
    pub stages: usize,
    /// Bytes of state table.
    pub table_bytes: usize,
    /// Ternary entries.
    pub ternary_entries: usize,
}

/// Bytes of a slot on a device, beside its words: key, generation, indicators, time.
const SLOT_BYTES: usize = 40 + 4 + 4 + 8;

impl Budget {
    /// Checks a chain of programs with a state table of `slots` slots.
    ///
    /// # Errors
    /// The first limit that the chain exceeds, in the terms of the program at fault.
    pub fn place(&self, programs: &[FastProgram], slots: usize) -> Result<Placement, BudgetError> {
        let words = programs
            .iter()
            .map(|program| program.words.len())
            .sum::<usize>();
        let mut placement = Placement {
            words,
            table_bytes: slots * (SLOT_BYTES + 4 * words),
            ..Placement::default()
        };
        within(words, self.words, |have, limit| BudgetError::Words {
            device: self.name,
            have,
            limit,
        })?;
        for program in programs {
            self.check_shape(program)?;
            placement.stages += self.stages_of(program)?;
            placement.ternary_entries += self.ternary_of(program)?;
        }
        within(placement.stages, self.stages, |have, limit| {
            BudgetError::Stages {
                device: self.name,
                have,
                limit,
            }
        })?;
        within(placement.table_bytes, self.table_bytes, |have, limit| {
            BudgetError::Memory {
                device: self.name,
                slots,
                have,
                limit,
            }
        })?;
        Ok(placement)
    }

    fn check_shape(&self, program: &FastProgram) -> Result<(), BudgetError> {
        let (device, name) = (self.name, || program.name.clone());
        within(program.steps.len(), self.steps, |have, limit| {
            BudgetError::Steps {
                device,
                program: name(),
                have,
                limit,
            }
        })?;
        for step in &program.steps {
            within(step.when.len(), self.conditions, |have, limit| {
                BudgetError::Conditions {
                    device,
                    program: name(),
                    step: step.name,
                    have,
                    limit,
                }
            })?;
            written_once(program, step)?;
            let copies = step.then.iter().any(|action| {
                matches!(
                    action,
                    Action::StoreValue { .. } | Action::ReplyValue { .. }
                )
            });
            if copies && !self.copies_values {
                return Err(BudgetError::Values {
                    device,
                    program: name(),
                });
            }
        }
        Ok(())
    }

    fn ternary_of(&self, program: &FastProgram) -> Result<usize, BudgetError> {
        let have = program
            .window
            .as_ref()
            .map_or(0, |window| window.ternary_entries());
        within(have, self.ternary_entries, |have, limit| {
            BudgetError::Ternary {
                device: self.name,
                program: program.name.clone(),
                have,
                limit,
            }
        })?;
        Ok(have)
    }

    /// Dependent stages that a program's words need: words whose inputs are placed go into the
    /// next stage; when none can be placed, the smallest group that only depends on itself and on
    /// placed words must share an ALU.
    fn stages_of(&self, program: &FastProgram) -> Result<usize, BudgetError> {
        let inputs = dependencies(program);
        let mut placed = BTreeSet::new();
        let mut stages = 0;
        while placed.len() < inputs.len() {
            let group = next_group(&inputs, &placed);
            if group.len() > 1
                && group.len() > self.words_per_alu
                && !group
                    .iter()
                    .all(|&word| independent(&inputs, word, &placed))
            {
                return Err(BudgetError::Cycle {
                    device: self.name,
                    program: program.name.clone(),
                    words: group.into_iter().collect(),
                    limit: self.words_per_alu,
                });
            }
            placed.extend(group);
            stages += 1;
        }
        Ok(stages)
    }
}

fn within(
    have: usize,
    limit: usize,
    error: impl FnOnce(usize, usize) -> BudgetError,
) -> Result<(), BudgetError> {
    if have > limit {
        Err(error(have, limit))
    } else {
        Ok(())
    }
}

fn written_once(program: &FastProgram, step: &Step) -> Result<(), BudgetError> {
    let mut written = BTreeSet::new();
    for word in step.then.iter().filter_map(target_word) {
        if !written.insert(word) {
            return Err(BudgetError::WrittenTwice {
                program: program.name.clone(),
                step: step.name,
                word,
            });
        }
    }
    Ok(())
}

fn target_word(action: &Action) -> Option<u8> {
    match action {
        Action::Compute {
            to: Operand::Word(word),
            ..
        } => Some(*word),
        _ => None,
    }
}

/// For each word, the words that its updates depend on: those in the conditions that guard the
/// update and those it is computed from (through temporaries too, approximated by all words that
/// any temporary of the program is computed from).
fn dependencies(program: &FastProgram) -> Vec<BTreeSet<u8>> {
    let through_temporaries: BTreeSet<u8> = program
        .prologue
        .iter()
        .chain(program.steps.iter().flat_map(|step| &step.then))
        .filter(|action| {
            matches!(
                action,
                Action::Compute {
                    to: Operand::Temporary(_),
                    ..
                }
            )
        })
        .flat_map(read_words)
        .collect();
    let mut inputs = vec![BTreeSet::new(); program.words.len()];
    for step in &program.steps {
        let guards: BTreeSet<u8> = step.when.iter().flat_map(tested_words).collect();
        for action in &step.then {
            let Some(word) = target_word(action) else {
                continue;
            };
            let Some(input) = inputs.get_mut(usize::from(word)) else {
                continue;
            };
            input.extend(
                guards
                    .iter()
                    .chain(&read_words(action))
                    .copied()
                    .filter(|&other| other != word),
            );
            if reads_temporary(action) {
                input.extend(
                    through_temporaries
                        .iter()
                        .copied()
                        .filter(|&other| other != word),
                );
            }
        }
    }
    inputs
}

fn tested_words(condition: &Condition) -> Vec<u8> {
    words_among([condition.a, condition.b, condition.with])
}

fn read_words(action: &Action) -> Vec<u8> {
    match *action {
        Action::Compute { a, b, .. } => words_among([a, b, Operand::Constant(0)]),
        _ => Vec::new(),
    }
}

fn reads_temporary(action: &Action) -> bool {
    matches!(
        action,
        Action::Compute {
            a: Operand::Temporary(_),
            ..
        } | Action::Compute {
            b: Operand::Temporary(_),
            ..
        }
    )
}

fn words_among(operands: [Operand; 3]) -> Vec<u8> {
    operands
        .into_iter()
        .filter_map(|operand| {
            if let Operand::Word(word) = operand {
                Some(word)
            } else {
                None
            }
        })
        .collect()
}

fn independent(inputs: &[BTreeSet<u8>], word: u8, placed: &BTreeSet<u8>) -> bool {
    inputs[usize::from(word)].is_subset(placed)
}

/// The words for the next stage: all that depend only on placed ones, or else the smallest set
/// that is closed under dependencies.
fn next_group(inputs: &[BTreeSet<u8>], placed: &BTreeSet<u8>) -> BTreeSet<u8> {
    let waiting = || (0..inputs.len() as u8).filter(|word| !placed.contains(word));
    let ready: BTreeSet<u8> = waiting()
        .filter(|&word| independent(inputs, word, placed))
        .collect();
    if !ready.is_empty() {
        return ready;
    }
    waiting()
        .map(|word| closure(inputs, word, placed))
        .min_by_key(BTreeSet::len)
        .unwrap_or_default()
}

fn closure(inputs: &[BTreeSet<u8>], word: u8, placed: &BTreeSet<u8>) -> BTreeSet<u8> {
    let mut group = BTreeSet::from([word]);
    loop {
        let more: BTreeSet<u8> = group
            .iter()
            .flat_map(|&member| &inputs[usize::from(member)])
            .copied()
            .filter(|other| !placed.contains(other) && !group.contains(other))
            .collect();
        if more.is_empty() {
            return group;
        }
        group.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::program::{Comparison, Exit, Field, Word, set};

    fn program(words: usize, steps: Vec<Step>) -> FastProgram {
        FastProgram {
            name: "test".into(),
            words: vec![
                Word {
                    name: "w",
                    meaning: ""
                };
                words
            ],
            steps,
            ..FastProgram::default()
        }
    }

    fn step(when: Vec<Condition>, then: Vec<Action>) -> Step {
        Step {
            name: "step",
            when,
            then,
            exit: Exit::Continue,
        }
    }

    fn equals(word: u8) -> Condition {
        Condition::of(
            Operand::Word(word),
            Comparison::Equal,
            Operand::Field(Field::TcpSequence),
        )
    }

    #[test]
    fn independent_words_share_a_stage_and_dependent_ones_do_not() {
        let asic = Budget::asic();
        let flat = program(
            2,
            vec![step(
                vec![],
                vec![
                    set(Operand::Word(0), Operand::Constant(1)),
                    set(Operand::Word(1), Operand::Constant(1)),
                ],
            )],
        );
        assert_eq!(
            asic.place(&[flat], 1024).map(|placement| placement.stages),
            Ok(1)
        );
        let chained = program(
            2,
            vec![step(
                vec![equals(0)],
                vec![set(Operand::Word(1), Operand::Constant(1))],
            )],
        );
        assert_eq!(
            asic.place(&[chained], 1024)
                .map(|placement| placement.stages),
            Ok(2)
        );
    }

    #[test]
    fn words_that_depend_on_each_other_must_share_an_alu() {
        let cycle = |count: u8| {
            let steps = (0..count)
                .map(|word| {
                    step(
                        vec![equals((word + 1) % count)],
                        vec![set(Operand::Word(word), Operand::Constant(1))],
                    )
                })
                .collect();
            program(usize::from(count), steps)
        };
        assert!(Budget::asic().place(&[cycle(2)], 1024).is_ok());
        assert!(matches!(
            Budget::asic().place(&[cycle(3)], 1024),
            Err(BudgetError::Cycle { limit: 2, .. })
        ));
        assert!(Budget::software().place(&[cycle(3)], 1024).is_ok());
    }

    #[test]
    fn each_limit_has_its_reason() {
        let asic = Budget::asic();
        assert!(matches!(
            asic.place(&[program(9, vec![])], 1),
            Err(BudgetError::Words {
                have: 9,
                limit: 8,
                ..
            })
        ));
        assert!(matches!(
            asic.place(&[program(1, vec![])], 1 << 20),
            Err(BudgetError::Memory { .. })
        ));
        assert!(matches!(
            asic.place(&[program(1, vec![step(vec![equals(0); 5], vec![])])], 1),
            Err(BudgetError::Conditions { .. })
        ));
        let twice = vec![set(Operand::Word(0), Operand::Constant(1)); 2];
        assert!(matches!(
            asic.place(&[program(1, vec![step(vec![], twice)])], 1),
            Err(BudgetError::WrittenTwice { word: 0, .. })
        ));
        let copies = vec![Action::StoreValue { first: 0, words: 1 }];
        assert!(matches!(
            asic.place(&[program(1, vec![step(vec![], copies)])], 1),
            Err(BudgetError::Values { .. })
        ));
    }
}
