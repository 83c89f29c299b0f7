//! The rules of the table by number: what they do, how they were used, what they match.
//!
//! Rules that are not in the table of [flows](crate::flows) are used from here: a hit touches two
//! lines, the action (one line) and the uses (half a line), and a third where it tells the numbers of TCP
//! segments. What a rule matches is only needed to take it out, and lies elsewhere.

use crate::action::{self, ActionWords, settle};
use crate::key::MatchKey;
use crate::message::{Gone, NewRule, RuleId, Uses};
use crate::progress::TcpProgress;
use twinpath_core::Instant;
use twinpath_core::memory::{CacheLine, ZeroedArray, prefetch};

/// Where a rule stands.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// There has never been a rule of this number.
    Free = 0,
    /// It waits until the promotion before it is done; it matches nothing.
    Pending = 1,
    /// Packets that it matches are held.
    Holding = 2,
    /// It is used.
    Active = 3,
    /// It has been taken out; the number waits for a new generation.
    Quarantined = 4,
}

impl State {
    #[inline(always)]
    const fn from_bits(bits: u8) -> Self {
        match bits {
            1 => Self::Pending,
            2 => Self::Holding,
            3 => Self::Active,
            4 => Self::Quarantined,
            _ => Self::Free,
        }
    }
}

/// Words of uses: last use, packets, bytes, standing.
const USES: usize = 4;
const LAST: usize = 0;
const PACKETS: usize = 1;
const BYTES: usize = 2;
/// From the top: generation 32, unused 7, progress is known 1, reason of being gone 8, hit since the
/// last report 8, state 8.
const STANDING: usize = 3;
const HIT: u64 = 1 << 8;
const GENERATION_SHIFT: u32 = 32;
const REASON_SHIFT: u32 = 16;
const HAS_PROGRESS: u64 = 1 << 24;

/// Words of a match: mask, value, and padding to two cache lines.
const MATCH: usize = 16;

/// What a look at a rule before its use says.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Usable {
    Yes,
    /// It has been taken out in the meantime.
    NotActive,
    /// Its idle time-out has passed.
    Idle,
}

/// A fixed number of rules.
pub(crate) struct Slots {
    actions: ZeroedArray<CacheLine>,
    uses: ZeroedArray<[u64; USES]>,
    matches: ZeroedArray<u64>,
    /// What the last TCP segment said, of rules that tell.
    progress: ZeroedArray<u64>,
}

impl Slots {
    pub fn new(rules: usize) -> Self {
        Self {
            actions: ZeroedArray::new(rules),
            uses: ZeroedArray::new(rules),
            matches: ZeroedArray::new(rules * MATCH),
            progress: ZeroedArray::new(rules),
        }
    }

    /// Takes the memory now.
    pub fn touch(&mut self) {
        self.actions.touch();
        self.uses.touch();
        self.matches.touch();
        self.progress.touch();
    }

    pub fn len(&self) -> usize {
        self.actions.len()
    }

    pub fn memory_bytes(&self) -> usize {
        let words = self.uses.len() * USES + self.matches.len() + self.progress.len();
        self.actions.len() * 64 + words * 8
    }

    #[inline(always)]
    pub fn prefetch(&self, id: RuleId) {
        let id = id as usize;
        if let (Some(action), Some(uses), Some(matched)) = (
            self.actions.get(id),
            self.uses.get(id),
            self.matches.get(id * MATCH..(id + 1) * MATCH),
        ) {
            prefetch(action);
            prefetch(uses);
            prefetch(&matched[0]);
            prefetch(&matched[MATCH / 2]);
        }
    }

    /// Whether there is such a rule, it is active, and packets with this key meet it.
    #[inline(always)]
    pub fn is_met(&self, id: RuleId, key: &MatchKey) -> bool {
        let words = self.matches.get(id as usize * MATCH..);
        let Some(words) = words.and_then(|words| words.first_chunk::<MATCH>()) else {
            return false;
        };
        let different = (0..6).fold(0, |bits, word| {
            bits | (key.0[word] ^ words[8 + word]) & words[word]
        });
        different == 0 && self.uses_of(id)[STANDING] as u8 == State::Active as u8
    }

    #[inline(always)]
    fn uses_of(&self, id: RuleId) -> &[u64; USES] {
        &self.uses[id as usize]
    }

    #[inline(always)]
    fn uses_mut(&mut self, id: RuleId) -> &mut [u64; USES] {
        &mut self.uses[id as usize]
    }

    #[inline(always)]
    pub fn action(&self, id: RuleId) -> &ActionWords {
        &self.actions[id as usize].0
    }

