//! ICMP errors about packets that load balancers and NAT gateways have changed: each end must see the
//! packet in an error as it knows it (RFC 5508 §4).

use twinpath_core::wire::icmp::IcmpError;
use twinpath_core::wire::{rewrite, verify_inner_ipv4_checksum};

use super::bench::*;
use super::nat_gateway::{EXTERNAL, OUTSIDE, from_outside, hidden, ports};
use super::virtual_ip::{VIRTUAL, balanced, segment};

const ROUTER: &str = "198.51.100.1";
const TOO_BIG: IcmpError = IcmpError::PacketTooBig { mtu: 1400 };

/// An error about a frame that left.
fn error(about: &[u8]) -> PacketBuilder<'_> {
    PacketBuilder::icmp_error(TOO_BIG, about)
}

/// Who sent the packet that an error quotes, and to whom.
fn quoted(sent: &Sent) -> [Endpoint; 2] {
    assert!(verify_inner_ipv4_checksum(&sent.inner, &sent.layout));
    assert!(verify_transport_checksum(&sent.inner, &sent.layout));
    let ends = [
        fields::inner_source(&sent.inner, &sent.layout),
        fields::inner_destination(&sent.inner, &sent.layout),
    ];
    ends.map(|end| end.expect("a quote"))
}

fn end(address: &str, port: u16) -> Endpoint {
    Endpoint::new(ip(address), port)
}

#[test]
fn a_machine_behind_a_gateway_is_told_of_its_packets() {
    let mut bench = Bench::of(hidden());
    let segment = tcp((VM_CA, 1), (OUTSIDE, 80), flags::SYN);
    let left = bench.send(&from_vm(segment)).expect("sent");
    for (router, seen) in [(ROUTER, ROUTER), (OUTSIDE, OUTSIDE)] {
        let about = error(&left.inner).source_address(ip(router));
        let told = bench.send(&from_outside(ENI_MAC, about)).expect("an error");
        let headers = told.headers();
        assert_eq!([headers.source, headers.destination], [ip(seen), ip(VM_CA)]);
        assert_eq!(quoted(&told), [end(VM_CA, 1), end(OUTSIDE, 80)]);
    }
    assert_eq!(bench.counters().drops.of(Reason::IcmpError), 0);
    // Nothing is known of a connection that is over, swept or not.
    bench.now = Instant(bench.now.0 + 86_400_000_000_000);
    let late = from_outside(ENI_MAC, error(&left.inner).source_address(ip(ROUTER)));
    assert_eq!(bench.dpu.flow_count(), 1);
    assert_eq!(bench.send(&late), Err(Reason::IcmpError));
}

#[test]
fn whoever_is_outside_learns_nothing_of_who_is_behind_a_gateway() {
    let mut bench = Bench::of(hidden());
    let left = bench
        .send(&from_vm(udp((VM_CA, 1), (OUTSIDE, 53))))
        .expect("sent");
    let port = ports(&left)[0];
    let answer = udp((OUTSIDE, 53), (EXTERNAL, port));
    let arrived = bench
        .send(&from_outside(ENI_MAC, answer))
        .expect("an answer");
    // Of the machine, and of a router in front of it.
    for sender in [VM_CA, "10.0.0.1"] {
        let about = error(&arrived.inner).source_address(ip(sender));
        let told = bench.send(&from_vm(about)).expect("an error");
        let headers = told.headers();
        assert_eq!(
            [headers.source, headers.destination],
            [ip(EXTERNAL), ip(OUTSIDE)]
        );
        assert_eq!(quoted(&told), [end(OUTSIDE, 53), end(EXTERNAL, port)]);
    }
}

#[test]
fn errors_about_echoes_have_their_identifier() {
    let mut bench = Bench::of(hidden());
    let echo = PacketBuilder::icmp_echo(end(VM_CA, 7), end(OUTSIDE, 0));
    let left = bench.send(&from_vm(echo)).expect("sent");
    let about = error(&left.inner).source_address(ip(ROUTER));
    let told = bench.send(&from_outside(ENI_MAC, about)).expect("an error");
    assert_eq!(quoted(&told), [end(VM_CA, 7), end(OUTSIDE, 7)]);
}

