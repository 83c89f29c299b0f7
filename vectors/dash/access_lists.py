"""Vectors of access lists. What becomes of a packet is worked out from the rules as the documents have them."""
import copy
import functools
import ipaddress
import itertools

from scapy.all import Ether, Raw
from scapy.layers.inet6 import ICMPv6EchoRequest

from common import *

# Both IP versions have the same lists: a machine that is named, one of a tag's, and one of nobody.
PLACES = {
    "ipv4": dict(
        named="10.0.0.11", tagged="10.0.5.9", lone="10.0.7.1", nobody="10.0.6.9", peer="10.2.0.8", other="10.2.0.9", far="10.2.3.8",
        tag=["10.0.0.11/32", "10.0.5.0/24"], nets=["10.0.5.0/24"], far_tag=["10.2.3.0/24", "10.2.0.9/32"], own="10.0.0.11/32", alone="10.0.7.1/32", near="10.0.0.0/24", only="10.2.0.8/32", suffix="", icmp=1,
    ),
    "ipv6": dict(
        named="fd01::11", tagged="fd01:5::9", lone="fd01:7::1", nobody="fd01:6::9", peer="fd02::8", other="fd02::9", far="fd02::3:8",
        tag=["fd01::11/128", "fd01:5::/48"], nets=["fd01:5::/48"], far_tag=["fd02::3:0/112", "fd02::9/128"], own="fd01::11/128", alone="fd01:7::1/128", near="fd01::/64", only="fd02::8/128", suffix="6", icmp=58,
    ),
}


def rule_of(action, priority, ends=None, **fields):
    """A rule; one that does not say whether the search ends with it goes on (protobuf's default)."""
    fields = dict(priority=priority, action=action, **fields)
    return fields if ends is None else dict(fields, terminating=ends)


class Lists:
    """Groups, tags and bindings, as the configuration in force has them."""

    def __init__(self):
        self.groups, self.tags, self.bound = {}, {}, {}

    def apply(self, *lines):
        """Takes a configuration in, and returns it."""
        for line in lines:
            key = next(key for key in line if key != "OP")
            table, name = key.split(":", 1)
            self.take(table.removeprefix("DASH_").removesuffix("_TABLE"), name, line[key], line["OP"] == "DEL")
        return list(lines)

    def take(self, table, name, fields, is_gone):
        match table:
            case "PREFIX_TAG":
                self.tags[name] = fields["prefix_list"].split(",") if fields["prefix_list"] else []
            case "ACL_GROUP":
                self.groups.setdefault(name, {})
            case "ACL_RULE":
                group, number = name.split(":")
                self.groups[group].pop(number, None)
                if not is_gone:
                    self.groups[group][number] = fields
            case "ACL_IN" | "ACL_OUT":
                stage = int(name.split(":")[1])
                for version in ("4", "6"):
                    self.bound[table, version, stage] = fields.get(f"v{version}_acl_group_id")

    def permits(self, table, packet):
        """Stages in order; the lowest priority number; no match is a denial; the last word counts."""
        version, allowed = "6" if ":" in packet["src"] else "4", True
        for stage in range(1, 6):
            group = self.bound.get((table, version, stage))
            if group is None:
                continue
            order = lambda rule: (int(rule[1].get("priority", 0)), int(rule[0]))
            rules = sorted(self.groups[group].items(), key=order)
            first = next((rule for _, rule in rules if self.matches(rule, packet)), None)
            if first is None:
                return False
            allowed = first["action"] == "allow"
            if first.get("terminating", "false") == "true":
                return allowed
        return allowed

    def matches(self, rule, packet):
        ends = ("src", "dst")
        protocols = rule.get("protocol")
        return (
            (protocols is None or str(packet["protocol"]) in protocols.split(","))
            and all(self.is_from(rule, end, packet[end]) for end in ends)
            and all(within(rule.get(f"{end}_port"), packet[f"{end}_port"]) for end in ends)
        )

    def is_from(self, rule, end, address):
        """One of the addresses and tags that a rule names for an end; without any, each address is."""
        prefixes, tags = rule.get(f"{end}_addr"), rule.get(f"{end}_tag")
        if prefixes is None and tags is None:
            return True
        listed = prefixes.split(",") if prefixes else []
        listed += [prefix for tag in (tags.split(",") if tags else []) for prefix in self.tags[tag]]
        return any(covers(prefix, address) for prefix in listed)


@functools.cache
def covers(prefix, address):
    return ipaddress.ip_address(address) in ipaddress.ip_network(prefix)


