//! What a function declares about itself, and what it is configured by.

use crate::bindings::{Bindings, EndBindings};
use crate::edit::{Edit, EditError, Object};
use crate::files::Files;
use crate::largest_flows::LargestFlows;
use crate::memory::TableMemory;
use crate::records::{BackendText, BindingEvents, EntryHits, FlowRecord, FlowText, Page};
use crate::shard::{HostShards, Owners, Shard};
use crate::undelivered::Undelivered;
use schemars::Schema;
use std::any::Any;
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use toml::de::ValueDeserializer;
use twinpath_classify::Prefix;
use twinpath_core::wire::layout::Layout;
use twinpath_core::wire::{Address, MacAddress};
use twinpath_core::{Adjacencies, FlowKey, Guarantees, Instant, Side};
use twinpath_rulecache::{EntryText, Reconfiguration, RuleFunction};
use twinpath_slowpath::NetworkFunction;

/// Reads a function's section.
pub type Read =
    fn(ValueDeserializer<'_>, SectionContext<'_>) -> Result<Arc<dyn FunctionConfig>, ReadError>;

/// Why a section cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// What is written there.
    #[error("{}", .0.message())]
    Toml(#[from] toml::de::Error),
    /// A value that does not go with others of the section, each of which is right.
    #[error("{source}")]
    At {
        /// Its place: keys of nested tables, and numbers of entries of lists.
        keys: Vec<String>,
        /// A word that others may be wrong for too, such as a name of nothing.
        word: Option<String>,
        /// What is wrong with it.
        source: Box<dyn Error + Send + Sync>,
    },
    /// What a value says by itself, or the file that it names.
    #[error("{source}")]
    Named {
        /// Its place: a key, and the number of an entry of a list.
        keys: Vec<String>,
        /// What is wrong with it.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Several mistakes, of which none follows from another.
    #[error("{} mistakes", .0.len())]
    Several(Vec<Self>),
}

/// Why a table cannot be what it says, and where in it that is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct Placed<E: Error> {
    /// At this key.
    pub key: &'static str,
    /// In the entry with this number, if it is one of a list.
    pub entry: Option<usize>,
    /// What is wrong.
    pub error: E,
}

impl<E: Error> Placed<E> {
    /// At a key.
    pub(crate) const fn at(key: &'static str, error: E) -> Self {
        let entry = None;
        Self { key, entry, error }
    }

    /// In an entry of the list at a key.
    pub(crate) const fn within(key: &'static str, entry: usize, error: E) -> Self {
        let entry = Some(entry);
        Self { key, entry, error }
    }

    /// The same with what is wrong told in another way.
    pub(crate) fn map<F: Error>(self, tell: impl FnOnce(E) -> F) -> Placed<F> {
        Placed {
            key: self.key,
            entry: self.entry,
            error: tell(self.error),
        }
    }
}

impl<E: Error + Send + Sync + 'static> From<Placed<E>> for ReadError {
    fn from(Placed { key, entry, error }: Placed<E>) -> Self {
        let entry = entry.map(|entry| entry.to_string());
        Self::Named {
            keys: std::iter::once(key.to_owned()).chain(entry).collect(),
            source: Box::new(error),
        }
    }
}

impl ReadError {
    /// All mistakes of a section.
    ///
    /// # Errors
    /// There are some.
    pub(crate) fn all(mistakes: Vec<Self>) -> Result<(), Self> {
        match mistakes.is_empty() {
            true => Ok(()),
            false => Err(Self::Several(mistakes)),
        }
    }

    /// What a key of the section names is wrong.
    pub(crate) fn named(key: &'static str, source: impl Error + Send + Sync + 'static) -> Self {
        Self::Named {
            keys: vec![key.to_owned()],
            source: Box::new(source),
        }
    }
}

