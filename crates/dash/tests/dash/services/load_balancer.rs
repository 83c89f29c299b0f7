//! A load balancer that tells where a connection's packets may go straight to.

use twinpath_core::wire::checksum;

use super::bench::*;
use crate::common::redirects::{self, IP_IN_IP, NVGRE, RedirectInfo, VXLAN};

const HOST: &str = "100.0.0.77";
const MACHINE_MAC: MacAddress = MacAddress([2, 0, 0, 0, 7, 7]);
/// Where packets of `peers` are sent.
const BALANCER: &str = "100.0.0.8";
/// From where balancers send redirects, as public captures have it: it is not where packets are sent.
const MUX: &str = "50.0.0.1";
/// Of redirects about packets that leave without a tunnel.
const PUBLIC_KEY: u32 = 253;
/// Of redirects about packets that leave in one.
const PRIVATE_KEY: u32 = 254;
/// A key that redirects tell.
const TOLD_KEY: u32 = 256;

fn info(encap_type: u16, encap_id: u32, host: &str) -> Vec<u8> {
    let (dip_pa, vm_mac) = (ip(host), MACHINE_MAC);
    RedirectInfo {
        encap_type,
        encap_id,
        dip_pa,
        vm_mac,
    }
    .bytes()
}

/// What follows the packet that a redirect is about.
pub fn details() -> Vec<u8> {
    info(NVGRE, TOLD_KEY, HOST)
}

/// A redirect about a frame that left, as its balancer saw it.
pub fn redirect(sent: &Sent, details: &[u8]) -> Vec<u8> {
    redirects::redirect(&sent.inner, &sent.layout, details, [REMOTE_MAC, ENI_MAC])
}

fn redirect_from(host: &str, kind: Encapsulation, key: u32, inner: &[u8]) -> Vec<u8> {
    let arrival = crate::common::interpreter::Packet {
        direction: Direction::Inbound,
        eni: eni_id(),
        encapsulation: kind,
        vni: key,
        outer_source: ip(host),
        source_mac: REMOTE_MAC,
        overlay: Headers {
            source: VIP,
            destination: VIP,
            ports: None,
            protocol: 0,
        },
    };
    encapsulated(&arrival, inner)[HEADROOM..].to_vec()
}

/// As balancers send them about packets that leave in a tunnel.
pub fn told(inner: &[u8]) -> Vec<u8> {
    redirect_from(MUX, Encapsulation::Nvgre, PRIVATE_KEY, inner)
}

/// The same about those that leave without one.
fn told_public(inner: &[u8]) -> Vec<u8> {
    redirect_from(MUX, Encapsulation::Nvgre, PUBLIC_KEY, inner)
}

/// An ENI also trusts keys.
fn trusting(mut objects: Objects, keys: &[u32]) -> Objects {
    let eni = objects.enis.get_mut("eni").expect("there");
    let listed = keys.iter().map(|key| Range::one(vni(*key)));
    eni.trusted_vnis = eni.trusted_vnis.iter().copied().chain(listed).collect();
    objects
}

/// Whose configuration lists the keys of redirects.
pub fn balanced() -> Objects {
    trusting(peers(), &[PUBLIC_KEY, PRIVATE_KEY, TOLD_KEY])
}

/// One in which nothing is listed, so that all is trusted.
fn unlisted() -> Objects {
    let mut objects = peers();
    objects.enis.get_mut("eni").expect("there").trusted_vnis = [].into();
    objects.appliance.as_mut().expect("there").trusted_vnis = [].into();
    objects
}

/// An inbound rule for a key.
fn rule(key: u32, source: &str, action: InboundAction) -> (RouteRuleKey, RouteRule) {
    let key = RouteRuleKey {
        eni: eni_id(),
        vni: vni(key),
        source: prefix(source),
        priority: Some(1),
    };
    let rule = RouteRule {
        priority: 1,
        action,
        protocol: None,
        vnet: None,
        pa_validation: None,
        metering: MeterBits::default(),
        region: None,
    };
    (key, rule)
}

pub fn syn() -> Vec<u8> {
    from_vm(tcp((VM_CA, 1), ("10.2.0.8", 2), flags::SYN))
}

