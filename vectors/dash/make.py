#!/usr/bin/env python3
"""Writes the vectors of this folder: configurations as SONiC's documents have them, packets as scapy builds
them, expected ones by the rules of the documents.

    pip install scapy==2.6.1 && python3 make.py
"""
import ipaddress
import json
import pathlib
import shutil

from scapy.all import GRE, ICMP, IP, TCP, UDP, Ether, IPv6, Raw, raw, wrpcap
from scapy.layers.inet6 import ICMPv6EchoReply, ICMPv6EchoRequest
from scapy.layers.vxlan import VXLAN

HERE = pathlib.Path(__file__).parent
VIP, VM_VNI, ENCAP_VNI = "10.1.0.5", 2001, 100
VIP6, VM_PA6 = "2001:db8:1::5", "2001:db8:25::1"
VM_PA, VM_CA, VM_CA6 = "25.1.1.1", "10.0.0.11", "fd01::11"
ENI_MAC, REMOTE_MAC, VM_MAC = "f4:93:9f:ef:c4:7e", "43:be:65:25:fa:67", "44:e3:9f:ef:c4:6e"
DPU_MAC, SWITCH_MAC = "02:00:00:00:00:02", "02:00:00:00:00:01"
IGNORE = ["outer.macs", "outer.ttl", "outer.id", "outer.source_port", "outer.flow_label"]


def item(table, key, **fields):
    return {f"DASH_{table}_TABLE:{key}": fields, "OP": "SET"}


def gone(table, key):
    return {f"DASH_{table}_TABLE:{key}": {}, "OP": "DEL"}


def base(eni=(), appliance=()):
    """An appliance, two networks and an ENI."""
    return [
        item("APPLIANCE", "100", **{"sip": VIP, "vm_vni": VM_VNI, "local_region_id": "100", **dict(appliance)}),
        item("ROUTING_TYPE", "vnet_encap", items=[{"action_name": "a", "action_type": "staticencap", "encap_type": "vxlan"}]),
        item("ROUTING_TYPE", "vnet", items=[{"action_name": "a", "action_type": "maprouting"}]),
        item("VNET", "Vnet1", vni="1001", guid="559c6ce8-26ab-4193-b946-ccc6e8f930b2"),
        item("VNET", "Vnet2", vni="1002", guid="559c6ce8-26ab-4193-b946-ccc6e8f930b3"),
        item("ENI", "eni1", **{
            "eni_id": "eni1", "mac_address": ENI_MAC, "underlay_ip": VM_PA, "admin_state": "enabled",
            "vnet": "Vnet1", "pl_underlay_sip": VIP,
            "pl_sip_encoding": "::d107:64:ff71:0:0/::ffff:ffff:ffff:0:0", **dict(eni),
        }),
        item("ROUTE_GROUP", "group1", guid="48af6ce8-26cc-4293-bfa6-0126e8fcdeb2", version="1"),
        item("ENI_ROUTE", "eni1", group_id="group1"),
    ]


def route(prefix, kind="vnet", **fields):
    if kind == "vnet" and "vnet" not in fields:
        fields["vnet"] = "Vnet1"
    return item("ROUTE", f"group1:{prefix}", action_type=kind, **fields)


def mapping(address, host, vnet="Vnet1", **fields):
    fields.setdefault("routing_type", "vnet_encap")
    return item("VNET_MAPPING", f"{vnet}:{address}", underlay_ip=host, **fields)


def rule(vni, prefix, **fields):
    fields.setdefault("action_type", "decap")
    fields.setdefault("priority", 1)
    return item("ROUTE_RULE", f"eni1:{vni}:{prefix}", **fields)


def private_link():
    return [
        item("ROUTING_TYPE", "privatelink", items=[
            {"action_name": "a", "action_type": "4_to_6"},
            {"action_name": "b", "action_type": "staticencap", "encap_type": "nvgre", "vni": ENCAP_VNI},
        ]),
        route("10.2.0.0/16"),
    ]


PE = dict(
    routing_type="privatelink",
    overlay_sip_prefix="fd40:108:20:abc:abc::0/ffff:ffff:ffff:ffff:ffff:ffff::",
    overlay_dip_prefix="2603:10e1:100:2::3401:203/ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
)
PE_CA, PE_PA, PE_DIP = "10.2.0.100", "101.1.2.3", "2603:10e1:100:2::3401:203"


