//! Identifications behind translations, on both paths: of hosts that share an address no two datagrams
//! that may be fragments or become some have one number.

use crate::common::acting::assert_share;
use crate::common::rows::tell;
use crate::common::{Outcome, assert_same_but_for_names, run, service};
use std::collections::{HashMap, HashSet};
use twinpath_control::service::{Execution, Paths};
use twinpath_core::wire::{
    Address, Endpoint, Fragment, PacketBuilder, dissect, fields, verify_ipv4_checksum,
    verify_transport_checksum,
};
use twinpath_io::Trace;

const CACHE: &str =
    "[rule_cache]\nwindow = \"100ms\"\nthreshold = 0\n[link]\nround_trip = \"200us\"\n";
const MICROSECOND: u64 = 1_000;

fn end(text: &str) -> Endpoint {
    text.parse().expect(text)
}

/// What leaves from one external address to one receiver: numbers of datagrams that are not atomic.
type Drawn = HashMap<(Address, Address, u8), Vec<u16>>;

/// Of fragments those of the first of a datagram.
fn drawn(outcome: &Outcome, external: &str) -> Drawn {
    let external = end(external).address;
    let mut drawn = Drawn::new();
    for (_, packet) in &outcome.packets {
        let layout = dissect(packet).expect("sound");
        let [source, destination] = [
            fields::source_address(packet, &layout),
            fields::destination_address(packet, &layout),
        ];
        assert!(verify_ipv4_checksum(packet, &layout));
        assert!(verify_transport_checksum(packet, &layout));
        let is_first = layout.fragment != Fragment::Later;
        if source == external && is_first && !fields::is_atomic(packet, &layout) {
            let number = fields::identification(packet, &layout).expect("IPv4");
            let receiver = (source, destination, layout.protocol);
            drawn.entry(receiver).or_default().push(number);
        }
    }
    drawn
}

/// No number twice among those that are counted.
fn assert_unique(drawn: &Drawn) {
    for (receiver, numbers) in drawn {
        let different: HashSet<_> = numbers.iter().collect();
        assert_eq!(different.len(), numbers.len(), "{receiver:?}");
    }
}

/// Hosts that all number their datagrams alike; some are atomic, some in parts, and some answered.
fn hosts_that_count_alike() -> Trace {
    let mut trace = Trace::new();
    let mut at = 1_000_000_000;
    let mut push = |packet: PacketBuilder<'_>| {
        at += 50 * MICROSECOND;
        trace.push(at, &packet.to_vec().expect("fits"));
    };
    for number in 0..400u32 {
        for host in 1..=8u8 {
            let from = Endpoint::v4([10, 0, 0, host], 5000);
            let to = Endpoint::v4([8, 8, 8, number as u8 % 3], 53);
            let datagram = PacketBuilder::udp(from, to)
                .identification(number)
                .payload_len(64);
            let segment = PacketBuilder::tcp(from, to)
                .flags(if number == 0 { 2 } else { 16 })
                .identification(number);
            match (number + u32::from(host)) % 9 {
                0 => push(datagram.dont_fragment()),
                1 => {
                    push(datagram.fragment(0, true));
                    push(datagram.fragment(40, false).payload_len(24));
                }
                2 => push(PacketBuilder::icmp_echo(from, to).identification(number)),
                3 => push(segment),
                _ => push(datagram),
            }
        }
    }
    trace
}

#[test]
fn no_two_hosts_have_one_number_whichever_path_sends() {
    let text = format!(
        "[service]\nchain = [\"napt\"]\n{CACHE}[napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"198.51.100.1\"]\n"
    );
    let (service, trace) = (service(&text), hosts_that_count_alike());
    let slow = run(&service, &trace, Paths::Slow, Execution::Virtual);
    let numbers = drawn(&slow, "198.51.100.1:0");
    assert_unique(&numbers);
    let is_odd = |number: &u16| number % 2 == 1;
    assert!(numbers.values().flatten().all(is_odd), "the slow path's");
    for execution in [Execution::Virtual, Execution::Threads] {
        let both = run(&service, &trace, Paths::Both, execution);
        assert_same_but_for_names(&slow, &both, "198.51.100.0/24", "numbers");
        tell("made one by one", &both.report);
        let numbers = drawn(&both, "198.51.100.1:0");
        assert_unique(&numbers);
        let all: Vec<&u16> = numbers.values().flatten().collect();
        let even = all.iter().filter(|number| !is_odd(number)).count();
        assert!(
            even > all.len() / 5 && even < all.len(),
            "{even} of {}",
            all.len()
        );
    }
}

