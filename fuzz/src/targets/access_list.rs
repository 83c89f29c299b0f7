//! Any text as the table of an access control list: it is refused with its place, or the list is
//! built of it.

use std::path::Path;
use twinpath_control::service::Service;

/// One input.
pub fn run(text: &str) {
    let text = format!("[service]\nchain = [\"acl\"]\n[acl]\n{text}");
    match Service::parse(&text, Path::new("fuzz.toml")) {
        Err(error) => assert!(error.to_string().starts_with("fuzz.toml:")),
        Ok(service) => {
            let [list] = service.chain.as_slice() else {
                panic!("another chain")
            };
            assert!(list.config.build(Path::new("."), 0).is_ok());
        }
    }
}
