//! What is told of the kernel that is followed.

use std::sync::{Arc, Mutex, PoisonError};
use twinpath_control::report::KernelFigures;

/// Figures that one thread writes and others read.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<KernelFigures>>);

impl Shared {
    /// What they are now.
    pub fn get(&self) -> KernelFigures {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// They change.
    pub fn change(&self, change: impl FnOnce(&mut KernelFigures)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
