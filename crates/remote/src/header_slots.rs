//! Headers that wait for their payloads (Ribosome §3.1): an array whose places are used in turn.
//!
//! The paper makes it so long that a payload is back before its header's place is used again, and
//! merges whatever lies there. Here each use has a number, so that a header that was overwritten is
//! known to be, and no payload meets another packet's header. The paper takes the next place when a
//! packet is split; here it is taken when the header is back, for then it waits for the server alone.

/// Names a header that waits.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HeaderSlot {
    /// Which place.
    pub index: u32,
    /// Which use of it.
    pub generation: u32,
}

struct Slot<T> {
    generation: u32,
    header: Option<T>,
}

/// The array.
pub struct HeaderSlots<T> {
    slots: Box<[Slot<T>]>,
    next: usize,
    overtaken: u64,
}

impl<T> HeaderSlots<T> {
    /// Places for `slots` headers, at least one. The paper has 2000.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        let empty = || Slot {
            generation: 0,
            header: None,
        };
        Self {
            slots: std::iter::repeat_with(empty).take(slots.max(1)).collect(),
            next: 0,
            overtaken: 0,
        }
    }

    /// Puts a header into the next place; who was there has lost it, and is given back.
    pub fn store(&mut self, header: T) -> (HeaderSlot, Option<T>) {
        let index = self.next;
        self.next = (index + 1) % self.slots.len();
        let slot = &mut self.slots[index];
        slot.generation = slot.generation.wrapping_add(1);
        let overtaken = slot.header.replace(header);
        self.overtaken += u64::from(overtaken.is_some());
        let name = HeaderSlot {
            index: index as u32,
            generation: slot.generation,
        };
        (name, overtaken)
    }

    /// The header, unless it was overtaken or is taken already.
    pub fn take(&mut self, name: HeaderSlot) -> Option<T> {
        let slot = self.slots.get_mut(name.index as usize)?;
        match slot.generation == name.generation {
            true => slot.header.take(),
            false => None,
        }
    }

    /// How many were overtaken.
    #[must_use]
    pub const fn overtaken(&self) -> u64 {
        self.overtaken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overtaken_header_is_never_given_out() {
        let mut slots = HeaderSlots::new(2);
        let (a, none) = slots.store("a");
        assert_eq!(none, None);
        let (b, _) = slots.store("b");
        let (c, overtaken) = slots.store("c");
        assert_eq!((overtaken, slots.overtaken()), (Some("a"), 1));
        assert_eq!(a.index, c.index);
        assert_eq!((slots.take(a), slots.take(c)), (None, Some("c")));
        assert_eq!((slots.take(b), slots.take(b)), (Some("b"), None));
        let beyond = HeaderSlot {
            index: 9,
            generation: 1,
        };
        assert_eq!(slots.take(beyond), None);
    }
}
