//! The command, which is the library's.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    twinpath::run()
}
