//! Threads that take the processor away.

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
        let is_over = Arc::new(AtomicBool::new(false));
        let burner = |dice| {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || burn(&is_over, dice))
        };
        Self {
            threads: (1..=threads).map(burner).collect(),
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

fn burn(is_over: &AtomicBool, mut dice: u64) {
    while !is_over.load(Ordering::Relaxed) {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let spins = dice >> 44;
        (0..spins).for_each(|_| std::hint::spin_loop());
        std::thread::sleep(Duration::from_micros(dice >> 56));
    }
}
