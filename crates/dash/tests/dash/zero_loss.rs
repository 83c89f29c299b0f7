//! The zero-loss test of the paper in small: connections that stay open while others come and go at half
//! of what ENIs may open, and policies change. Nothing is lost, and none breaks.

use std::collections::HashMap;

use crate::common::leaving::treat;
use crate::common::packets::{Dice, HEADROOM};
use twinpath_classify::Prefix;
use twinpath_core::Instant;
use twinpath_core::wire::tcp::flags;
use twinpath_core::wire::tunnel::{Encapsulation, Outer, Tunnel, VXLAN_PORT, Varying};
use twinpath_core::wire::{Address, Endpoint, MacAddress, PacketBuilder, dissect, fields, rewrite};
use twinpath_dash::objects::*;
use twinpath_dash::samples::{Large, Objects, VIP, VM_VNI, large};
use twinpath_dash::{Dpu, Settings, Verdict};

const ENIS: u16 = 4;
const MAPPINGS: u32 = 400;
/// Connections per second that an ENI may open; half of them are.
const RATE: u32 = 200;
/// Connections of an ENI that stay.
const BACKGROUND: u16 = 100;
/// Virtual seconds.
const SECONDS: u64 = 120;
/// Changes of policy in a second.
const CHANGES: u64 = 20;
const SECOND: u64 = 1_000_000_000;

struct World {
    dice: Dice,
    objects: Objects,
    dpu: Dpu,
    now: Instant,
    packets: u64,
}

/// A connection from a machine: its ENI, its own port, and the number of its peer.
#[derive(Copy, Clone)]
struct Connection {
    eni: u16,
    port: u16,
    peer: u32,
}

impl World {
    fn new() -> Self {
        let mut objects = large(&Large {
            enis: ENIS,
            acl_stages: 2,
            acl_rules: 40,
            acl_prefixes: 2,
            routes: 200,
            mappings: MAPPINGS,
        });
        let qos = Qos {
            qos_id: "qos".into(),
            bandwidth_kbps: 0,
            connections_per_second: RATE,
            // Those that stay, and those that have come within the time that ended ones are kept.
            flows: u32::from(BACKGROUND) + RATE / 2 * 35,
        };
        objects.qos.insert("qos".into(), qos);
        for eni in objects.enis.values_mut() {
            eni.qos = Some("qos".into());
        }
        let settings = Settings {
            flows: 1 << 15,
            ..Settings::default()
        };
        let mut dpu = Dpu::new(settings, 3);
        dpu.update(&objects, &objects.keys());
        Self {
            dice: Dice(11),
            objects,
            dpu,
            now: Instant(SECOND),
            packets: 0,
        }
    }

    /// A frame must leave; what it is then.
    fn send(&mut self, frame: &[u8]) -> Vec<u8> {
        self.packets += 1;
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(frame);
        match treat(&mut self.dpu, &mut buffer, self.now) {
            Verdict::Forward(range) => buffer[range].to_vec(),
            lost => panic!("{lost:?} at {:?}", self.now),
        }
    }

    /// A segment from the machine arrives where its peer is now, and the answer where the machine is.
    fn exchange(&mut self, connection: Connection, there: u8, back: u8) {
        let sent = self.send(&from_machine(connection, there));
        let layout = dissect(&sent).expect("sound");
        let peer = Large::mapped(connection.peer);
        let vnet = VnetName::from(&*format!("vnet-{}", connection.eni));
        let mapping = &self.objects.mappings[&(vnet, peer)];
        let at = fields::destination_address(&sent, &layout);
        assert_eq!(at, mapping.underlay_ip, "where the peer is now");
        let answer = answer(connection, &sent, back);
        let arrived = self.send(&answer);
        let layout = dissect(&arrived).expect("sound");
        let host = fields::destination_address(&arrived, &layout);
        assert_eq!(host, Large::host(connection.eni));
    }

    /// A connection from its first segment to its last.
    fn pass(&mut self, connection: Connection) {
        self.exchange(connection, flags::SYN, flags::SYN | flags::ACK);
        self.exchange(connection, flags::ACK, flags::ACK);
        let last = flags::FIN | flags::ACK;
        self.exchange(connection, last, last);
    }

    /// A policy changes, in a way that allows what there is.
    fn change(&mut self) {
        let eni = self.dice.below(ENIS.into()) as u16;
        let class = self.dice.below(64) as u32;
        let key = match self.dice.below(5) {
            0 | 1 => self.move_peer(eni),
            2 => self.change_route(eni, class),
            3 => self.change_list(class),
            _ => {
                let id = EniId::from(&*format!("eni-{eni}"));
                let object = self.objects.enis.get_mut(&id).expect("there");
                object.trusted_vnis = match object.trusted_vnis.is_empty() {
                    true => [Range::one(vni(Large::vni(eni)))].into(),
                    false => [].into(),
                };
                Key::Eni(id)
            }
        };
        self.dpu.update(&self.objects, [&key]);
    }

    fn move_peer(&mut self, eni: u16) -> Key {
        let vnet = VnetName::from(&*format!("vnet-{eni}"));
        let address = Large::mapped(self.dice.below(MAPPINGS.into()) as u32);
        let host = Address::from_v4([223, 0, 0, self.dice.below(50) as u8]);
        let key = (vnet.clone(), address);
        self.objects
            .mappings
            .get_mut(&key)
            .expect("there")
            .underlay_ip = host;
        Key::VnetMapping(VnetMappingKey { vnet, address })
    }

