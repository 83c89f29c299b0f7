//! Which ICMP errors are believed, for every function that lets errors pass with the flow that
//! they are about.
//!
//! Anybody can send an error about anybody's packet. What can be told of one without knowing the
//! flow is [judged](judge) here, the same for all functions: its type, its checksum, whether it
//! goes to the one whose packet it quotes (RFC 5927 §4.1, RFC 5508 §4.2), and the checksum of the
//! quoted header. Whether what it quotes can be under way is for the function that knows the flow
//! ([`fields::inner_tcp_sequence`]); it refuses as [`Refusal::Window`].

use crate::DropReason;
use crate::wire::icmp::{self, v4, v6};
use crate::wire::layout::{Layout, Network, Transport};
use crate::wire::{fields, verify_inner_ipv4_checksum, verify_transport_checksum};

/// Why an ICMP message is not let through.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A redirect, of either IP version: only routers on the same link may send one.
    Redirect,
    /// An error of a type that is out of use, source quench (RFC 6633), or with a code that no
    /// standard gives a meaning to.
    Type,
    /// The message's own checksum is wrong.
    Checksum,
    /// It is for another than the one who sent the packet that it quotes.
    Recipient,
    /// The header of the IPv4 packet that it quotes has a wrong checksum, or nobody can read it where
    /// its addresses must be translated.
    Quote,
    /// It quotes a TCP segment that is not under way: it was never sent, or has been acknowledged.
    Window,
}

impl Refusal {
    /// Every refusal, with the name of its counter.
    const ALL: [(Self, &'static str); 6] = [
        (Self::Redirect, "icmp_redirects_refused"),
        (Self::Type, "icmp_errors_of_refused_type"),
        (Self::Checksum, "icmp_errors_with_bad_checksum"),
        (Self::Recipient, "icmp_errors_for_another"),
        (Self::Quote, "icmp_errors_with_bad_quote"),
        (Self::Window, "icmp_errors_out_of_window"),
    ];

    /// Why the packet is dropped.
    pub const fn reason(self) -> DropReason {
        match self {
            Self::Redirect | Self::Type => DropReason::IcmpType,
            Self::Checksum => DropReason::BadChecksum,
            Self::Recipient => DropReason::IcmpRecipient,
            Self::Quote | Self::Window => DropReason::IcmpQuote,
        }
    }
}

/// How many messages were refused, by refusal.
#[derive(Clone, Debug, Default)]
pub struct Refusals([u64; Refusal::ALL.len()]);

impl Refusals {
    /// Counts one; returns why the packet is dropped.
    pub const fn count(&mut self, refusal: Refusal) -> DropReason {
        self.0[refusal as usize] += 1;
        refusal.reason()
    }

