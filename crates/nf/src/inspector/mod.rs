//! Packet inspector (SwitchNIC appendix A.1): bans flows in which rules find what is forbidden.
//!
//! # Configuration
//! The keys are the fields of [`Config`].
//!
//! ```toml
//! [service]
//! chain = ["reassembler", "inspector"]
//!
//! [inspector]
//! rules = "inspector.rules"
//! ban_timeout = "10m"
//! ```
//!
//! # The rules file
//! Text, one rule a line, in the inspector's own words or in Suricata's; each line may be either. A rule
//! in Suricata's words goes on in the next line behind a `\` at the end of one. A `#`
//! outside a pattern begins a comment. All mistakes of a file are told, up to 64, each with its line. A rule's number is its place among those that were taken,
//! counted from 0; a lower number wins where one must.
//!
//! ## In the inspector's own words
//! `NAME ACTION [not] KIND PATTERN OPTIONS`, and perhaps `and [not] KIND PATTERN OPTIONS`:
//!
//! ```text
//! # name    action kind    pattern                  options
//! sql-union ban    literal "UNION SELECT"           nocase
//! shell     ban    regex   "/bin/(ba)?sh -[ic]"
//! magic     alert  literal "MZ" startswith and literal "This program" offset=64 depth=256
//! no-ssh    ban    not literal "SSH-" startswith
//! long-name alert  literal "USER " and byte_test "4,>,1000,0,string,dec" and not literal "\n" within=100
//! ```
//!
//! * `NAME`: 1 to 64 letters, digits, `-`, `_` or `.`; each name once.
//! * `ACTION`: `ban` drops the packet and the rest of its flow, `alert`
//!   counts the packet and lets it pass.
//! * `KIND`: `literal` with the escapes `\xHH`, `\n`, `\r`, `\t`, `\\` and
//!   `\"`, or `regex` in the syntax of the regex crate over bytes, without
//!   Unicode mode; `\"` is a quote there too. `^` and `$` are about the stream or
//!   datagram, and stand in front of the whole or behind it: `^` only where all matches are as
//!   long, for otherwise nobody can tell where one began. `\b` and `\B` may be anywhere but behind a
//!   part with which a match may end. `byte_test` and `byte_jump` have
//!   what Suricata's have, and are relative to what is before them, or to the beginning.
//! * `nocase`: ASCII letters match in either case.
//! * `offset=N`, `depth=N`: a literal, or a `regex` all of whose matches are as long, begins N bytes or more behind the first of its stream or
//!   datagram, and ends at most so many behind that.
//! * `distance=N`, `within=N`: a literal begins N bytes or more behind the end of the item before it,
//!   and ends at most so many behind it. An item without either may be anywhere.
//! * `startswith`, `endswith`: nothing is before it, or behind it. A stream ends with a FIN.
//! * `not`: it must not be there: before the rest is met, or within the bytes that `depth` or `within`
//!   say. Nothing is relative to it: what follows is relative to what is there. A rule that names
//!   nothing else is met where its `depth` ends, or with the end of the stream or datagram.
//! * What is relative to a number's place begins behind the number.
//!
//! ## In Suricata's words
//! `action protocol source port -> destination port (options)`. Honoured are `alert`, and `drop` and
//! `reject` in its variants as `ban`; `tcp`, `udp`, `icmp`, `ip`; addresses, networks, ports, lists,
//! `!`, and the variables of the inspector's table; `flow`; `content` with `nocase`, `offset`, `depth`,
//! `distance`, `within` (which counts from where `distance` puts the beginning), `startswith`, `endswith`, `!`; `pcre` with the letters `i`, `s`, `x`, `m`, `R`,
//! `D`, with `^` and `$` as above and without `m`; `byte_test`, `byte_jump` and `isdataat`; `dsize`, but
//! for packets without a payload; `sid`
//! as the rule's name. Rules with `dsize`, and those for `tcp-pkt`, are about packets of TCP as they come,
//! each by itself, not about the stream: how it is cut is up to its sender. Remarks (`msg`, `rev`, `classtype` ...) say nothing of what is looked for. A
//! rule with anything else is left out, and told in a warning with its line and keyword; with `strict = true` it is
//! an error.
//!
//! Of the 8,756 rules in the files of Suricata's own tests (`OISF/suricata-verify`, 10a45e4b) 359 are about TCP,
//! UDP, ICMP or IP and look at payloads and nothing else. 281 of them, 78 in a hundred, are honoured
//! (`cargo run -p twinpath-nf --example rules_said FILE...` counts). The others:
//!
//! | left out | rules | why |
//! |---|---|---|
//! | `byte_extract` | 25 | a number that later options refer to by name |
//! | values that cannot be read | 25 | most are mistakes, made on purpose |
//! | `from_end`, `bitmask` and `dce` of numbers | 10 | a stream has no end to count from until it is over; the others are not there |
//! | `pass` | 7 | no rule takes another one back |
//! | places | 6 | in front of what was found, of or behind expressions that have no fixed length, behind what must not be there, in less room than the literal takes |
//! | `pcre` with `U`, `flow:not_established`, an address that cannot be read | 5 | buffers of protocols above TCP; a connection that is not open has no stream |
//!
//! # What is inspected
//! Each direction of a TCP connection is one stream of bytes, and each of its first `depth` bytes is
//! inspected once, in order; so it makes no difference how the sender cuts,
//! orders and repeats it. Each datagram of another protocol is a stream of its own. ICMP errors pass
//! (`uninspected`).
//!
//! Fragments of packets that a rule is for are dropped (`fragment`), unless `fragments = "forward"` or
//! `gaps = "inspect"`: their bytes count for the receiver only if a checksum over all of them holds, so
//! a decoy that nobody takes could stand for what is sent after it. Those that no rule is for pass. Of
//! a rule for certain ports the first fragment of a datagram tells, without which the others are of no
//! use to anybody.
//!
//! What a receiver takes is settled before: the inspector needs a [reassembler](crate::reassembler) in
//! front of it in both directions, with functions that share flow state alone between them, or it is
//! refused. There the policy is: of overlapping bytes the first win; segments with a bad checksum,
//! outside the window, or without ACK are dropped; urgent data is data like other, or dropped; a RST or
//! SYN counts where its receiver believes it (RFC 5961).
//!
//! **Copies.** A byte is inspected once: when it first passes. What a receiver takes is known as far as
//! segments themselves tell, and some decoys they do not tell: an old timestamp (PAWS), a wrong MD5 or
//! AO signature, a time to live that ends behind Twinpath, a tag or label that leads elsewhere, data
//! beyond the receiver's own window, and without a firewall an acknowledgement of what was never sent.
//! Whoever sends such a decoy first may then send another text as its repetition, which passes
//! uninspected. Where senders are not trusted that far, let the reassembler pass no copies
//! (`retransmissions = "drop"`, with a firewall in front): nothing is then delivered that was not
//! inspected, and a connection that loses a segment behind Twinpath stands still until its ends give it
//! up.
//!
//! A firewall in the chain has to stand in front in both directions too, or the service is refused:
//! other bytes could be sent in the place of those that it refuses behind the inspector.
//!
//! **Ends.** A FIN is believed as far as its rules go that ask for a stream's end; what is half seen stays so
//! until its receiver has acknowledged the FIN, for somebody else may have sent it, or it never arrives.
//!
//! A connection that is met in mid-stream begins, in each direction, with the first segment. What lies
//! in front of it has never been seen, so it is no repetition: until the other end acknowledges the
//! place, segments that begin in front of it are dropped (`late`), or inspected apart with
//! `gaps = "inspect"`.
//!
//! The inspector itself holds each direction to its order. A segment behind missing bytes (a gap that
//! the reassembler gave up, for time or room) is treated as `gaps` says:
//! * `"drop"`: dropped, and so is what comes behind it, until the sender has sent what is missing. What
//!   the other end acknowledges although it never came by is passed over (`unseen_bytes`), for that end
//!   has it; should it come after all, it is dropped (`late`). What follows is inspected like a stream
//!   that begins there, and what is sent again of it passes.
//! * `"ban"`: the flow is banned.
//! * `"inspect"`: what there is is inspected, from the gap on; late bytes are inspected apart. What
//!   spans a gap is not found. No reassembler is needed then.
//!
//! Where `streams` is full, a packet that leaves something half seen is dropped, to be sent again
//! (`stream_table_full`; `host_limit` where its host has as many as it may), and the reassembler in
//! front lets it pass again; with `"inspect"` it passes and its half is forgotten (`forgotten_streams`).
//!
//! Until both ends were heard, and one has acknowledged what the other sent, a connection is half-open:
//! it is forgotten after `half_open_timeout`, its packets are for the slow path, and where more than
//! `half_open` of `[slow_path]` are, the one that has been silent for longest is forgotten. So are bans
//! of such flows, and datagrams that nobody answers.
//!
//! Bytes that are sent again are not inspected again. Whoever makes the first copy get lost behind
//! Twinpath (a short time to live, a host that drops it) and then sends another text in its place gets
//! that past the inspector; `retransmissions = "drop"` in the reassembler is against it, where nothing is
//! lost otherwise.
//!
//! # On the fast path
//! Six state words: flags, where each direction began and stands, and when. Each packet's first 64
//! payload bytes meet the [gate](Gate). With rules that read a stream from its beginning on, its first segment
//! is for the slow path. Of a connection whose ends were both heard a packet passes
//! without a payload; behind the depth; and if all
//! of it lies in the window, it is the next of its stream, nothing is half seen, and nothing begins in it
//! that a rule looks for, be it with its last byte. A whole forbidden literal in the window of the next
//! segment bans the flow. Everything else goes to the slow path: so the larger packets of a stream's
//! first `depth` bytes do. (In the paper the rest of a packet behind the window passes unseen.)
//!
//! # On the slow path
//! All new bytes of a packet meet all rules, from where its direction stands. While something may be half
//! seen the flow stays there: for a pattern, until it can no longer be completed; for a rule of several
//! items, until those that are missing can no longer come.
//!
//! # Changes
//! Other rules see the bytes of packets from then on: what was half seen under the old ones is
//! forgotten. Bans stay. The rules file counts as changed if it says something else, whatever its
//! name. `matcher` cannot change.
//!
//! # Counters
//! | counter | meaning |
//! |---|---|
//! | `bans` | flows banned on the slow path; on the fast path they show as drops for the reason `banned` |
//! | `alerts` | rules met by packets that passed; `twinpath counters` tells of each rule how many it has let pass as an alert, or begun to ban a flow with, but for bans on the fast path |
//! | `deep_scans`, `deep_bytes` | packets and bytes that met all rules |
//! | `half_seen` | packets with nothing to inspect while something of their flow was half seen: workers keep such flows |
//! | `repeated` | segments all of whose bytes had been inspected |
//! | `out_of_order` | segments behind missing bytes |
//! | `late` | segments of bytes that had been passed over, or that lie in front of where their direction was picked up |
//! | `gaps`, `unseen_bytes` | how often and how many bytes were passed over |
//! | `bad_checksums` | datagrams that met a rule and were dropped, for no receiver takes them |
//! | `forgotten_streams`, `forgotten_places` | what was half seen and is forgotten for want of room, of flows and within rules |
//! | `streams_over_host_limit` | packets whose host has as many half-seen streams as it may |
//! | `failed_scans` | scans that Hyperscan refused |
//! | `uninspected` | ICMP errors, and fragments that passed |
//! | `fragments` | fragments that were dropped |
//! | `rules_left_out` | rules of the file that are not honoured |
//!
//! # In the code
//! An operator writes a rules file; [`Rules`] is that file, checked. From it two matchers are built, one
//! for each path: [`Gate`] is what a switch can do with a TCAM, and a [`StreamMatcher`] reads every byte
//! of one direction and finds each pattern, also when an occurrence spans packets. [`DeepMatcher`] is the
//! default, written in Rust; with the feature `hyperscan` there is a second one, `HyperscanMatcher`, on
//! the library that the paper used. What patterns at certain places come to is the tracker's.

