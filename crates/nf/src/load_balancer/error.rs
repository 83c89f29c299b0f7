//! What can be wrong with a load balancer's configuration.

use super::limits::{
    MAX_BACKENDS, MAX_CHANGES, MAX_SERVICES, MAX_TABLE_ENTRIES, MAX_TABLE_SIZE, MAX_WEIGHT,
};
use super::protocol::Protocol;
use crate::duration::Human;
use thiserror::Error;
use twinpath_wire::{AddressError, Endpoint};

/// What is wrong with a load balancer's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A text that is no endpoint or MAC address.
    #[error("{text:?} is {source}")]
    Text {
        /// What was written.
        text: String,
        /// What it should have been.
        source: AddressError,
    },
    /// An endpoint without a port.
    #[error("{0} has port 0: a service or backend needs a port from 1 to 65535")]
    PortZero(Endpoint),
    /// A table size that is no prime or too large.
    #[error(
        "table_size {0} is not a prime up to {MAX_TABLE_SIZE}, such as 65537 or 251: only with a prime does every backend's permutation reach every entry"
    )]
    TableSize(i64),
    /// A weight out of range.
    #[error(
        "weight {0} is not from 1 to {MAX_WEIGHT}; to give a backend no new connections, drain it"
    )]
    Weight(i64),
    /// A time-out of zero, or of years.
    #[error("a time-out of {0} is not longer than 0 and shorter than 4 years")]
    Timeout(Human),
    /// No service, or too many.
    #[error("{0} services: expected 1 to {MAX_SERVICES}")]
    ServiceCount(usize),
    /// Too many backends in all.
    #[error("{0} backends in all, with those added later: at most {MAX_BACKENDS}")]
    TooManyBackends(usize),
    /// Too much memory for lookup tables.
    #[error(
        "{tables} lookup tables (one for each service and for each time its backends change) of {size} entries are more than {MAX_TABLE_ENTRIES} entries: choose a smaller table_size"
    )]
    TablesTooLarge {
        /// How many tables.
        tables: u64,
        /// Entries of each.
        size: u32,
    },
    /// Too many changes of one service.
    #[error("{changes} changes of {vip}: at most {MAX_CHANGES}")]
    TooManyChanges {
        /// The service.
        vip: Endpoint,
        /// How many there are.
        changes: usize,
    },
    /// A table with fewer entries than the weights of a service ask for.
    #[error(
        "a service's weights add up to {weights}, more than the {size} entries of its lookup table: choose smaller weights or a larger table_size"
    )]
    TableTooSmall {
        /// Sum of the weights.
        weights: u64,
        /// Entries.
        size: u32,
    },
    /// The same service twice.
    #[error("service {vip} ({protocol}) is there twice")]
    DuplicateService {
        /// The service.
        vip: Endpoint,
        /// Its protocol.
        protocol: Protocol,
    },
    /// An endpoint behind two services with return traffic through Twinpath.
    #[error(
        "{endpoint} is a backend of both {first} and {second} ({protocol}) with return = \"through\": packets from it could belong to either; give it another port for one of them, or use return = \"direct\""
    )]
    Ambiguous {
        /// The backend.
        endpoint: Endpoint,
        /// The protocol.
        protocol: Protocol,
        /// One service.
        first: Endpoint,
        /// The other.
        second: Endpoint,
    },
    /// A service that is the backend of a service.
    #[error(
        "{vip} ({protocol}) is a service and also a backend with return = \"through\": packets from it could belong to either"
    )]
    BackendIsService {
        /// The endpoint.
        vip: Endpoint,
        /// The protocol.
        protocol: Protocol,
    },
    /// A service that never has a backend.
    #[error("service {vip} ({protocol}) has no backends")]
    NoBackends {
        /// The service.
        vip: Endpoint,
        /// Its protocol.
        protocol: Protocol,
    },
    /// IPv4 and IPv6 mixed.
    #[error(
        "backend {endpoint} and service {vip} are not of one IP version: a load balancer rewrites addresses, it does not translate between versions"
    )]
    Family {
        /// The service.
        vip: Endpoint,
        /// The backend.
        endpoint: Endpoint,
    },
    /// No MAC address to send to.
    #[error(
        "backend {endpoint} needs a mac: with return = \"direct\" packets reach it by its MAC address"
    )]
    MacMissing {
        /// The backend.
        endpoint: Endpoint,
    },
    /// A MAC address that would not be used.
    #[error("backend {endpoint} has a mac, which is used with return = \"direct\" only")]
    MacUnused {
        /// The backend.
        endpoint: Endpoint,
    },
    /// Not exactly one kind of change.
    #[error("a change has exactly one of drain, remove and add")]
    ChangeKind,
    /// Parameters of an addition in another change.
    #[error("weight and mac go with add only")]
    OnlyWithAdd,
    /// A backend named twice, or added while it is there.
    #[error("{endpoint} is already a backend of {vip} at {at}")]
    AlreadyThere {
        /// The service.
        vip: Endpoint,
        /// The backend.
        endpoint: Endpoint,
        /// Since the start.
        at: Human,
    },
    /// Draining or removing what is not there, or draining what is drained.
    #[error("at {at} {endpoint} cannot be {action}: it is {state} of {vip} then")]
    NotThere {
        /// The service.
        vip: Endpoint,
        /// The backend.
        endpoint: Endpoint,
        /// Since the start.
        at: Human,
        /// `drained` or `removed`.
        action: &'static str,
        /// What it is instead.
        state: &'static str,
    },
    /// Adding what was removed.
    #[error(
        "{endpoint} was removed from {vip} and cannot be added again at {at}: its late packets could not be told from new ones; drain it instead of removing it, or add it with another port"
    )]
    Returned {
        /// The service.
        vip: Endpoint,
        /// The backend.
        endpoint: Endpoint,
        /// Since the start.
        at: Human,
    },
    /// A drained backend that comes back with another MAC address.
    #[error("{endpoint} comes back at {at} with another mac: its row still serves connections")]
    OtherMac {
        /// The backend.
        endpoint: Endpoint,
        /// Since the start.
        at: Human,
    },
}
