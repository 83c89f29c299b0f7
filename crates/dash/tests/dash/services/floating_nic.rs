//! Floating NICs.

use super::bench::*;

#[test]
fn a_floating_nic_answers_by_its_routes() {
    let mut objects = private_link();
    objects
        .tunnels
        .insert("Tunnel1".into(), tunnel(&["40.40.40.40"], ENCAP_VNI));
    let mut back = route(RouteAction::Direct);
    back.tunnel = Some("Tunnel1".into());
    let routes = objects.route_groups.get_mut("group").expect("there");
    routes.push((prefix("10.0.0.0/16"), back));
    let eni = objects.enis.get_mut("eni").expect("there");
    eni.mode = EniMode::FloatingNic;
    eni.trusted_vnis = [Range::one(vni(800))].into();
    for (key, source) in [(800, "25.1.1.1/32"), (ENCAP_VNI, "101.1.2.3/32")] {
        let key = RouteRuleKey {
            eni: eni_id(),
            vni: vni(key),
            source: prefix(source),
            priority: None,
        };
        let rule = RouteRule {
            priority: 0,
            action: InboundAction::Decap,
            protocol: None,
            vnet: None,
            pa_validation: None,
            metering: MeterBits::default(),
            region: None,
        };
        objects.route_rules.push((key, rule));
    }
    let mut bench = Bench::of(objects);
    let packet = udp((VM_CA, 6789), (PE_CA, 4567));
    for kind in [Encapsulation::Vxlan, Encapsulation::Nvgre] {
        let frame = inside(kind, 800, VM_PA, [VM_MAC, ENI_MAC], packet);
        let sent = bench.send(&frame).expect("sent");
        assert_eq!(sent.layers[0].3, ip(PE_PA));
        assert_eq!(sent.headers().destination, ip(PL_DIP));
        assert_eq!(sent.macs()[0], ENI_MAC);
    }
    let answer = udp((PL_DIP, 4567), (PL_SIP, 6789));
    let answer = inside(
        Encapsulation::Nvgre,
        ENCAP_VNI,
        PE_PA,
        [REMOTE_MAC, ENI_MAC],
        answer,
    );
    let back = bench.send(&answer).expect("sent");
    let layer = (
        Encapsulation::Vxlan,
        ENCAP_VNI,
        VIP,
        ip("40.40.40.40"),
        0x28,
    );
    assert_eq!(back.layers, [layer]);
    assert_eq!(back.headers().destination, ip(VM_CA));
    assert_eq!(back.macs(), [ENI_MAC, VM_MAC]);
}