def pl_sip(source):
    """(((source & ~overlay mask) | overlay) & ~encoding mask) | encoding."""
    number = lambda text: int(ipaddress.ip_address(text))
    full = (1 << 128) - 1
    overlay = number(source) & (full ^ number("ffff:ffff:ffff:ffff:ffff:ffff::")) | number("fd40:108:20:abc:abc::")
    encoded = overlay & (full ^ number("::ffff:ffff:ffff:0:0")) | number("::d107:64:ff71:0:0")
    return str(ipaddress.IPv6Address(encoded))


PL_SIP = pl_sip(VM_CA)


def ip(source, destination, **fields):
    if ":" in source:
        return IPv6(src=source, dst=destination, **fields)
    return IP(src=source, dst=destination, **fields)


def udp(source, destination, ports=(6789, 4567), macs=(ENI_MAC, REMOTE_MAC), body=b"sixteen bytes..."):
    return Ether(src=macs[0], dst=macs[1]) / ip(source, destination) / UDP(sport=ports[0], dport=ports[1]) / Raw(body)


def tcp(source, destination, flags, ports=(6789, 4567), macs=(ENI_MAC, REMOTE_MAC), header=()):
    segment = TCP(sport=ports[0], dport=ports[1], flags=flags, seq=7, ack=9 if "A" in flags else 0)
    return Ether(src=macs[0], dst=macs[1]) / ip(source, destination, **dict(header)) / segment / Raw(b"sixteen bytes...")


def echo(source, destination, identifier, macs=(ENI_MAC, REMOTE_MAC), kind="echo-request", header=()):
    message = ICMP(type=kind, id=identifier, seq=1)
    return Ether(src=macs[0], dst=macs[1]) / ip(source, destination, **dict(header)) / message / Raw(b"sixteen bytes...")


def unreachable(router, destination, about, macs=(REMOTE_MAC, ENI_MAC)):
    """An ICMP error about an IPv4 packet: host unreachable (RFC 792)."""
    return Ether(src=macs[0], dst=macs[1]) / ip(router, destination) / ICMP(type=3, code=1) / Raw(raw(about[IP]))


def outer(source, destination, out):
    macs = dict(src=DPU_MAC, dst=SWITCH_MAC) if out else dict(src=SWITCH_MAC, dst=DPU_MAC)
    if ":" in source:
        return Ether(**macs) / IPv6(src=source, dst=destination, hlim=64)
    flags = dict(flags="DF", id=0) if out else {}
    return Ether(**macs) / IP(src=source, dst=destination, ttl=64, **flags)


def vxlan(source, destination, vni, inner, out=False):
    """IPv6 has no packets of UDP without a checksum, but by agreement (RFC 6935)."""
    checksum = {} if ":" in source else dict(chksum=0)
    header = UDP(sport=50000, dport=4789, **checksum) / VXLAN(flags=0x08, vni=vni)
    return outer(source, destination, out) / header / Ether(raw(inner))


def nvgre(source, destination, key, inner, out=False):
    header = GRE(key_present=1, proto=0x6558, key=key << 8)
    return outer(source, destination, out) / header / Ether(raw(inner))


def from_vm(inner, vni=VM_VNI):
    return vxlan(VM_PA, VIP, vni, inner)


def to_vm(inner):
    return vxlan(VIP, VM_PA, VM_VNI, inner, out=True)


def to_host(host, vni, inner):
    return vxlan(VIP, host, vni, inner, out=True)


class Vector:
    """A folder: steps of a configuration, packets in and packets out."""

    def __init__(self, name, about, **compare):
        self.folder, self.compare = HERE / name, {"ignore": IGNORE, **compare}
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        (self.folder / "about.txt").write_text(about + "\n")
        (self.folder / "compare.json").write_text(json.dumps(self.compare) + "\n")
        self.steps, self.time = 0, 1.0

    def step(self, config, *packets):
        """Packets, each with what becomes of it; None if it is dropped."""
        self.steps += 1
        folder = self.folder if self.steps == 1 else self.folder / f"step{self.steps}"
        folder.mkdir(exist_ok=True)
        lines = ",\n".join("  " + json.dumps(line) for line in config)
        (folder / "config.json").write_text(f"[\n{lines}\n]\n")
        for name, row in (("in", [packet[0] for packet in packets]), ("expected", [packet[1] for packet in packets])):
            row = [Ether(raw(packet)) for packet in row if packet is not None]
            for number, packet in enumerate(row):
                packet.time = self.time + number / 1000
            # A capture without packets still has a header.
            wrpcap(str(folder / f"{name}.pcap"), row or [], linktype=1)
        self.time += 1
        return self

    def counters(self, **counters):
        (self.folder / "counters.json").write_text(json.dumps(counters) + "\n")


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


