//! A switch's control plane: rules wait for the agent that writes them.
//!
//! On our own fast path a rule's ADD and CLEAR are messages like others. On a switch they are entries of
//! match-action tables, which only the control plane writes, so many a second and each late (SFCache
//! §IV-B, Table II). Everything else (marks, queries) is for the data plane, and passes at once.

use crate::testbed::AgentPreset;
use std::collections::BTreeSet;
use twinpath_core::{Frame, Pools};
use twinpath_engine::Time;
use twinpath_engine::devices::Agent;
use twinpath_link::{Header, Message, attach};
use twinpath_rulecache::message::messages;
use twinpath_rulecache::{CacheMessage, RuleName};

/// A request that the agent has taken: a rule, and whether it is to come or to go.
type Request = (RuleName, bool);

pub(super) struct ControlPlane {
    agent: Agent,
    entries_per_rule: u64,
    /// Asked again is not written again.
    taken: BTreeSet<Request>,
    counts: Counts,
}

/// What the control plane has done.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Counts {
    /// Rules that came.
    pub(super) added: u64,
    /// Entries written, those of rules taken out included.
    pub(super) entries: u64,
    /// Requests for which there was no room.
    pub(super) refused: u64,
}

/// What becomes of a frame on its way to the fast path.
pub(super) enum Passed {
    /// It goes on.
    Now(Frame),
    /// What is for the data plane goes on, what the agent has taken comes later.
    Parted(Option<Frame>, Option<(Time, Frame)>),
}

impl ControlPlane {
    pub(super) fn new(preset: &AgentPreset) -> Self {
        let latency = Time::from_us_f64(preset.latency_us.value());
        let backlog = preset.backlog.count() as u64;
        Self {
            agent: Agent::new(preset.entries_per_s.value(), latency, backlog),
            entries_per_rule: preset.entries_per_rule.count().max(1) as u64,
            taken: BTreeSet::new(),
            counts: Counts::default(),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// A frame comes from a worker.
    pub(super) fn pass(&mut self, frame: Frame, now: Time, pools: &mut Pools) -> Passed {
        let Some((header, all)) = requests(&frame) else {
            return Passed::Now(frame);
        };
        if !all.iter().any(|message| request(message).is_some()) {
            return Passed::Now(frame);
        }
        pools.give(frame);
        let (mut at, mut written, mut others) = (now, Vec::new(), Vec::new());
        for message in all {
            match request(&message) {
                None => others.push(message),
                Some(request) => {
                    if let Some(time) = self.take(request, now) {
                        at = at.max(time);
                        written.push(message);
                    }
                }
            }
        }
        let rest = framed(&header, &others, pools);
        let late = framed(&header, &written, pools);
        Passed::Parted(rest, late.map(|frame| (at, frame)))
    }

    /// When the agent has done what is asked; `None` if it was asked before, or has no room.
    fn take(&mut self, request: Request, now: Time) -> Option<Time> {
        if self.taken.contains(&request) {
            return None;
        }
        let mut time = now;
        for _ in 0..self.entries_per_rule {
            match self.agent.install(now) {
                Ok(done) => time = done,
                Err(_) => {
                    self.counts.refused += 1;
                    return None;
                }
            }
        }
        self.taken.insert(request);
        Some(time)
    }

    /// The agent has written what is in this frame.
    pub(super) fn written(&mut self, frame: &Frame) {
        let Some((_, all)) = requests(frame) else {
            return;
        };
        for request in all.iter().filter_map(request) {
            self.taken.remove(&request);
            self.counts.added += u64::from(request.1);
            self.counts.entries += self.entries_per_rule;
        }
    }
}

fn request(message: &CacheMessage) -> Option<Request> {
    match message {
        CacheMessage::Add(name, _) => Some((*name, true)),
        CacheMessage::Clear(name) => Some((*name, false)),
        _ => None,
    }
}

/// What workers ask of the fast path's rules.
fn requests(frame: &Frame) -> Option<(Header, Vec<CacheMessage>)> {
    let header = Header::read(frame.bytes()).ok()?;
    if header.message != Message::RuleRequest {
        return None;
    }
    let body = frame.bytes().get(header.bytes()..)?;
    let all: Result<_, _> = messages(body).collect();
    Some((header, all.ok()?))
}

/// A frame with these messages; none without any, or if there is no buffer: requests are repeated.
fn framed(header: &Header, all: &[CacheMessage], pools: &mut Pools) -> Option<Frame> {
    let bytes: usize = all.iter().map(CacheMessage::bytes).sum();
    if bytes == 0 {
        return None;
    }
    let mut frame = pools.take(bytes)?;
    frame.set_len(bytes);
    let mut at = 0;
    for message in all {
        message.write(&mut frame.bytes_mut()[at..])?;
        at += message.bytes();
    }
    attach(&mut frame, header).ok()?;
    Some(frame)
}
