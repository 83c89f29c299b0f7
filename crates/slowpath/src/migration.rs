//! A chain becomes another one while flows live: which functions stay, and how the flows' words
//! follow them to their new places.

use crate::chain::Chain;
use crate::function::NetworkFunction;
use std::ops::Range;
use twinpath_core::{Instant, Named};

/// A function of the next chain.
pub enum NextFunction {
    /// The function at this place of the present chain, with all it knows.
    Same(usize),
    /// The function at this place, with the configuration of another one, which knows nothing.
    Reconfigured(usize, Named<dyn NetworkFunction>),
    /// One that begins: every flow is unknown to it.
    New(Named<dyn NetworkFunction>),
}

/// Where a function's words and handle come from and go to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Move {
    words_from: Range<usize>,
    handle_from: usize,
    words_to: Range<usize>,
    handle_to: usize,
    adapts: bool,
}

/// How flows follow from one chain to the next. What no function takes with it is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Migration(Vec<Move>);

/// A flow's words and handles in the old chain's places.
#[derive(Copy, Clone, Debug)]
pub struct Before<'a> {
    /// State words of all functions.
    pub words: &'a [u32],
    /// Handles, one per function.
    pub handles: &'a [u32],
}

impl Chain {
    /// Becomes another chain; `started` is when the run began. No packet may be under way, and
    /// none kept that the next chain should not have. Returns how flows follow, and the functions
    /// that are left.
    pub fn succeed(
        &mut self,
        successors: Vec<NextFunction>,
        started: Instant,
    ) -> (Migration, Vec<Named<dyn NetworkFunction>>) {
        let (functions, places) = self.take_functions();
        let mut old: Vec<_> = functions.into_iter().map(Some).collect();
        let mut left = Vec::new();
        let mut next = Vec::new();
        let mut origins = Vec::new();
        for successor in successors {
            let (mut function, origin) = settle(successor, &mut old, &mut left);
            if origin.is_none() {
                function.start(started);
            }
            next.push(function);
            origins.push(origin);
        }
        left.extend(old.into_iter().flatten());
        *self = Self::named(next);
        (Migration(self.moves(&origins, &places)), left)
    }

    fn moves(&self, origins: &[Option<Origin>], old: &[Range<usize>]) -> Vec<Move> {
        let moves = origins.iter().enumerate().filter_map(|(place, origin)| {
            let Origin {
                place: from,
                adapts,
            } = (*origin)?;
            let (words_from, words_to) = (old.get(from)?.clone(), self.words_of(place));
            // A layout that differs cannot be understood: the function begins anew.
            (words_from.len() == words_to.len()).then_some(Move {
                words_from,
                handle_from: from,
                words_to,
                handle_to: place,
                adapts,
            })
        });
        moves.collect()
    }

    /// Lets one flow follow; its new words and handles are all zero before.
    pub fn migrate_flow(
        &mut self,
        passage: &Migration,
        before: Before<'_>,
        words: &mut [u32],
        handles: &mut [u32],
    ) {
        for step in &passage.0 {
            let to = &mut words[step.words_to.clone()];
            to.copy_from_slice(&before.words[step.words_from.clone()]);
            let handle = &mut handles[step.handle_to];
            *handle = before.handles[step.handle_from];
            if step.adapts && (*handle != 0 || to.iter().any(|&word| word != 0)) {
                self.adapt(step.handle_to, to, handle);
            }
        }
    }
}

/// The function that a function of the next chain was.
#[derive(Copy, Clone)]
struct Origin {
    place: usize,
    adapts: bool,
}