def six(inner, source, destination):
    """The same packet in IPv6."""
    return Ether(src=inner.src, dst=inner.dst) / IPv6(src=source, dst=destination, hlim=64) / inner[IP].payload.copy()


def fresh(packet):
    """With checksums computed anew."""
    for layer in (UDP, TCP):
        if layer in packet:
            del packet[layer].chksum
    return packet


def private_link_vector():
    config = base() + private_link() + [mapping(PE_CA, PE_PA, metering_class_or="1586", **PE)]
    out = lambda inner: nvgre(VIP, PE_PA, ENCAP_VNI, inner, out=True)
    steps = []
    for make in (udp, lambda *ends, **more: tcp(*ends, "S" if ends[0] == VM_CA else "SA", **more)):
        sent = make(VM_CA, PE_CA)
        steps.append((from_vm(sent), out(make(VM_CA, PE_CA).__class__(raw(fresh(six(make(VM_CA, PE_CA), PL_SIP, PE_DIP)))))))
    answer = udp(PE_DIP, PL_SIP, (4567, 6789), (REMOTE_MAC, ENI_MAC))
    back = Ether(src=REMOTE_MAC, dst=ENI_MAC) / IP(src=PE_CA, dst=VM_CA, id=0) / UDP(sport=4567, dport=6789) / Raw(b"sixteen bytes...")
    steps.append((nvgre(PE_PA, VIP, ENCAP_VNI, answer), to_vm(back)))
    echo = Ether(src=ENI_MAC, dst=REMOTE_MAC) / IP(src=VM_CA, dst=PE_CA) / ICMP(id=7, seq=1) / Raw(b"echo")
    echo6 = Ether(src=ENI_MAC, dst=REMOTE_MAC) / IPv6(src=PL_SIP, dst=PE_DIP, hlim=64) / ICMPv6EchoRequest(id=7, seq=1, data=b"echo")
    steps.append((from_vm(echo), out(echo6)))
    Vector("private_link", "From IPv4 to IPv6 in NVGRE, and back; 96-bit masks; metering as the machine sees it.").step(
        config, *steps
    ).counters(meters={"1586": [58 + 70 + 46, 58]})


def redirect():
    config = base() + private_link() + [
        item("OUTBOUND_PORT_MAP", "map1", guid="600c6ce8-26ab-4193-b946-ccc6e8f93001"),
        item("OUTBOUND_PORT_MAP_RANGE", "map1:8001-9000", action="map_private_link_service", backend_ip="60.60.60.1", backend_port_base=42001),
        mapping(PE_CA, PE_PA, port_map="map1", **PE),
    ]
    steps = []
    backend = "2603:10e1:100:2::3c3c:3c01"
    for port, moved, host, dip in ((8000, 8000, PE_PA, PE_DIP), (8001, 42001, "60.60.60.1", backend), (8500, 42500, "60.60.60.1", backend), (9000, 43000, "60.60.60.1", backend), (9001, 9001, PE_PA, PE_DIP)):
        sent = tcp(VM_CA, PE_CA, "S", (12345, port))
        left = tcp(VM_CA, PE_CA, "S", (12345, moved))
        steps.append((from_vm(sent), nvgre(VIP, host, ENCAP_VNI, fresh(six(left, PL_SIP, dip)), out=True)))
    Vector("private_link_redirect", "Ports of a range go to a backend, others to the endpoint.").step(config, *steps)


def security_group():
    endpoints = ["90.90.90.90", "10.10.10.10"]
    config = base() + private_link() + [
        item("TUNNEL", "tunnel4", endpoints=endpoints, vni=200, encap_type="vxlan"),
        mapping(PE_CA, PE_PA, tunnel="tunnel4", **PE),
    ]
    steps = []
    for port in range(40000, 40020):
        sent = udp(VM_CA, PE_CA, (port, 4567))
        once = nvgre(VIP, PE_PA, ENCAP_VNI, fresh(six(sent, PL_SIP, PE_DIP)), out=True)
        steps.append((from_vm(udp(VM_CA, PE_CA, (port, 4567))), vxlan(VIP, endpoints[0], 200, once, out=True)))
    Vector("private_link_nsg", "A second tunnel around Private Link's, to one of two endpoints.", endpoints=endpoints).step(config, *steps)


