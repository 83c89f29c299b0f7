//! External endpoints that always stand for the same ones inside.

use super::ConfigError;
use crate::descriptor::Placed;
use crate::firewall::Opening;
use crate::records::Kind;
use crate::text::Text;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use twinpath_classify::Prefix;
use twinpath_core::wire::unicast::check_host;
use twinpath_core::wire::{Address, Endpoint};

/// Where they are in a function's table.
const KEY: &str = "forward";

/// Most forwards.
pub const MAX_FORWARDS: usize = 4096;

/// Ports of an external address, or a whole one, that stand for a host inside.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Forward {
    /// What has the ports; `None` for a whole address.
    pub kind: Option<Kind>,
    /// The first external endpoint, and the last one's port.
    pub external: Endpoint,
    pub last: u16,
    /// Whom the first one stands for.
    pub to: Endpoint,
}

/// External ports, or a whole address, that stand for a host inside.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Forward")]
pub(crate) struct Written {
    /// What has the ports: `"tcp"` or `"udp"`. Without it a whole address stands for a host, with
    /// all its ports, its echoes and protocols without ports.
    #[schemars(with = "Option<String>")]
    protocol: Option<Text<Kind>>,
    /// The external endpoint, as `"192.0.2.1:80"`, or several, as `"192.0.2.1:8000-8010"`; without
    /// `protocol` an address that is not in `external` of the function.
    external: String,
    /// Whom it stands for, as `"10.0.0.1:80"`; of several the first. Without `protocol` an address.
    to: String,
}

/// What is wrong with a forward.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForwardError {
    /// Too many.
    #[error("{0} forwards: expected at most {MAX_FORWARDS}")]
    Count(usize),
    /// Something else than an address with a port, or ports, before the arrow.
    #[error(
        "external = {0:?}: expected \"192.0.2.1:80\", \"192.0.2.1:8000-8010\", or without protocol an address"
    )]
    External(String),
    /// A port, of no protocol.
    #[error(
        "external = {0:?} has a port: expected a protocol, tcp or udp, beside it, or an address alone"
    )]
    NoProtocol(String),
    /// Something else than an address with a port, or an address.
    #[error("to = {0:?}: expected \"10.0.0.1:80\", or without protocol an address")]
    To(String),
    /// Echoes are not forwarded alone.
    #[error(
        "protocol = \"icmp\": expected tcp or udp; a whole address stands for a host with its echoes"
    )]
    Icmp,
    /// IPv4 on one side and IPv6 on the other.
    #[error("{0} and {1} are of different IP versions")]
    Versions(Address, Address),
    /// Of a translation between versions: not those versions.
    #[error("{0} and {1}: expected an address of IPv4 in external and one of IPv6 in to")]
    NotBetween(Address, Address),
    /// An external address that no host can have.
    #[error(
        "external = {0}: expected the address of a host, not one that is unspecified, loopback, multicast, reserved or broadcast"
    )]
    Impossible(Address),
    /// More ports than there are behind the first.
    #[error("the ports from {0} on do not go as far as those of external")]
    Range(Endpoint),
    /// A host that is not inside.
    #[error("{0} is in no prefix of inside")]
    NotInside(Address),
    /// Two forwards of one external endpoint.
    #[error("{0} is forwarded twice")]
    ExternalTwice(Endpoint),
    /// Two external endpoints for one inside.
    #[error("{0} has two external endpoints: a host inside appears with one")]
    InternalTwice(Endpoint),
    /// A whole address that is shared too.
    #[error("{0} stands for one host, so that it cannot be in external too")]
    Shared(Address),
}

/// Reads forwards.
///
/// # Errors
/// Too many, or one that cannot be, with its number.
pub(crate) fn read(written: Vec<Written>) -> Result<Vec<Forward>, Placed<ForwardError>> {
    if written.len() > MAX_FORWARDS {
        let count = ForwardError::Count(written.len());
        return Err(Placed::at(KEY, count));
    }
    let numbered = written.into_iter().enumerate();
    let forward = |(entry, written)| {
        Forward::try_from(written).map_err(|error| Placed::within(KEY, entry, error))
    };
    numbered.map(forward).collect()
}

