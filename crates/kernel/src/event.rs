//! What the kernel tells.

use twinpath_classify::Prefix;
use twinpath_core::wire::{Address, MacAddress};

/// One thing that the kernel tells, in a list that was asked for or because it has just happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// There is an interface, or it has changed.
    Link(Link),
    /// An interface is gone.
    LinkGone(u32),
    /// An interface has an address.
    Address(OwnAddress),
    /// It has it no more.
    AddressGone(OwnAddress),
    /// There is a route.
    Route(Route, Placement),
    /// A route is gone, or some of its next hops.
    RouteGone(Route),
    /// There is a next hop object, or it has changed.
    NextHop(NextHopObject),
    /// A next hop object is gone.
    NextHopGone(u32),
    /// A neighbour is known, or looked for.
    Neighbor(Neighbor),
    /// A neighbour is forgotten.
    NeighborGone(Neighbor),
    /// A list that was asked for under this number is complete; if `was_interrupted` it may lack
    /// what changed meanwhile.
    Done {
        /// The number of the question.
        sequence: u32,
        /// Whether it has to be asked for again.
        was_interrupted: bool,
    },
    /// What was asked under this number is not done.
    Refused {
        /// The number of the question.
        sequence: u32,
        /// The system's error number.
        errno: i32,
    },
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// The longest packet that it sends, in bytes.
    pub mtu: u32,
    /// Whether somebody has set it up, and its link is there.
    pub is_up: bool,
}

/// An address of the host itself.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct OwnAddress {
    /// The interface that has it.
    pub interface: u32,
    /// The address.
    pub address: Address,
    /// How many leading bits its network has: of 32 or of 128.
    pub prefix_bits: u8,
    /// Whether it is in use: another host may have it, too.
    pub is_valid: bool,
}

/// Where a route stands among others to its prefix with its metric.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In place of the first.
    Replace,
    /// In front.
    First,
    /// Behind.
    Last,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The number of its table.
    pub table: u32,
    /// What it is for.
    pub prefix: Prefix,
    /// Of several to one prefix the least counts.
    pub metric: u32,
    /// What becomes of packets.
    pub kind: Kind,
    /// Where they go.
    pub hops: Vec<Hop>,
    /// The next hop object that says where, in place of `hops`.
    pub object: Option<u32>,
}

/// What becomes of a route's packets.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// They go to a next hop.
    Unicast,
    /// They are dropped without a word.
    Blackhole,
    /// They are dropped, and their senders told that the host cannot be reached.
    Unreachable,
    /// They are dropped, and their senders told that it is prohibited.
    Prohibit,
    /// They have no route in this table.
    Throw,
}

/// Where packets go.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hop {
    /// The interface that they leave by.
    pub interface: u32,
    /// The neighbour there; `None` if it is the packet's destination. It may be of the other IP
    /// version.
    pub gateway: Option<Address>,
    /// Its share beside others, at least 1.
    pub weight: u16,
    /// Whether the kernel does not use it now.
    pub is_dead: bool,
    /// Whether packets get another header there, as in a tunnel.
    pub is_encapsulated: bool,
}

/// A next hop object: `ip nexthop`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHopObject {
    /// Its number.
    pub id: u32,
    /// What it is.
    pub is: ObjectKind,
}

/// What a next hop object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// One next hop.
    Hop(Hop),
    /// Packets are dropped.
    Blackhole,
    /// Several objects, each with its share.
    Group(Vec<(u32, u16)>),
}

/// A neighbour on an interface.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// The interface.
    pub interface: u32,
    /// Its address.
    pub address: Address,
    /// Its MAC address; `None` if it is not known, or not any more.
    pub mac: Option<MacAddress>,
    /// Whether it was looked for and has not answered.
    pub has_failed: bool,
}