/// Atomic datagrams, and those that no translation has its hands on, leave as they came.
#[test]
fn what_needs_no_number_keeps_its_own() {
    let text = format!(
        "[service]\nchain = [\"napt\"]\n{CACHE}[napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"198.51.100.1\"]\n"
    );
    let mut trace = Trace::new();
    for number in 0..6000u32 {
        let from = Endpoint::v4([10, 0, 0, 1], 5000);
        let datagram = PacketBuilder::udp(from, end("8.8.8.8:53"))
            .identification(number)
            .dont_fragment();
        let at = 1_000_000_000 + u64::from(number) * 50 * MICROSECOND;
        trace.push(at, &datagram.to_vec().expect("fits"));
    }
    let both = run(&service(&text), &trace, Paths::Both, Execution::Virtual);
    assert!(both.report.fast.share > 0.3);
    for (number, (_, packet)) in (0..).zip(&both.packets) {
        let layout = dissect(packet).expect("sound");
        assert_eq!(fields::identification(packet, &layout), Some(number));
    }
}

/// Hosts inside that know each other by external endpoints of IPv4: datagrams, parts of some in any
/// order, and errors about them, on both paths; what one host sends the other is no packet that a rule can make of
/// another. Beside them a flow that is not translated has its rule.
#[test]
fn hosts_behind_nat64_send_each_other_fragments_and_errors() {
    const DATAGRAMS: u32 = 200;
    const BESIDE: usize = 8;
    let text = format!(
        "[service]\nchain = [\"nat64\", \"monitor\"]\n{CACHE}[nat64]\ninside = [\"2001:db8:1::/48\"]\n\
         external = [\"198.51.100.1\"]\nassignment = \"preserve\"\n[monitor]\nby = \"hosts\"\n"
    );
    let [one, other] = ["[2001:db8:1::7]:5000", "[2001:db8:1::8]:6000"].map(end);
    let [one_shown, other_shown] =
        ["[64:ff9b::c633:6401]:5000", "[64:ff9b::c633:6401]:6000"].map(end);
    let server = end("[64:ff9b::808:808]:53");
    let mut trace = Trace::new();
    let mut push = |packet: PacketBuilder<'_>| {
        let at = 1_000_000_000 + trace.len() as u64 * 300 * MICROSECOND;
        trace.push(at, &packet.to_vec().expect("fits"));
    };
    for host in [one, other] {
        push(PacketBuilder::udp(host, server));
    }
    let received = PacketBuilder::udp(other_shown, one).payload_len(40);
    let received = received.to_vec().expect("fits");
    let past = PacketBuilder::udp(end("[2001:db8:2::1]:7000"), end("[2001:db8:3::1]:53"));
    for id in 0..DATAGRAMS {
        (0..BESIDE).for_each(|_| push(past));
        let datagram = PacketBuilder::udp(other, one_shown)
            .identification(id)
            .payload_len(64);
        push(datagram);
        let mut parts = [
            datagram.fragment(0, true),
            datagram.fragment(40, false).payload_len(24),
        ];
        if id % 2 == 0 {
            parts.reverse();
        }
        parts.into_iter().for_each(&mut push);
        push(PacketBuilder::icmp_error(
            twinpath_core::wire::icmp::IcmpError::Unreachable { code: 4 },
            &received,
        ));
    }
    let service = service(&text);
    let slow = run(&service, &trace, Paths::Slow, Execution::Virtual);
    assert_eq!(slow.packets.len(), trace.len(), "all of them leave");
    let errors = slow.packets.iter().filter(|(_, packet)| {
        let layout = dissect(packet).expect("sound");
        let told = fields::inner_source(packet, &layout);
        assert!(told.is_none_or(|told| told == other), "who sent it");
        told.is_some()
    });
    assert_eq!(errors.count(), DATAGRAMS as usize);
    for execution in [Execution::Virtual, Execution::Threads] {
        let both = run(&service, &trace, Paths::Both, execution);
        assert_same_but_for_names(&slow, &both, "198.51.100.0/24", "nat64");
        tell("made one by one", &both.report);
        assert_eq!(slow.report.drops, both.report.drops);
        assert_share(&both, 0.38, "nat64");
    }
}
