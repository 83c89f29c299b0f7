#![allow(dead_code, reason = "each test uses its part")]

pub mod direct;
pub mod functions;
pub mod observed;
pub mod oracle;
pub mod traffic;
pub mod virtual_link;
