//! An access list that lets a part of a capture's packets through.

use super::slice::{Matches, OneDirection, by_protocol, slice};
use super::{FunctionText, Lacking};
use crate::expectation::Expectation;
use crate::profile::Profile;
use crate::profile::networks::subnet;

const NAME: &str = "acl";

impl Profile {
    /// A list that denies a part of each protocol's requests, of either IP version; allows answers
    /// of the busiest server's network; and allows the rest by default. Where nothing tells a
    /// protocol's requests apart, it denies the answers to them.
    ///
    /// # Errors
    /// A capture without a whole IP packet.
    pub fn acl(&self) -> Result<FunctionText, Lacking> {
        let busiest = self
            .conversations
            .first()
            .ok_or(Lacking("no conversation"))?;
        let groups = by_protocol(self.conversations.iter().map(OneDirection::asking));
        let denied = groups
            .iter()
            .map(|ways| slice(ways).unwrap_or_else(|| Matches::answers(&ways[0])));
        let deny = denied.map(|part| format!("    {{ action = \"deny\", {part} }},\n"));
        let server = subnet(busiest.server.address);
        let allow = format!("    {{ action = \"allow\", from = \"{server}\" }},\n");
        let rules: String = deny.chain([allow]).collect();
        let mut expectations = vec![Expectation::counted(NAME, &["allowed"], 1)];
        if groups.iter().any(|ways| slice(ways).is_some()) {
            expectations.push(Expectation::counted(NAME, &["denied"], 1));
        }
        Ok(FunctionText {
            function: NAME,
            variant: "",
            table: format!("[acl]\ndefault = \"allow\"\nrules = [\n{rules}]\n"),
            files: Vec::new(),
            expectations,
        })
    }

    /// A list that denies what [`Self::acl`] allows by a rule: answers of the busiest server's
    /// network.
    ///
    /// # Errors
    /// A capture without a whole IP packet.
    pub fn acl_of_answers(&self) -> Result<FunctionText, Lacking> {
        let busiest = self
            .conversations
            .first()
            .ok_or(Lacking("no conversation"))?;
        let server = subnet(busiest.server.address);
        Ok(FunctionText {
            function: NAME,
            variant: "answers",
            table: format!(
                "[acl]\ndefault = \"allow\"\nrules = [{{ action = \"deny\", from = \"{server}\" }}]\n"
            ),
            files: Vec::new(),
            expectations: Vec::new(),
        })
    }
}
