//! What others say of themselves, and the answers that they get.

use super::{Leaving, Neighbors, send};
use crate::state::Event;
use twinpath_core::wire::arp::Arp;
use twinpath_core::wire::neighbor::{self, Kind, NeighborMessage};
use twinpath_core::wire::{Address, MacAddress};
use twinpath_core::{Instant, Pools};

/// All hosts on a cable.
pub(super) const ALL_NODES: Address = Address(0xff02 << 112 | 1);

impl Neighbors {
    pub(super) fn take_arp(
        &mut self,
        port: u16,
        message: &Arp,
        now: Instant,
        pools: &mut Pools,
        out: &mut Leaving,
    ) {
        let addresses = &self.ports[usize::from(port)];
        if !is_host(message.sender_mac) || message.sender == Address::UNSPECIFIED_V4 {
            return;
        }
        if addresses.answers_for(message.sender) {
            if message.sender_mac != addresses.mac {
                self.counters.conflicts += 1;
            }
            return;
        }
        let (mac, is_for_us) = (addresses.mac, addresses.answers_for(message.target));
        let event = match message.is_reply && is_for_us {
            true => Event::Answered,
            false => Event::Announced,
        };
        let asks_us = !message.is_reply && is_for_us;
        self.told(
            port,
            message.sender,
            message.sender_mac,
            event,
            asks_us,
            now,
            pools,
            out,
        );
        if asks_us && !self.only_listens {
            self.counters.answers += 1;
            let answer = Arp {
                is_reply: true,
                sender_mac: mac,
                sender: message.target,
                target_mac: message.sender_mac,
                target: message.sender,
            };
            send(port, &answer.to_frame(message.sender_mac), pools, out);
        }
    }

    pub(super) fn take_discovery(
        &mut self,
        port: u16,
        message: &NeighborMessage,
        now: Instant,
        pools: &mut Pools,
        out: &mut Leaving,
    ) {
        let addresses = &self.ports[usize::from(port)];
        let (mac, is_ours) = (addresses.mac, addresses.answers_for(message.target));
        match message.kind {
            Kind::Solicitation if is_ours => {
                let source = message.source;
                let is_probe = source == Address::UNSPECIFIED_V6;
                if let Some(from) = message.link_address.filter(|&mac| is_host(mac)) {
                    self.told(port, source, from, Event::Announced, true, now, pools, out);
                }
                if self.only_listens {
                    return;
                }
                self.counters.answers += 1;
                let to = if is_probe { ALL_NODES } else { source };
                let mut bytes = advertisement(mac, message.target, message.target, to, !is_probe);
                if let Some(from) = message.link_address.filter(|_| !is_probe) {
                    bytes[..6].copy_from_slice(&from.0);
                }
                send(port, &bytes, pools, out);
            }
            Kind::Advertisement { .. } if is_ours => self.counters.conflicts += 1,
            Kind::Advertisement {
                is_solicited,
                overrides,
                ..
            } => {
                let Some(link_address) = message.link_address else {
                    if is_solicited {
                        self.confirmed(port, message.target, now, pools, out);
                    }
                    return;
                };
                if !is_host(link_address) {
                    return;
                }
                let event = match is_solicited {
                    true => Event::Answered,
                    false => Event::Announced,
                };
                if overrides || self.knows_no_other(port, message.target, link_address) {
                    let (target, mac) = (message.target, link_address);
                    self.told(port, target, mac, event, false, now, pools, out);
                } else if let Some(&number) = self.by_address.get(&(port, message.target)) {
                    self.happens(number, Event::AnnouncedOtherwise, None, now, pools, out);
                }
            }
            Kind::Solicitation => {}
        }
    }

    /// A neighbour has answered and not told its MAC address: whoever was asked at that address need not
    /// tell it (RFC 4861 §4.4), and Linux does not.
    fn confirmed(
        &mut self,
        port: u16,
        address: Address,
        now: Instant,
        pools: &mut Pools,
        out: &mut Leaving,
    ) {
        let Some(&number) = self.by_address.get(&(port, address)) else {
            return;
        };
        let entry = self.entries[number as usize].as_ref();
        if entry.is_some_and(|entry| entry.mac.is_some() && entry.state.has_asked()) {
            self.happens(number, Event::Answered, None, now, pools, out);
        }
    }

    fn knows_no_other(&self, port: u16, address: Address, mac: MacAddress) -> bool {
        let number = self.by_address.get(&(port, address));
        let entry = number.and_then(|&number| self.entries[number as usize].as_ref());
        entry.is_none_or(|entry| entry.mac.is_none_or(|known| known == mac))
    }

    /// A neighbour has told its MAC address. It becomes known by that only if it asks for us: then
    /// an answer to what it wants will follow. What looks like an answer is one only to a question that
    /// is open; any other host on the cable may have sent it unasked.
    #[expect(
        clippy::too_many_arguments,
        reason = "who, what, when, and where frames go"
    )]
    fn told(
        &mut self,
        port: u16,
        address: Address,
        mac: MacAddress,
        event: Event,
        may_be_new: bool,
        now: Instant,
        pools: &mut Pools,
        out: &mut Leaving,
    ) {
        let known = self.by_address.get(&(port, address)).copied();
        let new = || {
            may_be_new
                .then(|| self.insert(port, address, now))
                .flatten()
        };
        let Some(number) = known.or_else(new) else {
            return;
        };
        let Some(entry) = self.entries[number as usize].as_ref() else {
            return;
        };
        let is_other = entry.mac.is_some_and(|known| known != mac);
        let event = match event {
            Event::Answered if entry.state.has_asked() => Event::Answered,
            _ if is_other => Event::AnnouncedOtherwise,
            _ => Event::Announced,
        };
        self.happens(number, event, Some(mac), now, pools, out);
    }
}

/// Whether an address can be one host's.
pub(super) const fn is_host(mac: MacAddress) -> bool {
    mac.0[0] & 1 == 0 && !matches!(mac.0, [0, 0, 0, 0, 0, 0])
}

pub(super) fn advertisement(
    mac: MacAddress,
    source: Address,
    target: Address,
    destination: Address,
    is_solicited: bool,
) -> Vec<u8> {
    let answer = NeighborMessage {
        kind: Kind::Advertisement {
            is_router: true,
            is_solicited,
            overrides: true,
        },
        source,
        destination,
        target,
        link_address: Some(mac),
    };
    let (frame, len) = answer.to_frame(mac, neighbor::multicast_mac(destination));
    frame[..len].to_vec()
}
