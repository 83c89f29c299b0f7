//! What the inspector does on the slow path.

use super::config::{Config, Matcher};
use super::deep::{DeepMatcher, RuleSet, StreamMatcher};
use super::error::RulesError;
use super::gate::{Gate, GateOutcome};
use super::program::{BANNED, LAST_SEEN, STREAMING, VERDICT, program};
use super::rules::{Action, Rule, Rules};
use crate::files::Disk;
use std::any::Any;
use std::mem::swap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use twinpath_core::key::Role;
use twinpath_core::program::{FastProgram, WINDOW_BYTES};
use twinpath_core::{DropReason, Instant, Packet};
use twinpath_slowpath::{Flow, NetworkFunction, Outbox, Slab};

/// Why an inspector cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum InspectorError {
    /// The rules file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The rules file is wrong.
    #[error(transparent)]
    Rules(#[from] RulesError),
}

/// Builds the inspector that a configuration asks for. A relative rules file starts from `folder`.
///
/// # Errors
/// The rules cannot be read, or are wrong: the message names file, line and what was expected.
pub fn inspector(
    config: &Config,
    folder: &Path,
) -> Result<Box<dyn NetworkFunction>, InspectorError> {
    let path = folder.join(&config.rules);
    let text = match &config.text {
        Some(text) => Arc::clone(text),
        None => {
            let read = config.read_rules(folder, &Disk);
            read.map_err(|source| InspectorError::File {
                path: path.clone(),
                source,
            })?
        }
    };
    let rules = Rules::parse(&text, &path.to_string_lossy())?;
    Ok(match config.matcher {
        Matcher::Rust => Box::new(Inspector::new(config, &rules, DeepMatcher::new(&rules)?)),
        #[cfg(feature = "hyperscan")]
        Matcher::Hyperscan => Box::new(Inspector::new(
            config,
            &rules,
            super::HyperscanMatcher::new(&rules)?,
        )),
    })
}

/// The packet inspector's part on the slow path.
pub struct Inspector<M: StreamMatcher> {
    program: FastProgram,
    gate: Arc<Gate>,
    matcher: M,
    rules: Rules,
    /// The rules have changed, so that half-seen occurrences are none any more.
    forgets_streams: bool,
    /// Of each flow with a half-seen occurrence: where its two directions stand.
    streams: Slab<Box<[M::State; 2]>>,
    /// Room for such that are no more: a look at one packet needs it too.
    spare: Vec<Box<[M::State; 2]>>,
    most_streams: usize,
    matched: RuleSet,
    ban_ticks: u32,
    stream_ticks: u32,
    counters: Counters,
}

#[derive(Default)]
struct Counters {
    shallow_bans: u64,
    deep_bans: u64,
    alerts: u64,
    deep_scans: u64,
    deep_bytes: u64,
    forgotten_streams: u64,
    failed_scans: u64,
    uninspected: u64,
}

impl<M: StreamMatcher> Inspector<M> {
    /// An inspector with a matcher for these rules.
    pub fn new(config: &Config, rules: &Rules, matcher: M) -> Self {
        let gate = Arc::new(Gate::new(rules));
        Self {
            program: program(config, Arc::clone(&gate)),
            gate,
            matcher,
            rules: rules.clone(),
            forgets_streams: false,
            streams: Slab::new(config.streams as usize),
            spare: Vec::new(),
            most_streams: config.streams as usize,
            matched: RuleSet::new(),
            ban_ticks: config.ban_timeout.ticks(),
            stream_ticks: config.stream_timeout.ticks(),
            counters: Counters::default(),
        }
    }

    fn inspect(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        let payload = packet.payload();
        let outcome = self
            .gate
            .inspect(&payload[..payload.len().min(WINDOW_BYTES)]);
        match outcome {
            _ if flow.words[VERDICT] == STREAMING => self.look_deep(packet, flow, out),
            GateOutcome::None => out.forward(packet),
            GateOutcome::Full(_) => {
                self.counters.shallow_bans += 1;
                self.ban(packet, flow, out);
            }
            GateOutcome::Partial => self.look_deep(packet, flow, out),
        }
    }

    fn ban(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        let states = self.streams.remove(std::mem::take(flow.handle));
        states.into_iter().for_each(|states| self.recycle(states));
        flow.words[VERDICT] = BANNED;
        flow.words[LAST_SEEN] = flow.now.ticks();
        out.drop(packet, DropReason::Banned);
    }

