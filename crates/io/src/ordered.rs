//! Puts frames that leave two paths back into the order of their timestamps.
//!
//! Frames wait in a bounded heap until the caller's watermark has passed them.
//! What comes too late, or is pushed out because the heap is full, is counted
//! and still written: the output loses nothing and its timestamps never fall.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fmt;

use crate::error::CaptureError;
use crate::recycle::Recycler;
use crate::writer::{CaptureWriter, FrameSink};

/// A sink whose frames come out in the order of (timestamp, sequence, push).
///
/// A waiting frame counts with its length and what the heap keeps beside it.
/// Idle buffers may hold as much again as the limit.
pub struct OrderedWriter<S: FrameSink = CaptureWriter> {
    sink: S,
    waiting: BinaryHeap<Reverse<Waiting>>,
    recycler: Recycler,
    buffered_bytes: usize,
    limit_bytes: usize,
    arrivals: u64,
    last_written_ns: u64,
    counters: OrderedCounters,
}

/// How often order could not be kept.
#[must_use = "an output that was not kept in order should say so"]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderedCounters {
    /// Frames written before the watermark reached them because the limit on
    /// buffered bytes was.
    pub written_early: u64,
    /// Frames that arrived with a timestamp older than one already written,
    /// and were written with that one's instead.
    pub out_of_order: u64,
}

impl OrderedCounters {
    /// Whether every frame waited for its turn and got it with its own timestamp.
    pub fn is_in_order(self) -> bool {
        self == Self::default()
    }
}

impl fmt::Display for OrderedCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} frames written before their turn, {} written late with a raised timestamp",
            self.written_early, self.out_of_order
        )
    }
}

impl<S: FrameSink> OrderedWriter<S> {
    /// Stands before `sink` with at most `limit_bytes` waiting.
    pub fn new(sink: S, limit_bytes: usize) -> Self {
        Self {
            sink,
            waiting: BinaryHeap::new(),
            recycler: Recycler::new(limit_bytes),
            buffered_bytes: 0,
            limit_bytes,
            arrivals: 0,
            last_written_ns: 0,
            counters: OrderedCounters::default(),
        }
    }

    /// Lets a copy of a frame of interface 0 wait, as [`Self::push_on`] does.
    ///
    /// # Errors
    /// Those of the sink, if the limit forces a frame out.
    pub fn push(
        &mut self,
        timestamp_ns: u64,
        sequence: u64,
        frame: &[u8],
    ) -> Result<(), CaptureError> {
        self.push_on(0, timestamp_ns, sequence, frame)
    }

    /// Lets a copy of a frame of `interface` wait for its turn. Of frames with
    /// one timestamp the lower `sequence` goes first, whatever their
    /// interfaces; of equal ones, the first pushed.
    ///
    /// # Errors
    /// Those of the sink, if the limit forces a frame out.
    pub fn push_on(
        &mut self,
        interface: u32,
        timestamp_ns: u64,
        sequence: u64,
        frame: &[u8],
    ) -> Result<(), CaptureError> {
        let timestamp_ns = self.in_order(timestamp_ns);
        let frame = self.recycler.filled(frame);
        let waiting = Waiting {
            interface,
            timestamp_ns,
            sequence,
            arrival: self.arrivals,
            frame,
        };
        self.arrivals += 1;
        self.buffered_bytes += waiting.cost_bytes();
        self.waiting.push(Reverse(waiting));
        while self.buffered_bytes > self.limit_bytes {
            self.counters.written_early += 1;
            self.write_oldest()?;
        }
        Ok(())
    }

