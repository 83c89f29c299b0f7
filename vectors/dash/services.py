"""Vectors of services."""
from scapy.all import ICMP, IP, TCP, UDP, Ether, IPv6, Raw, raw
from scapy.layers.inet6 import ICMPv6EchoReply, ICMPv6EchoRequest

from common import *


def private_link_vector():
    """The outer source is the route's, or else the ENI's, or else the appliance's."""
    config = base() + private_link() + [
        mapping(PE_CA, PE_PA, metering_class_or="1586", mac_address=REMOTE_MAC, **PE), route("10.2.5.0/24", underlay_sip="56.1.2.3"), mapping("10.2.5.1", PE_PA, **PE),
        *second_eni(pl_sip_encoding="::d107:64:ff72:0:0/::ffff:ffff:ffff:0:0"), route("10.2.0.0/16", group="group2"),
    ]
    steps, own = [], (ENI_MAC, VM_MAC)
    for sent, left in ((udp(VM_CA, PE_CA, macs=own), udp(VM_CA, PE_CA)), (tcp(VM_CA, PE_CA, "S", macs=own), tcp(VM_CA, PE_CA, "S"))):
        steps.append((from_vm(sent), linked(PL_SIP, PE_DIP, left)))
    answer = udp(PE_DIP, PL_SIP, (4567, 6789), (REMOTE_MAC, ENI_MAC))
    steps.append((nvgre(PE_PA, VIP, ENCAP_VNI, answer), to_vm(unlinked(answer))))
    ping = Ether(src=ENI_MAC, dst=REMOTE_MAC) / IP(src=VM_CA, dst=PE_CA) / ICMP(id=7, seq=1) / Raw(b"echo")
    ping6 = Ether(src=ENI_MAC, dst=REMOTE_MAC) / IPv6(src=PL_SIP, dst=PE_DIP, hlim=64) / ICMPv6EchoRequest(id=7, seq=1, data=b"echo")
    steps.append((from_vm(ping), nvgre(PL_UNDERLAY, PE_PA, ENCAP_VNI, ping6, out=True)))
    by_route = udp(VM_CA, "10.2.5.1", (6791, 4567))
    steps.append((from_vm(by_route), linked(PL_SIP, PE_DIP, by_route, "56.1.2.3")))
    neighbour = udp(VM_CA, PE_CA, (6790, 4567), (ENI2_MAC, REMOTE_MAC))
    steps.append((from_vm(neighbour), linked(PL_SIP.replace("ff71", "ff72"), PE_DIP, neighbour, VIP)))
    answer = udp(PE_DIP, PL_SIP.replace("ff71", "ff72"), (4567, 6790), (REMOTE_MAC, ENI2_MAC))
    steps.append((nvgre(PE_PA, VIP, ENCAP_VNI, answer), to_vm(unlinked(answer))))
    Vector("private_link", "From IPv4 to IPv6 in NVGRE, and back; 96-bit masks; the outer source is the route's, the ENI's or the appliance's; metering as the machine sees it.").step(
        config, *steps
    ).counters(meters={"1586": [58 + 70 + 46, 58]}, enis={"eni2": {"meters": {"1586": [58, 58]}}})


def port_mapped():
    """A range goes to a backend, another one nowhere else, what is in none to the endpoint."""
    config = base() + private_link() + [
        item("OUTBOUND_PORT_MAP", "map1", guid="600c6ce8-26ab-4193-b946-ccc6e8f93001"),
        item("OUTBOUND_PORT_MAP_RANGE", "map1:8001-9000", action="map_private_link_service", backend_ip="60.60.60.1", backend_port_base=42001),
        item("OUTBOUND_PORT_MAP_RANGE", "map1:9100-9200", action="skip_mapping"),
        mapping(PE_CA, PE_PA, port_map="map1", **PE),
    ]
    return config, "2603:10e1:100:2::3c3c:3c01"


REDIRECTED = {8001: 42001, 8500: 42500, 9000: 43000}