pub fn ack() -> Vec<u8> {
    from_vm(tcp((VM_CA, 1), ("10.2.0.8", 2), flags::ACK))
}

fn public(tcp_flags: u8) -> Vec<u8> {
    from_vm(tcp((VM_CA, 1), ("30.0.0.5", 443), tcp_flags))
}

/// The way of a packet that leaves in one tunnel: its kind, key, source and destination, and the inner
/// destination MAC address.
fn way(sent: &Sent) -> (Encapsulation, u32, Address, Address, MacAddress) {
    let [(kind, key, source, destination, _)] = sent.layers[..] else {
        panic!("{} tunnels", sent.layers.len());
    };
    (kind, key, source, destination, sent.macs()[1])
}

fn straight(kind: Encapsulation, key: u32) -> (Encapsulation, u32, Address, Address, MacAddress) {
    (kind, key, VIP, ip(HOST), MACHINE_MAC)
}

pub fn change_mapping(bench: &mut Bench, host: &str) {
    let (vnet, address) = (VnetName::from("Vnet2"), ip("10.2.0.8"));
    let mapping = bench.objects.mappings.get_mut(&(vnet.clone(), address));
    mapping.expect("there").underlay_ip = ip(host);
    let key = Key::VnetMapping(VnetMappingKey { vnet, address });
    bench.dpu.update(&bench.objects, &[key]);
}

/// Tunnel and key stay, whatever the redirect says of them; host and MAC address are the machine's.
#[test]
fn a_connection_goes_straight_to_its_machine() {
    for (encap_type, encap_id) in [(NVGRE, TOLD_KEY), (VXLAN, 4242), (IP_IN_IP, 0)] {
        let mut bench = Bench::of(balanced());
        let first = bench.send(&syn()).expect("sent");
        assert_eq!(first.layers[0].3, ip(BALANCER));
        let frame = told(&redirect(&first, &info(encap_type, encap_id, HOST)));
        let last = bench.dpu.story(&frame, bench.now).pop().expect("a note");
        let moves = "moves its connection, and goes no further (redirect)";
        assert_eq!(last.action, moves);
        for _ in 0..2 {
            assert_eq!(bench.send(&frame), Err(Reason::Redirect));
            let sent = bench.send(&ack()).expect("sent");
            assert_eq!(way(&sent), straight(Encapsulation::Vxlan, 3000));
        }
        assert_eq!(bench.counters().flows_redirected, 2);
        // Answers come from the machine, and from the balancer.
        let answer = tcp(("10.2.0.8", 2), (VM_CA, 1), flags::SYN | flags::ACK);
        for host in [HOST, BALANCER] {
            let back = bench.send(&from_peer(host, answer));
            assert_eq!(back.expect("an answer").layers[0].3, ip(VM_PA));
        }
        // The balancer itself may tell another machine.
        let again = redirect(&first, &info(NVGRE, TOLD_KEY, "100.0.0.78"));
        assert_eq!(bench.send(&told(&again)), Err(Reason::Redirect));
        let sent = bench.send(&ack()).expect("sent");
        assert_eq!(sent.layers[0].3, ip("100.0.0.78"));
    }
}

/// Its packets get the tunnel that the redirect tells, from the address that they left with before.
#[test]
fn a_connection_without_a_tunnel_gets_one() {
    for (encap_type, kind) in [(NVGRE, Encapsulation::Nvgre), (VXLAN, Encapsulation::Vxlan)] {
        let mut bench = Bench::of(balanced());
        let first = bench.send(&public(flags::SYN)).expect("sent");
        assert_eq!(first.layers, []);
        for (host, key) in [(HOST, TOLD_KEY), ("100.0.0.78", PRIVATE_KEY)] {
            let inner = redirect(&first, &info(encap_type, key, host));
            assert_eq!(bench.send(&told_public(&inner)), Err(Reason::Redirect));
            let sent = bench.send(&public(flags::ACK)).expect("sent");
            assert_eq!(way(&sent), (kind, key, ip(VM_CA), ip(host), MACHINE_MAC));
            assert_eq!(sent.headers(), first.headers());
            let answer = tcp(("30.0.0.5", 443), (VM_CA, 1), flags::ACK);
            let macs = [REMOTE_MAC, ENI_MAC];
            let back = bench.send(&inside(kind, key, host, macs, answer));
            assert_eq!(back.expect("an answer").layers[0].3, ip(VM_PA));
        }
        assert_eq!(bench.counters().flows_redirected, 2);
    }
    // There is no IP in IP, and no key leads to a tenant or to what is not trusted.
    let mut bench = Bench::of(balanced());
    let first = bench.send(&public(flags::SYN)).expect("sent");
    for (encap_type, key, refused) in [
        (IP_IN_IP, TOLD_KEY, Reason::Unsupported),
        (NVGRE, 3000, Reason::UntrustedVni),
        (NVGRE, 257, Reason::UntrustedVni),
    ] {
        let inner = redirect(&first, &info(encap_type, key, HOST));
        assert_eq!(bench.send(&told_public(&inner)), Err(refused), "{key}");
    }
    let sent = bench.send(&public(flags::ACK)).expect("sent");
    assert_eq!(sent.layers, []);
}

