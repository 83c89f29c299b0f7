//! The files of this crate are layers: each imports from lower ones alone.

use std::fs;
use std::path::{Path, PathBuf};

/// Every module, the lowest layer first. Those of one layer do not import each other.
const LAYERS: &[&[&str]] = &[
    &["malformed", "address", "kinds", "protocol"],
    &["build_error", "checksum", "unicast"],
    &["bytes", "options"],
    &["ethernet", "ipv4", "ipv6", "tcp", "udp", "icmp", "kv"],
    &["vlan"],
    &["link"],
    &["layout"],
    &["fields", "fragment"],
    &["verify"],
    &["rewrite", "arp", "neighbor", "roce", "tunnel", "translate"],
    &["build"],
];

fn layer(module: &str) -> usize {
    let found = LAYERS.iter().position(|layer| layer.contains(&module));
    found.unwrap_or_else(|| panic!("{module} is in no layer"))
}

/// All files but the root and tests, which nobody imports.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .filter(|path| !path.ends_with("lib.rs") && !path.ends_with("tests.rs"))
        .collect()
}

/// The modules that a file names behind `crate::`, outside of comments.
fn imports(text: &str) -> Vec<&str> {
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let paths = code.flat_map(|line| line.split("crate::").skip(1));
    paths
        .flat_map(|path| match path.strip_prefix('{') {
            // Such a list is of modules and their items; it fits on a line.
            Some(list) => list.split('}').next().unwrap_or(list).split(", ").collect(),
            None => vec![path],
        })
        .map(|path| {
            path.split(|c: char| !c.is_alphanumeric() && c != '_')
                .next()
                .unwrap_or(path)
        })
        .collect()
}

#[test]
fn every_file_imports_from_lower_layers_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = files(&root);
    assert!(files.len() > 20, "{files:?}");
    for path in files {
        let inside = path.strip_prefix(&root).unwrap().with_extension("");
        let module = inside.iter().next().unwrap().to_str().unwrap();
        for import in imports(&fs::read_to_string(&path).unwrap()) {
            let is_own_folder = import == module;
            assert!(
                is_own_folder || layer(import) < layer(module),
                "{} imports {import}, which is no lower layer",
                path.display()
            );
        }
    }
}
