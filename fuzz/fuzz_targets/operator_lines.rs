//! Any bytes at the control socket: a request or an answer that reads writes back the same.
#![no_main]
use libfuzzer_sys::fuzz_target;
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;
use twinpath_control::operator::{Answer, Request, read_line, write_line};

fn round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
    let Ok(message) = read_line::<T>(bytes) else {
        return;
    };
    let mut line = Vec::new();
    write_line(&mut line, &message).expect("what was read can be written");
    assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
    assert_eq!(
        read_line::<T>(&line[..]).expect("what was written"),
        message
    );
}

fuzz_target!(|bytes: &[u8]| {
    round_trip::<Request>(bytes);
    round_trip::<Answer>(bytes);
});
