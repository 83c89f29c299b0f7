//! Where packets come from and go to when there is no network card: capture
//! files and memory.
//!
//! The data plane only ever sees Ethernet frames in a caller's buffer, so this
//! crate hides what a capture file really holds. [`CaptureReader`] reads pcap
//! and pcapng, gzipped or not, recognises them by their first bytes, and gives
//! every packet an Ethernet header if the capture had none (raw IP, BSD
//! loopback, Linux cooked). [`CaptureWriter`] writes Ethernet with nanoseconds,
//! pcap or pcapng by the file's name, under a temporary name until it is
//! complete; the path `-` is standard input or output. [`OrderedWriter`] stands before a writer when packets leave two
//! paths and must appear in the order of their timestamps. [`Trace`] holds a
//! whole capture in memory for benches and tests.
//!
//! Every frame has a number that tells its interface. In a pcapng file the
//! interfaces have names ([`CaptureReader::interfaces`],
//! [`CaptureWriter::with_interfaces`]). A classic pcap knows of one interface
//! alone, so several ports are several files there, named by a [`PortPattern`]
//! such as `out-{port}.pcap`: [`PortFiles`] writes them and [`MergedReader`]
//! reads them back as one.
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

pub mod blocks;
mod clock;
mod error;
mod interface;
mod link_type;
mod merged;
mod named_pipe;
mod ordered;
mod pcap;
mod pcapng;
mod port_files;
mod port_pattern;
mod reader;
mod recycle;
mod source;
mod standard;
#[cfg(test)]
mod testing;
mod trace;
mod window;
mod writer;

pub use error::{CaptureError, Location, Malformation, NameProblem};
pub use interface::{Interface, Resolution};
pub use merged::MergedReader;
pub use named_pipe::{is_named_pipe, open_once_read};
pub use ordered::{OrderedCounters, OrderedWriter};
pub use port_files::PortFiles;
pub use port_pattern::PortPattern;
pub use reader::{CaptureReader, Next, Record};
pub use standard::{is_piped, is_standard};
pub use trace::{Trace, TraceFrame};
pub use writer::{CaptureWriter, FrameSink, WrittenTotals};

/// The longest record of a capture file that is read, in bytes. A length field
/// above it is taken for corruption: otherwise one flipped bit would swallow
/// the rest of the file.
pub const MAX_RECORD_BYTES: usize = 16 << 20;

/// The most interfaces that a capture may describe.
pub const MAX_INTERFACES: usize = 4096;

/// The longest frame that [`CaptureWriter`] writes, in bytes. Common readers
/// refuse longer ones.
pub const MAX_WRITTEN_FRAME_BYTES: usize = 262_144;
