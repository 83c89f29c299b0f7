"""Vectors of networks: routes, mappings, inbound rules, limits of what gets in, metering."""
from scapy.all import Ether, raw

from common import *


def vnet():
    peer, peer6 = ("10.2.0.8", "fd02::8")
    config = base() + [
        route("10.2.0.0/16"), route("fd02::/64"),
        mapping(peer, "100.0.0.8", mac_address=REMOTE_MAC), mapping(peer6, "100.0.0.8", mac_address=REMOTE_MAC),
    ]
    sent, sent6 = udp(VM_CA, peer, macs=(ENI_MAC, VM_MAC)), udp(VM_CA6, peer6, macs=(ENI_MAC, VM_MAC))
    left = lambda inner: to_host("100.0.0.8", 1001, inner)
    back = lambda inner: vxlan("100.0.0.8", VIP, 1001, inner)
    answer, answer6 = udp(peer, VM_CA, (4567, 6789), (REMOTE_MAC, ENI_MAC)), udp(peer6, VM_CA6, (4567, 6789), (REMOTE_MAC, ENI_MAC))
    stray = udp(peer, VM_CA, (1, 2), (REMOTE_MAC, ENI_MAC))
    Vector("vnet", "Outbound by a route and a mapping, IPv4 and IPv6; answers by the flow; others have no inbound rule.").step(
        config,
        (from_vm(sent), left(udp(VM_CA, peer))),
        (from_vm(sent6), left(udp(VM_CA6, peer6))),
        (back(answer), to_vm(answer)),
        (back(answer6), to_vm(answer6)),
        (back(stray), None),
        (from_vm(udp(VM_CA, "10.2.0.9")), None),
        (from_vm(udp(VM_CA, "10.9.0.9")), None),
    ).counters(drops={"inbound_route_miss": 1, "mapping_miss": 1, "route_miss": 1})


def routes():
    config = base() + [
        item("ROUTING_TYPE", "vnet_direct", items=[{"action_name": "a", "action_type": "maprouting"}]),
        item("ROUTING_TYPE", "direct", items=[{"action_name": "a", "action_type": "direct"}]),
        item("ROUTING_TYPE", "drop", items=[{"action_name": "a", "action_type": "drop"}]),
        route("10.1.0.0/16"), route("10.1.0.0/24", "vnet_direct", vnet="Vnet1", overlay_ip="10.0.0.6"),
        route("10.2.5.0/24", "drop"), route("10.3.0.0/16", vnet="Vnet2"), route("10.3.1.0/24", vnet="Vnet2"),
        mapping("10.0.0.6", "100.1.2.6", mac_address=REMOTE_MAC), mapping("10.1.1.1", "101.1.2.3", mac_address=REMOTE_MAC),
        mapping("10.3.0.1", "102.1.2.3", "Vnet2", mac_address=REMOTE_MAC, use_dst_vni="true"),
        mapping("10.3.1.1", "102.1.2.4", "Vnet2", mac_address=REMOTE_MAC, use_dst_vni="false"),
        route("fd10::/32"), route("fd10:0:1::/48", "vnet_direct", vnet="Vnet1", overlay_ip="fd00::6"),
        route("fd10:0:2::/48", "drop"), route("fd10:0:3::/48", vnet="Vnet2"), route("fd10:0:3:1::/64", vnet="Vnet2"),
        mapping("fd00::6", "100.1.2.6", mac_address=REMOTE_MAC), mapping("fd10::1", "101.1.2.3", mac_address=REMOTE_MAC),
        mapping("fd10:0:3::1", "102.1.2.3", "Vnet2", mac_address=REMOTE_MAC, use_dst_vni="true"),
        mapping("fd10:0:3:1::1", "102.1.2.4", "Vnet2", mac_address=REMOTE_MAC, use_dst_vni="false"),
    ]
    packet = lambda destination: udp(VM_CA6 if ":" in destination else VM_CA, destination)
    Vector("routes", "The longest prefix; vnet, vnet_direct, drop; a peer's VNI or one's own.").step(
        config,
        (from_vm(packet("10.1.1.1")), to_host("101.1.2.3", 1001, packet("10.1.1.1"))),
        (from_vm(packet("10.1.0.1")), to_host("100.1.2.6", 1001, packet("10.1.0.1"))),
        (from_vm(packet("10.2.5.1")), None),
        (from_vm(packet("10.3.0.1")), to_host("102.1.2.3", 1002, packet("10.3.0.1"))),
        (from_vm(packet("10.3.1.1")), to_host("102.1.2.4", 1001, packet("10.3.1.1"))),
        (from_vm(packet("fd10::1")), to_host("101.1.2.3", 1001, packet("fd10::1"))),
        (from_vm(packet("fd10:0:1::1")), to_host("100.1.2.6", 1001, packet("fd10:0:1::1"))),
        (from_vm(packet("fd10:0:2::1")), None),
        (from_vm(packet("fd10:0:3::1")), to_host("102.1.2.3", 1002, packet("fd10:0:3::1"))),
        (from_vm(packet("fd10:0:3:1::1")), to_host("102.1.2.4", 1001, packet("fd10:0:3:1::1"))),
    ).counters(drops={"route_drop": 2})