/// What a section may speak of besides itself.
#[derive(Copy, Clone, Debug)]
pub struct SectionContext<'a> {
    /// The service file's folder, where relative paths start from.
    pub folder: &'a Path,
    /// Where files come from that it names.
    pub files: &'a dyn Files,
    /// The names of the node's ports, by number.
    pub ports: &'a [String],
    /// The node's own addresses at the ports.
    pub addresses: &'a [Address],
    /// The networks on the cables at the ports, as far as ports have addresses.
    pub networks: &'a [Prefix],
    /// Where neighbours get their numbers from.
    pub adjacencies: &'a Adjacencies,
}

/// What a function declares about itself.
pub struct Descriptor {
    /// Its name in service files.
    pub name: &'static str,
    /// What its decisions depend on.
    pub form: Form,
    /// Why its decisions are cached, or why it shares state, and what of it stays on the slow path: for
    /// people to read.
    pub placement: &'static str,
    /// Whether a service that has the function must say how it is configured.
    pub needs_section: bool,
    /// Whether packets meet it behind all other functions whichever way they go, because what it
    /// decides depends on the addresses that they leave with. It stands at the end of a chain.
    pub decides_last: bool,
    /// Reads its section of a service file.
    pub read: Read,
    /// What its section looks like: [`schema::of`](crate::schema::of) its configuration.
    pub schema: fn() -> Schema,
}

impl fmt::Debug for Descriptor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

/// What a function's decisions depend on.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// State that packets change: both paths share it.
    Flow,
    /// Header bits and table entries: decisions are cached as rules.
    Rules,
    /// Policies about connections of packets in tunnels: what they decide is kept as flows.
    Dash,
}

/// A function, by what its decisions depend on.
pub enum Function {
    /// State that packets change: both paths share it.
    Flow(Box<dyn NetworkFunction>),
    /// Header bits and table entries: decisions are cached as rules.
    Rules(Box<dyn RuleFunction>),
    /// Policies about connections of packets in tunnels.
    Dash(Box<twinpath_dash::Dpu>),
}

impl Function {
    /// One that shares flow state.
    pub fn flow(function: impl NetworkFunction) -> Self {
        Self::Flow(Box::new(function))
    }

    /// One that makes rules.
    pub fn rules(function: impl RuleFunction) -> Self {
        Self::Rules(Box::new(function))
    }
}

/// A function's configuration, read and checked.
pub trait FunctionConfig: Any + fmt::Debug + Send + Sync {
    /// The function.
    fn descriptor(&self) -> &'static Descriptor;

