//! What routes lead to besides next hops, by number and by name.

/// The name of the next hop that is none.
pub(super) const DISCARD_NAME: &str = "discard";

/// The next hop that is none.
pub(super) const DISCARD: u32 = u32::MAX >> 1;

/// What packets without a route are credited to; next hops have other numbers.
pub(super) const NO_ROUTE: u32 = DISCARD - 1;

/// Where packets to the router itself go; next hops have other numbers.
pub(super) const LOCAL: u32 = DISCARD - 2;

/// Where packets to all hosts of a network go, which is nowhere.
pub(super) const BROADCAST: u32 = DISCARD - 3;

/// Where packets to a prefix go whose senders are told that there is no way.
pub(super) const UNREACHABLE: u32 = DISCARD - 4;

/// The same where they are told that it is prohibited.
pub(super) const PROHIBITED: u32 = DISCARD - 5;

/// Groups have numbers from here on, which no next hop has.
pub(super) const FIRST_GROUP: u32 = 1 << 24;

/// What no router forwards to (RFC 1812 §5.3.7, RFC 4291 §2.4).
pub(super) const NOWHERE: [&str; 9] = [
    "0.0.0.0/8",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/128",
    "::1/128",
    "fe80::/10",
    "ff00::/8",
];
