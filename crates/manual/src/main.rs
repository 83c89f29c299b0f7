//! Writes the manual's pages: `cargo xtask manual`.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use twinpath_manual::{docs, write};

fn main() -> ExitCode {
    match write(&docs()) {
        Ok(written) => {
            written.iter().for_each(|page| println!("docs/{page}"));
            println!("pages of the manual that changed: {}", written.len());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
