//! Tenants that use the same addresses never meet: each packet leaves a DPU that carries many ENIs
//! exactly as it leaves one that carries its own alone, whatever the others send and whatever becomes of
//! them.

use crate::common::interpreter::Packet;
use crate::common::leaving::process;
use crate::common::packets::{self, Dice, HEADROOM, eni_id};
use proptest::prelude::*;
use twinpath_core::Instant;
use twinpath_core::wire::tcp::flags;
use twinpath_core::wire::tunnel::{Tunnel, VXLAN_PORT, ecn};
use twinpath_core::wire::{MacAddress, dissect, fields, protocol};
use twinpath_dash::headers::Direction;
use twinpath_dash::objects::{Key, Qos, VnetMappingKey};
use twinpath_dash::samples::Objects;
use twinpath_dash::{Dpu, Reason, Settings, Verdict};

const ENIS: u8 = 4;

/// The same configuration with one ENI.
fn alone(objects: &Objects, number: u8) -> Objects {
    let mut alone = objects.clone();
    alone.enis.retain(|id, _| *id == eni_id(number));
    alone
}

fn settings() -> Settings {
    Settings {
        flows: 4096,
        ..Settings::default()
    }
}

fn dpu(objects: &Objects, seed: u64) -> Dpu {
    with(settings(), objects, seed)
}

fn with(settings: Settings, objects: &Objects, seed: u64) -> Dpu {
    let mut dpu = Dpu::new(settings, seed);
    dpu.update(objects, &objects.keys());
    dpu
}

/// An answer to what left: turned, by the tunnel it left by, to the ENI that sent it.
fn answer(sent: &[u8], packet: &Packet) -> Option<Vec<u8>> {
    let layout = dissect(sent).ok()?;
    let tunnel = Tunnel::read(sent, &layout, VXLAN_PORT).ok()?;
    let inner = &sent[tunnel.inner()];
    let inside = dissect(inner).ok()?;
    if Tunnel::read(inner, &inside, VXLAN_PORT).is_ok() {
        return None;
    }
    let mut turned = inner.to_vec();
    twinpath_core::wire::rewrite::swap_endpoints(&mut turned, &inside).ok()?;
    if packet.overlay.protocol == protocol::TCP {
        let both = flags::SYN | flags::ACK;
        twinpath_core::wire::rewrite::set_tcp_flags(&mut turned, &inside, both).ok()?;
    }
    let number: u8 = packet.eni.as_str()[3..].parse().ok()?;
    turned[..6].copy_from_slice(&packets::eni_mac(number).0);
    turned[6..12].copy_from_slice(&MacAddress([2, 0, 0, 0, 9, 9]).0);
    let back = Packet {
        direction: Direction::Inbound,
        encapsulation: tunnel.encapsulation,
        vni: tunnel.key,
        outer_source: fields::destination_address(sent, &layout),
        ..packet.clone()
    };
    let is_of_underlay = back.outer_source.is_v4() == packet.outer_source.is_v4();
    is_of_underlay.then(|| packets::encapsulated(&back, &turned))
}

/// A packet of any flow, and the number of its ENI.
fn fresh(dice: &mut Dice, objects: &Objects) -> (usize, Packet) {
    let mut packet = packets::packet(dice, objects, ENIS);
    packets::to_external(dice, &mut packet);
    let number = packet.eni.as_str()[3..].parse().expect("a number");
    (number, packet)
}

/// What tenants' packets came to.
#[derive(Debug, Default)]
struct RunTotals {
    sent: u64,
    /// Of known flows.
    hits: u64,
    dropped: u64,
    answers: usize,
}

