//! Messages of IPFIX (RFC 7011): a header, the templates now and then, and sets of records.
//!
//! Records are of eight kinds, each with a template of its own: flows of either IP version, with ports or
//! without, and bindings and blocks of ports of a translation whose hosts inside have either (RFC 8158 §5).

use std::time::Duration;
use twinpath_core::wire::Endpoint;
use twinpath_core::{FlowKey, Side};
use twinpath_nf::records::{BindingEvent, Count, FlowRecord, Kind};

/// Longest message, in bytes: it fits a tunnel's packets (RFC 7011 §10.3.3).
pub const MOST_BYTES: usize = 1400;

const VERSION: u16 = 10;
const HEADER_BYTES: usize = 16;
const SET_BYTES: usize = 4;
/// The set that has templates.
const TEMPLATES: u16 = 2;

/// An information element, by its number and length in bytes (IANA's registry of IPFIX).
type Element = (u16, u16);

const OCTETS: Element = (1, 8);
const PACKETS: Element = (2, 8);
const PROTOCOL: Element = (4, 1);
/// The TCP flags of all packets (`tcpControlBits`).
const TCP_FLAGS: Element = (6, 2);
const SOURCE_PORT: Element = (7, 2);
const SOURCE_V4: Element = (8, 4);
const DESTINATION_PORT: Element = (11, 2);
const DESTINATION_V4: Element = (12, 4);
const SOURCE_V6: Element = (27, 16);
const DESTINATION_V6: Element = (28, 16);
const END_REASON: Element = (136, 1);
const START_MS: Element = (152, 8);
const END_MS: Element = (153, 8);
const TRANSLATED_SOURCE_V4: Element = (225, 4);
const TRANSLATED_SOURCE_PORT: Element = (227, 2);
const NAT_EVENT: Element = (230, 1);
const OBSERVED_MS: Element = (323, 8);
const FIRST_PORT: Element = (361, 2);
const LAST_PORT: Element = (362, 2);

/// What kinds of records there are.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u16)]
enum Template {
    FlowV4 = 256,
    FlowV6 = 257,
    BindingV4 = 258,
    BindingV6 = 259,
    BlockV4 = 260,
    BlockV6 = 261,
    PortlessFlowV4 = 262,
    PortlessFlowV6 = 263,
}

impl Template {
    const ALL: [Self; 8] = [
        Self::FlowV4,
        Self::FlowV6,
        Self::BindingV4,
        Self::BindingV6,
        Self::BlockV4,
        Self::BlockV6,
        Self::PortlessFlowV4,
        Self::PortlessFlowV6,
    ];

    const fn elements(self) -> &'static [Element] {
        match self {
            Self::FlowV4 => &[
                SOURCE_V4,
                DESTINATION_V4,
                SOURCE_PORT,
                DESTINATION_PORT,
                PROTOCOL,
                TCP_FLAGS,
                OCTETS,
                PACKETS,
                START_MS,
                END_MS,
                END_REASON,
            ],
            Self::FlowV6 => &[
                SOURCE_V6,
                DESTINATION_V6,
                SOURCE_PORT,
                DESTINATION_PORT,
                PROTOCOL,
                TCP_FLAGS,
                OCTETS,
                PACKETS,
                START_MS,
                END_MS,
                END_REASON,
            ],
            Self::PortlessFlowV4 => &[
                SOURCE_V4,
                DESTINATION_V4,
                PROTOCOL,
                TCP_FLAGS,
                OCTETS,
                PACKETS,
                START_MS,
                END_MS,
                END_REASON,
            ],
            Self::PortlessFlowV6 => &[
                SOURCE_V6,
                DESTINATION_V6,
                PROTOCOL,
                TCP_FLAGS,
                OCTETS,
                PACKETS,
                START_MS,
                END_MS,
                END_REASON,
            ],
            Self::BindingV4 => &[
                OBSERVED_MS,
                NAT_EVENT,
                PROTOCOL,
                SOURCE_V4,
                SOURCE_PORT,
                TRANSLATED_SOURCE_V4,
                TRANSLATED_SOURCE_PORT,
            ],
            Self::BlockV4 => &[
                OBSERVED_MS,
                NAT_EVENT,
                SOURCE_V4,
                TRANSLATED_SOURCE_V4,
                FIRST_PORT,
                LAST_PORT,
            ],
            Self::BlockV6 => &[
                OBSERVED_MS,
                NAT_EVENT,
                SOURCE_V6,
                TRANSLATED_SOURCE_V4,
                FIRST_PORT,
                LAST_PORT,
            ],
            Self::BindingV6 => &[
                OBSERVED_MS,
                NAT_EVENT,
                PROTOCOL,
                SOURCE_V6,
                SOURCE_PORT,
                TRANSLATED_SOURCE_V4,
                TRANSLATED_SOURCE_PORT,
            ],
        }
    }

    fn record_bytes(self) -> usize {
        let lengths = self.elements().iter().map(|(_, length)| *length);
        lengths.map(usize::from).sum()
    }
}

