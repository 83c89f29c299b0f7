//! Whether an interface takes VLAN tags off frames that arrive.
//!
//! AF_XDP sees frames as the card has written them, so a port has the card leave tags where they are,
//! and as it was when the port is closed.

use crate::interface::{set_strips_tags, strips_tags};

/// What an interface does with tags while a port has it.
#[derive(Debug)]
pub struct Stripping {
    name: String,
    /// It took tags off before, and does not any more.
    is_to_be_put_back: bool,
    is_on: bool,
}

impl Stripping {
    /// Has an interface leave tags in frames, if it can, and `is_kept` if it stays so when this is gone.
    pub fn off(name: &str, is_kept: bool) -> Self {
        let was_on = strips_tags(name).unwrap_or(false);
        let is_off = was_on && set_strips_tags(name, false).is_ok();
        Self {
            name: name.to_owned(),
            is_to_be_put_back: is_off && !is_kept,
            is_on: was_on && strips_tags(name).unwrap_or(true),
        }
    }

    /// Whether it takes tags off all the same.
    pub const fn is_on(&self) -> bool {
        self.is_on
    }
}

impl Drop for Stripping {
    fn drop(&mut self) {
        if self.is_to_be_put_back {
            // An interface that is gone has nothing to be put back.
            let _ = set_strips_tags(&self.name, true);
        }
    }
}
