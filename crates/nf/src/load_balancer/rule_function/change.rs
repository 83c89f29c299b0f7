//! Other backends, while packets flow.

use super::servers::{Server, listed};
use super::{BACKEND, PASSING, Prepared, RuleBalancer};
use std::collections::HashMap;
use std::error::Error;
use twinpath_rulecache::{Affected, Reconfigure};

impl Reconfigure for RuleBalancer {
    type New = Prepared;

    /// Backends that are drained keep their rules; of those that go, rules must go first. What is
    /// new concerns packets that have passed so far. Only other time-outs concern everything.
    fn affected_by(&self, new: &Prepared) -> Affected {
        if new.timeouts != self.prepared.timeouts {
            return Affected::Everything;
        }
        let staying = staying(new);
        let is_going = |server: &Server| staying.get(server).is_none_or(|temporary| *temporary);
        let going = self.servers.configured();
        let mut entries: Vec<u32> = going
            .filter(|(_, server)| is_going(server))
            .map(|(number, _)| BACKEND | number)
            .collect();
        if self.has_newcomers(new) {
            entries.push(PASSING);
        }
        Affected::Entries(entries)
    }

    fn apply(&mut self, new: &mut Prepared) -> Result<(), Box<dyn Error + Send + Sync>> {
        std::mem::swap(&mut self.prepared, new);
        self.prepared.backends.start(self.started);
        self.servers.plan(&self.prepared.backends);
        Ok(())
    }
}

/// The backends of a configuration, and whether its schedule takes them away some day.
fn staying(new: &Prepared) -> HashMap<Server, bool> {
    let rows = new.backends.rows().iter();
    let temporary = rows.map(|backend| backend.is_temporary());
    listed(&new.backends).zip(temporary).collect()
}

impl RuleBalancer {
    /// Whether there is a service or a backend that was none before.
    fn has_newcomers(&self, new: &Prepared) -> bool {
        let backends = &self.prepared.backends;
        let is_new_service = new
            .backends
            .vips()
            .any(|(vip, protocol)| backends.service_at(vip, protocol).is_none());
        let is_new_backend = |server: Server| {
            !server.is_direct
                && self
                    .prepared
                    .row_at(server.endpoint, server.protocol)
                    .is_none()
        };
        is_new_service || listed(&new.backends).any(is_new_backend)
    }
}