/// Why a flow is told (`flowEndReason`).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EndReason {
    /// No packet came for long.
    Idle = 1,
    /// It goes on, and it was long ago that it was told.
    Active = 2,
    /// The service ends.
    Forced = 4,
}

/// Part of a flow: what was not told of it before.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct FlowPart {
    /// The flow, with all that it sent.
    pub record: FlowRecord,
    /// Of that, what was told before, from either end.
    pub told: [Count; 2],
    /// Why it is told.
    pub reason: EndReason,
}

/// A record of either kind, as bytes behind each other.
struct Record {
    template: Template,
    bytes: Vec<u8>,
}

/// Puts records into messages that are full, or are asked for.
pub struct Messages {
    domain: u32,
    /// Data records until now.
    sequence: u32,
    message: Vec<u8>,
    /// The set at the end of the message.
    set: Option<(Template, usize)>,
    /// Records in the message.
    records: u32,
    templates_due: bool,
}

impl Messages {
    /// None yet; the first one has the templates.
    pub fn new(domain: u32) -> Self {
        Self {
            domain,
            sequence: 0,
            message: Vec::with_capacity(MOST_BYTES),
            set: None,
            records: 0,
            templates_due: true,
        }
    }

    /// The next message has the templates again: over UDP they may have been lost (RFC 7011 §8.1).
    pub fn repeat_templates(&mut self) {
        self.templates_due = true;
    }

    /// Adds what each end of a flow has sent. Calls `send` with messages that are full.
    pub fn flow(&mut self, part: &FlowPart, now: Duration, send: &mut dyn FnMut(&[u8])) {
        for sender in [Side::Low, Side::High] {
            if let Some(record) = flow_record(part, sender) {
                self.add(&record, now, send);
            }
        }
    }

    /// Adds what became of a binding.
    pub fn binding(&mut self, event: &BindingEvent, now: Duration, send: &mut dyn FnMut(&[u8])) {
        if let Some(record) = binding_record(event) {
            self.add(&record, now, send);
        }
    }

    /// Calls `send` with what is there, if there is anything.
    pub fn finish(&mut self, now: Duration, send: &mut dyn FnMut(&[u8])) {
        if self.records == 0 && !self.templates_due {
            return;
        }
        if self.message.is_empty() {
            self.begin();
        }
        self.end_set();
        let length = self.message.len() as u16;
        let seconds = now.as_secs() as u32;
        self.message[2..4].copy_from_slice(&length.to_be_bytes());
        self.message[4..8].copy_from_slice(&seconds.to_be_bytes());
        send(&self.message);
        self.sequence = self.sequence.wrapping_add(self.records);
        self.message.clear();
        self.records = 0;
    }

    fn add(&mut self, record: &Record, now: Duration, send: &mut dyn FnMut(&[u8])) {
        debug_assert_eq!(record.bytes.len(), record.template.record_bytes());
        if self.message.len() + SET_BYTES + record.bytes.len() > MOST_BYTES {
            self.finish(now, send);
        }
        if self.message.is_empty() {
            self.begin();
        }
        if self
            .set
            .is_none_or(|(template, _)| template != record.template)
        {
            self.end_set();
            self.set = Some((record.template, self.message.len()));
            self.put16(record.template as u16);
            self.put16(0);
        }
        self.message.extend_from_slice(&record.bytes);
        self.records += 1;
    }

