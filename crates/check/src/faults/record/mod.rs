//! What is known beside the world.

pub mod bindings;
pub mod coverage;
pub mod flow;
pub mod happened;
pub mod history;
pub mod log;
pub mod packet;
pub mod step;
pub mod tally;
