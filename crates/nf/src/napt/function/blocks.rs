//! Ports of hosts that are given blocks as they need them.

use super::Napt;
use super::plan::Stop;
use crate::napt::config::Block;
use crate::napt::ports::{BlockTable, Slot};
use crate::records::Kind;
use twinpath_core::Instant;
use twinpath_core::wire::Endpoint;
use twinpath_rulecache::Recorded;

/// Free blocks that are tried: all ports of one may be those of forwards.
const TRIED: usize = 16;

impl Napt {
    /// A slot of the host's blocks, or of one that it is given with its binding.
    pub(super) fn free_slot_in_blocks(
        &mut self,
        packet: &Recorded<'_>,
        internal: Endpoint,
        kind: Kind,
        now: Instant,
    ) -> Result<Slot, Stop> {
        let host = internal.address;
        for block in self.blocks(|blocks| blocks.of_host(host)) {
            let search = self.external.search_in(internal, kind, block);
            if let Some(slot) = self.first_free(packet, search, now)? {
                return Ok(slot);
            }
        }
        let blocks = self.external.blocks();
        if blocks.is_some_and(|blocks| !blocks.may_have_more(host)) {
            return Err(Stop::HostLimit);
        }
        let (addresses, start) = self.external.addresses_for(host);
        for address in &addresses {
            for block in self.blocks(|blocks| blocks.free_at(*address, start, TRIED)) {
                let mut search = self.external.search_in(internal, kind, block);
                if let Some(slot) = search.next(&self.external) {
                    return Ok(slot);
                }
            }
        }
        self.slot_of_others(packet, internal, kind, &addresses, now)
    }

    /// A slot of a block whose owner uses it no longer.
    fn slot_of_others(
        &mut self,
        packet: &Recorded<'_>,
        internal: Endpoint,
        kind: Kind,
        addresses: &[u32],
        now: Instant,
    ) -> Result<Slot, Stop> {
        let mut undecided = None;
        for address in addresses {
            for block in self.blocks(|blocks| blocks.quiet_at(*address)) {
                match self.comes_back(packet, block, now) {
                    Ok(false) => {}
                    Ok(true) => {
                        let mut search = self.external.search_in(internal, kind, block);
                        if let Some(slot) = search.next(&self.external) {
                            return Ok(slot);
                        }
                    }
                    Err(stop) => undecided = undecided.or(Some(stop)),
                }
            }
        }
        Err(undecided.unwrap_or(Stop::NoPort))
    }

    /// Whether no binding in a block is alive: then all have ended, and nobody has it.
    fn comes_back(
        &mut self,
        packet: &Recorded<'_>,
        block: Block,
        now: Instant,
    ) -> Result<bool, Stop> {
        for kind in Kind::ALL {
            for port in block.first..=block.last {
                let slot = Slot::new(block.address, kind, port);
                if let Some(binding) = self.external.binding(slot)
                    && self.is_live(packet, binding, now)?
                {
                    return Ok(false);
                }
            }
        }
        let blocks = self.external.blocks();
        Ok(blocks.is_some_and(|blocks| !blocks.is_owned(block)))
    }

    fn blocks(&self, list: impl Fn(&BlockTable) -> Vec<Block>) -> Vec<Block> {
        self.external.blocks().map(list).unwrap_or_default()
    }

    /// How many blocks hosts have, and were given.
    pub(super) fn block_counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let blocks = self.external.blocks();
        each("blocks", blocks.map_or(0, |blocks| blocks.count() as u64));
        each("blocks_given", blocks.map_or(0, |blocks| blocks.given));
    }

    /// The blocks of a host, for checkers.
    #[cfg(test)]
    pub(crate) fn blocks_of(&self, host: twinpath_core::wire::Address) -> Vec<(u16, u16)> {
        let own = self.blocks(|blocks| blocks.of_host(host));
        own.iter().map(|block| (block.first, block.last)).collect()
    }
}