def port_map():
    config, backend = port_mapped()
    steps = []
    for port in (8000, 8001, 8500, 9000, 9001, 9100, 9200):
        moved, far = REDIRECTED.get(port, port), port in REDIRECTED
        host, dip = ("60.60.60.1", backend) if far else (PE_PA, PE_DIP)
        sent, left = (tcp(VM_CA, PE_CA, "S", (12345, to)) for to in (port, moved))
        steps.append((from_vm(sent), linked(PL_SIP, dip, left, host=host)))
        answer = tcp(dip, PL_SIP, "SA", (moved, 12345), (REMOTE_MAC, ENI_MAC))
        back = unlinked(answer)
        back[TCP].sport = port
        steps.append((nvgre(host, VIP, ENCAP_VNI, answer), to_vm(fresh(back))))
        sent, left = (tcp(VM_CA, PE_CA, "A", (12345, to)) for to in (port, moved))
        steps.append((from_vm(sent), linked(PL_SIP, dip, left, host=host)))
    Vector("private_link_redirect", "Ports of a range go to a backend, those of another and of none to the endpoint; there and back.").step(config, *steps)


def port_map_must_match():
    """As the document on port maps has it: what is in no range is dropped."""
    config, backend = port_mapped()
    steps = []
    for port in (8001, 9100, 9300):
        sent, left = (udp(VM_CA, PE_CA, (12345, to)) for to in (port, REDIRECTED.get(port, port)))
        wanted = {8001: linked(PL_SIP, backend, left, host="60.60.60.1"), 9100: linked(PL_SIP, PE_DIP, left)}
        steps.append((from_vm(sent), wanted.get(port)))
    Vector("port_map_must_match", "Ports in no range of a port map are dropped.", settings={"port_map_must_match": True}).step(config, *steps).counters(
        drops={"port_range_miss": 1}, counters={"OUTBOUND_PORT_MAP_PORT_RANGE_ENTRY_MISS_DROP_PACKETS": 1},
    )


def security_group():
    endpoints = ["90.90.90.90", "10.10.10.10"]
    config = base() + private_link() + [
        item("TUNNEL", "tunnel4", endpoints=endpoints, vni=200, encap_type="vxlan"),
        mapping(PE_CA, PE_PA, tunnel="tunnel4", **PE),
    ]
    steps = []
    for port in range(40000, 40020):
        sent = udp(VM_CA, PE_CA, (port, 4567))
        steps.append((from_vm(sent), vxlan(VIP, endpoints[0], 200, linked(PL_SIP, PE_DIP, sent), out=True)))
    Vector("private_link_nsg", "A second tunnel around Private Link's, to one of two endpoints.", endpoints=endpoints, endpoints_all_used=True).step(config, *steps)


def security_group_answers():
    """Answers come straight from the endpoint."""
    config = base() + private_link() + [
        item("TUNNEL", "tunnel4", endpoints=["90.90.90.90"], vni=200, encap_type="vxlan"), mapping(PE_CA, PE_PA, tunnel="tunnel4", **PE),
    ]
    sent, answer = tcp(VM_CA, PE_CA, "S"), tcp(PE_DIP, PL_SIP, "SA", (4567, 6789), (REMOTE_MAC, ENI_MAC))
    around = lambda inner: vxlan(VIP, "90.90.90.90", 200, linked(PL_SIP, PE_DIP, inner), out=True)
    Vector("private_link_nsg_answers", "A second tunnel around Private Link's, and answers in one.").step(
        config, (from_vm(sent), around(sent)), (nvgre(PE_PA, VIP, ENCAP_VNI, answer), to_vm(unlinked(answer))), (from_vm(tcp(VM_CA, PE_CA, "A")), around(tcp(VM_CA, PE_CA, "A"))),
    )


