//! The order in which what a worker says is taken, while it goes on to say more.
//!
//! A worker gives frames back, then says how far it is, then answers a command. So whoever looks
//! the other way round never hears of what has not come yet: answers first, then how far the worker
//! is, frames last. And hands it in as it was said: frames first.

use crate::machine::{Machine, Output, Progress, WorkerAnswer};
use twinpath_coherence::Clock;
use twinpath_core::Frame;

/// What a worker has said since it was looked at last.
pub(super) trait WorkerOutput {
    fn answers(&mut self) -> Vec<WorkerAnswer>;
    fn progress(&mut self) -> Progress;
    fn frames(&mut self, into: &mut Vec<Frame>);
}

/// Who hears it.
pub(super) trait TakesReturns {
    /// The frames are drained.
    fn returned(&mut self, frames: &mut Vec<Frame>);
    fn progress(&mut self, progress: Progress);
    fn answered(&mut self, answer: WorkerAnswer);
}

/// Takes what a worker has said. `frames` is empty before and after.
pub(super) fn take(
    output: &mut impl WorkerOutput,
    frames: &mut Vec<Frame>,
    hears: &mut impl TakesReturns,
) {
    let answers = output.answers();
    let progress = output.progress();
    output.frames(frames);
    hears.returned(frames);
    hears.progress(progress);
    answers
        .into_iter()
        .for_each(|answer| hears.answered(answer));
}

/// The machine hears a worker.
pub(super) struct MachineInput<'a> {
    pub worker: usize,
    pub clock: Clock,
    pub machine: &'a mut Machine,
    pub out: &'a mut Output,
}

impl TakesReturns for MachineInput<'_> {
    fn returned(&mut self, frames: &mut Vec<Frame>) {
        self.machine
            .returned(self.worker, frames, self.clock, self.out);
    }

    fn progress(&mut self, progress: Progress) {
        self.machine.progress(self.worker, progress, self.out);
    }

    fn answered(&mut self, answer: WorkerAnswer) {
        self.machine
            .answered(self.worker, answer, self.clock, self.out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::worker::{End, WorkerLink, worker_link};
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use twinpath_core::Pool;

    /// What a worker does: each frame, then how far it is; behind the last one it answers.
    #[derive(Copy, Clone, Debug)]
    enum Said {
        Frame(u8),
        Progress(u32),
        Answer,
    }

    const SAID: [Said; 5] = [
        Said::Frame(1),
        Said::Progress(1),
        Said::Frame(2),
        Said::Progress(2),
        Said::Answer,
    ];

    /// A worker that goes on, so many steps, whenever it is about to be looked at.
    struct GoesOn {
        worker_link: WorkerLink,
        end: End,
        pool: Pool,
        said: usize,
        steps: Vec<usize>,
    }

    impl GoesOn {
        fn new(steps: &[usize]) -> Self {
            let (worker_link, end) = worker_link(8, &Arc::new(AtomicBool::new(false)));
            Self {
                worker_link,
                end,
                pool: Pool::new(4, 64),
                said: 0,
                steps: steps.iter().rev().copied().collect(),
            }
        }

        fn go_on(&mut self) {
            let steps = self.steps.pop().unwrap_or(SAID.len());
            let until = SAID.len().min(self.said + steps);
            for said in &SAID[self.said..until] {
                match *said {
                    Said::Frame(byte) => {
                        let frame = self.pool.take_filled(&[byte]).expect("a buffer");
                        assert!(self.end.send(frame).is_ok(), "there is room");
                    }
                    Said::Progress(finished) => self.end.say_progress(Progress {
                        finished,
                        ..Progress::default()
                    }),
                    Said::Answer => self.end.say_answer(WorkerAnswer::Done),
                }
            }
            self.said = until;
        }
    }

    impl WorkerOutput for GoesOn {
        fn answers(&mut self) -> Vec<WorkerAnswer> {
            self.go_on();
            self.worker_link.answers()
        }

        fn progress(&mut self) -> Progress {
            self.go_on();
            self.worker_link.progress()
        }

        fn frames(&mut self, into: &mut Vec<Frame>) {
            self.go_on();
            self.worker_link.frames(into);
        }
    }

    /// What has been heard. Nothing is told of before it is there.
    #[derive(Default)]
    struct Heard {
        frames: Vec<u8>,
        finished: u32,
        answers: usize,
    }

    impl TakesReturns for Heard {
        fn returned(&mut self, frames: &mut Vec<Frame>) {
            self.frames
                .extend(frames.drain(..).map(|frame| frame.bytes()[0]));
        }

        fn progress(&mut self, progress: Progress) {
            self.finished = progress.finished;
            let come = self.frames.len();
            assert!(
                come >= progress.finished as usize,
                "{come} frames have come"
            );
        }

        fn answered(&mut self, _: WorkerAnswer) {
            self.answers += 1;
            assert_eq!((&self.frames[..], self.finished), (&[1, 2][..], 2));
        }
    }

    /// However far the worker goes on between two looks at it, in two turns.
    #[test]
    fn nothing_is_told_of_before_it_has_come() {
        let looks = 6;
        let digits = SAID.len() + 1;
        for number in 0..digits.pow(looks) {
            let digit = |place| number / digits.pow(place) % digits;
            let steps: Vec<_> = (0..looks).map(digit).collect();
            if steps.iter().sum::<usize>() > SAID.len() {
                continue;
            }
            let (mut worker, mut heard) = (GoesOn::new(&steps), Heard::default());
            let mut frames = Vec::new();
            (0..3).for_each(|_| take(&mut worker, &mut frames, &mut heard));
            assert_eq!((heard.frames, heard.answers), (vec![1, 2], 1), "{steps:?}");
        }
    }
}
