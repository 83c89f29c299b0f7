//! The server's end of RDMA on a network card (Ribosome §3.1): once a queue pair is connected the card
//! executes requests itself, and no processor of the server has to do with payloads.
//!
//! | module | what is in it |
//! |---|---|
//! | [`devices`] | which card an interface belongs to, and under which addresses it is reached: what the kernel says, needed in any build |
//! | `card` | memory that a card may write and read, and its queue pairs; feature `verbs` |
//!
//! Registration and restore are `twinpath_remote::server`'s, whoever executes requests.

#[cfg(feature = "verbs")]
mod card;
pub mod devices;

#[cfg(feature = "verbs")]
pub use card::{Card, CardError, Config};
pub use devices::{Device, Gid};