def service_tunnel():
    prefixes = dict(
        overlay_sip="fd00:108:0:d204:0:200::0/ffff:ffff:ffff:ffff:ffff:ffff::", overlay_dip="2603:10e1:100:2::0/ffff:ffff:ffff:ffff:ffff:ffff::",
    )
    config = base() + [
        item("ROUTING_TYPE", "servicetunnel", items=[
            {"action_name": "a", "action_type": "4_to_6"},
            {"action_name": "b", "action_type": "staticencap", "encap_type": "nvgre", "vni": ENCAP_VNI},
        ]),
        route("50.0.0.0/8", "servicetunnel", underlay_sip="40.1.2.1", underlay_dip="25.3.3.3", **prefixes),
        route("52.0.0.0/8", "servicetunnel", underlay_dip="25.3.3.4", **prefixes),
    ]
    ends = [("50.1.2.1", "40.1.2.1", "25.3.3.3"), ("52.1.2.1", VIP, "25.3.3.4")]
    # The packet's own destination is IPv4's.
    if UNDERLAY["version"] == 4:
        config.append(route("51.0.0.0/8", "servicetunnel", **prefixes))
        ends.append(("51.1.2.1", VIP, "51.1.2.1"))
    steps = []
    for destination, source, host in ends:
        last = ipaddress.ip_address(destination).packed.hex()
        sip, dip = "fd00:108:0:d204:0:200:a00:b", f"2603:10e1:100:2::{last[:4]}:{last[4:]}"
        for flags in ("S", "A"):
            sent = tcp(VM_CA, destination, flags)
            steps.append((from_vm(sent), linked(sip, dip, sent, source, host)))
            answer = tcp(dip, sip, "SA", (4567, 6789), (REMOTE_MAC, ENI_MAC))
            steps.append((nvgre(host, VIP, ENCAP_VNI, answer), to_vm(unlinked(answer, destination))))
    Vector("service_tunnel", "From IPv4 to IPv6 by a route, and back; outer addresses of the route, or the packet's own.").step(config, *steps)


def floating_nic():
    config = base(eni={"eni_mode": "fnic", "trusted_vnis_list": ["800"]}, appliance={"trusted_vnis_list": [100], "outbound_direction_lookup": "dst_mac"}) + private_link() + [
        item("TUNNEL", "tunnel1", endpoints=["40.40.40.40"], vni=100, encap_type="vxlan"),
        item("ROUTING_TYPE", "direct", items=[{"action_name": "a", "action_type": "direct"}]),
        item("ROUTE", "group1:10.0.0.0/16", action_type="direct", tunnel="tunnel1"),
        mapping(PE_CA, PE_PA, **PE), rule(800, f"{VM_PA}/32"),
        item("ROUTE", "group1:fd01::/64", action_type="direct", tunnel="tunnel1"),
        route("fd02::/64"), mapping("fd02::8", "100.0.0.8", mac_address=REMOTE_MAC),
    ]
    sent6, left6 = udp(VM_CA6, "fd02::8", macs=(VM_MAC, ENI_MAC)), udp(VM_CA6, "fd02::8", macs=(ENI_MAC, REMOTE_MAC))
    answer6, back6 = (udp("fd02::8", VM_CA6, (4567, 6789), macs) for macs in ((REMOTE_MAC, ENI_MAC), (ENI_MAC, VM_MAC)))
    # What comes with the VNI of machines is outbound, too: the ENI is that of the destination, as the appliance says.
    steps = []
    for vni, port in ((800, 6789), (VM_VNI, 6790)):
        sent, left = (udp(VM_CA, PE_CA, (port, 4567), (source, ENI_MAC)) for source in (VM_MAC, ENI_MAC))
        answer = udp(PE_DIP, PL_SIP, (4567, port), (REMOTE_MAC, ENI_MAC))
        back = unlinked(answer)
        back.src, back.dst = ENI_MAC, VM_MAC
        steps += [
            (from_vm(sent, vni), linked(PL_SIP, PE_DIP, left)),
            (nvgre(PE_PA, VIP, ENCAP_VNI, answer), vxlan(VIP, "40.40.40.40", 100, back, out=True)),
        ]
    by_own = udp(VM_CA6, "fd02::8", (7, 7), (VM_MAC, ENI_MAC))
    steps += [
        (from_vm(sent6, 800), to_host("100.0.0.8", 1001, left6)),
        (from_host("100.0.0.8", 1001, answer6), vxlan(VIP, "40.40.40.40", 100, back6, out=True)),
        (from_vm(by_own), to_host("100.0.0.8", 1001, udp(VM_CA6, "fd02::8", (7, 7), (ENI_MAC, REMOTE_MAC)))),
        (from_vm(udp(VM_CA6, "fd02::8", (8, 8), (ENI_MAC, VM_MAC))), None),
        (vxlan("25.1.1.9", VIP, 800, udp(VM_CA6, "fd02::8", (9, 9), (VM_MAC, ENI_MAC))), None),
        (from_vm(udp(VM_CA6, "fd02::8", (9, 9), (VM_MAC, ENI_MAC)), 801), None),
    ]
    Vector("floating_nic", "Outbound packets that come as inbound ones do, or with the machines' VNI and the ENI's MAC address as their destination; answers by the route of the machine.").step(
        config, *steps,
    ).counters(drops={"inbound_route_miss": 1, "untrusted_vni": 1}, device={"drops": {"eni_miss": 1}})


