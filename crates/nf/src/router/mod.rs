//! An IP router: the longest prefix that covers a packet's destination says where it goes.
//!
//! A packet that is forwarded leaves by the next hop's port, with its MAC addresses, and with its
//! time to live (or hop limit) one less. A million routes take about 29 MB.
//!
//! # Configuration
//! The keys are the fields of [`Config`].
//!
//! ```toml
//! [router]
//! address = "192.0.2.1"
//! next_hops = [
//!     { name = "uplink", mac = "02:00:00:00:01:01", source_mac = "02:00:00:00:00:01", port = 1 },
//!     { name = "lab", mac = "02:00:00:00:02:01", source_mac = "02:00:00:00:00:02", port = 2 },
//! ]
//! routes = [{ to = "0.0.0.0/0", via = "uplink" }, { to = "10.1.0.0/16", via = "lab" }]
//! ```
//!
//! # What is not forwarded
//! - Packets to addresses that no router forwards to are discarded, unless there is a route to
//!   exactly that prefix: `0.0.0.0/8`, `127.0.0.0/8`, `169.254.0.0/16`, `224.0.0.0/4`,
//!   `240.0.0.0/4`, `::/128`, `::1/128`, `fe80::/10`, `ff00::/8`.
//! - A packet whose time to live is 1 or 0 is answered with ICMP "time exceeded".
//! - ICMP errors are never sent about ICMP errors, later fragments, packets to or from multicast,
//!   broadcast or unspecified addresses, and frames to a multicast MAC address (RFC 1812 §4.3.2.7,
//!   RFC 4443 §2.4 e). They leave towards whoever sent the frame, back through the functions of
//!   this part of the chain that the packet has passed: a translation gives the host inside its
//!   own addresses back, in the quoted packet too, and a list before the router must let them
//!   pass. Functions of parts that are not cached as rules with the router's do not see them.
//! - What is not IP is dropped.
//! - There is no fragmentation and no reassembly; a frame too long for its link is the port's
//!   problem.
//!
//! # Changes
//! Routes and next hops change while packets flow ([`NewRoutes`], with a
//! [`Reconfiguration`](twinpath_rulecache::Reconfiguration)), one by one as far as two configurations differ. A
//! change of a route concerns the cached rules of packets to its prefix that came from the next
//! hop which covered that so far; one of a next hop those that came from it. If very much changes
//! another router, built on another thread, takes this one's place, and that concerns all rules.
//!
//! # Counters
//! | counter | meaning |
//! |---|---|
//! | `forwarded`, `forwarded_bytes` | packets that got a next hop, as far as rules have reported, and bytes of their frames; also by next hop ([`Router::next_hops`]) |
//! | `no_route` | packets without a route |
//! | `discarded` | packets with a route to nowhere |
//! | `expired` | packets whose time to live ended |
//! | `errors_sent`, `errors_limited` | ICMP errors that were sent, and that were too many |
//! | `not_ip` | frames that are not IP |
//! | `routes` | routes at the moment, those to nowhere included |

mod change;
mod config;
mod descriptor;
mod edit;
mod function;
mod icmp_errors;
mod route_file;
mod routes;
#[cfg(test)]
mod tests;

pub use change::{NewRoutes, RouteChange};
pub use config::{Config, ConfigError, MAX_NEXT_HOPS, NextHop, NoRoute};
pub use descriptor::FUNCTION;
pub use function::Router;
pub(crate) use icmp_errors::{Cause, Errors};
pub use route_file::{NextHopNames, RouteFileError, WrongRoute, read_routes};
pub use routes::RouterError;

/// The function's name.
pub const NAME: &str = "router";
