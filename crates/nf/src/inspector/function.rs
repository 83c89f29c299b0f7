//! What the inspector does on the slow path.

mod look;
mod stream;

use super::config::{Config, Matcher};
use super::deep::{DeepMatcher, DeepState, RuleSet, StreamMatcher};
use super::error::{Problem, RulesError};
use super::gate::Gate;
use super::program::program;
use super::rules::{ItemIndex, RuleIndex, Rules};
use super::state::{
    BANNED, CLOSED, CONFIRMED, DATAGRAMS, FLAGS, LAST_SEEN, STREAMING, State, banning_rule,
};
use super::tracker::{Hit, Progress};
use crate::files::Disk;
use crate::hosts::{HostLimit, Hosts};
use crate::memory::slab_bytes;
use crate::mistakes::Mistakes;
use crate::records::{EntryHits, Page};
use std::any::Any;
use std::mem::swap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use twinpath_core::key::Role;
use twinpath_core::program::FastProgram;
use twinpath_core::wire::layout::Fragment;
use twinpath_core::{Direction, DropReason, Instant, Packet};
use twinpath_slowpath::{Common, Eviction, Flow, NetworkFunction, Outbox, Slab};

/// How long a closed connection is remembered after its last packet: ten seconds.
const CLOSED_TICKS: u32 = 149;

/// Most rules that are left out because their automata are too large.
const MOST_TOO_LARGE: usize = 16;

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
    Rules(#[from] Mistakes<RulesError>),
    /// A matcher that is not there.
    #[error(
        "this program was built without Hyperscan: expected \"rust\", or a build with the feature `hyperscan`"
    )]
    WithoutHyperscan,
}

impl From<RulesError> for InspectorError {
    fn from(error: RulesError) -> Self {
        Self::Rules(error.into())
    }
}

/// Builds the inspector that a configuration asks for. A relative rules file starts from `folder`.
///
/// # Errors
/// The rules cannot be read, or are wrong: the message names file, line and what was expected.
pub fn inspector(
    config: &Config,
    folder: &Path,
) -> Result<Box<dyn NetworkFunction>, InspectorError> {
    let rules = rules(config, folder)?;
    Ok(match config.matcher {
        Matcher::Rust => {
            let (matcher, rules) = matcher(rules, config)?;
            Box::new(Inspector::new(config, &rules, matcher))
        }
        Matcher::Hyperscan => with_hyperscan(config, &rules)?,
    })
}

#[cfg(feature = "hyperscan")]
fn with_hyperscan(
    config: &Config,
    rules: &Rules,
) -> Result<Box<dyn NetworkFunction>, InspectorError> {
    let matcher = super::HyperscanMatcher::new(rules)?;
    Ok(Box::new(Inspector::new(config, rules, matcher)))
}

#[cfg(not(feature = "hyperscan"))]
fn with_hyperscan(_: &Config, _: &Rules) -> Result<Box<dyn NetworkFunction>, InspectorError> {
    Err(InspectorError::WithoutHyperscan)
}

/// The rules that a configuration names. A relative file starts from `folder`.
///
/// # Errors
/// As for [`inspector`].
pub fn rules(config: &Config, folder: &Path) -> Result<Rules, InspectorError> {
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
    let rules = Rules::parse_with(&text, &path.to_string_lossy(), &config.variables())?;
    let mut mistakes = Mistakes::none();
    for left in rules.left_out().iter().filter(|_| config.strict) {
        mistakes.push(left.error.clone());
    }
    Ok(mistakes.or(rules)?)
}

/// The rules that an inspector of this configuration leaves out, in words; `None` if there are none, or
/// if the rules are wrong.
pub(super) fn left_out(config: &Config) -> Option<String> {
    let rules = rules(config, Path::new("")).ok()?;
    let rules = match config.matcher {
        Matcher::Rust => matcher(rules, config).ok()?.1,
        Matcher::Hyperscan => rules,
    };
    Some(rules.summary()?.to_string())
}

/// How many rules the automata of an inspector have, and the bytes of their tables: they are built to
/// tell, since how large they get follows from all rules together. `None` if another matcher inspects,
/// or the rules are wrong.
pub(super) fn automata(config: &Config) -> Option<(usize, usize)> {
    match config.matcher {
        Matcher::Rust => {
            let (matcher, rules) = matcher(rules(config, Path::new("")).ok()?, config).ok()?;
            Some((rules.len(), matcher.table_bytes()))
        }
        Matcher::Hyperscan => None,
    }
}

/// The matcher of rules, without those whose automata are too large, unless that is an error.
fn matcher(mut rules: Rules, config: &Config) -> Result<(DeepMatcher, Rules), RulesError> {
    for _ in 0..MOST_TOO_LARGE {
        let error = match DeepMatcher::new(&rules) {
            Ok(matcher) => return Ok((matcher, rules)),
            Err(error) => error,
        };
        let name = match &error.problem {
            Problem::RuleTooLarge { rule, .. } | Problem::RulesTooLarge { rule, .. } => rule,
            _ => return Err(error),
        };
        let large = rules.iter().find(|(_, rule)| rule.name() == name);
        match large {
            Some((index, rule)) if rule.is_foreign() && !config.strict => {
                rules = rules.without(index, error);
            }
            _ => return Err(error),
        }
    }
    Ok((DeepMatcher::new(&rules)?, rules))
}