def floating_nic_directions():
    """What a floating NIC's machine sends comes from its host, or with the VNI that the ENI lists for those that bring
    it ("After decap, the outbound pipeline is taken", of SONiC's schema): outbound lists are for it. All else comes from
    outside: inbound lists, the route of the machine's address, and no endpoint that is the machine's. Bytes that leave
    count before they are changed, those that come after it."""
    far, carrier = "100.0.0.50", "25.1.1.9"
    refuses = lambda port: (dict(priority=1, action="deny", terminating=True, dst_port=port), dict(priority=2, action="allow", terminating=True))
    config = base(eni={"eni_mode": "fnic", "trusted_vnis_list": ["800"]}, appliance={"trusted_vnis_list": [100]}) + private_link() + [
        item("TUNNEL", "tunnel1", endpoints=["40.40.40.40"], vni=100, encap_type="vxlan"),
        item("ROUTING_TYPE", "direct", items=[{"action_name": "a", "action_type": "direct"}]),
        item("ROUTE", "group1:10.0.0.0/16", action_type="direct", tunnel="tunnel1"),
        item("ROUTE", "group1:fd01::/64", action_type="direct", tunnel="tunnel1"), route("fd02::/64"),
        mapping(PE_CA, PE_PA, metering_class_or="1586", **PE),
        mapping("fd02::8", "100.0.0.8", mac_address=REMOTE_MAC, metering_class_or="7"),
        rule(800, f"{VM_PA}/32"), rule(800, f"{carrier}/32"), rule(100, "0.0.0.0/0"),
        *acl_group("in4", *refuses("22")), *acl_group("in6", *refuses("22"), version="ipv6"),
        *acl_group("out4", *refuses("23")), *acl_group("out6", *refuses("23"), version="ipv6"),
        item("ACL_IN", "eni1:1", v4_acl_group_id="in4", v6_acl_group_id="in6"),
        item("ACL_OUT", "eni1:1", v4_acl_group_id="out4", v6_acl_group_id="out6"),
    ]
    to_endpoint = lambda port, source: tcp(VM_CA, PE_CA, "S", (6789, port), (source, ENI_MAC))
    to_peer = lambda port, macs=(VM_MAC, ENI_MAC): udp(VM_CA6, "fd02::8", (6789, port), macs)
    brought = lambda inner: vxlan(carrier, VIP, 800, inner)
    end = lambda inner: vxlan(VIP, "40.40.40.40", 100, inner, out=True)
    steps, macs = [], (REMOTE_MAC, ENI_MAC)
    for by, own in ((lambda inner: from_vm(inner, 800), 22), (brought, 80)):
        answer = tcp(PE_DIP, PL_SIP, "SA", (own, 6789), macs)
        back = unlinked(answer)
        back.src, back.dst = ENI_MAC, VM_MAC
        steps += [
            (by(to_endpoint(own, VM_MAC)), linked(PL_SIP, PE_DIP, to_endpoint(own, ENI_MAC))),
            (nvgre(PE_PA, VIP, ENCAP_VNI, answer), end(back)), (by(to_endpoint(23, VM_MAC)), None),
            (by(to_peer(own)), to_host("100.0.0.8", 1001, to_peer(own, (ENI_MAC, REMOTE_MAC)))), (by(to_peer(23)), None),
        ]
    for outside, machine in (("10.2.0.50", VM_CA), ("fd02::50", VM_CA6)):
        opened = lambda port, macs: udp(outside, machine, (5, port), macs)
        answer = lambda macs: udp(machine, outside, (23, 5), macs)
        steps += [
            (from_host(far, 100, opened(22, macs)), None), (from_host(far, 100, opened(23, macs)), end(opened(23, (ENI_MAC, ENI_MAC)))),
            (from_vm(answer((VM_MAC, ENI_MAC)), 800), to_host(far, 100, answer((ENI_MAC, REMOTE_MAC)))),
        ]
    steps.append((from_host(far, 100, udp("10.2.0.50", PE_CA, (5, 80), macs)), None))
    Vector("floating_nic_directions", "What a floating NIC's machine sends meets outbound lists, whoever brings it; what comes from outside meets inbound ones, goes to the machine alone, and its answers go back to it. Meters count as the machine sees it.").step(
        config, *steps,
    ).counters(
        meters={"1586": [2 * (14 + 20 + 20 + 16), 2 * (14 + 20 + 20 + 16)], "7": [2 * (14 + 40 + 8 + 16), 0]},
        drops={"acl_outbound": 4, "acl_inbound": 2, "unsupported_action": 1},
    )


