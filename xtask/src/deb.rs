//! `cargo xtask deb`: a Debian package of the command, with a unit for services, man pages, shell
//! completions, the manual, examples and the schema of service files, in target/debian.
//!
//! It takes `cargo-deb`, which is installed if it is not there. What is in the package is tried: the
//! command has to take the examples that come with it. `lintian` looks at it, and is installed by who may.

use crate::{files_in, installs, may_skip, packaged_docs, root, succeeds};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Shells, and the files that their completions are expected in.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "twinpath"),
    ("zsh", "_twinpath"),
    ("fish", "twinpath.fish"),
];

/// What whoever installs it will look for.
const EXPECTED: [&str; 10] = [
    "usr/bin/twinpath",
    "lib/systemd/system/twinpath@.service",
    "usr/share/man/man1/twinpath.1.gz",
    "usr/share/man/man1/twinpath-run.1.gz",
    "usr/share/bash-completion/completions/twinpath",
    "usr/share/doc/twinpath/README.md",
    "usr/share/doc/twinpath/docs/README.md",
    "usr/share/doc/twinpath/examples/gateway.toml",
    "usr/share/doc/twinpath/docs/recipes/between-cables.toml",
    "usr/share/twinpath/service-file.schema.json",
];

/// Builds the package, tells what is in it, and tries that.
pub fn build() -> bool {
    has_cargo_deb() && build_command() && make_files() && package() && check()
}

fn has_cargo_deb() -> bool {
    let said = cargo().args(["deb", "--version"]).output();
    let is_there = said.is_ok_and(|said| said.status.success());
    // It is used once: what takes it longest is to be built.
    is_there || succeeds(cargo().args(["install", "cargo-deb", "--locked", "--debug"]))
}

fn build_command() -> bool {
    succeeds(cargo().args(["build", "--release", "--package", "twinpath"]))
}

/// What the command says of itself.
fn make_files() -> bool {
    let (program, folder) = (root().join("target/release/twinpath"), made());
    let _ = fs::remove_dir_all(&folder);
    if let Err(error) = fs::create_dir_all(&folder) {
        eprintln!("{}: {error}", folder.display());
        return false;
    }
    let has_manual = succeeds(Command::new(&program).arg("man").arg(folder.join("man")));
    if let Err(error) = packaged_docs::copy_to(&folder.join("doc")) {
        eprintln!("{}: {error}", folder.display());
        return false;
    }
    has_manual
        && SHELLS
            .iter()
            .all(|(shell, file)| completion(&program, shell, &folder.join(file)))
}

fn completion(program: &Path, shell: &str, file: &Path) -> bool {
    let said = Command::new(program).args(["completions", shell]).output();
    let said = said.ok().filter(|said| said.status.success());
    said.is_some_and(|said| fs::write(file, said.stdout).is_ok())
}

fn package() -> bool {
    succeeds(cargo().args(["deb", "--package", "twinpath", "--no-build", "--strip"]))
}

fn check() -> bool {
    let Some(package) = newest() else {
        eprintln!("no package was made");
        return false;
    };
    println!("{}", package.display());
    succeeds(Command::new("dpkg-deb").arg("--contents").arg(&package))
        && works(&package)
        && has_no_faults(&package)
}

/// What Debian's own checker says of it.
fn has_no_faults(package: &Path) -> bool {
    if !succeeds(Command::new("lintian").arg("--version")) && !installs("lintian") {
        return may_skip("lintian");
    }
    // Nobody distributes it yet, so its maintainer has no address.
    let mut lintian = Command::new("lintian");
    lintian.args([
        "--fail-on",
        "error",
        "--suppress-tags",
        "bogus-mail-host,bogus-mail-host-in-debian-changelog",
    ]);
    succeeds(lintian.arg(package))
}

/// Unpacks it, and lets the command that is in it look at the examples that are.
fn works(package: &Path) -> bool {
    let unpacked = root().join("target/debian/unpacked");
    let _ = fs::remove_dir_all(&unpacked);
    if !succeeds(
        Command::new("dpkg-deb")
            .arg("--extract")
            .arg(package)
            .arg(&unpacked),
    ) {
        return false;
    }
    let missing = EXPECTED.iter().filter(|file| !unpacked.join(file).exists());
    let missing: Vec<_> = missing.collect();
    if !missing.is_empty() {
        eprintln!("not in the package: {missing:?}");
    }
    let pages = unpacked.join("usr/share/doc/twinpath");
    let dead = packaged_docs::dead_links(&pages);
    if !dead.is_empty() {
        eprintln!("links to what is not there: {dead:#?}");
    }
    let folders = ["examples", "docs/recipes"].map(|folder| files_in(&pages.join(folder)));
    let mut services = folders
        .iter()
        .flatten()
        .filter(|file| file.extension().is_some_and(|end| end == "toml"));
    let program = unpacked.join("usr/bin/twinpath");
    missing.is_empty()
        && dead.is_empty()
        && services.all(|service| succeeds(Command::new(&program).arg("validate").arg(service)))
}

/// The package that was made last.
pub fn newest() -> Option<PathBuf> {
    let files = fs::read_dir(root().join("target/debian")).ok()?.flatten();
    let packages = files.filter(|file| file.path().extension().is_some_and(|end| end == "deb"));
    let newest =
        packages.max_by_key(|file| file.metadata().and_then(|about| about.modified()).ok());
    newest.map(|file| file.path())
}

fn made() -> PathBuf {
    root().join("target/package-files")
}

fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root());
    cargo
}
