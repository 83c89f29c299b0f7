//! What tests of the pipeline share: objects in plain maps, and the stages as the specification has
//! them.
#![allow(dead_code, reason = "each test uses a part")]

pub mod changes;
pub mod connections;
pub mod interpreter;
pub mod leaving;
pub mod packets;
pub mod redirects;
pub mod traffic;
pub mod versions;
