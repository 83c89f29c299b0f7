//! Values that many have in common, in a small table.

/// Places of a table.
const PLACES: usize = 256;

/// Up to 255 different values, each counted as often as it was added; place 0 is nobody's.
pub(crate) struct Shared<T> {
    values: [T; PLACES],
    counts: [u32; PLACES],
}

impl<T: Copy + Default + PartialEq> Shared<T> {
    pub fn new() -> Self {
        Self {
            values: [T::default(); PLACES],
            counts: [0; PLACES],
        }
    }

    /// The value at a place.
    #[inline(always)]
    pub fn at(&self, place: u8) -> &T {
        &self.values[usize::from(place)]
    }

    /// The place of a value, which is added if it is not there; `None` if there is no room.
    pub fn add(&mut self, value: T) -> Option<u8> {
        let used = |place: &usize| self.counts[*place] > 0;
        let known = (1..PLACES).find(|place| used(place) && self.values[*place] == value);
        let place = known.or_else(|| (1..PLACES).find(|place| !used(place)))?;
        self.counts[place] = self.counts[place].checked_add(1)?;
        self.values[place] = value;
        Some(place as u8)
    }

    /// A value that was added is needed once less.
    pub fn remove(&mut self, place: u8) {
        let count = &mut self.counts[usize::from(place)];
        *count = count.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_share_places_while_they_are_needed() {
        let mut shared = Shared::new();
        let places: Vec<u8> = (0..255)
            .filter_map(|value: u64| shared.add(value))
            .collect();
        assert_eq!((places.len(), places[0]), (255, 1));
        assert_eq!(shared.add(254), Some(places[254]));
        assert_eq!(shared.add(999), None);
        shared.remove(places[7]);
        assert_eq!(shared.add(999), Some(places[7]));
        shared.remove(places[254]);
        assert_eq!(shared.add(1000), None, "still needed once");
        assert_eq!(*shared.at(places[7]), 999);
    }
}
