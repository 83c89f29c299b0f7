//! What checks come to.

/// Nothing, or what is wrong.
pub type Checked = Result<(), String>;

/// Fails with a message, made only then.
pub fn require(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}
