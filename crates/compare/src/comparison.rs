//! The comparison.

use crate::difference::{Capture, Difference, FlowText, Mention, Problem};
use crate::fields::{Field, differing};
use crate::index::{Counting, Index, Packet};
use crate::lives::Pairs;
use crate::merged::{Merged, first_merged, first_unlike};
use crate::normal::Normaliser;
use crate::options::Options;
use crate::packets::{InFile, InMemory, Packets, Picked};
use crate::silences::Silences;
use crate::streams::{DifferenceKind, Parting, first_parting};
use crate::tunnels;
use crate::words;
use std::path::Path;
use twinpath_io::CaptureError;

/// Compares captures under some options.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    options: Options,
}

/// What is the same in two captures.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Packets.
    pub packets: u64,
    /// Flows, each direction for itself; one for each name and life where names are blanked.
    pub flows: u64,
    /// Those of them that have several packets: only of these there is an order that could be another.
    pub long_flows: u64,
    /// Lives of names that a translation gave out.
    pub bindings: u64,
    /// Those of them that have another name in B.
    pub renamed: u64,
    /// Whether each packet also has the same port in both captures, for both name the same ones.
    pub by_ports: bool,
}

/// How often captures are read at most to find silences that one of them has alone: of one that is none
/// any more another may follow.
const MOST_READINGS: u32 = 4;

/// What is kept of both captures, with their lives in pairs.
struct BothRead {
    in_a: Index,
    in_b: Index,
    counting: Counting,
    pairs: Pairs,
}

/// A difference, before its packets are looked at again.
enum Finding<'i> {
    Parting(Parting<'i>),
    Merged(Capture, Merged),
    Crossed(u64, [u64; 2]),
}

impl Comparison {
    /// A comparison under these options.
    pub fn new(options: Options) -> Self {
        Self { options }
    }

    /// Compares packets in memory: timestamps in nanoseconds, and frames from the Ethernet header
    /// on.
    ///
    /// # Errors
    /// The first difference.
    pub fn compare<'p>(
        &self,
        a: impl Iterator<Item = (u64, &'p [u8])> + Clone,
        b: impl Iterator<Item = (u64, &'p [u8])> + Clone,
    ) -> Result<Summary, Box<Difference>> {
        match self.compare_packets(&InMemory(a), &InMemory(b)) {
            Ok(result) => result,
            Err(never) => match never {},
        }
    }

    /// Compares captures in files, pcap or pcapng, gzipped or not. They are read once if they are
    /// the same, once more where a name is silent in one of them alone, and up to the difference again if
    /// they differ; of their packets only digests are kept.
    /// Bytes that were cut off when a packet was captured are not compared.
    ///
    /// # Errors
    /// A file that cannot be read. The inner result is that of the comparison.
    pub fn compare_captures(
        &self,
        a: &Path,
        b: &Path,
    ) -> Result<Result<Summary, Box<Difference>>, CaptureError> {
        self.compare_packets(&InFile(a), &InFile(b))
    }

    /// Reads both captures, once more where a name is silent in one of them alone.
    fn read<E, A, B>(&self, a: &A, b: &B) -> Result<BothRead, E>
    where
        A: Packets<Error = E>,
        B: Packets<Error = E>,
    {
        let (mut of_a, mut of_b) = (Silences::default(), Silences::default());
        let mut readings = 1;
        loop {
            let in_a = Index::of(a, &self.options, |name, number| of_a.has(name, number))?;
            let in_b = Index::of(b, &self.options, |name, number| of_b.has(name, number))?;
            let counting = Counting::of(&in_a, &in_b, self.options.timestamps);
            let pairs = Pairs::of(&in_a, &in_b, counting);
            let (left_a, left_b) = ((&in_a, &pairs.left_a[..]), (&in_b, &pairs.left_b[..]));
            let more_of_a = of_a.add_within(left_a, left_b);
            let more_of_b = of_b.add_within(left_b, left_a);
            if readings == MOST_READINGS || !(more_of_a || more_of_b) {
                return Ok(BothRead {
                    in_a,
                    in_b,
                    counting,
                    pairs,
                });
            }
            readings += 1;
        }
    }

    fn compare_packets<E, A, B>(&self, a: &A, b: &B) -> Result<Result<Summary, Box<Difference>>, E>
    where
        A: Packets<Error = E>,
        B: Packets<Error = E>,
    {
        let BothRead {
            in_a,
            in_b,
            counting,
            pairs,
        } = self.read(a, b)?;
        let teller = Teller {
            options: &self.options,
            a,
            b,
            in_a: &in_a,
            in_b: &in_b,
            counting,
        };
        Ok(match first_finding(&in_a, &in_b, &pairs, counting) {
            Some(finding) => Err(Box::new(teller.tell(&finding)?)),
            None => Ok(Summary {
                packets: in_a.packets,
                flows: in_a.streams.len() as u64,
                long_flows: in_a.long_streams(),
                bindings: in_a.lives.len() as u64,
                renamed: pairs.renamed,
                by_ports: counting.ports,
            }),
        })
    }
}

fn first_finding<'i>(
    a: &'i Index,
    b: &'i Index,
    pairs: &Pairs,
    counting: Counting,
) -> Option<Finding<'i>> {
    let unnamed = first_parting((a, None), (b, None), counting).map(Finding::Parting);
    let named = first_among_lives(a, b, pairs, counting);
    let order = |finding: &Finding<'_>| finding.order(a, b);
    unnamed.into_iter().chain(named).min_by_key(order)
}

