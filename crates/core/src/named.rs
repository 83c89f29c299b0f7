//! Functions under the names that they have in a chain.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A function under the name that it has in its chain, which reports and operators use: a chain may
/// have several functions of a kind.
pub struct Named<F: ?Sized> {
    /// The name.
    pub name: Arc<str>,
    /// The function.
    pub function: Box<F>,
}

impl<F: ?Sized> Named<F> {
    /// The names of functions.
    pub fn names(functions: &[Self]) -> Vec<String> {
        let names = functions.iter().map(|function| function.name.to_string());
        names.collect()
    }
}

impl<F: ?Sized> Deref for Named<F> {
    type Target = F;

    fn deref(&self) -> &F {
        &self.function
    }
}

impl<F: ?Sized> DerefMut for Named<F> {
    fn deref_mut(&mut self) -> &mut F {
        &mut self.function
    }
}
