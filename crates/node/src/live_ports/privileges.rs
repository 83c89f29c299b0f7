//! What opening ports takes of the system.

use super::LivePorts;
use twinpath_ports::{Driver, Port};

/// What the system lets somebody do.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Privilege {
    /// Open sockets that see and send whole frames.
    RawSockets,
    /// Make interfaces, and attach programs to them.
    NetworkAdministration,
    /// Load such programs.
    Bpf,
}

impl LivePorts {
    /// What it takes to open them again.
    pub fn privileges(&self) -> Vec<Privilege> {
        let mut needed: Vec<_> = self.ports.iter().flat_map(privileges).copied().collect();
        needed.sort_unstable();
        needed.dedup();
        needed
    }
}

/// What it takes to open a port.
fn privileges(port: &Port) -> &'static [Privilege] {
    use Privilege::{Bpf, NetworkAdministration, RawSockets};
    match port.driver() {
        Driver::Tap => &[NetworkAdministration],
        Driver::AfPacket if port.is_seen_by_kernel() => &[RawSockets],
        // A program is on the interface.
        Driver::AfXdp | Driver::AfPacket | Driver::Auto => {
            &[RawSockets, NetworkAdministration, Bpf]
        }
    }
}
