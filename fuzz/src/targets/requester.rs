//! A memory server that does what it likes, at a requester: answers to what was asked and to what was not,
//! announcements and lives of all kinds. What was asked for ends once, in its length and in time.

use twinpath_remote::simulated::hostile;

/// One input.
pub fn run(bytes: &[u8]) {
    hostile::play(bytes);
}
