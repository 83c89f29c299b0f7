"""Vectors of headers around packets: DSCP and congestion marks, tags, lengths, ports of VXLAN, settings."""
from scapy.all import ICMP, IP, UDP, Dot1AD, Dot1Q, Ether, IPv6, Raw, raw
from scapy.layers.inet6 import ICMPv6PacketTooBig

from common import *

NOT_ECT, ECT1, ECT0, CE = range(4)
# RFC 6040, figure 4: by what came outside, and inside; none is dropped.
DECAPSULATED = {
    NOT_ECT: {NOT_ECT: NOT_ECT, ECT0: ECT0, ECT1: ECT1, CE: CE}, ECT0: {NOT_ECT: NOT_ECT, ECT0: ECT0, ECT1: ECT1, CE: CE},
    ECT1: {NOT_ECT: NOT_ECT, ECT0: ECT1, ECT1: ECT1, CE: CE}, CE: {NOT_ECT: None, ECT0: CE, ECT1: CE, CE: CE},
}
OUTSIDE = ("20.69.29.62", "fd20::1")
PEERS = ((VM_CA, "10.2.0.8", "10.3.0.8", "10.4.0.8"), (VM_CA6, "fd02::8", "fd03::8", "fd04::8"))


def roads():
    """Ways out: a network's VXLAN, NVGRE, and both; one in."""
    config = base() + [
        item("TUNNEL", "gre", endpoints=["41.41.41.41"], vni=300, encap_type="nvgre"), rule(1003, "0.0.0.0/0"),
        item("ROUTING_TYPE", "direct", items=[{"action_name": "a", "action_type": "direct"}]),
    ]
    for near, by_gre, by_both in ((("10.2.0.0/16"), "10.3.0.0/16", "10.4.0.0/16"), ("fd02::/64", "fd03::/64", "fd04::/64")):
        config += [route(near), route(by_gre, "direct", tunnel="gre"), route(by_both, tunnel="gre")]
    return config + [mapping(to, "100.0.0.8", mac_address=REMOTE_MAC) for row in PEERS for to in (row[1], row[3])]


def out_by(way, inner, **more):
    """A packet as it leaves by one of them, by its number in `PEERS`."""
    left = to_host("100.0.0.8", 1001, inner, **more) if way != 2 else inner
    return left if way == 1 else nvgre(VIP, "41.41.41.41", 300, left, out=True, **more)


def classed(source, destination, value, macs=(ENI_MAC, REMOTE_MAC), **more):
    """A datagram with DSCP and ECN."""
    return udp(source, destination, macs=macs, header={"tc" if ":" in source else "tos": value}, **more)


def marks(name, about, settings, outer_dscp):
    """What `outer_dscp` makes of a packet's DSCP outside and inside, and congestion marks by RFC 6040. What leaves by
    a direct route has no header but its own, which gets the same (SONiC's HLD, 3.3.6)."""
    steps, congested = [], 0
    config = roads() + [route("20.0.0.0/8", "direct"), route("fd20::/16", "direct")]
    for (own, *peers), stranger in zip(PEERS, OUTSIDE):
        for came, inside in ((came, inside) for came in range(4) for inside in range(4)):
            outside, within, then = 10 << 2 | came, 46 << 2 | inside, DECAPSULATED[came][inside]
            changed, around = (46 << 2 | (then or 0), dict(tos=outer_dscp(10, 46) << 2 | (then or 0)))
            for way, peer in enumerate(peers, 1):
                arrive = (nvgre, vxlan)[way == 1]
                left = out_by(way, classed(own, peer, changed), **around)
                steps.append((arrive(VM_PA, VIP, VM_VNI, classed(own, peer, within), tos=outside), left if then is not None else None))
            plain = Ether(src=DPU_MAC, dst=SWITCH_MAC) / classed(own, stranger, around["tos"]).payload
            steps.append((vxlan(VM_PA, VIP, VM_VNI, classed(own, stranger, within), tos=outside), plain if then is not None else None))
            macs = (REMOTE_MAC, ENI_MAC)
            for arrive in (vxlan, nvgre):
                sent, left = (classed(peers[0], own, value, macs, ports=(9, 9)) for value in (within, changed))
                steps.append((arrive("99.9.9.9", VIP, 1003, sent, tos=outside), to_vm(left, **around) if then is not None else None))
            congested += 6 * (then is None)
    Vector(name, about, settings=settings).step(config, *steps).counters(drops={"congestion": congested})