fn settle(
    successor: NextFunction,
    old: &mut [Option<Named<dyn NetworkFunction>>],
    left: &mut Vec<Named<dyn NetworkFunction>>,
) -> (Named<dyn NetworkFunction>, Option<Origin>) {
    const THERE: &str = "a function of the present chain is named once";
    let mut take = |place: usize| old.get_mut(place).and_then(Option::take).expect(THERE);
    match successor {
        NextFunction::New(function) => (function, None),
        NextFunction::Same(place) => {
            let adapts = false;
            (take(place), Some(Origin { place, adapts }))
        }
        NextFunction::Reconfigured(place, mut new) => {
            let mut function = take(place);
            let adapts = function.reconfigure(&mut *new.function);
            match adapts {
                true => {
                    left.push(new);
                    (function, Some(Origin { place, adapts }))
                }
                false => {
                    left.push(function);
                    (new, None)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::{Flow, Outbox};
    use std::any::Any;
    use twinpath_core::Packet;
    use twinpath_core::program::{FastProgram, Word};

    /// Has `words` state words; its configuration is what it adds to each when it adapts.
    struct Counting {
        words: usize,
        adds: u32,
        started: Option<Instant>,
    }

    const WORD: Word = Word {
        name: "count",
        meaning: "counts",
    };

    impl NetworkFunction for Counting {
        fn name(&self) -> &'static str {
            "counting"
        }

        fn program(&self) -> FastProgram {
            FastProgram {
                name: "counting".into(),
                words: vec![WORD; self.words],
                ..FastProgram::default()
            }
        }

        fn start(&mut self, now: Instant) {
            self.started = Some(now);
        }

        fn handle(&mut self, packet: Packet, _flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
            out.forward(packet);
        }

        fn is_expired(&self, _words: &[u32], _now: Instant) -> bool {
            false
        }

        fn reconfigure(&mut self, new: &mut dyn NetworkFunction) -> bool {
            let new = (new as &mut dyn Any).downcast_mut::<Self>();
            new.is_some_and(|new| {
                std::mem::swap(&mut self.adds, &mut new.adds);
                self.words == new.words
            })
        }

        fn adapt(&mut self, words: &mut [u32], handle: &mut u32) {
            words.iter_mut().for_each(|word| *word += self.adds);
            *handle += self.adds;
        }

        fn counters(&self, _each: &mut dyn FnMut(&'static str, u64)) {}
    }

    fn counting(words: usize, adds: u32) -> Box<dyn NetworkFunction> {
        let started = None;
        Box::new(Counting {
            words,
            adds,
            started,
        })
    }

    fn named(words: usize, adds: u32) -> Named<dyn NetworkFunction> {
        let (name, function) = ("counting".into(), counting(words, adds));
        Named { name, function }
    }

    fn follow(
        chain: &mut Chain,
        passage: &Migration,
        words: &[u32],
        handles: &[u32],
    ) -> [Vec<u32>; 2] {
        let mut new = [vec![0; chain.word_count()], vec![0; chain.len()]];
        let [new_words, new_handles] = &mut new;
        let before = Before { words, handles };
        chain.migrate_flow(passage, before, new_words, new_handles);
        new
    }

    #[test]
    fn words_follow_their_functions() {
        let mut chain = Chain::new(vec![counting(1, 0), counting(2, 0), counting(3, 0)]);
        let (passage, left) = chain.succeed(
            vec![
                NextFunction::Reconfigured(2, named(3, 100)),
                NextFunction::New(named(2, 0)),
                NextFunction::Same(0),
            ],
            Instant(5),
        );
        assert_eq!((chain.word_count(), left.len()), (6, 2));
        let moved = follow(&mut chain, &passage, &[1, 2, 3, 4, 5, 6], &[7, 8, 9]);
        assert_eq!(moved, [vec![104, 105, 106, 0, 0, 1], vec![109, 0, 7]]);
        let unknown = follow(&mut chain, &passage, &[1, 2, 3, 0, 0, 0], &[0, 8, 0]);
        assert_eq!(unknown[0], [0, 0, 0, 0, 0, 1], "zero stays absence");
    }

    /// Only functions that begin are told when the run began.
    #[test]
    fn those_of_another_kind_begin_anew() {
        let mut chain = Chain::new(vec![counting(1, 0), counting(1, 0)]);
        let (passage, left) = chain.succeed(
            vec![
                NextFunction::Reconfigured(0, named(2, 1)),
                NextFunction::Same(1),
            ],
            Instant(5),
        );
        assert_eq!(left.len(), 1);
        let mut started = Vec::new();
        chain.functions().iter().for_each(|function| {
            let function = (&*function.function as &dyn Any).downcast_ref::<Counting>();
            started.push(function.expect("ours").started);
        });
        assert_eq!(started, [Some(Instant(5)), None]);
        let moved = follow(&mut chain, &passage, &[1, 2], &[3, 4]);
        assert_eq!(moved, [vec![0, 0, 2], vec![0, 4]]);
    }
}
