//! Threads have names by which `top -H` tells what each is busy with. The thread that a process begins
//! with keeps the program's name, by which processes are looked for: in a run of one shard it is the fast
//! path.

use std::ffi::CString;

/// The name of a shard's fast path, where there are several. Linux shows 15 bytes.
pub fn of_fast_path(shard: u16) -> String {
    format!("fast path {shard}")
}

/// The name of a worker, in a shard if there are several.
pub fn of_worker(number: usize, shard: Option<u16>) -> String {
    match shard {
        None => format!("worker {number}"),
        Some(shard) => format!("worker {shard}.{number}"),
    }
}

/// This thread has that name from now on. Without one it works as well.
pub fn take(name: &str) {
    if let Ok(name) = CString::new(name) {
        let _ = rustix::thread::set_name(&name);
    }
}
