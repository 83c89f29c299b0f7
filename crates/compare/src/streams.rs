//! Where the packets of a flow part.

use crate::digest::Digest;
use crate::index::{Counting, Index, Packet, Stream};

/// The first place at which a flow of A and the same flow of B are not the same. At least one of
/// them has a packet there.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Parting<'i> {
    pub a: Option<&'i Stream>,
    pub b: Option<&'i Stream>,
    /// How many packets at the front are the same.
    pub same: usize,
    /// What comes then.
    next: Next,
}

/// The packets at which a flow parts.
#[derive(Copy, Clone, Debug)]
enum Next {
    OnlyA(Packet),
    OnlyB(Packet),
    Both(Packet, Packet),
}

/// In what way they part.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum DifferenceKind {
    /// A's packet is not in the rest of B.
    Missing(Packet),
    /// B's packet is not in the rest of A.
    Extra(Packet),
    /// A's packet comes later in B, at this place in the flow.
    Reordered(Packet, usize, Packet),
    /// There is one packet in place of another, or at another time or port.
    Changed(Packet, Packet),
}

impl<'i> Parting<'i> {
    /// Where the packets of one flow part; `None` if they are the same.
    pub fn between(
        a: Option<&'i Stream>,
        b: Option<&'i Stream>,
        counting: Counting,
    ) -> Option<Self> {
        let (in_a, in_b) = (packets(a), packets(b));
        let is_same = |(a, b): &(&Packet, &Packet)| counting.counted(a) == counting.counted(b);
        let same = in_a.iter().zip(in_b).take_while(is_same).count();
        let next = match (in_a.get(same), in_b.get(same)) {
            (None, None) => return None,
            (Some(&a), None) => Next::OnlyA(a),
            (None, Some(&b)) => Next::OnlyB(b),
            (Some(&a), Some(&b)) => Next::Both(a, b),
        };
        Some(Self { a, b, same, next })
    }

    /// A's packets of the flow.
    pub fn in_a(&self) -> &'i [Packet] {
        packets(self.a)
    }

    /// B's packets of the flow.
    pub fn in_b(&self) -> &'i [Packet] {
        packets(self.b)
    }

    /// Orders partings by where they are in A, and in B if A has no packet there.
    pub const fn order(&self) -> (u64, bool) {
        match self.next {
            Next::OnlyA(a) | Next::Both(a, _) => (a.number, false),
            Next::OnlyB(b) => (b.number, true),
        }
    }

    /// In what way the flow parts. A packet that is not at its place may be somewhere else, so the
    /// rests of both are counted.
    pub fn way(&self) -> DifferenceKind {
        let (a, b) = match self.next {
            Next::OnlyA(a) => return DifferenceKind::Missing(a),
            Next::OnlyB(b) => return DifferenceKind::Extra(b),
            Next::Both(a, b) if a.digest == b.digest => return DifferenceKind::Changed(a, b),
            Next::Both(a, b) => (a, b),
        };
        let (rest_a, rest_b) = (&self.in_a()[self.same..], &self.in_b()[self.same..]);
        let lacks_a = count(rest_a, a.digest) > count(rest_b, a.digest);
        let lacks_b = count(rest_b, b.digest) > count(rest_a, b.digest);
        let later = rest_b.iter().position(|packet| packet.digest == a.digest);
        match (lacks_a, lacks_b, later) {
            (true, false, _) => DifferenceKind::Missing(a),
            (false, true, _) => DifferenceKind::Extra(b),
            (false, false, Some(later)) => {
                DifferenceKind::Reordered(a, self.same + later, rest_b[later])
            }
            _ => DifferenceKind::Changed(a, b),
        }
    }
}

fn packets(stream: Option<&Stream>) -> &[Packet] {
    stream.map_or(&[], |stream| &stream.packets)
}

fn count(packets: &[Packet], digest: Digest) -> usize {
    packets
        .iter()
        .filter(|packet| packet.digest == digest)
        .count()
}

