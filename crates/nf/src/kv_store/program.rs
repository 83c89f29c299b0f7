//! What the store does on the fast path.

use super::config::Config;
use twinpath_core::key_value::{DELETE, GET, PUT};
use twinpath_core::program::{
    Action, Comparison, Condition, Exit, FastProgram, Field, Operand, Operation, Step, Word,
    compute, set,
};
use twinpath_wire::kv::{KvStatus, MAX_VALUE_BYTES};

/// Words of a value.
pub(super) const VALUE_WORDS: usize = MAX_VALUE_BYTES / 4;
/// State words of an entry: length plus one, and the value.
pub(super) const WORDS: usize = 1 + VALUE_WORDS;

const PRESENCE: Operand = Operand::Word(0);
const FIRST_OF_VALUE: u8 = 1;
const LENGTH: Operand = Operand::Temporary(0);
const NOTHING: Operand = Operand::Constant(0);
const ONE: Operand = Operand::Constant(1);

/// Builds the program. Whatever stores or deletes is for the workers if its checksum is wrong.
pub(super) fn program(config: &Config) -> FastProgram {
    let checked = |step: Step| match config.verify_checksums.of_state() {
        true => if_sound(step),
        false => step,
    };
    let mut words = vec![Word {
        name: "presence",
        meaning: "length of the value plus one; 0 if there is none",
    }];
    words.resize(
        WORDS,
        Word {
            name: "value",
            meaning: "four bytes of the value, big-endian, zero behind its end",
        },
    );
    FastProgram {
        name: super::NAME.into(),
        words,
        temporaries: 1,
        steps: vec![
            get_present(),
            get_absent(),
            checked(put()),
            checked(delete_present()),
            checked(delete_absent()),
        ],
        always_complex: vec![vec![operation_is(0)]],
        ..FastProgram::default()
    }
}

fn operation_is(operation: u32) -> Condition {
    Condition::of(
        Operand::Field(Field::KvOperation),
        Comparison::Equal,
        Operand::Constant(operation),
    )
}

fn if_sound(mut step: Step) -> Step {
    let holds = Operand::Field(Field::ChecksumsHold);
    step.when.push(Condition::of(holds, Comparison::Equal, ONE));
    step
}

fn is_present() -> Condition {
    Condition::of(PRESENCE, Comparison::NotEqual, NOTHING)
}

fn is_absent() -> Condition {
    Condition::of(PRESENCE, Comparison::Equal, NOTHING)
}

fn reply(status: KvStatus, length: Operand) -> Action {
    Action::ReplyValue {
        status: status as u8,
        first: FIRST_OF_VALUE,
        length,
    }
}

fn store_value() -> Action {
    Action::StoreValue {
        first: FIRST_OF_VALUE,
        words: VALUE_WORDS as u8,
    }
}

fn get_present() -> Step {
    Step {
        name: "get",
        when: vec![operation_is(GET), is_present()],
        then: vec![
            compute(LENGTH, Operation::Subtract, PRESENCE, ONE),
            reply(KvStatus::Ok, LENGTH),
        ],
        exit: Exit::Reply,
    }
}

fn get_absent() -> Step {
    Step {
        name: "get of nothing",
        when: vec![operation_is(GET)],
        then: vec![reply(KvStatus::NotFound, NOTHING)],
        exit: Exit::Reply,
    }
}

fn put() -> Step {
    let presence = compute(
        PRESENCE,
        Operation::Add,
        Operand::Field(Field::KvValueLength),
        ONE,
    );
    Step {
        name: "put",
        when: vec![operation_is(PUT)],
        then: vec![store_value(), presence, reply(KvStatus::Ok, NOTHING)],
        exit: Exit::Reply,
    }
}

/// Storing the request's value, of no bytes, leaves all of the value's words zero.
fn delete_present() -> Step {
    let carries_nothing = Condition::of(
        Operand::Field(Field::KvValueLength),
        Comparison::Equal,
        NOTHING,
    );
    Step {
        name: "delete",
        when: vec![operation_is(DELETE), is_present(), carries_nothing],
        then: vec![
            store_value(),
            set(PRESENCE, NOTHING),
            reply(KvStatus::Ok, NOTHING),
        ],
        exit: Exit::Reply,
    }
}

fn delete_absent() -> Step {
    Step {
        name: "delete of nothing",
        when: vec![operation_is(DELETE), is_absent()],
        then: vec![reply(KvStatus::NotFound, NOTHING)],
        exit: Exit::Reply,
    }
}
