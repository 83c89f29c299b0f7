//! One file for each thing that the command can do.

pub mod apply;
pub mod change;
pub mod check;
pub mod compare;
pub mod completions;
pub mod explain;
pub mod generate;
pub mod init;
pub mod kv;
pub mod lab;
pub mod man;
pub mod rules;
pub mod run;
pub mod schema;
pub mod trace;
pub mod validate;
