//! What a change of the chain replaced, until it is freed.

use std::any::Any;

/// What was replaced: drop it where that disturbs nobody.
#[derive(Default)]
pub struct DeferredFree(Vec<Box<dyn Any + Send>>);

impl DeferredFree {
    /// Adds something.
    pub fn add(&mut self, something: impl Any + Send) {
        self.0.push(Box::new(something));
    }
}
