//! ICMP errors from anybody about connections that they have guessed.

use std::time::Duration;

use twinpath_core::DropReason::{self, BadChecksum, Denied, IcmpQuote, IcmpRecipient, IcmpType};
use twinpath_core::wire::icmp::{IcmpError, v6};
use twinpath_core::wire::rewrite::refresh_checksums;
use twinpath_core::wire::tcp::flags::{ACK, SYN};
use twinpath_core::wire::{Address, Endpoint, PacketBuilder, dissect, protocol};

use super::talk::{START, Twins, verdict};
use crate::descriptor::FunctionConfig;
use crate::firewall::Config;

/// Two ends, a stranger between them, and another host of the first one's network.
struct Cast {
    a: Endpoint,
    b: Endpoint,
    stranger: Address,
    neighbour: Address,
}

const CASTS: [Cast; 2] = [
    Cast {
        a: Endpoint::v4([10, 0, 0, 1], 40_000),
        b: Endpoint::v4([192, 0, 2, 1], 80),
        stranger: Address::from_v4([198, 51, 100, 66]),
        neighbour: Address::from_v4([10, 0, 0, 2]),
    },
    Cast {
        a: Endpoint::new(Address(0x2001_0db8 << 96 | 1), 40_000),
        b: Endpoint::new(Address(0x2001_0db8_0002 << 80 | 1), 80),
        stranger: Address(0x2001_0db8_0bad << 80 | 1),
        neighbour: Address(0x2001_0db8 << 96 | 2),
    },
];

const UNREACHABLE: IcmpError = IcmpError::Unreachable { code: 1 };

impl Cast {
    /// A has sent 1000 to 1100 with a window of 10,000 and B has acknowledged 1050; B is at 5000.
    fn connected(&self, config: &str) -> Twins {
        let mut twins = Twins::new(config);
        let from_a = |flags, sequence, acknowledgement, bytes| {
            self.segment(self.a, flags, sequence, acknowledgement, bytes)
        };
        let from_b = |flags, sequence, acknowledgement| {
            self.segment(self.b, flags, sequence, acknowledgement, 0)
        };
        for frame in [
            from_a(SYN, 999, 0, 0),
            from_b(SYN | ACK, 4999, 1000),
            from_a(ACK, 1000, 5000, 100),
            from_b(ACK, 5000, 1050),
        ] {
            let fate = twins.process(&frame, START);
            assert_eq!(verdict(&fate, &frame), Ok(()));
        }
        twins
    }

    fn segment(
        &self,
        from: Endpoint,
        flags: u8,
        sequence: u32,
        acknowledgement: u32,
        bytes: usize,
    ) -> Vec<u8> {
        let to = if from == self.a { self.b } else { self.a };
        PacketBuilder::tcp(from, to)
            .flags(flags)
            .seq(sequence)
            .ack(acknowledgement)
            .window(10_000)
            .payload_len(bytes)
            .to_vec()
            .expect("a packet")
    }

    /// An error about what A sent with this sequence number.
    fn about(&self, kind: IcmpError, sequence: u32) -> Vec<u8> {
        let quoted = self.segment(self.a, ACK, sequence, 5000, 20);
        PacketBuilder::icmp_error(kind, &quoted)
            .source_address(self.stranger)
            .to_vec()
            .expect("a packet")
    }

    /// The same error, sent to another.
    fn to(&self, mut error: Vec<u8>, recipient: Address) -> Vec<u8> {
        let layout = dissect(&error).expect("a packet");
        let end = usize::from(layout.l3) + if recipient.is_v4() { 20 } else { 40 };
        match recipient.is_v4() {
            true => error[end - 4..end].copy_from_slice(&recipient.octets4()),
            false => error[end - 16..end].copy_from_slice(&recipient.0.to_be_bytes()),
        }
        refresh_checksums(&mut error, &layout).expect("sound");
        error
    }
}

/// A connection with these errors, and what becomes of them.
fn expect(cast: &Cast, config: &str, errors: &[(Vec<u8>, Result<(), DropReason>)]) -> Twins {
    let mut twins = cast.connected(config);
    for (place, (error, expected)) in errors.iter().enumerate() {
        let fate = twins.process(error, START + Duration::from_millis(70));
        assert_eq!(verdict(&fate, error), *expected, "error {place}");
    }
    twins
}

