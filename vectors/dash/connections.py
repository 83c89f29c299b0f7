"""Vectors of connections: limits, ends, fragments, redirects, what is counted."""
import struct

from scapy.all import ICMP, IP, TCP, Ether, IPv6, Raw, raw
from scapy.layers.inet6 import ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6Unknown, IPv6ExtHdrFragment

from common import *

PEERS = ((VM_CA, "10.2.0.8"), (VM_CA6, "fd02::8"))
HOST = "100.0.0.8"
IN = (REMOTE_MAC, ENI_MAC)


def peers_of(group="group1", vnet="Vnet1"):
    """Routes and mappings to a peer of each IP version."""
    return [route("10.2.0.0/16", group=group, vnet=vnet), route("fd02::/64", group=group, vnet=vnet)]


def mappings(host=HOST, vnet="Vnet1"):
    return [mapping(peer, host, vnet, mac_address=REMOTE_MAC) for _, peer in PEERS]


def sent(inner):
    """A frame before the mapping has said the MAC address of its destination."""
    frame = Ether(raw(inner))
    frame.dst = VM_MAC
    return from_vm(frame)


def goes(inner, host=HOST, vni=1001):
    return sent(inner), to_host(host, vni, inner)


def comes(inner, host=HOST, vni=1001):
    return from_host(host, vni, inner), to_vm(inner)


def lost(packets):
    return packets[0], None


def at(packets, time):
    return *packets, time


def limits():
    """The generic cell rate algorithm: what has passed would, at the limit, take until a time that lies ahead of
    now by no more than a burst. That of connections is 100 ms, that of bytes a setting. A connection at 10 a second
    takes 100 ms, a frame of 1000 bytes at 800 kbit/s 10 ms."""
    config = base(eni={"qos": "fast"}) + peers_of() + mappings() + second_eni() + peers_of("group2") + [
        item("QOS", "fast", qos_id="fast", bw=0, cps=10, flows=0),
    ]
    sequence = ((0, True), (10, True), (20, False), (30, False), (400, True), (410, True), (420, False))
    first, second, third = [], [], []
    for turn, ends in enumerate(PEERS):
        begin = 2 * turn
        syn = lambda port, macs=(ENI_MAC, REMOTE_MAC): tcp(*ends, "S", (port, 80), macs)
        for offset, passes in sequence:
            time = begin + offset / 1000
            # Those that no route covers, and those of a neighbour, take nothing from it.
            lonely = udp(ends[0], "10.9.0.1" if turn == 0 else "fd09::1", (offset, 1))
            first += [at(lost((from_vm(lonely),)), time), at(goes(syn(offset)) if passes else lost(goes(syn(offset))), time + 0.001)]
            first.append(at(goes(syn(offset, (ENI2_MAC, REMOTE_MAC))), time + 0.002))
        # An open connection opens nothing.
        first.append(at(goes(tcp(*ends, "A", (0, 80))), begin + 0.43))
        frame = lambda port, macs=(ENI_MAC, REMOTE_MAC): udp(*ends, (port, 2), macs, bytes(1000 - (42 if turn == 0 else 62)))
        back = lambda port, macs=IN: udp(ends[1], ends[0], (2, port), macs, bytes(1000 - (42 if turn == 0 else 62)))
        # Both directions together: 23 ms may be ahead.
        for offset, packet, passes in ((0, goes(frame(5)), True), (1, comes(back(5)), True), (2, goes(frame(5)), True), (3, goes(frame(5)), False), (4, comes(back(5)), False), (200, comes(back(5)), True), (201, goes(frame(5)), True)):
            second.append(at(packet if passes else lost(packet), begin + offset / 1000))
            if offset == 3:
                second.append(at(goes(frame(5, (ENI2_MAC, REMOTE_MAC))), begin + 0.0035))
        # Two flows of each IP version at once; those that have ended make room.
        for offset, port, passes in ((0, 1, True), (10, 2, True), (20, 3, False), (30, 1, True), (20_000, 3, True)):
            packet = goes(udp(*ends, (port, 7)))
            third.append(at(packet if passes else lost(packet), 40 * turn + offset / 1000))
        third.append(at(goes(udp(*ends, (3, 7), (ENI2_MAC, REMOTE_MAC))), 40 * turn + 20.1))
    Vector("limits", "Connections a second, bandwidth, and flows of an ENI; its neighbour has no limits.", settings={"burst": "23ms", "udp_idle": "5s", "tcp_transitory_idle": "2s"}).step(
        config, *first,
    ).step([item("QOS", "fast", qos_id="fast", bw=800, cps=0, flows=0)], *second).step(
        [item("QOS", "fast", qos_id="fast", bw=0, cps=0, flows=2)], (*comes(udp("10.2.0.8", VM_CA, (2, 5), IN)), 0), *((came, left, time + 20) for came, left, time in third),
    ).counters(
        drops={"route_miss": 14, "connection_rate": 6, "bandwidth": 4, "flow_limit": 2}, counters={"FLOW_CREATE_FAILED": 8},
        enis={"eni2": {"drops": {}, "counters": {"FLOW_CREATE_FAILED": 0}}},
    )


