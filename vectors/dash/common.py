"""What all vectors share: objects as SONiC's documents have them, packets as scapy builds them, a vector's files."""
import contextlib
import ipaddress
import json
import pathlib
import shutil

from scapy.all import GRE, ICMP, IP, TCP, UDP, Dot1Q, Ether, IPv6, Raw, raw, wrpcap
from scapy.layers.vxlan import VXLAN

HERE = pathlib.Path(__file__).parent
VIP, VM_VNI, ENCAP_VNI = "10.1.0.5", 2001, 100
VIP6, VM_PA6 = "2001:db8:1::5", "2001:db8:25::1"
VM_PA, VM_CA, VM_CA6 = "25.1.1.1", "10.0.0.11", "fd01::11"
ENI_MAC, REMOTE_MAC, VM_MAC = "f4:93:9f:ef:c4:7e", "43:be:65:25:fa:67", "44:e3:9f:ef:c4:6e"
PL_UNDERLAY = "55.1.2.3"
ENI2_MAC = "f4:93:9f:ef:c4:80"
DPU_MAC, SWITCH_MAC = "02:00:00:00:00:02", "02:00:00:00:00:01"
UNDERLAY, UNDERLAY6 = {"version": 4}, int(ipaddress.IPv6Address("2001:db8:ca::"))
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
            "vnet": "Vnet1", "pl_underlay_sip": PL_UNDERLAY,
            "pl_sip_encoding": "::d107:64:ff71:0:0/::ffff:ffff:ffff:0:0", **dict(eni),
        }),
        item("ROUTE_GROUP", "group1", guid="48af6ce8-26cc-4293-bfa6-0126e8fcdeb2", version="1"),
        item("ENI_ROUTE", "eni1", group_id="group1"),
    ]


def second_eni(vnet="Vnet1", **fields):
    """A neighbour with routes of its own, on the same host."""
    return [
        item("ENI", "eni2", eni_id="eni2", mac_address=ENI2_MAC, underlay_ip=VM_PA, admin_state="enabled", vnet=vnet, **fields),
        item("ROUTE_GROUP", "group2", guid="48af6ce8-26cc-4293-bfa6-0126e8fcdeb3", version="1"),
        item("ENI_ROUTE", "eni2", group_id="group2"),
    ]


def route(prefix, kind="vnet", group="group1", **fields):
    if kind == "vnet" and "vnet" not in fields:
        fields["vnet"] = "Vnet1"
    return item("ROUTE", f"{group}:{prefix}", action_type=kind, **fields)


def mapping(address, host, vnet="Vnet1", **fields):
    fields.setdefault("routing_type", "vnet_encap")
    return item("VNET_MAPPING", f"{vnet}:{address}", underlay_ip=host, **fields)


def rule(vni, prefix, eni="eni1", **fields):
    fields.setdefault("action_type", "decap")
    fields.setdefault("priority", 1)
    return item("ROUTE_RULE", f"{eni}:{vni}:{prefix}", **fields)


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


def linked(source, destination, inner, underlay=PL_UNDERLAY, host=PE_PA):
    """An IPv4 packet of a machine as Private Link sends it."""
    return nvgre(underlay, host, ENCAP_VNI, fresh(six(inner, source, destination)), out=True)


def unlinked(inner, source=PE_CA, destination=VM_CA):
    """An IPv6 packet from a private endpoint as its machine gets it: atomic or not, its identification is 0."""
    payload = inner[IPv6].payload.copy()
    return fresh(Ether(src=inner.src, dst=inner.dst) / IP(src=source, dst=destination, id=0) / payload)


def ip(source, destination, **fields):
    if ":" in source:
        return IPv6(src=source, dst=destination, **fields)
    return IP(src=source, dst=destination, **fields)


def udp(source, destination, ports=(6789, 4567), macs=(ENI_MAC, REMOTE_MAC), body=b"sixteen bytes...", header=()):
    return Ether(src=macs[0], dst=macs[1]) / ip(source, destination, **dict(header)) / UDP(sport=ports[0], dport=ports[1]) / Raw(body)


def tcp(source, destination, flags, ports=(6789, 4567), macs=(ENI_MAC, REMOTE_MAC), header=()):
    segment = TCP(sport=ports[0], dport=ports[1], flags=flags, seq=7, ack=9 if "A" in flags else 0)
    return Ether(src=macs[0], dst=macs[1]) / ip(source, destination, **dict(header)) / segment / Raw(b"sixteen bytes...")


def echo(source, destination, identifier, macs=(ENI_MAC, REMOTE_MAC), kind="echo-request", header=()):
    message = ICMP(type=kind, id=identifier, seq=1)
    return Ether(src=macs[0], dst=macs[1]) / ip(source, destination, **dict(header)) / message / Raw(b"sixteen bytes...")


def unreachable(router, destination, about, macs=(REMOTE_MAC, ENI_MAC)):
    """An ICMP error about an IPv4 packet: host unreachable (RFC 792)."""
    return Ether(src=macs[0], dst=macs[1]) / ip(router, destination) / ICMP(type=3, code=1) / Raw(raw(about[IP]))


@contextlib.contextmanager
def over_v6():
    """Vectors that are made here have IPv6 underlays: the last 32 bits of each address are IPv4's."""
    UNDERLAY["version"] = 6
    yield
    UNDERLAY["version"] = 4


def under(address):
    """An underlay's address, or a prefix, in its IP version."""
    if UNDERLAY["version"] == 4 or ":" in address:
        return address
    address, _, length = address.partition("/")
    if address == "0.0.0.0" and length == "0":
        return "::/0"
    mapped = str(ipaddress.IPv6Address(UNDERLAY6 + int(ipaddress.IPv4Address(address))))
    return f"{mapped}/{96 + int(length)}" if length else mapped


