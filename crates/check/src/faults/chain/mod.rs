//! The chains of a run, as production builds them, and what they should do.

pub mod reference;
pub mod service;
pub mod unlisted;
pub mod variant;