fn first_among_lives<'i>(
    a: &'i Index,
    b: &'i Index,
    pairs: &Pairs,
    counting: Counting,
) -> Option<Finding<'i>> {
    let Pairs { left_a, left_b, .. } = pairs;
    if left_a.is_empty() && left_b.is_empty() {
        let crossing = pairs.first_crossing(a, b);
        return crossing.map(|(a, b)| Finding::Crossed(a, b));
    }
    let (left_a, left_b) = ((a, &left_a[..]), (b, &left_b[..]));
    let in_a = || Some(Finding::Merged(Capture::A, first_merged(left_a, left_b)?));
    let in_b = || Some(Finding::Merged(Capture::B, first_merged(left_b, left_a)?));
    let unlike = || first_unlike(a, b, pairs, counting);
    in_b()
        .or_else(in_a)
        .or_else(|| unlike().map(Finding::Parting))
}

impl Finding<'_> {
    /// Orders findings by where they are in A, and in B if A has no packet there.
    fn order(&self, a: &Index, b: &Index) -> (u64, bool) {
        match self {
            Self::Parting(parting) => parting.order(),
            Self::Merged(Capture::A, merged) => (a.first_of(merged.life), false),
            Self::Merged(Capture::B, merged) => (
                a.first_of(merged.parts[0]).min(b.first_of(merged.life)),
                false,
            ),
            Self::Crossed(number, _) => (*number, false),
        }
    }
}

/// Looks at packets again to tell a finding in words.
struct Teller<'t, A, B> {
    options: &'t Options,
    a: &'t A,
    b: &'t B,
    in_a: &'t Index,
    in_b: &'t Index,
    counting: Counting,
}

impl<E, A: Packets<Error = E>, B: Packets<Error = E>> Teller<'_, A, B> {
    fn tell(&self, finding: &Finding<'_>) -> Result<Difference, E> {
        match finding {
            Finding::Parting(parting) => self.parting(parting),
            Finding::Merged(by, merged) => self.merged(*by, merged),
            Finding::Crossed(a, b) => Ok(Difference {
                flow: self.flow(Some(*a), Some(b[0]))?,
                problem: Problem::Crossed { a: *a, b: *b },
            }),
        }
    }

    fn parting(&self, parting: &Parting<'_>) -> Result<Difference, E> {
        let place = parting.same as u64 + 1;
        let (held_a, held_b) = (parting.in_a().len() as u64, parting.in_b().len() as u64);
        let problem = match parting.way() {
            DifferenceKind::Missing(packet) => Problem::Missing {
                place,
                a: packet.number,
                held: held_b,
            },
            DifferenceKind::Reordered(packet, later, other) => Problem::Reordered {
                place,
                a: packet.number,
                later: later as u64 + 1,
                b: other.number,
            },
            DifferenceKind::Changed(packet, other) => Problem::Changed {
                place,
                a: packet.number,
                b: other.number,
                fields: self.fields(packet.number, other.number)?,
            },
            DifferenceKind::Extra(packet) => Problem::Extra {
                place,
                b: packet.number,
                held: held_a,
            },
        };
        // Any packet of the flow tells which it is.
        let near = |packets: &[Packet]| {
            let packet = packets.get(parting.same).or(packets.last());
            packet.map(|packet| packet.number)
        };
        let flow = self.flow(near(parting.in_a()), near(parting.in_b()))?;
        Ok(Difference { flow, problem })
    }

    fn merged(&self, by: Capture, merged: &Merged) -> Result<Difference, E> {
        let (here, there) = match by {
            Capture::A => (self.in_a, self.in_b),
            Capture::B => (self.in_b, self.in_a),
        };
        let mention = |index: &Index, life: usize| Mention {
            name: index.lives[life].name.to_string(),
            packet: index.first_of(life),
        };
        let name = mention(here, merged.life);
        let parts = merged.parts.map(|part| mention(there, part));
        let (first, other) = (Some(name.packet), Some(parts[0].packet));
        let flow = match by {
            Capture::A => self.flow(first, other)?,
            Capture::B => self.flow(other, first)?,
        };
        let problem = Problem::Merged { by, name, parts };
        Ok(Difference { flow, problem })
    }

    fn flow(&self, a: Option<u64>, b: Option<u64>) -> Result<FlowText, E> {
        let a = a.map(|number| self.a.pick(number)).transpose()?;
        let b = b.map(|number| self.b.pick(number)).transpose()?;
        let inner = self.options.inner.as_ref();
        let told = |Picked { frame, .. }: Picked| {
            let at = inner.map_or(0, |inner| tunnels::inner_at(inner, &frame));
            words::flow(frame.get(at..).unwrap_or_default())
        };
        let [a, b] = [a, b].map(|packet| packet.map(told));
        Ok(FlowText { a, b })
    }

    fn fields(&self, a: u64, b: u64) -> Result<Vec<Field>, E> {
        let (a, b) = (self.a.pick(a)?, self.b.pick(b)?);
        let mut normalisers = [(); 2].map(|()| Normaliser::new(self.options));
        let [of_a, of_b] = &mut normalisers;
        let mut fields = differing(&of_a.normal(&a.frame), &of_b.normal(&b.frame));
        if self.counting.ports && a.port_name != b.port_name {
            fields.push(Field::new("port", a.port_name, b.port_name));
        }
        let times = [a.timestamp_ns, b.timestamp_ns];
        if self.counting.timestamps && times[0] != times[1] {
            fields.push(Field::new("time", Seconds(times[0]), Seconds(times[1])));
        }
        Ok(fields)
    }
}

/// A timestamp.
struct Seconds(u64);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (seconds, rest_ns) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        write!(f, "{seconds}.{rest_ns:09} s")
    }
}