#[test]
fn a_private_link_connection_is_moved_by_its_ipv6_packets() {
    let mut bench = Bench::of(trusting(private_link(), &[PRIVATE_KEY]));
    let open = from_vm(tcp((VM_CA, 6789), (PE_CA, 4567), flags::SYN));
    let first = bench.send(&open).expect("sent");
    let inner = redirect(&first, &info(NVGRE, 0xabcd, HOST));
    assert_eq!(bench.send(&told(&inner)), Err(Reason::Redirect));
    let more = from_vm(tcp((VM_CA, 6789), (PE_CA, 4567), flags::ACK));
    let sent = bench.send(&more).expect("sent");
    assert_eq!(way(&sent), straight(Encapsulation::Nvgre, ENCAP_VNI));
    assert_eq!(sent.headers(), first.headers());
}

/// The document sends redirects to both ends: what a machine answers is moved as what it asks is.
#[test]
fn a_connection_that_a_peer_has_opened_is_moved_too() {
    let mut bench = Bench::of(balanced());
    let opening = tcp(("10.2.0.8", 2), (VM_CA, 1), flags::SYN);
    bench.send(&from_peer(BALANCER, opening)).expect("let in");
    let first = bench.send(&ack()).expect("sent");
    assert_eq!(first.layers[0].3, ip(BALANCER));
    let frame = told(&redirect(&first, &details()));
    assert_eq!(bench.send(&frame), Err(Reason::Redirect));
    let sent = bench.send(&ack()).expect("sent");
    assert_eq!(way(&sent), straight(Encapsulation::Vxlan, 3000));
    let more = tcp(("10.2.0.8", 2), (VM_CA, 1), flags::ACK);
    let back = bench.send(&from_peer(HOST, more)).expect("let in");
    assert_eq!(back.layers[0].3, ip(VM_PA));
}

/// "The flow will not be resimulated by any type of flow resimulation request anymore."
#[test]
fn a_connection_that_was_moved_stays_where_it_is() {
    let mut bench = Bench::of(balanced());
    let first = bench.send(&syn()).expect("sent");
    let frame = told(&redirect(&first, &details()));
    assert_eq!(bench.send(&frame), Err(Reason::Redirect));
    let stays = |bench: &mut Bench| {
        let sent = bench.send(&ack()).expect("sent");
        assert_eq!(way(&sent), straight(Encapsulation::Vxlan, 3000));
    };
    stays(&mut bench);
    change_mapping(&mut bench, "100.0.0.9");
    stays(&mut bench);
    // A new connection goes where policies say now.
    let other = from_vm(tcp((VM_CA, 9), ("10.2.0.8", 2), flags::SYN));
    let sent = bench.send(&other).expect("sent");
    assert_eq!(sent.layers[0].3, ip("100.0.0.9"));
    let (vnet, address) = (VnetName::from("Vnet2"), ip("10.2.0.8"));
    bench.objects.mappings.remove(&(vnet.clone(), address));
    let gone = Key::VnetMapping(VnetMappingKey { vnet, address });
    bench.dpu.update(&bench.objects, &[gone]);
    stays(&mut bench);
    bench.objects.eni_routes.clear();
    let unbound = Key::EniRoute(eni_id());
    bench.dpu.update(&bench.objects, &[unbound]);
    assert_eq!(bench.send(&other), Err(Reason::RouteGroupMiss));
    stays(&mut bench);
    assert_eq!(bench.counters().flows_resimulated, 0);
}

