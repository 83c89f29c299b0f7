//! Capabilities are let go of when what needs them is open.
//!
//! A service that an init system starts as a user of its own has just those that it was given; of
//! them stay what it takes to open an interface again that goes and comes back. The superuser's
//! power is not in its capabilities alone, and files of others could not be written any more: it
//! keeps them.

use caps::{CapSet, Capability, CapsHashSet};
use twinpath_node::live_ports::Privilege;

/// What a process was given, when some of it has gone.
#[derive(Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// What is needed no more.
    dropped: CapsHashSet,
    /// What it takes to open an interface again.
    kept: CapsHashSet,
}

/// Lets go of all capabilities but those that are still needed, on this thread and on those that it
/// starts. Nothing where nothing was to be done.
///
/// # Errors
/// The system does not let it.
pub fn drop(needed: &[Privilege]) -> Result<Option<Capabilities>, caps::errors::CapsError> {
    let permitted = caps::read(None, CapSet::Permitted)?;
    if rustix::process::geteuid().is_root() || permitted.is_empty() {
        return Ok(None);
    }
    let capabilities = Capabilities::of(permitted, needed);
    // No program that it could become has any; ambient ones must go first.
    caps::clear(None, CapSet::Ambient)?;
    caps::clear(None, CapSet::Inheritable)?;
    caps::set(None, CapSet::Effective, &capabilities.kept)?;
    caps::set(None, CapSet::Permitted, &capabilities.kept)?;
    Ok(Some(capabilities))
}

impl Capabilities {
    fn of(permitted: CapsHashSet, needed: &[Privilege]) -> Self {
        let needed = needed.iter().map(|privilege| match privilege {
            Privilege::RawSockets => Capability::CAP_NET_RAW,
            Privilege::NetworkAdministration => Capability::CAP_NET_ADMIN,
            Privilege::Bpf => Capability::CAP_BPF,
        });
        let needed: CapsHashSet = needed.collect();
        let (kept, dropped) = permitted.into_iter().partition(|one| needed.contains(one));
        Self { dropped, kept }
    }

    /// Tells in the log what has become of them.
    pub fn tell(&self) {
        let [dropped, kept] = [&self.dropped, &self.kept].map(names);
        let what = self.in_words();
        tracing::info!(dropped, kept, "{what}");
    }

    fn in_words(&self) -> String {
        let dropped = match self.dropped.is_empty() {
            true => "no capability was dropped".to_owned(),
            false => format!("capabilities dropped: {}", names(&self.dropped)),
        };
        match self.kept.is_empty() {
            true => format!("{dropped}; none is left"),
            false => format!(
                "{dropped}; kept, for it takes them to open an interface again that goes and comes back: {}",
                names(&self.kept)
            ),
        }
    }
}

/// In the order of the alphabet.
fn names(capabilities: &CapsHashSet) -> String {
    let mut names: Vec<_> = capabilities.iter().map(ToString::to_string).collect();
    names.sort();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by a reader: "capabilities dropped" was told where all were kept.
    #[test]
    fn what_is_dropped_and_what_is_kept_is_told_as_it_is() {
        use Capability::{CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW};
        use Privilege::{Bpf, NetworkAdministration, RawSockets};
        let told = |needed: &[Privilege]| {
            let given = CapsHashSet::from([CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF]);
            Capabilities::of(given, needed).in_words()
        };
        let why = "kept, for it takes them to open an interface again that goes and comes back";
        assert_eq!(
            told(&[RawSockets]),
            format!("capabilities dropped: CAP_BPF, CAP_NET_ADMIN; {why}: CAP_NET_RAW")
        );
        assert_eq!(
            told(&[RawSockets, NetworkAdministration, Bpf]),
            format!("no capability was dropped; {why}: CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW")
        );
        assert_eq!(
            told(&[]),
            "capabilities dropped: CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW; none is left"
        );
    }
}
