//! What a change of the tables means to who counts flows: packets wait while it is looked at.

use std::sync::Arc;

/// Tells tables from those before and after a change, and is the same in copies of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Version(Arc<()>);

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The last change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    before: Version,
    after: Version,
    /// Numbers of ENIs that came, went, or may have another number of flows; one may be there twice.
    enis: Vec<u16>,
}

impl Changes {
    /// Another change begins.
    pub fn begin(&mut self) {
        self.before = std::mem::take(&mut self.after);
        self.enis.clear();
    }

    /// The ENI of this number is one that the change is about.
    pub fn note(&mut self, eni: u16) {
        self.enis.push(eni);
    }

    /// The version of the tables.
    pub const fn version(&self) -> &Version {
        &self.after
    }

    /// The ENIs that the change is about that made these tables of those of a version; none if others were
    /// in between.
    pub fn since(&self, version: &Version) -> Option<&[u16]> {
        match self.after == *version {
            true => Some(&[]),
            false => (self.before == *version).then_some(&self.enis),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_to_who_knows_what_was_before_it() {
        let mut changes = Changes::default();
        let first = changes.version().clone();
        let mut other = changes.clone();
        changes.begin();
        changes.note(7);
        assert_eq!(changes.since(&first), Some([7].as_slice()));
        assert_eq!(changes.since(changes.version()), Some([].as_slice()));
        other.begin();
        assert_eq!(changes.since(other.version()), None, "another's change");
        changes.begin();
        assert_eq!(changes.since(&first), None, "there was one in between");
    }
}
