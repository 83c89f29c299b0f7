//! Figures that are kept: `cargo xtask record lines|benches|dash|oracles|times|soak|start|zero-loss` measures, and writes a
//! page of the folder `measured`, which nobody edits.

mod benches;
mod lines;
mod services;
mod times;

use super::oracles;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// What others are compared with unless something else is said: the last revision before the node became
/// one machine.
pub const BEFORE: &str = "935b793";

/// Lines of code of each crate, at revisions, one after the other, and now.
pub fn lines(root: &Path, revisions: &[String]) -> bool {
    let folder = std::env::temp_dir().join("twinpath-lines");
    let each = revisions.iter().map(|revision| {
        let folder = folder.join(revision);
        let made = std::fs::create_dir_all(&folder).is_ok();
        (made && unpacked(root, revision, &folder)).then_some((revision.as_str(), folder))
    });
    let before: Option<Vec<_>> = each.collect();
    let page = before.map(|before| lines::page(&before, root));
    _ = std::fs::remove_dir_all(&folder);
    let command = format!("lines {}", revisions.join(" "));
    page.is_some_and(|page| keep(root, "lines", &command, "Lines of code", &page))
}

/// All benches of a revision and of this one, in turns.
pub fn benches(root: &Path, revision: &str) -> bool {
    benches::page(root, revision).is_some_and(|page| {
        keep(
            root,
            "benches",
            &format!("benches {revision}"),
            "Benches side by side",
            &page,
        )
    })
}

/// What DASH takes of one core.
pub fn dash(root: &Path) -> bool {
    benches::dash(root).is_some_and(|page| keep(root, "dash", "dash", "DASH on one core", &page))
}

/// What each oracle ran over, what stayed on the fast path, and what functions did.
pub fn oracles(root: &Path) -> bool {
    oracles::page(root).is_some_and(|page| keep(root, "oracles", "oracles", "Oracles", &page))
}

/// How long a clean clone takes to be built and tested.
pub fn times(root: &Path) -> bool {
    times::page(root).is_some_and(|page| keep(root, "times", "times", "Times", &page))
}

/// How much memory a gateway takes that is under load for so many minutes.
pub fn soak(root: &Path, minutes: &str) -> bool {
    services::soak(root, minutes).is_some_and(|page| {
        let command = format!("soak {minutes}");
        keep(root, "soak", &command, "A gateway under load", &page)
    })
}

/// What a DPU loses in so many minutes of openings and changes.
pub fn zero_loss(root: &Path, minutes: &str) -> bool {
    services::zero_loss(root, minutes).is_some_and(|page| {
        let command = format!("zero-loss {minutes}");
        keep(
            root,
            "zero-loss",
            &command,
            "A DPU whose policies change",
            &page,
        )
    })
}

/// How long a service takes until it serves.
pub fn start(root: &Path) -> bool {
    services::start(root).is_some_and(|page| keep(root, "start", "start", "A start", &page))
}

/// The crates of a revision, as git has them.
fn unpacked(root: &Path, revision: &str, folder: &Path) -> bool {
    let archive = Command::new("git")
        .args(["archive", revision, "crates"])
        .current_dir(root)
        .output();
    let Ok(archive) = archive.map(|output| (output.status.success(), output.stdout)) else {
        return false;
    };
    let file = folder.join("crates.tar");
    archive.0
        && std::fs::write(&file, archive.1).is_ok()
        && super::succeeds(
            Command::new("tar")
                .arg("xf")
                .arg(&file)
                .arg("-C")
                .arg(folder),
        )
}

/// Writes a page with its command, revision and machine.
fn keep(root: &Path, name: &str, command: &str, title: &str, body: &str) -> bool {
    let mut page = format!("# {title}\n\n`cargo xtask record {command}` wrote this page");
    let revision = told(root, "git", &["rev-parse", "--short", "HEAD"]);
    let date = told(root, "date", &["--utc", "+%Y-%m-%d"]);
    _ = writeln!(page, " at revision {revision}, {date}.\n\n{}", body.trim());
    let folder = root.join("measured");
    let path = folder.join(format!("{name}.md"));
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, page));
    match written {
        Ok(()) => println!("measured/{name}.md"),
        Err(ref error) => println!("{}: {error}", path.display()),
    }
    written.is_ok()
}

/// What a command says, on one line.
fn told(root: &Path, program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).current_dir(root).output();
    let text = output.map_or_else(|_| Vec::new(), |output| output.stdout);
    String::from_utf8_lossy(&text).trim().to_owned()
}
