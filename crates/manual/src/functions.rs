//! A page for each function, and one that lists them.

use crate::table::{code, table};
use crate::{Pages, keys, module_docs, origin, root};
use std::io;
use twinpath_nf::catalogue::FUNCTIONS;
use twinpath_nf::descriptor::{Descriptor, Form};

/// The pages.
///
/// # Errors
/// A module's documentation cannot be read.
pub fn pages() -> io::Result<Pages> {
    let page =
        |function: &Descriptor| Ok((format!("functions/{}.md", function.name), of(function)?));
    let mut pages: Pages = FUNCTIONS.into_iter().map(page).collect::<io::Result<_>>()?;
    let list = list(&pages);
    pages.insert("functions/README.md".into(), list);
    Ok(pages)
}

fn of(function: &Descriptor) -> io::Result<String> {
    let source = format!("crates/nf/src/{}/mod.rs", function.name);
    let keys = keys::tables(&(function.schema)().to_value(), 3);
    let text = with_counters(module_docs::page(&source, &keys)?, function.name)?;
    let (about, sections) = text.split_once("\n## ").unwrap_or((&text, ""));
    Ok(format!(
        "{}# {}\n\n{}\n\n{}\n\n## {sections}",
        origin(&format!("{source} and the configuration beside it")),
        function.name,
        about.trim_end(),
        place(function),
    ))
}

/// Documentation that points to the function's counters has a table of them there.
const COUNTERS: &str = "The counters are the fields of `Counters`.\n";

fn with_counters(text: String, function: &str) -> io::Result<String> {
    if !text.contains(COUNTERS) {
        return Ok(text);
    }
    let file = root().join(format!("crates/nf/src/{function}/counters.rs"));
    let rows = counters(&std::fs::read_to_string(file)?);
    Ok(text.replace(COUNTERS, &table(&["counter", "meaning"], &rows)))
}

/// The names that the macro `counters!` is given, with their doc comments.
fn counters(source: &str) -> Vec<Vec<String>> {
    let (mut rows, mut meaning) = (Vec::new(), String::new());
    let (_, list) = source.split_once("\ncounters! {").unwrap_or_default();
    for line in list.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            meaning += text;
        } else if let Some(name) = line.strip_suffix(',') {
            rows.push(vec![code(name), std::mem::take(&mut meaning)]);
        }
    }
    rows
}

/// Where it runs, in a sentence or two.
fn place(function: &Descriptor) -> String {
    let form = match function.form {
        Form::Flow => "It shares flow state between the paths",
        Form::Rules => "Its decisions are cached as rules",
        Form::Dash => "What it decides is kept as flows",
    };
    let name = function.name;
    let table = match function.needs_section {
        true => format!("A service with it needs a table `[{name}]`."),
        false => format!("Without a table `[{name}]` it has its defaults."),
    };
    format!("**Where it runs.** {form}: {}. {table}", function.placement)
}

fn list(pages: &Pages) -> String {
    let row = |function: &Descriptor| {
        let page = &pages[&format!("functions/{}.md", function.name)];
        let paths = match function.form {
            Form::Flow => "flow state on both paths",
            Form::Rules => "cached rules",
            Form::Dash => "flows, for both directions",
        };
        vec![
            format!("[{0}]({0}.md)", function.name),
            first_sentence(page),
            paths.into(),
        ]
    };
    let rows: Vec<_> = FUNCTIONS.into_iter().map(row).collect();
    format!(
        "{}# Functions\n\nA service's `chain` is made of these. One that is there several times has a name of its own\n\
         each time ([service file](../service-file.md)).\n\n{}",
        origin("the functions' own pages"),
        table(&["function", "what it is", "on the fast path"], &rows),
    )
}

/// The first sentence under a page's heading.
fn first_sentence(page: &str) -> String {
    let text = page.split("\n\n").nth(2).unwrap_or_default();
    let text = text.replace('\n', " ");
    let end = text.find(". ").map_or(text.len(), |end| end + 1);
    text[..end].to_owned()
}