/// Where the two directions of a flow stand.
struct Streams<S> {
    states: [S; 2],
    progress: [Progress; 2],
    /// They are remembered from packet to packet, and counted.
    has_place: bool,
    /// The host that they are counted for; 0 for none.
    host: u32,
}

/// What so many flows take of which something is half seen, besides what rules of several items
/// remember.
pub(super) const fn stream_bytes(flows: usize) -> u64 {
    type One = Streams<DeepState>;
    slab_bytes::<Box<One>>(flows) + (flows * size_of::<One>()) as u64
}

impl<S: Default> Default for Streams<S> {
    fn default() -> Self {
        Self {
            states: Default::default(),
            progress: Default::default(),
            has_place: false,
            host: 0,
        }
    }
}

impl<S: Default> Streams<S> {
    /// Nothing is half seen of a direction.
    fn forget(&mut self, way: Direction) {
        self.states[way.index()] = S::default();
        self.progress[way.index()].clear();
    }
}

/// The packet inspector's part on the slow path.
pub struct Inspector<M: StreamMatcher> {
    config: Config,
    program: FastProgram,
    gate: Arc<Gate>,
    matcher: M,
    rules: Rules,
    /// By item: the rule that it is alone, wherever it is found.
    alone: Vec<Option<RuleIndex>>,
    /// Rules may be met by the first bytes of a stream, whatever they are.
    knows_beginnings: bool,
    /// The rules have changed, so that what is half seen is so no more.
    forgets_streams: bool,
    /// Of each flow of which something may be half seen: where its two directions stand.
    streams: Slab<Box<Streams<M::State>>>,
    host_limit: Option<HostLimit>,
    /// Hosts that have opened such flows.
    hosts: Hosts,
    /// Room for such that are no more: a look at one packet needs it too.
    spare: Vec<Box<Streams<M::State>>>,
    matched: RuleSet,
    hits: Vec<Hit>,
    /// What is looked at is all that there is.
    is_apart: bool,
    /// By rule: how many packets it has let pass as an alert, or begun to ban a flow with.
    met: Vec<u64>,
    counters: Counters,
}

#[derive(Default)]
struct Counters {
    bans: u64,
    alerts: u64,
    deep_scans: u64,
    deep_bytes: u64,
    half_seen: u64,
    forgotten_streams: u64,
    forgotten_places: u64,
    streams_over_host_limit: u64,
    failed_scans: u64,
    uninspected: u64,
    fragments: u64,
    repeated: u64,
    late: u64,
    out_of_order: u64,
    gaps: u64,
    unseen_bytes: u64,
    bad_checksums: u64,
}

impl<M: StreamMatcher> Inspector<M> {
    /// An inspector with a matcher for these rules.
    pub fn new(config: &Config, rules: &Rules, matcher: M) -> Self {
        let gate = Arc::new(Gate::new(rules));
        let all = 0..rules.items().len() as ItemIndex;
        Self {
            program: program(config, Arc::clone(&gate), rules.begin_with_streams()),
            gate,
            matcher,
            rules: rules.clone(),
            alone: all.map(|item| rules.rule_of_one(item)).collect(),
            knows_beginnings: rules.begin_with_streams(),
            forgets_streams: false,
            streams: Slab::new(config.streams as usize),
            host_limit: config.host_limit(),
            hosts: Hosts::default(),
            spare: Vec::new(),
            matched: RuleSet::new(),
            hits: Vec::new(),
            is_apart: false,
            met: vec![0; rules.len()],
            counters: Counters::default(),
            config: config.clone(),
        }
    }

    /// A flow is banned, by a rule or for what it lacks.
    fn ban(
        &mut self,
        packet: Packet,
        rule: Option<RuleIndex>,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        let streams = self.streams.remove(std::mem::take(flow.handle));
        streams
            .into_iter()
            .for_each(|streams| self.recycle(streams));
        self.counters.bans += 1;
        if let Some(rule) = rule {
            self.count_met(rule);
        }
        State(flow.words).ban(rule);
        flow.words[LAST_SEEN] = flow.now.ticks();
        out.drop(packet, DropReason::Banned);
    }

    /// The rule that has banned a flow with these words, where it is written and what it says.
    pub(super) fn rule_of_flow(&self, words: &[u32]) -> Option<String> {
        self.rule_text(banning_rule(*words.get(FLAGS)?)?)
    }

    /// A rule, where it is written and what it says.
    fn rule_text(&self, rule: RuleIndex) -> Option<String> {
        let rule = self.rules.rule(rule)?;
        let (file, line) = (self.rules.file_name(), rule.line());
        Some(format!(
            "rule {} ({file}:{line}): {}",
            rule.name(),
            rule.text()
        ))
    }

