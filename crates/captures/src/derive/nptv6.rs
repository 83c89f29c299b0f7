//! A translation of the prefixes of a capture's busiest clients over IPv6.

use super::{FunctionText, Lacking};
use crate::expectation::Expectation;
use crate::profile::Profile;
use crate::profile::networks::{is_in, subnet};
use twinpath_classify::Prefix;
use twinpath_wire::Address;

const NAME: &str = "nptv6";
/// As many as a translation has.
const MOST_PAIRS: usize = 64;

impl Profile {
    /// Each subnet whose hosts send out has another prefix outside.
    ///
    /// # Errors
    /// A capture in which nothing leaves the networks inside over IPv6.
    pub fn nptv6(&self) -> Result<FunctionText, Lacking> {
        let pairs = self.subnets_that_leave().into_iter().zip(0_u128..);
        let pairs = pairs.map(|(inside, number)| {
            let outside = Address(self.fresh.v6.network().0 | number << 64);
            let external = subnet(outside);
            format!("    {{ inside = \"{inside}\", external = \"{external}\" }},\n")
        });
        let pairs: String = pairs.take(MOST_PAIRS).collect();
        if pairs.is_empty() {
            return Err(Lacking("nothing that leaves the networks inside over IPv6"));
        }
        Ok(FunctionText {
            function: NAME,
            variant: "",
            table: format!("[nptv6]\nprefixes = [\n{pairs}]\n"),
            files: Vec::new(),
            expectations: [
                Some(Expectation::counted(NAME, &["translated_out"], 1)),
                Some(Expectation::counted(NAME, &["untranslatable"], 0)),
                self.rewritten(NAME, false, true),
            ]
            .into_iter()
            .flatten()
            .collect(),
        })
    }

    /// Subnets inside of which a host sends to one outside over IPv6.
    fn subnets_that_leave(&self) -> Vec<Prefix> {
        let leaving = self.conversations.iter().filter(|conversation| {
            !conversation.is_v4()
                && is_in(&self.inside, conversation.source.address)
                && !is_in(&self.inside, conversation.destination.address)
        });
        let mut subnets = Vec::new();
        for inside in leaving.map(|conversation| subnet(conversation.source.address)) {
            if !subnets.contains(&inside) {
                subnets.push(inside);
            }
        }
        subnets
    }
}
