//! The plain comparison against one that keeps all packets and looks at everything.

use crate::common::{Packets, compare, end, frame};
use proptest::prelude::*;
use std::collections::BTreeMap;
use twinpath_compare::{Options, Problem};
use twinpath_core::wire::icmp::IcmpError;
use twinpath_core::wire::{Endpoint, PacketBuilder};

/// What a packet is made from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Made {
    kind: u8,
    from: u8,
    to: u8,
    payload: u8,
}

const ENDS: [&str; 3] = ["10.0.0.1:1000", "10.0.0.1:2000", "10.0.0.2:1000"];

fn ends(made: &Made) -> (Endpoint, Endpoint) {
    (
        end(ENDS[usize::from(made.from)]),
        end(ENDS[usize::from(made.to)]),
    )
}

impl Made {
    fn frame(&self) -> Vec<u8> {
        let (from, to) = ends(self);
        let payload = [self.payload; 8];
        let udp = PacketBuilder::udp(from, to);
        match self.kind {
            0 => frame(udp.payload(&payload)),
            1 => frame(PacketBuilder::tcp(from, to).payload(&payload)),
            2 => frame(udp.fragment(8, false).payload(&payload)),
            3 => {
                let offending = frame(udp);
                let error = IcmpError::Unreachable { code: self.payload };
                frame(PacketBuilder::icmp_error(error, &offending))
            }
            _ => {
                let mut frame = vec![self.payload; 60];
                frame[12..14].copy_from_slice(&[8, 6]);
                frame
            }
        }
    }

    /// The flow and direction, as the documentation has it.
    fn flow(&self) -> String {
        let (from, to) = ends(self);
        match self.kind {
            2 => format!("fragments {} {}", from.address, to.address),
            4 => "ARP".into(),
            kind => format!("{kind} {from} {to}"),
        }
    }
}

fn made() -> impl Strategy<Value = Made> {
    (0..5u8, 0..3u8, 0..3u8, 0..3u8).prop_map(|(kind, from, to, payload)| Made {
        kind,
        from,
        to,
        payload,
    })
}

/// What is done to a capture.
#[derive(Clone, Debug)]
enum Edit {
    Swap(usize),
    Remove(usize),
    Repeat(usize, usize),
    Replace(usize, Made),
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        8 => any::<usize>().prop_map(Edit::Swap),
        1 => any::<usize>().prop_map(Edit::Remove),
        1 => any::<(usize, usize)>().prop_map(|(at, to)| Edit::Repeat(at, to)),
        1 => (any::<usize>(), made()).prop_map(|(at, made)| Edit::Replace(at, made)),
    ]
}

fn edited(mut packets: Vec<Made>, edits: &[Edit]) -> Vec<Made> {
    for edit in edits {
        let len = packets.len();
        if len < 2 {
            break;
        }
        match edit {
            Edit::Swap(at) => packets.swap(at % (len - 1), at % (len - 1) + 1),
            Edit::Remove(at) => drop(packets.remove(at % len)),
            Edit::Repeat(at, to) => packets.insert(to % len, packets[at % len].clone()),
            Edit::Replace(at, made) => packets[at % len] = made.clone(),
        }
    }
    packets
}

/// Neighbours of several flows change places.
fn shuffled(mut packets: Vec<Made>, swaps: &[usize]) -> Vec<Made> {
    for swap in swaps {
        let at = swap % packets.len().max(2).saturating_sub(1);
        if at + 1 < packets.len() && packets[at].flow() != packets[at + 1].flow() {
            packets.swap(at, at + 1);
        }
    }
    packets
}

/// All packets by flow, with their numbers.
fn by_flow(packets: &[Made]) -> BTreeMap<String, Vec<(u64, Vec<u8>)>> {
    let mut flows = BTreeMap::<_, Vec<_>>::new();
    for (number, made) in (1..).zip(packets) {
        let flow = flows.entry(made.flow()).or_default();
        flow.push((number, made.frame()));
    }
    flows
}

/// Flow, place, and the numbers of the packets at the first difference.
type First = (String, u64, Option<u64>, Option<u64>);

fn first_difference(a: &[Made], b: &[Made]) -> Option<First> {
    let (a, b) = (by_flow(a), by_flow(b));
    let none = Vec::new();
    let flows = a.keys().chain(b.keys());
    let firsts = flows.filter_map(|flow| {
        let (in_a, in_b) = (a.get(flow).unwrap_or(&none), b.get(flow).unwrap_or(&none));
        let most = in_a.len().max(in_b.len());
        let at = (0..most).find(|&at| {
            in_a.get(at).map(|(_, frame)| frame) != in_b.get(at).map(|(_, frame)| frame)
        })?;
        let number = |packets: &[(u64, Vec<u8>)]| packets.get(at).map(|(number, _)| *number);
        Some((flow.clone(), at as u64 + 1, number(in_a), number(in_b)))
    });
    firsts.min_by_key(|(_, _, a, b)| (a.unwrap_or(b.unwrap_or(0)), a.is_none()))
}

