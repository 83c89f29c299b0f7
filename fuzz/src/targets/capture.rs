//! Any file: reading a capture ends with its end or an error, every frame is of an interface that
//! the file describes, and merged with itself it gives the same frames on both ports.

use std::io::Cursor;
use twinpath_io::{CaptureError, CaptureReader, MergedReader, Next, Trace};

fn open(bytes: &[u8]) -> Result<CaptureReader, CaptureError> {
    CaptureReader::from_source(
        "fuzz",
        Box::new(Cursor::new(bytes.to_vec())),
        bytes.len() as u64,
    )
}

/// All frames of a capture. Every record takes at least a byte of the file.
fn alone(bytes: &[u8], buffer: &mut [u8]) -> Option<Trace> {
    let mut reader = open(bytes).ok()?;
    let mut trace = Trace::new();
    for _ in 0..=bytes.len() {
        match reader.next_into(buffer) {
            Ok(Next::Frame(record)) => {
                assert!((record.interface as usize) < reader.interfaces().len());
                trace.push(record.timestamp_ns, &buffer[..record.captured_len]);
            }
            Ok(Next::Oversized(record)) => assert!(record.captured_len > buffer.len()),
            Ok(Next::End) | Err(_) => return Some(trace),
        }
    }
    panic!("more records than bytes");
}

/// The frames of each of two ports.
fn merged(bytes: &[u8], buffer: &mut [u8]) -> Result<[Trace; 2], CaptureError> {
    let mut reader = MergedReader::new([open(bytes)?, open(bytes)?]);
    let mut ports = [Trace::new(), Trace::new()];
    loop {
        match reader.next_into(buffer) {
            Ok(Next::Frame(record)) => {
                ports[record.interface as usize]
                    .push(record.timestamp_ns, &buffer[..record.captured_len]);
            }
            Ok(Next::Oversized(_)) => {}
            Ok(Next::End) | Err(_) => return Ok(ports),
        }
    }
}

/// One input.
pub fn run(bytes: &[u8]) {
    let mut buffer = vec![0; 70_000];
    let Some(trace) = alone(bytes, &mut buffer) else {
        return;
    };
    let ports = merged(bytes, &mut buffer).expect("it was opened before");
    assert!(ports.iter().all(|port| *port == trace));
}
