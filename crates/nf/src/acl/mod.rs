//! An access control list: the first rule that matches a packet decides, packet by packet.
//!
//! Unlike the [firewall](crate::firewall) it keeps no state: each direction of a connection needs
//! a rule of its own, and no rule sees more than one packet. In exchange a list may be long, and
//! what it decides is cached for all packets that agree in the bits that decided.
//!
//! # Configuration
//! The keys are the fields of [`Config`].
//!
//! ```toml
//! [acl]
//! default = "deny"
//! rules = [
//!     { action = "deny", protocol = "tcp", to_port = 25 },
//!     { action = "allow", protocol = "tcp", from = "10.0.0.0/8", to_port = "80,443,8000-8100" },
//!     { action = "allow", from = "192.0.2.0/24" },
//! ]
//! ```
//!
//! A rule with `ingress` matches packets that come in by that one of the node's ports, by the name
//! that `ports` in `[service]` gives it; other rules match whichever port they come in by. Not to be
//! confused with `from_port` and `to_port`, which are those of TCP and UDP. Each port that rules name
//! has classifiers of its own, and cached rules tell ports apart if the list does.
//!
//! ```toml
//! [service]
//! ports = ["lan", "uplink"]
//!
//! [acl]
//! default = "allow"
//! rules = [{ action = "deny", ingress = "uplink", from = "10.0.0.0/8" }] # spoofed
//! ```
//!
//! A rule with ports and without a protocol speaks of TCP and UDP. With lists of ports one rule
//! becomes several in the classifier, one for each pair of ranges and each protocol; there may be
//! a million of those.
//!
//! # What is not a whole TCP or UDP packet
//! - **Fragments.** Only the first of a packet has ports. `"strict"` treats all fragments alike,
//!   without ports: a rule with ports denies any fragment of its protocol and addresses, or
//!   allows none. `"lenient"` judges first fragments by their ports and others as if a rule with
//!   ports that allows had none, and one that denies were not there: what follows a first
//!   fragment that was dropped can never be put together.
//! - **ICMP**, errors too, is judged by its own addresses and protocol.
//! - **What is not IP** never comes to a list, whatever that denies: `unparsed` in `[service]` says
//!   what becomes of it.
//!
//! # Beside a translation
//! Behind a translation ([`napt`](crate::napt), [`nptv6`](crate::nptv6), [`nat64`](crate::nat64)) a list
//! sees packets between hosts inside that go by external addresses with the source that they leave with
//! and the host that they are for; in front of it with the external address, whoever that stands for.
//! So rules about who reaches hosts inside stand behind it, or in both places: packets from outside have
//! external addresses behind it, and those of hosts inside in front of it. `validate` warns of rules that
//! are passed so.
//! # Changes
//! The list can be changed while packets flow: `twinpath apply`, `twinpath change rule`. The new one is
//! prepared beside the old one; building a list of 10,000 rules takes a tenth of a second. Two lists are compared rule by rule. Cached rules go
//! that came from a rule which is gone, or whose packets a new rule may match that something
//! behind it has decided about so far; all others stay, and so do the hits of their rules.
//!
//! # Counters
//! | counter | meaning |
//! |---|---|
//! | `allowed`, `denied` | packets, those of cached rules as far as reported |
//! | `default_hits` | of these, packets that no rule matched |
//!
//! `twinpath rules` and `twinpath change rule list` tell of each rule.

mod change;
mod config;
mod descriptor;
mod expand;
mod function;
mod list;
#[cfg(test)]
mod tests;

pub use change::NewList;
pub use config::{Config, ConfigError, Fragments, MAX_EXPANDED, MAX_RULES};
pub use descriptor::FUNCTION;
pub use function::AccessList;
pub use list::{ListError, Prepared};

/// The function's name.
pub const NAME: &str = "acl";
