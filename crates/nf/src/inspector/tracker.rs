//! Rules of several items, or of items at certain places, met along a stream.
//!
//! A matcher says where patterns end. What follows from that for one direction of a flow is kept
//! here, in a few numbers and never in bytes of the stream: of each item that waits for its turn,
//! where the item before it ended. So it makes no difference how a stream is cut. What an item needs
//! to know is known when its last byte has come, but for what must *not* be there: that is known
//! where its place ends, or the stream.

use super::rules::{Item, ItemBounds, ItemIndex, ItemKind, KEPT_BYTES, Number, RuleIndex, Rules};
use super::words::Edge;

/// Most places that one item waits behind. Of more the oldest are forgotten.
const MOST_OF_ONE: usize = 32;
/// Most that is kept of one direction of a flow.
const MOST_WAITING: usize = 256;

/// What is kept of one direction of a flow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Progress {
    waiting: Vec<Waiting>,
    rules: Vec<RuleProgress>,
    /// The last bytes that were seen, where items wait for numbers.
    kept: Vec<u8>,
}

/// An item waits for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Waiting {
    item: ItemIndex,
    /// Where the item before it ended, or where the stream has to end for this one.
    cursor: u32,
    /// It was there, and waits for the stream's end.
    at_end: bool,
}

/// How far a rule with several chains is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RuleProgress {
    rule: RuleIndex,
    /// A bit for each chain that is there.
    there: u32,
    /// A chain is there that must not be.
    violated: bool,
}

impl Progress {
    /// Whether the stream's next bytes would be judged as its first ones, but for their places.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.rules.is_empty()
    }

    pub fn clear(&mut self) {
        self.waiting.clear();
        self.rules.clear();
        self.kept.clear();
    }
}

/// A pattern ended, so many bytes from the stream's first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hit {
    pub end: u32,
    pub item: ItemIndex,
}

/// The bytes of a stream that have just come.
///
/// With the first ones everything begins that is looked for from a stream's beginning.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk<'a> {
    /// Where they begin.
    pub start: u32,
    pub bytes: &'a [u8],
    /// Nothing comes after them.
    pub is_last: bool,
}

/// Takes one direction of a flow through some of its bytes.
pub(super) struct Tracker<'a> {
    pub rules: &'a Rules,
    pub progress: &'a mut Progress,
    pub chunk: Chunk<'a>,
    /// Whether a rule is one for this stream.
    pub is_wanted: &'a dyn Fn(RuleIndex) -> bool,
    /// Called with each rule that is met.
    pub met: &'a mut dyn FnMut(RuleIndex),
    /// Counts what was forgotten for want of room.
    pub forgotten: &'a mut u64,
}

