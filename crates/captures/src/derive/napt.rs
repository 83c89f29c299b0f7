//! An address translation of a capture's busiest clients.

use super::{FunctionText, Lacking, texts, verified};
use crate::expectation::Expectation;
use crate::profile::networks::is_in;
use crate::profile::{Conversation, Profile};
use twinpath_wire::{Address, protocol};

const NAME: &str = "napt";
/// External addresses of each IP version: so many that their ports suffice for any capture.
const EXTERNAL: std::ops::Range<u16> = 1..5;

impl Profile {
    /// A translation of what the networks inside send out, which anyone may answer.
    ///
    /// # Errors
    /// A capture in which nothing that can be translated leaves the networks inside.
    pub fn napt(&self) -> Result<FunctionText, Lacking> {
        self.translation("", "filtering = \"endpoint_independent\"\n")
    }

    /// The same where only hosts may answer that were asked, and a host inside may have several
    /// external addresses.
    ///
    /// # Errors
    /// As for [`Self::napt`].
    pub fn napt_filtered(&self) -> Result<FunctionText, Lacking> {
        let settings = "filtering = \"address_dependent\"\npooling = \"arbitrary\"\n";
        self.translation("filtered", settings)
    }

    fn translation(&self, variant: &'static str, settings: &str) -> Result<FunctionText, Lacking> {
        let leaving = || {
            self.conversations
                .iter()
                .filter(|conversation| self.leaves(conversation))
        };
        if leaving().next().is_none() {
            return Err(Lacking(
                "nothing that leaves the networks inside and has ports",
            ));
        }
        let has = |v4: bool| leaving().any(|conversation| conversation.is_v4() == v4);
        let beside: Vec<Address> = self.inside.iter().map(|prefix| prefix.network()).collect();
        let of_version = |v4: bool| beside.iter().find(move |address| address.is_v4() == v4);
        let versions = [of_version(true), of_version(false)].into_iter().flatten();
        let external =
            versions.flat_map(|beside| EXTERNAL.map(|number| self.fresh.address(number, *beside)));
        let external: Vec<String> = external.map(|address| address.to_string()).collect();
        let inside = texts(&self.inside);
        Ok(FunctionText {
            function: NAME,
            variant,
            table: format!(
                "[napt]\ninside = {inside:?}\nexternal = {external:?}\n{}{settings}",
                verified(self)
            ),
            files: Vec::new(),
            expectations: [
                Some(Expectation::counted(NAME, &["sessions_created"], 1)),
                Some(Expectation::counted(
                    NAME,
                    &["ports_exhausted", "sessions_exhausted"],
                    0,
                )),
                self.rewritten(NAME, true, has(true)),
                self.rewritten(NAME, false, has(false)),
            ]
            .into_iter()
            .flatten()
            .collect(),
        })
    }

    /// Whether a host inside sends to one outside first.
    fn leaves(&self, conversation: &Conversation) -> bool {
        let is_translated = matches!(
            conversation.protocol(),
            protocol::TCP | protocol::UDP | protocol::ICMP | protocol::ICMP6
        );
        is_translated
            && is_in(&self.inside, conversation.source.address)
            && !is_in(&self.inside, conversation.destination.address)
    }
}
