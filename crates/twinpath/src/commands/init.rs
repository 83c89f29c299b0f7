//! `twinpath init`: a service file to start from.

mod interfaces;

use crate::error::CommandError;
use crate::{Outcome, output};
use interfaces::{Interface, interfaces, likely};
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use twinpath_classify::Prefix;
use twinpath_control::service::schema::{settings, written};
use twinpath_control::service::{HostAddress, Service, ServiceError};

/// Writes a service file to start from, with comments, for two ports
///
/// A firewall between them lets connections out and their answers in; what services commonly have
/// beside, and the settings that have a default, are there behind a `#`, with their meaning. If the two
/// are network interfaces of this host, packets come from there and leave by them; else they are
/// generated, and the interfaces are listed behind a `#`. Between interfaces without addresses the
/// service is a bump in the wire. If this host has addresses there, it is a gateway: a router with
/// the kernel's routes gives the host what is for the host. Without names the interface that the default
/// route leads to is outside, and another card's inside; where there is no such route nothing is guessed.
/// Without --out it goes to standard output. A file that is there is never overwritten.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath init lan wan --out service.toml && twinpath run service.toml    # generated packets",
    "twinpath init eth1 eth0 --out /etc/twinpath/edge.toml                    # those of interfaces",
    "twinpath init --out /etc/twinpath/edge.toml                              # finds the interfaces",
))]
pub struct Arguments {
    /// The name of the port that hosts inside are behind, such as lan or eth1
    #[arg(requires = "outside")]
    inside: Option<String>,
    /// The name of the other port, such as wan or eth0
    outside: Option<String>,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Where a package has the manual.
const INSTALLED_MANUAL: &str = "/usr/share/doc/twinpath/docs";

const STARTER: &str = include_str!("init/starter.toml");

const GATEWAY: &str = include_str!("init/gateway.toml");

/// What both have behind their tables.
const FIGURES: &str = include_str!("init/figures.toml");

/// Tables whose keys are shown with their defaults.
const SHOWN: [&str; 5] = ["run", "fast_path", "slow_path", "rule_cache", "link"];

/// Writes it.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let all = interfaces();
    let (inside, outside) = arguments.names(&all)?;
    check_names(&inside, &outside)?;
    if let Some(told) = mistyped([&inside, &outside], &all) {
        output::notice(format_args!("{told}"));
    }
    let of_host = of_host(&inside, &outside, &all);
    let starter = match of_host {
        Some(both) => gateway(both, &all),
        None => starter(&inside, &outside, &all),
    };
    let starter = with_manual(&starter, Path::new(INSTALLED_MANUAL));
    let text = starter + FIGURES + &defaults(&settings().to_value());
    let path = arguments.out.as_deref();
    Service::parse(&text, path.unwrap_or(Path::new("starter.toml")))?;
    match path {
        Some(path) => write_new(path, &text)?,
        None => output::print(&text)?,
    }
    if let Some(both) = of_host {
        output::notice(gateway_because(both));
    }
    Ok(Outcome::Good)
}

impl Arguments {
    /// What the two ports are called.
    fn names(&self, all: &[Interface]) -> Result<(String, String), CommandError> {
        if let (Some(inside), Some(outside)) = (&self.inside, &self.outside) {
            return Ok((inside.clone(), outside.clone()));
        }
        let (inside, outside) = likely(all).map_err(|unclear| CommandError::Interfaces {
            why: unclear.why(),
            names: all.iter().map(|one| one.name.clone()).collect(),
        })?;
        Ok((inside.name.clone(), outside.name.clone()))
    }
}

