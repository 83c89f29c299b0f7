//! Another chain in mid-traffic, as production changes it: packets wait in front of the fast path until
//! those inside have left (SFCache §V-D).

use super::parameters::Setting;
use crate::model::Misfit;
use std::collections::VecDeque;
use twinpath_core::Frame;
use twinpath_engine::Time;
use twinpath_node::replacement::Replacement;

/// A change that is to come, is under way, or is over.
pub(super) struct Change {
    setting: Setting,
    replacement: Option<Replacement>,
    began: Option<Time>,
    waiting: VecDeque<Frame>,
    interruption: Time,
    waited: u64,
}

/// Whether one system can become the other.
pub(super) fn check(before: &Setting, after: &Setting) -> Result<(), Misfit> {
    replacement(before, after).map(drop)
}

fn replacement(before: &Setting, after: &Setting) -> Result<Replacement, Misfit> {
    let change = Replacement::between(&before.service()?, &after.service()?);
    change.map_err(|error| Misfit::new("replace_chain", error.to_string()))
}

impl Change {
    pub(super) fn new(before: &Setting, after: Setting) -> Result<Self, Misfit> {
        Ok(Self {
            replacement: Some(replacement(before, &after)?),
            setting: after,
            began: None,
            waiting: VecDeque::new(),
            interruption: Time::ZERO,
            waited: 0,
        })
    }

    pub(super) fn begin(&mut self, now: Time) {
        self.began = Some(now);
    }

    /// Whether packets must wait.
    pub(super) fn is_under_way(&self) -> bool {
        self.began.is_some()
    }

    pub(super) fn wait(&mut self, frame: Frame) {
        self.waited += 1;
        self.waiting.push_back(frame);
    }

    /// Whether the fast path has to give the state of flows back before.
    pub(super) fn brings_flows_home(&self) -> bool {
        let replacement = self.replacement.as_ref();
        replacement.is_some_and(|replacement| replacement.brings_flows_home)
    }

    /// Whether functions have to let go now of packets that they keep; they are told once.
    pub(super) fn releases_packets(&mut self) -> bool {
        let replacement = self.replacement.as_mut();
        replacement.is_some_and(|replacement| std::mem::take(&mut replacement.releases_packets))
    }

    pub(super) fn take(&mut self) -> Option<Replacement> {
        self.replacement.take()
    }

    /// It was not the moment.
    pub(super) fn put_back(&mut self, replacement: Replacement) {
        self.replacement = Some(replacement);
    }

    /// The new chain is there; what has waited goes on.
    pub(super) fn end(&mut self, now: Time) -> (Setting, VecDeque<Frame>) {
        self.interruption = now.since(self.began.take().unwrap_or(now));
        (self.setting.clone(), std::mem::take(&mut self.waiting))
    }

    /// How long no packet was taken, and how many waited.
    pub(super) fn told(&self) -> (Time, u64) {
        (self.interruption, self.waited)
    }
}
