//! Remote memory (Ribosome): payloads wait on memory servers, over RoCEv2, while only headers go to the
//! slow path.
//!
//! A switch has no memory for payloads, but servers have memory and bandwidth to spare, and their
//! network cards serve RDMA without a processor. So the switch splits a packet (§3.1): the payload is
//! written to a server, the header goes to the function with a ticket: its [header slot](HeaderSlots),
//! and which use of it. (In the paper the whole [`Handle`] travels; here it stays in the slot, so that
//! nothing that comes back can name another payload.) When the header is back it waits in its slot while
//! the payload is read, and what leaves is the packet with the function's header.
//!
//! ```text
//!  packet ─► split ── header, ticket ──► function ── header, ticket ──┐
//!              │                                                      ▼
//!              │ payload                                  HeaderSlots::store, read
//!              ▼                                                      │ READ
//!        Requester::write ── WRITE ──► MemoryServer ◄─────────────────┘
//!                                           └── payload ──► HeaderSlots::take, rebuild ─► packet
//! ```
//! | module | what is in it |
//! |---|---|
//! | [`handle`] | the custom headers: what names a payload |
//! | [`ring`] | remote memory as a ring, with an account of what is overtaken |
//! | [`header_slots`] | headers that wait for their payloads |
//! | [`payloads`] | what a place for payloads does, whatever is behind it |
//! | [`requester`] | a memory server, from the switch: WRITE, READ, recovery |
//! | [`endpoint`] | the server's end, whoever is there |
//! | [`responder`] | the server's end in software: queue pairs, memory regions, NAKs |
//! | [`registration`], [`server`] | how both find each other, and again after an error |
//! | [`store`] | a place for payloads in this process |
//! | [`back_off`] | which server takes a flow, by the load of their links |
//!
//! Nothing here reads a clock, draws a random number that does not follow from a seed, starts a thread
//! or waits. What has no room is refused, and travels whole; what is lost is told, once.
//!
//! A server's network card can be its end of RDMA, too: that is `twinpath_verbs`, another crate, since it
//! needs a library of the card's.
#![forbid(unsafe_code)]

pub mod back_off;
mod counters;
pub mod endpoint;
pub mod fast;
pub mod handle;
pub mod header_slots;
pub mod payloads;
pub mod registration;
pub mod requester;
pub mod responder;
pub mod ring;
pub mod server;
pub mod simulated;
pub mod store;

pub use endpoint::Endpoint;
pub use fast::SplitStage;
pub use handle::{Handle, Sequence};
pub use header_slots::HeaderSlots;
pub use payloads::{Lost, Output, PayloadMemory, Refusal, Returned};
pub use requester::Requester;
pub use responder::Responder;
pub use server::MemoryServer;
pub use store::Store;