@functools.cache
def within(ranges, port):
    """A packet without ports is in no range."""
    if ranges is None or port is None:
        return ranges is None
    bounds = [part.split("-") for part in ranges.split(",")]
    return any(int(bound[0]) <= port <= int(bound[-1]) for bound in bounds)


def group(name, version, *rules):
    return acl_group(name + PLACES[version]["suffix"], *rules, version=version)


def tags(version):
    places = PLACES[version]
    tag = lambda name, prefixes: item("PREFIX_TAG", name + places["suffix"], ip_version=version, prefix_list=",".join(prefixes))
    return [tag("machines", places["tag"]), tag("far", places["far_tag"])]


def a_list(name, version, own, base):
    """A list in front of others: what it lets go on, the last list decides by the source port. Every rule has
    others under it that say something else. `own` is the machine's end of packets; ports, and protocols without
    ports, are counted from `base`."""
    far, places = {"src": "dst", "dst": "src"}[own], PLACES[version]
    suffix, ports = places["suffix"], lambda *numbers: ",".join(str(base + number) for number in numbers)
    return group(
        name, version,
        rule_of("allow", 10, "true", protocol="17", dst_port=f"{base}-{base + 2},{base + 8}", **{f"{own}_addr": places["own"]}),
        rule_of("deny", 20, "true", protocol="17", dst_port=ports(0, 1, 3, 9), **{f"{own}_tag": f"machines{suffix}"}),
        rule_of("deny", 30, "false", src_port="5,18-19", dst_port=ports(3, 4, 8, 9), **{f"{far}_tag": f"far{suffix}"}),
        rule_of("deny", 40, "true", dst_port=ports(4, 7)),
        rule_of("allow", 50, dst_port=ports(5, 8, 9), **{f"{far}_addr": places["only"], f"{own}_tag": f"machines{suffix}", f"{own}_addr": places["alone"]}),
        rule_of("deny", 60, "true", dst_port=ports(5)),
        rule_of("allow", 70, "true", dst_port=f"{base + 6}-{base + 7}"),
        rule_of("allow", 75, "true", protocol=str(base), **{f"{own}_addr": places["own"]}),
        rule_of("deny", 80, "true", protocol=f"{base},{base + 1}", **{f"{own}_tag": f"machines{suffix}"}),
        rule_of("allow", 1000),
    )


def last_list(name, version, own, bases):
    far, places = {"src": "dst", "dst": "src"}[own], PLACES[version]
    echoes = str(places["icmp"])
    without_ports = ",".join(map(str, (echoes, *bases)))
    return group(
        name, version, rule_of("deny", 1, src_port="9,19"),
        rule_of("allow", 2, protocol=echoes, **{f"{far}_tag": f"far{places['suffix']}"}),
        rule_of("deny", 3, protocol=without_ports), rule_of("allow", 4),
    )


def bindings(table, stages):
    return [
        item(table, f"eni1:{stage}", v4_acl_group_id=name, v6_acl_group_id=f"{name}6") for stage, name in stages.items()
    ]


def candidates(own, bases):
    """Packets of which those are sent that tell a rule, or a field of one, from its absence."""
    places, far = PLACES["ipv4"], {"src": "dst", "dst": "src"}[own]
    ends = itertools.product(("named", "tagged", "lone", "nobody"), ("peer", "other", "far"))
    for machine, peer in ends:
        packet = {own: places[machine], far: places[peer]}
        for protocol, source, base in itertools.product((17, 6), (5, 6, 8, 9, 18, 19), bases):
            for port in range(base - 1, base + 11):
                yield dict(packet, protocol=protocol, src_port=source, dst_port=port)
        for protocol in (1, *bases, *(base + 1 for base in bases)):
            yield dict(packet, protocol=protocol, src_port=None, dst_port=None)


def in_version(packet, version):
    """The same packet of another IP version."""
    four, places = PLACES["ipv4"], PLACES[version]
    address = lambda text: next(places[name] for name in four if four[name] == text)
    protocol = places["icmp"] if packet["protocol"] == 1 else packet["protocol"]
    return dict(packet, src=address(packet["src"]), dst=address(packet["dst"]), protocol=protocol)


