//! Any bytes: a link header that reads writes back the same.

use twinpath_link::Header;

/// One input.
pub fn run(bytes: &[u8]) {
    let Ok(header) = Header::read(bytes) else {
        return;
    };
    let mut written = vec![0; header.bytes()];
    header.write(&mut written).expect("as long as the header");
    assert_eq!(Header::read(&written), Ok(header));
}