    /// A route within those that cover all peers comes, changes or goes.
    fn change_route(&mut self, eni: u16, class: u32) -> Key {
        let group = RouteGroupId::from(&*format!("group-{eni}"));
        let peer = Large::mapped(self.dice.below(MAPPINGS.into()) as u32);
        let prefix = Prefix::covering(peer, 28);
        let routes = self.objects.route_groups.get_mut(&group).expect("there");
        let mut route = routes[0].1.clone();
        route.metering.or = class;
        let known = routes.iter().position(|(other, _)| *other == prefix);
        match known {
            Some(at) if class.is_multiple_of(2) => _ = routes.swap_remove(at),
            Some(at) => routes[at].1 = route,
            None => routes.push((prefix, route)),
        }
        Key::Route(RouteKey { group, prefix })
    }

    /// A rule about nobody comes or changes.
    fn change_list(&mut self, class: u32) -> Key {
        let group = AclGroupId::from("acl1");
        let (_, rules) = self.objects.acl_groups.get_mut(&group).expect("there");
        let mut rule = rules.values().next().expect("some").clone();
        let nobody = Address::from_v4([203, 0, 113, class as u8]);
        rule.src_addr = [Prefix::from(nobody)].into_iter().collect();
        let name = AclRuleId::from("passing");
        rules.insert(name.clone(), rule);
        Key::AclRule(AclRuleKey { group, rule: name })
    }
}

fn vni(number: u32) -> Vni {
    Vni::new(number).expect("24 bits")
}

fn encapsulated(source: Address, key: u32, inner: &[u8]) -> Vec<u8> {
    let outer = Outer {
        source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        source,
        destination: VIP,
        encapsulation: Encapsulation::Vxlan,
        key,
        vxlan_port: VXLAN_PORT,
        ttl: 64,
    };
    let mut frame = vec![0; outer.header_bytes()];
    frame.extend_from_slice(inner);
    let varying = Varying {
        source_port: 50_000,
        ..Varying::default()
    };
    outer.emit(&varying, &mut frame).expect("sound");
    frame
}

fn from_machine(connection: Connection, tcp_flags: u8) -> Vec<u8> {
    let Connection { eni, port, peer } = connection;
    let inner = PacketBuilder::tcp(
        Endpoint::new(Large::machine(7), port),
        Endpoint::new(Large::mapped(peer), 443),
    );
    let inner = inner
        .flags(tcp_flags)
        .macs(Large::mac(eni), MacAddress([2; 6]));
    let inner = inner.to_vec().expect("a packet");
    encapsulated(Large::host(eni), VM_VNI, &inner)
}

/// The answer to what was sent, by the tunnel that it came by.
fn answer(connection: Connection, sent: &[u8], tcp_flags: u8) -> Vec<u8> {
    let layout = dissect(sent).expect("sound");
    let tunnel = Tunnel::read(sent, &layout, VXLAN_PORT).expect("a tunnel");
    let mut inner = sent[tunnel.inner()].to_vec();
    let inside = dissect(&inner).expect("sound");
    rewrite::swap_endpoints(&mut inner, &inside).expect("TCP");
    rewrite::set_tcp_flags(&mut inner, &inside, tcp_flags).expect("TCP");
    inner[..6].copy_from_slice(&Large::mac(connection.eni).0);
    let host = fields::destination_address(sent, &layout);
    encapsulated(host, tunnel.key, &inner)
}

#[test]
fn nothing_is_lost_and_no_connection_breaks() {
    let mut world = World::new();
    let background: Vec<_> = (0..BACKGROUND)
        .flat_map(|number| {
            (0..ENIS).map(move |eni| Connection {
                eni,
                port: 1 + number,
                peer: u32::from(number) * 3 % MAPPINGS,
            })
        })
        .collect();
    for (at, connection) in background.iter().enumerate() {
        world.now = Instant(SECOND + at as u64 / u64::from(ENIS) * (SECOND / u64::from(RATE / 2)));
        world.exchange(*connection, flags::SYN, flags::SYN | flags::ACK);
    }
    let mut opened: HashMap<u16, u64> = HashMap::new();
    // Steps of a hundredth of what an ENI opens in a second.
    let steps = u64::from(RATE / 2);
    for step in 0..SECONDS * steps {
        world.now = Instant(world.now.0 + SECOND / steps);
        if step % (steps / CHANGES) == 0 {
            world.change();
        }
        for eni in 0..ENIS {
            let connection = Connection {
                eni,
                port: 1_000 + (step % 50_000) as u16,
                peer: world.dice.below(MAPPINGS.into()) as u32,
            };
            world.pass(connection);
            *opened.entry(eni).or_default() += 1;
            let known = background
                [(step as usize * usize::from(ENIS) + usize::from(eni)) % background.len()];
            world.exchange(known, flags::ACK, flags::ACK);
        }
        world.dpu.age(2_000, world.now);
    }
    for eni in 0..ENIS {
        let id = EniId::from(&*format!("eni-{eni}"));
        let counters = world.dpu.counters(&id).expect("there");
        assert_eq!(counters.drops.total(), 0, "{:?}", counters.drops);
        assert_eq!(counters.flows_created, opened[&eni] + u64::from(BACKGROUND));
        assert_eq!(counters.flows_removed, 0);
        assert!(counters.flows_resimulated > 1_000, "changes met flows");
        // Connections end themselves, and their flows are gone when what was under way has had its time.
        assert_eq!(
            (counters.flows_closed, counters.flows_aged),
            (opened[&eni], 0)
        );
        let number = world.dpu.tables().eni_number(&id).expect("there");
        let left = u64::from(world.dpu.flows_of(number));
        assert!(
            left < u64::from(BACKGROUND) + 35 * u64::from(RATE / 2),
            "{left} flows"
        );
    }
    assert_eq!(world.dpu.drops().total(), 0);
    assert!(world.packets > 380_000);
}
