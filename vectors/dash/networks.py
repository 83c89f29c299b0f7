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


def own_ends():
    """What comes from the network is no packet of the machine's, whatever its ends say."""
    ends = ((VM_CA, "10.2.0.8"), (VM_CA6, "fd02::8"))
    config = base() + [route("10.2.0.0/16"), route("fd02::/64"), rule(1001, "100.0.0.0/24")]
    config += [mapping(peer, "100.0.0.8", mac_address=REMOTE_MAC) for _, peer in ends]
    steps = []
    for own, peer in ends:
        sent = (from_vm(udp(own, peer, macs=(ENI_MAC, VM_MAC))), to_host("100.0.0.8", 1001, udp(own, peer)))
        pretended = udp(own, peer, macs=(REMOTE_MAC, ENI_MAC))
        steps += [sent, (vxlan("100.0.0.8", VIP, 1001, pretended), to_vm(pretended)), sent]
    Vector("own_ends", "A peer sends with the ends of a machine's own flow: it goes to the machine, and the flow goes on.").step(config, *steps)


def routes():
    config = base() + [
        item("ROUTING_TYPE", "vnet_direct", items=[{"action_name": "a", "action_type": "maprouting"}]),
        item("ROUTING_TYPE", "direct", items=[{"action_name": "a", "action_type": "direct"}]),
        item("ROUTING_TYPE", "drop", items=[{"action_name": "a", "action_type": "drop"}]),
        route("10.1.0.0/16"), route("10.1.0.0/24", "vnet_direct", vnet="Vnet1", overlay_ip="10.0.0.6"),
        route("10.2.5.0/24", "drop"), route("10.3.0.0/16", vnet="Vnet2"),
        mapping("10.0.0.6", "100.1.2.6", mac_address=REMOTE_MAC), mapping("10.1.1.1", "101.1.2.3", mac_address=REMOTE_MAC),
        mapping("10.3.0.1", "102.1.2.3", "Vnet2", mac_address=REMOTE_MAC, use_dst_vni="true"),
        mapping("10.3.1.1", "102.1.2.4", "Vnet2", mac_address=REMOTE_MAC, use_dst_vni="false"),
        route("fd10::/32"), route("fd10:0:1::/48", "vnet_direct", vnet="Vnet1", overlay_ip="fd00::6"),
        route("fd10:0:2::/48", "drop"), route("fd10:0:3::/48", vnet="Vnet2"),
        mapping("fd00::6", "100.1.2.6", mac_address=REMOTE_MAC), mapping("fd10::1", "101.1.2.3", mac_address=REMOTE_MAC),
        mapping("fd10:0:3::1", "102.1.2.3", "Vnet2", mac_address=REMOTE_MAC, use_dst_vni="true"),
        mapping("fd10:0:3:1::1", "102.1.2.4", "Vnet2", mac_address=REMOTE_MAC, use_dst_vni="false"),
    ]
    # Direct, the inner packet itself is what the underlay gets; a routing type without a tunnel of its own has
    # VXLAN.
    for prefix, other in (("10.4.0.0/16", "10.2.0.1"), ("fd10:0:4::/48", "fd10:0:0:5::1")):
        config += [route(prefix, "direct"), mapping(other, "100.1.2.7", routing_type="vnet", mac_address=REMOTE_MAC)]
    config.append(route("10.2.0.0/24"))
    packet = lambda destination: udp(VM_CA6 if ":" in destination else VM_CA, destination)
    sent = lambda destination: udp(VM_CA6 if ":" in destination else VM_CA, destination, macs=(ENI_MAC, VM_MAC))
    bare = lambda destination: Ether(src=DPU_MAC, dst=SWITCH_MAC) / packet(destination).payload
    Vector("routes", "The longest prefix; vnet, vnet_direct, direct, drop; a peer's VNI or one's own.").step(
        config,
        *((from_vm(sent(to)), bare(to)) for to in ("10.4.0.1", "fd10:0:4::1")),
        *((from_vm(sent(to)), to_host("100.1.2.7", 1001, packet(to))) for to in ("10.2.0.1", "fd10:0:0:5::1")),
        (from_vm(sent("10.1.1.1")), to_host("101.1.2.3", 1001, packet("10.1.1.1"))),
        (from_vm(sent("10.1.0.1")), to_host("100.1.2.6", 1001, packet("10.1.0.1"))),
        (from_vm(sent("10.2.5.1")), None),
        (from_vm(sent("10.3.0.1")), to_host("102.1.2.3", 1002, packet("10.3.0.1"))),
        (from_vm(sent("10.3.1.1")), to_host("102.1.2.4", 1001, packet("10.3.1.1"))),
        (from_vm(sent("fd10::1")), to_host("101.1.2.3", 1001, packet("fd10::1"))),
        (from_vm(sent("fd10:0:1::1")), to_host("100.1.2.6", 1001, packet("fd10:0:1::1"))),
        (from_vm(sent("fd10:0:2::1")), None),
        (from_vm(sent("fd10:0:3::1")), to_host("102.1.2.3", 1002, packet("fd10:0:3::1"))),
        (from_vm(sent("fd10:0:3:1::1")), to_host("102.1.2.4", 1001, packet("fd10:0:3:1::1"))),
    ).counters(drops={"route_drop": 2})


