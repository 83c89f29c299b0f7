//! All that can be found wrong with a service before it runs.

use crate::error::CommandError;
use std::fmt::{self, Display, Formatter};
use std::fs;
use twinpath_control::report::units;
use twinpath_control::service::{
    Fault, Host, HostAddress, HostInterface, PortDriver, Service, ServiceError, host_warnings,
};
use twinpath_node::source::Tunnels;
use twinpath_node::wiring::{self, BuildError, MemoryPart};
use twinpath_ports::interface::{Interface, interface_names};
use twinpath_ports::{KernelAddress, kernel_forwards, kernel_takes_advertisements};

/// Refuses a service that cannot be built, or whose sizes this machine has no memory for: with all
/// reasons, each at its place in the file.
pub fn check(service: &Service) -> Result<(), CommandError> {
    check_unless(service, |_| false)
}

/// The same; some reasons are none here.
pub fn check_unless(
    service: &Service,
    is_none: impl Fn(&BuildError) -> bool,
) -> Result<(), CommandError> {
    let faults = wiring::faults(service);
    let faults: Vec<Fault> = faults
        .iter()
        .filter(|error| !is_none(error))
        .map(|error| service.wrong_at(&error.keys(), error.to_string()))
        .chain(forbidden_cpu(service))
        .collect();
    if !faults.is_empty() {
        return Err(ServiceError::Wrong(faults).into());
    }
    let parts = wiring::memory(service)?;
    match available_bytes() {
        Some(available) if total(&parts) > available => {
            let key = largest(&parts).map(|part| part.key.clone());
            let place: Vec<&str> = key.iter().flatten().map(String::as_str).collect();
            let too_large = TooLarge { parts, available };
            let fault = service.wrong_at(&place, too_large.to_string());
            Err(ServiceError::Wrong(vec![fault]).into())
        }
        _ => Ok(()),
    }
}

/// A processor that threads are to stay on and cannot.
fn forbidden_cpu(service: &Service) -> Option<Fault> {
    let cpu = wiring::forbidden_cpu(service)?;
    let message = format!(
        "this process may not run on processor {cpu}, or there is none: expected numbers of processors that it may run on"
    );
    Some(service.wrong_at(&["run", "cpus"], message))
}

/// Ports whose interface this machine does not have: the file may be for another one.
pub fn absent_devices(service: &Service) -> Vec<Fault> {
    let all = interface_names();
    let is_absent = |device: &str| !all.is_empty() && Interface::of(device).is_err();
    let all = all.join(", ");
    let ports = service.ports.iter().zip(&service.devices);
    let ports = ports.filter(|(_, one)| one.driver != PortDriver::Tap && is_absent(&one.device));
    let ports = ports.map(|(port, one)| {
        let message = format!(
            "this machine has no interface {}: port {port} cannot be opened here; expected one that is there ({all})",
            one.device
        );
        service.wrong_at(&["ports", port, "device"], message)
    });
    let servers = service.split.iter().flat_map(|split| split.servers());
    let servers = servers.filter(|one| is_absent(&one.device)).map(|one| {
        let message = format!(
            "this machine has no interface {}: memory server {} cannot be reached from here",
            one.device, one.name
        );
        service.wrong_at(&["split", "servers"], message)
    });
    ports.chain(servers).collect()
}

/// What does not go together with the addresses that this machine's kernel has, and with its interfaces.
pub fn host_doubts(service: &Service) -> Vec<Fault> {
    let interfaces = service.devices.iter();
    let interfaces = interfaces.filter_map(|one| host_interface(&one.device));
    let host = Host {
        addresses: host_addresses(),
        interfaces: interfaces.collect(),
    };
    host_warnings(service, &host)
}

/// An interface of this machine, and what its kernel does there.
fn host_interface(device: &str) -> Option<HostInterface> {
    let interface = Interface::of(device).ok()?;
    let (is_tap, name) = (interface.is_tap(), interface.name);
    let forwards = ["ipv4", "ipv6"].into_iter();
    Some(HostInterface {
        device: device.to_owned(),
        mtu: interface.mtu,
        is_tap,
        refusal: interface.master.map(|master| master.refusal(device)),
        forwards: forwards
            .filter(|version| kernel_forwards(&name, version))
            .collect(),
        takes_advertisements: kernel_takes_advertisements(&name),
        name,
    })
}

/// The addresses that this machine's kernel has; none where it does not tell.
pub fn host_addresses() -> Vec<HostAddress> {
    let all = twinpath_ports::kernel_addresses().unwrap_or_default();
    let address = |one: KernelAddress| HostAddress {
        device: one.device,
        address: one.address.into(),
        prefix_bits: one.prefix_bits,
    };
    all.into_iter().map(address).collect()
}

/// Generated packets that no ENI of a DPU can send, or not as they are described.
pub fn unsent_traffic(service: &Service) -> Option<Fault> {
    let message = Tunnels::warning(service)?;
    Some(service.wrong_at(&["traffic"], message))
}

/// What all parts take.
fn total(parts: &[MemoryPart]) -> u64 {
    parts
        .iter()
        .map(|part| part.bytes)
        .fold(0, u64::saturating_add)
}

fn largest(parts: &[MemoryPart]) -> Option<&MemoryPart> {
    parts.iter().max_by_key(|part| part.bytes)
}

/// Memory that a process may take on this machine without others having to give theirs up, and
/// within the limit of its group of processes; nothing where the system does not tell.
pub fn available_bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok();
    let machine = machine.and_then(|text| of_machine(&text));
    let number = |name: &str| {
        let path = format!("/sys/fs/cgroup/memory.{name}");
        fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
    };
    let group = number("max").zip(number("current"));
    let group = group.map(|(most, taken)| most.saturating_sub(taken));
    machine.into_iter().chain(group).min()
}

/// The line `MemAvailable: 123 kB`.
fn of_machine(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Sizes that take more memory than there is.
#[derive(Debug)]
struct TooLarge {
    /// What takes it.
    parts: Vec<MemoryPart>,
    /// Bytes that may be taken.
    available: u64,
}

impl Display for TooLarge {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (taken, available) = (
            units::bytes(total(&self.parts)),
            units::bytes(self.available),
        );
        write!(
            f,
            "the service may take {taken} of memory, and this machine has {available}: expected smaller sizes"
        )?;
        for MemoryPart {
            what,
            count,
            of,
            bytes,
            ..
        } in &self.parts
        {
            let (count, bytes) = (units::count(*count), units::bytes(*bytes));
            write!(f, "\n  {bytes:>10}  {what}: {count} {of}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_is_understood() {
        let text = "MemTotal:       8000000 kB\nMemAvailable:    1234 kB\nBuffers: 1 kB\n";
        assert_eq!(of_machine(text), Some(1234 * 1024));
        assert_eq!(of_machine("MemTotal: 1 kB\n"), None);
        assert_eq!(of_machine("MemAvailable: many kB\n"), None);
    }
}
