//! What functions of a chain do for one another, and so in which order packets pass them.
//!
//! A chain is written down for packets of a flow's opener. Those that answer pass it in reverse, so
//! what stands in front of a function for the one stands behind it for the other. Where a function
//! needs what another gives, that is wrong: then both keep their order in both directions, if they
//! are side by side in one element.

/// What a function makes sure of for those behind it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Guarantee {
    /// Segments that a TCP connection's state does not allow have been dropped.
    Checked,
    /// The bytes of a TCP stream come in order, as its receiver takes them, and what no receiver
    /// takes has been dropped.
    Ordered,
}

/// How much a function depends on a guarantee.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// It does without, and does better with it.
    Preferred,
    /// If any function of the chain gives it, it has to stand in front, in both directions.
    IfGiven,
    /// A function that gives it has to stand in front, in both directions.
    Always,
}

/// What a function needs of those in front of it, in both directions.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// What it needs.
    pub guarantee: Guarantee,
    /// How much.
    pub demand: Demand,
    /// Why, and what would do instead: for whoever wrote the chain.
    pub reason: &'static str,
}

/// What a function gives and needs.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Guarantees {
    /// What those behind it can rely on.
    pub gives: Option<Guarantee>,
    /// What it relies on.
    pub needs: [Option<Need>; 2],
}

impl Guarantees {
    /// Neither gives nor needs any.
    pub const NONE: Self = Self {
        gives: None,
        needs: [None; 2],
    };

    /// What it relies on.
    pub fn all_needs(&self) -> impl Iterator<Item = Need> {
        self.needs.into_iter().flatten()
    }
}

/// The places of an element's functions, in the order in which answers pass them: the reverse, but
/// that whoever needs a guarantee comes behind the nearest function that gives it.
#[must_use]
pub fn reply_order(functions: &[Guarantees]) -> Vec<usize> {
    let pairs: Vec<_> = (0..functions.len())
        .flat_map(|place| givers_for(place, functions).map(move |giver| (giver, place)))
        .collect();
    let mut left: Vec<usize> = (0..functions.len()).rev().collect();
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let waits = |place: usize| {
            let mut mine = pairs.iter().filter(|(_, needy)| *needy == place);
            mine.any(|(giver, _)| left.contains(giver))
        };
        // What a function gives does not depend on one that needs it, so one never waits.
        let next = left.iter().position(|place| !waits(*place));
        order.push(left.remove(next.unwrap_or(0)));
    }
    order
}

/// The functions that a function has to stay behind: for each need the nearest behind it that gives
/// it, and so is for answers, even if that waits itself for one in front of both; else the nearest in
/// front.
fn givers_for(place: usize, functions: &[Guarantees]) -> impl Iterator<Item = usize> {
    functions[place].all_needs().filter_map(move |need| {
        let gives = |other: &usize| functions[*other].gives == Some(need.guarantee);
        let behind = (place + 1..functions.len()).find(gives);
        behind.or_else(|| (0..place).rev().find(gives))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn gives(guarantee: Guarantee) -> Guarantees {
        Guarantees {
            gives: Some(guarantee),
            needs: [None; 2],
        }
    }

    const fn needs(guarantee: Guarantee) -> Guarantees {
        Guarantees {
            gives: None,
            needs: [
                Some(Need {
                    guarantee,
                    demand: Demand::Always,
                    reason: "",
                }),
                None,
            ],
        }
    }

    const CHECKS: Guarantees = gives(Guarantee::Checked);
    const SORTS: Guarantees = Guarantees {
        gives: Some(Guarantee::Ordered),
        ..needs(Guarantee::Checked)
    };
    const READS: Guarantees = needs(Guarantee::Ordered);
    const TRUSTS: Guarantees = Guarantees {
        gives: None,
        needs: [READS.needs[0], SORTS.needs[0]],
    };
    const ANY: Guarantees = Guarantees::NONE;

    #[test]
    fn answers_pass_in_reverse_unless_one_needs_another() {
        let cases: [(&[Guarantees], &[usize]); 13] = [
            (&[], &[]),
            (&[ANY, ANY, ANY], &[2, 1, 0]),
            (&[SORTS, READS], &[0, 1]),
            (&[READS, SORTS], &[1, 0]),
            (&[CHECKS, SORTS, READS, ANY], &[3, 0, 1, 2]),
            (&[ANY, SORTS, READS], &[1, 2, 0]),
            (&[SORTS, ANY, READS], &[1, 0, 2]),
            (&[CHECKS, TRUSTS], &[0, 1]),
            (&[CHECKS, SORTS, TRUSTS, ANY], &[3, 0, 1, 2]),
            (&[SORTS, CHECKS, TRUSTS], &[1, 0, 2]),
            // Each direction has one of its own.
            (&[SORTS, READS, SORTS], &[2, 1, 0]),
            (&[CHECKS, SORTS, READS, SORTS], &[0, 3, 2, 1]),
            (
                &[CHECKS, SORTS, ANY, READS, ANY, SORTS],
                &[4, 2, 0, 5, 3, 1],
            ),
        ];
        for (functions, expected) in cases {
            assert_eq!(reply_order(functions), expected, "{functions:?}");
        }
    }
}