def otherwise(fields):
    """A rule without one of its fields, or with another value."""
    for name, value in fields.items():
        if name != "action":
            yield {key: fields[key] for key in fields if key != name}
        match name:
            case "action":
                yield dict(fields, action={"allow": "deny", "deny": "allow"}[value])
            case "terminating":
                yield dict(fields, terminating={"true": "false", "false": "true"}[value])
            case "priority":
                yield dict(fields, priority=2000)
            case "protocol" | "src_port" | "dst_port":
                parts = value.split(",")
                yield from (dict(fields, **{name: ",".join(parts[:at] + parts[at + 1:])}) for at in range(len(parts)) if len(parts) > 1)
                ends = [list(map(int, part.split("-"))) for part in parts if "-" in part]
                for low, high in ends:
                    for other in ((low - 1, high), (low + 1, high), (low, high - 1), (low, high + 1)):
                        yield dict(fields, **{name: value.replace(f"{low}-{high}", f"{other[0]}-{other[1]}")})


def mutants(lists):
    """IPv4's lists with one thing otherwise, and the rules, before and after, one of which a packet matches
    that tells; none if any may."""
    for name, rules in lists.groups.items():
        for number, fields in rules.items() if not name.endswith("6") else ():
            for other in (None, *otherwise(fields)):
                mutant = copy.deepcopy(lists)
                mutant.take("ACL_RULE", f"{name}:{number}", other, other is None)
                yield mutant, [fields] if other is None else [fields, other]
    for name, prefixes in lists.tags.items():
        for prefix in prefixes if not name.endswith("6") else ():
            mutant = copy.deepcopy(lists)
            mutant.tags[name] = [other for other in prefixes if other != prefix]
            yield mutant, []
    for bound in (bound for bound in lists.bound if bound[1] == "4"):
        mutant = copy.deepcopy(lists)
        del mutant.bound[bound]
        yield mutant, []


def telling(lists, table, packets):
    """Of some packets those that tell the lists from all that are like them, as far as any does."""
    packets, chosen = list(packets), {}
    right = [lists.permits(table, packet) for packet in packets]
    for mutant, rules in mutants(lists):
        tells = lambda at: mutant.permits(table, packets[at]) != right[at]
        if any(map(tells, chosen)):
            continue
        touched = (at for at, packet in enumerate(packets) if not rules or any(lists.matches(rule, packet) for rule in rules))
        chosen.update({at: True for at in itertools.islice(filter(tells, touched), 1)})
    return [packets[at] for at in sorted(chosen)]


def built(packet, macs=(ENI_MAC, REMOTE_MAC), flags="S"):
    ends, ports = (packet["src"], packet["dst"]), (packet["src_port"], packet["dst_port"])
    match packet["protocol"]:
        case 17:
            return udp(*ends, ports, macs)
        case 6:
            return tcp(*ends, flags, ports, macs)
        case 1:
            return echo(*ends, 7, macs)
        case 58:
            return Ether(src=macs[0], dst=macs[1]) / ip(*ends) / ICMPv6EchoRequest(id=7, seq=1, data=b"echo")
        case number:
            number = {"nh": number} if ":" in ends[0] else {"proto": number}
            return Ether(src=macs[0], dst=macs[1]) / ip(*ends, **number) / Raw(b"sixteen bytes...")


def outbound(lists, packet, flags="S", host="100.0.0.8"):
    sent = built(packet, flags=flags)
    return from_vm(sent), to_host(host, 1001, sent) if lists.permits("ACL_OUT", packet) else None


def inwards(lists, packet):
    sent = built(packet, (REMOTE_MAC, ENI_MAC))
    return from_host("100.0.0.8", 1001, sent), to_vm(sent) if lists.permits("ACL_IN", packet) else None


def dropped(packets):
    return sum(1 for _, wanted in packets if wanted is None)


def acl_vector(name, about, table, own, names, judge, reason):
    """Lists of one direction, at some stages: each packet is its own flow."""
    lists = Lists()
    *others, last = names.values()
    bases = [70 * stage + 40 for stage in list(names)[:-1]]
    config = base() + bindings(table, names)
    for version, places in PLACES.items():
        config += tags(version) + last_list(last, version, own, bases)
        if own == "src":
            config += [mapping(places[peer], "100.0.0.8") for peer in ("peer", "other", "far")]
        for group_name, at in zip(others, bases):
            config += a_list(group_name, version, own, at)
    config += [route("10.2.0.0/16"), route("fd02::/64")] if own == "src" else [rule(1001, "100.0.0.0/24")]
    lists.apply(*config)
    chosen = telling(lists, table, candidates(own, bases))
    packets = [judge(lists, in_version(packet, version)) for version in PLACES for packet in chosen]
    Vector(name, about).step(config, *packets).counters(drops={reason: dropped(packets)})


