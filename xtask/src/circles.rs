//! Circles of files: two files of a crate that need each other, or several that do so in turn, can
//! only be read together. A parent and what is inside it may need each other; siblings may not, nor
//! may what is inside them.
//!
//! `cargo xtask circles` prints every circle with the paths that make it; `cargo xtask test` fails
//! where there is one.

mod graph;
mod source;

use graph::{Circle, Uses, circles};
use source::{Module, Segments};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Prints the circles of all crates. Returns whether there are none.
pub fn check(root: &Path) -> bool {
    let mut crates = super::files_in(&root.join("crates"));
    crates.extend(["xtask", "benches"].map(|name| root.join(name)));
    crates.sort();
    let mut found = 0;
    for folder in crates {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        for circle in sources(&folder).iter().flat_map(|source| in_crate(source)) {
            found += 1;
            println!("crate {name}: {circle}");
        }
    }
    println!("circles of files: {found}");
    found == 0
}

/// The folders whose files are modules of one crate: the source, each binary of tests, and all tests together,
/// which may have a folder in common.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let tests = folder.join("tests");
    let own = super::files_in(&tests)
        .into_iter()
        .filter(|path| path.is_dir());
    let mut sources: Vec<_> = own.collect();
    sources.extend([folder.join("src"), tests]);
    sources
}

fn in_crate(source: &Path) -> Vec<Circle> {
    let modules = source::modules(source);
    let mut uses = Uses::default();
    for (module, text) in &modules {
        for path in &text.paths {
            let used = resolved(&modules, path);
            uses.add(module, used, path);
        }
    }
    circles(&uses)
}

/// Re-exports that are followed until a file is found; more would be a circle of theirs.
const MOST_EXPORTS: usize = 8;

/// The module in whose file what a path names is.
fn resolved<'a>(modules: &'a BTreeMap<Segments, Module>, path: &[String]) -> &'a [String] {
    let mut path = path.to_vec();
    for _ in 0..MOST_EXPORTS {
        let (module, text) = longest(modules, &path);
        let next = path.get(module.len()).and_then(|name| text.names.get(name));
        match next {
            Some(origin) if *origin != path => {
                let rest = path.split_off(module.len() + 1);
                path = origin.iter().cloned().chain(rest).collect();
            }
            _ => return module,
        }
    }
    &[]
}

/// The innermost module that a path leads through.
fn longest<'a>(
    modules: &'a BTreeMap<Segments, Module>,
    path: &[String],
) -> (&'a [String], &'a Module) {
    let mut known = (0..=path.len()).rev();
    let found = known.find_map(|length| modules.get_key_value(&path[..length]));
    let (name, module) = found.expect("every crate has a root");
    (name, module)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Circles of a crate of these files, as they are told.
    fn told(files: &[(&str, &str)]) -> Vec<String> {
        let folder = std::env::temp_dir().join(format!(
            "twinpath-circles-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        for (name, text) in files {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().expect("in a folder")).expect("is made");
            std::fs::write(path, text).expect("is written");
        }
        let told = in_crate(&folder).iter().map(ToString::to_string).collect();
        std::fs::remove_dir_all(folder).expect("is there");
        told
    }

    #[test]
    fn a_parent_and_its_child_may_need_each_other() {
        let files = [
            ("lib.rs", "mod a;\npub struct Root;"),
            ("a.rs", "mod b;\nuse b::B;\npub struct A;\nuse crate::Root;"),
            ("a/b.rs", "use super::A;\npub struct B(A);"),
        ];
        assert_eq!(told(&files), [""; 0]);
    }

    #[test]
    fn siblings_may_not() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::{self, B};\npub struct A;"),
            ("b.rs", "pub fn f() { super::c::g(\"crate::b\") }"),
            (
                "c.rs",
                "//! crate::b\npub fn g(_: &str) -> crate::a::A { A }",
            ),
        ];
        let told = told(&files);
        assert_eq!(told.len(), 1);
        for edge in ["a needs b", "b needs c", "c needs a"] {
            assert!(told[0].contains(edge), "{told:?}");
        }
    }

    #[test]
    fn nor_may_what_is_inside_them() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "mod x; mod y;"),
            ("a/x.rs", "use crate::b::B;"),
            ("a/y.rs", "pub struct Y;"),
            ("b.rs", "mod z; pub struct B;"),
            ("b/z.rs", "use crate::a::y::Y;"),
        ];
        assert_eq!(told(&files).len(), 1);
    }

    #[test]
    fn what_a_parent_exports_is_followed() {
        let files = [
            (
                "lib.rs",
                "mod a; mod b; pub use a::A; pub use b::B as Other;",
            ),
            ("a.rs", "use crate::Other; pub struct A;"),
            ("b.rs", "use crate::A; pub struct B;"),
        ];
        assert_eq!(told(&files).len(), 1);
    }

    #[test]
    fn tests_may_use_all() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            (
                "a.rs",
                "use crate::b::B;\n#[cfg(test)]\nmod tests;\npub struct A;",
            ),
            ("a/tests.rs", "use crate::b::B;"),
            (
                "b.rs",
                "pub struct B;\n#[cfg(test)]\nmod tests { use crate::a::A; }",
            ),
        ];
        assert_eq!(told(&files), [""; 0]);
    }
}
