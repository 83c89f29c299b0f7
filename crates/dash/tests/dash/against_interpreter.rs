//! The compiled pipeline against the specification read aloud, on random configurations and packets.

use crate::common::interpreter::{Interpreter, Packet};
use crate::common::leaving::{check_outer_headers, compare, inner_of, process, taken_apart};
use crate::common::packets::{self, Dice};
use crate::common::versions::ByVersions;
use proptest::prelude::*;
use twinpath_core::Instant;
use twinpath_core::wire::tcp::flags;
use twinpath_dash::counters::Count;
use twinpath_dash::headers::Direction;
use twinpath_dash::objects::EniMode;
use twinpath_dash::samples::Objects;
use twinpath_dash::settings::Dscp;
use twinpath_dash::{Dpu, Reason, Settings};

const ENIS: u8 = 4;

fn settings(dice: &mut Dice) -> Settings {
    Settings {
        flows: 4096,
        port_map_must_match: dice.one_in(3),
        empty_acl_denies: !dice.one_in(3),
        check_outbound_source: !dice.one_in(3),
        udp_checksum_v6: dice.one_in(2),
        ttl: dice.pick(&[1, 64, 255]),
        dscp: dice.pick(&[Dscp::Preserve, Dscp::Uniform, Dscp::Pipe(46)]),
        underlay_mac: dice.maybe(packets::mac),
        next_hop_mac: dice.maybe(packets::mac),
        ..Settings::default()
    }
}

fn configuration(dice: &mut Dice) -> Objects {
    let mut objects = packets::configuration(dice, ENIS);
    packets::add_services(&mut objects, dice, ENIS, 1);
    objects
}

fn dpu(objects: &Objects, settings: &Settings) -> Dpu {
    let mut dpu = Dpu::new(settings.clone(), 7);
    dpu.update(objects, &objects.keys());
    dpu
}

fn check(objects: &Objects, settings: &Settings, packet: &Packet) -> Result<bool, TestCaseError> {
    // Each packet is the first of its flow.
    let mut dpu = dpu(objects, settings);
    let bytes = packets::bytes(packet, flags::SYN);
    let result = process(&mut dpu, &bytes, Instant(1));
    let interpreter = Interpreter {
        objects,
        settings,
        packet,
        opened: None,
    };
    let (expected, way) = (interpreter.run(), interpreter.way());
    match (&result, &expected) {
        (Ok(frame), Ok(sent)) => {
            compare(frame, sent, inner_of(&bytes))?;
            check_outer_headers(frame, settings, &bytes)?;
            let counters = dpu.counters(&packet.eni).expect("there");
            let bytes_of_class = counters.meters.of(sent.meter_class);
            let [came, left] = [inner_of(&bytes).len(), taken_apart(frame).1.len()];
            // What the machine sends is counted as it sends it, and what it gets as it gets it.
            let metered = match way {
                Direction::Outbound => [came as u64, 0],
                Direction::Inbound => [0, left as u64],
            };
            if sent.meter_class != 0 {
                prop_assert_eq!(bytes_of_class, metered);
            }
            let mut once = [Count::default(); 2];
            for (counted, bytes) in [(&counters.received, came), (&counters.sent, left)] {
                let bytes = bytes as u64;
                once[way as usize] = Count { packets: 1, bytes };
                prop_assert_eq!(counted, &once);
            }
            // The second packet is a hit, and leaves as the first one did.
            let again = process(&mut dpu, &bytes, Instant(2));
            prop_assert_eq!(again.as_ref(), Ok(frame));
            prop_assert_eq!(dpu.counters(&packet.eni).expect("there").flow_hits, 1);
        }
        (Err(reason), Err(expected)) => prop_assert_eq!(reason, expected),
        // A packet to itself has no answers to tell from it.
        (Err(Reason::FlowClash), Ok(_)) => {
            prop_assert_eq!(packet.overlay.source, packet.overlay.destination);
        }
        _ => prop_assert!(false, "{:?} instead of {:?}", result, expected),
    }
    Ok(result.is_ok())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn packets_meet_what_the_specification_says(seed in any::<u64>()) {
        let mut dice = Dice(seed);
        let objects = configuration(&mut dice);
        let settings = settings(&mut dice);
        for _ in 0..40 {
            let mut packet = packets::packet(&mut dice, &objects, ENIS);
            packets::to_external(&mut dice, &mut packet);
            packets::from_elsewhere(&mut dice, &mut packet);
            check(&objects, &settings, &packet)?;
        }
    }
}

/// The property says something only if packets come to all ends, over both IP versions and with both
/// inside.
#[test]
fn random_packets_come_to_all_ends() {
    let (mut forwarded, mut hidden, mut balanced) = (ByVersions::default(), 0u64, 0u64);
    let mut to_floating_nics = [0; 2];
    let mut reasons = std::collections::BTreeSet::new();
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let objects = configuration(&mut dice);
        let settings = settings(&mut dice);
        for _ in 0..40 {
            let mut packet = packets::packet(&mut dice, &objects, ENIS);
            packets::to_external(&mut dice, &mut packet);
            packets::from_elsewhere(&mut dice, &mut packet);
            let expected = Interpreter {
                objects: &objects,
                settings: &settings,
                packet: &packet,
                opened: None,
            };
            match expected.run() {
                Ok(sent) => {
                    forwarded.count(&packet, 1);
                    let is_floating = objects.enis[&packet.eni].mode == EniMode::FloatingNic;
                    if is_floating && packet.direction == Direction::Inbound {
                        to_floating_nics[expected.way() as usize] += 1;
                    }
                    let overlay = (sent.overlay, packet.overlay);
                    if let (Some(sent), Some(came)) = (overlay.0.ports, overlay.1.ports)
                        && overlay.0.source.is_v4() == overlay.1.source.is_v4()
                    {
                        hidden += u64::from(sent[0] != came[0]);
                        balanced += u64::from(sent[1] != came[1]);
                    }
                }
                Err(reason) => _ = reasons.insert(reason),
            }
        }
    }
    assert!(forwarded.least() > 100, "{forwarded:?}");
    assert!(
        to_floating_nics.iter().all(|count| *count > 20),
        "{to_floating_nics:?} from their machines and to them"
    );
    assert!(
        hidden > 20 && balanced > 5,
        "{hidden} hidden, {balanced} balanced"
    );
    for reason in [
        Reason::SpoofedSource,
        Reason::UntrustedVni,
        Reason::AclInbound,
        Reason::AclOutbound,
        Reason::RouteGroupMiss,
        Reason::RouteMiss,
        Reason::RouteDrop,
        Reason::MappingMiss,
        Reason::PortMapMiss,
        Reason::PortRangeMiss,
        Reason::Unresolved,
        Reason::Unsupported,
        Reason::InboundRouteMiss,
        Reason::InboundRouteDrop,
        Reason::PaValidation,
        Reason::NatUnsolicited,
    ] {
        assert!(
            reasons.contains(&reason),
            "{reason:?} never happened: {reasons:?}"
        );
    }
}
