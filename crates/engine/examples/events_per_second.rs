//! How many events a second one core does, and how that falls with the events waiting: the heap
//! of [`twinpath_engine::Agenda`] beside a calendar queue, on the hold model (take the next event,
//! put one on a random time later). Time is what the thread spent on a core, where the system tells.
//!
//!     cargo run --release -p twinpath-engine --example events_per_second [EVENTS]

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Instant;
use twinpath_engine::{Agenda, Time};
use twinpath_traffic::random::{Random, RandomSource};

/// Mean time to the next occurrence of an event, ps.
const MEAN: f64 = 1e6;

fn main() {
    let argument = std::env::args().nth(1);
    let events: u64 = argument
        .and_then(|text| text.parse().ok())
        .unwrap_or(3_000_000);
    println!("{:>9}  {:>14}  {:>14}", "waiting", "heap", "calendar");
    for waiting in [3, 10, 100, 1_000, 10_000, 100_000, 1_000_000] {
        let heap = hold(&mut HeapQueue(Agenda::default()), waiting, events);
        let calendar = hold(&mut Calendar::new(waiting), waiting, events);
        println!("{waiting:>9}  {heap:>10.1} M/s  {calendar:>10.1} M/s");
    }
}

trait Queue {
    fn put(&mut self, time: u64, event: u64);
    fn take(&mut self) -> (u64, u64);
}

/// Millions of events a second.
fn hold(queue: &mut impl Queue, waiting: usize, events: u64) -> f64 {
    let mut random = Random::stream(1, 0);
    for event in 0..waiting as u64 {
        queue.put(random.exponential(MEAN) as u64, event);
    }
    let (begin, begin_ns) = (Instant::now(), on_core_ns());
    for _ in 0..events {
        let (time, event) = queue.take();
        queue.put(time + random.exponential(MEAN) as u64, black_box(event));
    }
    let elapsed_ns = match (begin_ns, on_core_ns()) {
        (Some(begin_ns), Some(end_ns)) => end_ns - begin_ns,
        _ => begin.elapsed().as_nanos() as u64,
    };
    events as f64 * 1e3 / elapsed_ns as f64
}

struct HeapQueue(Agenda<u64>);

impl Queue for HeapQueue {
    fn put(&mut self, time: u64, event: u64) {
        self.0.at(Time(time), event);
    }

    fn take(&mut self) -> (u64, u64) {
        let event = self.0.pop().expect("as many are put as taken");
        (self.0.now().0, event)
    }
}

/// A calendar queue whose days are right from the start, which no real one knows: the best case.
struct Calendar {
    days: Vec<VecDeque<(u64, u64, u64)>>,
    day_ps: u64,
    today: u64,
    sequence: u64,
}

impl Calendar {
    fn new(waiting: usize) -> Self {
        let days = waiting.next_power_of_two().max(4);
        Self {
            days: vec![VecDeque::new(); days],
            day_ps: ((2.0 * MEAN / waiting as f64) as u64).max(1),
            today: 0,
            sequence: 0,
        }
    }
}

impl Queue for Calendar {
    fn put(&mut self, time: u64, event: u64) {
        let day = (time / self.day_ps) as usize & (self.days.len() - 1);
        let entry = (time, self.sequence, event);
        self.sequence += 1;
        let list = &mut self.days[day];
        let place = list.iter().rposition(|other| *other < entry);
        list.insert(place.map_or(0, |place| place + 1), entry);
    }

    fn take(&mut self) -> (u64, u64) {
        loop {
            let end = (self.today + 1) * self.day_ps;
            let day = self.today as usize & (self.days.len() - 1);
            let list = &mut self.days[day];
            if list.front().is_some_and(|(time, ..)| *time < end) {
                let (time, _, event) = list.pop_front().expect("it has a front");
                return (time, event);
            }
            self.today += 1;
        }
    }
}

/// Time that this thread has spent on a core, from Linux.
fn on_core_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}
