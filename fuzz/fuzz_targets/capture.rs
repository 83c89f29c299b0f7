//! Any file: reading a capture ends with its end or an error.
#![no_main]
use libfuzzer_sys::fuzz_target;
use std::io::Cursor;
use twinpath_io::{CaptureReader, Next};

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut reader) = CaptureReader::from_source("fuzz", Box::new(Cursor::new(bytes.to_vec())), bytes.len() as u64) else { return };
    let mut buffer = vec![0; 70_000];
    // Every record takes at least a byte of the file.
    for _ in 0..=bytes.len() {
        match reader.next_into(&mut buffer) {
            Ok(Next::Frame(record)) => assert!(record.captured_len <= buffer.len()),
            Ok(Next::Oversized(_)) => {}
            Ok(Next::End) | Err(_) => return,
        }
    }
    panic!("more records than bytes");
});