mod automaton;
mod config;
mod deep;
mod descriptor;
mod error;
mod expression;
mod expressions;
mod filter;
mod function;
mod gate;
mod gate_literals;
#[cfg(feature = "hyperscan")]
mod hyperscan;
mod limits;
mod line;
mod literals;
mod minimise;
mod program;
mod rule_set;
mod rules;
mod state;
mod tracker;
mod words;

pub use config::{Config, Depth, DepthError, Fragments, Gaps, Matcher, Timeout, TimeoutError};
pub use deep::{DEFAULT_TABLE_BYTES, DeepMatcher, DeepState, StreamMatcher};
pub use descriptor::FUNCTION;
#[cfg(feature = "hyperscan")]
pub use error::HyperscanError;
pub use error::{Expected, Problem, RulesError};
pub use function::{Inspector, InspectorError, inspector, rules};
pub use gate::{Gate, GateOutcome};
#[cfg(feature = "hyperscan")]
pub use hyperscan::{HyperscanMatcher, HyperscanState};
pub use limits::{MAX_ITEMS, MAX_PATTERN_BYTES, MAX_RULES};
pub use rule_set::RuleSet;
pub use rules::{
    Action, GateLiterals, Item, ItemIndex, LeftOut, Pattern, Rule, RuleIndex, Rules, Sought,
    Summary, Variables,
};