impl Tracker<'_> {
    /// The hits are those of the chunk's bytes, in order of their ends.
    pub fn run(mut self, hits: &[Hit]) {
        if self.chunk.start == 0 {
            self.begin();
        }
        for at_once in hits.chunk_by(|one, other| one.end == other.end) {
            self.settle(at_once[0].end.saturating_sub(1), false);
            at_once.iter().for_each(|hit| self.hit(*hit));
        }
        let end = self.end();
        self.settle(end, false);
        if self.chunk.is_last {
            self.settle(end, true);
            self.progress.clear();
        } else {
            self.keep();
        }
    }

    /// Numbers are read from the beginning on, and of rules that name only what must not be there it is
    /// known that nothing is there yet.
    fn begin(&mut self) {
        let rules = self.rules;
        for &opener in rules.openers() {
            let (is_wanted, item) = (self.is_wanted, &rules.items()[usize::from(opener)]);
            match is_wanted(item.rule) {
                false => {}
                true if item.is_pattern() => _ = self.rule_progress(item.rule),
                true => self.wait(opener, 0, false),
            }
        }
    }

    fn end(&self) -> u32 {
        self.chunk.start + self.chunk.bytes.len() as u32
    }

    fn item(&self, index: ItemIndex) -> Option<&Item> {
        self.rules.items().get(usize::from(index))
    }

    fn hit(&mut self, Hit { end, item: index }: Hit) {
        let Some(item) = self.item(index) else {
            return;
        };
        let (place, begins, negated, rule) = (item.place, item.begins, item.negated, item.rule);
        let start = end.saturating_sub(bytes_of(item));
        let fits = match begins {
            true => is_at(place, start, end),
            false => self.fits_behind(index, place, start, end),
        };
        match (fits, negated, begins) {
            (false, ..) => {}
            (true, false, _) if place.ends_with => self.wait(index, end, true),
            (true, false, _) => self.advance(index, end),
            (true, true, true) if self.rules.names_only_absence(rule) => {
                self.progress.rules.retain(|one| one.rule != rule);
            }
            (true, true, true) => self.rule_progress(rule).violated = true,
            (true, true, false) => self.progress.waiting.retain(|waiting| {
                waiting.item != index || !is_behind(place, waiting.cursor, start, end)
            }),
        }
    }

    /// Whether an item that is relative begins and ends where one waits for it.
    fn fits_behind(&self, index: ItemIndex, place: ItemBounds, start: u32, end: u32) -> bool {
        let mut waiting = self.progress.waiting.iter();
        waiting
            .any(|one| one.item == index && !one.at_end && is_behind(place, one.cursor, start, end))
    }

    /// What is known when the stream has come to a position, or to its end.
    fn settle(&mut self, position: u32, is_end: bool) {
        let mut at = 0;
        while let Some(&one) = self.progress.waiting.get(at) {
            match self.settled(one, position, is_end) {
                Settled::Waits => at += 1,
                Settled::Never => _ = self.progress.waiting.swap_remove(at),
                Settled::Met(cursor) => {
                    self.progress.waiting.swap_remove(at);
                    self.advance(one.item, cursor);
                    at = 0;
                }
            }
        }
        self.settle_rules(position, is_end);
    }

    fn settled(&self, one: Waiting, position: u32, is_end: bool) -> Settled {
        let Some(item) = self.item(one.item) else {
            return Settled::Never;
        };
        if one.at_end {
            return match (one.cursor < position, is_end) {
                (true, _) => Settled::Never,
                (false, true) => Settled::Met(one.cursor),
                (false, false) => Settled::Waits,
            };
        }
        let passed = item
            .place
            .within
            .is_some_and(|within| one.cursor.saturating_add(within) <= position);
        match &item.kind {
            ItemKind::Pattern(_) if item.negated && (passed || is_end) => Settled::Met(one.cursor),
            ItemKind::Pattern(_) if passed => Settled::Never,
            ItemKind::Pattern(_) => Settled::Waits,
            ItemKind::DataAt(more) => {
                let is_there = one.cursor.saturating_add(*more) <= position;
                match (is_there, item.negated) {
                    (true, true) => Settled::Never,
                    (false, true) if is_end => Settled::Met(one.cursor),
                    (true, false) => Settled::Met(one.cursor),
                    (false, _) => Settled::Waits,
                }
            }
            ItemKind::Edge(edge) => self.edge(one.cursor, *edge, position, is_end),
            ItemKind::Test(test) => self.number(one.cursor, &test.number, position, |value, _| {
                test.holds(value).then_some(one.cursor)
            }),
            ItemKind::Jump(jump) => {
                self.number(one.cursor, &jump.number, position, |value, end| {
                    jump.target(value, end)
                })
            }
        }
    }

    /// Whether a word ends or begins at a position, once the byte behind it has come, or none will.
    fn edge(&self, cursor: u32, edge: Edge, position: u32, is_end: bool) -> Settled {
        if cursor >= position && !is_end {
            return Settled::Waits;
        }
        let byte = |at: u32| {
            let mut byte = [0];
            self.read(at, &mut byte).map(|()| byte[0])
        };
        let before = cursor.checked_sub(1).and_then(byte);
        let behind = (cursor < position).then(|| byte(cursor)).flatten();
        match before.is_some_and(|before| edge.is_between(before, behind)) {
            true => Settled::Met(cursor),
            false => Settled::Never,
        }
    }

    /// Reads a number once its last byte has come; `judge` has its value and where it ends, and says
    /// where the next item is looked for.
    fn number(
        &self,
        cursor: u32,
        number: &Number,
        position: u32,
        judge: impl FnOnce(u64, u32) -> Option<u32>,
    ) -> Settled {
        let Some(start) = cursor.checked_add_signed(number.offset) else {
            return Settled::Never;
        };
        let end = start.saturating_add(number.bytes);
        if end > position {
            return Settled::Waits;
        }
        let mut bytes = [0; 32];
        let bytes = &mut bytes[..number.bytes.min(32) as usize];
        let read = self.read(start, bytes).and_then(|()| number.read(bytes));
        read.and_then(|value| judge(value, end))
            .map_or(Settled::Never, Settled::Met)
    }

    /// Bytes that have come, from a position on.
    fn read(&self, start: u32, into: &mut [u8]) -> Option<()> {
        let kept_from = self
            .chunk
            .start
            .checked_sub(self.progress.kept.len() as u32)?;
        for (place, position) in into.iter_mut().zip(start..) {
            let at = position.checked_sub(kept_from)? as usize;
            let kept = self.progress.kept.len();
            *place = match at < kept {
                true => self.progress.kept[at],
                false => *self.chunk.bytes.get(at - kept)?,
            };
        }
        Some(())
    }

    /// An item is there; the next of its chain is looked for from `cursor` on.
    fn advance(&mut self, index: ItemIndex, cursor: u32) {
        let Some(item) = self.item(index) else {
            return;
        };
        match item.ends {
            true => self.chain_is_there(item.rule, item.chain),
            false => self.wait(index + 1, cursor, false),
        }
    }

    fn wait(&mut self, item: ItemIndex, cursor: u32, at_end: bool) {
        let new = Waiting {
            item,
            cursor,
            at_end,
        };
        let is_open = |place: &ItemBounds, negated: bool| place.within.is_none() && !negated;
        let keeps_first = !at_end
            && self
                .item(item)
                .is_some_and(|item| is_open(&item.place, item.negated) && item.is_pattern());
        let waiting = &mut self.progress.waiting;
        let same = |one: &Waiting| one.item == item && one.at_end == at_end;
        if waiting.contains(&new) {
            return;
        }
        // Whatever is far enough behind a later place is far enough behind the first.
        if let Some(one) = waiting.iter_mut().find(|one| keeps_first && same(one)) {
            one.cursor = one.cursor.min(cursor);
            return;
        }
        if waiting.iter().filter(|one| same(one)).count() >= MOST_OF_ONE
            || waiting.len() >= MOST_WAITING
        {
            *self.forgotten += 1;
            let oldest = waiting.iter().position(same);
            waiting.swap_remove(oldest.unwrap_or(0));
        }
        waiting.push(new);
    }

    fn rule_progress(&mut self, rule: RuleIndex) -> &mut RuleProgress {
        let rules = &mut self.progress.rules;
        let known = rules.iter().position(|one| one.rule == rule);
        let at = known.unwrap_or_else(|| {
            if rules.len() >= MOST_WAITING {
                *self.forgotten += 1;
                rules.swap_remove(0);
            }
            rules.push(RuleProgress {
                rule,
                there: 0,
                violated: false,
            });
            rules.len() - 1
        });
        &mut rules[at]
    }

    fn chain_is_there(&mut self, rule: RuleIndex, chain: u8) {
        let items = self.rules.items_of(rule);
        if items.iter().all(|item| item.chain == chain) {
            return (self.met)(rule);
        }
        let known = self.progress.rules.iter().find(|one| one.rule == rule);
        let there = known.map_or(0, |one| one.there) | 1 << chain;
        if !self.has_failed(rule, there) {
            self.rule_progress(rule).there = there;
        }
    }

    /// Whether a chain of a rule that begins with a number is neither there nor looked for any more.
    fn has_failed(&self, rule: RuleIndex, there: u32) -> bool {
        let waits = |chain: u8| {
            let mut waiting = self.progress.waiting.iter();
            waiting.any(|one| {
                let item = self.item(one.item);
                item.is_some_and(|item| (item.rule, item.chain) == (rule, chain))
            })
        };
        let items = self.rules.items_of(rule).iter();
        let mut chains = items.filter(|item| item.begins && !item.is_pattern());
        chains.any(|item| there >> item.chain & 1 == 0 && !waits(item.chain))
    }

    /// Rules all of whose chains are there are met, once it is known that nothing is there that must
    /// not be.
    fn settle_rules(&mut self, position: u32, is_end: bool) {
        let rules = self.rules;
        let met = &mut self.met;
        self.progress.rules.retain(|one| {
            let items = rules.items_of(one.rule);
            let mut firsts = items.iter().filter(|item| item.begins);
            // A rule that names nothing else waits for the end.
            let waits = rules.names_only_absence(one.rule);
            let is_met = !one.violated
                && position > 0
                && firsts.all(|item| match item.negated && item.is_pattern() {
                    false => one.there >> item.chain & 1 != 0,
                    true if waits && item.place.depth.is_none() => is_end,
                    true => is_end || is_past(item.place, position),
                });
            if is_met {
                met(one.rule);
            }
            !is_met
        });
    }

    /// Keeps the last bytes, if any item may ask for them.
    fn keep(&mut self) {
        let wants = |one: &Waiting| {
            let item = self.rules.items().get(usize::from(one.item));
            item.is_some_and(|item| !item.is_pattern())
        };
        let kept = &mut self.progress.kept;
        if !self.progress.waiting.iter().any(wants) {
            return kept.clear();
        }
        let new = self.chunk.bytes;
        let new = &new[new.len().saturating_sub(KEPT_BYTES)..];
        let old = KEPT_BYTES - new.len();
        kept.drain(..kept.len().saturating_sub(old));
        kept.extend_from_slice(new);
    }
}

enum Settled {
    Waits,
    Never,
    /// The next item is looked for from here on.
    Met(u32),
}

fn bytes_of(item: &Item) -> u32 {
    match &item.kind {
        ItemKind::Pattern(sought) => sought.bytes(),
        _ => 0,
    }
}

/// Whether an item from `start` to `end` is where it has to be in its stream.
fn is_at(place: ItemBounds, start: u32, end: u32) -> bool {
    let last = place.depth.map(|depth| place.offset.saturating_add(depth));
    start >= place.offset && last.is_none_or(|last| end <= last)
}

/// Whether an item can no longer be where it must not be. Without a depth nobody waits for more.
fn is_past(place: ItemBounds, position: u32) -> bool {
    place
        .depth
        .is_none_or(|depth| place.offset.saturating_add(depth) <= position)
}

/// Whether an item from `start` to `end` is where it has to be behind the one before it.
fn is_behind(place: ItemBounds, cursor: u32, start: u32, end: u32) -> bool {
    let distance = i64::from(start) - i64::from(cursor);
    let last = place.within.map(|within| cursor.saturating_add(within));
    distance >= i64::from(place.distance) && last.is_none_or(|last| end <= last)
}