def dscp_preserve():
    marks("dscp_preserve", "Outer headers keep the DSCP of those that came, and what leaves by a direct route has it, too; congestion marks as RFC 6040 says; VXLAN, NVGRE and both.", None, lambda outside, inside: outside)


def dscp_uniform():
    marks("dscp_uniform", "Outer headers have the inner DSCP, which what leaves by a direct route keeps; congestion marks as RFC 6040 says.", {"dscp": "uniform"}, lambda outside, inside: inside)


def dscp_pipe():
    marks("dscp_pipe", "Outer headers have one DSCP, and what leaves by a direct route, too; congestion marks as RFC 6040 says.", {"dscp": "pipe", "pipe_dscp": 20}, lambda outside, inside: 20)


MTU = 1500


def overhead(*tunnels):
    """Bytes around an inner IP packet: its Ethernet header, the tunnel's, the outer IP header, for each tunnel."""
    outside = 20 if UNDERLAY["version"] == 4 else 40
    return sum(14 + {"vxlan": 16, "nvgre": 8}[tunnel] + outside for tunnel in tunnels)


def sized(source, destination, total, ports, macs=(ENI_MAC, REMOTE_MAC), fragments=False):
    """A datagram in an IP packet of so many bytes."""
    is_v4 = ":" not in source
    header = dict(flags=0 if fragments else "DF") if is_v4 else {}
    return udp(source, destination, ports, macs, bytes(total - (28 if is_v4 else 48)), header)


def too_long(inner, mtu):
    """What its sender is told (RFC 1191, RFC 8201): of the packet as much as fits into 576 bytes of IPv4 (RFC
    1812), or into 1280 of IPv6 (RFC 4443). The DPU has no address inside: it speaks for the destination."""
    frame = Ether(src=inner.dst, dst=inner.src)
    if IP in inner:
        about = Raw(raw(inner[IP])[:576 - 28])
        return frame / IP(src=inner[IP].dst, dst=inner[IP].src, id=0) / ICMP(type=3, code=4, nexthopmtu=mtu) / about
    about = Raw(raw(inner[IPv6])[:1280 - 48])
    return frame / IPv6(src=inner[IPv6].dst, dst=inner[IPv6].src) / ICMPv6PacketTooBig(mtu=mtu) / about


def lengths(fragments):
    """Packets that just fit and such that are a byte too long, by each way; in both directions."""
    ways, ports = (("vxlan",), ("nvgre",), ("vxlan", "nvgre")), iter(range(1, 1000))
    for own, *peers in PEERS:
        if fragments and ":" in own:
            continue
        for way, peer in enumerate(peers, 1):
            fits = MTU - overhead(*ways[way - 1])
            inner = sized(own, peer, fits, (next(ports), 1), fragments=fragments)
            yield from_vm(inner), out_by(way, inner)
            inner = sized(own, peer, fits + 1, (next(ports), 1), fragments=fragments)
            yield from_vm(inner), to_vm(too_long(inner, fits))
        for arrive in (vxlan, nvgre):
            fits, macs = MTU - overhead("vxlan"), (REMOTE_MAC, ENI_MAC)
            inner = sized(peers[0], own, fits, (next(ports), 1), macs, fragments)
            yield arrive("99.9.9.9", VIP, 1003, inner), to_vm(inner)
            inner = sized(peers[0], own, fits + 1, (next(ports), 1), macs, fragments)
            yield arrive("99.9.9.9", VIP, 1003, inner), arrive(VIP, "99.9.9.9", 1003, too_long(inner, fits), out=True)


def linked_lengths():
    """Of IPv4 that becomes IPv6 the difference of headers is taken off, too."""
    fits = MTU - overhead("nvgre") - 20
    inner = sized(VM_CA, PE_CA, fits, (1, 1))
    yield from_vm(inner), linked(PL_SIP, PE_DIP, inner)
    inner = sized(VM_CA, PE_CA, fits + 1, (2, 1))
    yield from_vm(inner), to_vm(too_long(inner, fits))