fn packets(made: &[Made]) -> Packets {
    (0..).zip(made.iter().map(Made::frame)).collect()
}

/// Whether what is told is true of the flow.
fn is_true(problem: &Problem, (flow, place, at_a, at_b): &First, a: &[Made], b: &[Made]) -> bool {
    let (in_a, in_b) = (by_flow(a), by_flow(b));
    let rest = |flows: &BTreeMap<String, Vec<(u64, Vec<u8>)>>| -> Vec<(u64, Vec<u8>)> {
        let packets = flows.get(flow).cloned().unwrap_or_default();
        packets.into_iter().skip(*place as usize - 1).collect()
    };
    let (rest_a, rest_b) = (rest(&in_a), rest(&in_b));
    let count = |rest: &[(u64, Vec<u8>)], frame: &Vec<u8>| {
        rest.iter().filter(|(_, other)| other == frame).count()
    };
    let more_in = |one: &[(u64, Vec<u8>)], other: &[(u64, Vec<u8>)]| {
        let frame = &one[0].1;
        count(one, frame) > count(other, frame)
    };
    let whole = |flows: &BTreeMap<_, Vec<_>>| flows.get(flow).map_or(0, |all| all.len() as u64);
    match problem {
        Problem::Missing { place: at, a, held } => {
            (at, Some(*a), *held) == (place, *at_a, whole(&in_b)) && more_in(&rest_a, &rest_b)
        }
        Problem::Extra { place: at, b, held } => {
            (at, Some(*b), *held) == (place, *at_b, whole(&in_a)) && more_in(&rest_b, &rest_a)
        }
        Problem::Reordered {
            place: at,
            a,
            later,
            b,
        } => {
            let there = &in_b[flow][*later as usize - 1];
            (at, Some(*a)) == (place, *at_a) && there == &(*b, rest_a[0].1.clone()) && later > place
        }
        Problem::Changed {
            place: at,
            a,
            b,
            fields,
        } => {
            (at, Some(*a), Some(*b)) == (place, *at_a, *at_b)
                && !fields.is_empty()
                && more_in(&rest_a, &rest_b)
                && more_in(&rest_b, &rest_a)
        }
        Problem::Merged { .. } | Problem::Crossed { .. } => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn finds_the_difference_that_the_reference_finds(
        a in prop::collection::vec(made(), 0..20),
        swaps in prop::collection::vec(any::<usize>(), 0..40),
        edits in prop::collection::vec(edit(), 0..3),
    ) {
        let b = edited(shuffled(a.clone(), &swaps), &edits);
        let result = compare(&packets(&a), &packets(&b), Options::default());
        match (first_difference(&a, &b), result) {
            (None, Ok(summary)) => {
                prop_assert_eq!(summary.packets, a.len() as u64);
                prop_assert_eq!(summary.flows, by_flow(&a).len() as u64);
            }
            (Some(first), Err(difference)) => {
                let problem = &difference.problem;
                prop_assert!(is_true(problem, &first, &a, &b), "{first:?}: {difference}");
            }
            (expected, result) => prop_assert!(false, "{expected:?}: {result:?}"),
        }
    }

    #[test]
    fn order_between_flows_does_not_matter(
        a in prop::collection::vec(made(), 0..20),
        swaps in prop::collection::vec(any::<usize>(), 0..60),
    ) {
        let b = shuffled(a.clone(), &swaps);
        prop_assert!(compare(&packets(&a), &packets(&b), Options::default()).is_ok());
    }

    /// Bytes that make no sense, too.
    #[test]
    fn any_byte_counts(
        a in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..5),
        at: prop::sample::Index,
        byte: prop::sample::Index,
        flip in 1..=255u8,
    ) {
        let packets: Packets = (0..).zip(a).collect();
        prop_assert!(compare(&packets, &packets, Options::default()).is_ok());
        let mut other = packets.clone();
        let frame = &mut other[at.index(packets.len())].1;
        prop_assume!(!frame.is_empty());
        let byte = byte.index(frame.len());
        frame[byte] ^= flip;
        prop_assert!(compare(&packets, &other, Options::default()).is_err());
    }
}