#[test]
fn a_client_of_a_balanced_service_is_told_by_its_address() {
    let mut bench = Bench::of(balanced(&[1]));
    let left = bench.send(&segment(5, flags::SYN)).expect("sent");
    let from_network = |packet| {
        let macs = [REMOTE_MAC, ENI_MAC];
        inside(Encapsulation::Vxlan, VNET1_VNI, "100.0.1.1", macs, packet)
    };
    for (sender, seen) in [("10.2.9.1", VIRTUAL), (ROUTER, ROUTER)] {
        let about = error(&left.inner).source_address(ip(sender));
        let told = bench.send(&from_network(about)).expect("an error");
        let headers = told.headers();
        assert_eq!([headers.source, headers.destination], [ip(seen), ip(VM_CA)]);
        assert_eq!(quoted(&told), [end(VM_CA, 5), end(VIRTUAL, 80)]);
    }
}

/// What is not to be believed does not reach the machine: redirects, wrong checksums, those for another
/// than the sender of what they quote.
#[test]
fn errors_that_are_not_believed_are_dropped() {
    let mut bench = Bench::of(hidden());
    let segment = tcp((VM_CA, 1), (OUTSIDE, 80), flags::SYN);
    let left = bench.send(&from_vm(segment)).expect("sent");
    let mut broken = left.inner.clone();
    broken[usize::from(left.layout.l3) + 10] ^= 1;
    let quotes_broken = error(&broken).source_address(ip(ROUTER));
    assert_eq!(
        bench.send(&from_outside(ENI_MAC, quotes_broken)),
        Err(Reason::IcmpError)
    );
    let good = error(&left.inner).source_address(ip(ROUTER));
    let mut damaged = from_outside(ENI_MAC, good);
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    assert_eq!(bench.send(&damaged), Err(Reason::IcmpError));
    let quench = PacketBuilder::icmp_error(IcmpError::SourceQuench, &left.inner);
    assert_eq!(
        bench.send(&from_outside(ENI_MAC, quench)),
        Err(Reason::IcmpError)
    );
    bench
        .send(&from_outside(ENI_MAC, good))
        .expect("a good one");
}

/// No route and no access list is asked about an error: it may go to whom the packet in it came from alone.
#[test]
fn errors_go_to_whom_they_are_about() {
    let mut bench = Bench::of(peers());
    bench
        .send(&from_vm(udp((VM_CA, 1), ("10.2.0.8", 2))))
        .expect("opened");
    let answer = udp(("10.2.0.8", 2), (VM_CA, 1)).to_vec().expect("short");
    let told = bench.send(&from_vm(error(&answer))).expect("an error");
    assert_eq!(told.headers().destination, ip("10.2.0.8"));
    // The same to somebody else, with checksums that are right.
    let start = from_vm(error(&answer)).len() - error(&answer).to_vec().expect("short").len();
    for stranger in ["10.2.0.9", "198.18.0.1"] {
        let mut frame = from_vm(error(&answer));
        let inner = &mut frame[start..];
        let layout = dissect(inner).expect("sound");
        let end = Endpoint::new(ip(stranger), 0);
        rewrite::set_destination(inner, &layout, end).expect("an address");
        assert_eq!(bench.send(&frame), Err(Reason::IcmpError), "{stranger}");
    }
    let mut damaged = from_vm(error(&answer));
    *damaged.last_mut().expect("bytes") ^= 1;
    assert_eq!(bench.send(&damaged), Err(Reason::IcmpError));
    let quench = PacketBuilder::icmp_error(IcmpError::SourceQuench, &answer);
    assert_eq!(bench.send(&from_vm(quench)), Err(Reason::IcmpError));
}
