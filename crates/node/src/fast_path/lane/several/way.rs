//! The ways through a chain of several elements.

use crate::fast_path::FastElement;
use crate::place::Place;
use twinpath_core::Direction;

/// The elements as packets of a direction pass them.
#[derive(Copy, Clone)]
pub(in crate::fast_path) struct Way {
    pub direction: Direction,
    /// The element with rules in front of flow state.
    pub before: Option<u8>,
    pub state: u8,
    /// The element with rules behind it.
    pub behind: Option<u8>,
}

impl Way {
    /// The ways through a chain, by direction; `None` if it is of another kind.
    pub fn both(elements: &[FastElement]) -> Option<[Self; 2]> {
        let (before, behind) = match elements {
            [FastElement::Rules(_), FastElement::State(_)] => (Some(0), None),
            [FastElement::State(_), FastElement::Rules(_)] => (None, Some(1)),
            [
                FastElement::Rules(_),
                FastElement::State(_),
                FastElement::Rules(_),
            ] => (Some(0), Some(2)),
            _ => return None,
        };
        let state = before.map_or(0, |before| before + 1);
        let way = |direction, before, behind| Self {
            direction,
            before,
            state,
            behind,
        };
        Some([
            way(Direction::Original, before, behind),
            way(Direction::Reply, behind, before),
        ])
    }

    pub const fn place(self, element: u8) -> Place {
        Place {
            element,
            direction: self.direction,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build;
    use std::path::Path;
    use twinpath_control::service::{Paths, Service};

    /// The elements by direction, in the order in which packets pass them.
    fn ways(chain: &[&str]) -> Option<[Vec<u8>; 2]> {
        let text = format!(
            "[service]\nchain = {chain:?}\n[acl]\ndefault = \"allow\"\n[monitor]\n[firewall]\ndefault = \"allow\"\n"
        );
        let service = Service::parse(&text, Path::new("test.toml")).expect("a service");
        let node = build(&service, Paths::Both).expect("a node");
        let ways = Way::both(node.machine.path().elements())?;
        Some(ways.map(|way| {
            let elements = [way.before, Some(way.state), way.behind];
            elements.into_iter().flatten().collect()
        }))
    }

    #[test]
    fn replies_go_the_other_way() {
        let around = ways(&["acl", "firewall", "monitor"]);
        assert_eq!(around, Some([vec![0, 1, 2], vec![2, 1, 0]]));
        assert_eq!(ways(&["acl", "firewall"]), Some([vec![0, 1], vec![1, 0]]));
        assert_eq!(
            ways(&["firewall", "monitor"]),
            Some([vec![0, 1], vec![1, 0]])
        );
        assert_eq!(ways(&["firewall"]), None);
        assert_eq!(ways(&["acl", "monitor"]), None);
    }
}