class Timeline:
    """Packets that are sent in the order of their times."""

    def __init__(self):
        self.packets = []

    def add(self, time, packet, passes=True):
        self.packets.append(at(packet if passes else lost(packet), time))

    def sorted(self):
        return sorted(self.packets, key=lambda packet: packet[2])


def ping(own, peer, is_reply=False):
    """An echo from a machine, or its reply."""
    source, destination, macs = (peer, own, IN) if is_reply else (own, peer, (ENI_MAC, REMOTE_MAC))
    if ":" in own:
        message = (ICMPv6EchoReply if is_reply else ICMPv6EchoRequest)(id=7, seq=1, data=b"echo")
        return Ether(src=macs[0], dst=macs[1]) / IPv6(src=source, dst=destination) / message
    return echo(source, destination, 7, macs, "echo-reply" if is_reply else "echo-request")


def ends():
    """Times are far from where they would matter: 20 s for what is open, 2 s for what is opened or ended, 5 s for
    UDP, 3 s for others. What has ended itself counts as deleted, and all else as aged when the last packets come."""
    line, idle = Timeline(), {"tcp_idle": "20s", "tcp_transitory_idle": "2s", "udp_idle": "5s", "other_idle": "3s"}
    for turn, (own, peer) in enumerate(PEERS):
        start = turn / 100

        def segment(time, port, flags, passes=True, is_back=False):
            inner = tcp(peer, own, flags, (80, port), IN) if is_back else tcp(own, peer, flags, (port, 80))
            line.add(start + time, (comes if is_back else goes)(inner), passes)

        def opened(port, time=0):
            segment(time, port, "S")
            segment(time + 0.001, port, "SA", is_back=True)
            segment(time + 0.002, port, "A")

        # Open and idle for long; never answered; reset by the other end; one end is done; both are, and a new
        # connection takes the place; both are, and nothing follows.
        for port in (1, 3, 4, 5, 6):
            opened(port)
        segment(10, 1, "A")
        segment(50, 1, "A", False)
        segment(0, 2, "S")
        segment(10, 2, "A", False)
        segment(0.1, 3, "R", is_back=True)
        segment(0.5, 3, "A")
        segment(8, 3, "A", False)
        segment(0.1, 4, "FA")
        segment(10, 4, "A", is_back=True)
        segment(12, 4, "FA", is_back=True)
        segment(12.1, 4, "A")
        segment(20, 4, "A", False)
        for port in (5, 6):
            segment(0.1, port, "FA")
            segment(0.2, port, "FA", is_back=True)
            segment(0.3, port, "A")
        opened(5, 0.4)
        segment(10, 5, "A")
        segment(10, 6, "A", False)
        datagram, back = udp(own, peer, (7, 53)), udp(peer, own, (53, 7), IN)
        line.add(start, goes(datagram))
        line.add(start + 3, comes(back))
        line.add(start + 15, comes(back), False)
        line.add(start, goes(ping(own, peer)))
        line.add(start + 1, comes(ping(own, peer, True)))
        line.add(start + 10, comes(ping(own, peer, True)), False)
    Vector("ends", "Connections end by time, resets and last segments of both ends; a new one takes the place at once.", settings=idle).step(
        base() + peers_of() + mappings(), *line.sorted(),
    ).counters(drops={"tcp_without_flow": 10, "inbound_route_miss": 4}, counters={"FLOW_CREATED": 18, "FLOW_DELETED": 8, "FLOW_AGED": 10})


