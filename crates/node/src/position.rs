//! Where a packet is in the chain.

use twinpath_core::Direction;

/// An element of the chain, and which way the packet goes. Packets of the original direction pass
/// the elements in order, others in reverse.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The element's number.
    pub element: u8,
    /// Which way the packet goes through the chain.
    pub direction: Direction,
}

impl Position {
    /// Where a packet enters a chain of so many elements.
    #[inline]
    pub const fn first(direction: Direction, elements: usize) -> Self {
        let element = match direction {
            Direction::Original => 0,
            Direction::Reply => elements.saturating_sub(1) as u8,
        };
        Self { element, direction }
    }

    /// The element in front of this one; `None` if the packet enters the chain here.
    pub fn before(self, elements: usize) -> Option<Self> {
        let direction = self.direction.other();
        let before = Self { direction, ..self }.next(elements)?;
        Some(Self {
            direction: self.direction,
            ..before
        })
    }

    /// The element behind this one; `None` if the packet leaves the chain.
    #[inline]
    pub fn next(self, elements: usize) -> Option<Self> {
        let element = match self.direction {
            Direction::Original => Some(self.element + 1),
            Direction::Reply => self.element.checked_sub(1),
        };
        let element = element.filter(|&element| usize::from(element) < elements)?;
        Some(Self { element, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(direction: Direction) -> Vec<u8> {
        let first = Some(Position::first(direction, 3));
        let positions = std::iter::successors(first, |position| position.next(3));
        positions.map(|position| position.element).collect()
    }

    #[test]
    fn replies_pass_the_elements_in_reverse() {
        assert_eq!(passes(Direction::Original), [0, 1, 2]);
        assert_eq!(passes(Direction::Reply), [2, 1, 0]);
        for direction in Direction::BOTH {
            let first = Position::first(direction, 3);
            assert_eq!(first.before(3), None);
            assert_eq!(first.next(3).and_then(|next| next.before(3)), Some(first));
        }
    }
}
