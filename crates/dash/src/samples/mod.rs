//! Configurations for tests and benches: objects in plain maps, and one as large as a DPU's.

mod large;
mod objects;

pub use large::{Large, VIP, VM_VNI, large};
pub use objects::Objects;
