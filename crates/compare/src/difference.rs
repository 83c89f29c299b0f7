//! The first difference, in words.

use crate::fields::Field;
use std::fmt::{self, Display, Formatter};
use twinpath_core::counted;

/// One of the two captures.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Capture {
    /// The first.
    A,
    /// The second.
    B,
}

/// The first difference between two captures, in the order of A's packets; what only B has is
/// placed by its number in B.
///
/// It displays as a sentence about "A" and "B"; [`between`](Self::between) gives them other names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The flow and direction in which it is.
    pub flow: FlowText,
    /// What it is.
    pub problem: Problem,
}

/// A flow and direction, with addresses and ports as each capture has them; `None` where the capture
/// has none of its packets. Without renaming both are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowText {
    /// In A.
    pub a: Option<String>,
    /// In B.
    pub b: Option<String>,
}

/// What differs. Packets are counted from 1: `place` within the flow, all others within their
/// capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// B does not have a packet of A.
    Missing {
        /// Its place in the flow.
        place: u64,
        /// Its number in A.
        a: u64,
        /// How many packets of the flow B has.
        held: u64,
    },
    /// B has a packet that A does not have.
    Extra {
        /// Its place in the flow.
        place: u64,
        /// Its number in B.
        b: u64,
        /// How many packets of the flow A has.
        held: u64,
    },
    /// Packets of the flow come in another order.
    Reordered {
        /// Where the packet is in A's flow.
        place: u64,
        /// Its number in A.
        a: u64,
        /// Where it is in B's flow.
        later: u64,
        /// Its number in B.
        b: u64,
    },
    /// There is another packet in place of one.
    Changed {
        /// Its place in the flow.
        place: u64,
        /// Its number in A.
        a: u64,
        /// The other's number in B.
        b: u64,
        /// What differs, after names are blanked.
        fields: Vec<Field>,
    },
    /// A name stands for two bindings that live at the same time.
    Merged {
        /// The capture in which it is one name.
        by: Capture,
        /// The name.
        name: Mention,
        /// What it is in the other capture.
        parts: [Mention; 2],
    },
    /// Several names stand in a packet, and what they are in B does not go together.
    Crossed {
        /// The packet's number in A.
        a: u64,
        /// The packets that B's names have in its place.
        b: [u64; 2],
    },
}

/// A name that a translation has given out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// Protocol, address and port.
    pub name: String,
    /// The number of the first packet of its life.
    pub packet: u64,
}

impl Difference {
    /// Whether an address translation may have made it: it draws ports, by which packets are of another
    /// flow then, and identifications.
    pub fn may_be_drawn(&self) -> bool {
        match &self.problem {
            Problem::Missing { held, .. } | Problem::Extra { held, .. } => *held == 0,
            Problem::Changed { fields, .. } => {
                fields.iter().any(|field| field.name == "identification")
            }
            _ => false,
        }
    }

    /// The same sentence with names for the captures, such as those of their files.
    pub fn between<'d>(&'d self, a: &'d str, b: &'d str) -> Between<'d> {
        Between {
            difference: self,
            a,
            b,
        }
    }
}

impl Display for Difference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.between("A", "B").fmt(f)
    }
}

impl std::error::Error for Difference {}

/// A [`Difference`] told with names for the captures.
#[derive(Copy, Clone, Debug)]
pub struct Between<'d> {
    difference: &'d Difference,
    a: &'d str,
    b: &'d str,
}

impl Display for Between<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("in ")?;
        self.flow(f)?;
        f.write_str(", ")?;
        self.problem(f)
    }
}

impl Between<'_> {
    fn flow(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.difference.flow {
            FlowText {
                a: Some(a),
                b: Some(b),
            } if a != b => write!(f, "{a} ({b} in {})", self.b),
            FlowText { a, b } => {
                f.write_str(a.as_ref().or(b.as_ref()).map_or("no flow", |text| text))
            }
        }
    }

    fn problem(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (in_a, in_b) = (self.a, self.b);
        match &self.difference.problem {
            Problem::Missing { place, a, held } => write!(
                f,
                "packet {place} of the flow (packet {a} of {in_a}) is missing in {in_b}, which has {}",
                Held(*held)
            ),
            Problem::Extra { place, b, held } => write!(
                f,
                "packet {place} of the flow in {in_b} (packet {b} of {in_b}) is not in {in_a}, which has {}",
                Held(*held)
            ),
            Problem::Reordered { place, a, later, b } => write!(
                f,
                "packets are reordered: packet {place} of the flow (packet {a} of {in_a}) comes as packet {later} of the flow in {in_b} (packet {b} of {in_b})"
            ),
            Problem::Changed {
                place,
                a,
                b,
                fields,
            } => {
                write!(
                    f,
                    "packet {place} of the flow (packet {a} of {in_a}, packet {b} of {in_b}) differs: "
                )?;
                self.fields(f, fields)
            }
            Problem::Merged { by, name, parts } => self.merged(f, *by, name, parts),
            Problem::Crossed { a, b } => write!(
                f,
                "packet {a} of {in_a} holds several translated names, and what stands for them in {in_b} is in different packets, {} and {}",
                b[0], b[1]
            ),
        }
    }

    fn fields(&self, f: &mut Formatter<'_>, fields: &[Field]) -> fmt::Result {
        for (index, Field { name, a, b }) in fields.iter().enumerate() {
            let gap = if index > 0 { "; " } else { "" };
            write!(f, "{gap}{name} is {a} in {} and {b} in {}", self.a, self.b)?;
        }
        Ok(())
    }

    fn merged(
        &self,
        f: &mut Formatter<'_>,
        by: Capture,
        name: &Mention,
        [one, other]: &[Mention; 2],
    ) -> fmt::Result {
        let (here, there) = match by {
            Capture::A => (self.a, self.b),
            Capture::B => (self.b, self.a),
        };
        let Mention { name, packet } = name;
        write!(
            f,
            "{name} in {here} (from packet {packet} on) stands for two bindings of {there} at a time: "
        )?;
        let (first, second) = (&one.name, &other.name);
        write!(
            f,
            "{first} (from packet {} on) and {second} (from packet {} on)",
            one.packet, other.packet
        )
    }
}

/// How many packets of a flow there are.
struct Held(u64);

impl Display for Held {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("no packet of it"),
            count => write!(f, "{} of it", counted(count, "packet")),
        }
    }
}