def service_tunnel():
    config = base() + [
        item("ROUTING_TYPE", "servicetunnel", items=[
            {"action_name": "a", "action_type": "4_to_6"},
            {"action_name": "b", "action_type": "staticencap", "encap_type": "nvgre", "vni": ENCAP_VNI},
        ]),
        route("50.0.0.0/8", "servicetunnel", overlay_sip="fd00:108:0:d204:0:200::0/ffff:ffff:ffff:ffff:ffff:ffff::",
              overlay_dip="2603:10e1:100:2::0/ffff:ffff:ffff:ffff:ffff:ffff::", underlay_sip="40.1.2.1", underlay_dip="25.3.3.3"),
        route("51.0.0.0/8", "servicetunnel", overlay_sip="fd00:108:0:d204:0:200::0/ffff:ffff:ffff:ffff:ffff:ffff::",
              overlay_dip="2603:10e1:100:2::0/ffff:ffff:ffff:ffff:ffff:ffff::"),
    ]
    steps = []
    for destination, source, host in (("50.1.2.1", "40.1.2.1", "25.3.3.3"), ("51.1.2.1", VIP, "51.1.2.1")):
        last = ipaddress.ip_address(destination).packed.hex()
        dip = f"2603:10e1:100:2::{last[:4]}:{last[4:]}"
        inner = fresh(six(udp(VM_CA, destination), "fd00:108:0:d204:0:200:a00:b", dip))
        steps.append((from_vm(udp(VM_CA, destination)), nvgre(source, host, ENCAP_VNI, inner, out=True)))
    Vector("service_tunnel", "From IPv4 to IPv6 by a route; outer addresses of the route, or the packet's own.").step(config, *steps)


def acl_group(name, *rules, version="ipv4"):
    lines = [item("ACL_GROUP", name, ip_version=version, guid="0f05e1b3-bfe8-4193-b946-ccc6e8f930b2")]
    for number, fields in enumerate(rules, 1):
        lines.append(item("ACL_RULE", f"{name}:{number}", **fields))
    return lines


def acl():
    peer, peer6 = ("10.2.0.8", "fd02::8")
    allow = lambda priority, **fields: dict(priority=priority, action="allow", terminating="false", **fields)
    deny = lambda priority, **fields: dict(priority=priority, action="deny", terminating="true", **fields)
    soft = lambda priority, **fields: dict(priority=priority, action="deny", terminating="false", **fields)
    final = lambda priority, **fields: dict(priority=priority, action="allow", terminating="true", **fields)
    config = base() + [
        route("10.2.0.0/16"), route("fd02::/64"), mapping(peer, "100.0.0.8"), mapping(peer6, "100.0.0.8"),
        item("PREFIX_TAG", "tag1", ip_version="ipv4", prefix_list="10.0.0.11/32,10.0.5.0/24"),
        item("PREFIX_TAG", "tag6", ip_version="ipv6", prefix_list="fd01::11/128,fd01:5::/48"),
        *acl_group(
            "first",
            deny(1, protocol="17", src_addr="10.0.0.0/8", src_port="1"), allow(2, protocol="17", src_port="1"),
            final(3, protocol="17", src_port="2"), deny(4, protocol="17", src_port="2"),
            soft(5, protocol="17", src_port="3"),
            allow(6, protocol="17", src_port="4"),
            allow(7, protocol="6,17", src_tag="tag1", dst_port="8-10,12"),
            soft(8, protocol="17", src_port="5"),
        ),
        *acl_group("second", allow(1, src_port="3"), deny(2, src_port="4"), allow(3, dst_port="8-10,12")),
        *acl_group(
            "six",
            deny(1, dst_addr="fd02::8/128", dst_port="9"), deny(2, src_tag="tag6", dst_port="20-22,24"),
            soft(3, protocol="17", dst_port="30-31"), final(4, protocol="17", dst_port="32"), allow(5),
            version="ipv6",
        ),
        *acl_group("second6", allow(1, dst_port="30"), deny(2, dst_port="32"), allow(3, dst_port="0-29"), version="ipv6"),
        item("ACL_OUT", "eni1:1", v4_acl_group_id="first", v6_acl_group_id="six"),
        item("ACL_OUT", "eni1:3", v4_acl_group_id="second", v6_acl_group_id="second6"),
    ]
    left = lambda inner: to_host("100.0.0.8", 1001, inner)
    cases = [
        ((1, 99), VM_CA, False), ((2, 99), VM_CA, True), ((3, 99), VM_CA, True), ((4, 99), VM_CA, False),
        ((5, 99), VM_CA, False), ((7, 8), VM_CA, True), ((7, 10), VM_CA, True), ((7, 11), VM_CA, False),
        ((7, 12), VM_CA, True), ((7, 8), "10.0.5.9", True), ((7, 8), "10.0.6.9", False),
    ]
    steps = []
    for ports, source, passes in cases:
        sent = udp(source, peer, ports)
        steps.append((from_vm(sent), left(sent) if passes else None))
    cases6 = [
        (9, VM_CA6, False), (10, VM_CA6, True), (21, VM_CA6, False), (24, "fd01:5::9", False), (23, VM_CA6, True),
        (21, "fd01:6::9", True), (30, VM_CA6, True), (31, VM_CA6, False), (32, VM_CA6, True), (33, VM_CA6, False),
    ]
    for port, source, passes in cases6:
        sent = udp(source, peer6, (7, port))
        steps.append((from_vm(sent), left(sent) if passes else None))
    # The list changes while a connection is open: it follows at once.
    open_, more = tcp(VM_CA, peer, "S", (77, 8)), tcp(VM_CA, peer, "A", (77, 8))
    steps.append((from_vm(open_), left(open_)))
    Vector("acl", "Priorities, lists, tags, ranges, soft denials, two stages, IPv6; then rules change in mid-connection.").step(
        config, *steps, (from_vm(more), left(more)),
    ).step(
        [item("ACL_RULE", "first:9", **deny(0, protocol="6", dst_port="8"))], (from_vm(more), None),
    ).step(
        [gone("ACL_RULE", "first:9")], (from_vm(more), None), (from_vm(open_), left(open_)), (from_vm(more), left(more)),
    ).counters(drops={"acl_outbound": 11, "tcp_without_flow": 1})


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


