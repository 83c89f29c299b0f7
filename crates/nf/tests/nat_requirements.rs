//! The page of requirements on address translation names tests that exist, and whose comments name
//! the requirements.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Tests of more than [`MOST_ROWS`] rows: each goes through several requirements, which ask nearly the
/// same in several documents.
const COVER_SEVERAL: [&str; 8] = [
    "a_host_keeps_one_external_address_unless_told_otherwise",
    "connections_from_outside_need_a_binding_and_a_filter_that_lets_them_in",
    "errors_end_nothing",
    "hits_in_either_direction_keep_a_binding",
    "hosts_inside_reach_each_other_by_their_external_endpoints",
    "long_packets_that_must_not_be_fragmented_are_answered",
    "mapping_is_independent_of_the_other_end_and_filtering_as_configured",
    "ports_cannot_be_foreseen",
];

/// Most rows that name a test which is not listed.
const MOST_ROWS: usize = 2;

/// Rows that are met because there is nothing that could do otherwise.
const UNTESTABLE: [&str; 2] = [
    "REQ-10 application gateways are off",
    "REQ-12 destinations are not logged",
];

/// A requirement as comments name it: the document, and `REQ-3 a` or `§4.2` in it.
type Citation = (String, String);

/// What a text cites, such as `RFC 4787 REQ-1, REQ-3 a, RFC 7857 §2.1`; without a document, of this one.
fn citations(text: &str, document: &str) -> HashSet<Citation> {
    let mut document = document.to_owned();
    let mut words = text.split_whitespace().peekable();
    let mut found = HashSet::new();
    let plain = |word: &str| word.trim_matches(|c| "(),.:;".contains(c)).to_owned();
    while let Some(word) = words.next() {
        let bare = plain(word);
        if bare == "RFC" {
            document = words.next().map(plain).unwrap_or_default();
        } else if bare.starts_with('§') {
            found.insert((document.clone(), bare));
        } else if bare.starts_with("REQ-") {
            let is_letter = |next: &&str| {
                let next = plain(next);
                next.len() == 1 && next.as_bytes()[0].is_ascii_lowercase() && word.ends_with(&bare)
            };
            let letter = words
                .next_if(is_letter)
                .map(|next| format!(" {}", plain(next)));
            found.insert((document.clone(), bare + &letter.unwrap_or_default()));
        }
    }
    found
}

/// A row of the page.
struct Row {
    requirement: String,
    cites: HashSet<Citation>,
    is_met: bool,
    tests: Vec<String>,
}

impl Row {
    fn read(line: &str, document: &str) -> Option<Self> {
        let cells = line.strip_prefix("| ")?.strip_suffix('|')?;
        let cells: Vec<&str> = cells.split('|').map(str::trim).collect();
        let [requirement, section, met, tests] = cells[..] else {
            return None;
        };
        let mut cites = citations(requirement, document);
        cites.retain(|(_, place)| place.starts_with("REQ-"));
        if cites.is_empty() {
            let sections = section
                .split(' ')
                .map(|word| match word.as_bytes().first() {
                    Some(digit) if digit.is_ascii_digit() && word.contains('.') => {
                        format!("§{word}")
                    }
                    Some(digit) if digit.is_ascii_digit() && !section.contains("RFC") => {
                        format!("§{word}")
                    }
                    _ => word.to_owned(),
                });
            cites = citations(&sections.collect::<Vec<_>>().join(" "), document);
        }
        let names = tests.split('`').skip(1).step_by(2);
        Some(Self {
            requirement: requirement.to_owned(),
            cites,
            is_met: met.starts_with("yes"),
            tests: names.map(str::to_owned).collect(),
        })
    }
}

/// The rows of all tables; a heading names the document that they are about.
fn rows(page: &str) -> Vec<Row> {
    let (mut rows, mut document) = (Vec::new(), String::new());
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## RFC ") {
            document = heading
                .split([':', ' '])
                .next()
                .unwrap_or_default()
                .to_owned();
        } else if !line.starts_with("| requirement") {
            rows.extend(Row::read(line, &document));
        }
    }
    rows
}

fn page() -> Vec<Row> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    rows(&fs::read_to_string(here.join("../../docs/nat-requirements.md")).expect("the page"))
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

/// The tests of the translations, each with what the comment above it cites.
fn tests() -> BTreeMap<String, Vec<HashSet<Citation>>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    for folder in ["src/napt", "src/nat64", "src/nptv6", "../node/tests"] {
        sources(&here.join(folder), &mut text);
    }
    let (mut tests, mut comment, mut is_test) = (BTreeMap::new(), String::new(), false);
    for line in text.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("///") {
            comment.push_str(words);
        } else if line.starts_with("#[") {
            is_test |= line == "#[test]";
        } else {
            let name = line
                .strip_prefix("fn ")
                .and_then(|rest| rest.split('(').next());
            if let Some(name) = name.filter(|_| is_test) {
                let found: &mut Vec<_> = tests.entry(name.to_owned()).or_default();
                found.push(citations(&comment, ""));
            }
            (comment, is_test) = (String::new(), false);
        }
    }
    tests
}

#[test]
fn every_requirement_that_is_met_names_tests() {
    let rows = page();
    assert!(rows.len() > 60, "{}", rows.len());
    for row in rows {
        let is_untestable = UNTESTABLE.contains(&&*row.requirement);
        if row.is_met {
            assert_ne!(row.tests.is_empty(), !is_untestable, "{}", row.requirement);
        }
    }
}

/// Of functions with one name, as of napt and nat64, one has to cite the requirement.
#[test]
fn every_test_that_is_named_exists_and_names_the_requirement() {
    let tests = tests();
    for row in page().iter().filter(|row| !row.tests.is_empty()) {
        let mut left = row.cites.clone();
        assert!(!left.is_empty(), "{}", row.requirement);
        for name in &row.tests {
            let found = tests.get(name);
            let found = found.unwrap_or_else(|| panic!("{}: no test {name}", row.requirement));
            let cited: HashSet<_> = found.iter().flatten().cloned().collect();
            let is_about = !cited.is_disjoint(&row.cites);
            assert!(
                is_about,
                "{}: {name} cites {cited:?}, not {:?}",
                row.requirement, row.cites
            );
            left.retain(|one| !cited.contains(one));
        }
        assert!(
            left.is_empty(),
            "{}: nobody cites {left:?}",
            row.requirement
        );
    }
}

#[test]
fn few_tests_cover_several_requirements() {
    let mut rows_of: BTreeMap<String, usize> = BTreeMap::new();
    for name in page().into_iter().flat_map(|row| row.tests) {
        *rows_of.entry(name).or_default() += 1;
    }
    for (name, rows) in &rows_of {
        let is_listed = COVER_SEVERAL.contains(&name.as_str());
        assert!(*rows <= MOST_ROWS || is_listed, "{name} is in {rows} rows");
    }
    for name in COVER_SEVERAL {
        let rows = rows_of.get(name).copied().unwrap_or(0);
        assert!(rows > MOST_ROWS, "{name} is in {rows} rows");
    }
}

#[test]
fn citations_are_understood() {
    let of = |text: &str| {
        let mut all: Vec<_> = citations(text, "1").into_iter().collect();
        all.sort();
        all.into_iter()
            .map(|(document, place)| document + " " + &place)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of("REQ-3 a, REQ-4: a host (RFC 2 §5.1.) RFC 3 §6, §7: REQ-8 is not"),
        ["1 REQ-3 a", "1 REQ-4", "2 §5.1", "3 REQ-8", "3 §6", "3 §7"]
    );
}
