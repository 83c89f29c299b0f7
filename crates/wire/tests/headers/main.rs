//! Headers, beside other parsers and real captures.

mod against_etherparse;
mod captures;
mod common;
mod hostile;
mod layers;
mod rewrites;
mod roce;
mod tunnel;