def underlaid(line):
    """An object of the configuration with the underlay's addresses in its IP version."""
    key, fields = next((key, line[key]) for key in line if key != "OP")
    if key.startswith("DASH_ROUTE_RULE_TABLE:"):
        table, eni, vni, prefix, *priority = key.split(":")
        key = ":".join([table, eni, vni, under(prefix), *priority])
    return {key: {name: underlaid_value(name, value) for name, value in fields.items()}, "OP": line["OP"]}


def underlaid_value(name, value):
    match name:
        case "sip" | "underlay_ip" | "pl_underlay_sip" | "underlay_sip" | "underlay_dip" | "backend_ip":
            return under(value)
        case "endpoints":
            return [under(address) for address in value]
        case "prefixes":
            return ",".join(under(prefix) for prefix in value.split(","))
        case _:
            return value


def answered(inner, macs=(REMOTE_MAC, ENI_MAC), flags="SA"):
    """What the other end says to a datagram or a segment."""
    layer = TCP if TCP in inner else UDP
    network = IPv6 if IPv6 in inner else IP
    ends, ports = (inner[network].dst, inner[network].src), (inner[layer].dport, inner[layer].sport)
    return tcp(*ends, flags, ports, macs) if layer is TCP else udp(*ends, ports, macs)


def outer(source, destination, out, tos=0):
    """What is around an inner frame. The DPU's identification is 0, so it forbids fragments (RFC 6864)."""
    return bare_outer(under(source), under(destination), out, tos)


def bare_outer(source, destination, out, tos=0):
    """The same between addresses that have their IP version already."""
    macs = dict(src=DPU_MAC, dst=SWITCH_MAC) if out else dict(src=SWITCH_MAC, dst=DPU_MAC)
    if ":" in source:
        return Ether(**macs) / IPv6(src=source, dst=destination, hlim=64, tc=tos)
    flags = dict(flags="DF", id=0) if out else {}
    return Ether(**macs) / IP(src=source, dst=destination, ttl=64, tos=tos, **flags)


def vxlan(source, destination, vni, inner, out=False, tos=0, ports=(50000, 4789)):
    """IPv6 has no packets of UDP without a checksum, but by agreement (RFC 6935)."""
    checksum = {} if ":" in under(source) else dict(chksum=0)
    header = UDP(sport=ports[0], dport=ports[1], **checksum) / VXLAN(flags=0x08, vni=vni)
    return outer(source, destination, out, tos) / header / Raw(raw(inner))


def nvgre(source, destination, key, inner, out=False, tos=0):
    header = GRE(key_present=1, proto=0x6558, key=key << 8)
    return outer(source, destination, out, tos) / header / Raw(raw(inner))


def from_vm(inner, vni=VM_VNI, **more):
    return vxlan(VM_PA, VIP, vni, inner, **more)


def to_vm(inner, **more):
    return vxlan(VIP, VM_PA, VM_VNI, inner, out=True, **more)


def to_host(host, vni, inner, **more):
    return vxlan(VIP, host, vni, inner, out=True, **more)


def from_host(host, vni, inner, **more):
    return vxlan(host, VIP, vni, inner, **more)


def six(inner, source, destination):
    """The same packet in IPv6."""
    return Ether(src=inner.src, dst=inner.dst) / IPv6(src=source, dst=destination, hlim=64) / inner[IP].payload.copy()


def fresh(packet):
    """With checksums computed anew."""
    for layer in (UDP, TCP):
        if layer in packet:
            del packet[layer].chksum
    return packet


def acl_group(name, *rules, version="ipv4"):
    lines = [item("ACL_GROUP", name, ip_version=version, guid="0f05e1b3-bfe8-4193-b946-ccc6e8f930b2")]
    for number, fields in enumerate(rules, 1):
        lines.append(item("ACL_RULE", f"{name}:{number}", **fields))
    return lines


class Vector:
    """A folder: settings of the device, steps of a configuration, packets in and packets out."""

    def __init__(self, name, about, settings=None, **compare):
        if UNDERLAY["version"] == 6:
            name, about = f"{name}_over_v6", f"{about} Over an underlay of IPv6."
        self.folder = HERE / name
        compare = {"ignore": IGNORE, **compare}
        if "endpoints" in compare:
            compare["endpoints"] = [under(address) for address in compare["endpoints"]]
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        (self.folder / "about.txt").write_text(about + "\n")
        self.write("compare", compare)
        if settings:
            self.write("settings", settings)
        self.steps, self.time = 0, 1.0

    def write(self, name, value):
        (self.folder / f"{name}.json").write_text(json.dumps(value) + "\n")

    def step(self, config, *packets):
        """Packets, each with what becomes of it, None if it is dropped, and perhaps its time in the step: else
        they follow each other by a millisecond."""
        self.steps += 1
        folder = self.folder if self.steps == 1 else self.folder / f"step{self.steps}"
        folder.mkdir(exist_ok=True)
        if UNDERLAY["version"] == 6:
            config = [underlaid(line) for line in config]
        lines = ",\n".join("  " + json.dumps(line) for line in config)
        (folder / "config.json").write_text(f"[\n{lines}\n]\n" if config else "[]\n")
        came, left, offset = [], [], 0
        for number, (sent, wanted, *at) in enumerate(packets):
            offset = at[0] if at else number / 1000
            for row, packet in ((came, sent), (left, wanted)):
                if packet is not None:
                    row.append(Ether(raw(packet)))
                    row[-1].time = self.time + offset
        for name, row in (("in", came), ("expected", left)):
            # A capture without packets still has a header.
            wrpcap(str(folder / f"{name}.pcap"), row, linktype=1)
        self.time += int(offset) + 1
        return self

    def counters(self, **counters):
        self.write("counters", counters)