impl TryFrom<Written> for Forward {
    type Error = ForwardError;

    fn try_from(written: Written) -> Result<Self, ForwardError> {
        let kind = written.protocol.map(|Text(kind)| kind);
        Self::new(kind, &written.external, &written.to)
    }
}

/// The external side of a forward, as it is written.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForwardEnds {
    first: Endpoint,
    last: u16,
    is_whole: bool,
}

impl FromStr for ForwardEnds {
    type Err = ForwardError;

    fn from_str(text: &str) -> Result<Self, ForwardError> {
        let of = |first, last, is_whole| Self {
            first,
            last,
            is_whole,
        };
        let ports = || range(text).map(|(first, last)| of(first, last, false));
        whole(text)
            .map(|first| of(first, u16::MAX, true))
            .or_else(ports)
            .ok_or_else(|| ForwardError::External(text.to_owned()))
    }
}

impl ForwardEnds {
    /// Whether they are a forward's.
    pub fn are_of(&self, forward: &Forward) -> bool {
        let own = (forward.external, forward.last, forward.kind.is_none());
        own == (self.first, self.last, self.is_whole)
    }
}

impl fmt::Display for Forward {
    /// As `tcp 192.0.2.1:8000-8010 to 10.0.0.1:80`, or `192.0.2.3 to 10.0.0.3`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (external, to) = (self.external, self.to);
        match self.kind {
            None => write!(formatter, "{} to {}", external.address, to.address),
            Some(kind) if self.behind() == 0 => write!(formatter, "{kind} {external} to {to}"),
            Some(kind) => write!(formatter, "{kind} {external}-{} to {to}", self.last),
        }
    }
}

/// A whole address, as its first endpoint.
fn whole(text: &str) -> Option<Endpoint> {
    Some(Endpoint::new(text.parse().ok()?, 0))
}

/// The first endpoint of `192.0.2.1:8000-8010`, and the last port.
fn range(text: &str) -> Option<(Endpoint, u16)> {
    let (first, last) = match text.rsplit_once('-') {
        Some((first, last)) => (first, Some(last)),
        None => (text, None),
    };
    let first: Endpoint = first.parse().ok()?;
    let last = last.map_or(Some(first.port), |last| last.parse().ok())?;
    (0 < first.port && first.port <= last).then_some((first, last))
}

impl Forward {
    /// A forward of what has these ports, or of a whole address.
    ///
    /// # Errors
    /// It cannot be.
    pub fn new(kind: Option<Kind>, external: &str, to: &str) -> Result<Self, ForwardError> {
        let no_external = || ForwardError::External(external.to_owned());
        let nobody = || ForwardError::To(to.to_owned());
        let forward = match kind {
            None => Self {
                kind: None,
                external: whole(external).ok_or_else(|| match range(external) {
                    Some(_) => ForwardError::NoProtocol(external.to_owned()),
                    None => no_external(),
                })?,
                last: u16::MAX,
                to: whole(to).ok_or_else(nobody)?,
            },
            Some(Kind::Icmp) => return Err(ForwardError::Icmp),
            Some(kind) => {
                let (external, last) = range(external).ok_or_else(no_external)?;
                let to = to.parse::<Endpoint>().ok().filter(|to| to.port > 0);
                Self {
                    kind: Some(kind),
                    external,
                    last,
                    to: to.ok_or_else(nobody)?,
                }
            }
        };
        forward.check()
    }

    fn check(self) -> Result<Self, ForwardError> {
        if check_host(self.external.address).is_err() {
            return Err(ForwardError::Impossible(self.external.address));
        }
        let behind = self.last - self.external.port;
        if self.to.port.checked_add(behind).is_none() {
            return Err(ForwardError::Range(self.to));
        }
        Ok(self)
    }

