//! Fragments that came before the first of their datagram (RFC 4787 REQ-14): they are kept until it
//! comes, a few and not for long (REQ-14 a).

use super::datagram::Datagram;
use std::collections::VecDeque;
use std::time::Duration;
use twinpath_core::Instant;

/// Most fragments; the oldest gives way.
const MOST: usize = 256;
/// How long they are kept.
const LIFETIME: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct Fragment {
    datagram: Datagram,
    since: Instant,
    bytes: Vec<u8>,
}

/// Fragments that wait for the first of their datagram.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// In order of arrival.
    fragments: VecDeque<Fragment>,
    /// Memory of those that are gone.
    spare: Vec<Vec<u8>>,
    /// How many have been kept.
    pub kept: u64,
    /// How many were dropped in the end.
    pub given_up: u64,
}

impl Held {
    /// Keeps a fragment.
    pub fn keep(&mut self, datagram: Datagram, bytes: &[u8], now: Instant) {
        self.forget_old(now, MOST - 1);
        let mut own = self.spare.pop().unwrap_or_default();
        own.clear();
        own.extend_from_slice(bytes);
        self.fragments.push_back(Fragment {
            datagram,
            since: now,
            bytes: own,
        });
        self.kept += 1;
    }

    /// Calls `each` with the fragments of a datagram, in order of arrival; they are kept no longer.
    pub fn release(&mut self, datagram: &Datagram, now: Instant, mut each: impl FnMut(&mut [u8])) {
        if self.fragments.is_empty() {
            return;
        }
        self.forget_old(now, MOST);
        let spare = &mut self.spare;
        self.fragments.retain_mut(|fragment| {
            if fragment.datagram != *datagram {
                return true;
            }
            each(&mut fragment.bytes);
            spare.push(std::mem::take(&mut fragment.bytes));
            false
        });
    }

    /// Drops the fragments of a datagram that is not let through.
    pub fn give_up(&mut self, datagram: &Datagram, now: Instant) {
        let mut count = 0;
        self.release(datagram, now, |_| count += 1);
        self.given_up += count;
    }

    /// Drops those that are too old, and the oldest if there are more than `most`.
    fn forget_old(&mut self, now: Instant, most: usize) {
        while let Some(oldest) = self.fragments.front()
            && (now.since(oldest.since) > LIFETIME || self.fragments.len() > most)
        {
            let oldest = self.fragments.pop_front();
            self.spare.extend(oldest.map(|fragment| fragment.bytes));
            self.given_up += 1;
        }
    }
}
