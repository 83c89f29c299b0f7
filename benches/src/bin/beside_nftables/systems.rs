//! What forwards: the kernel with nftables, or Twinpath.

use super::bed::{DriverCore, MIDDLE_CORE, OUTSIDE_MAC, SINK_MAC, receive};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use twinpath_netns::Network;

/// One of the systems that are compared.
#[derive(Debug)]
pub struct System {
    pub name: &'static str,
    pub kind: Kind,
    pub job: Job,
    /// Whose core does what drivers do.
    pub driver_core: DriverCore,
}

/// What forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Kernel,
    /// Twinpath by a driver.
    Twinpath(&'static str),
}

/// What it does to packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// Lets packets through by their addresses.
    Filter,
    /// Lets connections through that inside has opened.
    Connections,
    /// The same, and gives them another source address.
    Translation,
}

/// In the order in which they take turns.
pub const SYSTEMS: [System; 11] = [
    system("nftables, forward", Kind::Kernel, Job::Filter),
    system("nftables, conntrack", Kind::Kernel, Job::Connections),
    system(BASELINE, Kind::Kernel, Job::Translation),
    system("Twinpath firewall, AF_PACKET", PACKET, Job::Connections),
    system("Twinpath firewall, AF_XDP", XDP, Job::Connections),
    one_core(
        "Twinpath firewall, AF_XDP, driver on its core",
        XDP,
        Job::Connections,
    ),
    system(
        "Twinpath firewall + napt, AF_PACKET",
        PACKET,
        Job::Translation,
    ),
    system("Twinpath firewall + napt, AF_XDP", XDP, Job::Translation),
    one_core(
        "nftables, conntrack + SNAT, driver on its core",
        Kind::Kernel,
        Job::Translation,
    ),
    one_core(
        "Twinpath firewall + napt, AF_PACKET, driver on its core",
        PACKET,
        Job::Translation,
    ),
    one_core(
        "Twinpath firewall + napt, AF_XDP, driver on its core",
        XDP,
        Job::Translation,
    ),
];

/// AF_PACKET on virtual cables; the kernel does not see what arrives.
const PACKET: Kind = Kind::Twinpath("auto");
const XDP: Kind = Kind::Twinpath("af_xdp");

/// What ratios are to, each where the driver has the same core.
pub const BASELINE: &str = "nftables, conntrack + SNAT";

const fn system(name: &'static str, kind: Kind, job: Job) -> System {
    System {
        name,
        kind,
        job,
        driver_core: DriverCore::Traffic,
    }
}

const fn one_core(name: &'static str, kind: Kind, job: Job) -> System {
    System {
        driver_core: DriverCore::Middle,
        ..system(name, kind, job)
    }
}

/// A system at work; what it did to the host in the middle is gone with the network.
pub struct Running {
    process: Option<(Child, TempDir)>,
}

impl System {
    /// Whether another's ratios are to this one: the kernel translates, with the driver on the same core.
    pub fn is_baseline_of(&self, other: &Self) -> bool {
        let translates = self.kind == Kind::Kernel && self.job == Job::Translation;
        translates && self.driver_core == other.driver_core
    }

    /// Starts it on the host in the middle. Packets pass when this returns.
    pub fn start(&self, network: &Network, program: &Path) -> Result<Running, String> {
        let process = match self.kind {
            Kind::Kernel => {
                self.start_kernel(network);
                None
            }
            Kind::Twinpath(driver) => Some(self.start_twinpath(network, driver, program)?),
        };
        receive(network, self.driver_core);
        let running = Running { process };
        match is_reached(network) {
            true => Ok(running),
            false => Err(format!("{}: no packet passes", self.name)),
        }
    }

    fn start_kernel(&self, network: &Network) {
        for (interface, address) in [
            ("inside", "10.1.0.1/24"),
            ("inside", "fd01::1/64"),
            ("outside", "10.2.0.1/24"),
            ("outside", "fd02::1/64"),
        ] {
            network.address("middle", interface, address);
        }
        for setting in ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"] {
            run(network
                .command("middle", "sysctl")
                .args(["-q", "-w", setting]));
        }
        network.ip("middle", "route add 198.18.0.0/15 via 10.2.0.99");
        let neighbor = format!("neigh add 10.2.0.99 lladdr {SINK_MAC} dev outside nud permanent");
        network.ip("middle", &neighbor);
        let mut nft = network.command("middle", "nft");
        run(nft.arg(rules(self.job)));
    }

    fn start_twinpath(
        &self,
        network: &Network,
        driver: &str,
        program: &Path,
    ) -> Result<(Child, TempDir), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", program.display());
        let program = program.canonicalize().map_err(failed)?;
        let folder = tempfile::tempdir().map_err(failed)?;
        let file = folder.path().join("service.toml");
        fs::write(&file, service(self.job, driver)).map_err(failed)?;
        let mut command = network.command("middle", "taskset");
        command.args(["-c", &MIDDLE_CORE.to_string()]).arg(program);
        command.args([
            "run",
            "service.toml",
            "--control",
            "socket",
            "--report",
            "report",
        ]);
        command
            .arg("--quiet")
            .current_dir(&folder)
            .stdin(Stdio::null());
        let mut process = command.spawn().map_err(failed)?;
        let is_there = until(Duration::from_secs(30), || {
            folder.path().join("socket").exists()
                || process.try_wait().is_ok_and(|end| end.is_some())
        });
        match is_there && process.try_wait().is_ok_and(|end| end.is_none()) {
            true => Ok((process, folder)),
            false => Err(format!("{}: it does not start", self.name)),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some((process, _)) = &mut self.process {
            let number = process.id().to_string();
            let _ = Command::new("kill").args(["-INT", &number]).status();
            let has_ended = until(Duration::from_secs(10), || {
                process.try_wait().is_ok_and(|end| end.is_some())
            });
            if !has_ended {
                let _ = process.kill();
            }
            let _ = process.wait();
        }
    }
}

