//! Captures beside each other, and a plain reference.

mod captures;
mod common;
mod kinds;
mod plain_reference;
mod renaming;
mod renaming_reference;
