//! The manual's pages that follow from the code, so that nothing of it is written twice.
//!
//! A function's page is its module's documentation with the keys of its configuration, a command's
//! page is its help, and so on: each page names its source in its first line. Pages that somebody
//! wrote may include a file, such as a recipe's service file; the copy is kept up to date here.
//! `cargo xtask manual` writes them all, and a test fails where `docs/` has others.
#![forbid(unsafe_code)]

mod commands;
mod drops;
mod functions;
mod included;
mod keys;
mod memory_counters;
mod module_docs;
mod service_file;
mod steps;
mod summary;
mod table;

pub use included::markdown;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use twinpath_control::service::schema;
use twinpath_nf::catalogue::FUNCTIONS;

/// Pages by their names in `docs/`.
pub type Pages = BTreeMap<String, String>;

/// The folder of the manual in the repository.
pub fn docs() -> PathBuf {
    root().join("docs")
}

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All pages that follow from the code, and those in `docs` that include files.
///
/// # Errors
/// A source cannot be read, or a page includes what is not there.
pub fn pages(docs: &Path) -> io::Result<Pages> {
    let mut pages = Pages::from([
        ("service-file.md".into(), service_file::page()?),
        ("drop-reasons.md".into(), drops::page()),
        ("memory-server-counters.md".into(), memory_counters::page()),
        ("report.md".into(), report()?),
        ("metrics.md".into(), metrics()?),
        (
            "service-file.schema.json".into(),
            schema::service_file_text(),
        ),
    ]);
    pages.extend(functions::pages()?);
    pages.extend(commands::pages());
    *pages.entry("commands/trace.md".into()).or_default() += &steps::sections()?;
    pages.extend(included::pages(docs)?);
    pages.insert("SUMMARY.md".into(), summary::page(docs, &pages)?);
    Ok(pages)
}

/// The page of reports.
fn report() -> io::Result<String> {
    let source = "crates/control/src/report/json.rs";
    let text = module_docs::text(source)?;
    Ok(format!("{}# Report\n\n{text}", origin(source)))
}

/// The page of metrics.
fn metrics() -> io::Result<String> {
    let source = "crates/control/src/report/metrics.rs";
    let text = module_docs::text(source)?;
    Ok(format!("{}# Metrics\n\n{text}", origin(source)))
}

/// Writes what differs; the names of the pages that did.
///
/// # Errors
/// As [`pages`], or a page cannot be written.
pub fn write(docs: &Path) -> io::Result<Vec<String>> {
    let mut written = Vec::new();
    for (name, text) in pages(docs)? {
        let path = docs.join(&name);
        if std::fs::read_to_string(&path).is_ok_and(|former| former == text) {
            continue;
        }
        std::fs::create_dir_all(path.parent().unwrap_or(docs))?;
        std::fs::write(&path, text)?;
        written.push(name);
    }
    Ok(written)
}

/// Keys of service files whose fields have no doc comment.
pub fn keys_without_meaning() -> Vec<String> {
    let settings = schema::settings().to_value();
    let mut keys = keys::all(&settings, "");
    for function in FUNCTIONS {
        keys.extend(keys::all(&(function.schema)().to_value(), function.name));
    }
    let silent = keys.into_iter().filter(|(_, meaning)| meaning.is_empty());
    silent.map(|(key, _)| key).collect()
}

/// The first line of a page that follows from code.
fn origin(source: &str) -> String {
    format!("<!-- Made of {source} by `cargo xtask manual`: change it there. -->\n\n")
}
