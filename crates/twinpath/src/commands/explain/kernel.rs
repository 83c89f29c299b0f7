//! What comes from this host's kernel.

use serde::Serialize;
use std::fmt::{self, Display, Formatter};
use twinpath_control::service::{PortDevice, Service};
use twinpath_nf::router;

/// What a service takes from the kernel.
#[derive(Serialize)]
pub struct KernelFacts {
    /// The table of routes.
    table: u32,
    most_routes: usize,
    /// Ports whose addresses and neighbours are the kernel's.
    ports: Vec<String>,
    /// Ports with addresses of the service file.
    own_ports: Vec<String>,
}

impl KernelFacts {
    /// The facts, if a router has the kernel's routes.
    pub fn of(service: &Service) -> Option<Self> {
        let mut routers = service.chain.iter();
        let router = routers.find_map(|one| {
            let config = one.config.of::<router::Config>();
            config.filter(|config| config.kernel_table().is_some())
        })?;
        let named = service.ports.iter().zip(&service.devices);
        let (own, kernels): (Vec<_>, Vec<_>) =
            named.partition(|(_, device)| !device.addresses.is_empty());
        Some(Self {
            table: router.kernel_table()?,
            most_routes: router.most_routes(),
            ports: names(kernels),
            own_ports: names(own),
        })
    }
}

fn names(ports: Vec<(&String, &PortDevice)>) -> Vec<String> {
    ports.into_iter().map(|(name, _)| name.clone()).collect()
}

impl Display for KernelFacts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "From this host's kernel, as it changes")?;
        writeln!(
            f,
            "  routes      table {}, at most {} of each IP version, with their metrics, next hop objects and ECMP by addresses",
            self.table, self.most_routes
        )?;
        if !self.ports.is_empty() {
            let ports = self.ports.join(", ");
            writeln!(f, "  addresses   those of {ports}")?;
            writeln!(
                f,
                "  neighbours  those of {ports}; the kernel asks for them"
            )?;
        }
        if !self.own_ports.is_empty() {
            let ports = self.own_ports.join(", ");
            writeln!(
                f,
                "  own         {ports}: addresses of the file, neighbours are asked for here"
            )?;
        }
        write!(
            f,
            "  to it       packets for its addresses, groups, broadcasts, and what is no IP packet; they do not pass the chain"
        )
    }
}