def load_balancer():
    """A virtual address is one of its network's, and each connection goes to one of those behind it: the
    destination becomes the backend's address and port, and the packet goes where the backend's mapping says
    (paper, Table 1: match on dip and dport; dnat, encap, set_dmac)."""
    virtual, one, two, virtual6, one6 = "10.2.9.100", "10.2.9.1", "10.2.9.2", "fd02::100", "fd02::1"
    config = base() + [
        route("10.2.0.0/16"), route("fd02::/64"), route("10.3.0.0/16", vnet="Vnet2"),
        mapping(one, "100.0.0.1", mac_address=REMOTE_MAC), mapping(two, "100.0.0.2", mac_address=REMOTE_MAC),
        mapping(one6, "100.0.0.1", mac_address=REMOTE_MAC), mapping("10.3.9.1", "100.0.0.3", "Vnet2", mac_address=REMOTE_MAC),
        item("LOAD_BALANCER", f"Vnet1:{virtual}:tcp:80", backends=[f"{one}:8080"]),
        item("LOAD_BALANCER", f"Vnet1:{virtual6}:udp:53", backends=f"[{one6}]:5353"),
        item("LOAD_BALANCER", "Vnet2:10.3.9.100:tcp:80", backends=["10.3.9.1:80"]),
    ]
    sent = lambda flags, port=6789, to=virtual: from_vm(tcp(VM_CA, to, flags, (port, 80), (ENI_MAC, VM_MAC)))
    left = lambda flags, backend, host, port=6789: to_host(host, 1001, tcp(VM_CA, backend, flags, (port, 8080)))
    answer = lambda backend, host, port=6789: vxlan(host, VIP, 1001, tcp(backend, VM_CA, "SA", (8080, port), (REMOTE_MAC, ENI_MAC)))
    back = lambda port=6789: to_vm(tcp(virtual, VM_CA, "SA", (80, port), (REMOTE_MAC, ENI_MAC)))
    ask6, asked6 = udp(VM_CA6, virtual6, (6789, 53), (ENI_MAC, VM_MAC)), udp(VM_CA6, one6, (6789, 5353))
    told6, back6 = udp(one6, VM_CA6, (5353, 6789), (REMOTE_MAC, ENI_MAC)), udp(virtual6, VM_CA6, (53, 6789), (REMOTE_MAC, ENI_MAC))
    Vector("load_balancer", "A virtual address of a network: IPv4 and IPv6, there and back; another port is none; a backend that goes takes its connections along, one that comes does not.").step(
        config,
        (sent("S"), left("S", one, "100.0.0.1")), (answer(one, "100.0.0.1"), back()), (sent("A"), left("A", one, "100.0.0.1")),
        (from_vm(ask6), to_host("100.0.0.1", 1001, asked6)), (vxlan("100.0.0.1", VIP, 1001, told6), to_vm(back6)),
        (from_vm(tcp(VM_CA, virtual, "S", (6789, 81), (ENI_MAC, VM_MAC))), None),
        (sent("S", to="10.3.9.100"), to_host("100.0.0.3", 1001, tcp(VM_CA, "10.3.9.1", "S", (6789, 80)))),
    ).step(
        [item("LOAD_BALANCER", f"Vnet1:{virtual}:tcp:80", backends=[f"{one}:8080", f"{two}:8080"])],
        (sent("A"), left("A", one, "100.0.0.1")), (answer(one, "100.0.0.1"), back()),
    ).step(
        [item("LOAD_BALANCER", f"Vnet1:{virtual}:tcp:80", backends=[f"{two}:8080"])],
        (sent("A"), left("A", two, "100.0.0.2")), (answer(two, "100.0.0.2"), back()), (answer(one, "100.0.0.1"), None),
    ).counters(drops={"mapping_miss": 1, "tcp_without_flow": 1})


