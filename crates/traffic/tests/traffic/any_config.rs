//! Whatever the configuration: no panic, every frame dissects, streams complete.

use std::time::Duration;

use crate::common::{Streams, checked_layout, run_with_stats};
use proptest::prelude::*;
use twinpath_traffic::config::{
    Arrivals, FlowSize, KeyValue, MixEntry, PacketSize, Popularity, Protocol, Service, Signature,
    SizeUnit,
};
use twinpath_traffic::{Generator, TrafficConfig};

fn arrivals() -> impl Strategy<Value = Arrivals> {
    let rate = 1e3..1e8f64;
    prop_oneof![
        rate.clone()
            .prop_map(|rate_pps| Arrivals::Constant { rate_pps }),
        rate.clone()
            .prop_map(|rate_pps| Arrivals::Poisson { rate_pps }),
        (rate, 1.0..1e7f64, 1.0..1e7f64).prop_map(|(rate_pps, on_ns, off_ns)| Arrivals::OnOff {
            rate_pps,
            on_ns,
            off_ns
        }),
    ]
}

fn popularity() -> impl Strategy<Value = Popularity> {
    prop_oneof![
        Just(Popularity::Uniform {}),
        (0.1..3.0f64).prop_map(|exponent| Popularity::Zipf { exponent }),
    ]
}

fn packet_size() -> impl Strategy<Value = PacketSize> {
    let entry = (1u16.., 1u32..9).prop_map(|(frame_bytes, weight)| MixEntry {
        frame_bytes,
        weight,
    });
    prop_oneof![
        (1u16..).prop_map(|frame_bytes| PacketSize::Fixed { frame_bytes }),
        Just(PacketSize::Imix {}),
        prop::collection::vec(entry, 1..5).prop_map(|entries| PacketSize::Mix { entries }),
    ]
}

fn flow_size() -> impl Strategy<Value = FlowSize> {
    prop_oneof![
        Just(FlowSize::Endless {}),
        (1u64..5_000).prop_map(|size| FlowSize::Fixed {
            size,
            unit: SizeUnit::Bytes
        }),
        (1u64..50).prop_map(|size| FlowSize::Fixed {
            size,
            unit: SizeUnit::Packets
        }),
    ]
}

fn services() -> impl Strategy<Value = Vec<Service>> {
    let protocol = prop::option::of(prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp)]);
    let service = (any::<bool>(), any::<u16>(), protocol).prop_map(|(v4, port, protocol)| {
        let address = if v4 { "192.0.2.1" } else { "2001:db8:7::1" }
            .parse()
            .unwrap();
        Service {
            address,
            port,
            protocol,
        }
    });
    prop::collection::vec(service, 0..4)
}

fn kv() -> impl Strategy<Value = Option<KeyValue>> {
    let kv = (
        0.0..=1.0f64,
        0.0..=1.0f64,
        1u64..500,
        popularity(),
        0u16..=128,
        any::<bool>(),
    );
    prop::option::weighted(
        0.3,
        kv.prop_map(
            |(share, get_share, keys, popularity, value_bytes, preload)| KeyValue {
                share,
                get_share,
                keys,
                popularity,
                value_bytes,
                preload,
                ..KeyValue::default()
            },
        ),
    )
}

prop_compose! {
    fn shares()(
        share in prop::array::uniform6(0.0..=1.0f64),
        ipv6_share in prop_oneof![Just(0.0), Just(1.0), 0.0..=1.0f64],
        vlan in prop::option::of(1u16..4095),
        flags in prop::array::uniform3(any::<bool>()),
        late in (0.0..=1.0f64, 1u16..6, 1u32..200),
        ack_every in 0u16..4,
        signature in prop::option::of((0u16..40, 0.0..=1.0f64)),
    ) -> TrafficConfig {
        let mut config = TrafficConfig {
            tcp_share: share[0],
            reply_share: share[1],
            fragment_share: share[2],
            icmp_error_share: share[3] / 2.0,
            server_packets: flags[0],
            padded: flags[1],
            signatures: signature
                .map(|(offset, share)| Signature { text: "needle".into(), offset, share })
                .into_iter()
                .collect(),
            ..TrafficConfig::default()
        };
        config.tcp.handshake = flags[2];
        config.tcp.reset_share = share[4];
        config.tcp.out_of_order_share = late.0 / f64::from(late.1 + 1);
        config.tcp.out_of_order_distance = late.1;
        config.tcp.out_of_order_delay_packets = late.2;
        config.tcp.ack_every = ack_every;
        (config.hosts.ipv6_share, config.hosts.vlan) = (ipv6_share, vlan);
        config
    }
}

