//! What a change of the chain leaves behind.

use std::any::Any;

/// What was replaced: drop it where that disturbs nobody.
#[derive(Default)]
pub struct Leftovers(Vec<Box<dyn Any + Send>>);

impl Leftovers {
    /// Adds something.
    pub fn add(&mut self, something: impl Any + Send) {
        self.0.push(Box::new(something));
    }
}
