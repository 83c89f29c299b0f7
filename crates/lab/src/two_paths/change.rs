//! Another chain in mid-traffic, as production changes it: packets wait in front of the fast path until
//! those inside have left (SFCache §V-D).

use super::node::node_config;
use super::parameters::Setting;
use crate::model::ParameterError;
use std::collections::VecDeque;
use twinpath_core::Frame;
use twinpath_engine::Time;
use twinpath_node::replacement::Replacement;

/// A change that is to come, is under way, or is over.
pub(super) struct ChainChange {
    setting: Setting,
    replacement: Option<Box<Replacement>>,
    is_under_way: bool,
    /// Since when the machine takes no packets.
    paused: Option<Time>,
    waiting: VecDeque<Frame>,
    interruption: Time,
    waited: u64,
}

/// Whether the change that is asked for, if one is, can be made.
pub(super) fn check(setting: &Setting) -> Result<(), ParameterError> {
    match setting.replaced()? {
        Some(after) => replacement(setting, &after).map(drop),
        None => Ok(()),
    }
}

fn replacement(before: &Setting, after: &Setting) -> Result<Replacement, ParameterError> {
    let change = Replacement::with_config(&before.service()?, &node_config(after)?);
    change.map_err(|error| ParameterError::new("replace_chain", error.to_string()))
}

impl ChainChange {
    pub(super) fn new(before: &Setting, after: Setting) -> Result<Self, ParameterError> {
        Ok(Self {
            replacement: Some(Box::new(replacement(before, &after)?)),
            setting: after,
            is_under_way: false,
            paused: None,
            waiting: VecDeque::new(),
            interruption: Time::ZERO,
            waited: 0,
        })
    }

    /// What the machine is to make of the chain.
    pub(super) fn begin(&mut self) -> Option<Box<Replacement>> {
        self.is_under_way = true;
        self.replacement.take()
    }

    /// Whether the machine is at it.
    pub(super) fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// It was not the moment.
    pub(super) fn put_back(&mut self, replacement: Box<Replacement>) {
        (self.is_under_way, self.paused) = (false, None);
        self.replacement = Some(replacement);
    }

    /// The machine takes no packets now.
    pub(super) fn wait(&mut self, frame: Frame) {
        self.waited += 1;
        self.waiting.push_back(frame);
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn next_waiting(&mut self) -> Option<Frame> {
        self.waiting.pop_front()
    }

    /// The machine takes no packets from now on.
    pub(super) fn pause(&mut self, now: Time) {
        self.paused.get_or_insert(now);
    }

    /// The new chain is there.
    pub(super) fn end(&mut self, now: Time) -> Setting {
        self.is_under_way = false;
        self.interruption = now.since(self.paused.take().unwrap_or(now));
        self.setting.clone()
    }

    /// How long no packet was taken, and how many waited.
    pub(super) fn told(&self) -> (Time, u64) {
        (self.interruption, self.waited)
    }
}
