//! What of a chain's flow state a device has room for.

use super::functions::{element_chain, elements};
use crate::build_error::BuildError;
use twinpath_control::service::{Device, Instance, Paths, Service};
use twinpath_fastpath::{Budget, Placement};

/// The device's limits.
pub fn budget(service: &Service) -> Budget {
    match service.fast_path.device {
        Device::Software => Budget::software(),
        Device::Asic => Budget::asic(),
    }
}

/// What of a chain's flow state a device has room for.
#[derive(Clone, Debug, Default)]
pub struct Room {
    /// What it takes there.
    pub placement: Placement,
    /// By element of the chain: whether its flow state has room. One without lives on the slow path
    /// alone, and so does one [that wants all packets](is_for_slow_path).
    pub has_room: Vec<bool>,
}

/// Whether no packet passes an element on the fast path: a function of it wants them all.
pub fn is_for_slow_path(instances: &[Instance]) -> bool {
    instances.iter().any(|one| one.config.is_for_slow_path())
}

/// Places flow state on a device, element by element while there is room.
///
/// # Errors
/// The limit that is exceeded if not even one element has room, or a file that a function needs.
pub fn place(service: &Service, budget: &Budget) -> Result<Room, BuildError> {
    let (mut room, mut programs, mut refused) = (Room::default(), Vec::new(), None);
    for instances in elements(service) {
        if is_for_slow_path(instances) {
            room.has_room.push(false);
            continue;
        }
        let before = programs.len();
        programs.extend(element_chain(service, instances)?.programs());
        let placed = budget.place(&programs, service.fast_path.slots);
        room.has_room.push(placed.is_ok());
        match placed {
            Ok(placement) => room.placement = placement,
            Err(error) => {
                programs.truncate(before);
                refused = refused.or(Some(error));
            }
        }
    }
    match refused {
        Some(error) if programs.is_empty() => Err(error.into()),
        _ => Ok(room),
    }
}

/// Which elements of the chain have room for flow state on the fast path.
///
/// # Errors
/// As for [`place`].
pub(super) fn room(service: &Service, paths: Paths) -> Result<Vec<bool>, BuildError> {
    Ok(match paths {
        Paths::Slow => vec![false; service.chain.len()],
        Paths::Both => place(service, &budget(service))?.has_room,
    })
}
