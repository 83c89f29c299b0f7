//! Questions to a DPU's policies that are not answered yet, by number, in the order of asking.

use std::collections::VecDeque;

use twinpath_core::{Frame, Instant};
use twinpath_dash::{Answer, Question};

/// A question, and who waits for its answer.
pub(super) struct Asked {
    pub question: Question,
    pub answer: Option<Box<Answer>>,
    pub behind: VecDeque<Frame>,
    /// On the link's clock.
    pub since: Instant,
}

impl Asked {
    pub const fn new(question: Question, since: Instant) -> Self {
        Self {
            question,
            answer: None,
            behind: VecDeque::new(),
            since,
        }
    }
}

/// Those from the oldest that is open to the last, each at its number.
#[derive(Default)]
pub(super) struct Questions {
    window: VecDeque<Option<Box<Asked>>>,
    /// Of the first in the window.
    first: u32,
    open: usize,
}

impl Questions {
    /// How many are open.
    pub const fn len(&self) -> usize {
        self.open
    }

    /// One more, whose number is behind those of all others.
    pub fn add(&mut self, number: u32, asked: Asked) {
        if self.window.is_empty() {
            self.first = number;
        }
        // Numbers between were given to questions that were never sent.
        let place = number.wrapping_sub(self.first) as usize;
        self.window.resize_with(place, || None);
        self.window.push_back(Some(Box::new(asked)));
        self.open += 1;
    }

    /// One that is open.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Asked> {
        let place = number.wrapping_sub(self.first) as usize;
        self.window.get_mut(place)?.as_deref_mut()
    }

    /// One that is open no longer.
    pub fn take(&mut self, number: u32) -> Option<Asked> {
        let place = number.wrapping_sub(self.first) as usize;
        let asked = self.window.get_mut(place)?.take()?;
        self.open -= 1;
        while let Some(None) = self.window.front() {
            self.window.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        Some(*asked)
    }

    /// The oldest that is open, and its number.
    pub fn oldest(&self) -> Option<(u32, &Asked)> {
        Some((self.first, self.window.front()?.as_deref()?))
    }
}

#[cfg(test)]
mod tests {
    use twinpath_core::wire::tunnel::Encapsulation;
    use twinpath_core::wire::{Address, MacAddress};
    use twinpath_dash::flows::EntryKey;
    use twinpath_dash::headers::{Direction, Headers};
    use twinpath_dash::pipeline::Arrival;

    use super::*;

    fn asked_at(time: u64) -> Asked {
        let (direction, address) = (Direction::Outbound, Address::from_v4([10, 0, 0, 1]));
        let headers = Headers {
            source: address,
            destination: address,
            protocol: 17,
            ports: Some([1, 2]),
        };
        let arrival = Arrival {
            direction,
            way: direction,
            eni: 0,
            encapsulation: Encapsulation::Vxlan,
            key: 1,
            outer_source: address,
            source_mac: MacAddress([2; 6]),
            headers,
            entropy: 0,
            backend: None,
        };
        let key = EntryKey::new(1, direction, &headers, [1, 2]);
        Asked::new(Question { key, arrival }, Instant(time))
    }

    fn times(questions: &mut Questions, numbers: [u32; 3]) -> [Option<u64>; 3] {
        numbers.map(|number| Some(questions.get_mut(number)?.since.0))
    }

    #[test]
    fn each_is_found_by_its_number_until_it_is_taken() {
        // Numbers begin again after the last.
        let numbers @ [first, second, third] = [u32::MAX - 1, u32::MAX, 0];
        let mut questions = Questions::default();
        for (time, number) in (1..).zip(numbers) {
            questions.add(number, asked_at(time));
        }
        assert_eq!(questions.len(), 3);
        assert_eq!(times(&mut questions, numbers), [Some(1), Some(2), Some(3)]);
        assert_eq!(questions.take(second).map(|asked| asked.since.0), Some(2));
        assert!(questions.take(second).is_none(), "once");
        assert_eq!(times(&mut questions, numbers), [Some(1), None, Some(3)]);
        assert_eq!(questions.oldest().map(|(number, _)| number), Some(first));
        assert!(questions.take(first).is_some());
        assert_eq!(questions.oldest().map(|(number, _)| number), Some(third));
        assert_eq!(questions.window.len(), 1, "what is over takes no room");
        assert!(questions.take(third).is_some() && questions.oldest().is_none());
        assert!(questions.take(7).is_none() && questions.len() == 0);
    }

    #[test]
    fn numbers_that_were_never_sent_are_no_questions() {
        let mut questions = Questions::default();
        questions.add(5, asked_at(1));
        questions.add(8, asked_at(2));
        assert_eq!(times(&mut questions, [5, 6, 8]), [Some(1), None, Some(2)]);
        assert!(questions.take(5).is_some());
        assert_eq!(questions.oldest().map(|(number, _)| number), Some(8));
        questions.add(9, asked_at(3));
        assert_eq!(times(&mut questions, [5, 8, 9]), [None, Some(2), Some(3)]);
    }
}