/// The first place at which a life of A and one of B are not the same; `None` for a life stands for
/// all packets in which no name stood.
pub(crate) fn first_parting<'i>(
    (a, life_a): (&'i Index, Option<usize>),
    (b, life_b): (&'i Index, Option<usize>),
    counting: Counting,
) -> Option<Parting<'i>> {
    let of_a = a.streams_of(life_a).filter_map(|stream| {
        Parting::between(Some(stream), b.stream(life_b, stream.flow), counting)
    });
    let only_in_b = b
        .streams_of(life_b)
        .filter(|stream| a.stream(life_a, stream.flow).is_none());
    let of_b = only_in_b.filter_map(|stream| Parting::between(None, Some(stream), counting));
    of_a.chain(of_b).min_by_key(Parting::order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Flow;

    fn stream(packets: &str) -> Stream {
        let packet = |(number, letter): (u64, char)| Packet {
            digest: Digest::of(&letter),
            number,
            timestamp_ns: 10 * number,
            port: u32::from(letter == 'c'),
        };
        Stream {
            flow: Flow::Other(0),
            life: None,
            packets: (1..).zip(packets.chars()).map(packet).collect(),
        }
    }

    fn told(a: &str, b: &str) -> String {
        let (a, b) = (stream(a), stream(b));
        let parting = Parting::between(Some(&a), Some(&b), Counting::default());
        match parting.map(|parting| parting.way()) {
            None => "same".into(),
            Some(DifferenceKind::Missing(packet)) => format!("missing {}", packet.number),
            Some(DifferenceKind::Extra(packet)) => format!("extra {}", packet.number),
            Some(DifferenceKind::Changed(a, b)) => format!("changed {} {}", a.number, b.number),
            Some(DifferenceKind::Reordered(a, place, b)) => {
                assert_eq!(b.number, place as u64 + 1);
                format!("reordered {} {}", a.number, b.number)
            }
        }
    }

    #[test]
    fn each_way_to_part() {
        let cases = [
            ("", "", "same"),
            ("abc", "abc", "same"),
            ("abc", "ab", "missing 3"),
            ("abc", "ac", "missing 2"),
            ("abc", "bc", "missing 1"),
            ("abc", "", "missing 1"),
            ("ab", "abc", "extra 3"),
            ("ac", "abc", "extra 2"),
            ("abc", "acb", "reordered 2 3"),
            ("abcd", "bcda", "reordered 1 4"),
            ("abc", "axc", "changed 2 2"),
            ("abc", "axy", "changed 2 2"),
            // Packets that are the same several times over.
            ("aba", "ba", "missing 1"),
            ("ba", "aba", "extra 1"),
            ("aab", "aba", "reordered 2 3"),
        ];
        for (a, b, expected) in cases {
            assert_eq!(told(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn ports_count_if_both_captures_have_them() {
        let (a, mut b) = (stream("abc"), stream("abc"));
        b.packets[1].port = 1;
        assert!(Parting::between(Some(&a), Some(&b), Counting::default()).is_none());
        let counting = Counting {
            timestamps: false,
            ports: true,
        };
        let parting = Parting::between(Some(&a), Some(&b), counting).unwrap();
        assert_eq!(
            parting.way(),
            DifferenceKind::Changed(a.packets[1], b.packets[1])
        );
    }

    #[test]
    fn timestamps_count_if_they_are_asked_for() {
        let (a, mut b) = (stream("abc"), stream("abc"));
        b.packets[1].timestamp_ns += 1;
        assert!(Parting::between(Some(&a), Some(&b), Counting::default()).is_none());
        let counting = Counting {
            timestamps: true,
            ports: false,
        };
        let parting = Parting::between(Some(&a), Some(&b), counting).unwrap();
        assert_eq!(parting.order(), (2, false));
        assert_eq!(
            parting.way(),
            DifferenceKind::Changed(a.packets[1], b.packets[1])
        );
    }
}
