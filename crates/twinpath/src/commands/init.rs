//! `twinpath init`: a service file to start from.

mod interfaces;

use crate::error::CommandError;
use crate::{Outcome, output};
use interfaces::{Interface, interfaces, likely};
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use twinpath_control::service::Service;
use twinpath_control::service::schema::{settings, written};

/// Writes a service file to start from, with comments, for two ports
///
/// A firewall between them lets connections out and their answers in; everything that can be set is
/// there, with its default and its meaning, behind a `#`. If the two are network interfaces of this
/// host, packets come from there and leave by them; else they are generated, and the interfaces are
/// listed behind a `#`. Without names the interface that the default route leads to is outside, and
/// another card's inside. Without --out it goes to standard output. A file that is there is never
/// overwritten.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath init lan wan --out service.toml && twinpath run service.toml    # generated packets",
    "twinpath init eth1 eth0 --out /etc/twinpath/edge.toml                    # those of interfaces",
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

const STARTER: &str = include_str!("init/starter.toml");

/// Tables whose keys are shown with their defaults.
const SHOWN: [&str; 5] = ["run", "fast_path", "slow_path", "rule_cache", "link"];

/// Writes it.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let all = interfaces();
    let (inside, outside) = arguments.names(&all)?;
    if let Some(told) = mistyped([&inside, &outside], &all) {
        output::notice(format_args!("{told}"));
    }
    let text = starter(&inside, &outside, &all) + &defaults(&settings().to_value());
    let path = arguments.out.as_deref();
    Service::parse(&text, path.unwrap_or(Path::new("starter.toml")))?;
    match path {
        Some(path) => write_new(path, &text)?,
        None => output::print(&text)?,
    }
    Ok(Outcome::Good)
}

impl Arguments {
    /// What the two ports are called.
    fn names(&self, all: &[Interface]) -> Result<(String, String), CommandError> {
        if let (Some(inside), Some(outside)) = (&self.inside, &self.outside) {
            return Ok((inside.clone(), outside.clone()));
        }
        let likely = likely(all).map(|(inside, outside)| (&inside.name, &outside.name));
        let (inside, outside) = likely.ok_or_else(|| {
            let names: Vec<_> = all.iter().map(|one| one.name.as_str()).collect();
            CommandError::Interfaces(names.join(", "))
        })?;
        Ok((inside.clone(), outside.clone()))
    }
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

/// The starter for two ports of these names.
fn starter(inside: &str, outside: &str, all: &[Interface]) -> String {
    let is_there = |name: &str| all.iter().any(|one| one.name == name);
    let are_interfaces = is_there(inside) && is_there(outside);
    let runs = match are_interfaces {
        true => "between the interfaces in [ports], with root's rights",
        false => "over traffic that is generated, see [traffic]",
    };
    STARTER
        .replace("{ports}", &ports(inside, outside, all, are_interfaces))
        .replace("{runs}", runs)
        .replace("{inside}", inside)
        .replace("{outside}", outside)
}

/// The table `[ports]`, behind a `#` if the names are not those of interfaces.
fn ports(inside: &str, outside: &str, all: &[Interface], are_interfaces: bool) -> String {
    let mut text = String::from("# The interfaces of this host:\n");
    for one in all {
        text += &format!("#   {:<15} {}\n", one.name, one.about);
    }
    let before = if are_interfaces { "" } else { "# " };
    let [first, second] = match are_interfaces {
        true => [inside, outside],
        false => ["eth1", "eth0"],
    };
    text += &format!(
        "{before}[ports]\n{before}{inside} = {{ device = \"{first}\" }}\n{before}{outside} = {{ device = \"{second}\" }}\n"
    );
    text
}

fn write_new(path: &Path, text: &str) -> Result<(), CommandError> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let done = file.and_then(|mut file| file.write_all(text.as_bytes()));
    done.map_err(|source| CommandError::Write {
        path: path.into(),
        source,
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
    use twinpath_control::service::EtherType;

    /// A card that is up.
    fn interface(name: &str) -> Interface {
        Interface {
            name: name.into(),
            about: "up".into(),
            has_default_route: false,
            is_card: true,
        }
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
        assert_eq!(twinpath_control::service::warnings(&service), []);
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
