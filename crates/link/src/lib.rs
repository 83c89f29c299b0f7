//! Everything that passes between the fast path and the workers.
//!
//! A frame on the link is a [`Header`] followed by the packet it carries, if any. The header is
//! the same whether the frame crosses a ring inside one process or, one day, a wire to another
//! machine. Each queue numbers its frames; a receiver [accepts](numbering::Receiver) them only in
//! rising order, because the coherence protocol is correct on a link that loses frames but not
//! on one that reorders them.
#![forbid(unsafe_code)]

pub mod header;
pub mod numbering;
pub mod ring;

pub use header::{
    Header, HeaderError, MAX_WORDS, Message, asked_with, attach, carries_packet, detach, number,
    peek,
};
pub use numbering::{Arrival, Receiver, Sender};
