//! By which port packets leave, and for whom.

use crate::departure::Departure;
use twinpath_control::service::Service;
use twinpath_core::Frame;
use twinpath_core::adjacency::{Adjacencies, Adjacency, BACK, FIRST_ADJACENCY, shard_of};

/// By which port a packet leaves.
#[derive(Clone, Debug, Default)]
pub struct Egress {
    /// How many ports there are; 0 if nothing was said of ports.
    ports: u16,
    neighbors: Neighbors,
}

impl Egress {
    /// Where a service has these ports and neighbours.
    pub fn new(service: &Service) -> Self {
        Self {
            ports: service.ports.len() as u16,
            neighbors: Neighbors::new(service),
        }
    }

    /// Whether all packets leave by the first port.
    #[inline]
    pub const fn is_single(&self) -> bool {
        self.ports <= 1
    }

    /// An answer leaves by the port that its request came in by, a packet by that which a function
    /// has chosen, or else by the other of two. `None` if there is no such port.
    #[inline]
    pub fn of(&mut self, departure: &Departure) -> Option<u16> {
        if self.is_single() {
            return Some(0);
        }
        let ingress = departure.frame.port();
        let port = match (self.ports, departure.is_reply) {
            (_, true) => ingress,
            (ports, false) => match (self.chosen(&departure.frame), ports) {
                (Some(BACK), _) => ingress,
                // It leaves elsewhere.
                (chosen, _) if shard_of(chosen).is_some() => ingress,
                (Some(chosen), _) => chosen,
                (None, 2) => 1 - ingress.min(1),
                (None, _) => return None,
            },
        };
        (port < self.ports).then_some(port)
    }

    /// The port that a function has chosen.
    fn chosen(&mut self, frame: &Frame) -> Option<u16> {
        let chosen = frame.metadata().egress?;
        let adjacent = self.neighbors.of(chosen).map(|adjacency| adjacency.port);
        Some(adjacent.unwrap_or(chosen))
    }
}

/// The neighbours that packets leave for.
#[derive(Clone, Debug, Default)]
pub struct Neighbors {
    adjacencies: Adjacencies,
    /// Those that have been asked for, and more.
    known: Vec<Adjacency>,
}

impl Neighbors {
    /// Those of a service.
    pub fn new(service: &Service) -> Self {
        Self {
            adjacencies: service.adjacencies.clone(),
            known: Vec::new(),
        }
    }

    /// Whom a packet leaves for, if a function has chosen that.
    pub fn of_departure(&mut self, departure: &Departure) -> Option<Adjacency> {
        let chosen = departure.frame.metadata().egress;
        self.of(chosen.filter(|_| !departure.is_reply)?)
    }

    fn of(&mut self, egress: u16) -> Option<Adjacency> {
        let place = usize::from(egress.checked_sub(FIRST_ADJACENCY)?);
        if place >= self.known.len() {
            self.known = self.adjacencies.all();
        }
        self.known.get(place).copied()
    }
}
