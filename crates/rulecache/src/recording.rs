//! What a packet's way through the chain depended on.

use crate::action::Rewrites;
use crate::field::{Field, Fields};
use crate::key::MatchKey;
use std::time::Duration;

/// Most table entries that one rule may depend on.
pub const MAX_DEPENDENCIES: usize = 12;

/// A table entry of a function: a NAT binding, a route, a backend, a generation of a list.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId {
    /// The function's place in the chain.
    pub function: u8,
    /// The function's own number for it.
    pub entry: u32,
}

/// An entry that a decision came from.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependency {
    /// The entry.
    pub entry: EntryId,
    /// The entry ends when it was not used for longer than this.
    pub idle: Option<Duration>,
    /// It is told what the last TCP segment said that a rule handled.
    pub hears_progress: bool,
}

/// The entries that a decision came from; at most [`MAX_DEPENDENCIES`].
#[derive(Copy, Clone, Debug)]
pub struct Dependencies {
    /// Those from `count` on mean nothing.
    items: [Dependency; MAX_DEPENDENCIES],
    count: u8,
}

impl PartialEq for Dependencies {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Dependencies {}

impl Default for Dependencies {
    fn default() -> Self {
        Self::NONE
    }
}

impl Dependencies {
    /// No entry.
    pub const NONE: Self = Self {
        items: [Dependency {
            entry: EntryId {
                function: 0,
                entry: 0,
            },
            idle: None,
            hears_progress: false,
        }; MAX_DEPENDENCIES],
        count: 0,
    };

    /// The entries, in the order of their first use, each once.
    #[inline]
    pub fn as_slice(&self) -> &[Dependency] {
        &self.items[..usize::from(self.count)]
    }

    /// Adds an entry. Returns whether there was room.
    #[inline]
    pub fn add(&mut self, new: Dependency) -> bool {
        let known = self.items[..usize::from(self.count)]
            .iter_mut()
            .find(|known| known.entry == new.entry);
        if let Some(known) = known {
            known.idle = shorter(known.idle, new.idle);
            known.hears_progress |= new.hears_progress;
            return true;
        }
        let Some(place) = self.items.get_mut(usize::from(self.count)) else {
            return false;
        };
        *place = new;
        self.count += 1;
        true
    }

    /// Whether any of them hears what TCP segments say.
    pub fn hear_progress(&self) -> bool {
        self.as_slice().iter().any(|entry| entry.hears_progress)
    }

    /// The shortest idle time-out of all.
    pub fn idle(&self) -> Option<Duration> {
        self.as_slice()
            .iter()
            .fold(None, |least, dependency| shorter(least, dependency.idle))
    }

    /// Whether an entry is among them.
    pub fn has(&self, entry: EntryId) -> bool {
        self.as_slice().iter().any(|known| known.entry == entry)
    }
}

fn shorter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Why a packet's way through the chain makes no rule.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Obstacle {
    /// A fragment, an ICMP error, another protocol: it has no key.
    NotPlain,
    /// A function looked at the payload or at headers that are not in the key.
    Payload,
    /// A function looked at a field that is not in the key.
    FieldNotInKey,
    /// The time to live ended.
    Expired,
    /// More entries than a rule can depend on.
    TooManyDependencies,
    /// A function answered, kept or made a packet.
    Answered,
    /// A function changed something that the packets after it meet.
    StateChanged,
    /// A function decides anew for each packet.
    Undecided,
}

impl Obstacle {
    /// Every obstacle, in the order of its number.
    pub const ALL: [Self; 8] = [
        Self::NotPlain,
        Self::Payload,
        Self::FieldNotInKey,
        Self::Expired,
        Self::TooManyDependencies,
        Self::Answered,
        Self::StateChanged,
        Self::Undecided,
    ];

