//! The command as a user meets it: what it prints, what it leaves behind, how it exits.

mod a_day;
mod check;
mod compare;
mod control;
mod dash;
mod dash_run;
mod examples;
mod explain;
mod export;
mod files;
mod folder;
mod following;
mod generate;
mod kv;
mod lab;
mod looks;
mod made_files;
mod operator;
mod run;
mod streams;
mod telemetry;
mod trace;
mod unit;
mod usage;
mod validate;
mod warnings;