/// Whether ports may be called so; a file that does not exist yet is no place of a mistake.
fn check_names(inside: &str, outside: &str) -> Result<(), CommandError> {
    let quoted = [inside, outside].map(|name| toml::Value::from(name).to_string());
    let text = format!(
        "[service]\nchain = [\"monitor\"]\nports = [{}]\n",
        quoted.join(", ")
    );
    match Service::parse(&text, Path::new("")) {
        Err(ServiceError::Wrong(faults)) => {
            let messages: Vec<_> = faults.into_iter().map(|fault| fault.message).collect();
            Err(CommandError::PortNames(messages.join("; ")))
        }
        Err(error) => Err(error.into()),
        Ok(_) => Ok(()),
    }
}

/// Pages of the manual are named where it is installed, if it is; else as in the repository.
fn with_manual(starter: &str, installed: &Path) -> String {
    match installed.is_dir() {
        true => starter.replace("docs/", &format!("{}/", installed.display())),
        false => starter.to_owned(),
    }
}

/// Two interfaces, if this host has an address at one of them.
fn of_host<'a>(inside: &str, outside: &str, all: &'a [Interface]) -> Option<[&'a Interface; 2]> {
    let of = |name: &str| all.iter().find(|one| one.name == name);
    let both = [of(inside)?, of(outside)?];
    let has_address = both.iter().any(|one| !one.addresses.is_empty());
    has_address.then_some(both)
}

/// Why the file is one for a gateway.
fn gateway_because(both: [&Interface; 2]) -> String {
    let of_one = |one: &Interface| {
        let addresses: Vec<_> = one.addresses.iter().map(ToString::to_string).collect();
        format!("{} on {}", addresses.join(", "), one.name)
    };
    let with = both.into_iter().filter(|one| !one.addresses.is_empty());
    let told: Vec<_> = with.map(of_one).collect();
    let [inside, outside] = both.map(|one| &one.name);
    format!(
        "this host has {}, so the file is one for a gateway with the kernel's routes: a bump in the wire would cut the host off; the kernel should not forward, too, nor take routes from any host: sysctl -w {}",
        told.join(" and "),
        settings_beside([inside, outside]).join(" ")
    )
}

/// The settings of a kernel that a gateway with its routes goes together with.
fn settings_beside(interfaces: [&str; 2]) -> Vec<String> {
    let of_one = |name| {
        [
            format!("net.ipv4.conf.{name}.forwarding=0"),
            format!("net.ipv6.conf.{name}.forwarding=0"),
            format!("net.ipv6.conf.{name}.accept_ra=0"),
        ]
    };
    interfaces.into_iter().flat_map(of_one).collect()
}

/// What somebody should know who names an interface of this host and something else.
fn mistyped(names: [&String; 2], all: &[Interface]) -> Option<String> {
    let is_there = |name: &&String| all.iter().any(|one| one.name == **name);
    let (_, others): (Vec<_>, Vec<_>) = names.into_iter().partition(is_there);
    let [other] = others[..] else {
        return None;
    };
    let known: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
    Some(format!(
        "{other} is no interface of this host ({}), so packets are generated",
        known.join(", ")
    ))
}

/// The starter for two interfaces with addresses of this host.
fn gateway([inside, outside]: [&Interface; 2], all: &[Interface]) -> String {
    let mut networks: Vec<_> = inside.addresses.iter().map(HostAddress::network).collect();
    networks.dedup();
    let is_v4 = |prefix: &&Prefix| prefix.network().is_v4();
    let translated: Vec<_> = networks.iter().copied().filter(|one| is_v4(&one)).collect();
    GATEWAY
        .replace("{networks}", &inside_line(inside, &networks))
        .replace("{translated}", &listed(&translated))
        .replace("{ports}", &ports(&inside.name, &outside.name, all, true))
        .replace("{inside}", &inside.name)
        .replace("{outside}", &outside.name)
}

/// The key with the networks inside, or why there are none.
fn inside_line(inside: &Interface, networks: &[Prefix]) -> String {
    match networks {
        [] => format!(
            "{} has no address yet, and so no network: ip address add 192.168.1.1/24 dev {0}",
            inside.name
        ),
        networks => format!("inside = {}", listed(networks)),
    }
}

