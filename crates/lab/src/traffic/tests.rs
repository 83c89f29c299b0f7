use super::*;
use std::io::Write;
use std::path::PathBuf;
use tempfile::{NamedTempFile, TempDir};
use twinpath_core::wire::{Endpoint, PacketBuilder, dissect, fields};
use twinpath_io::CaptureWriter;

fn parameters(text: &str) -> TrafficParameters {
    let parameters: TrafficParameters = toml::from_str(text).expect(text);
    parameters.check().expect(text);
    parameters
}

fn packets(parameters: &TrafficParameters) -> Vec<(Incoming, Vec<u8>)> {
    let config = parameters.generator(24.0).expect("files are there");
    let mut traffic = Traffic::new(parameters, &config).expect("sound");
    let mut buffer = vec![0; traffic.buffer_bytes()];
    let mut all = Vec::new();
    while let Some(incoming) = traffic.next_into(&mut buffer) {
        all.push((incoming, buffer[..incoming.len].to_vec()));
    }
    all
}

/// Bits on the wire in the time from the first to the last packet, in Gb/s.
fn gbps(packets: &[(Incoming, Vec<u8>)]) -> f64 {
    let bits: usize = packets
        .iter()
        .map(|(packet, _)| 8 * (packet.len + 24))
        .sum();
    let (first, last) = (packets[0].0.at, packets[packets.len() - 1].0.at);
    bits as f64 * 1e-9 / (last - first).s_f64()
}

fn file(text: &str) -> (NamedTempFile, String) {
    let mut file = NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("room");
    let name = file.path().display().to_string();
    (file, name)
}

#[test]
fn every_kind_of_traffic_has_the_rate_asked_for() {
    let (_sizes, sizes) = file("64 0.5\n1500 1\n");
    let (_flows, flows) = file("1 0.5\n10 0.9\n100 1\n");
    for text in [
        "".to_owned(),
        "arrivals = 'poisson'".to_owned(),
        "arrivals = 'bursty'\nburst_us = 5\nsilence_us = 20".to_owned(),
        "frame_bytes = 'imix'\ntcp = 1".replace("\ntcp = 1", ""),
        format!("frame_bytes = '{sizes}'"),
        "zipf = 0\nflows = 7\nchurn_per_minute = 1e6".to_owned(),
        format!("flow_sizes = '{flows}'"),
        format!(
            "flow_model = 'open'\nflow_sizes = '{flows}'\nhistory_s = 2\nflow_pps = 1e4\nflow_sizes_between = 'logarithms'"
        ),
    ] {
        let found = gbps(&packets(&parameters(&format!(
            "input_gbps = 40\npackets = 200_000\n{text}"
        ))));
        assert!((found / 40.0 - 1.0).abs() < 0.06, "{text}: {found}");
    }
    let found = packets(&parameters("input_mpps = 1000\npackets = 100_000"));
    assert_eq!(found[99_999].0.at, Time(99_999 * 1000));
}

#[test]
fn flows_are_as_many_and_as_popular_as_asked_for() {
    let found = packets(&parameters(
        "input_gbps = 10\nflows = 50\nzipf = 0\npackets = 50_000",
    ));
    let count = |flow: u64| {
        found
            .iter()
            .filter(|(packet, _)| packet.flow == Some(flow))
            .count()
    };
    assert!((0..50).all(|flow| (850..1150).contains(&count(flow))));
    let found = packets(&parameters("input_gbps = 10\nflows = 50\npackets = 50_000"));
    let most = (0..50)
        .map(|flow| {
            found
                .iter()
                .filter(|(packet, _)| packet.flow == Some(flow))
                .count()
        })
        .max();
    assert!(most.is_some_and(|most| most > 10_000), "{most:?}");
    let churning = packets(&parameters(
        "input_gbps = 10\nflows = 50\nchurn_per_minute = 6e6\npackets = 50_000",
    ));
    // 42 ms at 100 flows a millisecond.
    let flows = churning.iter().filter_map(|(packet, _)| packet.flow).max();
    assert!(
        flows.is_some_and(|flows| (3800..4600).contains(&flows)),
        "{flows:?}"
    );
}

#[test]
fn open_flows_have_addresses_of_their_own() {
    let (_flows, flows) = file("1 0.5\n10 1\n");
    let found = packets(&parameters(&format!(
        "input_gbps = 1\nflow_model = 'open'\nflow_sizes = '{flows}'\nhistory_s = 0.1\npackets = 10_000\nframe_bytes = 870"
    )));
    let mut sources = std::collections::BTreeMap::new();
    for (packet, bytes) in &found {
        let layout = dissect(bytes).expect("well formed");
        let source = fields::source(bytes, &layout);
        assert_eq!(bytes.len(), 870);
        let other = sources.insert(packet.flow, source);
        assert!(other.is_none_or(|other| other == source));
    }
    let distinct: std::collections::BTreeSet<_> =
        sources.values().map(ToString::to_string).collect();
    assert_eq!(distinct.len(), sources.len());
    assert!(sources.len() > 1000);
}