def inbound():
    config = base() + [
        mapping("10.2.0.8", "100.0.0.8", "Vnet2"), mapping("fd02::8", "100.0.0.8", "Vnet2"),
        item("PA_VALIDATION", "1002", prefixes="100.0.1.0/24"),
        rule(1002, "100.0.0.0/16", vnet="Vnet2", pa_validation="true", priority=2),
        rule(1002, "100.0.2.0/24", action_type="drop", priority=1),
        rule(1003, "0.0.0.0/0"),
    ]
    steps = []
    for own, peer in ((VM_CA, "10.2.0.8"), (VM_CA6, "fd02::8")):
        packet = lambda port: udp(peer, own, (port, 2), (REMOTE_MAC, ENI_MAC))
        came = lambda host, vni, port: vxlan(host, VIP, vni, packet(port))
        left = lambda port: to_vm(packet(port))
        answer, turned = (udp(own, peer, (2, 1), (ENI_MAC, mac)) for mac in (VM_MAC, REMOTE_MAC))
        steps += [
            (came("100.0.0.8", 1002, 1), left(1)), (came("100.0.1.77", 1002, 2), left(2)),
            (came("100.0.0.9", 1002, 3), None), (came("100.0.2.8", 1002, 4), None), (came("100.0.0.8", 1004, 5), None),
            (came("99.9.9.9", 1003, 6), left(6)),
            (from_vm(answer), vxlan(VIP, "100.0.0.8", 1002, turned, out=True)),
        ]
    Vector("inbound", "Inbound rules by priority, validation of physical addresses, answers to where the question came from.").step(
        config, *steps
    ).counters(drops={"pa_validation": 2, "inbound_route_drop": 2, "inbound_route_miss": 2})


def mid_connection():
    peers = ((VM_CA, "10.2.0.8"), (VM_CA6, "fd02::8"))
    config = base() + [route("10.2.0.0/16"), route("fd02::/64")]
    config += [mapping(peer, "100.0.0.8", mac_address=REMOTE_MAC) for _, peer in peers]
    steps = [[], [], []]
    for own, peer in peers:
        first, more = tcp(own, peer, "S"), tcp(own, peer, "A")
        answer = tcp(peer, own, "SA", (4567, 6789), (REMOTE_MAC, ENI_MAC))
        stray = tcp(own, peer, "A", (1, 2))
        at = lambda host, packet: (from_vm(packet), to_host(host, 1001, packet))
        back = lambda host: vxlan(host, VIP, 1001, answer)
        steps[0] += [(from_vm(stray), None), at("100.0.0.8", first), (back("100.0.0.8"), to_vm(answer)), at("100.0.0.8", more)]
        steps[1] += [at("100.0.0.9", more), (back("100.0.0.9"), to_vm(answer))]
        steps[2] += [(from_vm(more), None), (back("100.0.0.9"), None)]
    moved = [mapping(peer, "100.0.0.9", mac_address=REMOTE_MAC) for _, peer in peers]
    away = [gone("ROUTE", "group1:10.2.0.0/16"), gone("ROUTE", "group1:fd02::/64")]
    Vector("mid_connection", "A machine moves while a connection is open; one that is not open has no segments but the first.").step(
        config, *steps[0]
    ).step(moved, *steps[1]).step(away, *steps[2]).counters(drops={"tcp_without_flow": 4, "route_miss": 2})