#[test]
fn a_stranger_reaches_nobody_but_the_sender_of_what_is_quoted() {
    for cast in &CASTS {
        let error = cast.about(UNREACHABLE, 1080);
        let misled = cast.to(error.clone(), cast.neighbour);
        let rules = "default = \"allow\"\nrules = [{ action = \"allow\" }]";
        let twins = expect(
            cast,
            rules,
            &[(misled, Err(IcmpRecipient)), (error, Ok(()))],
        );
        assert_eq!(twins.counter("icmp_errors_for_another"), 1);
        assert_eq!(twins.counter("icmp_errors_related"), 1);
    }
}

#[test]
fn an_error_quotes_what_is_under_way() {
    for cast in &CASTS {
        let lines = [
            (1049, Err(IcmpQuote)),
            (1050, Ok(())),
            (1100, Ok(())),
            (1101, Err(IcmpQuote)),
            (1000u32.wrapping_sub(1 << 31), Err(IcmpQuote)),
        ];
        let errors =
            lines.map(|(sequence, expected)| (cast.about(UNREACHABLE, sequence), expected));
        let twins = expect(cast, "default = \"allow\"", &errors);
        assert_eq!(twins.counter("icmp_errors_out_of_window"), 3);
    }
}

/// Of 4,096 numbers spread over the whole space, the connection believes none.
#[test]
fn guesses_at_a_sequence_number_miss() {
    for cast in &CASTS {
        let guesses = (0..4096u32).map(|guess| (guess << 20).wrapping_add(0x8_0000));
        let errors: Vec<_> = guesses
            .map(|sequence| (cast.about(UNREACHABLE, sequence), Err(IcmpQuote)))
            .collect();
        expect(cast, "default = \"allow\"", &errors);
    }
}

#[test]
fn checksums_of_error_and_quote_hold() {
    for cast in &CASTS {
        let mut broken = cast.about(UNREACHABLE, 1080);
        let last = broken.len() - 1;
        broken[last] ^= 1;
        let mut errors = vec![(broken, Err(BadChecksum))];
        if cast.a.address.is_v4() {
            let mut misquoted = cast.about(UNREACHABLE, 1080);
            let layout = dissect(&misquoted).expect("a packet");
            misquoted[usize::from(layout.inner.expect("quoted").l3) + 8] ^= 1;
            refresh_checksums(&mut misquoted, &layout).expect("sound");
            errors.push((misquoted, Err(IcmpQuote)));
        }
        expect(cast, "default = \"allow\"", &errors);
    }
}

#[test]
fn redirects_pass_only_where_they_are_wanted() {
    let [cast, v6_cast] = &CASTS;
    let gateway = cast.stranger;
    let redirect = cast.about(IcmpError::Redirect { code: 1, gateway }, 1080);
    let quench = cast.about(IcmpError::SourceQuench, 1080);
    let mut message = [0; 40];
    message[0] = v6::REDIRECT;
    let nd = PacketBuilder::raw(protocol::ICMP6, v6_cast.stranger, v6_cast.a.address);
    let nd = nd.payload(&message).to_vec().expect("a packet");

    let rules = "rules = [{ action = \"allow\" }]";
    let refused = [
        (redirect.clone(), Err(IcmpType)),
        (quench.clone(), Err(IcmpType)),
        (nd.clone(), Err(IcmpType)),
    ];
    let twins = expect(cast, rules, &refused);
    assert_eq!(twins.counter("icmp_redirects_refused"), 2);
    assert_eq!(twins.counter("icmp_errors_of_refused_type"), 1);

    let wanted = [
        (redirect, Ok(())),
        (quench, Err(IcmpType)),
        (nd.clone(), Ok(())),
    ];
    expect(cast, &format!("redirects = true\n{rules}"), &wanted);
    expect(
        cast,
        "redirects = true\nrules = [{ action = \"allow\", protocol = \"tcp\" }]",
        &[(nd, Err(Denied))],
    );
}

/// What is said of an error that no rule lets in does not name a default that allows all else.
#[test]
fn an_error_about_nothing_known_is_told_as_such() {
    let config: Config = toml::from_str("default = \"allow\"").expect("sound");
    for cast in &CASTS {
        let told = |packet: &[u8]| {
            let layout = dissect(packet).expect("a packet");
            config
                .rule_for(packet, &layout, 0)
                .expect("it says so")
                .text
        };
        let error = told(&cast.about(UNREACHABLE, 1));
        assert_eq!(error, "an ICMP error about no connection that is known");
        assert_eq!(
            told(&cast.segment(cast.a, SYN, 1, 0, 0)),
            "the default: allow"
        );
    }
}
