//! Tests of the firewall as a whole.

mod agreement;
mod captures;
mod configuration;
mod errors;
mod fragments;
mod off_path;
mod pseudo;
mod talk;
mod tcp;
mod tcp_windows;
mod window_model;
