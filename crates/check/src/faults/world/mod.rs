//! What is simulated.

pub mod agenda;
pub mod frame;
pub mod line;
pub mod line_id;
pub mod source;