/// As a list in a service file; an example where there are none.
fn listed(networks: &[Prefix]) -> String {
    let quoted: Vec<_> = networks.iter().map(|one| format!("\"{one}\"")).collect();
    match &quoted[..] {
        [] => "[\"192.168.1.0/24\"]".into(),
        quoted => format!("[{}]", quoted.join(", ")),
    }
}

/// The starter for two ports of these names.
fn starter(inside: &str, outside: &str, all: &[Interface]) -> String {
    let is_there = |name: &str| all.iter().any(|one| one.name == name);
    let are_interfaces = is_there(inside) && is_there(outside);
    let runs = match are_interfaces {
        true => "between the interfaces in [ports], with root's rights",
        false => "over traffic that is generated, see [traffic]",
    };
    let [inside_device, outside_device] = devices(inside, outside, are_interfaces);
    STARTER
        .replace("{ports}", &ports(inside, outside, all, are_interfaces))
        .replace("{runs}", runs)
        .replace("{inside_device}", inside_device)
        .replace("{outside_device}", outside_device)
        .replace("{inside}", inside)
        .replace("{outside}", outside)
}

/// The interfaces of two ports; examples where they are none.
fn devices<'a>(inside: &'a str, outside: &'a str, are_interfaces: bool) -> [&'a str; 2] {
    match are_interfaces {
        true => [inside, outside],
        false => ["eth1", "eth0"],
    }
}

/// The table `[ports]`, behind a `#` if the names are not those of interfaces.
fn ports(inside: &str, outside: &str, all: &[Interface], are_interfaces: bool) -> String {
    let mut text = String::from("# The interfaces of this host:\n");
    for one in all {
        text += &format!("#   {:<15} {}\n", one.name, one.about);
    }
    let before = if are_interfaces { "" } else { "# " };
    let [first, second] = devices(inside, outside, are_interfaces);
    text += &format!(
        "{before}[ports]\n{before}{inside} = {{ device = \"{first}\" }}\n{before}{outside} = {{ device = \"{second}\" }}\n"
    );
    text
}

fn write_new(path: &Path, text: &str) -> Result<(), CommandError> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let done = file.and_then(|mut file| file.write_all(text.as_bytes()));
    done.map_err(|source| match source.kind() {
        ErrorKind::AlreadyExists => CommandError::IsThere(path.into()),
        _ => CommandError::Write {
            path: path.into(),
            source,
        },
    })
}

/// The settings with their defaults and meanings, as comments.
fn defaults(settings: &Value) -> String {
    let mut text = String::new();
    for name in SHOWN {
        let table = &settings["properties"][name];
        let keys = match table["anyOf"].is_array() {
            true => &table["anyOf"][0],
            false => table,
        };
        text += &format!("\n# {}\n# [{name}]\n", sentence(table));
        for (key, value) in keys["properties"].as_object().into_iter().flatten() {
            let default = match &value["default"] {
                Value::Null => continue,
                default => written(default),
            };
            text += &format!(
                "# {:<36} # {}\n",
                format!("{key} = {default}"),
                sentence(value)
            );
        }
    }
    text
}

