//! What the workers remember of a flow's pulls, and what they answer.

use crate::safeguards::{Safeguard, Safeguards};

/// Who may write a flow's state, as the workers know it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Grant {
    /// The workers.
    #[default]
    Ours,
    /// The fast path, since this generation was granted.
    Granted(u32),
    /// The workers again: the value of this generation has been imported. Duplicates of that
    /// write-back may still come.
    Returned {
        /// The generation.
        generation: u32,
        /// Whether an earlier incarnation of the slow path had granted it: then only this entry tells
        /// a duplicate from the first, so it must be kept until the fast path has let go.
        from_former_life: bool,
    },
}

/// What to do with a value that the fast path gives back.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Import {
    /// Take it over as the flow's state.
    Take,
    /// It was taken before.
    Known,
}

impl Grant {
    /// A PLAIN packet: the fast path does not hold the state, whatever was granted before.
    #[inline]
    pub fn plain(&mut self) {
        *self = Self::Ours;
    }

    /// A PULL, after its packet was applied. Returns whether the state is granted.
    #[inline]
    pub fn pull(&mut self, generation: u32, is_pending: bool) -> bool {
        *self = if is_pending {
            Self::Ours
        } else {
            Self::Granted(generation)
        };
        !is_pending
    }

    /// A write-back, before its packet is applied.
    ///
    /// `same_life` tells whether the workers that granted the generation are these. If so, and the
    /// flow is not (any more) known as granted, the value was imported before: a granted flow is
    /// never forgotten. If not, an earlier incarnation granted it and crashed, and the value on
    /// the wire is the only one there is.
    #[inline]
    pub fn write_back(
        &mut self,
        generation: u32,
        same_life: bool,
        safeguards: &impl Safeguards,
    ) -> Import {
        let numbered = safeguards.keeps(Safeguard::Generations);
        let import = match *self {
            Self::Granted(granted) => granted == generation || !numbered,
            Self::Returned {
                generation: returned,
                ..
            } if returned == generation || !numbered => false,
            Self::Returned { .. } | Self::Ours => !same_life,
        };
        if !import {
            return Import::Known;
        }
        *self = Self::Returned {
            generation,
            from_former_life: !same_life,
        };
        Import::Take
    }

    /// The generation about which the fast path has to be asked before the flow may be forgotten:
    /// it may hold the state still, or send a duplicate that only this entry tells from the first.
    #[inline]
    pub const fn to_recall(self) -> Option<u32> {
        match self {
            Self::Granted(generation)
            | Self::Returned {
                generation,
                from_former_life: true,
            } => Some(generation),
            Self::Ours | Self::Returned { .. } => None,
        }
    }

    /// Whether the workers may forget the flow when its state is worth nothing.
    #[inline]
    pub const fn may_forget(self) -> bool {
        self.to_recall().is_none()
    }

    /// Whether the workers may change the state on their own account (timers, ageing).
    #[inline]
    pub const fn is_ours(self) -> bool {
        !matches!(self, Self::Granted(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safeguards::All;

    #[test]
    fn a_value_is_imported_once_per_generation() {
        let mut grant = Grant::default();
        assert!(grant.pull(5, false));
        assert_eq!(grant.write_back(5, true, &All), Import::Take);
        assert_eq!(grant.write_back(5, true, &All), Import::Known);
        grant.plain();
        assert_eq!(
            grant.write_back(5, true, &All),
            Import::Known,
            "the duplicate of a generation long done"
        );
    }

    #[test]
    fn a_cancelled_generation_is_never_imported() {
        let mut grant = Grant::default();
        assert!(grant.pull(5, false));
        assert!(grant.pull(6, false));
        assert_eq!(grant.write_back(5, true, &All), Import::Known);
        assert_eq!(grant.write_back(6, true, &All), Import::Take);
    }

    #[test]
    fn a_frozen_value_survives_the_slow_path() {
        let mut fresh = Grant::default();
        assert_eq!(fresh.write_back(9, false, &All), Import::Take);
        assert!(!fresh.may_forget(), "a duplicate would look like the first");
        assert_eq!(fresh.write_back(9, false, &All), Import::Known);
        fresh.plain();
        assert!(fresh.may_forget());
    }

    #[test]
    fn pending_work_declines() {
        let mut grant = Grant::default();
        assert!(!grant.pull(3, true));
        assert!(grant.is_ours());
    }
}
