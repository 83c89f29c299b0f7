//! What a packet's ends say.

use super::super::backends::{Backends, ServiceIndex};
use super::Prepared;
use std::collections::HashMap;
use twinpath_classify::Prefix;
use twinpath_classify::lpm::{RouteLimits, RouteTable};
use twinpath_core::wire::{Address, Endpoint};
use twinpath_rulecache::Recorded;

/// Whose packet it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// A client's for a service.
    ToService(ServiceIndex),
    /// Of the backend in this row, whose answers are rewritten.
    FromBackend(u16),
    /// From the endpoint of a service.
    FromService(ServiceIndex),
    /// Nobody's.
    Past,
}

/// Steps of examined bits, so that cached rules share few masks.
const STEP_BITS: u8 = 8;

/// The address of a service.
const SERVICE: u32 = 1;
/// The address of a backend whose answers are rewritten.
const BACKEND: u32 = 2;

/// Which addresses are whose.
pub(super) struct Addresses {
    table: RouteTable,
    rows: HashMap<(Endpoint, u8), u16>,
}

impl Addresses {
    pub fn new(backends: &Backends) -> Self {
        let aliases = backends.aliases();
        let rows = aliases
            .iter()
            .map(|alias| ((alias.from, alias.protocol), alias.row as u16))
            .collect();
        let mut roles: HashMap<Address, u32> = HashMap::new();
        let services = backends.vips().map(|(vip, _)| (vip.address, SERVICE));
        let served = aliases.iter().map(|alias| (alias.from.address, BACKEND));
        for (address, role) in services.chain(served) {
            *roles.entry(address).or_default() |= role;
        }
        let most = roles.len();
        let mut table = RouteTable::new(RouteLimits { v4: most, v6: most });
        for (address, role) in roles {
            // The limits count all of them.
            let _ = table.insert(Prefix::from(address), role);
        }
        Self { table, rows }
    }

    fn is_any(&self, address: Address, roles: u32) -> (bool, u8) {
        let decision = self.table.lookup_examined(address);
        let bits = decision.examined_bits.next_multiple_of(STEP_BITS).min(128);
        (decision.next_hop.unwrap_or(0) & roles != 0, bits)
    }
}

impl Prepared {
    /// The row of the backend at an endpoint, if its answers are rewritten.
    pub(super) fn row_at(&self, endpoint: Endpoint, protocol: u8) -> Option<u16> {
        self.addresses.rows.get(&(endpoint, protocol)).copied()
    }

    /// The packet's course, with the bits that decided it recorded.
    pub(super) fn course(&self, packet: &mut Recorded<'_>) -> Course {
        let headers = packet.headers();
        let (is_service, bits) = self.addresses.is_any(headers.destination, SERVICE);
        packet.examined_destination(bits);
        if is_service {
            let (vip, protocol) = (packet.destination(), packet.protocol());
            if let Some(service) = self.backends.service_at(vip, protocol) {
                return Course::ToService(service);
            }
        }
        let (is_ours, bits) = self.addresses.is_any(headers.source, SERVICE | BACKEND);
        packet.examined_source(bits);
        if !is_ours {
            return Course::Past;
        }
        let (source, protocol) = (packet.source(), packet.protocol());
        let row = self.row_at(source, protocol).map(Course::FromBackend);
        let service = self.backends.service_at(source, protocol);
        row.or(service.map(Course::FromService))
            .unwrap_or(Course::Past)
    }
}
