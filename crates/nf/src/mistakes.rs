//! What is wrong with a file that a configuration names: all of it, not only what is met first.

use std::error::Error;
use std::fmt::{self, Debug, Display, Formatter};

/// So many mistakes of a file are told; of more, how many there are.
pub const MOST_TOLD: usize = 64;

/// The mistakes of a file, in the order of its lines. Displays as one line for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes<E> {
    told: Vec<E>,
    untold: usize,
}

impl<E> Mistakes<E> {
    /// None so far.
    pub(crate) const fn none() -> Self {
        Self {
            told: Vec::new(),
            untold: 0,
        }
    }

    /// One more, which comes behind all others.
    pub(crate) fn push(&mut self, mistake: E) {
        match self.told.len() < MOST_TOLD {
            true => self.told.push(mistake),
            false => self.untold += 1,
        }
    }

    /// What was read, if nothing is wrong.
    ///
    /// # Errors
    /// Something is.
    pub(crate) fn or<T>(self, value: T) -> Result<T, Self> {
        match self.told.is_empty() {
            true => Ok(value),
            false => Err(self),
        }
    }

    /// Those that are told, the first [`MOST_TOLD`].
    pub fn told(&self) -> &[E] {
        &self.told
    }

    /// How many more there are.
    pub const fn untold(&self) -> usize {
        self.untold
    }
}

impl<E> From<E> for Mistakes<E> {
    fn from(mistake: E) -> Self {
        Self {
            told: vec![mistake],
            untold: 0,
        }
    }
}

impl<E: Display> Display for Mistakes<E> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (place, mistake) in self.told.iter().enumerate() {
            let end = if place == 0 { "" } else { "\n  " };
            write!(f, "{end}{mistake}")?;
        }
        match self.untold {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more mistakes"),
        }
    }
}

impl<E: Error> Error for Mistakes<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_on_a_line_of_its_own_up_to_a_bound() {
        let mut mistakes = Mistakes::none();
        assert_eq!(mistakes.clone().or(7), Ok::<_, Mistakes<usize>>(7));
        (0..MOST_TOLD + 3).for_each(|number| mistakes.push(number));
        let shown = mistakes.to_string();
        assert!(shown.starts_with("0\n  1\n  2\n"), "{shown}");
        assert!(shown.ends_with("\n  63\n  and 3 more mistakes"), "{shown}");
        assert!(mistakes.or(7).is_err());
    }
}