    #[inline(always)]
    pub fn usable(&self, id: RuleId, now: Instant) -> Usable {
        let uses = self.uses_of(id);
        let idle_ns = self.action(id)[7];
        if uses[STANDING] as u8 != State::Active as u8 {
            Usable::NotActive
        } else if idle_ns > 0 && now.0.saturating_sub(uses[LAST]) > idle_ns {
            Usable::Idle
        } else {
            Usable::Yes
        }
    }

    #[inline(always)]
    pub fn count(
        &mut self,
        id: RuleId,
        (bytes, progress): (usize, Option<TcpProgress>),
        now: Instant,
    ) {
        let uses = self.uses_mut(id);
        uses[LAST] = uses[LAST].max(now.0);
        uses[PACKETS] += 1;
        uses[BYTES] += bytes as u64;
        uses[STANDING] |= HIT;
        self.note_progress(id, progress);
    }

    /// Keeps what the last segment of a rule said, if it was one and the rule tells.
    #[inline(always)]
    pub fn note_progress(&mut self, id: RuleId, progress: Option<TcpProgress>) {
        if let Some(progress) = progress
            && action::tells_progress(self.action(id))
        {
            self.progress[id as usize] = progress.word();
            self.uses_mut(id)[STANDING] |= HAS_PROGRESS;
        }
    }

    /// Adds uses that were counted elsewhere, and are still to be reported.
    pub fn add_uses(&mut self, id: RuleId, more: Uses) {
        let uses = self.uses_mut(id);
        if more.packets > 0 {
            uses[STANDING] |= HIT;
        }
        uses[LAST] = uses[LAST].max(more.last.0);
        uses[PACKETS] += more.packets;
        uses[BYTES] += more.bytes;
        self.note_progress(id, more.progress);
    }

    /// Whether the rule was hit since this was last asked.
    pub fn take_hit(&mut self, id: RuleId) -> bool {
        let standing = &mut self.uses_mut(id)[STANDING];
        let hit = *standing & HIT != 0;
        *standing &= !HIT;
        hit
    }

    pub fn state(&self, id: RuleId) -> State {
        State::from_bits(self.uses_of(id)[STANDING] as u8)
    }

    pub fn generation(&self, id: RuleId) -> u32 {
        (self.uses_of(id)[STANDING] >> GENERATION_SHIFT) as u32
    }

    pub fn set_state(&mut self, id: RuleId, state: State) {
        let standing = &mut self.uses_mut(id)[STANDING];
        *standing = *standing & !0xff | state as u64;
    }

    /// Why a quarantined rule is gone.
    pub fn reason(&self, id: RuleId) -> Gone {
        let number = (self.uses_of(id)[STANDING] >> REASON_SHIFT) as u8;
        let reason = Gone::ALL.get(usize::from(number));
        *reason.unwrap_or(&Gone::Cleared)
    }

    pub fn quarantine(&mut self, id: RuleId, why: Gone) {
        let generation = u64::from(self.generation(id)) << GENERATION_SHIFT;
        let standing = &mut self.uses_mut(id)[STANDING];
        *standing = *standing & HAS_PROGRESS
            | generation
            | (why as u64) << REASON_SHIFT
            | State::Quarantined as u64;
    }

    /// A number is told to be of a generation whose rule never arrived.
    pub fn quarantine_unseen(&mut self, id: RuleId, generation: u32) {
        *self.uses_mut(id) = [0, 0, 0, u64::from(generation) << GENERATION_SHIFT];
        self.quarantine(id, Gone::Cleared);
    }

    /// What is rewritten lies in its place before anything can match.
    pub fn store(&mut self, id: RuleId, generation: u32, rule: &NewRule) {
        self.actions[id as usize].0 = settle(&rule.action, &rule.mask, &rule.value);
        let words = &mut self.matches[id as usize * MATCH..][..MATCH];
        words[..6].copy_from_slice(&rule.mask.0);
        words[8..14].copy_from_slice(&rule.value.0);
        let standing = u64::from(generation) << GENERATION_SHIFT | State::Pending as u64;
        *self.uses_mut(id) = [rule.used.0, 0, 0, standing];
    }

    /// Mask and value.
    pub fn matched(&self, id: RuleId) -> (MatchKey, MatchKey) {
        let words = &self.matches[id as usize * MATCH..][..MATCH];
        let key = |from: usize| MatchKey(std::array::from_fn(|word| words[from + word]));
        (key(0), key(8))
    }

    pub fn uses(&self, id: RuleId) -> Uses {
        let uses = self.uses_of(id);
        Uses {
            packets: uses[PACKETS],
            bytes: uses[BYTES],
            last: Instant(uses[LAST]),
            progress: self.progress(id),
        }
    }

    fn progress(&self, id: RuleId) -> Option<TcpProgress> {
        let is_known = self.uses_of(id)[STANDING] & HAS_PROGRESS != 0;
        is_known.then(|| TcpProgress::from_word(self.progress[id as usize]))
    }
}
