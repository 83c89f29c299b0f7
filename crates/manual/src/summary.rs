//! The manual's contents, as mdbook reads them.

use crate::Pages;
use crate::included::markdown;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use twinpath_nf::catalogue::FUNCTIONS;

/// Pages that stand in front, and behind, with what they are called.
const FRONT: [(&str, &str); 6] = [
    ("Twinpath", "README.md"),
    ("First steps", "first-steps.md"),
    ("How it works", "two-paths.md"),
    ("Between cables", "between-cables.md"),
    ("As a service", "as-a-service.md"),
    ("Remote memory", "remote-memory.md"),
];
const BACK: [(&str, &str); 5] = [
    ("Report", "report.md"),
    ("Metrics", "metrics.md"),
    ("Drop reasons", "drop-reasons.md"),
    ("Counters of memory servers", "memory-server-counters.md"),
    ("Glossary", "glossary.md"),
];

/// Its place is behind the functions.
const NAT_REQUIREMENTS: &str = "nat-requirements.md";

/// The contents.
///
/// # Errors
/// A page cannot be read.
pub fn page(docs: &Path, pages: &Pages) -> io::Result<String> {
    let mut text = String::from("# Summary\n\n");
    let mut line = |level: usize, title: &str, page: &str| {
        text += &format!("{}- [{title}]({page})\n", "  ".repeat(level));
    };
    for (title, page) in FRONT {
        line(0, title, page);
    }
    line(0, "Recipes", "recipes/README.md");
    for (title, page) in written(docs, "recipes")? {
        line(1, &title, &page);
    }
    line(0, "Service file", "service-file.md");
    line(0, "Functions", "functions/README.md");
    for function in FUNCTIONS {
        line(1, function.name, &format!("functions/{}.md", function.name));
    }
    line(0, "Requirements on address translation", NAT_REQUIREMENTS);
    line(0, "Commands", "commands/README.md");
    let commands = pages
        .keys()
        .filter_map(|page| page.strip_prefix("commands/"));
    for page in commands.filter(|page| *page != "README.md") {
        line(1, page.trim_end_matches(".md"), &format!("commands/{page}"));
    }
    let mut fixed: BTreeSet<&str> = FRONT.iter().chain(&BACK).map(|(_, page)| *page).collect();
    fixed.insert(NAT_REQUIREMENTS);
    for (title, page) in written(docs, "")? {
        if !fixed.contains(page.as_str()) && !pages.contains_key(&page) && page != "SUMMARY.md" {
            line(0, &title, &page);
        }
    }
    for (title, page) in BACK {
        line(0, title, page);
    }
    Ok(text)
}

/// The pages in a folder, with their titles.
fn written(docs: &Path, folder: &str) -> io::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for path in markdown(&docs.join(folder))? {
        let name = path.strip_prefix(docs).unwrap_or(&path).to_string_lossy();
        let is_here = path.parent() == Some(docs.join(folder).as_path());
        let text = std::fs::read_to_string(&path)?;
        let title = text.lines().find_map(|line| line.strip_prefix("# "));
        if let (Some(title), true, false) = (title, is_here, name.ends_with("README.md")) {
            found.push((title.to_owned(), name.into_owned()));
        }
    }
    Ok(found)
}
