//! The pipeline: what comes, what policies say about it, and what is done to it.
//!
//! [`Received::read`] takes a frame apart and finds its ENI. [`Policies::decide`] runs all stages and
//! answers with a [`PolicyDecision`], which holds for all packets of the flow; [`apply`](apply()) does it. Between
//! the two stands the table of flows ([`flows`](crate::flows)), so that the stages see the first
//! packet of a connection alone.

mod action;
mod apply;
mod arrival;
mod inbound;
mod notes;
mod outbound;
mod policy;
mod redirect;
mod stages;
mod template;

pub use action::{Action, Detour, Layer, Origin, PolicyDecision, is_icmp, tunnel_names};
pub use apply::{Applied, ApplyContext, Peeled, apply, apply_template, sent_bytes};
pub use arrival::{Arrival, OuterTags, Owner, PlainPacket, Received, Unreceived, stations};
pub use notes::{Note, Notes};
pub use policy::Policies;
pub use redirect::Redirect;
pub use template::Template;