fn capture() -> (TempDir, PathBuf) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("three.pcap");
    let mut writer = CaptureWriter::create(&path).expect("a file");
    let (from, to) = (
        Endpoint::v4([10, 0, 0, 1], 1),
        Endpoint::v4([10, 0, 0, 2], 2),
    );
    for at_ns in [1_000_000_000, 1_000_010_000, 1_000_030_000] {
        let packet = PacketBuilder::udp(from, to)
            .payload(b"abc")
            .to_vec()
            .expect("a packet");
        writer.write(at_ns, &packet).expect("room");
    }
    writer.finish().expect("written");
    (folder, path)
}

#[test]
fn a_capture_is_replayed_faster_and_again() {
    let (_folder, path) = capture();
    let text = format!(
        "capture = '{}'\ntime_scale = 10\npackets = 10",
        path.display()
    );
    let times: Vec<u64> = packets(&parameters(&text))
        .iter()
        .map(|(packet, _)| packet.at.ns())
        .collect();
    // A round takes 30 us and a mean gap of 15 us, all ten times as fast.
    assert_eq!(
        times,
        [
            0, 1000, 3000, 4500, 5500, 7500, 9000, 10_000, 12_000, 13_500
        ]
    );
    let slow = packets(&parameters(
        &text.replace("10\npackets = 10", "0.5\npackets = 10"),
    ));
    assert_eq!(slow[2].0.at.ns(), 60_000);
    let ended = packets(&parameters(&format!("{text}\nduration_ms = 0.005")));
    assert_eq!(ended.len(), 4);
}

#[test]
fn what_does_not_go_together_is_refused_by_name() {
    for (text, field) in [
        ("packets = 1", "packets"),
        ("zipf = -1", "zipf"),
        ("zipf = nan", "zipf"),
        ("flows = 0", "flows"),
        ("input_gbps = 0", "input_gbps"),
        ("input_gbps = 1\ninput_mpps = 1", "input_mpps"),
        ("capture = 'a'\ninput_gbps = 1", "capture"),
        ("time_scale = 0", "time_scale"),
        ("frame_bytes = 0", "frame_bytes"),
        ("frame_bytes = 9999", "frame_bytes"),
        ("flow_model = 'open'", "flow_sizes"),
        (
            "flow_model = 'open'\nflow_sizes = 'a'\nflow_size_unit = 'bytes'",
            "flow_size_unit",
        ),
        ("duration_ms = -1", "duration_ms"),
        ("churn_per_minute = 1e12", "churn_per_minute"),
    ] {
        let parameters: TrafficParameters = toml::from_str(text).expect(text);
        let error = parameters.check().expect_err(text);
        assert_eq!(error.field.as_deref(), Some(field), "{text}");
    }
    for (text, field) in [
        ("flow_sizes = '/no/such/file'\ninput_gbps = 1", "flow_sizes"),
        (
            "frame_bytes = '/no/such/file'\ninput_gbps = 1",
            "frame_bytes",
        ),
        ("capture = '/no/such/file'", "capture"),
        ("input_gbps = 1e-6", "input_gbps"),
    ] {
        let parameters = parameters(text);
        let made = parameters
            .generator(24.0)
            .and_then(|config| Traffic::new(&parameters, &config));
        let error = made.err().expect(text);
        assert_eq!(error.field.as_deref(), Some(field), "{text}: {error}");
    }
    let none = TrafficParameters::default().check_complete();
    assert_eq!(
        none.expect_err("no rate").field.as_deref(),
        Some("input_gbps")
    );
}

/// Every file of published distributions, and every capture, can be named in a plan.
#[test]
fn shared_distributions_and_captures_can_be_replayed() {
    let Some(cdfs) = twinpath_captures::shared("cdf") else {
        return;
    };
    for name in [
        "hkust_CDF_dctcp_websearch.txt",
        "hpcc_FbHdp_distribution.txt",
        "internet_agh_201506_flow_stats.csv",
    ] {
        let text = format!(
            "input_gbps = 10\npackets = 2000\nflow_sizes = '{}'",
            cdfs.join(name).display()
        );
        assert_eq!(packets(&parameters(&text)).len(), 2000, "{name}");
    }
    let Some(backbone) = twinpath_captures::shared_capture("snabb_backbone_sanitized4k.pcap")
    else {
        return;
    };
    let text = format!(
        "capture = '{}'\ntime_scale = 3\npackets = 10_000",
        backbone.display()
    );
    assert_eq!(packets(&parameters(&text)).len(), 10_000);
}