def mtu():
    config = roads() + private_link()[:1] + [mapping(PE_CA, PE_PA, **PE)]
    steps = [*lengths(False), *linked_lengths()]
    Vector("mtu", "Packets that just fit into the underlay's packets, and such that do not: their senders are told, and how much would have fitted; one tunnel and two, both directions.", settings={"mtu": MTU}).step(
        config, *steps,
    ).counters(drops={"too_long": len(steps) // 2})


def mtu_without_df():
    """Nobody fragments inner packets: the sender of one that routers may fragment is told, too."""
    Vector("mtu_without_df", "IPv4 packets that may be fragmented and are too long: their senders are told.", settings={"mtu": MTU}).step(
        roads(), *lengths(True), (from_vm(udp(VM_CA6, "fd02::8")), to_host("100.0.0.8", 1001, udp(VM_CA6, "fd02::8"))),
    )


def tagged(inner, *tags):
    """A frame with tags behind its MAC addresses."""
    frame = Ether(src=inner.src, dst=inner.dst)
    for tag in tags:
        frame = frame / tag
    return frame / inner.payload.copy()


TAGS = (Dot1Q(vlan=7, prio=3),), (Dot1AD(vlan=8), Dot1Q(vlan=7))


def inner_tags(passes):
    macs = (REMOTE_MAC, ENI_MAC)
    for own, peer, *_ in PEERS:
        for number, tags in enumerate(TAGS):
            sent, left = (tagged(udp(own, peer, (1, number), mac), *tags) for mac in ((ENI_MAC, VM_MAC), (ENI_MAC, REMOTE_MAC)))
            yield from_vm(sent), to_host("100.0.0.8", 1001, left) if passes else None
            question = tagged(udp(peer, own, (2, number), macs), *tags)
            yield from_host("99.9.9.9", 1003, question), to_vm(question) if passes else None
        bare = udp(own, peer, (9, 9))
        yield from_vm(bare), to_host("100.0.0.8", 1001, bare)


def inner_vlan():
    Vector("inner_vlan", "Frames with VLAN tags inside are dropped (RFC 7348, section 6.1).").step(roads(), *inner_tags(False)).counters(drops={"inner_malformed": 8})


def inner_vlan_passes():
    """Behind a direct route there is no tunnel any more: the machine's tags would be the underlay's."""
    config = roads() + [route("10.5.0.0/16", "direct"), route("fd05::/64", "direct")]
    steps = list(inner_tags(True))
    for (own, *_), bare in zip(PEERS, ("10.5.0.1", "fd05::1")):
        for number, tags in enumerate(TAGS):
            inner = udp(own, bare, (3, number))
            steps.append((from_vm(tagged(inner, *tags)), Ether(src=DPU_MAC, dst=SWITCH_MAC) / inner.payload))
    Vector("inner_vlan_passes", "Frames with VLAN tags inside pass with them, one and two; by a direct route without.", settings={"inner_vlan": True}).step(config, *steps)


def outer_vlan():
    """The link's tags are those of its network: what leaves by it has them, too."""
    steps = []
    config = roads() + [route("10.5.0.0/16", "direct"), route("fd05::/64", "direct")]
    for (own, *peers), bare in zip(PEERS, ("10.5.0.1", "fd05::1")):
        for number, tags in enumerate(TAGS):
            for way, peer in enumerate(peers, 1):
                inner = udp(own, peer, (1, number))
                steps.append((tagged(from_vm(inner), *tags), tagged(out_by(way, inner), *tags)))
            question = udp(peers[0], own, (2, number), (REMOTE_MAC, ENI_MAC))
            steps.append((tagged(from_host("99.9.9.9", 1003, question), *tags), tagged(to_vm(question), *tags)))
            inner = udp(own, bare, (1, number))
            steps.append((tagged(from_vm(inner), *tags), tagged(Ether(src=DPU_MAC, dst=SWITCH_MAC) / inner.payload, *tags)))
    Vector("outer_vlan", "Tags of the underlay, one and two, stay on what leaves.").step(config, *steps)


def switch(**fields):
    return {"SWITCH_TABLE:switch": fields, "OP": "SET"}


def vxlan_source_ports():
    """Seven low bits of the source port follow from the inner flow; others are not listened to, until they are."""
    config = roads() + [switch(vxlan_sport=32768, vxlan_mask=7, vxlan_security="true")]
    sent = lambda own, peer, port, source, passes=True: (
        from_vm(udp(own, peer, (port, 1)), ports=(source, 4789)), to_host("100.0.0.8", 1001, udp(own, peer, (port, 1))) if passes else None,
    )
    steps, later = [], []
    for own, peer, by_gre, _ in PEERS:
        steps += [sent(own, peer, port, 32768 + port) for port in (0, 1, 50, 127)]
        steps += [sent(own, peer, 200, 32896, False), sent(own, peer, 201, 32767, False), sent(own, peer, 202, 50000, False)]
        inner = udp(own, by_gre, (3, 3))
        steps.append((nvgre(VM_PA, VIP, VM_VNI, inner), out_by(2, inner)))
        later += [sent(own, peer, 202, 50000), sent(own, peer, 203, 32768)]
    Vector("vxlan_source_ports", "VXLAN's source ports: those of what leaves, and of what may come; then all may.", source_ports=[32768, 32895]).step(config, *steps).step(
        [switch(vxlan_security="false")], *later,
    ).counters(device={"drops": {"vxlan_source_port": 6}})


def vxlan_port():
    config, steps = roads() + [switch(vxlan_port=4790)], []
    at = lambda port: dict(ports=(50000, port))
    for own, peer, *_ in PEERS:
        inner, question = udp(own, peer), udp(peer, own, (5, 5), (REMOTE_MAC, ENI_MAC))
        steps += [
            (from_vm(inner, **at(4790)), to_host("100.0.0.8", 1001, inner, **at(4790))), (from_vm(inner), None),
            (from_host("99.9.9.9", 1003, question, **at(4790)), to_vm(question, **at(4790))),
        ]
    Vector("vxlan_port", "VXLAN at another port than 4789, there and back.", vxlan_port=4790).step(config, *steps).counters(device={"drops": {"not_encapsulated": 2}})


ONE_PORT = switch(vxlan_sport=50000, vxlan_mask=0)


def udp_checksums():
    """With one source port all of the outer headers is known, so checksums count: 0 over IPv4, as RFC 7348 wants."""
    steps = []
    for own, peer, *_ in PEERS:
        inner, question = udp(own, peer), udp(peer, own, (5, 5), (REMOTE_MAC, ENI_MAC))
        steps += [(from_vm(inner), to_host("100.0.0.8", 1001, inner)), (from_host("99.9.9.9", 1003, question), to_vm(question))]
    Vector("udp_checksums", "UDP checksums of VXLAN, from a source port that no flow changes.", ignore=["outer.flow_label"], source_ports=[50000, 50000]).step(
        roads() + [ONE_PORT], *steps,
    )


def settings():
    """What operators may want otherwise: outer headers, and three ways to be less strict."""
    stations = dict(src="02:00:00:00:00:22", dst="02:00:00:00:00:11")
    config = roads() + acl_group("none", version="ipv4") + acl_group("none6", version="ipv6") + [
        item("ACL_OUT", "eni1:1", v4_acl_group_id="none", v6_acl_group_id="none6"), ONE_PORT,
    ]

    def left(packet):
        packet[Ether].src, packet[Ether].dst = stations["src"], stations["dst"]
        setattr(packet.payload, "ttl" if IP is type(packet.payload) else "hlim", 9)
        if UDP is type(packet.payload.payload):
            packet.payload.payload.chksum = 0
        return packet

    steps = []
    for own, peer, by_gre, _ in PEERS:
        stray, answer = tcp(own, peer, "A"), tcp(peer, own, "A", (4567, 6789), (REMOTE_MAC, ENI_MAC))
        inner = udp(own, by_gre)
        steps += [
            (vxlan("25.1.1.9", VIP, VM_VNI, stray), left(to_host("100.0.0.8", 1001, stray))),
            # It has opened nothing.
            (from_host("100.0.0.8", 1001, answer), None),
            (from_vm(inner), left(out_by(2, inner))),
        ]
    Vector(
        "settings", "MAC addresses, TTL and UDP checksums of outer headers; segments of no connection, access lists without rules and other hosts of the machine do not matter.",
        settings={"underlay_mac": stations["src"], "next_hop_mac": stations["dst"], "ttl": 9, "udp_checksum_v6": False, "stray_tcp": "judge", "empty_acl_denies": False, "check_outbound_source": False},
        ignore=["outer.flow_label"],
    ).step(config, *steps).counters(drops={"inbound_route_miss": 2})


VECTORS = (
    dscp_preserve, dscp_uniform, dscp_pipe, mtu, mtu_without_df, inner_vlan, inner_vlan_passes, outer_vlan, vxlan_source_ports, vxlan_port,
    udp_checksums, settings,
)
