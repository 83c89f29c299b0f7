//! Which tests are property tests: those of modules whose files name proptest.

use super::files_in;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What to tell `cargo test` of them: the targets that have such modules, and the modules.
pub fn tests(root: &Path) -> Vec<String> {
    let (mut targets, mut modules) = (BTreeSet::new(), BTreeSet::new());
    for folder in files_in(&root.join("crates")) {
        modules.extend(modules_with_properties(&folder.join("src")));
        for target in files_in(&folder.join("tests")) {
            let found = modules_with_properties(&target);
            let name = target.file_name().filter(|_| !found.is_empty());
            targets.extend(name.map(|name| name.to_string_lossy().into_owned()));
            modules.extend(found);
        }
    }
    let targets = targets.into_iter();
    let mut words = vec!["--lib".to_owned()];
    words.extend(targets.flat_map(|target| ["--test".to_owned(), target]));
    words.push("--".to_owned());
    words.extend(modules);
    words
}

/// The modules of a folder whose files name proptest, each as the start of its tests' names.
fn modules_with_properties(folder: &Path) -> Vec<String> {
    let files = files_below(folder);
    let files = files
        .iter()
        .filter(|file| fs::read_to_string(file).is_ok_and(|text| text.contains("proptest")));
    files.filter_map(|file| module_of(folder, file)).collect()
}

/// `a::b::` of `a/b.rs` and `a/b/mod.rs`; the crate's own file is no module.
fn module_of(folder: &Path, file: &Path) -> Option<String> {
    let path = file.strip_prefix(folder).ok()?.with_extension("");
    let names = path.iter().map(|name| name.to_string_lossy());
    let names: Vec<_> = names.filter(|name| name != "mod").collect();
    let is_module = !matches!(names[..], [ref name] if name == "lib" || name == "main");
    is_module.then(|| names.join("::") + "::")
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let (folders, files): (Vec<_>, Vec<_>) = files_in(folder)
        .into_iter()
        .partition(|entry| entry.is_dir());
    let below = folders.iter().flat_map(|folder| files_below(folder));
    let sources = files
        .iter()
        .filter(|file| file.extension().is_some_and(|kind| kind == "rs"));
    below.chain(sources.cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_named_as_tests_are() {
        let folder = Path::new("crates/a/src");
        let module = |file: &str| module_of(folder, &folder.join(file));
        assert_eq!(module("b/c.rs").as_deref(), Some("b::c::"));
        assert_eq!(module("b/mod.rs").as_deref(), Some("b::"));
        assert_eq!(module("lib.rs"), None);
    }

    #[test]
    fn every_file_with_properties_is_in_a_module() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for folder in files_in(&root.join("crates")) {
            let tests = files_in(&folder.join("tests"));
            for file in tests.iter().filter(|entry| entry.is_file()) {
                let text = fs::read_to_string(file).unwrap_or_default();
                assert!(!text.contains("proptest"), "{}", file.display());
            }
        }
        let words = tests(&root);
        assert!(words.iter().any(|word| word == "any_chain::"), "{words:?}");
    }
}
