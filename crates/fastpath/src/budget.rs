//! What a device can hold, and whether a chain fits.
//!
//! A switch pipeline touches each register once per packet, in the stage where it lives, and what
//! decides an update must be known by then. So every state word gets a stage: later than every
//! word that it depends on. Words that depend on each other must share a stateful ALU, which
//! holds a pair and no more. Software has no such limits, but the same check runs with other
//! numbers, so that `explain` can tell for any chain which devices could run it and why not.
//!
//! What an update depends on follows from the state being there twice (SwitchNIC §4.4). Its first copy is
//! updated as if the packet were simple; if it turns out to be complex the flow is frozen, and the second
//! copy, in later stages, still has the state that it left. So a word need not wait for conditions that,
//! where they fail, make the packet complex. It waits for what tells apart two steps that would do
//! different things to it, and that fields of the packet do not tell apart.

use std::borrow::Cow;
use std::collections::BTreeSet;
use twinpath_core::program::{
    Action, Comparison, Condition, Exit, FastProgram, Field, Operand, Operation, Step,
};
use twinpath_core::wire::protocol;

/// The limits of one kind of device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The preset's name, as configuration gives it.
    pub name: &'static str,
    /// State words per flow, over the chain.
    pub words: usize,
    /// Steps per program.
    pub steps: usize,
    /// Conditions on state per step. What is asked of fields alone is one match of a table.
    pub conditions: usize,
    /// Pipeline stages for state words.
    pub stages: usize,
    /// Words that may depend on each other: what one stateful ALU holds.
    pub words_per_alu: usize,
    /// How often keys and words are there: the duplicate is in stages of its own.
    pub copies: usize,
    /// Memory for the state table, in bytes.
    pub table_bytes: usize,
    /// Ways per bucket of the state table.
    pub ways: usize,
    /// Ternary entries for window matchers.
    pub ternary_entries: usize,
    /// Whether values of variable length can be copied between packet and state.
    pub copies_values: bool,
    /// Whether two numbers of a packet or of its flow can be multiplied.
    pub multiplies: bool,
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
            copies: 2,
            table_bytes: 8 << 20,
            ways: 1,
            ternary_entries: 24_576,
            copies_values: false,
            multiplies: false,
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
            copies: 1,
            table_bytes: 4 << 30,
            ways: 8,
            ternary_entries: 1 << 24,
            copies_values: true,
            multiplies: true,
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
    /// A product of two numbers.
    #[error("{program} multiplies, which {device} cannot")]
    Multiply {
        /// Device.
        device: &'static str,
        /// Program.
        program: Cow<'static, str>,
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

/// Bytes of a slot's key on a device.
const KEY_BYTES: usize = 40;
/// Bytes that a slot has besides: generation, indicators, time.
const SLOT_BYTES: usize = 4 + 4 + 8;

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
            table_bytes: slots * (SLOT_BYTES + self.copies * (KEY_BYTES + 4 * words)),
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
        if !self.multiplies && all_actions(program).any(multiplies) {
            return Err(BudgetError::Multiply {
                device,
                program: name(),
            });
        }
        for step in &program.steps {
            let of_state = step.when.iter().filter(|c| !tested_words(c).is_empty());
            within(of_state.count(), self.conditions, |have, limit| {
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
        // By then all that decides is known, so the duplicates need no more than a stage.
        let has_words = usize::from(!inputs.is_empty());
        Ok(stages + has_words * (self.copies - 1))
    }
}

fn all_actions(program: &FastProgram) -> impl Iterator<Item = &Action> {
    let steps = program.steps.iter().flat_map(|step| &step.then);
    program.prologue.iter().chain(steps)
}

const fn multiplies(action: &Action) -> bool {
    matches!(
        action,
        Action::Compute {
            operation: Operation::Multiply,
            ..
        }
    )
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

/// For each word, the words that its updates depend on: those that they are computed from (through
/// temporaries too, approximated by all words that any temporary of the program is computed from), and
/// those that tell apart steps that do different things to it.
fn dependencies(program: &FastProgram) -> Vec<BTreeSet<u8>> {
    let through_temporaries = words_of_temporaries(program);
    let inputs_of = |word: u8| -> BTreeSet<u8> {
        let mut inputs = deciding(program, word);
        for action in program.steps.iter().flat_map(|step| changes(step, word)) {
            inputs.extend(read_words(action));
            if reads_temporary(action) {
                inputs.extend(&through_temporaries);
            }
        }
        inputs.remove(&word);
        inputs
    };
    (0..program.words.len() as u8).map(inputs_of).collect()
}

fn words_of_temporaries(program: &FastProgram) -> BTreeSet<u8> {
    let to_temporaries = all_actions(program).filter(|action| {
        matches!(
            action,
            Action::Compute {
                to: Operand::Temporary(_),
                ..
            }
        )
    });
    to_temporaries.flat_map(read_words).collect()
}

/// What a step does to a word.
fn changes(step: &Step, word: u8) -> Vec<&Action> {
    let actions = step.then.iter();
    actions
        .filter(|action| target_word(action) == Some(word))
        .collect()
}

/// The words that decide which of two changes, or none, this word gets.
fn deciding(program: &FastProgram, word: u8) -> BTreeSet<u8> {
    let simple = || {
        program
            .steps
            .iter()
            .filter(|step| step.exit != Exit::Escalate)
    };
    let mut deciding = BTreeSet::new();
    for (place, one) in simple().enumerate() {
        for other in simple().skip(place + 1) {
            if changes(one, word) != changes(other, word) && !are_apart(one, other) {
                let tested = one.when.iter().chain(&other.when);
                deciding.extend(tested.flat_map(tested_words));
            }
        }
    }
    deciding
}

/// Whether no packet can be meant by both steps, by its fields alone.
fn are_apart(one: &Step, other: &Step) -> bool {
    let pairs = one
        .when
        .iter()
        .flat_map(|a| other.when.iter().map(move |b| (a, b)));
    let mut apart = pairs.map(|(a, b)| {
        contradict(a, b) || is_tcp_alone(a) && is_not_tcp(b) || is_tcp_alone(b) && is_not_tcp(a)
    });
    apart.any(|apart| apart)
}

/// Whether the same of a packet is to be two different things.
fn contradict(a: &Condition, b: &Condition) -> bool {
    let Operand::Field(_) = a.a else {
        return false;
    };
    let (Operand::Constant(_), Operand::Constant(_)) = (a.b, a.with) else {
        return false;
    };
    let is_of_same = (a.a, a.b, a.mask) == (b.a, b.b, b.mask);
    is_of_same
        && match (a.comparison, b.comparison) {
            (Comparison::Equal, Comparison::Equal) => {
                matches!(b.with, Operand::Constant(_)) && a.with != b.with
            }
            (Comparison::Equal, Comparison::NotEqual)
            | (Comparison::NotEqual, Comparison::Equal) => a.with == b.with,
            _ => false,
        }
}

/// Other packets than TCP's have no TCP flags.
fn is_tcp_alone(condition: &Condition) -> bool {
    let Operand::Constant(with) = condition.with else {
        return false;
    };
    condition.a == Operand::Field(Field::TcpFlags)
        && condition.b == Operand::Constant(0)
        && condition.comparison == Comparison::Equal
        && with != 0
}

fn is_not_tcp(condition: &Condition) -> bool {
    let tcp = u32::from(protocol::TCP);
    *condition
        == Condition::of(
            Operand::Field(Field::Protocol),
            Comparison::NotEqual,
            Operand::Constant(tcp),
        )
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
    use twinpath_core::program::{Word, set};

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
        let stages = |program| asic.place(&[program], 1024).map(|placed| placed.stages);
        // The duplicates take one more.
        assert_eq!(stages(flat), Ok(1 + 1));
        let chained = program(
            2,
            vec![
                step(
                    vec![equals(0)],
                    vec![set(Operand::Word(1), Operand::Constant(1))],
                ),
                step(vec![], vec![]),
            ],
        );
        assert_eq!(stages(chained), Ok(2 + 1));
    }

    /// A condition that makes a packet complex where it fails need not be known: the flow is frozen then,
    /// and the duplicate has what was before.
    #[test]
    fn what_would_be_complex_otherwise_decides_nothing() {
        let alone = step(
            vec![equals(0)],
            vec![set(Operand::Word(1), Operand::Constant(1))],
        );
        let stages = |steps| {
            let placed = Budget::asic().place(&[program(2, steps)], 1024);
            placed.map(|placed| placed.stages)
        };
        assert_eq!(stages(vec![alone.clone()]), Ok(1 + 1));
        let direction = |way| {
            Condition::of(
                Operand::Field(Field::Direction),
                Comparison::Equal,
                Operand::Constant(way),
            )
        };
        let going = |mut step: Step, way| {
            step.when.push(direction(way));
            step
        };
        let other = step(vec![], vec![]);
        // Fields tell these apart, and then nothing has to wait.
        let apart = vec![going(alone.clone(), 0), going(other.clone(), 1)];
        assert_eq!(stages(apart), Ok(1 + 1));
        let alike = vec![going(alone.clone(), 0), going(other.clone(), 0)];
        assert_eq!(stages(alike), Ok(2 + 1));
        // The same change in both steps: which of them it is does not matter.
        let same = vec![alone.clone(), step(vec![], alone.then.clone())];
        assert_eq!(stages(same), Ok(1 + 1));
    }

    #[test]
    fn words_that_depend_on_each_other_must_share_an_alu() {
        let cycle = |count: u8| {
            let cyclic = (0..count).map(|word| {
                let next = Operand::Word((word + 1) % count);
                step(vec![], vec![set(Operand::Word(word), next)])
            });
            program(usize::from(count), cyclic.collect())
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
        let of_fields = Condition::of(
            Operand::Field(Field::Protocol),
            Comparison::Equal,
            Operand::Constant(6),
        );
        let many = step(vec![of_fields; 9], vec![]);
        assert!(asic.place(&[program(1, vec![many])], 1).is_ok());
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
