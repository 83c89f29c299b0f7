//! What the reassembler does on the fast path.

use super::config::Config;
use super::state::{CLOSED, CONFIRMED, FLAGS, HOLDING, LAST_SEEN, NEXT, finished, tracked};
use crate::duration::Human;
use twinpath_core::Direction;
use twinpath_core::program::{
    Comparison, Condition, Exit, FastProgram, Field, Operand, Operation, Step, Word, compute, set,
};
use twinpath_core::wire::protocol;
use twinpath_core::wire::tcp::flags::{ACK, FIN, RST, SYN, URG};

const WORDS: [Word; super::state::WORDS] = [
    Word {
        name: "flags",
        meaning: "which directions are tracked, finished, incomplete; whether both ends were heard; prints of their SYNs",
    },
    Word {
        name: "next_original",
        meaning: "next expected sequence number from the opener",
    },
    Word {
        name: "next_reply",
        meaning: "next expected sequence number towards the opener",
    },
    Word {
        name: "last_seen",
        meaning: "time of the last packet, in ticks",
    },
];

/// The program for a configuration.
pub(super) fn program(name: &'static str, config: &Config) -> FastProgram {
    FastProgram {
        name: name.into(),
        words: WORDS.to_vec(),
        steps: vec![
            in_order(Direction::Original, config),
            in_order(Direction::Reply, config),
            alone(Direction::Original, config),
            alone(Direction::Reply, config),
            behind_fin(Direction::Original, config),
            behind_fin(Direction::Reply, config),
            not_tcp(),
        ],
        always_complex: vec![vec![opens_or_ends()]],
        guarantees: config.guarantees(),
        ..FastProgram::default()
    }
}

/// Only workers open and end connections and take marks off, so the steps need not look at these
/// flags.
fn opens_or_ends() -> Condition {
    Condition {
        a: Operand::Field(Field::TcpFlags),
        b: Operand::Constant(0),
        mask: u32::from(SYN | FIN | RST | URG),
        comparison: Comparison::NotEqual,
        with: Operand::Constant(0),
    }
}

/// The next segment of a connection whose ends were both heard.
fn in_order(way: Direction, config: &Config) -> Step {
    let name = match way {
        Direction::Original => "in order from the opener",
        Direction::Reply => "in order towards the opener",
    };
    let known = [CONFIRMED, CONFIRMED];
    next_segment(name, way, known, config.idle_timeout, config)
}

/// The next segment from an end that is the only one that was heard. With the other's first segment,
/// which is the workers', that ends.
fn alone(way: Direction, config: &Config) -> Step {
    let name = match way {
        Direction::Original => "from the opener alone",
        Direction::Reply => "towards the opener alone",
    };
    let known = [CONFIRMED | tracked(way.other()), 0];
    next_segment(name, way, known, config.half_open_timeout, config)
}

/// An acknowledgement from an end that has sent its FIN. Data there says that it was none, which is
/// the workers' to note.
fn behind_fin(way: Direction, config: &Config) -> Step {
    let name = match way {
        Direction::Original => "acknowledgement behind the opener's FIN",
        Direction::Reply => "acknowledgement behind the other end's FIN",
    };
    let known = [CONFIRMED | finished(way); 2];
    let bytes = Operand::Field(Field::PayloadLength);
    let is_bare = Condition::of(bytes, Comparison::Equal, Operand::Constant(0));
    let mut step = next_segment(name, way, known, config.idle_timeout, config);
    step.when.push(is_bare);
    step
}

/// Of the flags in the first of `known` those in the second are set.
fn next_segment(
    name: &'static str,
    way: Direction,
    known: [u32; 2],
    timeout: Human,
    config: &Config,
) -> Step {
    let [flags, next, last_seen] =
        [FLAGS, NEXT + way.index(), LAST_SEEN].map(|word| Operand::Word(word as u8));
    let now = Operand::Field(Field::NowTicks);
    let ack = u32::from(ACK);
    let hold = config.verify_checksums.of_state().then_some(Condition::of(
        Operand::Field(Field::ChecksumsHold),
        Comparison::Equal,
        Operand::Constant(1),
    ));
    let when = [
        Condition::of(
            Operand::Field(Field::Direction),
            Comparison::Equal,
            Operand::Constant(way as u32),
        ),
        Condition::difference(
            Operand::Field(Field::TcpSequence),
            next,
            Comparison::Equal,
            0,
        ),
        Condition::bits(
            flags,
            tracked(way) | finished(way) | HOLDING | CLOSED | known[0],
            tracked(way) | known[1],
        ),
        Condition::difference(now, last_seen, Comparison::AtMost, timeout.ticks()),
        Condition::bits(Operand::Field(Field::TcpFlags), ack, ack),
    ];
    Step {
        name,
        when: when.into_iter().chain(hold).collect(),
        then: vec![
            compute(
                next,
                Operation::Add,
                next,
                Operand::Field(Field::PayloadLength),
            ),
            set(last_seen, now),
        ],
        exit: Exit::Continue,
    }
}

fn not_tcp() -> Step {
    let protocol = Operand::Field(Field::Protocol);
    Step {
        name: "not TCP",
        when: vec![Condition::of(
            protocol,
            Comparison::NotEqual,
            Operand::Constant(u32::from(protocol::TCP)),
        )],
        then: Vec::new(),
        exit: Exit::Continue,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_fastpath::Budget;

    /// SwitchNIC's own switch runs a reassembler (Appendix A.1).
    #[test]
    fn a_switch_asic_runs_it() {
        let program = program("reassembler", &Config::default());
        let placement = Budget::asic().place(&[program], 32_768);
        assert_eq!(placement.map(|placement| placement.stages), Ok(2));
    }
}
