//! A DPU as configuration makes it, beside a plain interpreter of the same.

mod against_interpreter;
mod changing_tables;
mod common;
mod example;
mod page;
mod policy_changes;
mod real;
mod redirects;
mod scale;
mod services;
mod tenants;
mod vectors;
mod zero_loss;