def nat_gateway():
    """On direct routes a machine hides behind its ENI's block of external ports (paper, Table 1: snat). Blocks
    of one port leave no choice of it. What is hidden here is atomic (RFC 6864): else a gateway whose address
    several have draws another identification. An echo's identifier stands for a port (RFC 5508)."""
    outside, other, external = "198.51.100.7", "198.51.100.8", "203.0.113.1"
    config = base() + [
        item("ROUTING_TYPE", "direct", items=[{"action_name": "a", "action_type": "direct"}]),
        item("TUNNEL", "edge", endpoints=["40.40.40.40"], vni=100, encap_type="vxlan"),
        item("ROUTE", "group1:0.0.0.0/0", action_type="direct", tunnel="edge"),
        item("ROUTE", "group1:::/0", action_type="direct", tunnel="edge"),
        route("10.2.0.0/16"), mapping("10.2.0.8", "100.0.0.8", mac_address=REMOTE_MAC), rule(100, "40.40.40.40/32"),
        item("NAT_POOL", "internet", addresses=[external], ports="4000-4001", block_size=1),
        item("ENI_NAT", "eni1", pool="internet", block=1),
    ]
    edge = lambda inner: vxlan(VIP, "40.40.40.40", 100, inner, out=True)
    atomic = dict(flags="DF", id=0)
    sent = lambda flags, to=outside, port=6789: from_vm(tcp(VM_CA, to, flags, (port, 80), header=atomic))
    segment = lambda flags, to=outside, port=4001: tcp(external, to, flags, (port, 80), header=atomic)
    left = lambda *flags, **ends: edge(segment(*flags, **ends))
    answer = lambda port: vxlan("40.40.40.40", VIP, 100, tcp(outside, external, "SA", (80, port), (REMOTE_MAC, ENI_MAC)))
    back = to_vm(tcp(outside, VM_CA, "SA", (80, 6789), (REMOTE_MAC, ENI_MAC)))
    inside, v6 = udp(VM_CA, "10.2.0.8"), udp(VM_CA6, "2001:db8:7::7")
    stray = vxlan("40.40.40.40", VIP, 100, udp(other, external, (53, 4001), (REMOTE_MAC, ENI_MAC)))
    from_edge = lambda inner: vxlan("40.40.40.40", VIP, 100, inner)
    reply = dict(macs=(REMOTE_MAC, ENI_MAC), kind="echo-reply")
    sctp = from_vm(Ether(src=ENI_MAC, dst=REMOTE_MAC) / IP(src=VM_CA, dst=outside, proto=132) / Raw(b"sixteen bytes..."))
    router = "198.51.100.254"
    told = unreachable(router, VM_CA, tcp(VM_CA, outside, "S", (6789, 80), header=atomic))
    Vector("nat_gateway", "A machine behind a block of one external port: there and back, one flow for each destination, echoes and an error about what was translated, what nobody asked for, what has no ports, what stays inside; its IPv6 is not hidden; then it gets another block.").step(
        config,
        (sent("S"), left("S")), (answer(4001), back), (sent("A"), left("A")),
        (sent("S", port=6790), None), (sent("S", to=other, port=6790), left("S", to=other)),
        (from_vm(echo(VM_CA, outside, 7, header=atomic)), edge(echo(external, outside, 4001, header=atomic))),
        (from_edge(echo(outside, external, 4001, **reply)), to_vm(echo(outside, VM_CA, 7, **reply))),
        (from_edge(unreachable(router, external, segment("S"))), to_vm(told)),
        (stray, None), (sctp, None), (from_vm(inside), to_host("100.0.0.8", 1001, inside)),
        (from_vm(v6), edge(v6)),
    ).step(
        [item("ENI_NAT", "eni1", pool="internet", block=0)],
        (sent("A"), left("A", port=4000)), (answer(4000), back), (answer(4001), None),
    ).counters(drops={"nat_ports": 1, "nat_unsolicited": 1, "nat_protocol": 1, "tcp_without_flow": 1})


