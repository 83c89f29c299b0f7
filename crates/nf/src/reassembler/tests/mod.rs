//! Scenarios, properties, and the agreement of both paths.

mod agreement;
mod bench;
mod cutting;
mod limits;
mod scenarios;
mod script;
mod streams;
