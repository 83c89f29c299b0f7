//! The translation at work.

use super::config::Config;
use super::mapping::Mapping;
use crate::icmp_errors::{Refusal, Refusals, judge};
use twinpath_core::wire::{Address, Endpoint, fields, icmp, rewrite};
use twinpath_core::{Direction, DropReason, Instant, Packet};
use twinpath_rulecache::{
    Affected, Answers, Hits, Obstacle, Reconfigure, Recorded, RuleFunction, Verdict,
};

/// Translation of IPv6 network prefixes; see the [module](super).
pub struct Nptv6 {
    mappings: Vec<Mapping>,
    /// Packets by [`Course`]: what rules are credited to.
    packets: [u64; 4],
    untranslatable: u64,
    refusals: Refusals,
}

/// Other prefixes, while packets flow.
pub struct NewPrefixes(pub(super) Config);

/// Which addresses of a packet are translated.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Course {
    Past = 0,
    Out = 1,
    In = 2,
    Hairpin = 3,
}

/// New addresses of a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct NewAddresses {
    source: Option<Address>,
    destination: Option<Address>,
}

impl Nptv6 {
    /// A translation of these prefixes.
    pub fn new(config: &Config) -> Self {
        Self {
            mappings: config.mappings.clone(),
            packets: [0; 4],
            untranslatable: 0,
            refusals: Refusals::default(),
        }
    }

    /// The longest prefix, of which packets are looked at for as many bits.
    fn longest(&self) -> u8 {
        let lengths = self.mappings.iter().map(|mapping| mapping.inside.length());
        lengths.max().unwrap_or(0)
    }

    fn inside(&self, address: Address) -> Option<&Mapping> {
        let mut mappings = self.mappings.iter();
        mappings.find(|mapping| mapping.inside.includes(address))
    }

    fn external(&self, address: Address) -> Option<&Mapping> {
        let mut mappings = self.mappings.iter();
        mappings.find(|mapping| mapping.external.includes(address))
    }

    /// The packet's course and its new addresses, with the bits that decided it recorded; `None` if
    /// an address cannot be translated.
    fn plan(&self, packet: &mut Recorded<'_>) -> (Course, Option<NewAddresses>) {
        let headers = packet.headers();
        let longest = self.longest();
        packet.examined_source(longest);
        packet.examined_destination(longest);
        let from_inside = packet.direction() == Direction::Original;
        let own = self.inside(headers.source).filter(|_| from_inside);
        let external = self.external(headers.destination);
        let course = match (own, external) {
            (Some(_), None) if self.inside(headers.destination).is_some() => Course::Past,
            (Some(_), None) => Course::Out,
            (None, Some(_)) => Course::In,
            (Some(_), Some(_)) => Course::Hairpin,
            (None, None) => Course::Past,
        };
        let mut new = NewAddresses {
            source: None,
            destination: None,
        };
        if let (Some(mapping), Course::Out | Course::Hairpin) = (own, course) {
            packet.examined_source(128);
            new.source = mapping.outward(headers.source);
            if new.source.is_none() {
                return (course, None);
            }
        }
        if let Some(mapping) = external {
            packet.examined_destination(128);
            new.destination = mapping.inward(headers.destination);
            if new.destination.is_none() {
                return (course, None);
            }
        }
        (course, Some(new))
    }

    /// Translates the addresses in the packet that an error quotes: its sender's, which comes back,
    /// and its receiver's, which answers.
    fn translate_quoted(&self, packet: &mut Packet, course: Course) -> Option<()> {
        let layout = packet.layout;
        let bytes = packet.frame.bytes_mut();
        if matches!(course, Course::Out | Course::Hairpin)
            && let Some(end) = fields::inner_destination(bytes, &layout)
            && let Some(mapping) = self.inside(end.address)
        {
            let new = Endpoint::new(mapping.outward(end.address)?, end.port);
            rewrite::set_inner_destination(bytes, &layout, new).ok()?;
        }
        if matches!(course, Course::In | Course::Hairpin)
            && let Some(end) = fields::inner_source(bytes, &layout)
            && let Some(mapping) = self.external(end.address)
        {
            let new = Endpoint::new(mapping.inward(end.address)?, end.port);
            rewrite::set_inner_source(bytes, &layout, new).ok()?;
        }
        Some(())
    }

    fn drop_untranslatable(&mut self, packet: &mut Recorded<'_>) -> Verdict {
        packet.uncacheable(Obstacle::Undecided);
        self.untranslatable += 1;
        Verdict::Drop(DropReason::UntranslatableAddress)
    }
}

/// Judges an ICMP message; an error of whose quote no addresses can be read is refused too, for they
/// would pass as they are, and whether its receiver has sent the packet cannot be told.
fn judge_quoting(packet: &Packet) -> Result<(), Refusal> {
    judge(packet.bytes(), &packet.layout, false)?;
    match is_error(packet) && packet.layout.inner.is_none() {
        true => Err(Refusal::Quote),
        false => Ok(()),
    }
}

/// Whether a packet is an ICMPv6 error.
fn is_error(packet: &Packet) -> bool {
    let layout = &packet.layout;
    let kind = fields::icmp_kind(packet.bytes(), layout);
    kind.is_some_and(|(kind, _)| icmp::is_error(layout.network, kind))
}

impl RuleFunction for Nptv6 {
    fn name(&self) -> &'static str {
        super::NAME
    }

    fn handle(&mut self, packet: &mut Recorded<'_>, _: Instant, _: &mut Answers<'_>) -> Verdict {
        let (course, new) = self.plan(packet);
        let Some(new) = new else {
            return self.drop_untranslatable(packet);
        };
        if course != Course::Past && !packet.is_plain() {
            if let Err(refusal) = judge_quoting(packet.quote()) {
                return Verdict::Drop(self.refusals.count(refusal));
            }
            if is_error(packet.quote()) && self.translate_quoted(packet.whole(), course).is_none() {
                return self.drop_untranslatable(packet);
            }
        }
        if let Some(source) = new.source {
            packet.set_source_address(source);
        }
        if let Some(destination) = new.destination {
            packet.set_destination_address(destination);
        }
        if course == Course::Hairpin {
            packet.goes_back();
        }
        packet.depends_on(course as u32, None);
        self.packets[course as usize] += 1;
        Verdict::Forward
    }

    fn credit(&mut self, entry: u32, hits: &Hits) {
        if let Some(packets) = self.packets.get_mut(entry as usize) {
            *packets += hits.packets;
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let names = ["past", "translated_out", "translated_in", "hairpinned"];
        for (name, packets) in names.into_iter().zip(self.packets) {
            each(name, packets);
        }
        each("untranslatable", self.untranslatable);
        self.refusals.report(each);
    }
}

impl Reconfigure for Nptv6 {
    type New = NewPrefixes;

    fn affected_by(&self, _new: &NewPrefixes) -> Affected {
        Affected::Everything
    }

    fn apply(&mut self, new: &mut NewPrefixes) {
        self.mappings.clone_from(&new.0.mappings);
    }
}
