//! `twinpath init`: a service file to start from.

use crate::error::CommandError;
use crate::{Outcome, output};
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use twinpath_control::service::Service;
use twinpath_control::service::schema::{settings, written};

/// Writes a service file to start from, with comments, for two ports
///
/// A firewall between them lets connections out and their answers in; everything that can be set is
/// there, with its default and its meaning, behind a `#`. Without --out it goes to standard output. A
/// file that is there is never overwritten.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath init lan wan --out service.toml && twinpath run service.toml",
))]
pub struct Arguments {
    /// The name of the port that hosts inside are behind, such as lan or eth1
    inside: String,
    /// The name of the other port, such as wan or eth0
    outside: String,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

const STARTER: &str = include_str!("init/starter.toml");

/// Tables whose keys are shown with their defaults.
const SHOWN: [&str; 5] = ["run", "fast_path", "slow_path", "rule_cache", "link"];

/// Writes it.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let text = STARTER
        .replace("{inside}", &arguments.inside)
        .replace("{outside}", &arguments.outside)
        + &defaults(&settings().to_value());
    let path = arguments.out.as_deref();
    Service::parse(&text, path.unwrap_or(Path::new("starter.toml")))?;
    match path {
        Some(path) => write_new(path, &text)?,
        None => output::print(&text)?,
    }
    Ok(Outcome::Good)
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

    /// What is shown behind a `#` is what there is without it.
    #[test]
    fn defaults_are_those_that_are_shown() {
        let plain = STARTER.replace("{inside}", "a").replace("{outside}", "b");
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
