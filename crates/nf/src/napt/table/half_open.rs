//! TCP sessions of which one end alone has been heard, in the order in which they opened.

use super::super::lists::Lists;
use super::Table;

/// The list of all.
const ALL: usize = 0;

/// Their numbers: all, and those of each external address.
#[derive(Debug)]
pub(super) struct HalfOpen {
    all: Lists,
    by_address: Lists,
}

impl HalfOpen {
    /// None, with so many addresses.
    pub fn new(addresses: usize) -> Self {
        Self {
            all: Lists::new(ALL + 1),
            by_address: Lists::new(addresses),
        }
    }

    /// What so many sessions take.
    pub const fn bytes(sessions: usize) -> u64 {
        2 * Lists::bytes(sessions)
    }

    fn put(&mut self, number: u32, address: u32) {
        self.all.put(number, ALL);
        self.by_address.put(number, address as usize);
    }

    pub fn remove(&mut self, number: u32) {
        self.all.remove(number);
        self.by_address.remove(number);
    }
}

impl Table {
    /// Of all half-open sessions the one that opened first.
    pub fn first_half_open(&self) -> Option<u32> {
        self.half_open.all.first(ALL)
    }

    /// Of those at an external address, by its number, the one that opened first.
    pub fn first_half_open_at(&self, address: u32) -> Option<u32> {
        self.half_open.by_address.first(address as usize)
    }

    /// A half-open session is the last to give way from now on.
    pub fn spare_half_open(&mut self, number: u32) {
        self.note_half_open(number, true);
    }

    /// A session is half-open from now on, or no longer.
    pub(super) fn note_half_open(&mut self, number: u32, is_half_open: bool) {
        let session = self.sessions.at(number);
        let binding = session.and_then(|session| self.bindings.at(session.binding));
        match binding.filter(|_| is_half_open) {
            Some(binding) => self.half_open.put(number, binding.slot.address()),
            None => self.half_open.remove(number),
        }
    }

    /// External addresses have other numbers, or there are others.
    pub(super) fn sort_half_open(&mut self, addresses: usize) {
        let before = std::mem::replace(&mut self.half_open, HalfOpen::new(addresses));
        for number in before.all.all(ALL) {
            self.note_half_open(number, true);
        }
    }
}