/// Only its way is not asked about again: who may speak to whom is, whichever end has opened it.
#[test]
fn access_lists_end_a_connection_that_was_moved() {
    let opening = tcp(("10.2.0.8", 2), (VM_CA, 1), flags::SYN);
    let more = tcp(("10.2.0.8", 2), (VM_CA, 1), flags::ACK);
    for (direction, opening, more, refused) in [
        (Direction::Outbound, syn(), ack(), Reason::AclOutbound),
        (
            Direction::Inbound,
            from_peer(BALANCER, opening),
            from_peer(HOST, more),
            Reason::AclInbound,
        ),
    ] {
        let mut bench = Bench::of(balanced());
        bench.send(&opening).expect("opened");
        let sent = bench.send(&ack()).expect("sent");
        let frame = told(&redirect(&sent, &details()));
        assert_eq!(bench.send(&frame), Err(Reason::Redirect));
        bench.send(&more).expect("moved");
        bind_list_that_allows_nothing(&mut bench, direction);
        assert_eq!(bench.send(&more), Err(refused));
        assert_eq!(bench.dpu.flow_count(), 0);
    }
}

fn bind_list_that_allows_nothing(bench: &mut Bench, direction: Direction) {
    let (stage, group) = (AclStage::new(1).expect("1 to 5"), AclGroupId::from("none"));
    let list = AclGroup {
        ip_version: IpVersion::V4,
        guid: None,
    };
    let groups = &mut bench.objects.acl_groups;
    groups.insert(group.clone(), (list, Default::default()));
    let binding = AclBinding {
        v4: Some(group),
        v6: None,
    };
    let place = (eni_id(), direction, stage);
    bench.objects.bindings.insert(place, binding);
    let all = bench.objects.keys();
    bench.dpu.update(&bench.objects, &all);
}

/// A redirect is one by the tunnel that it comes in.
#[test]
fn redirects_come_with_the_keys_that_are_theirs() {
    let mut bench = Bench::of(trusting(balanced(), &[999]));
    let private = bench.send(&syn()).expect("sent");
    let public = bench.send(&public(flags::SYN)).expect("sent");
    for (kind, key, about) in [
        (Encapsulation::Vxlan, 3000, &private),
        (Encapsulation::Nvgre, 3000, &private),
        (Encapsulation::Nvgre, 999, &private),
        (Encapsulation::Vxlan, PRIVATE_KEY, &private),
        (Encapsulation::Nvgre, PUBLIC_KEY, &private),
        (Encapsulation::Nvgre, PRIVATE_KEY, &public),
        (Encapsulation::Vxlan, PUBLIC_KEY, &public),
    ] {
        let frame = redirect_from(BALANCER, kind, key, &redirect(about, &details()));
        let told = bench.dpu.story(&frame, bench.now).pop().expect("a note");
        let why = "it does not come in NVGRE with the key of redirects about such connections";
        assert_eq!(told.action, format!("dropped (flow_vni_mismatch): {why}"));
        assert_eq!(bench.send(&frame), Err(Reason::FlowVni), "{key}");
    }
    assert_eq!(bench.counters().flows_redirected, 0);
}