/// The first sentence of what something means.
fn sentence(value: &Value) -> String {
    let meaning = value["description"].as_str().unwrap_or_default();
    let words: Vec<&str> = meaning.split_whitespace().collect();
    let text = words.join(" ");
    let end = text.find(". ").map_or(text.len(), |end| end + 1);
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_control::service::{EtherType, Host, host_warnings, warnings};

    /// A card that is up.
    fn interface(name: &str) -> Interface {
        Interface {
            name: name.into(),
            about: "up".into(),
            has_default_route: false,
            is_card: true,
            addresses: Vec::new(),
        }
    }

    /// The same with addresses of this host.
    fn of_this_host(name: &str, addresses: &[(&str, u8)]) -> Interface {
        let address = |(text, prefix_bits): &(&str, u8)| HostAddress {
            device: name.into(),
            address: text.parse().expect(text),
            prefix_bits: *prefix_bits,
        };
        Interface {
            addresses: addresses.iter().map(address).collect(),
            ..interface(name)
        }
    }

    fn read(text: &str) -> Service {
        Service::parse(text, Path::new("a.toml")).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// What stands behind a `#` from one line to another.
    fn uncommented(text: &str, from: &str, to: &str) -> String {
        let lines = text.lines().skip_while(|line| *line != from);
        let lines = lines.take_while(|line| !line.starts_with(to));
        let lines: Vec<_> = lines.map(|line| line.trim_start_matches("# ")).collect();
        lines.join("\n") + "\n"
    }

    #[test]
    fn pages_of_the_manual_are_named_where_they_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let page = |installed: &Path| {
            let text = with_manual(GATEWAY, installed);
            let page = "/between-cables.md tells of gateways";
            let before = text.split(page).next().unwrap_or_default();
            before.rsplit(' ').next().unwrap_or_default().to_owned()
        };
        assert_eq!(page(folder.path()), folder.path().display().to_string());
        assert_eq!(page(&folder.path().join("none")), "docs");
    }

    #[test]
    fn interfaces_with_addresses_of_the_host_become_a_gateway() {
        let lan = of_this_host("lan0", &[("192.168.1.1", 24), ("2001:db8:1::1", 64)]);
        let wan = of_this_host("wan0", &[("198.51.100.2", 24)]);
        let all = [lan, wan];
        let both = of_host("lan0", "wan0", &all).expect("it has addresses");
        let text = gateway(both, &all) + FIGURES;
        assert!(!text.contains("{inside}") && !text.contains("{outside}"));
        let inside = "# inside = [\"192.168.1.0/24\", \"2001:db8:1::/64\"]\n";
        assert!(text.contains(inside), "{text}");
        let service = read(&text);
        let host = Host {
            addresses: all.iter().flat_map(|one| one.addresses.clone()).collect(),
            ..Host::default()
        };
        assert_eq!(warnings(&service), []);
        assert_eq!(host_warnings(&service, &host), []);
        let translating = uncommented(&text, "# [napt]", "# Figures");
        let translating = text
            .replace(
                "\"firewall\", \"router\"]",
                "\"firewall\", \"napt\", \"router\"]",
            )
            .replace(
                "\"wan0\" }\n",
                "\"wan0\", answers_for = [\"198.51.100.7\"] }\n",
            )
            .replace(inside, inside.trim_start_matches("# "))
            + &translating;
        let service = read(&translating);
        assert_eq!(service.chain.len(), 4);
        assert_eq!(warnings(&service), []);
        assert_eq!(host_warnings(&service, &host), []);
    }

    #[test]
    fn a_gateway_needs_an_address_and_two_interfaces() {
        let all = [
            interface("eth1"),
            of_this_host("eth0", &[("192.0.2.2", 24)]),
        ];
        assert!(of_host("lan", "eth0", &all).is_none());
        assert!(of_host("eth1", "eth1", &all).is_none());
        let both = of_host("eth1", "eth0", &all).expect("one has an address");
        let text = gateway(both, &all);
        read(&text);
        assert!(text.contains("# eth1 has no address yet"), "{text}");
        let told = gateway_because(both);
        assert!(
            told.starts_with("this host has 192.0.2.2/24 on eth0, so "),
            "{told}"
        );
        for name in ["eth1", "eth0"] {
            let setting = format!(" net.ipv6.conf.{name}.accept_ra=0");
            assert!(told.contains(&setting), "{told}");
        }
    }

    /// What is said of a translation is a whole service beside the firewall.
    #[test]
    fn the_gateway_in_the_comments_is_one() {
        let text = starter("eth1", "eth0", &[interface("eth0"), interface("eth1")]);
        let gateway = uncommented(&text, "# [service]", "# Where the kernel");
        let kept = text.find("[monitor]").zip(text.find("# Hosts inside"));
        let (from, to) = kept.expect("they are there");
        let service = read(&(gateway + &text[from..to]));
        assert_eq!(warnings(&service), []);
        assert_eq!(service.chain.len(), 4);
    }

    #[test]
    fn figures_in_the_comments_can_be_written_so() {
        let text = starter("a", "b", &[]) + &uncommented(FIGURES, "# [metrics]", "# Everything");
        let text = text.replace("\nFlows of the monitor", "\n# Flows of the monitor");
        let service = read(&text);
        assert!(service.metrics.listen.is_some() && service.ipfix.collector.is_some());
    }

    #[test]
    fn wrong_names_are_told_without_a_file() {
        let told = check_names("lan0", "lan0")
            .expect_err("they are one")
            .to_string();
        assert_eq!(
            told,
            "INSIDE and OUTSIDE: two ports are called lan0: expected different names"
        );
        assert!(check_names("a\"b", "wan").is_err());
        assert!(check_names("lan", "wan").is_ok());
    }

    #[test]
    fn ports_are_interfaces_where_there_are_such() {
        let all = [interface("eth0"), interface("eth1")];
        let read = |text: &str| Service::parse(text, Path::new("a.toml")).expect(text);
        let service = read(&starter("eth1", "eth0", &all));
        let devices: Vec<_> = service
            .devices
            .iter()
            .map(|one| one.device.as_str())
            .collect();
        assert_eq!(devices, ["eth1", "eth0"]);
        let text = starter("lan", "eth0", &all);
        assert!(read(&text).devices.is_empty());
        assert!(text.contains("#   eth0            up\n"), "{text}");
    }

    /// Of two that are none, as in examples, nothing is told.
    #[test]
    fn an_interface_beside_something_else_may_be_mistyped() {
        let all = [interface("eth0"), interface("eth1")];
        let told = |names: [&str; 2]| {
            let [one, other] = names.map(str::to_owned);
            mistyped([&one, &other], &all)
        };
        assert_eq!(told(["eth1", "eth0"]), None);
        assert_eq!(told(["lan", "wan"]), None);
        let expected = "eth9 is no interface of this host (eth0, eth1), so packets are generated";
        assert_eq!(told(["eth0", "eth9"]).as_deref(), Some(expected));
    }

    /// Hosts on both sides find each other: by ARP, and by ICMPv6 of any sender.
    #[test]
    fn nothing_is_told_of_a_file_for_interfaces() {
        let text = starter("eth1", "eth0", &[interface("eth0"), interface("eth1")]);
        let service = Service::parse(&text, Path::new("a.toml")).expect(&text);
        assert_eq!(warnings(&service), []);
        assert!(service.entrance.forwards(EtherType(0x0806)));
        assert!(text.contains("{ action = \"allow\", protocol = \"icmp6\" }"));
    }

    /// What is shown behind a `#` is what there is without it.
    #[test]
    fn defaults_are_those_that_are_shown() {
        let plain = starter("a", "b", &[]);
        let shown = defaults(&settings().to_value());
        let settings = shown
            .lines()
            .filter(|line| line.contains(" = ") || line.contains("# ["));
        let settings: Vec<&str> = settings.map(|line| line.trim_start_matches("# ")).collect();
        let read = |text: &str| Service::parse(text, Path::new("a.toml")).expect(text);
        let (one, other) = (
            read(&plain),
            read(&format!("{plain}\n{}", settings.join("\n"))),
        );
        assert!(settings.len() > 25, "{settings:?}");
        assert_eq!(one.run, other.run);
        assert_eq!(one.fast_path, other.fast_path);
        assert_eq!(one.slow_path, other.slow_path);
        assert_eq!(one.rule_cache, other.rule_cache);
        assert_eq!(one.link, other.link);
    }
}