prop_compose! {
    fn any_config()(
        base in shares(),
        arrivals in arrivals(),
        popularity in popularity(),
        packet_size in packet_size(),
        flow_size in flow_size(),
        services in services(),
        kv in kv(),
        flows in 1u64..200,
        churn in 0.0..=1.0f64,
        (packets, duration_ns) in (0u64..800, prop::option::of(0u64..5_000_000)),
        mtu_bytes in 1280u16..=9216,
    ) -> TrafficConfig {
        let churn_per_minute = churn * arrivals.rate_pps() * 60.0 / 7.0;
        let mut config = TrafficConfig {
            packets: Some(packets), duration_ns, arrivals, popularity, packet_size, flow_size, kv,
            flows, churn_per_minute, mtu_bytes, ..base
        };
        config.hosts.services = services;
        config
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_valid_configuration_makes_good_packets(config in any_config(), seed: u64) {
        // Jumbo packets may not fit the window; that refusal has a test of its own.
        prop_assume!(config.validate().is_ok());
        let longest = Generator::new(&config, seed).unwrap().frame_bytes_max();
        let (packets, stats) = run_with_stats(&config, seed);
        prop_assert!(packets.len() as u64 <= config.packets.unwrap());
        prop_assert!(config.duration_ns.is_some() || packets.len() as u64 == config.packets.unwrap());
        prop_assert_eq!(stats.packets, packets.len() as u64);
        prop_assert!(packets.is_sorted_by_key(|(generated, _)| generated.timestamp_ns));
        for packet in &packets {
            checked_layout(packet);
            prop_assert!(packet.1.len() <= longest);
            prop_assert!(!config.padded || packet.1.len() >= 60);
        }
        if config.tcp.handshake && config.server_packets {
            let streams = Streams::collect(&packets);
            prop_assert_eq!(streams.late, stats.late_segments);
            streams.reassembled();
        }
    }

    #[test]
    fn no_configuration_at_all_panics(
        mut config in any_config(),
        wild in prop::array::uniform4(prop_oneof![any::<f64>(), Just(f64::NAN), Just(-1.0)]),
        which in any::<u8>(),
        counts: (u64, u32, u16),
    ) {
        let fields = [
            &mut config.tcp_share, &mut config.churn_per_minute, &mut config.tcp.out_of_order_share,
            &mut config.hosts.ipv6_share,
        ];
        for (bit, (field, value)) in fields.into_iter().zip(wild).enumerate() {
            if which >> bit & 1 == 1 { *field = value; }
        }
        if which & 16 != 0 { config.start_ns = counts.0; }
        if which & 32 != 0 { config.hosts.servers = counts.1; }
        if which & 64 != 0 { config.tcp.window_bytes = counts.2; }
        if which & 128 != 0 { config.hosts.vlan = Some(counts.2); }
        if let Ok(mut generator) = Generator::new(&config, 1) {
            let mut buffer = vec![0; generator.frame_bytes_max()];
            for _ in 0..50 {
                generator.next_into(&mut buffer);
            }
        }
    }
}

/// Property tests are bounded by their cases; this one bounds what a case may cost.
#[test]
fn the_largest_table_is_made_in_good_time() {
    let config = TrafficConfig {
        flows: 1 << 20,
        packets: Some(1),
        ..TrafficConfig::default()
    };
    let begin = std::time::Instant::now();
    assert_eq!(run_with_stats(&config, 1).0.len(), 1);
    assert!(begin.elapsed() < Duration::from_secs(20));
}
