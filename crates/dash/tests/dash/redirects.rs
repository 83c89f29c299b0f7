//! Redirects of load balancers against the specification read aloud, on random configurations.

use crate::common::interpreter::{Interpreter, Packet, Sent};
use crate::common::leaving::{compare, inner_of, process, taken_apart};
use crate::common::packets::{self, Dice, VM_VNI, eni_mac};
use crate::common::redirects::{IP_IN_IP, NVGRE, RedirectInfo, VXLAN, redirect};
use proptest::prelude::*;
use twinpath_core::Instant;
use twinpath_core::wire::tcp::flags;
use twinpath_core::wire::tunnel::Encapsulation;
use twinpath_core::wire::{Address, MacAddress, protocol};
use twinpath_dash::headers::{Direction, Headers};
use twinpath_dash::objects::{EniMode, InboundAction, MeterBits, Range, RouteRule, RouteRuleKey};
use twinpath_dash::samples::Objects;
use twinpath_dash::{Dpu, Reason, Settings};

const ENIS: u8 = 4;
/// Keys that redirects come with.
const KEYS: [u32; 5] = [253, 254, 256, 1000, 1001];

/// One that says something about the keys of redirects.
fn configuration(dice: &mut Dice) -> Objects {
    let mut objects = packets::configuration(dice, ENIS);
    packets::add_services(&mut objects, dice, ENIS, 1);
    for number in 0..ENIS {
        let eni = objects.enis.get_mut(&packets::eni_id(number));
        let eni = eni.expect("there");
        if !dice.one_in(3) {
            let keys = Range::new(packets::vni(253), packets::vni(256)).expect("in order");
            eni.trusted_vnis = eni.trusted_vnis.iter().copied().chain([keys]).collect();
        }
        for key in [253, 254] {
            if dice.one_in(3) {
                let rule = rule(dice, number, key, &objects);
                objects.route_rules.push(rule);
            }
        }
    }
    if dice.one_in(8) {
        let vnet = objects.vnets.get_mut("vnet2").expect("there");
        vnet.vni = packets::vni(dice.pick(&[254, 256]));
    }
    objects
}

fn rule(dice: &mut Dice, eni: u8, key: u32, objects: &Objects) -> (RouteRuleKey, RouteRule) {
    let is_v4 = packets::is_underlay_v4(objects);
    let key = RouteRuleKey {
        eni: packets::eni_id(eni),
        vni: packets::vni(key),
        source: packets::physical(dice, is_v4).into(),
        priority: Some(1),
    };
    let rule = RouteRule {
        priority: 1,
        action: match dice.one_in(4) {
            true => InboundAction::Drop,
            false => InboundAction::Decap,
        },
        protocol: None,
        // One of which there are no mappings.
        vnet: dice.one_in(4).then(|| "vnet3".into()),
        pa_validation: dice.pick(&[None, Some(true)]),
        metering: MeterBits::default(),
        region: None,
    };
    (key, rule)
}

/// A connection, and a packet of its machine's.
struct Connection {
    opening: Packet,
    machines: Packet,
    /// Whether its machine has opened it.
    is_machines: bool,
}

impl Connection {
    fn draw(dice: &mut Dice, objects: &Objects) -> Option<Self> {
        let mut opening = packets::packet(dice, objects, ENIS);
        opening.overlay.protocol = protocol::TCP;
        let ports = [dice.below(5) as u16, dice.below(5) as u16];
        opening.overlay.ports = Some(ports);
        let eni = &objects.enis[&opening.eni];
        let settings = Settings::default();
        let of_opening = Interpreter {
            objects,
            settings: &settings,
            packet: &opening,
            opened: None,
        };
        let way = of_opening.way();
        let machines = match (way, eni.mode) {
            (Direction::Outbound, _) => opening.clone(),
            (Direction::Inbound, mode) => Packet {
                direction: match mode {
                    EniMode::Vm => Direction::Outbound,
                    EniMode::FloatingNic => Direction::Inbound,
                },
                encapsulation: Encapsulation::Vxlan,
                vni: match mode {
                    EniMode::Vm => VM_VNI,
                    EniMode::FloatingNic => objects.vnets[&eni.vnet].vni.get(),
                },
                outer_source: eni.underlay_ip?,
                overlay: opening.overlay.turned(),
                ..opening.clone()
            },
        };
        Some(Self {
            is_machines: way == Direction::Outbound,
            opening,
            machines,
        })
    }

    /// What a packet of the machine's becomes.
    fn sent(&self, of_opening: &Interpreter<'_>) -> Result<Sent, Reason> {
        match self.is_machines {
            true => of_opening.run(),
            false => of_opening.run().and_then(|_| of_opening.back()),
        }
    }
}

fn info(dice: &mut Dice, objects: &Objects, overlay: &Headers) -> RedirectInfo {
    let is_v4 = dice.pick(&[packets::is_underlay_v4(objects), overlay.source.is_v4()]);
    let host = packets::physical(dice, is_v4);
    RedirectInfo {
        encap_type: dice.pick(&[NVGRE, NVGRE, VXLAN, IP_IN_IP]),
        // Of these 1001 is a network's.
        encap_id: dice.pick(&[256, 256, 256, 253, 1001]),
        dip_pa: dice.pick(&[host, host, host, Address::from_v4([224, 0, 0, 5])]),
        vm_mac: match dice.one_in(8) {
            true => MacAddress([0xff; 6]),
            false => MacAddress([2, 0, 0, 0, 7, 7]),
        },
    }
}