    fn begin(&mut self) {
        let (sequence, domain) = (self.sequence, self.domain);
        self.put16(VERSION);
        self.message.resize(HEADER_BYTES - 8, 0);
        self.message.extend(sequence.to_be_bytes());
        self.message.extend(domain.to_be_bytes());
        if std::mem::take(&mut self.templates_due) {
            self.put_templates();
        }
    }

    fn put_templates(&mut self) {
        let first = self.message.len();
        self.put16(TEMPLATES);
        self.put16(0);
        for template in Template::ALL {
            self.put16(template as u16);
            self.put16(template.elements().len() as u16);
            for (number, length) in template.elements() {
                self.put16(*number);
                self.put16(*length);
            }
        }
        self.set_length(first);
    }

    fn end_set(&mut self) {
        if let Some((_, first)) = self.set.take() {
            self.set_length(first);
        }
    }

    /// The length of a set that begins at a place and ends here.
    fn set_length(&mut self, first: usize) {
        let length = (self.message.len() - first) as u16;
        self.message[first + 2..first + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn put16(&mut self, value: u16) {
        self.message.extend(value.to_be_bytes());
    }
}

/// What an end of a flow has sent and was not told; nothing if that is nothing and the flow goes on, or that end
/// has never sent.
fn flow_record(part: &FlowPart, sender: Side) -> Option<Record> {
    let FlowPart {
        record,
        told,
        reason,
    } = part;
    let (all, told) = (record.sent[sender as usize], told[sender as usize]);
    let packets = all.packets.saturating_sub(told.packets);
    if all.packets == 0 || packets == 0 && *reason == EndReason::Active {
        return None;
    }
    let (from, to) = ends(&record.key, sender);
    let is_v4 = from.address.is_v4() && to.address.is_v4();
    let mut bytes = Vec::new();
    put_address(&mut bytes, from, is_v4);
    put_address(&mut bytes, to, is_v4);
    let has_ports = !IDENTIFIED.contains(&record.key.protocol());
    if has_ports {
        bytes.extend(from.port.to_be_bytes());
        bytes.extend(to.port.to_be_bytes());
    }
    bytes.push(record.key.protocol());
    bytes.extend(u16::from(record.tcp_flags[sender as usize]).to_be_bytes());
    bytes.extend(all.bytes.saturating_sub(told.bytes).to_be_bytes());
    bytes.extend(packets.to_be_bytes());
    bytes.extend(millis(record.first.0).to_be_bytes());
    bytes.extend(millis(record.last.0).to_be_bytes());
    bytes.push(*reason as u8);
    let template = match (is_v4, has_ports) {
        (true, true) => Template::FlowV4,
        (false, true) => Template::FlowV6,
        (true, false) => Template::PortlessFlowV4,
        (false, false) => Template::PortlessFlowV6,
    };
    Some(Record { template, bytes })
}

/// ICMP and ICMPv6, whose identifiers a flow has in place of ports.
const IDENTIFIED: [u8; 2] = [1, 58];

fn ends(key: &FlowKey, sender: Side) -> (Endpoint, Endpoint) {
    let (low, high) = (key.end(Side::Low), key.end(Side::High));
    match sender {
        Side::Low => (low, high),
        Side::High => (high, low),
    }
}

/// Of NAT44 and NAT64, bindings that begin and end (RFC 8158 §4.3).
const NAT_EVENTS: [[u8; 2]; 2] = [[8, 9], [10, 11]];

/// Blocks of ports that are given to a host, and come back (RFC 8158 §5.2).
const BLOCK_EVENTS: [u8; 2] = [16, 17];

fn block_record(event: &BindingEvent, last_port: u16) -> Record {
    let (host, external) = (event.binding.internal, event.binding.external);
    let is_v4 = host.address.is_v4();
    let mut bytes = Vec::new();
    bytes.extend(millis(event.at.0).to_be_bytes());
    bytes.push(BLOCK_EVENTS[usize::from(!event.is_new)]);
    put_address(&mut bytes, host, is_v4);
    put_address(&mut bytes, external, true);
    bytes.extend(external.port.to_be_bytes());
    bytes.extend(last_port.to_be_bytes());
    let template = match is_v4 {
        true => Template::BlockV4,
        false => Template::BlockV6,
    };
    Record { template, bytes }
}

fn binding_record(event: &BindingEvent) -> Option<Record> {
    let BindingEvent {
        binding,
        at,
        is_new,
        last_port,
    } = event;
    if !binding.external.address.is_v4() {
        return None;
    }
    if let Some(last_port) = last_port {
        return Some(block_record(event, *last_port));
    }
    let is_v4 = binding.internal.address.is_v4();
    let kind = NAT_EVENTS[usize::from(!is_v4)][usize::from(!*is_new)];
    let mut bytes = Vec::new();
    bytes.extend(millis(at.0).to_be_bytes());
    bytes.push(kind);
    bytes.push(match binding.kind {
        Kind::Tcp => 6,
        Kind::Udp => 17,
        Kind::Icmp => 1,
    });
    put_address(&mut bytes, binding.internal, is_v4);
    bytes.extend(binding.internal.port.to_be_bytes());
    put_address(&mut bytes, binding.external, true);
    bytes.extend(binding.external.port.to_be_bytes());
    let template = if is_v4 {
        Template::BindingV4
    } else {
        Template::BindingV6
    };
    Some(Record { template, bytes })
}

fn put_address(bytes: &mut Vec<u8>, end: Endpoint, is_v4: bool) {
    let address = end.address.0.to_be_bytes();
    bytes.extend_from_slice(if is_v4 { &address[12..] } else { &address });
}

const fn millis(ns: u64) -> u64 {
    ns / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::Instant;
    use twinpath_nf::records::BindingRecord;

    fn part(number: u16, packets: u64) -> FlowPart {
        let (one, other) = (
            Endpoint::v4([10, 0, 0, 1], number),
            Endpoint::v4([192, 0, 2, 1], 80),
        );
        FlowPart {
            record: FlowRecord {
                key: FlowKey::connection(one, other, 6).0,
                first: Instant(1_700_000_000_000_000_000),
                last: Instant(1_700_000_001_000_000_000),
                sent: [
                    Count {
                        packets,
                        bytes: packets * 100,
                    },
                    Count::default(),
                ],
                tcp_flags: [0x1b, 0],
            },
            told: [
                Count {
                    packets: 1,
                    bytes: 100,
                },
                Count::default(),
            ],
            reason: EndReason::Idle,
        }
    }

    fn word(message: &[u8], at: usize) -> u16 {
        u16::from_be_bytes([message[at], message[at + 1]])
    }

    #[test]
    fn messages_are_as_long_as_they_say_and_count_records() {
        let (mut messages, mut sent) = (Messages::new(7), Vec::new());
        let now = Duration::from_secs(1_700_000_002);
        let mut send = |message: &[u8]| sent.push(message.to_vec());
        for number in 1..100 {
            messages.flow(&part(number, 3), now, &mut send);
        }
        messages.finish(now, &mut send);
        messages.finish(now, &mut send);
        let mut records = 0;
        for message in &sent {
            assert!(message.len() <= MOST_BYTES);
            assert_eq!(
                (word(message, 0), usize::from(word(message, 2))),
                (10, message.len())
            );
            let sequence = u32::from_be_bytes(message[8..12].try_into().expect("four bytes"));
            assert_eq!(sequence, records);
            let mut at = HEADER_BYTES;
            while at < message.len() {
                let (set, length) = (word(message, at), usize::from(word(message, at + 2)));
                if set == Template::FlowV4 as u16 {
                    let bytes = length - SET_BYTES;
                    assert_eq!(bytes % Template::FlowV4.record_bytes(), 0);
                    records += (bytes / Template::FlowV4.record_bytes()) as u32;
                }
                at += length;
            }
            assert_eq!(at, message.len());
        }
        assert_eq!(records, 99);
        assert_eq!(word(&sent[0], HEADER_BYTES), TEMPLATES);
        assert_eq!(word(&sent[1], HEADER_BYTES), Template::FlowV4 as u16);
    }

    #[test]
    fn what_was_told_is_not_told_again() {
        let record = flow_record(&part(9, 3), Side::Low).expect("two packets");
        assert_eq!(
            &record.bytes[15..31],
            &[0, 0, 0, 0, 0, 0, 0, 200, 0, 0, 0, 0, 0, 0, 0, 2]
        );
        assert!(flow_record(&part(9, 3), Side::High).is_none());
        let goes_on = FlowPart {
            reason: EndReason::Active,
            ..part(9, 1)
        };
        assert!(flow_record(&goes_on, Side::Low).is_none());
    }

    /// A collector that has heard of a flow hears that it has ended, also if it has sent nothing since.
    #[test]
    fn the_end_of_a_flow_is_told_in_any_case() {
        let record = flow_record(&part(9, 1), Side::Low).expect("it has ended");
        assert_eq!(record.bytes[15..31], [0; 16]);
        assert_eq!(record.bytes.last(), Some(&(EndReason::Idle as u8)));
        assert!(flow_record(&part(9, 1), Side::High).is_none(), "never sent");
    }

    /// An identifier is no port (IANA's registry: 7 and 11 are of transport protocols).
    #[test]
    fn echoes_have_no_ports() {
        for (one, other, protocol, template) in [
            ("10.0.0.1:7", "192.0.2.1:7", 1, Template::PortlessFlowV4),
            (
                "[2001:db8::1]:7",
                "[2001:db8::2]:7",
                58,
                Template::PortlessFlowV6,
            ),
        ] {
            let ends = [one, other].map(|end| end.parse().expect("an endpoint"));
            let mut part = part(9, 3);
            part.record.key = FlowKey::connection(ends[0], ends[1], protocol).0;
            let record = flow_record(&part, Side::Low).expect("two packets");
            assert_eq!(record.template, template);
            assert_eq!(record.bytes.len(), template.record_bytes());
        }
    }

    #[test]
    fn bindings_begin_and_end_over_either_version() {
        let event = |internal: &str, is_new| BindingEvent {
            binding: BindingRecord {
                kind: Kind::Udp,
                internal: internal.parse().expect("an endpoint"),
                external: Endpoint::v4([198, 51, 100, 1], 4000),
                sessions: 1,
            },
            at: Instant(5_000_000_000),
            is_new,
            last_port: None,
        };
        for (internal, is_new, kind) in [
            ("10.0.0.1:7", true, 8),
            ("10.0.0.1:7", false, 9),
            ("[2001:db8::1]:7", true, 10),
            ("[2001:db8::1]:7", false, 11),
        ] {
            let record = binding_record(&event(internal, is_new)).expect("outside is IPv4");
            assert_eq!(record.bytes.len(), record.template.record_bytes());
            assert_eq!(record.bytes[8..10], [kind, 17]);
            assert_eq!(record.bytes[..8], 5000u64.to_be_bytes());
        }
        for (internal, is_new, kind) in [
            ("10.0.0.1:0", true, 16),
            ("10.0.0.1:0", false, 17),
            ("[2001:db8::1]:0", true, 16),
        ] {
            let block = BindingEvent {
                last_port: Some(4511),
                ..event(internal, is_new)
            };
            let record = binding_record(&block).expect("outside is IPv4");
            assert_eq!(record.bytes.len(), record.template.record_bytes());
            assert_eq!(record.bytes[8], kind);
            let ports = &record.bytes[record.bytes.len() - 4..];
            assert_eq!(
                ports,
                [4000u16.to_be_bytes(), 4511u16.to_be_bytes()].concat()
            );
        }
    }
}
