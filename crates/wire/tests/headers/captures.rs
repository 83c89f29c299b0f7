//! Every frame of the shared captures dissects, except in those whose manifest says that frames
//! were cut short.

use std::fs;
use std::path::Path;

use twinpath_wire::{Layout, Malformed, Transport, dissect, fields, verify_ipv4_checksum};

const LINKTYPE_ETHERNET: u32 = 1;

/// The frames of a classic little-endian capture of Ethernet; `None` for any other file.
fn frames(file: &[u8]) -> Option<Vec<&[u8]>> {
    let word =
        |bytes: &[u8], at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    if word(file, 0)? != 0xa1b2_c3d4 || word(file, 20)? != LINKTYPE_ETHERNET {
        return None;
    }
    let (mut frames, mut rest) = (Vec::new(), &file[24..]);
    while let Some(captured) = word(rest, 8) {
        let end = 16 + captured as usize;
        frames.push(&rest[16..end]);
        rest = &rest[end..];
    }
    Some(frames)
}

/// What the manifest says about a capture.
struct Entry {
    name: String,
    packets: usize,
    truncated: bool,
}

fn manifest(folder: &Path) -> Vec<Entry> {
    let text = fs::read_to_string(folder.join("MANIFEST.csv")).unwrap();
    text.lines().skip(1).map(entry).collect()
}

fn entry(line: &str) -> Entry {
    let mut quoted = false;
    let split = |character: char| {
        quoted ^= character == '"';
        character == ',' && !quoted
    };
    let columns: Vec<&str> = line.split(split).collect();
    let truncated = columns[10] != "0" || columns[12].contains("ip_trunc=");
    Entry {
        name: columns[0].into(),
        packets: columns[6].parse().unwrap(),
        truncated,
    }
}

/// What dissection made of one capture.
#[derive(Default)]
struct Counts {
    good: usize,
    bad: Vec<Malformed>,
    by_transport: [usize; 6],
    inner: usize,
    bad_checksums: usize,
}

impl Counts {
    fn add(&mut self, frame: &[u8]) {
        match dissect(frame) {
            Ok(layout) => self.add_good(frame, &layout),
            Err(why) => self.bad.push(why),
        }
    }

    fn add_good(&mut self, frame: &[u8], layout: &Layout) {
        self.good += 1;
        self.by_transport[layout.transport as usize] += 1;
        self.inner += usize::from(layout.inner.is_some());
        self.bad_checksums += usize::from(!verify_ipv4_checksum(frame, layout));
        assert_eq!(
            fields::source(frame, layout).address.is_v4(),
            layout.network as u8 == 1
        );
    }
}

#[test]
fn every_frame_of_every_capture() {
    let Some(folder) = twinpath_captures::shared("traces") else {
        return;
    };
    let mut files = 0;
    for entry in manifest(&folder) {
        let file = fs::read(folder.join(&entry.name)).unwrap();
        let Some(frames) = frames(&file) else {
            continue;
        };
        let mut counts = Counts::default();
        frames.iter().for_each(|frame| counts.add(frame));
        println!(
            "{:<32}{:>6} ok {:>5} bad, by transport {:?}, {} errors with a quote, {} bad IPv4 checksums",
            entry.name,
            counts.good,
            counts.bad.len(),
            counts.by_transport,
            counts.inner,
            counts.bad_checksums,
        );
        assert_eq!(frames.len(), entry.packets, "{}", entry.name);
        assert!(
            counts.bad.is_empty() || entry.truncated,
            "{}: {:?}",
            entry.name,
            counts.bad
        );
        let cut_short = [Malformed::Ipv4TotalLength, Malformed::Ipv6PayloadLength];
        assert!(
            counts.bad.iter().all(|why| cut_short.contains(why)),
            "{}",
            entry.name
        );
        files += 1;
    }
    assert!(files > 15, "only {files} captures were read");
}

#[test]
fn a_known_capture_in_numbers() {
    let Some(folder) = twinpath_captures::shared("traces") else {
        return;
    };
    let file = fs::read(folder.join("ndpi_synscan.pcap")).unwrap();
    let frames = frames(&file).unwrap();
    let layouts = frames.iter().map(|frame| (frame, dissect(frame).unwrap()));
    let tcp = layouts.filter(|(_, layout)| layout.transport == Transport::Tcp);
    let flags: Vec<u8> = tcp
        .map(|(frame, layout)| fields::tcp_flags(frame, &layout))
        .collect();
    let count = |mask: u8, value: u8| flags.iter().filter(|flags| **flags & mask == value).count();
    assert_eq!(flags.len(), 2011);
    assert_eq!(
        (count(0x12, 0x02), count(0x12, 0x12), count(0x04, 0x04)),
        (1994, 12, 5)
    );
}
