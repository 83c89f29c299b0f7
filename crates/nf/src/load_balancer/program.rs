//! What the balancer does on the fast path.

use super::config::{Config, ReturnPath, Service};
use super::connection::{
    FIN_OF_CLIENT, FIN_OF_SERVER, Kind, ROW_MASK, SIMPLE_MASK, Timeouts, UNANSWERED_MASK,
};
use twinpath_core::program::{
    Action, Comparison, Condition, EndpointRow, EndpointTable, Exit, FastProgram, Field, Operand,
    Operation, PacketEnd, Step, Word, compute, set,
};
use twinpath_core::{Direction, Instant};
use twinpath_wire::tcp::flags;

const CONNECTION: Operand = Operand::Word(0);
const LAST_SEEN: Operand = Operand::Word(1);
const ROW: Operand = Operand::Temporary(0);
/// The table of backends, one row each.
const BACKENDS: u8 = 0;
/// The table of the services that the rows of [`BACKENDS`] belong to.
const SERVICES: u8 = 1;

/// TCP packets with any of these change more than the time a connection was last seen.
pub(super) const COMPLEX_FLAGS: u8 = flags::SYN | flags::FIN | flags::RST;

/// Builds the program. It has steps for the kinds of services that there are.
pub(super) fn program(config: &Config) -> FastProgram {
    let timeouts = Timeouts::new(config);
    let has = |kind| {
        config
            .services
            .iter()
            .any(|service| Kind::Service(service.protocol, service.return_path) == kind)
    };
    let steps = Kind::ALL
        .into_iter()
        .filter(|&kind| kind == Kind::Passing || has(kind));
    FastProgram {
        name: super::NAME.into(),
        words: vec![
            Word {
                name: "connection",
                meaning: "kind, closing flags and row of the backend; 0 for none",
            },
            Word {
                name: "last_seen",
                meaning: "when the last packet came, in ticks",
            },
        ],
        temporaries: 1,
        steps: steps
            .flat_map(|kind| steps_of(kind, timeouts.of_open(kind)))
            .collect(),
        always_complex: vec![
            vec![opens_or_closes()],
            goes_on_after(Direction::Original, FIN_OF_CLIENT),
            goes_on_after(Direction::Reply, FIN_OF_SERVER),
        ],
        tables: vec![
            table("backends", config, |service, index| {
                (
                    service.backends[index].endpoint,
                    service.backends[index].until,
                )
            }),
            table("services", config, |service, _| {
                (service.vip, Instant::NEVER)
            }),
        ],
        ..FastProgram::default()
    }
}

fn table(
    name: &'static str,
    config: &Config,
    row: impl Fn(&Service, usize) -> (twinpath_wire::Endpoint, Instant),
) -> EndpointTable {
    let rows = config
        .services
        .iter()
        .flat_map(|service| (0..service.backends.len()).map(move |index| (service, index)));
    let row = |(service, index): (&Service, usize)| {
        let (endpoint, until) = row(service, index);
        EndpointRow {
            endpoint,
            mac: service.backends[index].mac,
            until,
        }
    };
    EndpointTable {
        name,
        rows: rows.map(row).collect(),
    }
}

fn opens_or_closes() -> Condition {
    Condition {
        a: Operand::Field(Field::TcpFlags),
        b: Operand::Constant(0),
        mask: COMPLEX_FLAGS.into(),
        comparison: Comparison::NotEqual,
        with: Operand::Constant(0),
    }
}

/// Data of an end that is said to have sent its last.
fn goes_on_after(way: Direction, fin: u32) -> Vec<Condition> {
    let has_data = Condition::of(
        Operand::Field(Field::PayloadLength),
        Comparison::NotEqual,
        Operand::Constant(0),
    );
    vec![goes(way), has_data, Condition::bits(CONNECTION, fin, fin)]
}

fn steps_of(kind: Kind, timeout_ticks: u32) -> Vec<Step> {
    let step = |name, mask, more: Vec<Condition>, rewrites: Vec<Action>| Step {
        name,
        when: [
            more,
            vec![
                Condition::bits(CONNECTION, mask, kind.bits()),
                is_alive(timeout_ticks),
            ],
        ]
        .concat(),
        then: [
            rewrites,
            vec![set(LAST_SEEN, Operand::Field(Field::NowTicks))],
        ]
        .concat(),
        exit: Exit::Continue,
    };
    match kind {
        Kind::Service(_, ReturnPath::Through) => vec![
            step(
                "to the backend",
                UNANSWERED_MASK,
                vec![goes(Direction::Original)],
                with_row(to_backend()),
            ),
            step(
                "to the client",
                SIMPLE_MASK,
                vec![goes(Direction::Reply), is_from_its_backend()],
                with_row(to_client()),
            ),
        ],
        Kind::Service(_, ReturnPath::Direct) => vec![
            step(
                "to the backend's MAC address",
                SIMPLE_MASK,
                vec![goes(Direction::Original)],
                with_row(to_backends_mac()),
            ),
            step(
                "direct answer",
                SIMPLE_MASK,
                vec![goes(Direction::Reply)],
                vec![],
            ),
        ],
        Kind::Passing => vec![step("no service", SIMPLE_MASK, vec![], vec![])],
    }
}

/// A rewrite by the connection's row.
fn with_row(rewrite: Action) -> Vec<Action> {
    let row = compute(ROW, Operation::And, CONNECTION, Operand::Constant(ROW_MASK));
    vec![row, rewrite]
}

const fn to_backend() -> Action {
    Action::Rewrite {
        end: PacketEnd::Destination,
        table: BACKENDS,
        row: ROW,
    }
}

const fn to_client() -> Action {
    Action::Rewrite {
        end: PacketEnd::Source,
        table: SERVICES,
        row: ROW,
    }
}

const fn to_backends_mac() -> Action {
    Action::RewriteMac {
        table: BACKENDS,
        row: ROW,
    }
}

fn goes(direction: Direction) -> Condition {
    Condition::of(
        Operand::Field(Field::Direction),
        Comparison::Equal,
        Operand::Constant(direction as u32),
    )
}

/// The signed comparison lets a packet pass whose clock is a little behind the last one's.
fn is_alive(timeout_ticks: u32) -> Condition {
    Condition::difference(
        Operand::Field(Field::NowTicks),
        LAST_SEEN,
        Comparison::SignedAtMost,
        timeout_ticks,
    )
}

/// The alias row is the row plus one.
fn is_from_its_backend() -> Condition {
    Condition {
        a: Operand::Field(Field::AliasRow),
        b: CONNECTION,
        mask: ROW_MASK,
        comparison: Comparison::Equal,
        with: Operand::Constant(1),
    }
}
