//! Which of two overlapping segments keeps the bytes that both have.

use super::config::Overlap;
use super::counters::Counters;
use super::held::{Buffer, Held};
use super::segment::ahead;
use twinpath_core::DropReason;
use twinpath_slowpath::Outbox;

/// Adds a segment to those held, and resolves its overlaps with them.
pub(super) fn admit(
    buffer: &mut Buffer,
    new: Held,
    overlap: Overlap,
    counters: &mut Counters,
    out: &mut Outbox<'_>,
) {
    let mut admission = Admission {
        buffer,
        counters,
        out,
    };
    let Some(new) = admission.without_fins(new) else {
        return;
    };
    match overlap {
        Overlap::First => admission.fill_holes(new),
        Overlap::Last => admission.replace(new),
    }
}

struct Admission<'a, 'b> {
    buffer: &'a mut Buffer,
    counters: &'a mut Counters,
    out: &'a mut Outbox<'b>,
}

impl Admission<'_, '_> {
    /// Where a FIN and a byte of data have one number, there is the byte: anybody can send a FIN, and what
    /// comes behind must not move. Returns what is left of the new segment.
    fn without_fins(&mut self, mut new: Held) -> Option<Held> {
        let mut index = self.buffer.first_beyond(new.start);
        while let Some((start, end)) = self.buffer.span(index) {
            if ahead(start, new.end) >= 0 {
                break;
            }
            if let Some(held) = self.buffer.at(index) {
                let beaten = held.fin().filter(|fin| new.has_data_at(*fin));
                if let Some(fin) = new.fin().filter(|fin| held.has_data_at(*fin)) {
                    new.cut_back_to(fin);
                }
                if beaten.is_some()
                    && let Some(mut held) = self.buffer.remove(index)
                {
                    self.counters.fins_taken_back += 1;
                    held.cut_back_to(end.wrapping_sub(1));
                    match held.start == held.end {
                        true => self.drop(held),
                        false => self.buffer.insert(held),
                    }
                    continue;
                }
            }
            index += 1;
        }
        if new.start == new.end {
            self.drop(new);
            return None;
        }
        Some(new)
    }

    /// What is held wins: only those parts of `new` are kept that nothing covers.
    fn fill_holes(&mut self, mut new: Held) {
        let mut index = self.buffer.first_beyond(new.start);
        while let Some((start, end, segments)) = self.run(index, new.end) {
            let sticks_out = ahead(start, new.start) > 0;
            let goes_on = ahead(new.end, end) > 0;
            match (sticks_out, goes_on) {
                (false, false) => return self.drop(new),
                (false, true) => self.cut_front(&mut new, end),
                (true, false) => {
                    self.cut_back(&mut new, start);
                    break;
                }
                (true, true) => match self.copy_from(&new, end) {
                    Some(rest) => {
                        new.cut_back_to(start);
                        self.buffer.insert(std::mem::replace(&mut new, rest));
                        index += 1;
                    }
                    None => {
                        self.drop_held(index, segments);
                        continue;
                    }
                },
            }
            index += segments;
        }
        self.buffer.insert(new);
    }

    /// The longest run of adjacent segments from `index` on, if it begins before `limit`: its
    /// start, its end, and of how many segments it is.
    fn run(&self, index: usize, limit: u32) -> Option<(u32, u32, usize)> {
        let (start, mut end) = self
            .buffer
            .span(index)
            .filter(|span| ahead(limit, span.0) > 0)?;
        let mut segments = 1;
        while let Some((_, further)) = self
            .buffer
            .span(index + segments)
            .filter(|span| span.0 == end)
        {
            end = further;
            segments += 1;
        }
        Some((start, end, segments))
    }

    /// The new segment wins: what is held gives way where `new` covers it.
    fn replace(&mut self, mut new: Held) {
        while let Some(mut old) = self.take_overlapping(&new) {
            new.since = new.since.min(old.since);
            let sticks_out = ahead(new.start, old.start) > 0;
            let goes_on = ahead(old.end, new.end) > 0;
            match (sticks_out, goes_on) {
                (false, false) => {
                    self.drop(old);
                    continue;
                }
                (true, true) => return self.split_around(new, old),
                (true, false) => self.cut_back(&mut old, new.start),
                (false, true) => self.cut_front(&mut old, new.end),
            }
            self.buffer.insert(old);
        }
        self.buffer.insert(new);
    }

    fn take_overlapping(&mut self, new: &Held) -> Option<Held> {
        let index = self.buffer.first_beyond(new.start);
        let (start, _) = self.buffer.span(index)?;
        if ahead(new.end, start) > 0 {
            self.buffer.remove(index)
        } else {
            None
        }
    }

    /// The new segment lies within a held one.
    fn split_around(&mut self, new: Held, mut old: Held) {
        match self.copy_from(&old, new.end) {
            Some(rest) => {
                old.cut_back_to(new.start);
                self.buffer.insert(old);
                self.buffer.insert(new);
                self.buffer.insert(rest);
            }
            None => {
                self.buffer.insert(old);
                self.drop(new);
            }
        }
    }

    fn copy_from(&mut self, held: &Held, start: u32) -> Option<Held> {
        let copy = held.copy_from(start, self.out.pools());
        let counter = if copy.is_some() {
            &mut self.counters.split
        } else {
            &mut self.counters.unsplit
        };
        *counter += 1;
        copy
    }

    fn cut_front(&mut self, held: &mut Held, start: u32) {
        self.counters.trimmed += 1;
        held.cut_front_to(start);
    }

    fn cut_back(&mut self, held: &mut Held, end: u32) {
        self.counters.trimmed += 1;
        held.cut_back_to(end);
    }

    fn drop_held(&mut self, index: usize, segments: usize) {
        for _ in 0..segments {
            if let Some(held) = self.buffer.remove(index) {
                self.drop(held);
            }
        }
    }

    fn drop(&mut self, held: Held) {
        self.counters.already_held += 1;
        self.out.drop(held.packet, DropReason::AlreadyHeld);
    }
}