/// Tenants share a DPU, and have one each; all that they see is the same.
fn run(seed: u64) -> Result<RunTotals, TestCaseError> {
    let mut dice = Dice(seed);
    let mut objects = packets::configuration(&mut dice, ENIS);
    packets::add_services(&mut objects, &mut dice, ENIS, 4);
    // Choices among endpoints, backends and ports follow from the seed.
    let mut together = dpu(&objects, 1);
    let mut apart: Vec<Dpu> = (0..ENIS)
        .map(|number| dpu(&alone(&objects, number), 1))
        .collect();
    let mut now = Instant(1);
    let mut answers: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut seen = RunTotals::default();
    // Packets that left: others of their flows follow.
    let mut open: Vec<(usize, Packet)> = Vec::new();
    for _ in 0..120 {
        now = Instant(now.0 + dice.below(2_000_000_000));
        if dice.one_in(20) {
            change(&mut dice, &mut objects, &mut together, &mut apart);
        }
        let (number, bytes, packet) = match answers.pop().filter(|_| dice.one_in(2)) {
            Some((number, bytes)) => {
                seen.answers += 1;
                (number, bytes, None)
            }
            None => {
                let is_known = !open.is_empty() && !dice.one_in(3);
                let (number, packet) = match is_known {
                    true => open[dice.below(open.len() as u64) as usize].clone(),
                    false => fresh(&mut dice, &objects),
                };
                let tcp_flags = match is_known {
                    true => dice.pick(&[flags::ACK, flags::ACK, flags::ACK, flags::RST]),
                    false => dice.pick(&[
                        flags::SYN,
                        flags::SYN,
                        flags::SYN,
                        flags::ACK,
                        flags::FIN | flags::ACK,
                    ]),
                };
                (number, packets::bytes(&packet, tcp_flags), Some(packet))
            }
        };
        let one = process(&mut together, &bytes, now);
        let other = process(&mut apart[number], &bytes, now);
        prop_assert_eq!(&one, &other, "ENI {}", number);
        if let (Ok(sent), Some(packet)) = (&one, &packet) {
            if packet.direction == Direction::Outbound
                && let Some(answer) = answer(sent, packet)
            {
                answers.push((number, answer));
            }
            open.push((number, packet.clone()));
        }
        if dice.one_in(10) {
            together.age(1_000, now);
        }
    }
    for number in 0..ENIS {
        let id = eni_id(number);
        let counters =
            [&together, &apart[usize::from(number)]].map(|dpu| dpu.counters(&id).expect("there"));
        prop_assert_eq!(&counters[0].sent, &counters[1].sent);
        prop_assert_eq!(&counters[0].drops, &counters[1].drops);
        seen.sent += counters[0]
            .sent
            .iter()
            .map(|sent| sent.packets)
            .sum::<u64>();
        seen.hits += counters[0].flow_hits;
        seen.dropped += counters[0].drops.total();
    }
    Ok(seen)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_packet_meets_its_own_enis_entries_alone(seed in any::<u64>()) {
        run(seed)?;
    }
}

/// There is something to be mixed up.
#[test]
fn packets_of_tenants_are_known_answered_and_dropped() {
    let mut all = RunTotals::default();
    for seed in 0..60 {
        let seen = run(seed).expect("each has its own");
        all.sent += seen.sent;
        all.hits += seen.hits;
        all.dropped += seen.dropped;
        all.answers += seen.answers;
    }
    let RunTotals {
        sent,
        hits,
        dropped,
        answers,
    } = all;
    assert!(
        sent > 2_500 && hits > 2_000 && dropped > 1_000 && answers > 300,
        "{all:?}"
    );
}

proptest! {
    /// Packets of a burst are treated as if they came one by one, and counted so: also where a packet is
    /// one of its flow's many, policies change, and time ends flows.
    #[test]
    fn bursts_change_nothing(seed in any::<u64>()) {
        let mut dice = Dice(seed);
        let mut objects = packets::configuration(&mut dice, ENIS);
        limit(&mut dice, &mut objects);
        let settings = Settings { mtu: dice.pick(&[9000, 110]), ..settings() };
        let [mut one_by_one, mut at_once] = [(); 2].map(|()| with(settings.clone(), &objects, 1));
        let mut known = Vec::new();
        for step in 1..12 {
            let now = Instant(step << dice.below(36));
            let mut burst = burst(&mut dice, &objects, &mut known);
            let each_alone = |bytes: &Vec<u8>| {
                let mut buffer = bytes.clone();
                // Not by the shortest way, which is that of bursts.
                let verdict = one_by_one.process(&mut buffer, HEADROOM, now);
                outcome(&buffer, verdict)
            };
            let expected: Vec<_> = burst.iter().map(each_alone).collect();
            let mut found = Vec::new();
            at_once.process_burst(&mut burst, HEADROOM, now, |buffer, verdict| {
                found.push(outcome(buffer, verdict));
            });
            prop_assert_eq!(found, expected);
            for number in 0..ENIS {
                let counters = [&one_by_one, &at_once].map(|dpu| dpu.counters(&eni_id(number)).cloned());
                prop_assert_eq!(&counters[0], &counters[1]);
            }
            let flows = [&one_by_one, &at_once].map(|dpu| dpu.flows().collect::<Vec<_>>());
            prop_assert_eq!(&flows[0], &flows[1]);
            if dice.one_in(3) {
                let underlay = packets::physical(&mut dice, packets::is_underlay_v4(&objects));
                let count = objects.mappings.len().max(1) as u64;
                if let Some((key, mapping)) = objects.mappings.iter_mut().nth(dice.below(count) as usize) {
                    mapping.underlay_ip = underlay;
                    let (vnet, address) = key.clone();
                    let changed = [Key::VnetMapping(VnetMappingKey { vnet, address })];
                    one_by_one.update(&objects, &changed);
                    at_once.update(&objects, &changed);
                }
            }
        }
    }
}