    /// The obstacle's name in reports and metrics: snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotPlain => "not_plain",
            Self::Payload => "payload",
            Self::FieldNotInKey => "field_not_in_key",
            Self::Expired => "expired",
            Self::TooManyDependencies => "too_many_dependencies",
            Self::Answered => "answered",
            Self::StateChanged => "state_changed",
            Self::Undecided => "undecided",
        }
    }

    /// Which packets it is about, in words.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::NotPlain => "fragments, ICMP errors, protocols other than TCP, UDP and ICMP echo",
            Self::Payload => "packets whose payload a function looks at",
            Self::FieldNotInKey => {
                "packets of which a function looks at a field that rules do not match, such as a MAC address"
            }
            Self::Expired => "packets whose time to live ends",
            Self::TooManyDependencies => "packets that more entries decide than a rule can name",
            Self::Answered => "packets that a function answers, keeps or is asked about",
            Self::StateChanged => {
                "packets that change an entry that later ones meet, as those that open a connection"
            }
            Self::Undecided => {
                "packets of a kind that a function decides anew each time, as those that end a connection"
            }
        }
    }
}

/// Fixed examined bits and written fields, which a function may declare once in place of having
/// them recorded one by one (SFCache §III-D).
///
/// That pays for functions that look at many fields of every packet. Those of this project do
/// not: lists and routes must report the bits that decided, or rules would be made flow by flow,
/// and a translation's or a balancer's looks are six masks joined, some 60 of the 800 to 2600
/// instructions that a packet takes there.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Bits of the packet that the function may examine, as it meets the packet.
    pub examined: MatchKey,
    /// Fields that it may write.
    pub written: Fields,
}

/// What one packet's way through an element of the chain depended on, and what it did.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The packet as it entered the element.
    original: MatchKey,
    /// The bits of that packet that were examined.
    examined: MatchKey,
    /// The bits whose fields nobody has written: later looks at others add nothing, because
    /// their values follow from what is recorded already.
    unwritten: MatchKey,
    rewrites: Rewrites,
    dependencies: Dependencies,
    obstacle: Option<Obstacle>,
    pattern: Option<Pattern>,
}

impl Recording {
    /// A recording of a packet that enters an element with this key; one without makes no rule.
    #[inline]
    pub fn new(key: Option<MatchKey>) -> Self {
        let mut recording = Self {
            original: MatchKey::NONE,
            examined: MatchKey::NONE,
            unwritten: MatchKey::NONE,
            rewrites: Rewrites::default(),
            dependencies: Dependencies::NONE,
            obstacle: None,
            pattern: None,
        };
        recording.begin(key);
        recording
    }

    /// Begins anew with another packet, as [`Self::new`].
    #[inline]
    pub(crate) fn begin(&mut self, key: Option<MatchKey>) {
        let Self {
            original,
            examined,
            unwritten,
            rewrites,
            dependencies,
            obstacle,
            pattern,
        } = self;
        *original = key.unwrap_or(MatchKey::NONE);
        *examined = MatchKey::ALWAYS;
        *unwritten = MatchKey([u64::MAX; 6]);
        *rewrites = Rewrites::default();
        dependencies.count = 0;
        *obstacle = match key {
            Some(_) => None,
            None => Some(Obstacle::NotPlain),
        };
        *pattern = None;
    }

    /// The packet's key as it entered the element.
    pub fn original(&self) -> &MatchKey {
        &self.original
    }

    /// The bits examined so far, direction and shape included.
    pub fn mask(&self) -> &MatchKey {
        &self.examined
    }

    /// What was written.
    pub fn rewrites(&self) -> &Rewrites {
        &self.rewrites
    }

    /// The entries used.
    pub fn dependencies(&self) -> &Dependencies {
        &self.dependencies
    }

    /// Why this makes no rule, if it makes none.
    pub fn obstacle(&self) -> Option<Obstacle> {
        self.obstacle
    }

    /// Bits of the packet were examined.
    #[inline(always)]
    pub(crate) fn examine(&mut self, mut bits: MatchKey) {
        if let Some(pattern) = &self.pattern {
            debug_assert!(
                bits.and(&self.unwritten)
                    .without(&pattern.examined)
                    .is_none(),
                "a function examined bits beyond its pattern"
            );
            return;
        }
        if self.original.is_echo() {
            bits = both_ports(bits);
        }
        self.examined = self.examined.or(&bits.and(&self.unwritten));
    }

