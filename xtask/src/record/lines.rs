//! Lines of code by crate, without tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Lines by crate.
type Lines = BTreeMap<String, usize>;

/// Crates as they were called while there was one called `experiments`, and as they are now.
const RENAMED: [(&str, &str); 2] = [("experiments", "lab"), ("lab", "check")];

/// Crates that tests alone use.
const FOR_TESTS: [&str; 2] = ["captures", "netns"];

/// The lines of each crate at revisions, each with its checkout, and in the one that is now.
pub fn page(before: &[(&str, PathBuf)], now: &Path) -> String {
    let mut names: Vec<&str> = before.iter().map(|(revision, _)| *revision).collect();
    let checkouts = before.iter().map(|(_, checkout)| checkout.as_path());
    let columns = checkouts.chain([now]).map(|checkout| {
        let lines = by_crate(&checkout.join("crates"));
        with_present_names(lines)
    });
    names.push("now");
    table(&names, &columns.collect::<Vec<_>>())
}

fn table(names: &[&str], columns: &[Lines]) -> String {
    let mut page = format!(
        "Lines of Rust in `src`, comments and blank lines included, without tests. Crates are paired by \
         the names that they have now.\n\n| crate | {} |\n|{}\n",
        names.join(" | "),
        "---|".repeat(1 + names.len())
    );
    let crates: BTreeSet<&String> = columns.iter().flat_map(BTreeMap::keys).collect();
    let told = |lines: Option<&usize>| lines.map_or(String::new(), usize::to_string);
    for name in crates {
        let lines = columns.iter().map(|column| told(column.get(name)));
        _ = writeln!(page, "| {name} | {} |", row(lines));
    }
    let sums = columns.iter().map(|column| column.values().sum::<usize>());
    _ = writeln!(page, "| all | {} |", row(sums.map(|sum| sum.to_string())));
    page
}

fn row(cells: impl Iterator<Item = String>) -> String {
    cells.collect::<Vec<_>>().join(" | ")
}

fn with_present_names(lines: Lines) -> Lines {
    if !lines.contains_key(RENAMED[0].0) {
        return lines;
    }
    let named = |name: String| {
        let renamed = RENAMED.iter().find(|(then, _)| *then == name);
        renamed.map_or(name, |(_, now)| (*now).to_owned())
    };
    let lines = lines.into_iter();
    lines.map(|(name, lines)| (named(name), lines)).collect()
}

/// Lines of Rust of each crate, comments included.
fn by_crate(crates: &Path) -> Lines {
    let folders = std::fs::read_dir(crates).into_iter().flatten().flatten();
    folders
        .map(|folder| {
            let name = folder.file_name().to_string_lossy().into_owned();
            (name, lines_in(&folder.path().join("src")))
        })
        .filter(|(name, _)| !FOR_TESTS.contains(&name.as_str()))
        .collect()
}

fn lines_in(folder: &Path) -> usize {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|end| end == "rs") => files.push(path),
                false => {}
            }
        }
    }
    let (mut lines, mut of_tests) = (Vec::new(), Vec::new());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let (count, modules) = without_tests(&text);
        let inside = modules_of(&file);
        of_tests.extend(modules.iter().map(|name| inside.join(name)));
        lines.push((file.with_extension(""), count));
    }
    let is_tested = |file: &Path| of_tests.iter().any(|module| file.starts_with(module));
    let lines = lines.into_iter().filter(|(file, _)| !is_tested(file));
    lines.map(|(_, count)| count).sum()
}

/// The folder that has a file's modules.
fn modules_of(file: &Path) -> PathBuf {
    let has_name = |name: &&str| file.file_stem().is_some_and(|stem| stem == *name);
    match ["lib", "main", "mod"].iter().any(has_name) {
        true => file.parent().unwrap_or(file).to_owned(),
        false => file.with_extension(""),
    }
}

/// How many lines a file has without items of tests, and which of its modules are tests. Items end
/// as the formatter has them end.
fn without_tests(text: &str) -> (usize, Vec<String>) {
    let (mut count, mut modules) = (0, Vec::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            count += 1;
            continue;
        }
        let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
        let mut item = lines
            .by_ref()
            .skip_while(|line| line.trim().starts_with("#["));
        let Some(first) = item.next() else {
            break;
        };
        if let Some((_, name)) = first.split_once("mod ") {
            modules.extend(name.strip_suffix(';').map(str::to_owned));
        }
        if !first.ends_with([';', '}']) {
            lines.by_ref().find(|line| line.starts_with(&end));
        }
    }
    (count, modules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_left_out() {
        let text = "mod a;\n#[cfg(test)]\nmod tests;\n\nfn f() {}\n\n\
            #[cfg(test)]\n#[path = \"x.rs\"]\nmod x;\n\
            impl A {\n    #[cfg(test)]\n    fn only_there(&self) {\n        g();\n    }\n}\n\
            #[cfg(test)]\nmod inner {\n    fn h() {\n    }\n}\n";
        let modules = vec!["tests".to_owned(), "x".to_owned()];
        assert_eq!(without_tests(text), (6, modules));
    }

    #[test]
    fn each_revision_has_a_column() {
        let lines = |names: &[&str]| {
            let named = names.iter().map(|name| ((*name).to_owned(), name.len()));
            named.collect::<Lines>()
        };
        let columns = [
            lines(&["link"]),
            lines(&["link", "check"]),
            lines(&["link"]),
        ];
        let page = table(&["a1", "b2", "now"], &columns);
        let rows: Vec<&str> = page.lines().skip(2).collect();
        let expected = [
            "| crate | a1 | b2 | now |",
            "|---|---|---|---|",
            "| check |  | 5 |  |",
            "| link | 4 | 4 | 4 |",
            "| all | 4 | 9 | 4 |",
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn renamed_crates_are_paired() {
        let lines = |names: [&str; 2]| Lines::from(names.map(|name| (name.to_owned(), name.len())));
        let renamed = with_present_names(lines(["experiments", "lab"]));
        let expected = [("check".to_owned(), 3), ("lab".to_owned(), 11)];
        assert_eq!(renamed, Lines::from(expected));
        assert_eq!(
            with_present_names(lines(["check", "lab"])),
            lines(["check", "lab"])
        );
    }

    #[test]
    fn files_of_tests_are_left_out() {
        assert_eq!(modules_of(Path::new("src/a/mod.rs")), Path::new("src/a"));
        assert_eq!(modules_of(Path::new("src/a/b.rs")), Path::new("src/a/b"));
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let text = std::fs::read_to_string(own.join("record/lines.rs")).expect("is here");
        let (count, _) = without_tests(&text);
        assert!(count < text.lines().count() && count < lines_in(&own));
    }
}
