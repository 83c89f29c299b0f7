//! Real captures for tests: where they are, what is in them, and services that must act on them.
//!
//! The captures and flow-size distributions are too large for the repository and lie beside it, in
//! `../shared`, or wherever `TWINPATH_SHARED` says ([`shared`]). A test that finds none prints
//! that it was skipped, and fails under `CI=true`.
//!
//! A service whose addresses, ports and patterns do not occur in a capture does nothing to it, and
//! a comparison of two paths that do nothing proves little. So a [`Profile`] tells what is in a
//! capture, and from it come the tables of each function ([`FunctionText`]) that split its flows,
//! translate and balance its connections and find its bytes, with what must be seen afterwards
//! ([`Expectation`]). Where a capture has nothing for a function, [`Lacking`] says what is missing.
//!
//! ```no_run
//! use twinpath_captures::Profile;
//! let profile = Profile::of_file("a.pcap")?;
//! let service = profile.service(&["acl", "napt", "router"])?;
//! println!("{}", service.text);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod derive;
mod expectation;
mod key_value;
mod profile;
mod shared;
mod ticking;

pub use derive::{FunctionText, Lacking, ServiceText};
pub use expectation::{Evidence, Expectation};
pub use key_value::key_value_requests;
pub use profile::{
    Conversation, Counts, Deep, Fresh, Profile, Settleable, Signatures, Spanning, networks,
};
pub use shared::{captures, shared, shared_capture};
pub use ticking::ticking;