/// The function's name.
pub const NAME: &str = "inspector";

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod tracker_tests;

#[cfg(test)]
mod tests {
    use super::*;

    fn attacks() -> Rules {
        Rules::parse(include_str!("attacks.rules"), "attacks.rules").unwrap()
    }

    /// Every rule that a stream of one payload sets off, by name.
    fn found(rules: &Rules, payload: &[u8]) -> Vec<String> {
        let mut set = RuleSet::new();
        let report = |pattern, _| _ = set.insert(rules.rule_of_one(pattern).unwrap());
        DeepMatcher::new(rules)
            .unwrap()
            .scan(DeepState::default(), payload, report);
        set.iter()
            .map(|rule| rules.rule(rule).unwrap().name().to_owned())
            .collect()
    }

    #[test]
    fn realistic_rules_find_what_they_are_named_after() {
        let rules = attacks();
        let gate = Gate::new(&rules);
        let cases: [(&[u8], &str); 15] = [
            (
                b"X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR-STANDARD\x2dANTIVIRUS-TEST-FILE!$H+H*",
                "eicar",
            ),
            (b"..1\xc0Ph//shh/bin\x89", "x86-execve"),
            (&[0x90; 40], "x86-nop-sled"),
            (b"GET /?c=/bin/bash -c id", "shell"),
            (b"X: () { :;}; echo", "shellshock"),
            (b"X: ${JNDI:ldap://example", "jndi-lookup"),
            (b"GET /?page=PHP://input", "php-input"),
            (b"GET /../../..\\x", "path-traversal"),
            (b"GET /etc/passwd", "passwd-file"),
            (b"GET /?id=1+UNION+ALL%20SELECT+2", "sql-union"),
            (b"user=' or '1'='1", "sql-tautology"),
            (b"q=<Script src=x>alert(1)</script>", "script-tag"),
            (
                b"POST /pay HTTP/1.1\r\n\r\ncard_no=1111 2222-33334444",
                "card-number",
            ),
            (b"-----BEGIN RSA PRIVATE KEY-----", "private-key"),
            (b"GET / HTTP/1.1\r\nUser-Agent: sqlmap/1.7", "scanner"),
        ];
        for (payload, name) in cases {
            assert_eq!(found(&rules, payload), [name]);
            assert_ne!(gate.inspect(payload), GateOutcome::None, "{name}");
        }
        assert_eq!(cases.len(), rules.len());
    }

