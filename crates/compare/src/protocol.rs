//! IP protocols in words.

use std::fmt::{self, Display, Formatter};
use twinpath_core::wire::protocol;

/// An IP protocol as people call it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Protocol(pub u8);

impl Display for Protocol {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            protocol::ICMP => "icmp",
            protocol::TCP => "tcp",
            protocol::UDP => "udp",
            protocol::GRE => "gre",
            protocol::ESP => "esp",
            protocol::AUTHENTICATION => "ah",
            protocol::ICMP6 => "icmp6",
            protocol::SCTP => "sctp",
            other => return write!(f, "protocol {other}"),
        };
        f.write_str(name)
    }
}