    /// Scans the whole payload, from where the flow's direction stands.
    fn look_deep(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        let states = self.streams.remove(std::mem::take(flow.handle));
        let mut states = states.or_else(|| self.spare.pop()).unwrap_or_default();
        self.scan(&packet, &mut states[packet.direction.index()]);
        let bans = self
            .matched
            .iter()
            .filter(|&rule| self.rules.rule(rule).map(Rule::action) == Some(Action::Ban))
            .count();
        if bans > 0 {
            self.counters.deep_bans += 1;
            self.recycle(states);
            return self.ban(packet, flow, out);
        }
        self.counters.alerts += self.matched.iter().count() as u64;
        self.remember(states, flow);
        out.forward(packet);
    }

    fn scan(&mut self, packet: &Packet, state: &mut M::State) {
        self.matched.clear();
        self.counters.deep_scans += 1;
        self.counters.deep_bytes += packet.payload().len() as u64;
        let matched = &mut self.matched;
        let scanned = self
            .matcher
            .scan(state, packet.payload(), |rule| _ = matched.insert(rule));
        self.counters.failed_scans += u64::from(scanned.is_err());
    }

    /// Keeps the streams' states while an occurrence may be half seen; otherwise nothing is known
    /// of the flow any more.
    fn remember(&mut self, states: Box<[M::State; 2]>, flow: &mut Flow<'_>) {
        flow.words.fill(0);
        if states.iter().all(|state| self.matcher.is_idle(state)) {
            return self.recycle(states);
        }
        match self.streams.insert(states) {
            Ok(handle) => {
                *flow.handle = handle;
                flow.words[VERDICT] = STREAMING;
                flow.words[LAST_SEEN] = flow.now.ticks();
            }
            Err(states) => {
                self.counters.forgotten_streams += 1;
                self.recycle(states);
            }
        }
    }

    /// Nothing of the streams is known any more; their room serves others.
    fn recycle(&mut self, mut states: Box<[M::State; 2]>) {
        *states = Default::default();
        self.spare.push(states);
    }
}

impl<M: StreamMatcher + Send + 'static> NetworkFunction for Inspector<M>
where
    M::State: Send,
{
    fn name(&self) -> &'static str {
        super::NAME
    }

    fn program(&self) -> FastProgram {
        self.program.clone()
    }

    fn handle(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        if flow.words[VERDICT] == BANNED {
            flow.words[LAST_SEEN] = flow.now.ticks();
            return out.drop(packet, DropReason::Banned);
        }
        if packet.role == Role::Member {
            return self.inspect(packet, flow, out);
        }
        self.counters.uninspected += 1;
        out.forward(packet);
    }

    fn is_pending(&self, words: &[u32], _handle: u32) -> bool {
        words[VERDICT] == STREAMING
    }

    fn is_expired(&self, words: &[u32], now: Instant) -> bool {
        let timeout = if words[VERDICT] == BANNED {
            self.ban_ticks
        } else {
            self.stream_ticks
        };
        now.ticks_since(words[LAST_SEEN]) > timeout
    }

    fn forget(&mut self, handle: u32) {
        let states = self.streams.remove(handle);
        states.into_iter().for_each(|states| self.recycle(states));
    }

    /// New rules see a flow's bytes from the next packet on. Bans stay.
    fn reconfigure(&mut self, new: &mut dyn NetworkFunction) -> bool {
        let Some(new) = (new as &mut dyn Any).downcast_mut::<Self>() else {
            return false;
        };
        swap(self, new);
        swap(&mut self.counters, &mut new.counters);
        self.forgets_streams = !self.rules.do_as(&new.rules);
        if !self.forgets_streams {
            swap(&mut self.streams, &mut new.streams);
            self.streams.set_limit(self.most_streams);
        }
        true
    }

    fn adapt(&mut self, words: &mut [u32], handle: &mut u32) {
        if self.forgets_streams && words[VERDICT] == STREAMING {
            words.fill(0);
            *handle = 0;
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let counters = &self.counters;
        each("shallow_bans", counters.shallow_bans);
        each("deep_bans", counters.deep_bans);
        each("alerts", counters.alerts);
        each("deep_scans", counters.deep_scans);
        each("deep_bytes", counters.deep_bytes);
        each("forgotten_streams", counters.forgotten_streams);
        each("failed_scans", counters.failed_scans);
        each("uninspected", counters.uninspected);
    }
}