def metering():
    config = base(eni={"v4_meter_policy_id": "policy1", "v6_meter_policy_id": "policy6"}) + [
        item("METER_POLICY", "policy1", ip_version="ipv4"), item("METER_POLICY", "policy6", ip_version="ipv6"),
        item("METER_RULE", "policy6:1", priority="10", ip_prefix="fd02::/64", metering_class=612),
        item("METER_RULE", "policy6:2", priority="20", ip_prefix="fd02::7/128", metering_class=620),
        item("METER_RULE", "policy6:3", priority="5", ip_prefix="fd02::6/128", metering_class=621),
        route("fd02::/64"), route("fd02:1::/64", metering_class_or="2566", metering_class_and="4088", vnet="Vnet1"),
        mapping("fd02::7", "100.0.0.8"), mapping("fd02::6", "100.0.0.8"), mapping("fd02:1::7", "100.0.0.8", metering_class_or="1038"),
        item("METER_RULE", "policy1:1", priority="10", ip_prefix="10.2.0.0/16", metering_class=512),
        item("METER_RULE", "policy1:2", priority="20", ip_prefix="10.2.0.7/32", metering_class=520),
        item("METER_RULE", "policy1:3", priority="5", ip_prefix="10.2.0.6/32", metering_class=521),
        route("10.2.0.0/16"), route("10.2.1.0/24", metering_class_or="2566", vnet="Vnet1"),
        route("10.2.2.0/24", metering_class_or="2566", metering_class_and="4080", vnet="Vnet1"),
        mapping("10.2.0.7", "100.0.0.8"), mapping("10.2.0.6", "100.0.0.8"),
        mapping("10.2.1.7", "100.0.0.8", metering_class_or="1038"), mapping("10.2.2.7", "100.0.0.8", metering_class_or="1038"),
    ]
    left = lambda inner: to_host("100.0.0.8", 1001, inner)
    packet = lambda destination: udp(VM_CA6 if ":" in destination else VM_CA, destination)
    ends = ("10.2.0.7", "10.2.0.6", "10.2.1.7", "10.2.2.7", "fd02::7", "fd02::6", "fd02:1::7")
    # Answers are the same flow's, and of its class.
    answer, answer6 = (udp(peer, own, (4567, 6789), (REMOTE_MAC, ENI_MAC), b"") for own, peer in ((VM_CA, "10.2.0.7"), (VM_CA6, "fd02::7")))
    back = lambda inner: (vxlan("100.0.0.8", VIP, 1001, inner), to_vm(inner))
    v4, v6 = len(raw(packet("10.2.0.7"))), len(raw(packet("fd02::7")))
    Vector("metering", "Classes by policy, by route and mapping, and by masks; answers; IPv4 and IPv6.").step(
        config, *((from_vm(packet(to)), left(packet(to))) for to in ends), back(answer), back(answer6),
    ).counters(meters={
        "512": [v4, len(raw(answer))], "521": [v4, 0], "3598": [v4, 0], "3584": [v4, 0],
        "612": [v6, len(raw(answer6))], "621": [v6, 0], str((2566 | 1038) & 4088): [v6, 0],
    })


def trusted():
    config = base(eni={"trusted_vnis_list": ["800", [900, 910]]}, appliance={"trusted_vnis_list": [100]}) + [
        rule(vni, "0.0.0.0/0") for vni in (100, 800, 905, 911)
    ]
    packets = [lambda vni, ends=ends: udp(*ends, (vni, 2), (REMOTE_MAC, ENI_MAC)) for ends in (("10.2.0.8", VM_CA), ("fd02::8", VM_CA6))]
    came = lambda vni, packet: vxlan("100.0.0.8", VIP, vni, packet(vni))
    Vector("trusted_vni", "VNIs of the appliance's list and of the ENI's, single and ranges.").step(
        config, *((came(vni, packet), to_vm(packet(vni))) for vni in (100, 800, 905) for packet in packets),
        *((came(911, packet), None) for packet in packets),
    ).counters(drops={"untrusted_vni": 2})


def admission():
    peers = ((VM_CA, "10.2.0.8"), (VM_CA6, "fd02::8"))
    eni = lambda state: base(eni={"qos": "qos1", "admin_state": state})
    config = eni("enabled") + [item("QOS", "qos1", qos_id="qos1", bw=0, cps=0, flows=4), route("10.2.0.0/16"), route("fd02::/64")]
    config += [mapping(peer, "100.0.0.8", mac_address=REMOTE_MAC) for _, peer in peers]
    packet = lambda ends, port: udp(*ends, (port, 2))
    passes = lambda ends, port: (from_vm(packet(ends, port)), to_host("100.0.0.8", 1001, packet(ends, port)))
    fails = lambda ends, port: (from_vm(packet(ends, port)), None)
    to_other = [(vxlan(VM_PA, "10.1.0.6", VM_VNI, packet(ends, 9)), None) for ends in peers]
    of_nobody = [(from_vm(udp(*ends, macs=(VM_MAC, REMOTE_MAC))), None) for ends in peers]
    spoofed = [(vxlan("25.1.1.2", VIP, VM_VNI, packet(ends, 9)), None) for ends in peers]
    by_nvgre = [(nvgre(VM_PA, VIP, VM_VNI, packet(ends, 1)), passes(ends, 1)[1]) for ends in peers]
    Vector("admission", "What gets in: to the appliance's address, from an ENI's MAC address and host, as many flows as its profile says; then it is disabled; then it is enabled, without a limit.").step(
        config, *to_other, *of_nobody, *spoofed, *by_nvgre,
        *(passes(ends, 2) for ends in peers), *(fails(ends, 3) for ends in peers), *(passes(ends, 1) for ends in peers),
    ).step(
        [line for line in eni("disabled") if "DASH_ENI_TABLE:eni1" in line], *(fails(ends, 1) for ends in peers),
    ).step(
        [item("QOS", "qos1", qos_id="qos1", bw=0, cps=0, flows=0)] + [line for line in eni("enabled") if "DASH_ENI_TABLE:eni1" in line],
        *(passes(ends, port) for ends in peers for port in (1, 3)),
    ).counters(drops={"spoofed_source": 2, "flow_limit": 2, "eni_disabled": 2})


