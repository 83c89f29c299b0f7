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
//! # Routes of the kernel
//! With `routes = "kernel"` there are no `next_hops` and `routes` in the file: links, addresses, routes
//! (ECMP, next hop objects, `blackhole`, `unreachable`, `prohibit`) and neighbours are those of this
//! host's kernel, and their changes are followed. It is for the network interfaces in `[ports]`, whose
//! addresses may be the kernel's, too. Errors come from the first address of a port if `address` and
//! `address6` are not said. Where several next hops share a route, the addresses of a packet tell which
//! one it gets: each pair of hosts keeps its own. [Between cables](../between-cables.md) has an example.
//!
//! # What is not forwarded
//! - Frames to groups (broadcast, multicast) or to other stations (with `macs`, and on network interfaces) never enter the
//!   chain (RFC 1812 §5.3.4; `other_station`). Nor do packets from `0.0.0.0/8`, `127.0.0.0/8`,
//!   `169.254.0.0/16`, `224.0.0.0/4`, `240.0.0.0/4`, `::`, `::1`, `fe80::/10`, `ff00::/8` and from
//!   the router's own addresses (RFC 1812 §5.3.7, RFC 4291 §2.5; `martian`), those whose IPv4
//!   header's checksum is wrong (RFC 1812 §5.2.2; `verify_ipv4_checksum` in `[service]`), and those
//!   whose senders say which way they go: IPv4's source routes (RFC 7126 §4.3, §4.4) and IPv6's
//!   routing header of type 0 with segments left (RFC 5095; `source_route`).
//! - Packets to its own addresses, among which are those of the ports in `[ports]`, are for the router: it
//!   answers echo requests, whole ones of up to 1500 bytes with a valid checksum, and drops all others
//!   (`for_router`).
//! - Packets to all hosts of a network are dropped (RFC 1812 §5.3.5, RFC 2644; `broadcast`): those to
//!   `255.255.255.255`, and to the first and the last address of a network on a cable, which is one of
//!   the ports' own in `[ports]`, or one with a route via a next hop that has neither an address nor
//!   a MAC address. Networks of one or two addresses have no broadcast (RFC 3021). A route to exactly
//!   such an address of a network counts more.
//! - Packets to addresses that no router forwards to are discarded, unless there is a route to
//!   exactly that prefix: `0.0.0.0/8`, `127.0.0.0/8`, `169.254.0.0/16`, `224.0.0.0/4`,
//!   `240.0.0.0/4`, `::/128`, `::1/128`, `fe80::/10`, `ff00::/8`. Groups have no routes: one to a
//!   prefix within `224.0.0.0/4` or `ff00::/8` is refused, unless it goes via `discard`.
//! - A packet whose time to live is 1 or 0 is answered with ICMP "time exceeded".
//! - ICMP errors are never sent about ICMP errors and redirects, later fragments, packets to or from
//!   multicast, broadcast, loopback or unspecified addresses, frames to a group's MAC address, and
//!   packets behind MPLS labels, which say nothing of the way back (RFC 1812 §4.3.2.7, RFC 4443
//!   §2.4 e). They leave towards whoever sent the frame, with its tags, back through all functions
//!   that the packet has passed: a translation gives the host inside its own addresses back, in
//!   the quoted packet too, and a list before the router must let them pass.
//! - What is not IP never enters the chain (`unparsed` in `[service]`).
//! - A packet that is longer than the `mtu` of the port in `[ports]` that it is to leave by
//!   (RFC 1812 §5.3.1, §4.2.2.7; on network interfaces also theirs) is fragmented if it is IPv4 and
//!   its sender allows that; else it is dropped (`too_long`) and answered with "fragmentation
//!   needed" (RFC 1191) or "packet too big" (RFC 4443 §3.2). There is no reassembly.
//! - A packet that leaves for a neighbour at a network interface has no VLAN tags, whichever it came with.
//!   Where next hops are MAC addresses its tags go on to the other port as they came.
//! - On network interfaces a next hop, or a host on a cable, that does not answer questions for its MAC
//!   address is unreachable after three seconds: packets that waited for it are answered with "host
//!   unreachable" (RFC 1812 §5.2.7.1) or "address unreachable" (RFC 4443 §3.1).
//!
//! # Changes
//! Routes and next hops change while packets flow (`twinpath apply`, `twinpath change`), one by one as
//! far as two configurations differ. A
//! change of a route concerns the cached rules of packets to its prefix that came from the next
//! hop which covered that so far; one of a next hop those that came from it. If very much changes
//! another router, built on another thread, takes this one's place, and that concerns all rules.
//!
//! # Counters
//! | counter | meaning |
//! |---|---|
//! | `forwarded`, `forwarded_bytes` | packets that got a next hop, as far as rules have reported, and bytes of their frames; by next hop in `twinpath counters` |
//! | `no_route` | packets without a route |
//! | `broadcasts` | packets to all hosts of a network |
//! | `unreachable`, `prohibited` | packets with a route of the kernel's that says so |
//! | `discarded` | packets with a route to nowhere |
//! | `expired` | packets whose time to live ended |
//! | `local`, `echoes_answered` | packets to the router itself, and echo requests among them that it answered |
//! | `errors_sent` | ICMP errors that were sent |
//! | `answers_limited` | ICMP errors and echo replies that were too many |
//! | `routes` | routes in the table at the moment: those of the file, of its file of routes or of the kernel, and those that the router has by itself: to nowhere (prefixes that no packet on a wire goes to), to its own addresses, and to all hosts of its links |

mod broadcast;
mod change;
mod config;
mod descriptor;
mod edit;
mod function;
mod group;
mod kernel;
mod learning;
mod numbers;
mod route;
mod route_file;
mod routes;
#[cfg(test)]
mod tests;

pub use change::{NewRoutes, RouteChange};
pub use config::{
    Config, ConfigError, MAX_NEXT_HOPS, Martians, NextHop, NextHopError, NoRoute, Reached,
};
pub use descriptor::FUNCTION;
pub use function::Router;
pub use group::NextHopGroup;
pub use kernel::{KernelRoutes, Learned};
pub use learning::{Learning, is_routable};
pub use route::GroupRoute;
pub use route_file::{NextHopNames, RouteFileError, WrongRoute, read_routes};
pub use routes::{RouterError, WrongLine};

/// The function's name.
pub const NAME: &str = "router";
