//! Flows: what was decided for a connection, for both directions, and how long that holds.
//!
//! A flow is opened by the first segment of a TCP connection, and by any first packet of another
//! protocol. Its entries are made together and end together: after a time without packets, sooner
//! after a reset or the last segments of both ends. When a policy changes nothing is searched for:
//! an entry carries a stamp, and the next packet of a flow whose stamp has gone is judged anew.

mod deadlines;
mod fragments;
mod key;
mod rate;
mod state;
mod table;

pub(crate) use deadlines::Deadlines;
pub(crate) use fragments::{DatagramName, FirstFragment, Fragments};
pub use key::EntryKey;
pub use rate::Rate;
pub use state::{IdleTicks, State, opens};
pub use table::{Entry, EntryNumber, FlowTable};
