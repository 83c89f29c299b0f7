//! ICMP errors about rewritten packets.

use super::*;
use twinpath_core::DropReason;
use twinpath_wire::icmp::IcmpError;
use twinpath_wire::rewrite::refresh_checksums;
use twinpath_wire::tcp::flags;
use twinpath_wire::{MacAddress, PacketBuilder};

const TOO_BIG: IcmpError = IcmpError::PacketTooBig { mtu: 1280 };

fn packet(from: Endpoint, to: Endpoint) -> Vec<u8> {
    let builder = if from.address.is_v4() {
        PacketBuilder::tcp(from, to)
    } else {
        PacketBuilder::udp(from, to)
    };
    builder.payload(b"data!").to_vec().expect("valid")
}

fn error(offending: &[u8]) -> PacketBuilder<'_> {
    PacketBuilder::icmp_error(TOO_BIG, offending)
}

fn frame(builder: PacketBuilder<'_>) -> Vec<u8> {
    builder.to_vec().expect("valid")
}

/// Client, service and a router, of both IP versions.
fn parties() -> [[Endpoint; 3]; 2] {
    [
        ["198.51.100.7:40000", "192.0.2.1:80", "203.0.113.1:0"].map(endpoint),
        [
            "[2001:db8:9::1]:4000",
            "[2001:db8::1]:53",
            "[2001:db8:ff::1]:0",
        ]
        .map(endpoint),
    ]
}

#[test]
fn the_client_reads_about_the_packet_that_it_sent() {
    for [client, vip, router] in parties() {
        let mut paths = paths(SERVICES);
        let original = packet(client, vip);
        let (sent, _) = forwarded(process(&mut paths, &original, at(0)));
        let (from_backend, _) = forwarded(process(&mut paths, &frame(error(&sent)), at(1)));
        assert_eq!(
            from_backend,
            frame(error(&original)),
            "as if the service had sent it"
        );
        let (from_router, _) = forwarded(process(
            &mut paths,
            &frame(error(&sent).source_address(router.address)),
            at(1),
        ));
        assert_eq!(
            from_router,
            frame(error(&original).source_address(router.address))
        );
        assert_eq!(paths[0].counter("errors_translated"), 2);
    }
}

#[test]
fn the_backend_reads_about_the_packet_that_it_sent() {
    for [client, vip, router] in parties() {
        let mut paths = paths(SERVICES);
        let (_, backend) = ends(process(&mut paths, &packet(client, vip), at(0)));
        let original = packet(backend, client);
        let (sent, _) = forwarded(process(&mut paths, &original, at(1)));
        for source in [client, router] {
            let about = |offending| frame(error(offending).source_address(source.address));
            let (translated, _) = forwarded(process(&mut paths, &about(&sent), at(2)));
            assert_eq!(translated, about(&original));
        }
    }
}

#[test]
fn with_a_direct_return_errors_go_to_the_backends_mac_address() {
    let (client, vip) = (endpoint("198.51.100.7:40000"), endpoint("192.0.2.2:80"));
    let mut paths = paths(SERVICES);
    let (sent, _) = forwarded(process(&mut paths, &packet(client, vip), at(0)));
    let backend = fields::destination_mac(&sent);
    let about_answer = frame(error(&packet(vip, client)));
    let (to_backend, _) = forwarded(process(&mut paths, &about_answer, at(1)));
    assert_eq!(fields::destination_mac(&to_backend), backend);
    assert_ne!(backend, MacAddress([2, 0, 0, 0, 0, 2]));
    assert_eq!(to_backend[6..], about_answer[6..]);
    let about_question = frame(error(&sent));
    assert_eq!(
        process(&mut paths, &about_question, at(1)).onward,
        [about_question]
    );
}

#[test]
fn errors_about_nothing_that_is_known_pass_unchanged() {
    let [[client, vip, _], _] = parties();
    let mut paths = paths(SERVICES);
    let stray = frame(error(&packet(client, vip)));
    let fate = process(&mut paths, &stray, at(0));
    assert_eq!((fate.onward, fate.words), (vec![stray], vec![0, 0]));
}

#[test]
fn errors_for_a_backend_that_is_gone_are_dropped() {
    let [[client, vip, _], _] = parties();
    let text = r#"services = [{ vip = "192.0.2.1:80", protocol = "tcp", backends = [{ endpoint = "10.0.0.1:80" }],
        changes = [{ at = "1s", remove = "10.0.0.1:80" }] }]"#;
    let mut paths = paths(text);
    let syn = PacketBuilder::tcp(client, vip)
        .flags(flags::SYN)
        .to_vec()
        .expect("valid");
    process(&mut paths, &syn, at(0));
    let fate = process(&mut paths, &frame(error(&packet(vip, client))), at(1000));
    assert_eq!(fate.drops, [(DropReason::NoBackend, 1)]);
}

/// Errors that nobody should believe go nowhere, whichever end they are for.
#[test]
fn forged_errors_are_dropped() {
    for [client, vip, router] in parties() {
        let mut paths = paths(SERVICES);
        let (sent, _) = forwarded(process(&mut paths, &packet(client, vip), at(0)));
        let answer = packet(vip, client);
        for offending in [&sent, &answer] {
            let about = error(offending).source_address(router.address);
            let mut broken = frame(about);
            let last = broken.len() - 1;
            broken[last] ^= 1;
            let fate = process(&mut paths, &broken, at(1));
            assert_eq!(fate.drops, [(DropReason::BadChecksum, 1)]);

            let mut misled = frame(about);
            let layout = dissect(&misled).expect("valid");
            let end = usize::from(layout.l3) + if vip.address.is_v4() { 20 } else { 40 };
            misled[end - 1] ^= 0x55;
            refresh_checksums(&mut misled, &layout).expect("sound");
            let fate = process(&mut paths, &misled, at(1));
            assert_eq!(fate.drops, [(DropReason::IcmpRecipient, 1)]);
        }
        assert_eq!(paths[0].counter("icmp_errors_for_another"), 2);
        assert_eq!(paths[0].counter("errors_translated"), 0);
    }
    let [[client, vip, router], _] = parties();
    let mut paths = paths(SERVICES);
    let (sent, _) = forwarded(process(&mut paths, &packet(client, vip), at(0)));
    let gateway = router.address;
    let redirect = PacketBuilder::icmp_error(IcmpError::Redirect { code: 0, gateway }, &sent);
    let fate = process(&mut paths, &frame(redirect), at(1));
    assert_eq!(fate.drops, [(DropReason::IcmpType, 1)]);
}
