//! Service files, statistics and reports.
//!
//! A [`service`] file is what an operator writes. A run is told three times: while it goes on by [`live`], at its end by
//! [`report`] in three forms (a summary for the terminal, `report.json` for
//! programs, `report.html` for people). Both are fed with plain counters by
//! whoever runs the service; nothing here reads a clock or touches a packet.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod flow_filter;
pub mod live;
pub mod look;
pub mod operator;
pub mod report;
pub mod service;
pub mod text_place;