/// How a redirect about it comes.
fn coming(dice: &mut Dice, objects: &Objects, connection: &Connection, sent: &Sent) -> Packet {
    let balancer = sent.underlay.first().map(|layer| layer.destination);
    let is_v4 = packets::is_underlay_v4(objects);
    // What comes to the DPU is of its address's version.
    let is_fitting = |host: &Address| host.is_v4() == is_v4 && *host != Address::UNSPECIFIED_V6;
    let strangers = std::iter::repeat_with(|| packets::physical(dice, is_v4));
    let mut strangers = strangers.filter(is_fitting);
    let stranger = strangers.next().expect("without end");
    let balancer = balancer.filter(is_fitting).unwrap_or(stranger);
    let is_public = sent.underlay.is_empty();
    let fitting = if is_public { 253 } else { 254 };
    let nvgre = Encapsulation::Nvgre;
    Packet {
        direction: Direction::Inbound,
        encapsulation: dice.pick(&[nvgre, nvgre, nvgre, Encapsulation::Vxlan]),
        vni: match dice.one_in(4) {
            true => dice.pick(&KEYS),
            false => fitting,
        },
        outer_source: dice.pick(&[balancer, stranger]),
        overlay: Headers {
            ports: None,
            protocol: match sent.overlay.source.is_v4() {
                true => protocol::ICMP,
                false => protocol::ICMP6,
            },
            ..sent.overlay
        },
        ..connection.opening.clone()
    }
}

/// Whether packets left without a tunnel, and whether the redirect has moved them.
type Outcome = (bool, Result<(), Reason>);

/// What a redirect has come to; `None` if there was no connection.
fn check(dice: &mut Dice, objects: &Objects) -> Result<Option<Outcome>, TestCaseError> {
    let settings = Settings {
        flows: 64,
        ..Settings::default()
    };
    let mut dpu = Dpu::new(settings.clone(), 7);
    dpu.update(objects, &objects.keys());
    let Some(connection) = Connection::draw(dice, objects) else {
        return Ok(None);
    };
    let interpreter = Interpreter {
        objects,
        settings: &settings,
        packet: &connection.opening,
        opened: None,
    };
    let opening = packets::bytes(&connection.opening, flags::SYN);
    let opened = process(&mut dpu, &opening, Instant(1));
    let (Ok(_), Ok(sent)) = (opened, connection.sent(&interpreter)) else {
        return Ok(None);
    };
    let bytes = packets::bytes(&connection.machines, flags::ACK);
    let before = process(&mut dpu, &bytes, Instant(2)).expect("of a known flow");
    let info = info(dice, objects, &sent.overlay);
    let came = coming(dice, objects, &connection, &sent);
    let (_, inner, layout) = taken_apart(&before);
    let number = came.eni.as_str()[3..].parse().expect("a number");
    let macs = [came.source_mac, eni_mac(number)];
    let about = redirect(&inner, &layout, &info.bytes(), macs);
    let told = process(&mut dpu, &packets::encapsulated(&came, &about), Instant(3));
    let after = process(&mut dpu, &bytes, Instant(4)).expect("of a known flow");
    let expected = interpreter.redirected(&sent, &came, &info);
    match &expected {
        Ok(moved) => {
            prop_assert_eq!(told, Err(Reason::Redirect));
            compare(&after, moved, inner_of(&bytes))?;
        }
        Err(reason) => {
            prop_assert_eq!(told, Err(*reason));
            prop_assert_eq!(after, before);
        }
    }
    Ok(Some((sent.underlay.is_empty(), expected.map(|_| ()))))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn redirects_do_what_the_specification_says(seed in any::<u64>()) {
        let mut dice = Dice(seed);
        let objects = configuration(&mut dice);
        for _ in 0..20 {
            check(&mut dice, &objects)?;
        }
    }
}

/// The property says something only if redirects come to all ends.
#[test]
fn random_redirects_come_to_all_ends() {
    let (mut moved, mut reasons) = ([0; 2], std::collections::BTreeSet::new());
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let objects = configuration(&mut dice);
        for _ in 0..20 {
            match check(&mut dice, &objects).expect("as the specification says") {
                Some((is_public, Ok(()))) => moved[usize::from(is_public)] += 1,
                Some((_, Err(reason))) => _ = reasons.insert(reason),
                None => {}
            }
        }
    }
    assert!(moved.iter().all(|count| *count > 10), "{moved:?}");
    for reason in [
        Reason::FlowVni,
        Reason::UntrustedVni,
        Reason::InboundRouteMiss,
        Reason::InboundRouteDrop,
        Reason::PaValidation,
        Reason::Unsupported,
        Reason::ForgedRedirect,
    ] {
        assert!(
            reasons.contains(&reason),
            "{reason:?} never happened: {reasons:?}"
        );
    }
}
