//! Where packets come from and go to when there is no network card: capture
//! files and memory.
//!
//! The data plane only ever sees Ethernet frames in a caller's buffer, so this
//! crate hides what a capture file really holds. [`CaptureReader`] reads pcap
//! and pcapng, gzipped or not, recognises them by their first bytes, and gives
//! every packet an Ethernet header if the capture had none (raw IP, BSD
//! loopback, Linux cooked). [`CaptureWriter`] writes one plain dialect, pcap
//! with nanoseconds and Ethernet, under a temporary name until it is complete.
//! [`OrderedWriter`] stands before a writer when packets leave two paths and
//! must appear in the order of their timestamps. [`Trace`] holds a whole
//! capture in memory for benches and tests.
//!
//! Nothing here allocates per packet: the reader copies into the caller's
//! buffer and the ordered writer recycles its own. No file, however broken,
//! makes this crate panic; every error names the file and, where it can, the
//! record and the byte at which reading stopped.
//!
//! ```no_run
//! use twinpath_io::{CaptureError, CaptureReader, CaptureWriter, Next};
//!
//! fn copy() -> Result<(), CaptureError> {
//!     let mut reader = CaptureReader::open("in.pcapng.gz")?;
//!     let mut writer = CaptureWriter::create("out.pcap")?;
//!     let mut buffer = [0; 2048];
//!     loop {
//!         match reader.next_into(&mut buffer)? {
//!             Next::Frame(record) => {
//!                 writer.write(record.timestamp_ns, &buffer[..record.captured_len])?;
//!             }
//!             Next::Oversized(record) => eprintln!("skipped {} bytes", record.captured_len),
//!             Next::End => break,
//!         }
//!     }
//!     writer.finish()?;
//!     Ok(())
//! }
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod error;
mod link_type;
mod ordered;
mod pcap;
mod pcapng;
mod reader;
mod recycle;
mod source;
#[cfg(test)]
mod testing;
mod trace;
mod window;
mod writer;

pub use error::{CaptureError, Malformation, Place};
pub use ordered::{OrderedCounters, OrderedWriter};
pub use reader::{CaptureReader, Next, Record};
pub use trace::{Trace, TraceFrame};
pub use writer::{CaptureWriter, FrameSink, WrittenTotals};

/// The longest record of a capture file that is read, in bytes. A length field
/// above it is taken for corruption: otherwise one flipped bit would swallow
/// the rest of the file.
pub const MAX_RECORD_BYTES: usize = 16 << 20;

/// The longest frame that [`CaptureWriter`] writes, in bytes. Common readers
/// refuse longer ones.
pub const MAX_WRITTEN_FRAME_BYTES: usize = 262_144;