#[test]
fn a_redirect_is_whole_and_about_a_connection() {
    let mut bench = Bench::of(balanced());
    let first = bench.send(&syn()).expect("sent");
    let inner = redirect(&first, &details());
    let mut other = first.inner.clone();
    let at = usize::from(first.layout.l4);
    other[at + 1] ^= 1;
    let other = Sent {
        layers: Vec::new(),
        inner: other,
        layout: first.layout,
    };
    let of_none = told(&redirect(&other, &details()));
    let story = bench.dpu.story(&of_none, bench.now).pop().expect("a note");
    let why = "it is about no connection of the machine";
    assert_eq!(story.action, format!("dropped (redirect): {why}"));
    assert_eq!(bench.send(&of_none), Err(Reason::Redirect));
    assert_eq!(bench.counters().redirects_of_none, 1);
    // Damaged ones are none: of each byte one bit, but for the sender on this link.
    for at in (0..6).chain(12..inner.len()) {
        let mut damaged = inner.clone();
        damaged[at] ^= 4;
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(&told(&damaged));
        treat(&mut bench.dpu, &mut buffer, bench.now);
    }
    assert_eq!(bench.counters().flows_redirected, 0);
    let sent = bench.send(&ack()).expect("sent");
    assert_eq!(sent.layers[0].3, ip(BALANCER));
    assert_eq!(bench.send(&told(&inner)), Err(Reason::Redirect));
    assert_eq!(bench.counters().flows_redirected, 1);
}

#[test]
fn an_eni_may_not_listen() {
    let mut objects = balanced();
    let eni = objects.enis.get_mut("eni").expect("there");
    eni.disable_fast_path_icmp_flow_redirection = true;
    let mut bench = Bench::of(objects);
    let first = bench.send(&syn()).expect("sent");
    let frame = told(&redirect(&first, &details()));
    // An error like others: the machine gets it.
    assert_eq!(bench.send(&frame).expect("sent").layers[0].3, ip(VM_PA));
    let sent = bench.send(&ack()).expect("sent");
    assert_eq!(sent.layers[0].3, ip(BALANCER));
    assert_eq!(bench.counters().redirects, 0);
}

/// Without a list all keys are trusted, but that is nobody's word for whoever sends with them: a
/// redirect comes from where packets are sent, or from whom an inbound rule for its key lets in.
#[test]
fn where_no_key_is_listed_a_redirect_is_let_in() {
    let mut bench = Bench::of(unlisted());
    let first = bench.send(&syn()).expect("sent");
    let other = bench.send(&public(flags::SYN)).expect("sent");
    let inner = redirect(&first, &details());
    assert_eq!(bench.send(&told(&inner)), Err(Reason::InboundRouteMiss));
    let inner_public = redirect(&other, &details());
    let refused = bench.send(&told_public(&inner_public));
    assert_eq!(refused, Err(Reason::InboundRouteMiss));
    let own = redirect_from(BALANCER, Encapsulation::Nvgre, PRIVATE_KEY, &inner);
    assert_eq!(bench.send(&own), Err(Reason::Redirect));
    let sent = bench.send(&ack()).expect("sent");
    assert_eq!(way(&sent), straight(Encapsulation::Vxlan, 3000));
    // By rules, for each of both keys.
    let mut objects = unlisted();
    for key in [PUBLIC_KEY, PRIVATE_KEY] {
        let rules = &mut objects.route_rules;
        rules.push(rule(key, "50.0.0.0/24", InboundAction::Decap));
    }
    let mut bench = Bench::of(objects);
    bench.send(&syn()).expect("sent");
    bench.send(&public(flags::SYN)).expect("sent");
    assert_eq!(bench.send(&told(&inner)), Err(Reason::Redirect));
    let refused = bench.send(&told_public(&inner_public));
    assert_eq!(refused, Err(Reason::Redirect));
    assert_eq!(bench.counters().flows_redirected, 2);
    let stranger = redirect_from("50.0.1.1", Encapsulation::Nvgre, PRIVATE_KEY, &inner);
    assert_eq!(bench.send(&stranger), Err(Reason::InboundRouteMiss));
}

