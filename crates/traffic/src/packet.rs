//! What the generator tells of a packet beside its bytes.

/// A packet that was written into the caller's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generated {
    /// When it comes, in nanoseconds since the Unix epoch; never before its predecessor.
    pub timestamp_ns: u64,
    /// Its length in bytes, from the Ethernet header on, without the checksum (FCS).
    pub len: usize,
    /// The number of its flow, counted from 0 in the order in which flows are
    /// made and never used again; for key-value requests the number of the key.
    pub flow: u64,
    /// What it is.
    pub kind: PacketKind,
    /// Which way it goes.
    pub direction: Direction,
}

/// What a packet is to its flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PacketKind {
    /// The client's first packet of a TCP connection.
    TcpSyn,
    /// The server's answer to it.
    TcpSynAck,
    /// A TCP acknowledgement without data.
    TcpAck,
    /// A TCP segment with data.
    TcpData,
    /// A TCP segment that ends its direction.
    TcpFin,
    /// A TCP segment that ends the connection at once.
    TcpReset,
    /// A UDP datagram.
    Udp,
    /// One of the two fragments of a UDP datagram.
    UdpFragment,
    /// An ICMP error about the flow.
    IcmpError,
    /// A key-value request that reads.
    KvGet,
    /// A key-value request that writes.
    KvPut,
}

/// Which way a packet of a flow goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the flow's client.
    ToServer = 0,
    /// From the flow's server.
    ToClient = 1,
}

impl Direction {
    /// The other way.
    pub fn reversed(self) -> Self {
        match self {
            Self::ToServer => Self::ToClient,
            Self::ToClient => Self::ToServer,
        }
    }
}
