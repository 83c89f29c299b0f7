//! Any text: a service file parses or is refused with its place.
#![no_main]
use libfuzzer_sys::fuzz_target;
use std::path::Path;
use twinpath_control::service::Service;

fuzz_target!(|text: &str| {
    if let Err(error) = Service::parse(text, Path::new("fuzz.toml")) {
        assert!(error.to_string().starts_with("fuzz.toml:"));
    }
});
