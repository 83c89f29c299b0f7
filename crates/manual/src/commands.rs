//! A page for each command, from its own help.

use crate::table::{code, table};
use crate::{Pages, origin};
use clap::{Arg, Command};

/// The pages.
pub fn pages() -> Pages {
    let mut whole = twinpath::command();
    whole.build();
    let commands = || {
        whole
            .get_subcommands()
            .filter(|command| command.get_name() != "help")
    };
    let page = |command: &Command| {
        let name = command.get_name();
        let file = name.replace('-', "_");
        let source = origin(&format!("crates/twinpath/src/commands/{file}.rs"));
        (format!("commands/{name}.md"), source + &of(command, 1))
    };
    let mut pages: Pages = commands().map(page).collect();
    let row = |command: &Command| {
        let name = command.get_name();
        vec![format!("[twinpath {name}]({name}.md)"), about(command)]
    };
    let rows: Vec<_> = commands().map(row).collect();
    let list = format!(
        "{}# Commands\n\n{}\n\n{}{}",
        origin("crates/twinpath/src/lib.rs"),
        sentence(&about(&whole)),
        table(&["command", "what it does"], &rows),
        examples(&whole, 2),
    );
    pages.insert("commands/README.md".into(), list);
    pages
}

fn of(command: &Command, level: usize) -> String {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let mark = "#".repeat(level);
    let mut text = format!("{mark} {name}\n\n{}\n\n", with_flags(&long_about(command)));
    text += &format!("```text\n{}\n```\n", usage(command));
    let (positional, options): (Vec<&Arg>, Vec<&Arg>) = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && !is_common(argument))
        .partition(|argument| argument.is_positional());
    for (title, head, all) in [
        ("Arguments", "argument", positional),
        ("Options", "option", options),
    ] {
        if !all.is_empty() {
            let rows: Vec<_> = all.into_iter().map(row).collect();
            text += &format!("\n{mark}# {title}\n\n");
            text += &table(&[head, "default", "meaning"], &rows);
        }
    }
    text += &examples(command, level + 1);
    for sub in command.get_subcommands() {
        if sub.get_name() != "help" {
            text += "\n";
            text += &of(sub, level + 1);
        }
    }
    text
}

/// What every command has.
fn is_common(argument: &Arg) -> bool {
    ["help", "version"].contains(&argument.get_id().as_str())
}

fn about(command: &Command) -> String {
    command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default()
}

fn long_about(command: &Command) -> String {
    let long = command.get_long_about().map(ToString::to_string);
    let text = long.unwrap_or_else(|| about(command));
    let paragraphs: Vec<String> = text.split("\n\n").map(sentence).collect();
    paragraphs.join("\n\n")
}

/// A text that ends as sentences do.
fn sentence(text: &str) -> String {
    let dot = if text.ends_with(['.', ':']) { "" } else { "." };
    format!("{text}{dot}")
}

/// A text with its flags as code, where they are not part of some already.
fn with_flags(text: &str) -> String {
    let word = |word: &str| {
        let flag = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        match flag.starts_with("--") {
            true => format!("{}{}", code(flag), &word[flag.len()..]),
            false => word.to_owned(),
        }
    };
    let marked = |text: &str| text.split(' ').map(word).collect::<Vec<_>>().join(" ");
    let mut is_code = true;
    let parts = text.split('`').map(|part| {
        is_code = !is_code;
        match is_code {
            true => part.to_owned(),
            false => marked(part),
        }
    });
    parts.collect::<Vec<_>>().join("`")
}

fn usage(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    usage.trim_start_matches("Usage: ").to_owned()
}

fn row(argument: &Arg) -> Vec<String> {
    let defaults: Vec<String> = argument
        .get_default_values()
        .iter()
        .map(|value| code(&value.to_string_lossy()))
        .collect();
    let takes_value = argument.get_action().takes_values();
    let default = match takes_value {
        true => defaults.join(", "),
        false => String::new(),
    };
    vec![code(&shape(argument)), default, meaning(argument)]
}

/// How the argument is written.
fn shape(argument: &Arg) -> String {
    let takes_value = argument.get_action().takes_values();
    let names = argument.get_value_names().unwrap_or_default();
    let values: Vec<String> = names.iter().map(|name| format!("<{name}>")).collect();
    let values = match takes_value {
        true => values.join(" "),
        false => String::new(),
    };
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let flags: Vec<String> = short.into_iter().chain(long).collect();
    match flags.is_empty() {
        true => values,
        false => format!("{} {values}", flags.join(", "))
            .trim_end()
            .to_owned(),
    }
}

fn meaning(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help());
    let mut text = with_flags(&help.map(ToString::to_string).unwrap_or_default());
    let is_value = argument.get_action().takes_values();
    let choices = argument.get_possible_values();
    if is_value && !choices.is_empty() {
        let choice = |value: &clap::builder::PossibleValue| match value.get_help() {
            Some(help) => format!("{}: {help}", code(value.get_name())),
            None => code(value.get_name()),
        };
        let choices: Vec<String> = choices.iter().map(choice).collect();
        text = format!("{}<br>{}", sentence(&text), choices.join("<br>"));
    }
    text
}

/// The examples at the end of a command's help, without colours.
fn examples(command: &Command, level: usize) -> String {
    let Some(text) = command.get_after_help() else {
        return String::new();
    };
    let text = text.to_string();
    let lines: Vec<&str> = text.lines().skip(1).map(str::trim_start).collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!(
            "\n{} Examples\n\n```sh\n{}\n```\n",
            "#".repeat(level),
            lines.join("\n")
        ),
    }
}
