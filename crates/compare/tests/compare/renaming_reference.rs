//! Comparisons up to renaming against one that tries every renaming.

use crate::common::{MS, Packets, compare, end, frame, renamed};
use proptest::prelude::*;
use std::collections::BTreeMap;
use twinpath_core::wire::icmp::IcmpError;
use twinpath_core::wire::{Endpoint, PacketBuilder};

/// What a packet is made from. Names are numbers, and mean nothing.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Made {
    kind: Kind,
    name: usize,
    server: usize,
    content: u8,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Udp,
    /// Two fragments.
    Parts,
    /// A host's complaint about a datagram.
    Error,
    Tcp,
    Echo,
    /// An answer, to the host with the name's number.
    Answer,
}

const KINDS: [Kind; 6] = [
    Kind::Udp,
    Kind::Parts,
    Kind::Error,
    Kind::Tcp,
    Kind::Echo,
    Kind::Answer,
];
const NAMES: [&str; 4] = [
    "198.51.100.1:1000",
    "198.51.100.1:1001",
    "198.51.100.2:1000",
    "198.51.100.3:1002",
];
const SERVERS: [&str; 2] = ["192.0.2.1:53", "192.0.2.2:53"];

impl Kind {
    /// What gives out the names; answers go to hosts, which have none.
    const fn protocol(self) -> Option<u8> {
        match self {
            Self::Udp | Self::Parts | Self::Error => Some(17),
            Self::Tcp => Some(6),
            Self::Echo => Some(1),
            Self::Answer => None,
        }
    }
}

impl Made {
    fn frames(&self) -> Vec<Vec<u8>> {
        let (name, server) = (end(NAMES[self.name]), end(SERVERS[self.server]));
        let content = [self.content; 8];
        let udp = PacketBuilder::udp(name, server).payload(&content);
        match self.kind {
            Kind::Udp => vec![frame(udp)],
            Kind::Parts => {
                let udp = udp.identification(self.content.into());
                vec![frame(udp.fragment(0, true)), frame(udp.fragment(16, false))]
            }
            Kind::Error => vec![self.complaint(name, server)],
            Kind::Tcp => vec![frame(PacketBuilder::tcp(name, server).payload(&content))],
            Kind::Echo => vec![frame(
                PacketBuilder::icmp_echo(name, server).payload(&content),
            )],
            Kind::Answer => {
                let host = Endpoint::v4([10, 0, 0, self.name as u8], 5000);
                vec![frame(PacketBuilder::udp(server, host).payload(&content))]
            }
        }
    }

    fn complaint(&self, name: Endpoint, server: Endpoint) -> Vec<u8> {
        let content = [self.content; 8];
        let answer = frame(PacketBuilder::udp(server, name).payload(&content));
        frame(PacketBuilder::icmp_error(
            IcmpError::Unreachable { code: 3 },
            &answer,
        ))
    }

    /// With the name that a renaming gives it.
    fn renamed(self, names: &[usize; 4]) -> Self {
        let name = match self.kind {
            Kind::Answer => self.name,
            _ => names[self.name],
        };
        Self { name, ..self }
    }
}

fn made() -> impl Strategy<Value = Made> {
    (
        prop::sample::select(&KINDS[..]),
        0..4usize,
        0..2usize,
        0..2u8,
    )
        .prop_map(|(kind, name, server, content)| Made {
            kind,
            name,
            server,
            content,
        })
}

fn permutations() -> Vec<[usize; 4]> {
    let digits = |number: usize| [number & 3, number >> 2 & 3, number >> 4 & 3, number >> 6];
    let is_permutation = |names: &[usize; 4]| (0..4).all(|name| names.contains(&name));
    (0..256).map(digits).filter(is_permutation).collect()
}

type Flows = BTreeMap<(Kind, usize, usize), Vec<u8>>;

