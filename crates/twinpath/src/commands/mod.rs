//! One file for each thing that the command can do.

pub mod apply;
pub mod backends;
pub mod bindings;
pub mod capture;
pub mod change;
pub mod check;
pub mod compare;
pub mod completions;
pub mod counters;
pub mod dash;
pub mod drops;
pub mod explain;
pub mod flows;
pub mod generate;
pub mod init;
pub mod kv;
pub mod lab;
pub mod man;
pub mod memory_server;
pub mod rules;
pub mod run;
pub mod schema;
pub mod top;
pub mod trace;
pub mod validate;