def inbound():
    """The lowest number wins, however long prefixes are; a source is valid that is a host of the rule's network
    or in the list of the VNI."""
    hosts = {"10.2.0.8": "100.0.0.8", "10.2.0.30": "100.0.3.8", "fd02::8": "100.0.4.8"}
    config = base() + [mapping(ca, host, "Vnet2") for ca, host in hosts.items()] + [
        item("PA_VALIDATION", "1002", prefixes="100.0.1.0/24"),
        # A shorter prefix with the better number, and longer ones with worse.
        rule(1002, "100.0.0.0/16", vnet="Vnet2", pa_validation="true", priority=20, protocol=17),
        rule(1002, "100.0.2.0/24", action_type="drop", priority=10, protocol=17), rule(1002, "100.0.2.8/32", priority=15),
        rule(1002, "100.0.3.0/24", action_type="drop", priority=30),
        rule(1003, "0.0.0.0/0"), rule(1006, "100.0.0.0/16", vnet="Vnet2", pa_validation="false"),
        # The number in the key.
        item("ROUTE_RULE", "eni1:1005:100.0.0.0/24:1", action_type="drop", protocol=17),
        item("ROUTE_RULE", "eni1:1005:0.0.0.0/0:2", action_type="decap"),
    ]
    steps, later, ports = [], [], iter(range(100, 200))
    for own, peer in ((VM_CA, "10.2.0.8"), (VM_CA6, "fd02::8")):
        host = hosts[peer]
        macs = (REMOTE_MAC, ENI_MAC)
        first, stray = udp(peer, own, (1, 2), macs), udp(peer, own, (9, 9), macs)
        came = lambda host, vni, packet, passes=True: (from_host(host, vni, packet), to_vm(packet) if passes else None)
        datagram, segment = (lambda: udp(peer, own, (next(ports), 2), macs)), (lambda: tcp(peer, own, "S", (next(ports), 2), macs))
        odd, turned, nothing = answered(first, (ENI_MAC, VM_MAC)), answered(first, (ENI_MAC, REMOTE_MAC)), datagram()
        steps += [
            came(host, 1002, first), came("100.0.1.77", 1002, datagram()), came("100.0.0.9", 1002, datagram(), False),
            came("100.0.2.8", 1002, datagram(), False), came("100.0.2.8", 1002, segment()), came("100.0.3.8", 1002, datagram()),
            came("100.0.3.8", 1002, segment(), False), came(host, 1004, datagram(), False), came("99.9.9.9", 1003, datagram()),
            came("100.0.0.9", 1006, datagram()), came("100.0.0.8", 1005, datagram(), False), came("100.0.0.8", 1005, segment()),
            came("100.0.1.8", 1005, datagram()), came(host, 1002, segment(), False),
            (from_vm(odd), to_host(host, 1002, turned)),
        ]
        by_gre = datagram()
        steps += [
            (nvgre("99.9.9.9", VIP, 1003, by_gre), to_vm(by_gre)),
            (from_vm(answered(by_gre, (ENI_MAC, VM_MAC))), nvgre(VIP, "99.9.9.9", 1003, answered(by_gre, (ENI_MAC, REMOTE_MAC)), out=True)),
        ]
        later += [came(host, 1002, first, False), came("100.0.1.77", 1002, stray)]
    Vector("inbound", "Inbound rules by priority and protocol, validation of physical addresses, answers to where the question came from; then a host is its network's no longer.").step(
        config, *steps
    ).step(
        [gone("VNET_MAPPING", "Vnet2:10.2.0.8"), gone("VNET_MAPPING", "Vnet2:fd02::8")], *later,
    ).counters(drops={"pa_validation": 4, "inbound_route_drop": 6, "inbound_route_miss": 4}, counters={"PA_VALIDATION_FAIL_DROP_PACKETS": 4})


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


