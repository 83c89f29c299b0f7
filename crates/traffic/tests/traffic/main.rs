//! What the generator makes.

mod any_config;
mod common;
mod connections;
mod reproducible;
mod schedule;
