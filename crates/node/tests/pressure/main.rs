//! Threads that get too little: of processors, of buffers, of time.

#[path = "../common/mod.rs"]
mod common;
mod lossless;
mod one_core;
mod overload;
mod racing;