def pieces(source, destination, identification, macs=(ENI_MAC, REMOTE_MAC), ports=(6, 7)):
    """A datagram in three fragments."""
    whole = udp(source, destination, ports, macs, bytes(range(64)))
    layer = IPv6 if IPv6 in whole else IP
    payload, frames = raw(whole[layer].payload), []
    for offset in (0, 24, 48):
        part, more = payload[offset:offset + 24], offset < 48
        if offset == 48:
            part = payload[48:]
        frame = Ether(src=macs[0], dst=macs[1])
        if layer is IPv6:
            header = IPv6(src=source, dst=destination, nh=44) / IPv6ExtHdrFragment(nh=17, offset=offset // 8, m=int(more), id=identification)
        else:
            header = IP(src=source, dst=destination, id=identification, flags="MF" if more else 0, frag=offset // 8, proto=17)
        frames.append(frame / header / Raw(part))
    return frames


def fragments():
    """The first one decides; what comes before it, or five seconds after it, belongs to none."""
    rules = [dict(priority=1, action="allow", protocol="17", src_port="6")]
    config = base() + peers_of() + mappings() + acl_group("list", *rules) + acl_group("list6", *rules, version="ipv6")
    config.append(item("ACL_OUT", "eni1:1", v4_acl_group_id="list", v6_acl_group_id="list6"))
    packets = []
    for turn, (own, peer) in enumerate(PEERS):
        start, ours, other, answer = 20 * turn, pieces(own, peer, 7), pieces(own, peer, 8), pieces(peer, own, 9, IN, (7, 6))
        packets += [at(lost(goes(ours[1])), start), *(at(goes(frame), start + 0.01) for frame in ours), at(lost(goes(other[1])), start + 0.02)]
        packets += [at(goes(other[0]), start + 0.03), at(goes(other[2]), start + 0.04), at(goes(ours[2]), start + 0.05)]
        # The access list lets ports of the others pass.
        packets += [at(lost(goes(frame)), start + 0.1) for frame in pieces(own, peer, 10, ports=(16, 7))]
        # Answers of the same flow: the ports are the other way round.
        packets += [at(lost(comes(answer[1])), start + 0.06), *(at(comes(frame), start + 0.07) for frame in answer), at(lost(goes(ours[1])), start + 15)]
    packets.sort(key=lambda packet: packet[2])
    Vector("fragments", "Fragments inside follow the first one of their datagram, and are dropped if it is, or if it came late or long ago.").step(config, *packets)


MACHINE, MACHINE_MAC = "100.0.0.20", "02:00:00:00:00:33"
# From where balancers send redirects, and with which keys: about packets that left without a tunnel, or in one.
MUX, PUBLIC_KEY, PRIVATE_KEY = "100.0.1.9", 253, 254
# What redirects tell a key of: it counts where packets left without a tunnel.
TOLD_KEY = 256


def details(host):
    """Version, address family, NVGRE, its key, the machine's host and MAC address."""
    host = ipaddress.ip_address(host)
    family = 2 if host.version == 4 else 10
    return struct.pack("!IHHI", 1, family, 1, TOLD_KEY) + host.packed + bytes.fromhex(MACHINE_MAC.replace(":", ""))


def redirect(segment, host=None, macs=IN):
    """What a balancer says of a segment that it got ("fast path ICMP flow redirection"): an ICMP redirect between
    the segment's addresses, with the tunnel behind the segment's header, its ports and its sequence number."""
    told = details(host or under(MACHINE))
    frame, header = Ether(src=macs[0], dst=macs[1]), segment.payload
    source, destination = header.src, header.dst
    if IP in segment:
        about = raw(header)[:28]
        return frame / IP(src=source, dst=destination) / ICMP(type=5, code=1, gw=destination) / Raw(about + told)
    about = raw(header)[:48]
    target = ipaddress.ip_address(destination).packed
    message = bytes(4) + target + target + bytes([4, 7]) + bytes(6) + about + told
    return frame / IPv6(src=source, dst=destination) / ICMPv6Unknown(type=137, msgbody=message)


def told(inner, host=MUX, key=PRIVATE_KEY):
    """A redirect as it comes, which no machine gets."""
    return nvgre(host, VIP, key, inner), None


def balanced():
    """Whoever lists the keys of redirects says that balancers alone send with them."""
    return base(appliance={"trusted_vnis_list": [PUBLIC_KEY, PRIVATE_KEY, TOLD_KEY, 1001]})


def straight(inner):
    """What the machine gets from its peer without a balancer in between."""
    left = Ether(raw(inner))
    left.dst = MACHINE_MAC
    return left


def moved(inner):
    """Straight to the machine, in the tunnel of before."""
    return sent(inner), to_host(MACHINE, 1001, straight(inner))


def fast_path():
    """The document's internal load balancer: "maintain the VxLan encap from pre-fastpath flow", "VNI doesn't change". A
    redirect reaches no machine; another ENI does not listen, and its machine gets it as any other ICMP message. Then
    the mapping changes: what was moved is not resimulated, new connections follow."""
    steps, later, deaf = [], [], "disable_fast_path_icmp_flow_redirection"
    config = balanced() + peers_of() + mappings() + second_eni(**{deaf: "true"}) + peers_of("group2")
    # ICMPv6's redirects quote a packet in an option, so that policies judge them like any other message.
    config.append(rule(PRIVATE_KEY, "100.0.1.0/24", eni="eni2"))
    for own, peer in PEERS:
        syn, ack = tcp(own, peer, "S"), tcp(own, peer, "A")
        answer = tcp(peer, own, "SA", (4567, 6789), IN)
        about, of_none = redirect(syn), redirect(tcp(own, peer, "S", (1, 1)))
        steps += [
            goes(syn), told(of_none), goes(ack), told(about, key=PUBLIC_KEY), told(about, key=1001), lost(comes(about)), goes(ack),
            told(about), moved(ack), comes(answer, MACHINE), comes(answer), told(about), moved(ack),
        ]
        own_macs, in_macs = (ENI2_MAC, REMOTE_MAC), (REMOTE_MAC, ENI2_MAC)
        syn2, ack2 = tcp(own, peer, "S", macs=own_macs), tcp(own, peer, "A", macs=own_macs)
        unheard = redirect(syn2, macs=in_macs)
        steps += [goes(syn2), (told(unheard)[0], to_vm(unheard)), goes(ack2)]
        later += [moved(ack), goes(ack2, "100.0.0.9"), goes(tcp(own, peer, "S", (2, 2)), "100.0.0.9")]
    Vector("fast_path", "A balancer's redirect moves a connection in a tunnel, which stays; one about none, and those that come in other tunnels, do not; an ENI that does not listen; then the mapping changes.").step(
        config, *steps,
    ).step(mappings("100.0.0.9"), *later).counters(
        drops={"redirect": 6, "flow_vni_mismatch": 6}, counters={"LB_FAST_PATH_ICMP_IN_PACKETS": 12}, enis={"eni2": {"drops": {}, "counters": {"LB_FAST_PATH_ICMP_IN_PACKETS": 0}}},
    )


def fast_path_public():
    """The document's VIP: packets left without a tunnel and get that of the redirect, "SIPo = PreFastpathFlow.SIPo". Its
    key is one that is trusted, and no tenant's."""
    steps = []
    config = balanced() + [item("ROUTING_TYPE", "direct", items=[{"action_name": "a", "action_type": "direct"}])]
    config += [route("20.0.0.0/8", "direct"), route("fd20::/16", "direct")]
    for own, peer, host in ((VM_CA, "20.69.29.62", "10.126.24.81"), (VM_CA6, "fd20::1", "2001:db8:ca::20")):
        syn, ack = tcp(own, peer, "S"), tcp(own, peer, "A")
        answer = tcp(peer, own, "SA", (4567, 6789), IN)
        plain = lambda inner: (sent(inner), Ether(src=DPU_MAC, dst=SWITCH_MAC) / inner.payload)
        tunnel = bare_outer(own, host, True) / GRE(key_present=1, proto=0x6558, key=TOLD_KEY << 8)
        about = redirect(syn, host)
        steps += [
            plain(syn), told(about), plain(ack), told(about, key=PUBLIC_KEY), (sent(ack), tunnel / Raw(raw(straight(ack)))),
            (nvgre(MACHINE, VIP, TOLD_KEY, answer), to_vm(answer)),
        ]
    Vector("fast_path_public", "A balancer's redirect puts a tunnel around a connection that had none.").step(config, *steps).counters(
        drops={"redirect": 2, "flow_vni_mismatch": 2}, counters={"LB_FAST_PATH_ICMP_IN_PACKETS": 4},
    )


def fast_path_private_link():
    """The document's private endpoint: "GreKey = PreFastpathFlow.GreKey", and the redirect is about packets of IPv6."""
    config = balanced() + private_link() + [mapping(PE_CA, PE_PA, **PE)]
    syn, ack = tcp(VM_CA, PE_CA, "S"), tcp(VM_CA, PE_CA, "A")
    about = redirect(fresh(six(syn, PL_SIP, PE_DIP)))
    Vector("fast_path_private_link", "A balancer's redirect moves a connection to a private endpoint, whose key stays.").step(
        config, (from_vm(syn), linked(PL_SIP, PE_DIP, syn)), told(about), (from_vm(ack), linked(PL_SIP, PE_DIP, straight(ack), host=MACHINE)),
    ).counters(drops={"redirect": 1}, counters={"LB_FAST_PATH_ICMP_IN_PACKETS": 1})


def fast_path_answers():
    """The document's redirects are for both ends: here the peer has opened the connection."""
    steps = []
    config = balanced() + [rule(1001, "100.0.0.0/24")]
    for own, peer in PEERS:
        syn, ack = tcp(peer, own, "S", (4567, 6789), IN), tcp(own, peer, "A")
        answer = lambda inner, host: (sent(inner), to_host(host, 1001, inner))
        steps += [comes(syn), answer(ack, HOST), told(redirect(ack)), moved(ack), comes(syn, MACHINE)]
    Vector("fast_path_answers", "A balancer's redirect moves what a machine answers on a connection that its peer has opened.").step(config, *steps)


def fast_path_strangers():
    """Where no VNI is listed a redirect counts that comes from where packets are sent, or from where the inbound rules
    for its key let packets in; no machine sends redirects."""
    first, second = [], []
    for own, peer in PEERS:
        syn, ack = tcp(own, peer, "S"), tcp(own, peer, "A")
        about = redirect(syn)
        first += [goes(syn), told(about, "100.1.0.8"), goes(ack), told(about), moved(ack)]
        syn, ack = tcp(own, peer, "S", (5, 5)), tcp(own, peer, "A", (5, 5))
        outwards = redirect(tcp(peer, own, "S", (5, 5)), macs=(ENI_MAC, REMOTE_MAC))
        second += [goes(syn), (from_vm(outwards), None), goes(ack), told(redirect(syn), HOST), moved(ack)]
    Vector("fast_path_strangers", "Redirects from hosts that the inbound rules do not let in move nothing; a machine sends none.").step(
        base() + peers_of() + mappings() + [rule(PRIVATE_KEY, "100.0.1.0/24")], *first,
    ).step([], *second).counters(drops={"redirect": 4, "inbound_route_miss": 2, "forged_redirect": 2})


def counters():
    """Two tenants with the same addresses: what each has counted is its own."""
    config = base() + peers_of() + mappings() + second_eni("Vnet2") + peers_of("group2", "Vnet2") + mappings("100.0.0.9", "Vnet2")
    macs2, in2 = (ENI2_MAC, REMOTE_MAC), (REMOTE_MAC, ENI2_MAC)
    first, second, third = [], [], []
    for own, peer in PEERS:
        syn, answer, ack = tcp(own, peer, "S"), tcp(peer, own, "SA", (4567, 6789), IN), tcp(own, peer, "A")
        syn2 = tcp(own, peer, "S", macs=macs2)
        answer2 = tcp(peer, own, "SA", (4567, 6789), in2)
        lonely, stray = udp(own, "10.9.0.1" if ":" not in own else "fd09::1"), udp(peer, own, (5, 5), IN)
        unmapped = udp(own, "10.2.0.9" if ":" not in own else "fd02::9", macs=macs2)
        first += [
            goes(syn), comes(answer), goes(ack), goes(syn2, "100.0.0.9", 1002), comes(answer2, "100.0.0.9", 1002),
            lost(goes(lonely)), lost(comes(stray)), lost(goes(unmapped)),
        ]
        second += [goes(ack, "100.0.0.10"), comes(answer, "100.0.0.10"), goes(tcp(own, peer, "A", macs=macs2), "100.0.0.9", 1002)]
        third += [lost(goes(ack)), lost(goes(udp(own, peer, (1, 1)))), goes(tcp(own, peer, "A", macs=macs2), "100.0.0.9", 1002)]
    nobody = udp(VM_CA, "10.2.0.8", macs=(VM_MAC, REMOTE_MAC))
    Vector("counters", "What two ENIs with the same addresses have counted, and the DPU; a mapping changes, and routes go.").step(
        config, *first, lost(goes(nobody)), (vxlan(VM_PA, "10.1.0.6", VM_VNI, nobody), None),
    ).step(mappings("100.0.0.10"), *second).step([gone("ENI_ROUTE", "eni1")], *third).counters(
        drops={"route_miss": 2, "inbound_route_miss": 2, "route_group_miss": 4},
        counters={
            "RX_PACKETS": 18, "TX_PACKETS": 10, "OUTBOUND_RX_PACKETS": 12, "OUTBOUND_TX_PACKETS": 6, "INBOUND_RX_PACKETS": 6,
            "INBOUND_TX_PACKETS": 4, "FLOW_CREATED": 2, "FLOW_CREATE_FAILED": 0, "FLOW_UPDATED_BY_RESIMULATION": 2, "FLOW_DELETED": 2,
            "OUTBOUND_ROUTING_ENTRY_MISS_DROP_PACKETS": 2, "INBOUND_ROUTING_ENTRY_MISS_DROP_PACKETS": 2,
            "OUTBOUND_ROUTING_GROUP_MISS_DROP_PACKETS": 4, "OUTBOUND_CA_PA_ENTRY_MISS_DROP_PACKETS": 0,
            "FORWARDING_DROP_PACKETS": 8, "TOTAL_DROP_PACKETS": 8,
        },
        enis={"eni2": {"drops": {"mapping_miss": 2}, "counters": {
            "RX_PACKETS": 10, "TX_PACKETS": 8, "OUTBOUND_RX_PACKETS": 8, "OUTBOUND_TX_PACKETS": 6, "INBOUND_RX_PACKETS": 2,
            "INBOUND_TX_PACKETS": 2, "FLOW_CREATED": 2, "FLOW_DELETED": 0, "OUTBOUND_CA_PA_ENTRY_MISS_DROP_PACKETS": 2,
        }}},
        device={"drops": {"eni_miss": 1, "vip_miss": 1}},
    )


VECTORS = (
    limits, ends, fragments, fast_path, fast_path_public, fast_path_private_link, fast_path_answers, fast_path_strangers, counters,
)