/// What each name of a protocol says in each flow.
fn flows(made: &[Made], protocol: Option<u8>) -> Flows {
    let mut flows = Flows::new();
    for made in made.iter().filter(|made| made.kind.protocol() == protocol) {
        let flow = flows.entry((made.kind, made.name, made.server));
        flow.or_default().push(made.content);
    }
    // Each datagram in fragments is a flow of its own: no order between them.
    let in_parts = flows
        .iter_mut()
        .filter(|((kind, ..), _)| *kind == Kind::Parts);
    in_parts.for_each(|(_, contents)| contents.sort_unstable());
    flows
}

/// Whether any renaming makes one capture of the other, for each protocol.
fn is_renaming(a: &[Made], b: &[Made]) -> bool {
    [None, Some(17), Some(6), Some(1)]
        .into_iter()
        .all(|protocol| {
            let expected = flows(b, protocol);
            permutations().iter().any(|names| {
                let renamed: Vec<Made> = a.iter().map(|made| made.renamed(names)).collect();
                flows(&renamed, protocol) == expected
            })
        })
}

/// What makes another capture of one.
#[derive(Clone, Debug)]
enum Edit {
    /// Neighbours change places.
    Swap(usize),
    /// A packet gets another's name.
    Name(usize, usize),
    /// From a packet on, two names are each other's.
    Exchange(usize, usize, usize),
    Content(usize),
    Remove(usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        6 => any::<usize>().prop_map(Edit::Swap),
        1 => (any::<usize>(), 0..4usize).prop_map(|(at, name)| Edit::Name(at, name)),
        1 => (any::<usize>(), 0..4usize, 0..4usize)
            .prop_map(|(at, one, other)| Edit::Exchange(at, one, other)),
        1 => any::<usize>().prop_map(Edit::Content),
        1 => any::<usize>().prop_map(Edit::Remove),
    ]
}

fn edited(mut made: Vec<Made>, edits: &[Edit]) -> Vec<Made> {
    for edit in edits {
        let len = made.len();
        if len < 2 {
            break;
        }
        match *edit {
            Edit::Swap(at) => made.swap(at % (len - 1), at % (len - 1) + 1),
            Edit::Name(at, name) => made[at % len].name = name,
            Edit::Exchange(at, one, other) => {
                let mut names = [0, 1, 2, 3];
                names.swap(one, other);
                let rest = &mut made[at % len..];
                rest.iter_mut()
                    .for_each(|made| *made = made.renamed(&names));
            }
            Edit::Content(at) => made[at % len].content ^= 1,
            Edit::Remove(at) => drop(made.remove(at % len)),
        }
    }
    made
}

fn packets(made: &[Made]) -> Packets {
    let frames = made.iter().flat_map(Made::frames);
    (0..).map(|number| number * MS).zip(frames).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn accepts_what_any_renaming_makes_the_same_and_nothing_else(
        a in prop::collection::vec(made(), 0..16),
        names in prop::sample::select(permutations()),
        edits in prop::collection::vec(edit(), 0..4),
    ) {
        let b: Vec<Made> = a.iter().map(|made| made.renamed(&names)).collect();
        let b = edited(b, &edits);
        let result = compare(&packets(&a), &packets(&b), renamed("198.51.100.0/24"));
        prop_assert_eq!(is_renaming(&a, &b), result.is_ok(), "{:?}", result);
    }

    /// Few flows, so that names say nearly the same.
    #[test]
    fn names_that_say_nearly_the_same_are_told_apart(
        said in prop::collection::vec((0..3usize, 0..2u8), 2..12),
        edits in prop::collection::vec(edit(), 0..4),
    ) {
        let made = |&(name, content)| Made { kind: Kind::Udp, name, server: 0, content };
        let a: Vec<Made> = said.iter().map(made).collect();
        let b = edited(a.clone(), &edits);
        let result = compare(&packets(&a), &packets(&b), renamed("198.51.100.0/24"));
        prop_assert_eq!(is_renaming(&a, &b), result.is_ok(), "{:?}", result);
    }
}