/// What leaves, be it the packet or what its sender is told.
fn outcome(buffer: &[u8], verdict: Verdict) -> Result<Vec<u8>, (Reason, Vec<u8>)> {
    match verdict {
        Verdict::Forward(frame) => Ok(buffer[frame].to_vec()),
        Verdict::Drop(reason) => Err((reason, Vec::new())),
        Verdict::TooLong(error) => Err((Reason::TooLong, error)),
    }
}

/// Some ENIs may have so much, and no more.
fn limit(dice: &mut Dice, objects: &mut Objects) {
    let qos = Qos {
        qos_id: "qos".into(),
        bandwidth_kbps: dice.pick(&[0, 100, 10_000]),
        connections_per_second: dice.pick(&[0, 0, 10]),
        flows: dice.pick(&[0, 0, 5]),
    };
    objects.qos.insert("qos".into(), qos);
    for eni in objects.enis.values_mut() {
        eni.qos = dice.one_in(2).then(|| "qos".into());
    }
}

/// New packets, and those of flows that there may be, with other flags, marks and lengths.
fn burst(dice: &mut Dice, objects: &Objects, known: &mut Vec<Packet>) -> Vec<Vec<u8>> {
    let count = dice.below(40);
    (0..count)
        .map(|_| {
            let again = (!known.is_empty() && !dice.one_in(3))
                .then(|| known[dice.below(known.len() as u64) as usize].clone());
            let packet = again.unwrap_or_else(|| packets::packet(dice, objects, ENIS));
            known.push(packet.clone());
            let of_known = [
                flags::ACK,
                flags::ACK,
                flags::ACK,
                flags::SYN,
                flags::FIN | flags::ACK,
                flags::RST,
            ];
            let mut bytes = packets::bytes(&packet, dice.pick(&of_known));
            if dice.one_in(8) {
                let outer = &mut bytes[HEADROOM..];
                let layout = dissect(outer).expect("sound");
                ecn::set_traffic_class(outer, &layout, ecn::CONGESTED);
            }
            // Damage.
            if dice.one_in(8) {
                let at = HEADROOM + dice.below(60) as usize;
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << dice.below(8);
                }
            }
            bytes
        })
        .collect()
}

/// A mapping changes, or an ENI is replaced by another one with the same MAC address.
fn change(dice: &mut Dice, objects: &mut Objects, together: &mut Dpu, apart: &mut [Dpu]) {
    let keys: Vec<_> = objects.mappings.keys().cloned().collect();
    if dice.one_in(2) && !keys.is_empty() {
        let key = keys[dice.below(keys.len() as u64) as usize].clone();
        let underlay = packets::physical(dice, packets::is_underlay_v4(objects));
        objects.mappings.get_mut(&key).expect("there").underlay_ip = underlay;
        let changed = [Key::VnetMapping(VnetMappingKey {
            vnet: key.0,
            address: key.1,
        })];
        together.update(objects, &changed);
        for (number, dpu) in (0..ENIS).zip(apart) {
            dpu.update(&alone(objects, number), &changed);
        }
        return;
    }
    let number = dice.below(ENIS.into()) as u8;
    let changed = [Key::Eni(eni_id(number))];
    let old = objects.enis.remove(&eni_id(number)).expect("there");
    let dpu = &mut apart[usize::from(number)];
    together.update(objects, &changed);
    dpu.update(&alone(objects, number), &changed);
    objects.enis.insert(eni_id(number), old);
    together.update(objects, &changed);
    dpu.update(&alone(objects, number), &changed);
}

/// An ENI that takes the place of another is none of its flows' business.
#[test]
fn flows_of_an_eni_end_with_it() {
    let mut hits = 0;
    for seed in 0..1000 {
        let mut dice = Dice(seed);
        let mut objects = packets::configuration(&mut dice, 1);
        let mut dpu = dpu(&objects, 1);
        let packet = packets::packet(&mut dice, &objects, 1);
        let open = packets::bytes(&packet, flags::SYN);
        if packet.overlay.protocol != protocol::TCP || process(&mut dpu, &open, Instant(1)).is_err()
        {
            continue;
        }
        hits += 1;
        let segment = packets::bytes(&packet, flags::ACK);
        assert!(process(&mut dpu, &segment, Instant(2)).is_ok());
        let changed = [Key::Eni(eni_id(0))];
        let eni = objects.enis.remove(&eni_id(0)).expect("there");
        dpu.update(&objects, &changed);
        assert_eq!(
            process(&mut dpu, &segment, Instant(3)),
            Err(Reason::EniMiss)
        );
        objects.enis.insert(eni_id(0), eni);
        dpu.update(&objects, &changed);
        assert_eq!(process(&mut dpu, &segment, Instant(4)), Err(Reason::NoFlow));
        assert_eq!(
            dpu.flows_of(0),
            0,
            "those of the old one are not counted for the new"
        );
    }
    assert!(hits > 10, "{hits}");
}
