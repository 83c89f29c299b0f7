//! What goes together with `routes = "kernel"`.

use super::faults::Faults;
use super::{Instance, PortDevice, place_of};
use twinpath_nf::router;

/// Whether a function has the kernel's routes.
pub(super) fn follows_kernel(instance: &&Instance) -> bool {
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

#[cfg(test)]
mod tests {
    use crate::service::Service;
    use std::path::Path;

    const PORTS: &str = "[ports]\nlan = { device = \"e1\" }\nwan = { device = \"e0\" }\n";

    fn parse(ports: &str, router: &str) -> Result<Service, String> {
        let text = format!("[service]\nchain = [\"router\"]\n{ports}[router]\n{router}\n");
        let parsed = Service::parse(&text, Path::new("kernel.toml"));
        parsed.map_err(|error| error.to_string())
    }

    #[test]
    fn the_kernels_routes_need_no_more_than_ports() {
        for router in [
            "routes = \"kernel\"",
            "routes = \"kernel\"\nkernel_table = 100\naddress = \"192.0.2.1\"",
        ] {
            assert!(parse(PORTS, router).is_ok(), "{router}");
        }
        let answering = PORTS.replace("e0\"", "e0\", answers_for = [\"192.0.2.7\"]");
        assert!(parse(&answering, "routes = \"kernel\"").is_ok());
    }

    #[test]
    fn what_does_not_go_together_is_told_with_its_line() {
        let hop = "next_hops = [{ name = \"a\", port = \"wan\" }]";
        let answering = PORTS.replace("e0\"", "e0\", answers_for = [\"192.0.2.7\"]");
        for (ports, router, expected) in [
            (
                "",
                "routes = \"kernel\"",
                "kernel.toml:4:1: routes = \"kernel\" is for network interfaces",
            ),
            (
                PORTS,
                "routes = \"linux\"",
                "kernel.toml:7:10: \"linux\": expected a list of routes, or \"kernel\"",
            ),
            (
                PORTS,
                "routes = 7",
                "expected a list of routes, or \"kernel\"",
            ),
            (
                PORTS,
                &format!("routes = \"kernel\"\n{hop}"),
                "next_hops beside routes = \"kernel\"",
            ),
            (
                PORTS,
                "routes = \"kernel\"\nroutes_file = \"r\"",
                "routes_file beside routes = \"kernel\"",
            ),
            (
                PORTS,
                "routes = \"kernel\"\nkernel_table = 255",
                "kernel.toml:8:16: expected the number of a table",
            ),
            (
                PORTS,
                &format!("kernel_table = 100\n{hop}"),
                "kernel_table without routes = \"kernel\"",
            ),
            (PORTS, "routes = []", "0 next hops: expected 1 to"),
            (&answering, hop, "kernel.toml:5:"),
        ] {
            let told = parse(ports, router).err().unwrap_or_default();
            assert!(told.contains(expected), "{router}: {told}");
        }
    }
}