    /// A field outside the key was examined: harmless only if it was written before.
    pub(crate) fn examine_field(&mut self, field: Field, bits: u128) {
        if field.is_in_key() {
            self.examine(field.place(bits));
        } else if !self.rewrites.written.has(field) {
            self.obstruct(Obstacle::FieldNotInKey);
        }
    }

    /// From here to the end of the function, its pattern stands for what it examines.
    #[inline(always)]
    pub(crate) fn declare(&mut self, pattern: &Pattern) {
        self.examine(pattern.examined);
        self.pattern = Some(*pattern);
    }

    /// Another function begins.
    #[inline(always)]
    pub(crate) fn end_pattern(&mut self) {
        self.pattern = None;
    }

    /// A field was written; `is_same` tells whether it had that value before.
    #[inline(always)]
    pub(crate) fn write(&mut self, field: Field, is_same: bool) -> &mut Rewrites {
        if let Some(pattern) = &self.pattern {
            debug_assert!(
                pattern.written.has(field),
                "a function wrote a field beyond its pattern"
            );
        }
        if self.rewrites.written.has(field) && !is_same && MENDS_CHECKSUM.has(field) {
            self.rewrites.again.add(field);
        }
        self.rewrites.written.add(field);
        self.unwritten = self.unwritten.without(&field.mask());
        &mut self.rewrites
    }

    /// The time to live was counted down.
    pub(crate) fn count_down(&mut self) {
        match self.rewrites.decrements.checked_add(1) {
            Some(decrements) => self.rewrites.decrements = decrements,
            None => self.obstruct(Obstacle::Undecided),
        }
    }

    /// An entry was used.
    #[inline]
    pub(crate) fn depend(&mut self, dependency: Dependency) {
        if !self.dependencies.add(dependency) {
            self.obstruct(Obstacle::TooManyDependencies);
        }
    }

    /// This makes no rule; the first reason counts.
    pub(crate) fn obstruct(&mut self, obstacle: Obstacle) {
        self.obstacle = self.obstacle.or(Some(obstacle));
    }
}

/// Fields whose change mends checksums, and which may be written more than once.
const MENDS_CHECKSUM: Fields = Fields::of(&[
    Field::SourceAddress,
    Field::DestinationAddress,
    Field::SourcePort,
    Field::DestinationPort,
]);

/// An echo's identifier is both ports: who has seen bits of one has seen those of the other.
fn both_ports(bits: MatchKey) -> MatchKey {
    let word = bits.0[4];
    let ports = (word >> 48 | word >> 32) & 0xffff;
    bits.or(&MatchKey([0, 0, 0, 0, ports << 48 | ports << 32, 0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dependency(entry: u32, idle_s: Option<u64>) -> Dependency {
        Dependency {
            entry: EntryId { function: 1, entry },
            idle: idle_s.map(Duration::from_secs),
            ..Dependency::default()
        }
    }

    #[test]
    fn entries_are_kept_once_with_their_shortest_time_out() {
        let mut recording = Recording::new(Some(MatchKey::NONE));
        recording.depend(dependency(3, None));
        recording.depend(dependency(3, Some(9)));
        recording.depend(dependency(4, Some(20)));
        assert_eq!(recording.dependencies().as_slice().len(), 2);
        let idle = recording.dependencies().idle();
        assert_eq!(idle, Some(Duration::from_secs(9)));
        assert!(recording.dependencies().has(dependency(4, None).entry));
    }

    #[test]
    fn too_many_entries_make_no_rule() {
        let mut recording = Recording::new(Some(MatchKey::NONE));
        (0..MAX_DEPENDENCIES as u32).for_each(|entry| recording.depend(dependency(entry, None)));
        assert_eq!(recording.obstacle(), None);
        recording.depend(dependency(99, None));
        recording.obstruct(Obstacle::Payload);
        assert_eq!(recording.obstacle(), Some(Obstacle::TooManyDependencies));
    }
}