/// Whoever lists a key says that balancers alone send with it; inbound rules for the key narrow that.
#[test]
fn where_keys_are_listed_rules_say_who_sends_redirects() {
    let first = Bench::of(peers()).send(&syn()).expect("sent");
    let inner = redirect(&first, &details());
    let outcome = |objects: Objects| {
        let mut bench = Bench::of(objects);
        bench.send(&syn()).expect("sent");
        let outcome = bench.send(&told(&inner)).expect_err("none gets it");
        (outcome, bench.counters().flows_redirected)
    };
    assert_eq!(outcome(peers()), (Reason::UntrustedVni, 0));
    assert_eq!(outcome(balanced()), (Reason::Redirect, 1));
    for (source, action, expected) in [
        ("50.0.0.0/24", InboundAction::Decap, (Reason::Redirect, 1)),
        (
            "51.0.0.0/24",
            InboundAction::Decap,
            (Reason::InboundRouteMiss, 0),
        ),
        (
            "50.0.0.0/24",
            InboundAction::Drop,
            (Reason::InboundRouteDrop, 0),
        ),
    ] {
        let mut objects = balanced();
        objects.route_rules.push(rule(PRIVATE_KEY, source, action));
        assert_eq!(outcome(objects), expected);
    }
    // It is a tenant's: listed or not, it says nothing about its senders.
    let mut objects = balanced();
    let mut tenant = objects.vnets["Vnet1"].clone();
    tenant.vni = vni(PRIVATE_KEY);
    objects.vnets.insert("Vnet3".into(), tenant);
    assert_eq!(outcome(objects), (Reason::InboundRouteMiss, 0));
}

/// Tenants who make a redirect about another's connection do not get it out, whichever way they try.
#[test]
fn machines_send_no_redirects() {
    for listens in [true, false] {
        let mut objects = balanced();
        let eni = objects.enis.get_mut("eni").expect("there");
        eni.disable_fast_path_icmp_flow_redirection = !listens;
        let mut bench = Bench::of(objects);
        let first = bench.send(&syn()).expect("sent");
        // What it quotes is the machine's own connection, so that an error about it would pass.
        let answer = from_peer(
            BALANCER,
            tcp(("10.2.0.8", 2), (VM_CA, 1), flags::SYN | flags::ACK),
        );
        let back = bench.send(&answer).expect("an answer");
        for about in [&first, &back] {
            let mut inner = redirect(about, &details());
            inner[..12].copy_from_slice(&[REMOTE_MAC.0, ENI_MAC.0].concat());
            let mut frame = from_vm(udp((VM_CA, 1), ("10.2.0.8", 2)));
            let outer = dissect(&frame).expect("sound");
            let at = Tunnel::read(&frame, &outer, VXLAN_PORT).expect("a tunnel");
            frame.truncate(at.inner().start);
            frame.extend_from_slice(&inner);
            let lengths = [(16, frame.len() - 14), (38, frame.len() - 34)];
            for (place, bytes) in lengths {
                frame[place..place + 2].copy_from_slice(&(bytes as u16).to_be_bytes());
            }
            frame[24..26].fill(0);
            let sum = checksum::checksum(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            let told = bench.dpu.story(&frame, bench.now).pop().expect("a note");
            let why = "a machine sent it, and tenants are no load balancers";
            assert_eq!(told.action, format!("dropped (forged_redirect): {why}"));
            assert_eq!(bench.send(&frame), Err(Reason::ForgedRedirect));
        }
    }
}

#[test]
fn a_redirect_leads_to_one_host_that_is_not_the_dpu() {
    let mut bench = Bench::of(balanced());
    let first = bench.send(&syn()).expect("sent");
    let sound = details();
    let with = |at: usize, octets: &[u8]| {
        let mut details = sound.clone();
        details[at..at + octets.len()].copy_from_slice(octets);
        told(&redirect(&first, &details))
    };
    let (host_at, mac_at) = (12, 16);
    for (at, octets) in [
        (host_at, VIP.octets4().to_vec()),
        (host_at, vec![224, 0, 0, 5]),
        (host_at, vec![255; 4]),
        (host_at, vec![0; 4]),
        (mac_at, vec![255; 6]),
        (mac_at, vec![1, 0, 0x5e, 0, 0, 1]),
        (mac_at, vec![0; 6]),
    ] {
        let story = bench.dpu.story(&with(at, &octets), bench.now).pop();
        let why = "it leads to no one host and machine, or back to where packets come from";
        let expected = format!("dropped (forged_redirect): {why}");
        assert_eq!(story.expect("a note").action, expected, "{octets:?}");
        let refused = bench.send(&with(at, &octets));
        assert_eq!(refused, Err(Reason::ForgedRedirect), "{octets:?}");
    }
    assert_eq!(bench.counters().flows_redirected, 0);
    assert_eq!(bench.send(&with(0, &[])), Err(Reason::Redirect));
    assert_eq!(bench.counters().flows_redirected, 1);
}