    /// Writes every frame strictly older than `watermark_ns`: the caller
    /// promises to push none of those any more.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn advance(&mut self, watermark_ns: u64) -> Result<(), CaptureError> {
        while self.oldest_ns().is_some_and(|oldest| oldest < watermark_ns) {
            self.write_oldest()?;
        }
        self.sink.hand_over()
    }

    /// Writes every frame and finishes the sink. What the sink leaves comes with
    /// how often order could not be kept, which whoever reads the output should
    /// be told: [`OrderedCounters`] says it in a line.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn finish(mut self) -> Result<(S::Finished, OrderedCounters), CaptureError> {
        while !self.waiting.is_empty() {
            self.write_oldest()?;
        }
        Ok((self.sink.finish()?, self.counters))
    }

    /// Bytes waiting, with what the heap keeps beside each frame.
    pub fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    /// How often order could not be kept so far.
    pub fn counters(&self) -> OrderedCounters {
        self.counters
    }

    fn in_order(&mut self, timestamp_ns: u64) -> u64 {
        if timestamp_ns < self.last_written_ns {
            self.counters.out_of_order += 1;
        }
        timestamp_ns.max(self.last_written_ns)
    }

    fn oldest_ns(&self) -> Option<u64> {
        self.waiting
            .peek()
            .map(|Reverse(waiting)| waiting.timestamp_ns)
    }

    fn write_oldest(&mut self) -> Result<(), CaptureError> {
        let Some(Reverse(oldest)) = self.waiting.pop() else {
            return Ok(());
        };
        self.buffered_bytes -= oldest.cost_bytes();
        self.last_written_ns = oldest.timestamp_ns;
        let written = self
            .sink
            .write_on(oldest.interface, oldest.timestamp_ns, &oldest.frame);
        self.recycler.put(oldest.frame);
        written
    }
}

struct Waiting {
    interface: u32,
    timestamp_ns: u64,
    sequence: u64,
    arrival: u64,
    frame: Vec<u8>,
}

impl Waiting {
    fn cost_bytes(&self) -> usize {
        self.frame.len() + size_of::<Self>()
    }

