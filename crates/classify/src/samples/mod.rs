//! Rule sets, routes and packets with the statistics of real ones, the same for the same seed.

mod random;
mod routes;
mod rules;

pub use random::Random;
pub use routes::{addresses, routes_v4, routes_v6};
pub use rules::{Style, headers, rules};
