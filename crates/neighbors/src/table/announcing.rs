//! Announcements: cables hear, unasked, whose addresses are the node's (RFC 5227 §2.3, RFC 4861 §7.2.6),
//! so that who knew another station for one of them sends to the node at once. Each address is
//! announced [some times](ROUNDS), as frames may be lost, and one after the other, so that many are no burst.

use super::messages::{ALL_NODES, advertisement};
use super::{Leaving, Neighbors, send};
use crate::config::PortAddresses;
use std::time::Duration;
use twinpath_core::wire::arp::Arp;
use twinpath_core::wire::{Address, MacAddress};
use twinpath_core::{Instant, Pools};

/// How often each address is announced.
pub(super) const ROUNDS: u8 = 3;

/// From the end of a round to the next.
pub(super) const ROUND_INTERVAL: Duration = Duration::from_secs(1);

/// From one address to the next at a port.
pub(super) const PACE: Duration = Duration::from_millis(1);

/// Addresses of a port that are announced; of more neighbours ask.
pub(super) const MOST_ADDRESSES: u128 = 4096;

/// How far the announcements at a port are.
#[derive(Copy, Clone, Debug)]
pub(super) struct Announcing {
    rounds_left: u8,
    /// The place of the next address.
    next: u128,
    due: Instant,
}

impl PortAddresses {
    /// The address to announce at a place, from 0 on: the port's own come first.
    fn announced(&self, place: u128) -> Option<Address> {
        if place >= MOST_ADDRESSES {
            return None;
        }
        let has_v6 = self.own.iter().any(|own| !own.address.is_v4());
        let own = self.own.iter().map(|own| own.address);
        let own = own.chain(has_v6.then(|| self.link_local()));
        let own: Vec<_> = own.map(|address| (address, address)).collect();
        let mut before = 0;
        for (first, last) in own.iter().chain(&self.answered) {
            let inside = place - before;
            if inside <= last.0 - first.0 {
                return Some(Address(first.0 + inside));
            }
            before += last.0 - first.0 + 1;
        }
        None
    }
}

impl Neighbors {
    /// Tells a cable whom the node's own addresses belong to, and all that it answers for: after a start,
    /// or when the port is up again or has another MAC address. They go out [as time passes](Self::advance).
    pub fn announce(&mut self, port: u16, now: Instant) {
        let addresses = self.ports.get(usize::from(port));
        if !self.only_listens && addresses.is_some_and(PortAddresses::takes_part) {
            let begun = Announcing {
                rounds_left: ROUNDS,
                next: 0,
                due: now,
            };
            self.announcing.insert(port, begun);
        }
    }

    /// When the next address is to be announced.
    pub(super) fn next_announcement(&self) -> Option<Instant> {
        self.announcing.values().map(|one| one.due).min()
    }

    /// Announces what is due.
    pub(super) fn go_on_announcing(&mut self, now: Instant, pools: &mut Pools, out: &mut Leaving) {
        let Self {
            announcing,
            ports,
            counters,
            ..
        } = self;
        announcing.retain(|&port, one| {
            if one.due > now {
                return true;
            }
            let addresses = &ports[usize::from(port)];
            let Some(address) = addresses.announced(one.next) else {
                return one.begin_round(now);
            };
            let before = out.len();
            send(port, &announcement(addresses.mac, address), pools, out);
            // Without a buffer it is tried again.
            let sent = (out.len() - before) as u64;
            counters.announcements += sent;
            one.next += u128::from(sent);
            one.due = now + PACE;
            true
        });
    }
}

impl Announcing {
    /// All have been announced: whether there is another round.
    fn begin_round(&mut self, now: Instant) -> bool {
        self.rounds_left -= 1;
        self.next = 0;
        self.due = now + ROUND_INTERVAL;
        self.rounds_left > 0
    }
}

/// What tells all on a cable whose an address is.
fn announcement(mac: MacAddress, address: Address) -> Vec<u8> {
    if !address.is_v4() {
        return advertisement(mac, address, address, ALL_NODES, false);
    }
    let question = Arp {
        is_reply: false,
        sender_mac: mac,
        sender: address,
        target_mac: MacAddress([0; 6]),
        target: address,
    };
    question.to_frame(MacAddress([0xff; 6])).to_vec()
}
