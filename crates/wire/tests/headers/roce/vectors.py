#!/usr/bin/env python3
"""Writes vectors.txt: frames as scapy's RoCE layer builds them, with the ICRC that it computes.

    pip install scapy==2.8.0 && python3 vectors.py > vectors.txt

One frame a line: a name, then all bytes as hexadecimal digits. The last two are not ours: scapy's own
tests have them, the first from a ConnectX-4 Lx.
"""
from scapy.all import Dot1Q, Ether, IP, IPv6, Raw, UDP, load_contrib, raw

load_contrib("roce")
from scapy.contrib.roce import AETH, BTH, opcode  # noqa: E402

MACS = dict(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
V4 = IP(src="10.0.0.1", dst="10.0.0.2", ttl=64, flags="DF", id=0)
V6 = IPv6(src="fd00::1", dst="fd00::2", hlim=64)
# What routers on the way may change, and the ICRC must not see.
MARKED_V4 = IP(src="10.0.0.1", dst="10.0.0.2", ttl=7, flags="DF", tos=0xBB, id=7)
MARKED_V6 = IPv6(src="fd00::1", dst="fd00::2", hlim=7, tc=0xBB, fl=0x12345)
ADDRESS, RKEY = 0x1122334455667788, 0xCAFE0102
IMMEDIATE = bytes([0xA1, 0xA2, 0xA3, 0xA4])


def reth(length):
    return ADDRESS.to_bytes(8, "big") + RKEY.to_bytes(4, "big") + length.to_bytes(4, "big")


def content(length):
    return bytes((7 * at + 3) % 251 for at in range(length))


def show(name, frame):
    print(name, raw(frame).hex())


def frame(network, op, body, pad=0, **fields):
    udp = UDP(sport=0xC123, dport=4791, chksum=0)
    # A flag for FECN or BECN is masked, and so are the reserved bits beside them. Cards set "migrated".
    bth = BTH(opcode=opcode("RC", op)[0], migreq=1, padcount=pad, dqpn=0x123456, psn=0xABCDEF, **fields)
    lower = {
        "v4": V4,
        "v6": V6,
        "vlan": Dot1Q(vlan=5) / V4,
        "marked_v4": MARKED_V4,
        "marked_v6": Dot1Q(vlan=5) / MARKED_V6,
    }
    return Ether(**MACS) / lower[network] / udp / bth / body


def aeth(syndrome):
    return AETH(syndrome=syndrome, msn=0x010203)


for network in ["v4", "v6", "vlan", "marked_v4", "marked_v6"]:
    for length in [0, 1, 2, 3, 64, 701]:
        pad = -length % 4
        padded = content(length) + bytes(pad)
        body = Raw(reth(length) + padded)
        show(f"{network}_write_only_{length}", frame(network, "RDMA_WRITE_ONLY", body, pad, ackreq=1))
        show(f"{network}_read_response_only_{length}",
             frame(network, "RDMA_READ_RESPONSE_ONLY", aeth(0x1F) / Raw(padded), pad))
    whole = Raw(content(256))
    show(f"{network}_write_first", frame(network, "RDMA_WRITE_FIRST", Raw(reth(700) + content(256))))
    show(f"{network}_write_middle", frame(network, "RDMA_WRITE_MIDDLE", whole))
    show(f"{network}_write_last", frame(network, "RDMA_WRITE_LAST", whole, ackreq=1, solicited=1))
    show(f"{network}_write_last_immediate",
         frame(network, "RDMA_WRITE_LAST_WITH_IMMEDIATE", Raw(IMMEDIATE + content(8)), ackreq=1))
    show(f"{network}_write_only_immediate",
         frame(network, "RDMA_WRITE_ONLY_WITH_IMMEDIATE", Raw(reth(8) + IMMEDIATE + content(8)), ackreq=1))
    show(f"{network}_read_request", frame(network, "RDMA_READ_REQUEST", Raw(reth(4096)), ackreq=1))
    show(f"{network}_read_response_first", frame(network, "RDMA_READ_RESPONSE_FIRST", aeth(0x1F) / whole))
    show(f"{network}_read_response_middle", frame(network, "RDMA_READ_RESPONSE_MIDDLE", whole))
    show(f"{network}_congested", frame(network, "RDMA_READ_RESPONSE_MIDDLE", whole, fecn=1, becn=1))
    show(f"{network}_read_response_last", frame(network, "RDMA_READ_RESPONSE_LAST", aeth(0x1F) / whole))
    for syndrome in [0x1F, 0x20, 0x60, 0x61, 0x62, 0x63, 0x64]:
        show(f"{network}_acknowledge_{syndrome:02x}", frame(network, "ACKNOWLEDGE", aeth(syndrome)))

captured = "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201000012b7002800008100ffff40000118"
print("captured_cnp", captured + "00" * 20 + "82fd002a")
uc = (Ether(dst="24:8a:07:a8:fa:22", src="24:8a:07:a8:fa:22")
      / IP(tos=1, id=1144, flags="DF", ttl=64, src="192.168.0.7", dst="192.168.0.7", len=64)
      / UDP(sport=49152, dport=4791, len=44)
      / BTH(opcode="UC_SEND_ONLY", migreq=1, padcount=2, pkey=0xFFFF, dqpn=211, psn=13571856)
      / Raw(bytes.fromhex("4630818be28935d90e9a95505401be885e500000")))
assert raw(uc)[-4:].hex() == "78f353f3"
show("uc_send_only", uc)
