//! The page of requirements on address translation names tests that exist.

use std::fs;
use std::path::{Path, PathBuf};

/// The names in backquotes of the last column.
fn named_tests(page: &str) -> Vec<&str> {
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let cells = rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    names.collect()
}

fn sources(folder: &Path, text: &mut String) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a folder of sources")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            sources(&entry, text);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(entry).expect("a source"));
        }
    }
}

#[test]
fn every_test_that_is_named_exists() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(here.join("../../docs/nat-requirements.md")).expect("the page");
    let mut text = String::new();
    for folder in ["napt", "nat64", "nptv6"] {
        sources(&here.join("src").join(folder), &mut text);
    }
    let names = named_tests(&page);
    assert!(names.len() > 60, "{}", names.len());
    for name in names {
        assert!(text.contains(&format!("fn {name}(")), "{name}");
    }
}
