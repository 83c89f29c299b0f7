//! The backends that connections have, by numbers that outlive changes of the configuration.

use super::super::backends::Backends;
use super::super::config::ReturnPath;
use super::super::connection::Kind;
use std::collections::HashMap;
use twinpath_core::wire::{Endpoint, MacAddress};

/// A backend of a service. Whatever of it changes makes it another one.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    pub endpoint: Endpoint,
    pub mac: MacAddress,
    pub vip: Endpoint,
    pub protocol: u8,
    pub is_direct: bool,
}

#[derive(Debug)]
struct Numbered {
    server: Server,
    /// Its row in the present configuration.
    row: Option<u16>,
    connections: u32,
}

/// All backends that are configured or have connections.
#[derive(Debug, Default)]
pub(super) struct Servers {
    all: Vec<Numbered>,
    of_row: Vec<u32>,
}

/// The backends of a configuration, in the order of its rows.
pub(super) fn listed(backends: &Backends) -> impl Iterator<Item = Server> {
    backends.rows().iter().map(|backend| {
        let (protocol, return_path) = match backends.kind(backend.service) {
            Kind::Service(protocol, return_path) => (protocol.number(), return_path),
            Kind::Passing => (0, ReturnPath::Through),
        };
        Server {
            endpoint: backend.endpoint,
            mac: backend.mac,
            vip: backends.vip(backend.service),
            protocol,
            is_direct: return_path == ReturnPath::Direct,
        }
    })
}

impl Servers {
    /// A configuration takes effect: its backends keep their numbers if they have some, and new
    /// ones get those of backends that are gone and have no connections.
    pub fn plan(&mut self, backends: &Backends) {
        self.all.iter_mut().for_each(|numbered| numbered.row = None);
        let numbered = self.all.iter().map(|numbered| numbered.server);
        let known: HashMap<Server, u32> = numbered.zip(0..).collect();
        self.of_row.clear();
        let mut unknown = Vec::new();
        for (row, server) in (0..).zip(listed(backends)) {
            let number = known.get(&server).copied();
            match number {
                Some(number) => self.all[number as usize].row = Some(row),
                None => unknown.push(row),
            }
            self.of_row.push(number.unwrap_or(u32::MAX));
        }
        self.number(&unknown, backends);
    }

    fn number(&mut self, rows: &[u16], backends: &Backends) {
        let is_free = |numbered: &Numbered| numbered.row.is_none() && numbered.connections == 0;
        let numbered = (0..).zip(&self.all);
        let free: Vec<u32> = numbered
            .filter(|(_, numbered)| is_free(numbered))
            .map(|(number, _)| number)
            .collect();
        let mut numbers = free.into_iter().chain(self.all.len() as u32..);
        let servers: Vec<Server> = listed(backends).collect();
        for &row in rows {
            let number = numbers.next().unwrap_or(u32::MAX);
            let new = Numbered {
                server: servers[usize::from(row)],
                row: Some(row),
                connections: 0,
            };
            match self.all.get_mut(number as usize) {
                Some(place) => *place = new,
                None => self.all.push(new),
            }
            self.of_row[usize::from(row)] = number;
        }
    }

    pub fn at(&self, number: u32) -> Option<&Server> {
        self.all
            .get(number as usize)
            .map(|numbered| &numbered.server)
    }

    /// The row of a backend that is configured.
    pub fn row(&self, number: u32) -> Option<u16> {
        self.all.get(number as usize)?.row
    }

    /// The number of a configured backend.
    pub fn of_row(&self, row: u16) -> Option<u32> {
        self.of_row.get(usize::from(row)).copied()
    }

    /// How many numbers were ever given.
    #[cfg(test)]
    pub fn numbers(&self) -> usize {
        self.all.len()
    }

    /// The backends that are configured, with their numbers.
    pub fn configured(&self) -> impl Iterator<Item = (u32, &Server)> {
        let numbered = (0..).zip(&self.all);
        numbered
            .filter(|(_, numbered)| numbered.row.is_some())
            .map(|(number, numbered)| (number, &numbered.server))
    }

    /// It has one connection more.
    pub fn hold(&mut self, number: u32) {
        if let Some(numbered) = self.all.get_mut(number as usize) {
            numbered.connections += 1;
        }
    }

    /// It has one connection less.
    pub fn release(&mut self, number: u32) {
        if let Some(numbered) = self.all.get_mut(number as usize) {
            numbered.connections = numbered.connections.saturating_sub(1);
        }
    }
}