    fn key(&self) -> (u64, u64, u64) {
        (self.timestamp_ns, self.sequence, self.arrival)
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Waiting {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Trace;

    const COST: usize = size_of::<Waiting>();

    fn written(trace: &Trace) -> Vec<(u64, Vec<u8>)> {
        trace
            .iter()
            .map(|entry| (entry.timestamp_ns, entry.frame.to_vec()))
            .collect()
    }

    #[test]
    fn a_frame_keeps_its_interface_and_order_knows_nothing_of_it() {
        let mut writer = OrderedWriter::new(Trace::new(), 1 << 20);
        for (interface, timestamp_ns, sequence) in [(1, 30, 0), (3, 20, 1), (2, 20, 1), (7, 20, 0)]
        {
            writer
                .push_on(interface, timestamp_ns, sequence, &[])
                .unwrap();
        }
        writer.push(10, 0, &[]).unwrap();
        let (trace, counters) = writer.finish().unwrap();
        let interfaces: Vec<u32> = trace.iter().map(|entry| entry.interface).collect();
        assert_eq!(interfaces, [0, 7, 3, 2, 1]);
        assert!(counters.is_in_order());
    }

    #[test]
    fn what_was_not_in_order_is_said_in_a_line() {
        let counters = OrderedCounters {
            written_early: 2,
            out_of_order: 1,
        };
        assert!(!counters.is_in_order());
        assert_eq!(
            counters.to_string(),
            "2 frames written before their turn, 1 written late with a raised timestamp"
        );
    }

    #[test]
    fn only_frames_strictly_older_than_the_watermark_are_written() {
        let mut writer = OrderedWriter::new(Trace::new(), 1 << 20);
        for (timestamp_ns, frame) in [(30, b"c"), (10, b"a"), (20, b"b")] {
            writer.push(timestamp_ns, 0, frame).unwrap();
        }
        writer.advance(20).unwrap();
        assert_eq!(written(&writer.sink), [(10, b"a".to_vec())]);
        writer.advance(5).unwrap();
        assert_eq!(writer.sink.len(), 1);
        let (trace, counters) = writer.finish().unwrap();
        assert_eq!(
            written(&trace),
            [
                (10, b"a".to_vec()),
                (20, b"b".to_vec()),
                (30, b"c".to_vec())
            ]
        );
        assert_eq!(counters, OrderedCounters::default());
    }

    #[test]
    fn at_the_limit_the_oldest_goes_and_what_is_then_late_is_raised() {
        let mut writer = OrderedWriter::new(Trace::new(), 2 * (COST + 1));
        writer.push(30, 0, b"c").unwrap();
        writer.push(20, 0, b"b").unwrap();
        writer.push(40, 0, b"d").unwrap();
        assert_eq!(
            writer.counters(),
            OrderedCounters {
                written_early: 1,
                out_of_order: 0
            }
        );
        assert_eq!(writer.buffered_bytes(), 2 * (COST + 1));
        writer.push(10, 0, b"a").unwrap();
        assert_eq!(
            writer.counters(),
            OrderedCounters {
                written_early: 2,
                out_of_order: 1
            }
        );
        let (trace, _) = writer.finish().unwrap();
        let order = [(20, b"b"), (20, b"a"), (30, b"c"), (40, b"d")];
        assert_eq!(
            written(&trace),
            order.map(|(timestamp_ns, frame)| (timestamp_ns, frame.to_vec()))
        );
    }

    #[test]
    fn a_frame_larger_than_the_limit_passes_through() {
        let mut writer = OrderedWriter::new(Trace::new(), 100);
        writer.push(5, 0, &[1; 500]).unwrap();
        assert_eq!((writer.buffered_bytes(), writer.sink.len()), (0, 1));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push {
            timestamp_ns: u64,
            sequence: u64,
            len: usize,
        },
        Advance(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let push = (0_u64..50, 0_u64..3, 0_usize..200).prop_map(|(timestamp_ns, sequence, len)| {
            Step::Push {
                timestamp_ns,
                sequence,
                len,
            }
        });
        prop::collection::vec(
            prop_oneof![4 => push, 1 => (0_u64..60).prop_map(Step::Advance)],
            0..120,
        )
    }

    /// The same in a plain vector that is sorted anew at every step.
    #[derive(Default)]
    struct Reference {
        waiting: Vec<((u64, u64, u64), Vec<u8>)>,
        written: Vec<(u64, Vec<u8>)>,
        counters: OrderedCounters,
    }

    impl Reference {
        fn push(&mut self, key: (u64, u64, u64), frame: Vec<u8>, limit_bytes: usize) {
            let last_ns = self
                .written
                .last()
                .map_or(0, |(timestamp_ns, _)| *timestamp_ns);
            self.counters.out_of_order += u64::from(key.0 < last_ns);
            self.waiting
                .push(((key.0.max(last_ns), key.1, key.2), frame));
            self.waiting.sort();
            while self
                .waiting
                .iter()
                .map(|(_, frame)| frame.len() + COST)
                .sum::<usize>()
                > limit_bytes
            {
                self.counters.written_early += 1;
                self.write_first();
            }
        }

        fn advance(&mut self, watermark_ns: u64) {
            while self
                .waiting
                .first()
                .is_some_and(|((timestamp_ns, ..), _)| *timestamp_ns < watermark_ns)
            {
                self.write_first();
            }
        }

        fn write_first(&mut self) {
            let ((timestamp_ns, ..), frame) = self.waiting.remove(0);
            self.written.push((timestamp_ns, frame));
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_list(steps in steps(), limit_bytes in 0_usize..6000) {
            let mut writer = OrderedWriter::new(Trace::new(), limit_bytes);
            let mut reference = Reference::default();
            for (arrival, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Push { timestamp_ns, sequence, len } => {
                        let frame = vec![arrival as u8; len];
                        writer.push(timestamp_ns, sequence, &frame).unwrap();
                        reference.push((timestamp_ns, sequence, arrival as u64), frame, limit_bytes);
                    }
                    Step::Advance(watermark_ns) => {
                        writer.advance(watermark_ns).unwrap();
                        reference.advance(watermark_ns);
                    }
                }
                prop_assert_eq!(written(&writer.sink), reference.written.clone());
                prop_assert_eq!(writer.counters(), reference.counters);
                prop_assert!(writer.buffered_bytes() <= limit_bytes);
            }
            reference.advance(u64::MAX);
            let (trace, _) = writer.finish().unwrap();
            prop_assert!(trace.iter().is_sorted_by_key(|entry| entry.timestamp_ns));
            prop_assert_eq!(written(&trace), reference.written);
        }
    }
}
