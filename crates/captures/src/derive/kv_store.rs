//! A key-value store for requests in the shape of a capture.

use super::{FunctionText, Lacking};
use crate::expectation::Expectation;
use crate::profile::Profile;

const NAME: &str = "kv_store";
/// With so many requests there is one of each kind.
const ENOUGH: u64 = 200;

impl Profile {
    /// A store that answers [`key_value_requests`](crate::key_value_requests) of the capture.
    ///
    /// # Errors
    /// A capture without a whole IP packet.
    pub fn kv_store(&self) -> Result<FunctionText, Lacking> {
        let requests: u64 = self.conversations.iter().map(|all| all.packets).sum();
        let mut expectations = match requests {
            0 => return Err(Lacking("no conversation")),
            _ => vec![Expectation::counted(
                NAME,
                &["gets", "puts", "deletes"],
                requests,
            )],
        };
        if requests >= ENOUGH {
            let each: [&'static [&'static str]; 4] =
                [&["gets"], &["hits"], &["puts"], &["deletes"]];
            expectations.extend(each.map(|kind| Expectation::counted(NAME, kind, 1)));
        }
        Ok(FunctionText {
            function: NAME,
            variant: "",
            table: String::new(),
            files: Vec::new(),
            expectations,
        })
    }
}