def tunnels():
    """A route's tunnel is around what it sends, the mapping's takes its place; the last of two layers is outside."""
    config = base() + [
        item("ROUTING_TYPE", "direct", items=[{"action_name": "a", "action_type": "direct"}]),
        item("TUNNEL", "one", endpoints=["40.40.40.40"], vni=200, encap_type="vxlan"),
        item("TUNNEL", "two", endpoints=["41.41.41.41"], vni=300, encap_type="nvgre"),
    ]
    steps = []
    for own, of in ((VM_CA, "10.{}.0.0/16"), (VM_CA6, "fd02:{}::/32")):
        to = lambda number: of.format(number).split("/")[0].replace(".0.0", ".0.8").replace("::", "::8")
        config += [
            route(of.format(1), "direct", tunnel="one"), route(of.format(2), tunnel="one"), route(of.format(3), "direct", tunnel="two"),
            mapping(to(2), "100.0.0.8", mac_address=REMOTE_MAC), route(of.format(4), tunnel="one"),
            mapping(to(4), "100.0.0.9", tunnel="two", mac_address=REMOTE_MAC), route(of.format(5)),
            mapping(to(5), "100.0.0.8", tunnel="one", mac_address=REMOTE_MAC),
        ]
        sent = lambda number: udp(own, to(number))
        came = lambda number: from_vm(udp(own, to(number), macs=(ENI_MAC, VM_MAC)) if number in (2, 4, 5) else sent(number))
        within_one = lambda inner: vxlan(VIP, "40.40.40.40", 200, inner, out=True)
        within_two = lambda inner: nvgre(VIP, "41.41.41.41", 300, inner, out=True)
        steps += [
            (came(1), within_one(sent(1))), (came(2), within_one(to_host("100.0.0.8", 1001, sent(2)))),
            (came(3), within_two(sent(3))), (came(4), within_two(to_host("100.0.0.9", 1001, sent(4)))),
            (came(5), within_one(to_host("100.0.0.8", 1001, sent(5)))),
            # Answers come from the peer's host.
            (from_host("100.0.0.8", 1001, answered(sent(2))), to_vm(answered(sent(2)))),
        ]
    Vector("tunnels", "Tunnels of routes and mappings, alone and around a network's, in VXLAN and NVGRE; the mapping's before the route's.").step(config, *steps)


def tunnel_endpoints():
    """Of a tunnel's endpoints each flow has one, and none is idle."""
    endpoints = ["40.40.40.40", "40.40.40.41", "40.40.40.42"]
    config = base() + [
        item("ROUTING_TYPE", "direct", items=[{"action_name": "a", "action_type": "direct"}]),
        item("TUNNEL", "many", endpoints=endpoints, vni=200, encap_type="vxlan"),
        route("10.2.0.0/16", "direct", tunnel="many"), route("fd02::/64", "direct", tunnel="many"),
    ]
    sent = [udp(*ends, (port, 4567)) for port in range(40000, 40030) for ends in ((VM_CA, "10.2.0.8"), (VM_CA6, "fd02::8"))]
    Vector("tunnel_endpoints", "Many flows over a tunnel's endpoints.", endpoints=endpoints, endpoints_all_used=True).step(
        config, *((from_vm(inner), vxlan(VIP, endpoints[0], 200, inner, out=True)) for inner in sent),
    )


class Metered:
    """Packets of an ENI, and what each class has for them."""

    def __init__(self):
        self.steps, self.meters = [], {}

    def add(self, sent, wanted, inner, metering_class, is_inbound=False):
        self.steps.append((sent, wanted))
        if metering_class:
            self.meters.setdefault(str(metering_class), [0, 0])[is_inbound] += len(raw(inner))