    /// Why its decisions are cached, or why it shares state, as it is configured: for people to read.
    fn placement(&self) -> &'static str {
        self.descriptor().placement
    }

    /// Whether all packets are for the slow path, whatever room a device has: then flow state of the
    /// functions beside it is there alone, too.
    fn is_for_slow_path(&self) -> bool {
        false
    }

    /// Why the function needs the payloads of packets on the slow path: it reads, writes or quotes what
    /// transport headers carry, changes how much of it there is, makes copies of packets or keeps
    /// them. `None` if headers will do: then the payload may be elsewhere while the function has the
    /// packet, what stands where it was has no meaning, and checksums are mended, not computed anew.
    /// Packets whose time to live ends are always whole.
    fn needs_payload(&self) -> Option<&'static str>;

    /// Why headers will do for a function that does not need payloads, for people to read.
    fn does_with_headers(&self) -> &'static str {
        "reads and writes headers alone"
    }

    /// Whether the function may ask if a packet's transport checksum holds
    /// ([`Packet::checksums_hold`](twinpath_core::Packet::checksums_hold)). Of a packet whose payload is
    /// elsewhere somebody has to sum that up before, which is done for none if nobody asks.
    fn asks_for_checksums(&self) -> bool {
        true
    }

    /// How long the function may hold packets, if it does: of packets that are split it holds headers,
    /// while their payloads wait.
    fn longest_hold(&self) -> Option<Duration> {
        None
    }

    /// What the function gives to those behind it, and needs of those in front of it, in both
    /// directions: the same as its fast program says.
    fn guarantees(&self) -> Guarantees {
        Guarantees::NONE
    }

    /// Whether fragments are to come in order, behind the first of their datagram, which has the
    /// ports ([`twinpath_core::fragments`] says with what limits). Functions that share flow state
    /// then meet them with the flow that the ports tell.
    fn needs_ports(&self) -> bool {
        false
    }

    /// The same with the numbers that its neighbours have in another list; `None` if it has no
    /// neighbours.
    ///
    /// # Errors
    /// The list is full.
    fn with_adjacencies(
        &self,
        _adjacencies: &Adjacencies,
    ) -> Result<Option<Arc<dyn FunctionConfig>>, FunctionError> {
        Ok(None)
    }

    /// The same with what the function of a running service has learned from outside of the file, such
    /// as routes of the kernel; `None` if there is nothing of the kind.
    fn learning_from(&self, _running: &dyn FunctionConfig) -> Option<Arc<dyn FunctionConfig>> {
        None
    }

    /// Builds the function; each worker needs one of its own. Relative paths in the configuration
    /// start from `folder`, hashes and choices from `seed`.
    ///
    /// # Errors
    /// A file that the configuration names cannot be read or is wrong.
    fn build(&self, folder: &Path, seed: u64) -> Result<Function, FunctionError>;

    /// What the function's own tables take when they are full and `flows` flows have state, each time that
    /// it is built.
    fn memory(&self, _flows: usize) -> Vec<TableMemory> {
        Vec::new()
    }

    /// Whether another configuration is one of the same function and says the same.
    fn is_same(&self, other: &dyn FunctionConfig) -> bool;

    /// This configuration as a change of a function of the same kind that makes rules, with all
    /// that takes long done; `None` if it makes none.
    ///
    /// # Errors
    /// As for [`Self::build`].
    fn change_from(
        &self,
        _former: &dyn FunctionConfig,
        _folder: &Path,
        _seed: u64,
    ) -> Result<Option<Reconfiguration>, FunctionError> {
        Ok(None)
    }

    /// Whether a function of the same kind may become one of this configuration where it is: of
    /// cached rules only those go that the change concerns, and flows on the fast path stay there.
    /// Else all decisions of its part of the chain are forgotten, or its flows begin anew there.
    fn changes_in_place(&self, former: &dyn FunctionConfig) -> bool {
        self.is_same(former)
    }

    /// Whether the function has things of a kind, which an operator can list.
    fn has(&self, _object: Object) -> bool {
        false
    }

    /// What is configured of the kind, in words.
    fn listed(&self, _object: Object) -> Vec<String> {
        Vec::new()
    }

    /// The rule that decides about a connection which a packet opens that came in by this port, if the
    /// function has such rules and keeps flow state; functions whose decisions are cached say it
    /// themselves.
    fn rule_for(&self, _packet: &[u8], _layout: &Layout, _ingress: u16) -> Option<EntryText> {
        None
    }

    /// The rule by which a function of this configuration drops the packets of a flow with these state
    /// words of its own, if they say it.
    fn rule_of_flow(&self, _function: &dyn NetworkFunction, _words: &[u32]) -> Option<EntryText> {
        None
    }

    /// The configuration after a single change.
    ///
    /// # Errors
    /// It cannot be made; what was wrong and what was expected.
    fn edited(&self, edit: &Edit) -> Result<Arc<dyn FunctionConfig>, EditError> {
        Err(EditError::Object(edit.object()))
    }

    /// Checks that the function may go on where one with another configuration is.
    ///
    /// # Errors
    /// Why it cannot.
    fn check_migration(&self, _former: &dyn FunctionConfig) -> Result<(), MigrationError> {
        Ok(())
    }

    /// What is sound and yet probably not meant so, each with its place in the function's table.
    fn warnings(&self) -> Vec<ConfigWarning> {
        Vec::new()
    }

    /// Of what it looks at each, if it lets all packets pass and yet rules name what it looks at: in
    /// front of a list, each of these has rules of its own, whatever the list drops.
    fn looks_at_each(&self) -> Option<&'static str> {
        None
    }

    /// What of the frames that arrive it takes, if not all: others never enter the chain.
    fn reception(&self) -> Option<Reception> {
        None
    }

    /// Who tells senders of packets that could not be delivered: too long for the link that they were to
    /// leave by, or for a next hop that does not answer. Under the seed senders are told apart that this
    /// is limited for.
    fn undelivered(&self, _seed: u64) -> Option<Undelivered> {
        None
    }

    /// By which ports it sends packets to which prefixes, if it routes: what its table itself says.
    fn routed_ports(&self) -> Option<Vec<(Prefix, u16)>> {
        None
    }

    /// The bindings that a function of this configuration has, if it has some.
    fn bindings<'f>(&self, _function: &'f dyn RuleFunction) -> Option<&'f dyn Bindings> {
        None
    }

    /// How often the entries with these numbers of a function of this configuration decided, if it
    /// counts that.
    fn hits(
        &self,
        _function: &dyn RuleFunction,
        _from: u32,
        _most: u32,
    ) -> Option<Page<EntryHits>> {
        None
    }

    /// The same of a function that shares flow state: of one worker.
    fn flow_hits(
        &self,
        _function: &dyn NetworkFunction,
        _from: u32,
        _most: u32,
    ) -> Option<Page<EntryHits>> {
        None
    }

    /// The flows with these numbers that a function of this configuration counts, if it does.
    fn flow_records(
        &self,
        _function: &dyn RuleFunction,
        _from: u32,
        _most: u32,
    ) -> Option<Page<FlowRecord>> {
        None
    }

    /// Takes records of flows that have ended, at most so many, from a function of this
    /// configuration, if it counts flows.
    fn take_ended_flows(&self, _function: &mut dyn Any, _most: usize) -> Option<Vec<FlowRecord>> {
        None
    }

    /// What a flow's state words say of its packets, if they are this function's and it counts them.
    fn flow_record(
        &self,
        _key: &FlowKey,
        _initiator: Side,
        _words: &[u32],
        _now: Instant,
    ) -> Option<FlowRecord> {
        None
    }

    /// The largest of the flows that a function of this configuration has seen the end of, and how many
    /// of them a report is to tell.
    fn largest_flows(&self, _function: &dyn Any) -> Option<(usize, LargestFlows)> {
        None
    }

    /// Takes what became of bindings, at most so many, from a function of this configuration, if it
    /// has some. From the first time on that is kept for whoever takes it: none may be asked for, to begin.
    fn take_binding_events(
        &self,
        _function: &mut dyn RuleFunction,
        _most: usize,
    ) -> Option<BindingEvents> {
        None
    }

    /// Bindings of a function that is over end, of at most so many numbers from one on, which is to be
    /// [taken](Self::take_binding_events). Returns the next number, if there is one. The function must meet no
    /// packets any more: nobody hears of rules.
    fn end_all_bindings(
        &self,
        _function: &mut dyn RuleFunction,
        _from: u32,
        _most: u32,
    ) -> Option<u32> {
        None
    }

    /// What a flow's state words say, if they are this function's.
    fn flow_text(&self, _words: &[u32], _now: Instant) -> Option<FlowText> {
        None
    }

    /// What it chose for a packet of a flow, and why, if it chooses: as its state words tell before the
    /// packet and behind it.
    fn choice_text(&self, _before: &[u32], _after: &[u32]) -> Option<String> {
        None
    }

    /// Its backends, if it has some, in the order of their numbers.
    fn backends(&self) -> Vec<BackendText> {
        Vec::new()
    }

    /// The end of bindings, as a change of its function; `None` if it has none.
    fn end_bindings(&self, _which: EndBindings) -> Option<Reconfiguration> {
        None
    }

    /// What a shard's function has of this, where hosts belong to these shards; `None` if all have the
    /// same.
    ///
    /// # Errors
    /// There is not enough for so many shards.
    fn of_shard(
        &self,
        _shard: Shard,
        _hosts: HostShards,
    ) -> Result<Option<Arc<dyn FunctionConfig>>, FunctionError> {
        Ok(None)
    }

    /// Whether packets between hosts inside that belong to two shards go through it twice: in the shard
    /// of the sender, and then in that of the receiver, where they enter the chain at it.
    fn joins_shards(&self) -> bool {
        false
    }

    /// To whom external endpoints belong, if it translates and is spread over so many shards.
    fn owners(&self, _shards: u16) -> Option<Box<dyn Owners>> {
        None
    }

    /// The addresses that it translates, if it does.
    fn translation(&self) -> Option<Translation<'_>> {
        None
    }
}