    /// How often rules were met here, those from a number on.
    pub(super) fn hits(&self, from: u32, most: u32) -> Page<EntryHits> {
        Page::of(from, most, self.met.len(), |number| {
            Some(EntryHits {
                rule: None,
                text: self.rule_text(number as RuleIndex)?,
                packets: *self.met.get(number as usize)?,
                bytes: None,
            })
        })
    }

    fn count_met(&mut self, rule: RuleIndex) {
        if let Some(count) = self.met.get_mut(usize::from(rule)) {
            *count += 1;
        }
    }

    /// Whether a fragment belongs to what is to be inspected.
    fn is_kept_out(&self, fragment: &Packet) -> bool {
        let mut rules = self.rules.iter();
        self.config.drops_fragments() && rules.any(|(_, rule)| rule.is_for(fragment))
    }

    /// Nothing of the streams is known any more; their room serves others.
    fn recycle(&mut self, mut streams: Box<Streams<M::State>>) {
        Direction::BOTH
            .into_iter()
            .for_each(|way| streams.forget(way));
        streams.has_place = false;
        self.hosts.close(std::mem::take(&mut streams.host));
        self.spare.push(streams);
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

    fn share(&mut self, name: &str, common: &Common) {
        self.hosts.share(name, common);
    }

    fn handle(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        if State(flow.words).has(BANNED) {
            flow.words[LAST_SEEN] = flow.now.ticks();
            return out.drop(packet, DropReason::Banned);
        }
        let is_fragment = packet.layout.fragment != Fragment::Whole;
        if is_fragment && self.is_kept_out(&packet) {
            self.counters.fragments += 1;
            return out.drop(packet, DropReason::Fragment);
        }
        if is_fragment || packet.role != Role::Member {
            self.counters.uninspected += 1;
            return out.forward(packet);
        }
        match packet.is_tcp() {
            true => self.segment(packet, flow, out),
            false => self.datagram(packet, flow, out),
        }
    }

    fn is_pending(&self, words: &[u32], _handle: u32) -> bool {
        words[FLAGS] & STREAMING != 0
    }

    fn is_expired(&self, words: &[u32], now: Instant) -> bool {
        let (config, has) = (&self.config, |flag| words[FLAGS] & flag != 0);
        let timeout = if has(BANNED) {
            config.ban_timeout.ticks()
        } else if has(DATAGRAMS) {
            config.datagram_timeout.ticks()
        } else if has(CLOSED) {
            config.stream_timeout.ticks().min(CLOSED_TICKS)
        } else if !has(CONFIRMED) {
            config.half_open_timeout.ticks()
        } else {
            config.stream_timeout.ticks()
        };
        now.ticks_since(words[LAST_SEEN]) > timeout
    }

    fn eviction(&self, words: &[u32]) -> Option<Eviction> {
        (words[FLAGS] != 0).then_some(match words[FLAGS] & CONFIRMED {
            0 => Eviction::HalfOpen,
            _ => Eviction::Never,
        })
    }

    fn forget(&mut self, handle: u32) {
        let streams = self.streams.remove(handle);
        streams
            .into_iter()
            .for_each(|streams| self.recycle(streams));
    }

    /// New rules see a flow's bytes from the next packet on. Bans stay.
    fn reconfigure(&mut self, new: &mut dyn NetworkFunction) -> bool {
        let Some(new) = (new as &mut dyn Any).downcast_mut::<Self>() else {
            return false;
        };
        swap(self, new);
        swap(&mut self.counters, &mut new.counters);
        swap(&mut self.hosts, &mut new.hosts);
        self.forgets_streams = !self.rules.do_as(&new.rules);
        if self.forgets_streams {
            self.hosts.clear();
        } else {
            swap(&mut self.met, &mut new.met);
            swap(&mut self.streams, &mut new.streams);
            self.streams.set_limit(self.config.streams as usize);
        }
        true
    }

    fn adapt(&mut self, words: &mut [u32], handle: &mut u32) {
        let mut state = State(words);
        if !self.forgets_streams {
            return;
        }
        if state.has(BANNED) {
            state.forget_rule();
        } else {
            state.unset(STREAMING);
            *handle = 0;
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let counters = &self.counters;
        each("bans", counters.bans);
        each("alerts", counters.alerts);
        each("deep_scans", counters.deep_scans);
        each("deep_bytes", counters.deep_bytes);
        each("half_seen", counters.half_seen);
        each("forgotten_streams", counters.forgotten_streams);
        each("forgotten_places", counters.forgotten_places);
        each("streams_over_host_limit", counters.streams_over_host_limit);
        each("failed_scans", counters.failed_scans);
        each("uninspected", counters.uninspected);
        each("fragments", counters.fragments);
        each("repeated", counters.repeated);
        each("late", counters.late);
        each("out_of_order", counters.out_of_order);
        each("gaps", counters.gaps);
        each("unseen_bytes", counters.unseen_bytes);
        each("bad_checksums", counters.bad_checksums);
        each("rules_left_out", self.rules.left_out().len() as u64);
    }
}