    /// Calls `each` with every counter's name and value.
    pub fn report(&self, each: &mut dyn FnMut(&'static str, u64)) {
        for ((_, name), count) in Refusal::ALL.iter().zip(self.0) {
            each(name, count);
        }
    }
}

/// Judges an ICMP message by what it says alone. Whatever is no error and no redirect is not
/// judged here.
///
/// # Errors
/// Why it must not pass. A type that some network wants all the same, such as redirects where they
/// are configured, is told before anything else is looked at.
pub fn judge(frame: &[u8], layout: &Layout, allows_redirects: bool) -> Result<(), Refusal> {
    let Some((kind, code)) = fields::icmp_kind(frame, layout) else {
        return Ok(());
    };
    match (layout.transport, kind) {
        (Transport::Icmp, v4::REDIRECT) | (Transport::Icmp6, v6::REDIRECT) if !allows_redirects => {
            return Err(Refusal::Redirect);
        }
        (Transport::Icmp, v4::SOURCE_QUENCH) => return Err(Refusal::Type),
        _ if !icmp::is_error(layout.network, kind) => return Ok(()),
        _ if !icmp::has_meaning(layout.network, kind, code) => return Err(Refusal::Type),
        _ => {}
    }
    if !verify_transport_checksum(frame, layout) {
        return Err(Refusal::Checksum);
    }
    judge_quote(frame, layout)
}

/// A quote that is too short to be read belongs to no flow, so nothing is asked of it.
fn judge_quote(frame: &[u8], layout: &Layout) -> Result<(), Refusal> {
    let Some(quoted) = fields::inner_source(frame, layout) else {
        return Ok(());
    };
    if fields::destination_address(frame, layout) != quoted.address {
        return Err(Refusal::Recipient);
    }
    match layout.network == Network::V4 && !verify_inner_ipv4_checksum(frame, layout) {
        true => Err(Refusal::Quote),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::icmp::IcmpError;
    use crate::wire::protocol;
    use crate::wire::rewrite::refresh_checksums;
    use crate::wire::{Address, Endpoint, PacketBuilder, dissect};

    const A: [Endpoint; 2] = [
        Endpoint::v4([10, 0, 0, 1], 40_000),
        Endpoint::new(Address(0x2001_0db8 << 96 | 1), 40_000),
    ];
    const B: [Endpoint; 2] = [
        Endpoint::v4([192, 0, 2, 1], 80),
        Endpoint::new(Address(0x2001_0db8_0002 << 80 | 1), 80),
    ];

    fn packet(version: usize) -> Vec<u8> {
        let builder = PacketBuilder::tcp(A[version], B[version]);
        builder.payload_len(30).to_vec().expect("valid")
    }

    fn error(kind: IcmpError, version: usize) -> Vec<u8> {
        let offending = packet(version);
        let builder = PacketBuilder::icmp_error(kind, &offending);
        builder.to_vec().expect("valid")
    }

    fn judged(frame: &[u8]) -> Result<(), Refusal> {
        judge(frame, &dissect(frame).expect("valid"), false)
    }

    /// Changes bytes of an error and mends its own checksums.
    fn forged(mut frame: Vec<u8>, change: impl FnOnce(&mut [u8], &Layout)) -> Vec<u8> {
        let layout = dissect(&frame).expect("valid");
        change(&mut frame, &layout);
        let layout = dissect(&frame).expect("valid");
        refresh_checksums(&mut frame, &layout).expect("sound");
        frame
    }

    #[test]
    fn errors_of_every_type_in_use_pass() {
        let both = [
            IcmpError::Unreachable { code: 1 },
            IcmpError::PacketTooBig { mtu: 1280 },
            IcmpError::TimeExceeded { code: 0 },
            IcmpError::ParameterProblem {
                code: 0,
                pointer: 6,
            },
        ];
        for version in 0..2 {
            for kind in both {
                assert_eq!(judged(&error(kind, version)), Ok(()), "{kind:?}");
            }
        }
    }

    #[test]
    fn types_out_of_use_and_redirects_do_not() {
        let gateway = Address::from_v4([10, 0, 0, 254]);
        let redirect = error(IcmpError::Redirect { code: 1, gateway }, 0);
        assert_eq!(judged(&redirect), Err(Refusal::Redirect));
        let layout = dissect(&redirect).expect("valid");
        assert_eq!(judge(&redirect, &layout, true), Ok(()));
        assert_eq!(
            judged(&error(IcmpError::SourceQuench, 0)),
            Err(Refusal::Type)
        );
        let mut message = [0; 40];
        message[0] = v6::REDIRECT;
        let redirect = PacketBuilder::raw(protocol::ICMP6, B[1].address, A[1].address);
        let redirect = redirect.payload(&message).to_vec().expect("valid");
        assert_eq!(judged(&redirect), Err(Refusal::Redirect));
    }

    #[test]
    fn codes_without_a_meaning_do_not() {
        for kind in [
            IcmpError::Unreachable { code: 99 },
            IcmpError::TimeExceeded { code: 2 },
        ] {
            for version in 0..2 {
                assert_eq!(
                    judged(&error(kind, version)),
                    Err(Refusal::Type),
                    "{kind:?}"
                );
            }
        }
        assert_eq!(
            judged(&error(IcmpError::Unreachable { code: 8 }, 1)),
            Ok(())
        );
        assert_eq!(
            judged(&error(IcmpError::Unreachable { code: 9 }, 1)),
            Err(Refusal::Type)
        );
        assert_eq!(
            judged(&error(IcmpError::Unreachable { code: 15 }, 0)),
            Ok(())
        );
    }

    #[test]
    fn errors_for_another_than_the_sender_do_not() {
        for version in 0..2 {
            let misled = forged(
                error(IcmpError::Unreachable { code: 1 }, version),
                |frame, layout| {
                    let address_end = usize::from(layout.l3) + [20, 40][version];
                    frame[address_end - 1] ^= 2;
                },
            );
            assert_eq!(judged(&misled), Err(Refusal::Recipient));
        }
    }

    #[test]
    fn broken_checksums_do_not() {
        for version in 0..2 {
            let mut broken = error(IcmpError::Unreachable { code: 1 }, version);
            let last = broken.len() - 1;
            broken[last] ^= 1;
            assert_eq!(judged(&broken), Err(Refusal::Checksum));
        }
        let misquoted = forged(
            error(IcmpError::Unreachable { code: 1 }, 0),
            |frame, layout| frame[usize::from(layout.inner.expect("quoted").l3) + 8] ^= 1,
        );
        assert_eq!(judged(&misquoted), Err(Refusal::Quote));
    }

    #[test]
    fn whatever_is_no_error_is_not_judged() {
        for version in 0..2 {
            assert_eq!(judged(&packet(version)), Ok(()));
        }
    }

    #[test]
    fn every_refusal_counts_under_its_name() {
        for (place, (refusal, name)) in Refusal::ALL.into_iter().enumerate() {
            let mut refusals = Refusals::default();
            refusals.count(refusal);
            let mut found = Vec::new();
            refusals.report(&mut |each, count| found.extend((count > 0).then_some(each)));
            assert_eq!((refusal as usize, found), (place, vec![name]));
        }
    }
}