ABOUT = "priorities, the four actions, lists of protocols, addresses, tags and ports, IPv4 and IPv6. Each rule and each field of it has a packet that tells."


def acl():
    acl_vector("acl", f"Outbound access lists at stages 1, 2 and 4: {ABOUT}", "ACL_OUT", "src", {1: "first", 2: "second", 4: "fourth"}, outbound, "acl_outbound")


def acl_inbound():
    acl_vector("acl_inbound", f"Inbound access lists at stages 1, 3 and 5: {ABOUT}", "ACL_IN", "dst", {1: "in1", 3: "in3", 5: "in5"}, inwards, "acl_inbound")


class Changes:
    """A vector with an open connection of each IP version: after each change its next segment, its first one
    again, and new connections."""

    def __init__(self, vector):
        self.vector, self.lists, self.opened, self.ports = vector, Lists(), set(), iter(range(1000, 2000))
        self.drops = dict(acl_outbound=0, tcp_without_flow=0)

    def step(self, *lines):
        config = self.lists.apply(*lines)
        self.vector.step(config, *(packet for version in PLACES for packet in self.packets(version)))

    def packets(self, version):
        places = PLACES[version]
        packet = dict(src=places["named"], dst=places["peer"], protocol=6, src_port=77, dst_port=8)
        passes, was_open = self.lists.permits("ACL_OUT", packet), version in self.opened
        if passes or was_open:
            sent, wanted = outbound(self.lists, packet, "A")
            yield self.counted(sent, wanted if was_open else None, "acl_outbound" if was_open else "tcp_without_flow")
        others = (dict(dst_port=9), dict(protocol=17), dict(src=places["tagged"]), dict(src=places["nobody"], dst_port=9))
        for new in (packet, *(dict(packet, src_port=next(self.ports), **other) for other in others)):
            yield self.counted(*outbound(self.lists, new), "acl_outbound")
        (self.opened.add if passes else self.opened.discard)(version)

    def counted(self, sent, wanted, reason):
        self.drops[reason] += wanted is None
        return sent, wanted


def acl_changes():
    """What is said of a list that is bound counts with the next packet."""
    changes = Changes(Vector("acl_changes", "Rules, tags, groups and bindings change while connections are open: they follow with their next packet."))
    suffixes = [places["suffix"] for places in PLACES.values()]
    tag = lambda version, prefixes: [item("PREFIX_TAG", "machines" + PLACES[version]["suffix"], ip_version=version, prefix_list=",".join(prefixes))]
    tagged = lambda prefixes: [line for version, places in PLACES.items() for line in tag(version, prefixes(places))]
    config = base() + [route("10.2.0.0/16"), route("fd02::/64")]
    for version, places in PLACES.items():
        config += [mapping(places["peer"], "100.0.0.8")] + tag(version, places["nets"])
        config += group("list", version, rule_of("deny", 5, "true", src_tag=f"machines{places['suffix']}"), rule_of("allow", 9))
        config += group("none", version) + group("open", version, rule_of("allow", 9))
    deny = rule_of("deny", 0, "true", protocol="6", dst_port="8")
    changes.step(*config, *bindings("ACL_OUT", {1: "list"}))
    changes.step(*(item("ACL_RULE", f"list{suffix}:3", **deny) for suffix in suffixes))
    changes.step(*(gone("ACL_RULE", f"list{suffix}:3") for suffix in suffixes))
    # A tag grows, and is empty: it matches nothing then.
    changes.step(*tagged(lambda places: places["nets"] + [places["near"]]))
    changes.step(*tagged(lambda places: []))
    # A list without rules denies all; unbound, it is not asked.
    changes.step(*bindings("ACL_OUT", {2: "none"}))
    changes.step(gone("ACL_OUT", "eni1:2"))
    # Another list takes the place of one that is bound, for IPv4; for IPv6 none does.
    changes.step(item("ACL_RULE", "open:2", **deny), item("ACL_OUT", "eni1:1", v4_acl_group_id="open"))
    # All rules of a list are replaced in one batch.
    changes.step(
        *(gone("ACL_RULE", name) for name in ("open:1", "open:2", "open6:1")), *bindings("ACL_OUT", {1: "open"}),
        *(item("ACL_RULE", f"open{suffix}:5", **rule_of("allow", 1, dst_port="8")) for suffix in suffixes),
    )
    changes.vector.counters(drops=changes.drops)


VECTORS = (acl, acl_inbound, acl_changes)