/// What is sound in a function's table and yet probably not meant so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigWarning {
    /// Where: keys of nested tables, and numbers of entries of lists.
    pub keys: Vec<String>,
    /// What, and why.
    pub message: String,
    /// Where what is the cause of it stands, if that is elsewhere: as `keys`.
    pub because: Vec<Vec<String>>,
    /// The file and the line, if it is about another file than the service's.
    pub elsewhere: Option<(PathBuf, u32)>,
}

impl ConfigWarning {
    /// One whose cause stands at its own place.
    pub(crate) fn new(keys: Vec<String>, message: String) -> Self {
        Self {
            keys,
            message,
            because: Vec::new(),
            elsewhere: None,
        }
    }
}

/// What a router takes of the frames that arrive. Those to group addresses it does not take
/// (RFC 1812 §5.3.4), nor those whose senders want to say which way they go (RFC 7126 §4.3, §4.4,
/// RFC 5095).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reception {
    /// Its own MAC addresses: frames to others are not for it. Without any all are taken, but on
    /// network interfaces those alone that are to the interfaces, or to `source_macs`.
    pub macs: Vec<MacAddress>,
    /// The MAC addresses that it sends from.
    pub source_macs: Vec<MacAddress>,
    /// Its own addresses, if packets are dropped that claim to come from there, or from where no
    /// packet on a wire comes from (RFC 1812 §5.3.7).
    pub martians_of: Option<Vec<Address>>,
}