    /// Between versions it leads from IPv4 to IPv6, else both ends are of one version.
    fn check_versions(&self, between: bool) -> Result<(), ForwardError> {
        let (external, to) = (self.external.address, self.to.address);
        match (external.is_v4(), to.is_v4()) {
            (true, false) if between => Ok(()),
            _ if between => Err(ForwardError::NotBetween(external, to)),
            (one, other) if one == other => Ok(()),
            _ => Err(ForwardError::Versions(external, to)),
        }
    }

    /// As `10.0.0.5:80 tcp as 192.0.2.1:8080, forwarded`.
    fn told(&self) -> String {
        let Self {
            kind,
            external,
            last,
            to,
        } = *self;
        let Some(kind) = kind else {
            return format!("{} as {}, forwarded", to.address, external.address);
        };
        let range = match self.behind() {
            0 => String::new(),
            _ => format!("-{last}"),
        };
        format!("{to} {kind} as {external}{range}, forwarded")
    }

    /// What has its ports.
    fn kinds(&self) -> impl Iterator<Item = Kind> + use<> {
        let own = self.kind;
        Kind::ALL
            .into_iter()
            .filter(move |&kind| own.is_none_or(|own| own == kind))
    }

    /// The connections that come by it, as they look outside and inside.
    pub fn openings(&self) -> [Opening; 2] {
        [self.external, self.to].map(|first| Opening {
            protocol: self.kind.map(|kind| kind.to_string()),
            to: first.address,
            ports: self.kind.map(|_| (first.port, first.port + self.behind())),
        })
    }

    /// How many ports there are behind the first.
    const fn behind(&self) -> u16 {
        self.last - self.external.port
    }
}

/// Protocol, address and first port of one side.
type SideKey = (Kind, Address, u16);

/// All forwards, found from either side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Forwards {
    /// As they are written.
    all: Vec<Forward>,
    by_external: BTreeMap<SideKey, Forward>,
    by_internal: BTreeMap<SideKey, Forward>,
}

impl Forwards {
    /// # Errors
    /// Forwards that contradict each other, or lead to nobody inside.
    pub fn new(
        forwards: &[Forward],
        inside: &[Prefix],
        shared: &[Address],
        between_versions: bool,
    ) -> Result<Self, Placed<ForwardError>> {
        let mut all = Self {
            all: forwards.to_vec(),
            ..Self::default()
        };
        for (entry, forward) in forwards.iter().enumerate() {
            forward
                .check_versions(between_versions)
                .and_then(|()| all.add_checked(forward, inside, shared))
                .map_err(|error| Placed::within(KEY, entry, error))?;
        }
        Ok(all)
    }

    fn add_checked(
        &mut self,
        forward: &Forward,
        inside: &[Prefix],
        shared: &[Address],
    ) -> Result<(), ForwardError> {
        let (external, to) = (forward.external.address, forward.to.address);
        if !inside.iter().any(|prefix| prefix.includes(to)) {
            return Err(ForwardError::NotInside(to));
        }
        if forward.kind.is_none() && shared.contains(&external) {
            return Err(ForwardError::Shared(external));
        }
        self.add(forward)
    }

    /// All of them, in words, in the order of the hosts inside.
    pub fn told(&self) -> Vec<String> {
        let mut all: Vec<&Forward> = self.by_internal.values().collect();
        all.sort_by_key(|forward| (forward.to, forward.kind));
        all.dedup();
        all.into_iter().map(Forward::told).collect()
    }

    fn add(&mut self, forward: &Forward) -> Result<(), ForwardError> {
        let Forward { external, to, .. } = *forward;
        for kind in forward.kinds() {
            let places = [(&self.by_external, external), (&self.by_internal, to)];
            let [outside, inside] =
                places.map(|(known, first)| overlaps(known, kind, first, forward.behind()));
            if outside {
                return Err(ForwardError::ExternalTwice(external));
            }
            if inside {
                return Err(ForwardError::InternalTwice(to));
            }
            self.by_external
                .insert((kind, external.address, external.port), *forward);
            self.by_internal
                .insert((kind, to.address, to.port), *forward);
        }
        Ok(())
    }

