//! Any text: a service file parses or is refused with the places of all that is wrong. Files that it
//! names are not there.

use std::path::Path;
use twinpath_control::operator::SentFiles;
use twinpath_control::service::{Service, ServiceError};

/// One input.
pub fn run(text: &str) {
    let files = SentFiles::new();
    match Service::parse_with(text, Path::new("fuzz.toml"), &files) {
        Err(ServiceError::Wrong(faults)) => assert!(!faults.is_empty()),
        Err(error) => panic!("the file was read: {error}"),
        Ok(_) => {}
    }
}
