//! Which packets are translated, and how.

use super::config::Config;
use twinpath_classify::Prefix;
use twinpath_classify::lpm::{RouteLimits, RouteTable};
use twinpath_core::Direction;
use twinpath_core::wire::Address;
use twinpath_rulecache::Recorded;

/// What a packet's addresses say.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// It is not translated.
    Past,
    /// Neither is this one, from outside straight to a host inside.
    Direct,
    /// From inside to somewhere else.
    Out,
    /// From outside to the external address with this number.
    In(u32),
    /// From inside to the external address with this number.
    Hairpin(u32),
    /// From inside to an external endpoint that the shard with this number has.
    Across(u16),
}

/// Steps of examined bits, so that cached rules share few masks.
const STEP_BITS: u8 = 8;

/// The prefixes inside and the external addresses.
pub(crate) struct Sides {
    /// Numbers of external addresses, and [`INSIDE`] for the prefixes inside.
    table: RouteTable,
    inside: Vec<Prefix>,
    untranslated: Vec<Prefix>,
    has_v4: bool,
    has_v6: bool,
}

const INSIDE: u32 = u32::MAX >> 1;
/// Hosts inside reach it as they are.
const UNTRANSLATED: u32 = INSIDE - 1;

impl Course {
    /// Whether a packet keeps its addresses.
    pub fn is_past(self) -> bool {
        matches!(self, Self::Past | Self::Direct)
    }
}

impl Sides {
    pub fn new(config: &Config) -> Self {
        let most = config.inside.len() + config.untranslated.len() + config.external.len();
        let mut table = RouteTable::new(RouteLimits { v4: most, v6: most });
        let numbered = (0..).zip(&config.external);
        let external = numbered.map(|(number, &address)| (Prefix::from(address), number));
        let inside = config.inside.iter().map(|&prefix| (prefix, INSIDE));
        let untranslated = config.untranslated.iter();
        let untranslated = untranslated.map(|&prefix| (prefix, UNTRANSLATED));
        for (prefix, what) in untranslated.chain(inside).chain(external) {
            // The limits count all of them.
            let _ = table.insert(prefix, what);
        }
        Self {
            table,
            inside: config.inside.clone(),
            untranslated: config.untranslated.clone(),
            has_v4: config.external.iter().any(|address| address.is_v4()),
            has_v6: config.external.iter().any(|address| !address.is_v4()),
        }
    }

    /// The prefixes inside.
    pub fn inside(&self) -> &[Prefix] {
        &self.inside
    }

    /// The prefixes that hosts inside reach as they are.
    pub fn untranslated(&self) -> &[Prefix] {
        &self.untranslated
    }

    /// Whether an address is inside.
    pub fn is_inside(&self, address: Address) -> bool {
        self.table.lookup(address) == Some(INSIDE)
    }

    /// The number of an external address.
    pub fn external_number(&self, address: Address) -> Option<u32> {
        let number = self.table.lookup(address);
        number.filter(|&number| number < UNTRANSLATED)
    }

    /// The packet's course, with the bits that decided it recorded.
    pub fn course(&self, packet: &mut Recorded<'_>) -> Course {
        let headers = packet.headers();
        // The IP version is in every rule.
        if !self.is_served(headers.source) {
            return Course::Past;
        }
        let source = self.table.lookup_examined(headers.source);
        packet.examined_source(up(source.examined_bits));
        let destination = self.table.lookup_examined(headers.destination);
        packet.examined_destination(up(destination.examined_bits));
        // Told by the port of arrival where the service says so. It is in every rule, too.
        let from_inside =
            source.next_hop == Some(INSIDE) && packet.direction() == Direction::Original;
        match (from_inside, destination.next_hop) {
            (true, Some(INSIDE | UNTRANSLATED)) | (false, Some(UNTRANSLATED)) => Course::Past,
            (true, Some(number)) => Course::Hairpin(number),
            (true, None) => Course::Out,
            (false, Some(INSIDE)) => Course::Direct,
            (false, Some(number)) => Course::In(number),
            (false, None) => Course::Past,
        }
    }

    fn is_served(&self, address: Address) -> bool {
        match address.is_v4() {
            true => self.has_v4,
            false => self.has_v6,
        }
    }
}

fn up(bits: u8) -> u8 {
    bits.next_multiple_of(STEP_BITS).min(128)
}
