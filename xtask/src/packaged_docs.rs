//! What is read on an installed system: the manual, the architecture, examples, recipes and what was
//! measured, beside each other as in the repository, so that links and `#:schema` lines between them hold.
//! Links to what is not installed, such as code, become their text.

use crate::{files_in, root};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// What is installed, of the repository.
const PARTS: [&str; 5] = [
    "README.md",
    "ARCHITECTURE.md",
    "docs",
    "examples",
    "measured",
];

/// Puts all of it into a folder.
pub fn copy_to(folder: &Path) -> io::Result<()> {
    PARTS
        .iter()
        .try_for_each(|part| copy(Path::new(part), folder))
}

/// Links and `#:schema` lines, of what is in a folder, that lead nowhere.
pub fn dead_links(folder: &Path) -> Vec<String> {
    let mut dead = Vec::new();
    for file in all_files(folder) {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let beside = file.parent().unwrap_or(folder);
        let named: Vec<&str> = match file.extension().and_then(OsStr::to_str) {
            Some("md") => links(&text).collect(),
            Some("toml") => schemas(&text).collect(),
            _ => Vec::new(),
        };
        let is_dead = |to: &&str| !beside.join(without_place(to)).exists();
        let found = named.into_iter().filter(is_dead);
        dead.extend(found.map(|to| format!("{}: {to}", file.display())));
    }
    dead
}

fn copy(part: &Path, folder: &Path) -> io::Result<()> {
    let from = root().join(part);
    if from.is_dir() {
        let names = files_in(&from).into_iter();
        let mut names = names.filter_map(|file| file.file_name().map(|name| part.join(name)));
        return names.try_for_each(|part| copy(&part, folder));
    }
    let to = folder.join(part);
    fs::create_dir_all(to.parent().unwrap_or(folder))?;
    match part.extension().is_some_and(|end| end == "md") {
        true => fs::write(
            to,
            with_links_to_installed(&fs::read_to_string(from)?, part),
        ),
        false => fs::copy(from, to).map(drop),
    }
}

fn all_files(folder: &Path) -> Vec<PathBuf> {
    let files = files_in(folder).into_iter();
    files
        .flat_map(|file| match file.is_dir() {
            true => all_files(&file),
            false => vec![file],
        })
        .collect()
}

/// A page, without links to what is not installed.
fn with_links_to_installed(text: &str, page: &Path) -> String {
    let mut page_text = text.to_owned();
    let beside = page.parent().unwrap_or(Path::new(""));
    for to in links(text) {
        if is_installed(&beside.join(without_place(to))) {
            continue;
        }
        let end = format!("]({to})");
        while let Some(at) = page_text.find(&end) {
            page_text.replace_range(at..at + end.len(), "");
            if let Some(bracket) = page_text[..at].rfind('[') {
                page_text.remove(bracket);
            }
        }
    }
    page_text
}

/// Whether a path of the repository is of what is installed.
fn is_installed(path: &Path) -> bool {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => _ = plain.pop(),
            other => plain.push(other),
        }
    }
    PARTS.iter().any(|part| plain.starts_with(part)) && root().join(plain).exists()
}

/// Where the links of a page lead that are to files.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let ends = text.split("](").skip(1);
    let to = ends.filter_map(|rest| rest.split_once(')').map(|(to, _)| to));
    to.filter(|to| {
        !to.is_empty() && !to.starts_with('#') && !to.contains("://") && !to.contains(' ')
    })
}

fn schemas(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("#:schema "))
}

/// A link's file, without the place in it.
fn without_place(to: &str) -> &str {
    to.split('#').next().unwrap_or(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_what_is_not_installed_become_text() {
        for (page, text, expected) in [
            (
                "README.md",
                "[a](docs/README.md) [b](crates/nf), c",
                "[a](docs/README.md) b, c",
            ),
            (
                "docs/x.md",
                "[k](../ARCHITECTURE.md#known-gaps) [l](../xtask)",
                "[k](../ARCHITECTURE.md#known-gaps) l",
            ),
            (
                "docs/x.md",
                "[w](https://a.b) [p](#place)",
                "[w](https://a.b) [p](#place)",
            ),
        ] {
            assert_eq!(with_links_to_installed(text, Path::new(page)), expected);
        }
    }

    /// Of what is installed nothing leads nowhere, and a link that does is found.
    #[test]
    fn links_lead_somewhere_where_it_is_installed() {
        let folder = root().join("target/packaged-docs-test");
        let _ = fs::remove_dir_all(&folder);
        copy_to(&folder).expect("copied");
        assert_eq!(dead_links(&folder), Vec::<String>::new());
        fs::remove_file(folder.join("docs/service-file.schema.json")).expect("it was there");
        let dead = dead_links(&folder);
        let is_schema = |dead: &String| dead.contains("docs/service-file.schema.json");
        assert!(
            dead.iter().filter(|dead| is_schema(dead)).count() > 7,
            "{dead:#?}"
        );
        fs::remove_dir_all(&folder).expect("removed");
    }
}
