//! Threads that take the processor away.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Threads that take the processor away now and then, as long as this lives.
pub struct Burners {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Burners {
    /// So many.
    pub fn start(threads: u64) -> Self {
        Self::burning(threads, 0, LONG)
    }

    /// The same more often and for shorter, at times that follow from a seed.
    pub fn drawn(threads: u64, seed: u64) -> Self {
        Self::burning(threads, seed, SHORT)
    }

    fn burning(threads: u64, seed: u64, bits: u32) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let burner = |dice| {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || burn(&is_over, dice, bits))
        };
        Self {
            threads: (1..=threads)
                .map(|thread| burner(seed.wrapping_add(thread)))
                .collect(),
            is_over,
        }
    }
}

impl Drop for Burners {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "it only burns");
        }
    }
}

/// Binary digits of the number of turns that a thread burns for at most.
const LONG: u32 = 20;
const SHORT: u32 = 14;

fn burn(is_over: &AtomicBool, mut dice: u64, bits: u32) {
    while !is_over.load(Ordering::Relaxed) {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let spins = dice >> (64 - bits);
        (0..spins).for_each(|_| std::hint::spin_loop());
        std::thread::sleep(Duration::from_micros(dice >> 56));
    }
}

/// This thread, and those that it starts, run on so many cores. `false` if there are not so many.
pub fn bind_to(cores: usize) -> bool {
    let all = sched_getaffinity(None).expect("it can always be asked for");
    let mut some = CpuSet::new();
    let there = (0..CpuSet::MAX_CPU).filter(|&core| all.is_set(core));
    there.take(cores).for_each(|core| some.set(core));
    sched_setaffinity(None, &some).expect("fewer cores are always permitted");
    some.count() as usize == cores
}

/// How often the processor has been taken away from this thread.
pub fn preempted() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("a Linux host");
    let mut lines = status.lines();
    let count = lines.find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    count
        .and_then(|count| count.trim().parse().ok())
        .expect("each thread has it")
}
