//! Capabilities are let go of when what needs them is open.
//!
//! A service that an init system starts as a user of its own has just those that it was given; of
//! them stay what it takes to open an interface again that goes and comes back. The superuser's
//! power is not in its capabilities alone, and files of others could not be written any more: it
//! keeps them.

use caps::{CapSet, Capability, CapsHashSet};
use twinpath_node::live_ports::Privilege;

/// Lets go of all capabilities but those that are still needed, on this thread and on those that it
/// starts. Returns what stays; nothing where nothing was to be done.
///
/// # Errors
/// The system does not let it.
pub fn drop(needed: &[Privilege]) -> Result<Option<CapsHashSet>, caps::errors::CapsError> {
    let permitted = caps::read(None, CapSet::Permitted)?;
    if rustix::process::geteuid().is_root() || permitted.is_empty() {
        return Ok(None);
    }
    let kept = needed.iter().map(|privilege| match privilege {
        Privilege::RawSockets => Capability::CAP_NET_RAW,
        Privilege::NetworkAdministration => Capability::CAP_NET_ADMIN,
        Privilege::Bpf => Capability::CAP_BPF,
    });
    let kept: CapsHashSet = kept.filter(|one| permitted.contains(one)).collect();
    // No program that it could become has any; ambient ones must go first.
    caps::clear(None, CapSet::Ambient)?;
    caps::clear(None, CapSet::Inheritable)?;
    caps::set(None, CapSet::Effective, &kept)?;
    caps::set(None, CapSet::Permitted, &kept)?;
    Ok(Some(kept))
}
