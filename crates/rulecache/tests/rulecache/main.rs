//! Rules over a link, and how they are made.

mod change;
mod common;
mod holes;
mod synthesis;
mod virtual_link;
