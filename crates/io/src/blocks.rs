//! A pcapng stream as its blocks, for whoever hands it to a reader while packets come: with the way
//! that each packet went, a comment, and how many packets a reader was too slow for.

use crate::writer::pcapng::{
    block, interface_description, padding_bytes, put_option, section_header,
};
use pcap_parser::{EPB_MAGIC, ISB_MAGIC, OptionCode};

/// `epb_flags`: inbound or outbound.
const FLAGS: OptionCode = OptionCode(2);
/// `isb_ifdrop`: packets that were dropped for want of room.
const DROPPED: OptionCode = OptionCode(5);

/// A packet of a stream.
#[derive(Copy, Clone, Debug)]
pub struct StreamedPacket<'a> {
    /// The interface's number, in the order of the names.
    pub interface: u32,
    /// Nanoseconds since 1970.
    pub timestamp_ns: u64,
    /// As much of the packet as is told.
    pub bytes: &'a [u8],
    /// How long it was.
    pub length: u32,
    /// Whether it left; else it came.
    pub is_outbound: bool,
    /// What there is to say of it; nothing if empty.
    pub comment: &'a str,
}

/// Begins a stream: Ethernet interfaces with these names.
pub fn begin(names: &[String], out: &mut Vec<u8>) {
    out.extend(section_header());
    for name in names {
        out.extend(interface_description(Some(name)));
    }
}

/// The next packet.
pub fn packet(packet: &StreamedPacket<'_>, out: &mut Vec<u8>) {
    let StreamedPacket {
        interface,
        timestamp_ns,
        bytes,
        length,
        is_outbound,
        comment,
    } = *packet;
    let mut body = Vec::with_capacity(bytes.len() + comment.len() + 48);
    let captured = bytes.len() as u32;
    let (high, low) = ((timestamp_ns >> 32) as u32, timestamp_ns as u32);
    for word in [interface, high, low, captured, length.max(captured)] {
        body.extend(word.to_le_bytes());
    }
    body.extend(bytes);
    body.resize(body.len() + padding_bytes(captured), 0);
    if !comment.is_empty() {
        put_option(&mut body, OptionCode::Comment, comment.as_bytes());
    }
    let way: u32 = if is_outbound { 2 } else { 1 };
    put_option(&mut body, FLAGS, &way.to_le_bytes());
    put_option(&mut body, OptionCode::EndOfOpt, &[]);
    out.extend(block(EPB_MAGIC, &body));
}

/// So many packets of an interface were not told until now, for want of room.
pub fn dropped(interface: u32, timestamp_ns: u64, packets: u64, out: &mut Vec<u8>) {
    let mut body = Vec::new();
    for word in [interface, (timestamp_ns >> 32) as u32, timestamp_ns as u32] {
        body.extend(word.to_le_bytes());
    }
    put_option(&mut body, DROPPED, &packets.to_le_bytes());
    put_option(&mut body, OptionCode::EndOfOpt, &[]);
    out.extend(block(ISB_MAGIC, &body));
}

/// How many bytes at the front of a part of such a stream are whole blocks.
pub fn whole(stream: &[u8]) -> usize {
    let length_at = |at: usize| {
        let bytes = stream.get(at + 4..)?.first_chunk()?;
        // No block is shorter; what says so is left to whoever reads it.
        Some((u32::from_le_bytes(*bytes) as usize).max(12))
    };
    let mut end = 0;
    while let Some(next) = length_at(end).map(|length| end + length)
        && next <= stream.len()
    {
        end = next;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Trace;

    #[test]
    fn blocks_are_whole_up_to_their_ends() {
        let mut bytes = Vec::new();
        begin(&["inside".into()], &mut bytes);
        let mut ends = vec![0, section_header().len(), bytes.len()];
        dropped(0, 5, 7, &mut bytes);
        ends.push(bytes.len());
        for length in 0..=bytes.len() {
            let whole = whole(&bytes[..length]);
            let expected = ends.iter().rev().find(|end| **end <= length);
            assert_eq!(Some(&whole), expected, "{length}");
        }
    }

    #[test]
    fn a_stream_is_a_capture() {
        let mut bytes = Vec::new();
        begin(&["inside".into(), "outside".into()], &mut bytes);
        for (number, length) in [(0u32, 60u32), (1, 61), (1, 1500)] {
            let frame = vec![number as u8; length as usize];
            let told = StreamedPacket {
                interface: number,
                timestamp_ns: 1_700_000_000_123_456_789,
                bytes: &frame,
                length,
                is_outbound: number == 1,
                comment: if number == 1 { "dropped: denied" } else { "" },
            };
            packet(&told, &mut bytes);
            dropped(number, 5, 7, &mut bytes);
        }
        let file = tempfile::NamedTempFile::with_suffix(".pcapng").expect("a file");
        std::fs::write(file.path(), &bytes).expect("written");
        let trace = Trace::load(file.path()).expect("a capture");
        let lengths: Vec<_> = trace.iter().map(|packet| packet.frame.len()).collect();
        assert_eq!(lengths, [60, 61, 1500]);
        assert!(
            trace
                .iter()
                .all(|packet| packet.timestamp_ns == 1_700_000_000_123_456_789)
        );
    }
}
