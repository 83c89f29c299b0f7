//! That the manual says what the code does.

use std::path::{Path, PathBuf};
use twinpath_control::service::{Instance, Service};
use twinpath_manual::{docs, keys_without_meaning, markdown, pages};
use twinpath_nf::catalogue::FUNCTIONS;
use twinpath_nf::descriptor::{Descriptor, Function};

fn page(name: &str) -> String {
    std::fs::read_to_string(docs().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn page_of(function: &Descriptor) -> String {
    page(&format!("functions/{}.md", function.name))
}

#[test]
fn pages_are_what_the_code_says() {
    for (name, text) in pages(&docs()).expect("the sources") {
        let found = std::fs::read_to_string(docs().join(&name)).unwrap_or_default();
        assert!(
            found == text,
            "docs/{name} differs: `cargo xtask manual` writes it anew"
        );
    }
}

#[test]
fn every_key_has_a_meaning() {
    let silent = keys_without_meaning();
    assert!(silent.is_empty(), "fields without doc comment: {silent:?}");
}

/// The examples of a page, each a service file if it has a chain, else a part of one.
fn examples(page: &str) -> Vec<String> {
    let blocks = page.split("```toml\n").skip(1);
    let examples = blocks.map(|block| block.split("```").next().unwrap_or_default().to_owned());
    examples.collect()
}

/// A service of a part of its file.
fn service(function: &str, example: &str) -> Service {
    let chain = format!("chain = [\"{function}\"]\n");
    let text = match example.split_once("[service]\n") {
        Some((before, rest)) if !rest.contains("chain = ") => {
            format!("{before}[service]\n{chain}{rest}")
        }
        Some(_) => example.to_owned(),
        None => format!("[service]\n{chain}{example}"),
    };
    Service::parse(&text, &beside_examples()).unwrap_or_else(|error| panic!("{function}: {error}"))
}

/// Where the files are that examples name.
fn beside_examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/example.toml")
}

/// Of the pages that somebody wrote, too.
#[test]
fn whole_service_files_in_pages_are_valid() {
    let mut count = 0;
    for path in markdown(&docs()).expect("the manual is there") {
        let page = std::fs::read_to_string(&path).expect("it can be read");
        let whole = examples(&page).into_iter();
        for text in whole.filter(|text| text.contains("[service]\n") && text.contains("chain = ")) {
            let service = Service::parse(&text, &beside_examples());
            service.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            count += 1;
        }
    }
    assert!(count > 10, "{count}");
}

#[test]
fn examples_of_functions_are_valid_and_named_counters_exist() {
    let mut untold = Vec::new();
    for function in FUNCTIONS {
        let page = page_of(function);
        let examples = examples(&page);
        assert!(!examples.is_empty(), "{} has no example", function.name);
        for example in examples {
            let service = service(function.name, &example);
            let named = |one: &&Instance| &*one.name == function.name;
            let instance = service.chain.iter().find(named);
            let instance = instance.expect("the example is about it");
            let built = instance.config.build(&service.folder, 1);
            let mut names = Vec::new();
            match built.unwrap_or_else(|error| panic!("{}: {error}", function.name)) {
                Function::Flow(function) => function.counters(&mut |name, _| names.push(name)),
                Function::Rules(function) => function.counters(&mut |name, _| names.push(name)),
                // It counts for each ENI: on the report's page.
                Function::Dash(_) => {}
            }
            let unknown = names
                .into_iter()
                .filter(|name| !page.contains(&format!("`{name}`")) && !name.contains(':'));
            untold.extend(unknown.map(|counter| format!("{}: {counter}", function.name)));
        }
    }
    assert!(
        untold.is_empty(),
        "counters that pages do not name: {untold:#?}"
    );
}

/// Whole service files anywhere in the manual.
#[test]
fn service_files_in_pages_are_valid() {
    let mut found = 0;
    for path in twinpath_manual::markdown(&docs()).expect("the pages") {
        let text = std::fs::read_to_string(&path).expect("a page");
        for example in examples(&text) {
            if example.contains("\nchain ") {
                let read = Service::parse(&example, &beside_examples());
                read.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                found += 1;
            }
        }
    }
    assert!(found >= 4, "{found}");
}

/// Every page is in the contents, and every link within the manual leads somewhere.
#[test]
fn links_lead_somewhere() {
    let contents = page("SUMMARY.md");
    for path in twinpath_manual::markdown(&docs()).expect("the pages") {
        let docs = docs();
        let name = path.strip_prefix(&docs).expect("in docs").to_string_lossy();
        assert!(
            name == "SUMMARY.md" || contents.contains(&format!("({name})")),
            "{name} is not in the contents"
        );
        let text = std::fs::read_to_string(&path).expect("a page");
        for link in text.split("](").skip(1) {
            let target = link.split(')').next().unwrap_or_default();
            let file = target.split('#').next().unwrap_or_default();
            let is_local = !file.is_empty() && !target.contains("://");
            let folder = path.parent().expect("a folder");
            assert!(!is_local || folder.join(file).exists(), "{name}: {target}");
        }
    }
}
