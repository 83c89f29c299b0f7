//! What a translation tells of its bindings, whichever it is.

use crate::records::{BindingRecord, Kind, Page};
use twinpath_core::wire::Endpoint;

/// A function that has bindings: an endpoint inside has one outside for as long as it is used.
pub trait Bindings {
    /// What there is, in words, a line for each.
    fn told(&self) -> Vec<String>;

    /// The bindings with these numbers, and where others begin.
    fn page(&self, from: u32, most: u32) -> Page<BindingRecord>;

    /// Whether there are such bindings.
    fn has(&self, which: EndBindings) -> bool;
}

/// The bindings of an inside endpoint that are to end: all of them, or that of one kind.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct EndBindings {
    /// The inside endpoint.
    pub internal: Endpoint,
    /// The kind.
    pub kind: Option<Kind>,
}