fn until(time: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + time;
    while !is_so() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

fn run(command: &mut Command) {
    let output = command.output().expect("the program is there");
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// Whether pings pass, over both versions, in the end.
fn is_reached(network: &Network) -> bool {
    ["10.2.0.2", "fd02::2"].iter().all(|address| {
        let ping = ["-c1", "-W1", address];
        until(Duration::from_secs(20), || {
            network.run("sender", "ping", &ping).status.success()
        })
    })
}

/// Rules for nftables.
fn rules(job: Job) -> String {
    let first = match job {
        Job::Filter => "ip daddr 10.1.0.0/24 accept; ip6 daddr fd01::/64 accept;",
        Job::Connections | Job::Translation => "ct state established,related accept;",
    };
    let forward = format!(
        "chain forward {{ type filter hook forward priority 0; policy drop; {first} \
         ip saddr 10.1.0.0/24 accept; ip6 saddr fd01::/64 accept; }}"
    );
    let translation = match job {
        Job::Translation => {
            "chain post { type nat hook postrouting priority 100; \
             oifname \"outside\" ip saddr 10.1.0.0/24 snat ip to 10.2.0.1; \
             oifname \"outside\" ip6 saddr fd01::/64 snat ip6 to fd02::1; }"
        }
        Job::Filter | Job::Connections => "",
    };
    format!("table inet beside {{ {forward}\n{translation}\n}}")
}

/// The same as a service file.
fn service(job: Job, driver: &str) -> String {
    let (chain, answered, translation) = match job {
        Job::Translation => (
            r#""firewall", "napt", "router""#,
            r#", answers_for = ["10.2.0.7", "fd02::7"]"#,
            "[napt]\ninside = [\"10.1.0.0/24\", \"fd01::/64\"]\nexternal = [\"10.2.0.7\", \"fd02::7\"]\n",
        ),
        Job::Filter | Job::Connections => (r#""firewall", "router""#, "", ""),
    };
    format!(
        r#"[service]
name = "beside"
chain = [{chain}]
inside = ["10.1.0.0/24", "fd01::/64"]
inside_ports = ["inside"]

[ports]
inside = {{ device = "inside", driver = "{driver}", addresses = ["10.1.0.1/24", "fd01::1/64"] }}
outside = {{ device = "outside", driver = "{driver}", addresses = ["10.2.0.1/24", "fd02::1/64"]{answered} }}

[firewall]
default = "deny"
rules = [
    {{ action = "allow", from = "10.1.0.0/24" }},
    {{ action = "allow", from = "fd01::/64" }},
]

{translation}
[router]
addresses = ["10.1.0.1", "fd01::1", "10.2.0.1", "fd02::1"]
next_hops = [
    {{ name = "near", port = "inside" }},
    {{ name = "far", port = "outside" }},
    {{ name = "sink", port = "outside", mac = "{SINK_MAC}", source_mac = "{OUTSIDE_MAC}" }},
]
routes = [
    {{ to = "10.1.0.0/24", via = "near" }},
    {{ to = "fd01::/64", via = "near" }},
    {{ to = "10.2.0.0/24", via = "far" }},
    {{ to = "fd02::/64", via = "far" }},
    {{ to = "198.18.0.0/15", via = "sink" }},
]
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_control::service::Service;

    #[test]
    fn every_service_is_valid() {
        for job in [Job::Connections, Job::Translation] {
            let text = service(job, "af_xdp");
            let read = Service::parse(&text, Path::new("service.toml"));
            assert!(read.is_ok(), "{read:?}");
        }
    }

    #[test]
    fn each_system_has_one_that_its_ratios_are_to() {
        for system in &SYSTEMS {
            let baselines = SYSTEMS.iter().filter(|one| one.is_baseline_of(system));
            let names: Vec<_> = baselines.map(|one| one.name).collect();
            assert!(
                names.len() == 1 && names[0].starts_with(BASELINE),
                "{names:?}"
            );
        }
    }
}
