//! `cargo xtask deb`: a Debian package of the command, with a unit for services, man pages, shell
//! completions, examples and the schema of service files, in target/debian.
//!
//! It takes `cargo-deb` (`cargo install cargo-deb`), and looks at the package with `lintian` where
//! that is installed.

use crate::{root, succeeds};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Shells, and the files that their completions are expected in.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "twinpath"),
    ("zsh", "_twinpath"),
    ("fish", "twinpath.fish"),
];

/// Builds the package and tells what is in it.
pub fn build() -> bool {
    if !Command::new("cargo-deb")
        .arg("--version")
        .output()
        .is_ok_and(|said| said.status.success())
    {
        eprintln!("cargo-deb is not installed: cargo install cargo-deb");
        return false;
    }
    build_command() && make_files() && package() && check()
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
    succeeds(cargo().args(["deb", "--package", "twinpath", "--no-build"]))
}

fn check() -> bool {
    let Some(package) = newest(&root().join("target/debian")) else {
        eprintln!("no package was made");
        return false;
    };
    println!("{}", package.display());
    let is_whole = succeeds(Command::new("dpkg-deb").arg("--contents").arg(&package));
    if Command::new("lintian").arg("--version").output().is_err() {
        println!("skipped: lintian is not installed");
        return is_whole;
    }
    // Nobody distributes it yet, so its maintainer has no address.
    let mut lintian = Command::new("lintian");
    lintian.args([
        "--fail-on",
        "error",
        "--suppress-tags",
        "bogus-mail-host,bogus-mail-host-in-debian-changelog",
    ]);
    is_whole && succeeds(lintian.arg(&package))
}

fn newest(folder: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?.flatten();
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
