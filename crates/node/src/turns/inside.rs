//! Who is inside: on the cores, or kept on the fast path.

use std::collections::VecDeque;
use twinpath_core::Instant;

/// Numbers in turns run from 1 to this, and begin again.
const NUMBERS: u64 = u16::MAX as u64;

/// Who is on one worker for one element. Both take them in order, so what comes back tells that
/// all before it are gone.
#[derive(Clone)]
pub(super) struct OnCores<T> {
    /// The running number of the oldest.
    first: u64,
    /// In the order in which they went there; `None` is a probe.
    packets: VecDeque<Option<T>>,
    /// The running number of the last probe that is still there, and when it was sent.
    probe: Option<(u64, Instant)>,
}

impl<T> OnCores<T> {
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// When the last probe was sent, if it is still there.
    pub fn probed(&self) -> Option<Instant> {
        self.probe.map(|(_, at)| at)
    }

    /// One goes there. Returns its number.
    pub fn add(&mut self, packet: Option<T>) -> u16 {
        let number = self.first + self.packets.len() as u64;
        self.packets.push_back(packet);
        turn(number)
    }

    /// A probe goes there. Returns its number.
    pub fn add_probe(&mut self, now: Instant) -> u16 {
        self.probe = Some((self.first + self.packets.len() as u64, now));
        self.add(None)
    }

    /// The one with this number comes back; those before it are gone. Returns it, if it is a
    /// packet and was not gone itself.
    pub fn take(&mut self, number: u16, gone: impl FnMut(T)) -> Option<T> {
        let behind_first =
            (u64::from(number) + NUMBERS).checked_sub(u64::from(turn(self.first)))?;
        let place = (behind_first % NUMBERS) as usize;
        if number == 0 || place >= self.packets.len() {
            return None;
        }
        self.packets.drain(..place).flatten().for_each(gone);
        self.first += place as u64 + 1;
        self.probe = self.probe.filter(|(probe, _)| *probe >= self.first);
        self.packets.pop_front().flatten()
    }
}

impl<T> Default for OnCores<T> {
    fn default() -> Self {
        Self {
            first: 0,
            packets: VecDeque::new(),
            probe: None,
        }
    }
}

/// A running number as it travels.
const fn turn(number: u64) -> u16 {
    (number % NUMBERS + 1) as u16
}

/// Who is kept on the fast path, in no order.
pub(super) struct Kept<T> {
    /// By number less one.
    packets: Vec<Option<T>>,
    free: Vec<u16>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self {
            packets: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Kept<T> {
    pub fn is_empty(&self) -> bool {
        self.free.len() == self.packets.len()
    }

    /// One is kept. Returns its number; there are never as many as there are numbers, because
    /// fewer are expected anywhere.
    pub fn add(&mut self, packet: T) -> u16 {
        match self.free.pop() {
            Some(number) => {
                self.packets[usize::from(number) - 1] = Some(packet);
                number
            }
            None => {
                self.packets.push(Some(packet));
                self.packets.len() as u16
            }
        }
    }

    /// One is kept no more.
    pub fn take(&mut self, number: u16) -> Option<T> {
        let place = usize::from(number).checked_sub(1)?;
        let packet = self.packets.get_mut(place)?.take()?;
        self.free.push(number);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Each packet comes back, or is gone as soon as a later one does; numbers run around.
        #[test]
        fn everyone_is_told_of_once(
            first in 0..3 * NUMBERS,
            steps in prop::collection::vec((1..40usize, any::<prop::sample::Index>(), any::<bool>()), 1..40),
        ) {
            let mut on_cores = OnCores { first, ..OnCores::default() };
            let (mut under_way, mut next) = (Vec::new(), 0);
            let mut told = BTreeSet::new();
            for (arriving, back, is_probe) in steps {
                for _ in 0..arriving {
                    under_way.push((on_cores.add(Some(next)), Some(next)));
                    next += 1;
                }
                if is_probe {
                    under_way.push((on_cores.add_probe(Instant(0)), None));
                }
                let back = back.index(under_way.len());
                let (turn, packet) = under_way[back];
                let mut gone = Vec::new();
                let found = on_cores.take(turn, |packet| gone.push(packet));
                prop_assert_eq!(found, packet);
                let expected: Vec<usize> = under_way.drain(..=back).filter_map(|(_, packet)| packet).collect();
                gone.extend(found);
                prop_assert_eq!(&gone, &expected);
                prop_assert!(gone.into_iter().all(|packet| told.insert(packet)));
                prop_assert_eq!(on_cores.take(turn, |_| ()), None, "it came twice");
                let probe_is_there = under_way.iter().any(|(_, packet)| packet.is_none());
                prop_assert_eq!(on_cores.probed().is_some(), probe_is_there);
            }
        }
    }

    #[test]
    fn numbers_of_the_kept_are_used_again() {
        let mut kept = Kept::default();
        let numbers = ["a", "b", "c"].map(|packet| kept.add(packet));
        assert_eq!(kept.take(numbers[1]), Some("b"));
        assert_eq!(kept.take(numbers[1]), None);
        assert_eq!(kept.add("d"), numbers[1]);
        let left = numbers.map(|number| kept.take(number));
        assert_eq!(left, [Some("a"), Some("d"), Some("c")]);
        assert!(kept.is_empty());
        assert_eq!(kept.take(0), None, "nobody");
    }
}
