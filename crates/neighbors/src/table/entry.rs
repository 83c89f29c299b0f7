//! One neighbour.

use crate::state::State;
use std::collections::VecDeque;
use twinpath_core::wire::{Address, MacAddress};
use twinpath_core::{Frame, Instant};

pub(super) struct Entry {
    pub port: u16,
    pub address: Address,
    /// Since when it is here.
    pub since: Instant,
    /// None as long as it is not known.
    pub mac: Option<MacAddress>,
    pub state: State,
    /// When the state's time is over.
    pub deadline: Instant,
    /// How often it was asked in this state.
    pub asked: u8,
    /// Packets that wait for the MAC address.
    pub waiting: VecDeque<Frame>,
    /// Whether a packet was for it since that was last looked at.
    pub was_used: bool,
    /// Whether its link was gone since it was confirmed.
    pub is_doubtful: bool,
}

impl Entry {
    pub fn new(port: u16, address: Address, since: Instant) -> Self {
        Self {
            port,
            address,
            since,
            mac: None,
            state: State::Incomplete,
            deadline: Instant::NEVER,
            asked: 0,
            waiting: VecDeque::new(),
            was_used: true,
            is_doubtful: false,
        }
    }
}
