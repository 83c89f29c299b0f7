//! How a run is ended before its packets are.

use crate::error::CommandError;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Becomes true when it is time to stop.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A stop at Ctrl-C, or at a request to terminate. The second one ends the process at once.
    pub fn on_signals() -> Result<Self, CommandError> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM] {
            // What a shell shows for a process that the signal ended.
            let exit_code = 128 + signal;
            flag::register_conditional_shutdown(signal, exit_code, stop.flag())
                .map_err(CommandError::Signals)?;
            flag::register(signal, stop.flag()).map_err(CommandError::Signals)?;
        }
        Ok(stop)
    }

    /// Stops after a time, too.
    pub fn after(&self, time: Duration) {
        let flag = self.flag();
        std::thread::spawn(move || {
            std::thread::sleep(time);
            flag.store(true, Ordering::Relaxed);
        });
    }

    /// The flag, to hand on.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Whether it is time to stop.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A flag that becomes true at SIGHUP.
pub fn on_hangup() -> Result<Arc<AtomicBool>, CommandError> {
    let is_asked = Arc::default();
    flag::register(SIGHUP, Arc::clone(&is_asked)).map_err(CommandError::Signals)?;
    Ok(is_asked)
}