def metering_config(version, prefix, far):
    """Routes, mappings, rules and a policy for one IP version; `far(n)` is an address of the nth network."""
    policy, base_class = f"policy{version}", 100 * version
    meter = lambda number, priority, network, value: item("METER_RULE", f"{policy}:{number}", priority=str(priority), ip_prefix=network, metering_class=base_class + value)
    host = prefix(0).replace("/64", "/128").replace("/24", "/32").replace("::/", "::6/").replace(".0/", ".6/")
    return [
        item("METER_POLICY", policy, ip_version=f"ipv{version}"),
        # The lowest number wins: a short prefix over a longer one, and a host over both.
        meter(1, 10, prefix(0), 12), meter(2, 20, prefix(None), 20), meter(3, 5, host, 21),
        route(prefix(0)), route(prefix(1), metering_class_or="2566"),
        route(prefix(2), metering_class_or="2566", metering_class_and="4080"),
        route(prefix(3), metering_class_or="1", tunnel="metered"), route(prefix(4)), route(prefix(5)),
        mapping(far(0, 7), "100.0.0.8"), mapping(far(0, 6), "100.0.0.8"), mapping(far(1, 7), "100.0.0.8", metering_class_or="1038"),
        mapping(far(2, 7), "100.0.0.8", metering_class_or="1038"), mapping(far(3, 7), "100.0.0.8", metering_class_or="2"),
        mapping(far(4, 7), "100.0.0.8", tunnel="metered", metering_class_or="16384"), mapping(far(5, 7), "100.0.0.8"),
    ]


def metering():
    """The class is all "or" bits of what a packet meets, under all "and" bits; that of the policy if none is left.
    Bytes are those of the inner frame, for the class that the flow was opened with, in both directions."""
    networks = (
        (4, VM_CA, lambda n: "10.2.0.0/15" if n is None else f"10.2.{n}.0/24", lambda n, host: f"10.2.{n}.{host}"),
        (6, VM_CA6, lambda n: "fd02::/16" if n is None else f"fd02:{n}::/64", lambda n, host: f"fd02:{n}::{host}"),
    )
    config = base(eni={"v4_meter_policy_id": "policy4", "v6_meter_policy_id": "policy6"}) + [
        item("TUNNEL", "metered", endpoints=["40.40.40.40"], vni=200, encap_type="vxlan", metering_class_or="8192"),
        rule(1003, "0.0.0.0/0", metering_class_or="48"), rule(1004, "0.0.0.0/0", metering_class_or="127", metering_class_and="96"),
        rule(1005, "0.0.0.0/0"),
    ]
    told = Metered()
    for version, own, prefix, far in networks:
        config += metering_config(version, prefix, far)
        classes = {
            (0, 7): 100 * version + 12, (0, 6): 100 * version + 21, (1, 7): 2566 | 1038, (2, 7): (2566 | 1038) & 4080,
            (3, 7): 1 | 2 | 8192, (4, 7): 16384 | 8192, (5, 7): 100 * version + 20,
        }
        for place, metering_class in classes.items():
            inner = udp(own, far(*place))
            left = to_host("100.0.0.8", 1001, inner)
            in_tunnel = vxlan(VIP, "40.40.40.40", 200, left, out=True) if place[0] in (3, 4) else left
            told.add(from_vm(inner), in_tunnel, inner, metering_class)
            back = udp(far(*place), own, (4567, 6789), (REMOTE_MAC, ENI_MAC), b"")
            told.add(from_host("100.0.0.8", 1001, back), to_vm(back), back, metering_class, True)
        for vni, metering_class in ((1003, 48), (1004, 96), (1005, 100 * version + 12)):
            question = udp(far(0, 9), own, (vni, 53), (REMOTE_MAC, ENI_MAC))
            reply = udp(own, far(0, 9), (53, vni), (ENI_MAC, REMOTE_MAC), b"")
            told.add(from_host("100.0.0.8", vni, question), to_vm(question), question, metering_class, True)
            told.add(from_vm(reply), to_host("100.0.0.8", vni, reply), reply, metering_class)
    Vector("metering", "Classes by policy, route, mapping, tunnel and inbound rule, and by masks; answers, and flows that were opened from outside; IPv4 and IPv6.").step(
        config, *told.steps,
    ).counters(meters=told.meters)


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


VECTORS = (vnet, own_ends, routes, inbound, tunnels, tunnel_endpoints, mid_connection, metering, trusted, admission)