    #[test]
    fn realistic_rules_leave_ordinary_traffic_alone() {
        let rules = attacks();
        let gate = Gate::new(&rules);
        let requests: [&[u8]; 4] = [
            b"GET /union/select.html HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: Mozilla/5.0\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03random",
            b"SSH-2.0-OpenSSH_9.2\r\n",
            b"EHLO mail.example.org\r\n",
        ];
        for payload in requests {
            assert_eq!(gate.inspect(payload), GateOutcome::None);
            assert!(found(&rules, payload).is_empty());
        }
    }

    #[test]
    fn the_file_of_attacks_does_not_contain_the_eicar_text() {
        let rules = attacks();
        let text = include_bytes!("attacks.rules");
        let eicar = found(&rules, text).into_iter().find(|name| name == "eicar");
        assert_eq!(eicar, None);
    }

    #[test]
    fn the_example_rules_find_what_the_example_service_plants() {
        let text = include_str!("../../../../examples/inspector.rules");
        let rules = Rules::parse(text, "examples/inspector.rules").unwrap();
        let gate = Gate::new(&rules);
        let see = |text: &[u8]| (gate.inspect(text), found(&rules, text).len());
        assert_eq!(see(b"q=1' union select"), (GateOutcome::Full(0), 1));
        assert_eq!(see(b"/bin/sh -c"), (GateOutcome::Partial, 1));
        assert_eq!(see(b"card=4111-1111-1111-1111"), (GateOutcome::Partial, 1));
    }
}
