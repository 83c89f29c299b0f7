//! What goes together with `routes = "kernel"`.

use super::faults::Faults;
use super::{Instance, PortDevice, place_of};
use twinpath_nf::router;

/// Whether a function has the kernel's routes.
fn follows_kernel(instance: &&Instance) -> bool {
    let router = instance.config.of::<router::Config>();
    router.is_some_and(|router| router.kernel_table().is_some())
}

/// Checks that there are ports for the kernel's routes, and addresses to answer from at each port that
/// answers for others.
pub(super) fn check(
    functions: &[Instance],
    ports: &[String],
    devices: &[PortDevice],
    text: &str,
    faults: &mut Faults,
) {
    let router = functions.iter().find(follows_kernel);
    if let Some(router) = router.filter(|_| devices.is_empty()) {
        let place = place_of([&*router.name, "routes"], text);
        let message = "routes = \"kernel\" is for network interfaces: expected a table [ports] with a device for each port, or a list of routes";
        faults.push((place..place, message.into()));
    }
    for (port, device) in ports.iter().zip(devices) {
        let has_address = !device.addresses.is_empty() || router.is_some();
        if !has_address && !device.answers_for.is_empty() {
            let place = place_of(["ports", &**port, "answers_for"], text);
            let message = "answers_for without addresses: expected an address to answer from";
            faults.push((place..place, message.into()));
        }
    }
}
