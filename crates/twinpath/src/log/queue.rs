//! Lines on their way to somebody who may read slowly, or not at all: whoever tells something never waits.
//!
//! A thread of its own writes them. While it waits for the reader, lines wait in memory; what there is no room for is
//! lost and counted, which is told when lines are read again.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Most bytes that wait.
const MOST_BYTES: usize = 1 << 20;

/// What waits to be written.
#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    /// Of all these lines.
    bytes: usize,
    /// A line is being written.
    is_writing: bool,
    /// Lines that were lost since the start, and how many of them were told of.
    lost: u64,
    told: u64,
}

/// Lines that wait for their thread.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Queue {
    /// A queue whose lines `write` gets on a thread of its own, as long as the process lives. `tell_lost` hears how many
    /// lines were lost since the start, when there are more than before; what it says may be such a line.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn begin(
        mut write: impl FnMut(&[u8]) + Send + 'static,
        tell_lost: fn(u64),
    ) -> io::Result<Arc<Self>> {
        let queue = Arc::<Self>::default();
        let own = Arc::clone(&queue);
        let run = move || {
            loop {
                write(&own.next());
                if let Some(lost) = own.is_written() {
                    tell_lost(lost);
                }
            }
        };
        Builder::new().name("log".into()).spawn(run)?;
        Ok(queue)
    }

    /// Adds a line, or counts it where there is no room for it.
    pub fn push(&self, line: &[u8]) {
        let mut waiting = self.waiting();
        if waiting.bytes + line.len() > MOST_BYTES {
            waiting.lost += 1;
            return;
        }
        waiting.bytes += line.len();
        waiting.lines.push_back(line.to_vec());
        self.changed.notify_all();
    }

    /// Waits until all lines are written, but no longer than this.
    pub fn drain(&self, longest: Duration) {
        let end = Instant::now() + longest;
        let mut waiting = self.waiting();
        while waiting.is_writing || !waiting.lines.is_empty() {
            let Some(rest) = end.checked_duration_since(Instant::now()) else {
                return;
            };
            let waited = self.changed.wait_timeout(waiting, rest);
            (waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next line, as soon as there is one.
    fn next(&self) -> Vec<u8> {
        let mut waiting = self.waiting();
        loop {
            if let Some(line) = waiting.lines.pop_front() {
                waiting.bytes -= line.len();
                waiting.is_writing = true;
                return line;
            }
            let changed = self.changed.wait(waiting);
            waiting = changed.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A line was written. How many were lost since the start, if that is to be told: once there is room again, so
    /// that what is told is not itself in the way.
    fn is_written(&self) -> Option<u64> {
        let mut waiting = self.waiting();
        waiting.is_writing = false;
        self.changed.notify_all();
        let has_room = waiting.bytes < MOST_BYTES / 2;
        if !has_room || waiting.lost == waiting.told {
            return None;
        }
        waiting.told = waiting.lost;
        Some(waiting.lost)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(60);

    /// A reader that takes one line for each word that it is given.
    fn slow_reader(tell_lost: fn(u64)) -> (Arc<Queue>, mpsc::Sender<()>, mpsc::Receiver<Vec<u8>>) {
        let (let_go, may_go) = mpsc::channel();
        let (sender, receiver) = mpsc::channel();
        let write = move |line: &[u8]| {
            let _ = may_go.recv();
            let _ = sender.send(line.to_vec());
        };
        let queue = Queue::begin(write, tell_lost).expect("a thread");
        (queue, let_go, receiver)
    }

    #[test]
    fn lines_come_in_their_order() {
        let (queue, let_go, read) = slow_reader(|_| panic!("none is lost"));
        let lines = [b"one\n", b"two\n", b"six\n"];
        for line in lines {
            queue.push(line);
            let_go.send(()).expect("it reads");
        }
        queue.drain(LONG);
        let came: Vec<_> = read.try_iter().collect();
        assert_eq!(came, lines);
    }

    #[test]
    fn what_nobody_reads_is_counted_and_keeps_nobody_waiting() {
        static LOST: AtomicU64 = AtomicU64::new(0);
        let (queue, let_go, read) = slow_reader(|lost| LOST.store(lost, Ordering::Relaxed));
        const LINE: [u8; 1024] = [b'.'; 1024];
        const ROOM: usize = MOST_BYTES / LINE.len();
        const MORE: usize = 10;
        // One line is the writer's.
        queue.push(&LINE);
        while !queue.waiting().is_writing {
            std::thread::yield_now();
        }
        (0..ROOM + MORE).for_each(|_| queue.push(&LINE));
        queue.drain(Duration::ZERO);
        assert_eq!(read.try_iter().count(), 0, "nobody reads");
        (0..=ROOM).for_each(|_| let_go.send(()).expect("it reads"));
        queue.drain(LONG);
        assert_eq!(read.try_iter().count(), 1 + ROOM);
        assert_eq!(LOST.load(Ordering::Relaxed), MORE as u64);
    }
}