    /// All of them, in the order in which they are written.
    pub fn written(&self) -> &[Forward] {
        &self.all
    }

    /// Whom an external endpoint stands for.
    pub fn internal(&self, external: Endpoint, kind: Kind) -> Option<Endpoint> {
        let (forward, behind) = find(&self.by_external, external, kind)?;
        Some(Endpoint::new(forward.to.address, forward.to.port + behind))
    }

    /// What stands for an inside endpoint.
    pub fn external(&self, internal: Endpoint, kind: Kind) -> Option<Endpoint> {
        let (forward, behind) = find(&self.by_internal, internal, kind)?;
        let first = forward.external;
        Some(Endpoint::new(first.address, first.port + behind))
    }

    /// The host inside that a whole external address stands for.
    pub fn host(&self, external: Address) -> Option<Address> {
        let forward = self.by_external.get(&(Kind::Icmp, external, 0));
        forward.map(|forward| forward.to.address)
    }

    /// The address that stands for a whole host inside.
    pub fn address(&self, host: Address) -> Option<Address> {
        let forward = self.by_internal.get(&(Kind::Icmp, host, 0));
        forward.map(|forward| forward.external.address)
    }

    /// Whether some of a host's endpoints have external ones in any case.
    pub fn has(&self, host: Address) -> bool {
        let of = |kind| {
            self.by_internal
                .range((kind, host, 0)..=(kind, host, u16::MAX))
        };
        Kind::ALL.into_iter().any(|kind| of(kind).next().is_some())
    }

    /// All external ports, with what has them.
    pub fn externals(&self) -> impl Iterator<Item = (Kind, Endpoint, u16)> {
        let all = self.by_external.iter();
        all.map(|(&(kind, ..), forward)| (kind, forward.external, forward.last))
    }

    /// The addresses of forwards that are in one of two lists alone, of both sides.
    pub fn differing(&self, other: &Self) -> Vec<Address> {
        let lists = [(self, other), (other, self)];
        let differing = lists.into_iter().flat_map(|(one, other)| {
            let own = one.by_external.iter();
            own.filter(|(place, forward)| other.by_external.get(place) != Some(forward))
        });
        let addresses =
            differing.flat_map(|(_, forward)| [forward.external.address, forward.to.address]);
        addresses.collect()
    }
}

/// Whether ports from a first one on are there already.
fn overlaps(known: &BTreeMap<SideKey, Forward>, kind: Kind, first: Endpoint, behind: u16) -> bool {
    let last = first.port + behind;
    let places = (kind, first.address, 0)..=(kind, first.address, last);
    let nearest = known.range(places).next_back();
    nearest.is_some_and(|(&(.., place), forward)| place + forward.behind() >= first.port)
}

/// The forward that an endpoint is part of, and how many ports it is behind the first.
fn find(known: &BTreeMap<SideKey, Forward>, end: Endpoint, kind: Kind) -> Option<(&Forward, u16)> {
    let places = (kind, end.address, 0)..=(kind, end.address, end.port);
    let (&(.., place), forward) = known.range(places).next_back()?;
    let behind = end.port - place;
    (behind <= forward.behind()).then_some((forward, behind))
}

/// The addresses of forwards besides shared ones, each with the number of the first that has it.
pub(crate) fn other_addresses(forwards: &[Forward], shared: &[Address]) -> Vec<(usize, Address)> {
    let mut others: Vec<(usize, Address)> = Vec::new();
    for (entry, forward) in forwards.iter().enumerate() {
        let address = forward.external.address;
        if !shared.contains(&address) && others.iter().all(|(_, other)| *other != address) {
            others.push((entry, address));
        }
    }
    others
}

impl From<ForwardError> for ConfigError {
    fn from(error: ForwardError) -> Self {
        Self::Forward(error)
    }
}
