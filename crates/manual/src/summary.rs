//! The manual's contents, as mdbook reads them.

use crate::Pages;
use std::io;
use std::path::Path;
use twinpath_nf::catalogue::FUNCTIONS;

/// The contents.
///
/// # Errors
/// A recipe cannot be read.
pub fn page(docs: &Path, pages: &Pages) -> io::Result<String> {
    let mut text = String::from("# Summary\n\n");
    let mut line = |level: usize, title: &str, page: &str| {
        if pages.contains_key(page) || docs.join(page).exists() {
            text += &format!("{}- [{title}]({page})\n", "  ".repeat(level));
        }
    };
    line(0, "Twinpath", "README.md");
    line(0, "First steps", "first-steps.md");
    line(0, "How it works", "two-paths.md");
    line(0, "Recipes", "recipes/README.md");
    for (title, page) in recipes(docs)? {
        line(1, &title, &page);
    }
    line(0, "Service file", "service-file.md");
    line(0, "Functions", "functions/README.md");
    for function in FUNCTIONS {
        line(1, function.name, &format!("functions/{}.md", function.name));
    }
    line(
        0,
        "Requirements on address translation",
        "nat-requirements.md",
    );
    line(0, "Commands", "commands/README.md");
    let commands = pages
        .keys()
        .filter_map(|page| page.strip_prefix("commands/"));
    for page in commands.filter(|page| *page != "README.md") {
        line(1, page.trim_end_matches(".md"), &format!("commands/{page}"));
    }
    line(0, "Drop reasons", "drop-reasons.md");
    line(0, "Glossary", "glossary.md");
    Ok(text)
}

/// Recipes with their titles.
fn recipes(docs: &Path) -> io::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    let folder = docs.join("recipes");
    if !folder.exists() {
        return Ok(found);
    }
    for path in crate::included::markdown(&folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let text = std::fs::read_to_string(&path)?;
        let title = text.lines().find_map(|line| line.strip_prefix("# "));
        if let (Some(title), true) = (title, name != "README.md") {
            found.push((title.to_owned(), format!("recipes/{name}")));
        }
    }
    Ok(found)
}