def floating_nic():
    config = base(eni={"eni_mode": "fnic", "trusted_vnis_list": ["800"]}, appliance={"trusted_vnis_list": [100], "outbound_direction_lookup": "dst_mac"}) + private_link() + [
        item("TUNNEL", "tunnel1", endpoints=["40.40.40.40"], vni=100, encap_type="vxlan"),
        item("ROUTING_TYPE", "direct", items=[{"action_name": "a", "action_type": "direct"}]),
        item("ROUTE", "group1:10.0.0.0/16", action_type="direct", tunnel="tunnel1"),
        mapping(PE_CA, PE_PA, **PE), rule(800, f"{VM_PA}/32"), rule(100, f"{PE_PA}/32"),
        item("ROUTE", "group1:fd01::/64", action_type="direct", tunnel="tunnel1"),
        route("fd02::/64"), mapping("fd02::8", "100.0.0.8", mac_address=REMOTE_MAC),
    ]
    sent6, left6 = udp(VM_CA6, "fd02::8", macs=(VM_MAC, ENI_MAC)), udp(VM_CA6, "fd02::8", macs=(ENI_MAC, REMOTE_MAC))
    answer6, back6 = (udp("fd02::8", VM_CA6, (4567, 6789), macs) for macs in ((REMOTE_MAC, ENI_MAC), (ENI_MAC, VM_MAC)))
    sent = udp(VM_CA, PE_CA, macs=(VM_MAC, ENI_MAC))
    left = udp(VM_CA, PE_CA, macs=(ENI_MAC, ENI_MAC))
    answer = udp(PE_DIP, PL_SIP, (4567, 6789), (REMOTE_MAC, ENI_MAC))
    back = Ether(src=ENI_MAC, dst=VM_MAC) / IP(src=PE_CA, dst=VM_CA, id=0) / UDP(sport=4567, dport=6789) / Raw(b"sixteen bytes...")
    Vector("floating_nic", "Outbound packets that come as inbound ones do; answers by the route of the machine.").step(
        config, (from_vm(sent, 800), nvgre(VIP, PE_PA, ENCAP_VNI, fresh(six(left, PL_SIP, PE_DIP)), out=True)),
        (nvgre(PE_PA, VIP, ENCAP_VNI, answer), vxlan(VIP, "40.40.40.40", 100, back, out=True)),
        (from_vm(sent6, 800), to_host("100.0.0.8", 1001, left6)),
        (vxlan("100.0.0.8", VIP, 1001, answer6), vxlan(VIP, "40.40.40.40", 100, back6, out=True)),
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


def over_v6():
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


for make in (vnet, routes, private_link_vector, redirect, security_group, service_tunnel, acl, inbound, mid_connection, metering, trusted, floating_nic, load_balancer, nat_gateway, nat_gateway_v6, over_v6, admission):
    make()
