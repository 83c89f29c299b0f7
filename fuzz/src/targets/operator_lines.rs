//! Any bytes at the control socket: a request or an answer that reads writes back the same.

use std::fmt::Debug;
use twinpath_control::operator::{Line, Request, read_answer, write_line};

fn round_trip<T: Line + PartialEq + Debug>(
    bytes: &[u8],
    read: impl Fn(&[u8]) -> std::io::Result<T>,
) {
    let Ok(message) = read(bytes) else {
        return;
    };
    let mut line = Vec::new();
    write_line(&mut line, &message).expect("what was read can be written");
    assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
    assert_eq!(read(&line).expect("what was written"), message);
}

/// One input.
pub fn run(bytes: &[u8]) {
    round_trip(bytes, |mut bytes| Request::read(&mut bytes));
    round_trip(bytes, |bytes| read_answer(bytes));
}
