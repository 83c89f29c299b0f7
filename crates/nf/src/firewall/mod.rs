//! A stateful firewall.
pub mod config;
pub mod connection;
pub mod function;
pub mod program;
pub mod rule;
pub mod rules;
pub mod segment;
pub mod tcp_state;
pub mod window;

pub use config::Config;
pub use function::Firewall;
