//! Configurations for tests and benches: objects in plain maps, one as large as a DPU's, and the test
//! vectors.

mod large;
mod objects;
pub mod vectors;

pub use large::{Large, VIP, VM_VNI, large};
pub use objects::Objects;
