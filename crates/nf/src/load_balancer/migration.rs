//! Other backends for a balancer that shares flow state: what connections of the old
//! configuration are in the new one.

use super::backends::{Backend, Backends};
use super::connection::{Connection, GONE, Kind};
use std::collections::{HashMap, HashSet};
use twinpath_wire::{Endpoint, MacAddress};

/// What becomes of flows when another configuration takes effect.
#[derive(Debug, Default)]
pub(super) struct Migration {
    /// By row of the old configuration.
    rows: Vec<Next>,
    /// Flows that have passed may be for a service now, or from a backend.
    passing_is_unknown: bool,
}

/// What a connection of some backend is now.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Next {
    /// One of this kind to the backend in this row, or to one that is gone.
    Connection(Kind, u16),
    /// To no service.
    Unknown,
}

/// What makes a backend the same one in two configurations.
type Identity = (Endpoint, u8, Endpoint, MacAddress, Kind);

impl Migration {
    /// From one configuration to another.
    pub fn between(old: &Backends, new: &Backends) -> Self {
        let rows = new.rows().iter().zip(0..);
        let rows: HashMap<_, u16> = rows
            .map(|(backend, row)| (identity(new, backend), row))
            .collect();
        let next = |backend: &Backend| {
            let (vip, protocol, ..) = identity(old, backend);
            let Some(service) = new.service_at(vip, protocol) else {
                return Next::Unknown;
            };
            let row = rows.get(&identity(old, backend)).copied();
            Next::Connection(new.kind(service), row.unwrap_or(GONE))
        };
        Self {
            rows: old.rows().iter().map(next).collect(),
            passing_is_unknown: has_newcomers(old, new),
        }
    }

    /// Makes a flow's words suit the new configuration.
    pub fn adapt(&self, words: &mut [u32]) {
        let Some(mut connection) = Connection::read(words) else {
            return;
        };
        let next = self.rows.get(usize::from(connection.row)).copied();
        match (connection.kind, next) {
            (Kind::Passing, _) if self.passing_is_unknown => words.fill(0),
            (Kind::Passing, _) => {}
            // It is gone already: there may be another one for the service now.
            (Kind::Service(..), None) => {}
            (Kind::Service(..), Some(Next::Unknown)) => words.fill(0),
            (Kind::Service(..), Some(Next::Connection(kind, row))) => {
                (connection.kind, connection.row) = (kind, row);
                connection.write(words);
            }
        }
    }
}

fn identity(backends: &Backends, backend: &Backend) -> Identity {
    let (kind, vip) = (
        backends.kind(backend.service),
        backends.vip(backend.service),
    );
    (
        vip,
        kind.protocol_number(),
        backend.endpoint,
        backend.mac,
        kind,
    )
}

/// Whether there is a service, or a backend whose packets come back, that was none before.
fn has_newcomers(old: &Backends, new: &Backends) -> bool {
    let known: HashSet<_> = old.vips().collect();
    let from = |backends: &Backends| -> HashSet<_> {
        let aliases = backends.aliases().into_iter();
        aliases.map(|alias| (alias.from, alias.protocol)).collect()
    };
    let answering = from(old);
    new.vips().any(|vip| !known.contains(&vip))
        || from(new).iter().any(|backend| !answering.contains(backend))
}
