#!/usr/bin/env python3
"""Writes vectors.txt: encapsulated frames as scapy builds them.

    pip install scapy==2.6.1 && python3 vectors.py > vectors.txt

One frame a line: a name, the bytes of the inner frame and those of the outer one as hexadecimal digits.
Lines that begin with "translate" have an IPv4 frame and the same packet in IPv6.
"""
from scapy.all import GRE, ICMP, IP, TCP, UDP, Dot1Q, Ether, IPv6, Raw, raw
from scapy.layers.inet6 import ICMPv6EchoReply, ICMPv6EchoRequest, IPv6ExtHdrFragment
from scapy.layers.vxlan import VXLAN

INNER = dict(src="f4:93:9f:ef:c4:7e", dst="43:be:65:25:fa:67")
OUTER = dict(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
V4 = dict(src="10.1.0.5", dst="101.1.2.3", ttl=64, flags="DF", id=0, tos=0xB9)
V6 = dict(src="fd00::1", dst="2601:12:7a:1::1234", hlim=64, tc=0xB9, fl=0x12345)
PORTS = dict(sport=6789, dport=4567)


def content(length):
    return Raw(bytes((7 * at + 3) % 251 for at in range(length)))


def inners():
    v4, v6 = IP(src="10.0.0.11", dst="10.2.0.100", tos=1), IPv6(src="fd01::11", dst="fd01::100", tc=1)
    for length in (0, 1, 18, 701):
        body = content(length)
        yield f"udp4_{length}", Ether(**INNER) / v4 / UDP(**PORTS) / body
        yield f"tcp4_{length}", Ether(**INNER) / v4 / TCP(**PORTS, flags="S", seq=7) / body
        yield f"udp6_{length}", Ether(**INNER) / v6 / UDP(**PORTS) / body
        yield f"tcp6_{length}", Ether(**INNER) / v6 / TCP(**PORTS, flags="SA", seq=7, ack=9) / body
    yield "tagged", Ether(**INNER) / Dot1Q(vlan=5) / v4 / UDP(**PORTS) / content(9)
    yield "echo", Ether(**INNER) / v4 / ICMP(id=7, seq=1) / content(9)


def vxlan(network, vni, inner, checksum=None):
    udp = UDP(sport=0xC123, dport=4789, chksum=checksum)
    # Without this scapy derives a source port and binds nothing else.
    return Ether(**OUTER) / network / udp / VXLAN(flags=0x08, vni=vni) / inner


def nvgre(network, vsid, flow, inner):
    gre = GRE(key_present=1, proto=0x6558, key=vsid << 8 | flow)
    return Ether(**OUTER) / network / gre / inner


def show(name, inner, outer):
    print(name, raw(inner).hex(), raw(outer).hex())


for name, inner in inners():
    show(f"vxlan_v4_{name}", inner, vxlan(IP(**V4), 0xABCDEF, inner, 0))
    show(f"vxlan_v6_{name}", inner, vxlan(IPv6(**V6), 0xABCDEF, inner))
    show(f"nvgre_v4_{name}", inner, nvgre(IP(**V4), 100, 0, inner))
    show(f"nvgre_v6_{name}", inner, nvgre(IPv6(**V6), 100, 0x5A, inner))
    # Private Link by way of an appliance: NVGRE inside VXLAN.
    once = nvgre(IP(**V4), 100, 0, inner)
    show(f"twice_v4_{name}", inner, vxlan(IP(**V4), 0xABCDEF, once, 0))

TO_V4, TO_V6 = dict(src="10.0.0.11", dst="10.2.0.100"), dict(
    src="fd41:108:20:d107:64:ff71:a00:b", dst="2603:10e1:100:2::3401:203"
)


def translate(name, body4, body6, **more):
    four, six = IP(**TO_V4, ttl=63, tos=0xB9, id=0, **more), IPv6(**TO_V6, hlim=63, tc=0xB9)
    print(
        f"translate_{name}",
        raw(Ether(**INNER) / four / body4).hex(),
        raw(Ether(**INNER) / six / body6).hex(),
    )


for length in (0, 1, 18, 701):
    body = content(length)
    translate(f"udp_{length}", UDP(**PORTS) / body, UDP(**PORTS) / body)
    translate(f"tcp_{length}", TCP(**PORTS, flags="S", seq=7) / body, TCP(**PORTS, flags="S", seq=7) / body)
    translate(f"request_{length}", ICMP(type=8, id=7, seq=1) / body, ICMPv6EchoRequest(id=7, seq=1, data=bytes(body)))
    translate(f"reply_{length}", ICMP(type=0, id=7, seq=1) / body, ICMPv6EchoReply(id=7, seq=1, data=bytes(body)))
long = content(1400)
translate("long", UDP(**PORTS) / long, UDP(**PORTS) / long, flags="DF")
# Fragments: the UDP checksum is that of the whole datagram, and stays what it is.
whole4 = raw(IP(**TO_V4) / UDP(**PORTS) / content(600))[20:]
whole6 = raw(IPv6(**TO_V6) / UDP(**PORTS) / content(600))[40:]
for name, offset, end, more in (("first", 0, 400, 1), ("later", 400, 608, 0)):
    four = IP(**TO_V4, ttl=63, tos=0xB9, id=0x1234, proto=17, flags="MF" if more else 0, frag=offset // 8)
    six = IPv6(**TO_V6, hlim=63, tc=0xB9) / IPv6ExtHdrFragment(nh=17, offset=offset // 8, m=more, id=0x1234)
    print(
        f"translate_{name}",
        raw(Ether(**INNER) / four / Raw(whole4[offset:end])).hex(),
        raw(Ether(**INNER) / six / Raw(whole6[offset:end])).hex(),
    )