def nat_gateway_v6():
    """As IPv4's: the pool's addresses are of the packets' version."""
    outside, other, external = "2001:db8:7::7", "2001:db8:7::8", "2001:db8:203::1"
    config = base() + [
        item("ROUTING_TYPE", "direct", items=[{"action_name": "a", "action_type": "direct"}]),
        item("TUNNEL", "edge", endpoints=["40.40.40.40"], vni=100, encap_type="vxlan"),
        item("ROUTE", "group1:::/0", action_type="direct", tunnel="edge"),
        item("ROUTE", "group1:0.0.0.0/0", action_type="direct", tunnel="edge"),
        route("fd02::/64"), mapping("fd02::8", "100.0.0.8", mac_address=REMOTE_MAC), rule(100, "40.40.40.40/32"),
        item("NAT_POOL", "internet", addresses=[external], ports="4000-4001", block_size=1),
        item("ENI_NAT", "eni1", pool="internet", block=1),
    ]
    edge = lambda inner: vxlan(VIP, "40.40.40.40", 100, inner, out=True)
    from_edge = lambda inner: vxlan("40.40.40.40", VIP, 100, inner)
    sent = lambda flags, to=outside, port=6789: from_vm(tcp(VM_CA6, to, flags, (port, 80)))
    left = lambda flags, to=outside, port=4001: edge(tcp(external, to, flags, (port, 80)))
    answer = lambda port: from_edge(tcp(outside, external, "SA", (80, port), (REMOTE_MAC, ENI_MAC)))
    back = to_vm(tcp(outside, VM_CA6, "SA", (80, 6789), (REMOTE_MAC, ENI_MAC)))
    ping = lambda source: Ether(src=ENI_MAC, dst=REMOTE_MAC) / IPv6(src=source, dst=outside)
    echo6 = lambda source, number: ping(source) / ICMPv6EchoRequest(id=number, seq=1, data=b"echo")
    pong = lambda destination: Ether(src=REMOTE_MAC, dst=ENI_MAC) / IPv6(src=outside, dst=destination)
    reply6 = lambda destination, number: pong(destination) / ICMPv6EchoReply(id=number, seq=1, data=b"echo")
    stray = from_edge(udp(other, external, (53, 4001), (REMOTE_MAC, ENI_MAC)))
    inside, v4 = udp(VM_CA6, "fd02::8"), udp(VM_CA, "198.51.100.7")
    Vector("nat_gateway_v6", "A machine behind a block of one external port of IPv6: there and back, echoes, what nobody asked for, what stays inside; its IPv4 is not hidden; then it gets another block.").step(
        config,
        (sent("S"), left("S")), (answer(4001), back), (sent("A"), left("A")),
        (sent("S", port=6790), None), (sent("S", to=other, port=6790), left("S", to=other)),
        (from_vm(echo6(VM_CA6, 7)), edge(echo6(external, 4001))),
        (from_edge(reply6(external, 4001)), to_vm(reply6(VM_CA6, 7))),
        (stray, None), (from_vm(inside), to_host("100.0.0.8", 1001, inside)), (from_vm(v4), edge(v4)),
    ).step(
        [item("ENI_NAT", "eni1", pool="internet", block=0)],
        (sent("A"), left("A", port=4000)), (answer(4000), back), (answer(4001), None),
    ).counters(drops={"nat_ports": 1, "nat_unsolicited": 1, "tcp_without_flow": 1})


VECTORS = (
    private_link_vector, port_map, port_map_must_match, security_group, security_group_answers, service_tunnel,
    floating_nic, floating_nic_directions, load_balancer, nat_gateway, nat_gateway_v6,
)
