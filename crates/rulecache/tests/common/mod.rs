#![allow(dead_code, reason = "each test uses its part")]

pub mod functions;
pub mod traffic;
pub mod virtual_link;
pub mod direct;
