//! Packet inspector (SwitchNIC appendix A.1): bans flows that carry forbidden patterns.
//!
//! # Configuration
//! The keys are the fields of [`Config`].
//!
//! ```toml
//! [inspector]
//! rules = "inspector.rules"
//! ban_timeout = "10m"
//! ```
//!
//! # On the fast path
//! Two state words. The first 64 payload bytes of every packet meet the gate: nothing seen and
//! nothing known of the flow, the packet goes on; a whole forbidden literal, the flow is banned;
//! a banned flow's packets are dropped. Everything else goes to the slow path. Bytes are inspected in
//! the order in which packets come; put a reassembler in front to have them in the stream's.
//!
//! # On the slow path
//! A packet with a partial match is scanned whole, with all rules. While an occurrence may be half
//! seen the flow stays on the slow path. Fragments and ICMP errors pass (`uninspected`).
//!
//! # Changes
//! Other rules see the bytes of packets from then on: what was half seen under the old ones is
//! forgotten. Bans stay. The rules file counts as changed if it says something else, whatever its
//! name. `matcher` cannot change.
//!
//! # Counters
//! All count what the workers did; packets of banned flows are dropped as `banned`, also by the fast
//! path.
//!
//! | counter | meaning |
//! |---|---|
//! | `shallow_bans` | packets whose first bytes banned their flow |
//! | `deep_bans` | packets that banned their flow after a scan of the whole stream |
//! | `alerts` | occurrences of rules that only alert |
//! | `deep_scans`, `deep_bytes` | packets that were scanned whole, and their bytes |
//! | `forgotten_streams` | half-seen occurrences that were forgotten because there were more than `streams` |
//! | `failed_scans` | scans that Hyperscan gave up |
//! | `uninspected` | fragments and ICMP errors, which pass |
//!
//! # Matching
//! An operator writes a rules file; [`Rules`] is that file, checked. From it
//! two matchers are built, one for each path:
//!
//! * [`Gate`] is what a switch can do with a TCAM: it looks at the first
//!   [`WINDOW_BYTES`](twinpath_core::program::WINDOW_BYTES) bytes of one packet's payload, keeps nothing from packet
//!   to packet, and answers with a [`GateOutcome`]: ban the flow, let the
//!   workers look, or nothing seen.
//! * a [`StreamMatcher`] is what the workers do: it reads every byte of one
//!   direction of a flow and finds each rule, literal or regular expression,
//!   also when an occurrence spans packets. [`DeepMatcher`] is the default,
//!   written in Rust; with the feature `hyperscan` there is a second one,
//!   `HyperscanMatcher`, on the library that the paper used.
//!
//! # One packet's walk
//!
//! The gate sees a payload. `None`: the packet goes on and the workers never
//! hear of it. `Full`: the flow is banned on the spot. `Partial`: the packet
//! goes to the slow path, which scan its whole payload from the state that the
//! flow had left behind (the start, for the first one). As long as that state
//! is not idle, an occurrence may be half seen, and the flow's next packets
//! must go to the slow path too. Once it is idle the matcher knows no more than
//! at its start, so the flow can return to the fast path.
//!
//! # What the gate cannot see
//!
//! An occurrence that neither begins in a window nor has its gate in one is
//! not found unless the flow is on the slow path already; this is the price of
//! shallow inspection, and `gate=always` in a rule refuses to pay it.

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
#[cfg(feature = "hyperscan")]
mod hyperscan;
mod limits;
mod line;
mod literals;
mod minimise;
mod program;
mod rule_set;
mod rules;

pub use config::{Config, Matcher, Timeout, TimeoutError};
pub use deep::{DEFAULT_TABLE_BYTES, DeepMatcher, DeepState, StreamMatcher};
pub use descriptor::FUNCTION;
#[cfg(feature = "hyperscan")]
pub use error::HyperscanError;
pub use error::{Expected, Problem, RulesError};
pub use function::{Inspector, InspectorError, inspector};
pub use gate::{Gate, GateOutcome};
#[cfg(feature = "hyperscan")]
pub use hyperscan::{HyperscanMatcher, HyperscanState};
pub use limits::{MAX_PATTERN_BYTES, MAX_RULES, MIN_LITERAL_BYTES, MIN_PARTIAL_BYTES};
pub use rule_set::RuleSet;
pub use rules::{Action, GateLiterals, Pattern, Rule, RuleIndex, Rules};

/// The function's name.
pub const NAME: &str = "inspector";

#[cfg(test)]
mod agreement;

#[cfg(test)]
mod tests {
    use super::*;

    fn attacks() -> Rules {
        Rules::parse(include_str!("attacks.rules"), "attacks.rules").unwrap()
    }

    /// Every rule that a stream of one payload sets off, by name.
    fn found(rules: &Rules, payload: &[u8]) -> Vec<String> {
        let mut set = RuleSet::new();
        let report = |rule| _ = set.insert(rule);
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