/// Addresses that a function translates.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Translation<'a> {
    /// The networks whose hosts are hidden.
    pub inside: &'a [Prefix],
    /// What stands for them outside.
    pub external: &'a [Prefix],
    /// What stands for those outside, where these have others than their own: nobody there sends from it.
    pub outside: &'a [Prefix],
}

impl PartialEq for dyn FunctionConfig {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other)
    }
}

impl dyn FunctionConfig {
    /// Whether the function's decisions are cached as rules; otherwise it shares flow state.
    pub fn makes_rules(&self) -> bool {
        self.descriptor().form == Form::Rules
    }

    /// Whether packets change state of flows that both paths share.
    pub fn shares_state(&self) -> bool {
        self.descriptor().form == Form::Flow
    }

    /// Whether packets meet the function last whichever way they go.
    pub fn decides_last(&self) -> bool {
        self.descriptor().decides_last
    }

    /// This as the configuration of a certain function.
    pub fn of<C: FunctionConfig>(&self) -> Option<&C> {
        (self as &dyn Any).downcast_ref()
    }
}

/// Reads a configuration to which no file belongs; for [`Descriptor::read`].
pub(crate) fn read<C>(
    section: ValueDeserializer<'_>,
    _: SectionContext<'_>,
) -> Result<Arc<dyn FunctionConfig>, ReadError>
where
    C: FunctionConfig + serde::de::DeserializeOwned,
{
    Ok(Arc::new(C::deserialize(section)?))
}

/// The same of one that says where in its table something is wrong.
pub(crate) fn read_placed<W, C, E>(
    section: ValueDeserializer<'_>,
    _: SectionContext<'_>,
) -> Result<Arc<dyn FunctionConfig>, ReadError>
where
    W: serde::de::DeserializeOwned,
    C: FunctionConfig + TryFrom<W, Error = Placed<E>>,
    E: Error + Send + Sync + 'static,
{
    Ok(Arc::new(C::try_from(W::deserialize(section)?)?))
}

/// Why a function cannot be built.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct FunctionError(#[from] Box<dyn Error + Send + Sync>);

impl FunctionError {
    /// What the function says.
    pub fn of(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Box::new(error))
    }
}

/// Why a function cannot go on with another configuration, and what would do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct MigrationError {
    /// The key of its table that it is about, or the first of several.
    pub key: &'static str,
    /// Why not.
    pub why: String,
}