def over_v6_inside():
    """The same in an underlay of IPv6: the appliance, the machine's host, the peers and the endpoint."""
    hosts, endpoint = ("2001:db8:64::8", "2001:db8:64::9", "2001:db8:65::8"), "2001:db8:66::3"
    eni = {"underlay_ip": VM_PA6, "pl_underlay_sip": VIP6}
    config = base(eni=eni, appliance={"sip": VIP6}) + private_link() + [
        route("fd02::/64"), route("10.3.0.0/16", tunnel="tunnel1"), item("TUNNEL", "tunnel1", endpoints=["2001:db8:70::1"], vni=200, encap_type="vxlan"),
        mapping("10.2.0.8", hosts[0], mac_address=REMOTE_MAC), mapping("fd02::8", hosts[0], mac_address=REMOTE_MAC),
        mapping("10.3.0.8", hosts[0], mac_address=REMOTE_MAC), mapping(PE_CA, endpoint, **PE),
        item("PA_VALIDATION", "1002", prefixes="2001:db8:65::/48"),
        rule(1002, "2001:db8:64::/47", vnet="Vnet2", pa_validation="true"),
    ]
    own = lambda inner: vxlan(VM_PA6, VIP6, VM_VNI, inner)
    out = lambda inner: vxlan(VIP6, VM_PA6, VM_VNI, inner, out=True)
    steps = []
    for machine, peer in ((VM_CA, "10.2.0.8"), (VM_CA6, "fd02::8")):
        sent, left = udp(machine, peer, macs=(ENI_MAC, VM_MAC)), udp(machine, peer)
        answer = udp(peer, machine, (4567, 6789), (REMOTE_MAC, ENI_MAC))
        question = lambda port: udp(peer, machine, (port, 2), (REMOTE_MAC, ENI_MAC))
        steps += [
            (own(sent), vxlan(VIP6, hosts[0], 1001, left, out=True)), (vxlan(hosts[0], VIP6, 1001, answer), out(answer)),
            (vxlan(hosts[2], VIP6, 1002, question(1)), out(question(1))), (vxlan(hosts[1], VIP6, 1002, question(2)), None),
            (vxlan(hosts[2], VIP6, 1004, question(3)), None),
            (vxlan("2001:db8:25::2", VIP6, VM_VNI, udp(machine, peer, (3, 3))), None),
        ]
    twice, linked = udp(VM_CA, "10.3.0.8"), udp(VM_CA, PE_CA)
    once = vxlan(VIP6, hosts[0], 1001, twice, out=True)
    back = udp(PE_DIP, PL_SIP, (4567, 6789), (REMOTE_MAC, ENI_MAC))
    back4 = Ether(src=REMOTE_MAC, dst=ENI_MAC) / IP(src=PE_CA, dst=VM_CA, id=0) / UDP(sport=4567, dport=6789) / Raw(b"sixteen bytes...")
    steps += [
        (own(twice), vxlan(VIP6, "2001:db8:70::1", 200, once, out=True)),
        (own(linked), nvgre(VIP6, endpoint, ENCAP_VNI, fresh(six(linked, PL_SIP, PE_DIP)), out=True)),
        (nvgre(endpoint, VIP6, ENCAP_VNI, back), out(back4)),
    ]
    Vector("over_v6", "An underlay of IPv6: networks with IPv4 and IPv6 inside, inbound rules, spoofed sources, two layers, Private Link.").step(
        config, *steps
    ).counters(drops={"pa_validation": 2, "inbound_route_miss": 2, "spoofed_source": 2})


ONCE = (mid_connection, metering, trusted, over_v6_inside, admission)
TWICE = (vnet, routes, inbound)
