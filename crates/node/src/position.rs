//! Where a packet is in the chain.

use twinpath_core::Direction;

/// An element of the chain, and which way the packet goes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The element's number.
    pub element: u8,
    /// Which way the packet goes through the chain.
    pub direction: Direction,
}

/// In which order packets pass the elements of a chain: those of the original direction as they are
/// numbered, others in reverse. Elements at the end that decide last (routers) are the last ones
/// either way: where a packet leaves depends on the addresses that it leaves with.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ElementOrder {
    /// How many elements there are.
    pub elements: u8,
    /// How many of them, at the end, decide last.
    pub last: u8,
}

impl ElementOrder {
    /// The first of those that decide last.
    const fn first_last(self) -> u8 {
        self.elements.saturating_sub(self.last)
    }

    /// Where a packet enters.
    #[inline]
    pub const fn first(self, direction: Direction) -> Position {
        let element = match direction {
            Direction::Original => 0,
            Direction::Reply => self.first_last().saturating_sub(1),
        };
        Position { element, direction }
    }

    /// The element behind this one; `None` if the packet leaves the chain.
    #[inline]
    pub const fn next(self, position: Position) -> Option<Position> {
        let Position { element, direction } = position;
        let element = match direction {
            Direction::Reply if element < self.first_last() => match element.checked_sub(1) {
                Some(before) => before,
                None => self.first_last(),
            },
            _ => element + 1,
        };
        match element < self.elements {
            true => Some(Position { element, direction }),
            false => None,
        }
    }

    /// The element in front of this one; `None` if packets enter the chain here.
    pub fn before(self, position: Position) -> Option<Position> {
        let first = Some(self.first(position.direction));
        let walk = std::iter::successors(first, |position| self.next(*position));
        let before = walk.take_while(|passed| passed.element != position.element);
        before.last()
    }

    /// The element behind this one for an answer that a function of the chain has made: it passes
    /// those before that function, as if it had come from behind it; its direction is the opposite
    /// of that of the packet which it answers.
    pub fn back(self, position: Position) -> Option<Position> {
        let direction = position.direction.other();
        let before = self.before(Position {
            direction,
            ..position
        })?;
        Some(Position {
            element: before.element,
            ..position
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(order: ElementOrder, direction: Direction) -> Vec<u8> {
        let first = Some(order.first(direction));
        let positions = std::iter::successors(first, |position| order.next(*position));
        positions.map(|position| position.element).collect()
    }

    fn goes_back(order: ElementOrder, element: u8, direction: Direction) -> Vec<u8> {
        let start = Some(Position { element, direction });
        let positions = std::iter::successors(start, |position| order.back(*position));
        positions.skip(1).map(|position| position.element).collect()
    }

    #[test]
    fn replies_pass_the_elements_in_reverse() {
        let order = ElementOrder {
            elements: 3,
            last: 0,
        };
        assert_eq!(passes(order, Direction::Original), [0, 1, 2]);
        assert_eq!(passes(order, Direction::Reply), [2, 1, 0]);
        assert_eq!(goes_back(order, 2, Direction::Reply), [1, 0]);
        assert_eq!(goes_back(order, 0, Direction::Original), [1, 2]);
    }

    #[test]
    fn some_decide_last_either_way() {
        let order = ElementOrder {
            elements: 4,
            last: 1,
        };
        assert_eq!(passes(order, Direction::Original), [0, 1, 2, 3]);
        assert_eq!(passes(order, Direction::Reply), [2, 1, 0, 3]);
        assert_eq!(goes_back(order, 3, Direction::Reply), [2, 1, 0]);
        assert_eq!(goes_back(order, 3, Direction::Original), [0, 1, 2]);
        assert_eq!(goes_back(order, 1, Direction::Original), [2]);
        let alone = ElementOrder {
            elements: 1,
            last: 1,
        };
        assert_eq!(passes(alone, Direction::Reply), [0]);
        assert!(goes_back(alone, 0, Direction::Original).is_empty());
    }

    #[test]
    fn what_is_before_is_found_back() {
        for (elements, last) in [(3, 0), (4, 1), (1, 1)] {
            let order = ElementOrder { elements, last };
            for direction in Direction::BOTH {
                let first = order.first(direction);
                assert_eq!(order.before(first), None);
                for place in std::iter::successors(Some(first), |place| order.next(*place)) {
                    let next = order.next(place);
                    assert!(next.is_none_or(|next| order.before(next) == Some(place)));
                }
            }
        }
    }
}
