//! What leaves behind an inspector or a key-value store.

use crate::faults::functions::FORBIDDEN;
use crate::faults::invariant::Invariant;
use crate::faults::record::Record;
use crate::faults::world::World;
use twinpath_core::wire::layout::{Fragment, Transport};
use twinpath_core::wire::{dissect, fields};

/// A packet leaves: nothing forbidden is in it, and if it is a store's answer, it is a true one.
pub fn check_leaving(world: &World, record: &mut Record, number: u32, bytes: &[u8]) {
    let is_inspected = world.scenario.have("inspector") && !record.acknowledged.has(bytes);
    if is_inspected && has_what_is_forbidden(bytes) {
        let what = format!("packet {number} leaves with {FORBIDDEN:?} in it");
        record.step.fault(Invariant::KeptOut, what);
    }
    if !world.scenario.have("kv_store") {
        return;
    }
    let may_forget = record.coverage.crashes > 0;
    if let Err(what) = record.store.answer(bytes, record.turn, may_forget) {
        let what = format!("packet {number}: {what}");
        record.step.fault(Invariant::Remembered, what);
    }
}

/// Whether a packet has whole what no packet may have: in datagrams and segments, which are looked at.
fn has_what_is_forbidden(bytes: &[u8]) -> bool {
    let Ok(layout) = dissect(bytes) else {
        return false;
    };
    let is_inspected = matches!(layout.transport, Transport::Tcp | Transport::Udp);
    let payload = fields::payload(bytes, &layout);
    let mut windows = payload.windows(FORBIDDEN.len());
    is_inspected
        && layout.fragment == Fragment::Whole
        && windows.any(|window| window == FORBIDDEN.as_bytes())
}
