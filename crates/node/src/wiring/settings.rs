//! A service's settings, as the mechanisms want them.

use super::functions::{chain, elements, needs_ports};
use crate::build_error::BuildError;
use crate::fast_path::{BURST, MOST_HELD};
use twinpath_coherence::Config as CoherenceConfig;
use twinpath_control::service::{Device, Instance, Paths, Service};
use twinpath_core::Pools;
use twinpath_core::fragments::MAX_HELD;
use twinpath_nf::descriptor::Form;
use twinpath_rulecache::{ManagerConfig, SelectionConfig, SlowRulesConfig, TableConfig};

/// Frames in flight on the fast path itself: batches in hand, buffers of its own messages.
const FRAMES_IN_HAND: usize = 4096;

/// Packets that may wait on the slow path behind one that waits for rules to go.
const FRAMES_WAITING: usize = 4096;

/// Long frames, for captures taken in front of segmentation offload.
const LONG_FRAMES: usize = 1024;

/// How many buffers there are for packets, by what they hold.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// For packets of ordinary size.
    pub ordinary: usize,
    /// For long ones.
    pub long: usize,
}

impl Buffers {
    /// The pools.
    pub fn pools(self) -> Pools {
        Pools::new(self.ordinary, self.long)
    }
}

/// Buffers for packets that arrive: as many as may be under way or kept.
///
/// # Errors
/// A file that a function needs cannot be read.
pub(crate) fn buffers(service: &Service) -> Result<Buffers, BuildError> {
    let held =
        chain(service)?.most_held_frames() + held_on_fast_path(service) + held_for_answers(service);
    let gathering = needs_ports(service)
        .into_iter()
        .filter(|&needs| needs)
        .count();
    let fragments = gathering * MAX_HELD;
    let in_flight = service.slow_path.workers * (2 * service.link.ring_frames + held);
    Ok(Buffers {
        ordinary: FRAMES_IN_HAND
            + in_flight
            + fragments
            + 2 * service.parked_frames()
            + service.split_frames()
            + handed_over(service),
        long: LONG_FRAMES + held.min(8 * LONG_FRAMES),
    })
}

/// Frames that wait for all other shards together, of each kind.
const FRAMES_HANDED_OVER: usize = 4096;

/// Frames in each ring between two of so many shards.
pub(crate) fn handoff_frames(shards: u16) -> usize {
    let others = usize::from(shards.max(2)) - 1;
    (FRAMES_HANDED_OVER / others).max(256)
}

/// Most frames that a shard has handed over to others at any time.
fn handed_over(service: &Service) -> usize {
    let shards = service.run.shards.0;
    // What arrives, what leaves, and what memory servers send.
    let rings = if service.memory_links().is_empty() {
        2
    } else {
        3
    };
    match service.devices.is_empty() {
        true => 0,
        false => rings * (usize::from(shards) - 1) * handoff_frames(shards),
    }
}

/// Buffers of each worker, for messages and packets made on the slow path.
pub(crate) fn worker_buffers(service: &Service) -> Buffers {
    Buffers {
        ordinary: 2 * service.link.ring_frames + 1024,
        long: 16,
    }
}

/// Most frames that elements keep that wait for rules, on both paths, or for the state of their flow.
fn held_on_fast_path(service: &Service) -> usize {
    let of = |element: &[Instance]| match element[0].makes_rules() {
        true => service.rule_cache.held + FRAMES_WAITING,
        false => waiting(service),
    };
    elements(service).map(of).sum()
}

/// Most frames that a DPU keeps while its policies judge, with those of a burst.
fn held_for_answers(service: &Service) -> usize {
    let is_dash = |one: &Instance| one.form() == Form::Dash;
    match service.chain.iter().any(is_dash) {
        true => MOST_HELD + BURST,
        false => 0,
    }
}

/// How an element whose decisions are cached does that on the slow path.
pub(super) fn slow_rules(service: &Service, paths: Paths) -> SlowRulesConfig {
    let cache = &service.rule_cache;
    SlowRulesConfig {
        caching: cache.enabled && paths == Paths::Both,
        waiting: FRAMES_WAITING,
        selection: SelectionConfig {
            window: cache.window.duration(),
            threshold: cache.threshold,
            seed: service.seed,
            ..SelectionConfig::for_rules(cache.exact + cache.masked)
        },
        manager: ManagerConfig {
            exact: cache.exact,
            masked: cache.masked,
            masks: cache.masks,
            window: cache.window.duration(),
            idle_windows: cache.idle_windows,
            ..ManagerConfig::default()
        },
    }
}

/// The fast path's table of rules of one element.
pub fn rule_table(service: &Service) -> TableConfig {
    let cache = &service.rule_cache;
    TableConfig {
        exact: cache.exact,
        masked: cache.masked,
        masks: cache.masks,
        held: cache.held,
        mark_timeout: service.link.incomplete_timeout.duration(),
        // Ageing wants to hear of each rule in each of its windows.
        report_interval: cache.window.duration() / 2,
        identifications: cache.identifications,
        seed: service.seed,
        ..TableConfig::default()
    }
}

/// The mechanism's settings.
pub fn coherence(service: &Service) -> CoherenceConfig {
    let fast = &service.fast_path;
    CoherenceConfig {
        slots: fast.slots,
        ways: fast.ways.map_or(default_ways(fast.device), |ways| ways.0),
        hot_packets: fast.hot_packets,
        sketch_window: fast.sketch_window.duration(),
        sketch_width: fast.sketch_width,
        time_to_live: fast.time_to_live.duration(),
        incomplete_timeout: service.link.incomplete_timeout.duration(),
        write_back_timeout: service.link.write_back_timeout.duration(),
        rearms: fast.rearms,
        waiting: waiting(service),
        sweep_slots: fast.sweep_slots,
    }
}

/// Packets that may wait on the fast path for the state of their flow, at each element.
fn waiting(service: &Service) -> usize {
    let fast = &service.fast_path;
    match (fast.waiting, fast.device) {
        (Some(said), _) => said.0,
        (None, Device::Software) => 1024,
        // A switch has nowhere to keep them.
        (None, Device::Asic) => 0,
    }
}

const fn default_ways(device: Device) -> usize {
    match device {
        Device::Software => 8,
        Device::Asic => 1,
    }
}
