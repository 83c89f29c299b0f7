//! What must be seen of a function after a run over its capture.

use std::fmt;
use twinpath_classify::Prefix;

/// What must be seen of a function that stood alone in its chain, if it acted as its configuration
/// and the capture say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The function's name.
    pub function: &'static str,
    /// What must be seen.
    pub seen: Evidence,
    /// At least so often; exactly never, if 0.
    pub at_least: u64,
}

/// Where a function shows that it acted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// In these counters of it, together. What the fast path did is in them for functions whose
    /// decisions are cached as rules alone, so they are to be read where all packets went to the
    /// workers.
    Counted(&'static [&'static str]),
    /// In packets that were dropped for this reason, on either path.
    Dropped(&'static str),
    /// In packets that left from or to an address of this network.
    Addressed(Prefix),
    /// In different ports that packets left by.
    Ports,
}

impl Expectation {
    pub(crate) const fn counted(
        function: &'static str,
        counters: &'static [&'static str],
        at_least: u64,
    ) -> Self {
        Self {
            function,
            seen: Evidence::Counted(counters),
            at_least,
        }
    }

    /// Whether a number that was seen is as expected.
    pub const fn is_met_by(&self, seen: u64) -> bool {
        if self.at_least == 0 {
            seen == 0
        } else {
            seen >= self.at_least
        }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            function,
            seen,
            at_least,
        } = self;
        match at_least {
            0 => write!(f, "{function}: {seen} = 0"),
            _ => write!(f, "{function}: {seen} >= {at_least}"),
        }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counted(counters) => f.write_str(&counters.join(" + ")),
            Self::Dropped(reason) => write!(f, "dropped as {reason}"),
            Self::Addressed(prefix) => write!(f, "packets of {prefix}"),
            Self::Ports => f.write_str("ports"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_means_never() {
        let some = Expectation::counted("acl", &["allowed", "denied"], 2);
        assert!(some.is_met_by(2) && some.is_met_by(3) && !some.is_met_by(1));
        let none = Expectation::counted("napt", &["ports_exhausted"], 0);
        assert!(none.is_met_by(0) && !none.is_met_by(1));
        assert_eq!(some.to_string(), "acl: allowed + denied >= 2");
        assert_eq!(none.to_string(), "napt: ports_exhausted = 0");
    }
}
