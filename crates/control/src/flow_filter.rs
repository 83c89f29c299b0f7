//! Flows of interest, as people write them.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use twinpath_classify::Prefix;
use twinpath_core::wire::{Address, Endpoint, protocol};

/// Flows between two ends, whichever of them sends: `tcp 10.0.0.1:* 192.0.2.1:80`. `*` stands for any
/// address or port, `any` for any protocol, and addresses may be prefixes: `udp 10.0.0.0/8 [2001:db8::1]:53`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FlowFilter {
    /// The IP protocol number, if it matters.
    pub protocol: Option<u8>,
    /// The ends.
    pub ends: [EndFilter; 2],
    text: String,
}

/// One end of a flow.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct EndFilter {
    /// Its network, if it matters.
    pub prefix: Option<Prefix>,
    /// Its port, if it matters.
    pub port: Option<u16>,
}

/// What is wrong with a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?}: expected a protocol and two ends, such as \"tcp 10.0.0.1:* 192.0.2.1:80\"")]
pub struct FlowFilterError(String);

impl FlowFilter {
    /// Whether a packet is of such a flow, in either direction.
    pub fn includes(&self, protocol: u8, source: Endpoint, destination: Endpoint) -> bool {
        let [one, other] = &self.ends;
        let is_between =
            |from: &EndFilter, to: &EndFilter| from.includes(source) && to.includes(destination);
        self.protocol.is_none_or(|wanted| wanted == protocol)
            && (is_between(one, other) || is_between(other, one))
    }
}

impl EndFilter {
    /// Whether an end is this one.
    pub fn includes(&self, end: Endpoint) -> bool {
        self.port.is_none_or(|port| port == end.port)
            && self
                .prefix
                .is_none_or(|prefix| prefix.includes(end.address))
    }
}

impl FromStr for FlowFilter {
    type Err = FlowFilterError;

    fn from_str(text: &str) -> Result<Self, FlowFilterError> {
        let read = || {
            let mut words = text.split_whitespace();
            let protocol = protocol_of(words.next()?)?;
            let ends = [end_of(words.next()?)?, end_of(words.next()?)?];
            words.next().is_none().then_some((protocol, ends))
        };
        let (protocol, ends) = read().ok_or_else(|| FlowFilterError(text.to_owned()))?;
        let text = text.to_owned();
        Ok(Self {
            protocol,
            ends,
            text,
        })
    }
}

fn protocol_of(word: &str) -> Option<Option<u8>> {
    Some(match word {
        "any" | "*" => None,
        "tcp" => Some(protocol::TCP),
        "udp" => Some(protocol::UDP),
        "icmp" => Some(protocol::ICMP),
        "icmpv6" => Some(protocol::ICMP6),
        number => Some(number.parse().ok()?),
    })
}

/// `*`, an address or prefix, with or without a port; an IPv6 address with a port is in brackets.
fn end_of(word: &str) -> Option<EndFilter> {
    if let Some(prefix) = prefix_of(word) {
        return Some(EndFilter { prefix, port: None });
    }
    let (address, port) = word.rsplit_once(':')?;
    let address = address
        .strip_prefix('[')
        .and_then(|address| address.strip_suffix(']'))
        .unwrap_or(address);
    let port = match port {
        "*" => None,
        port => Some(port.parse().ok()?),
    };
    let prefix = prefix_of(address)?;
    Some(EndFilter { prefix, port })
}

fn prefix_of(word: &str) -> Option<Option<Prefix>> {
    let address = || word.parse::<Address>().ok().map(Prefix::from);
    match word {
        "*" => Some(None),
        _ => address().or_else(|| word.parse().ok()).map(Some),
    }
}

impl TryFrom<String> for FlowFilter {
    type Error = FlowFilterError;

    fn try_from(text: String) -> Result<Self, FlowFilterError> {
        text.parse()
    }
}

impl From<FlowFilter> for String {
    fn from(filter: FlowFilter) -> Self {
        filter.text
    }
}

impl fmt::Display for FlowFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn includes(filter: &str, protocol: u8, source: &str, destination: &str) -> bool {
        let filter: FlowFilter = filter.parse().expect("a filter");
        let [source, destination] = [source, destination].map(|end| end.parse().expect("an end"));
        filter.includes(protocol, source, destination)
    }

    #[test]
    fn flows_are_told_by_what_is_said_of_them_in_either_direction() {
        let web = "tcp 10.0.0.1:* 192.0.2.1:80";
        assert!(includes(web, 6, "10.0.0.1:5000", "192.0.2.1:80"));
        assert!(includes(web, 6, "192.0.2.1:80", "10.0.0.1:5000"));
        assert!(!includes(web, 17, "10.0.0.1:5000", "192.0.2.1:80"));
        assert!(!includes(web, 6, "10.0.0.1:5000", "192.0.2.1:81"));
        assert!(!includes(web, 6, "10.0.0.1:80", "192.0.2.1:5000"));
        assert!(includes(
            "any 10.0.0.0/8 *",
            47,
            "10.9.9.9:0",
            "192.0.2.1:0"
        ));
        assert!(!includes(
            "any 10.0.0.0/8 *",
            47,
            "11.9.9.9:0",
            "192.0.2.1:0"
        ));
        assert!(includes(
            "udp [2001:db8::1]:53 *:*",
            17,
            "[::7]:9",
            "[2001:db8::1]:53"
        ));
        assert!(includes(
            "udp 2001:db8::/32 *",
            17,
            "[::7]:9",
            "[2001:db8::1]:53"
        ));
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        for text in [
            "",
            "tcp",
            "tcp *",
            "tcp * * *",
            "tcp 10.0.0.1:x *",
            "sctpx * *",
            "tcp a:1 *",
        ] {
            let error = text.parse::<FlowFilter>().expect_err("no filter");
            assert!(
                error
                    .to_string()
                    .contains("expected a protocol and two ends")
            );
        }
    }

    #[test]
    fn a_filter_is_written_as_it_was_read() {
        let text = "\"udp 10.0.0.0/8:* [2001:db8::1]:53\"";
        let filter: FlowFilter = serde_json::from_str(text).expect("a filter");
        assert_eq!(serde_json::to_string(&filter).expect("JSON"), text);
    }
}
