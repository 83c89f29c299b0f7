//! What an ENI may at most.

use crate::bench::*;

#[test]
fn limits_are_kept_and_neighbours_untouched() {
    let mut objects = peers();
    let qos = Qos {
        qos_id: "qos".into(),
        bandwidth_kbps: 0,
        connections_per_second: 0,
        flows: 10,
    };
    objects.qos.insert("qos".into(), qos);
    objects.enis.get_mut("eni").expect("there").qos = Some("qos".into());
    let mut neighbour = objects.enis["eni"].clone();
    neighbour.mac_address = VM_MAC;
    neighbour.qos = None;
    objects.enis.insert("neighbour".into(), neighbour);
    objects
        .eni_routes
        .insert("neighbour".into(), "group".into());
    let mut bench = Bench::of(objects);
    let packet = |port| udp((VM_CA, port), ("10.2.0.8", 2));
    let refused =
        (0..100).filter(|&port| bench.send(&from_vm(packet(port))) == Err(Reason::FlowLimit));
    assert_eq!(refused.count(), 90);
    assert_eq!(bench.counters().drops.of(Reason::FlowLimit), 90);
    for port in 0..100 {
        let macs = [VM_MAC, REMOTE_MAC];
        let frame = inside(Encapsulation::Vxlan, VM_VNI, VM_PA, macs, packet(port));
        bench.send(&frame).expect("the neighbour has no limit");
    }
    bench.send(&from_vm(packet(3))).expect("known flows go on");
}

#[test]
fn rates_are_kept() {
    let mut objects = peers();
    let qos = Qos {
        qos_id: "qos".into(),
        bandwidth_kbps: 1000,
        connections_per_second: 100,
        flows: 0,
    };
    objects.qos.insert("qos".into(), qos);
    objects.enis.get_mut("eni").expect("there").qos = Some("qos".into());
    let mut bench = Bench::of(objects);
    let mut reasons = std::collections::BTreeMap::new();
    // A second at two hundred connections.
    for port in 0..200 {
        bench.now = Instant(bench.now.0 + 5_000_000);
        let result = bench.send(&from_vm(udp((VM_CA, port), ("10.2.0.8", 2))));
        *reasons.entry(result.err()).or_insert(0) += 1;
    }
    assert!((100..=112).contains(&reasons[&None]), "{reasons:?}");
    assert_eq!(reasons[&None] + reasons[&Some(Reason::ConnectionRate)], 200);
    // A megabit is 125,000 bytes a second; this frame has 58.
    let mut passed = 0;
    for _ in 0..10_000 {
        bench.now = Instant(bench.now.0 + 100_000);
        let packet = udp((VM_CA, 0), ("10.2.0.8", 2));
        passed += usize::from(bench.send(&from_vm(packet)).is_ok());
    }
    assert!((2150..2200).contains(&passed), "{passed}");
}

/// An ENI with a limit of connections per second, and packets to it that its access list refuses.
#[test]
fn what_policies_refuse_uses_no_limit_up() {
    let mut objects = peers();
    let qos = Qos {
        qos_id: "qos".into(),
        bandwidth_kbps: 0,
        connections_per_second: 10,
        flows: 0,
    };
    objects.qos.insert("qos".into(), qos);
    objects.enis.get_mut("eni").expect("there").qos = Some("qos".into());
    let mut bench = Bench::of(objects);
    // From a host that is none of the network's.
    for port in 0..1_000 {
        let frame = from_peer("100.0.0.99", udp(("10.2.0.8", port), (VM_CA, 2)));
        assert_eq!(bench.send(&frame), Err(Reason::PaValidation));
    }
    let own = from_vm(udp((VM_CA, 1), ("10.2.0.8", 2)));
    bench
        .send(&own)
        .expect("the machine's own connections open");
}
