//! Records of a classic pcap file, in any of its byte orders and resolutions.

use std::ops::Range;

use pcap_parser::nom::{Err, IResult, Needed};
use pcap_parser::{LegacyPcapBlock, PcapError, PcapHeader};
use pcap_parser::{
    parse_pcap_frame, parse_pcap_frame_be, parse_pcap_frame_modified, parse_pcap_header,
};

use crate::error::{Fault, Malformation};
use crate::interface::{Interface, Resolution};
use crate::link_type::LinkType;
use crate::window::Window;

const FILE_HEADER_LEN: usize = 24;
/// The upper bits of the field tell the length of the frame check sequence.
const LINK_TYPE_MASK: u32 = 0x03ff_ffff;

const NS_PER_S: u64 = 1_000_000_000;
const NS_PER_US: u64 = 1_000;

/// A packet as it lies in the window, before it becomes an Ethernet frame.
#[derive(Debug)]
pub(crate) struct RawRecord {
    /// Number of the interface in the file.
    pub(crate) interface: u32,
    pub(crate) link_type: LinkType,
    pub(crate) timestamp_ns: u64,
    /// Length on the wire in bytes, as the file has it.
    pub(crate) original_len: usize,
    /// Where the packet lies in the window.
    pub(crate) packet: Range<usize>,
    /// Bytes of the window that the record takes.
    pub(crate) record_len: usize,
    /// Whether the file says of the packet that it left.
    pub(crate) is_outbound: bool,
}

type ParseRecord = fn(&[u8]) -> IResult<&[u8], LegacyPcapBlock<'_>, PcapError<&[u8]>>;

/// A pcap file behind its header.
pub(crate) struct PcapFormat {
    interface: Interface,
    link_type: LinkType,
    ns_per_unit: u64,
    parse: ParseRecord,
}

impl PcapFormat {
    /// Reads the file header.
    pub(crate) fn start(window: &mut Window) -> Result<Self, Fault> {
        window.require(FILE_HEADER_LEN)?;
        let (_, header) = parse_pcap_header(window.data()).map_err(|_| Malformation::Header)?;
        let format = Self::from_header(&header)?;
        window.consume(FILE_HEADER_LEN);
        Ok(format)
    }

    fn from_header(header: &PcapHeader) -> Result<Self, Fault> {
        let number = header.network.0.cast_unsigned() & LINK_TYPE_MASK;
        let link_type = LinkType::from_number(number).ok_or(Fault::LinkType(number))?;
        let (resolution, ns_per_unit) = if header.is_nanosecond_precision() {
            (Resolution::NANOSECONDS, 1)
        } else {
            (Resolution::MICROSECONDS, NS_PER_US)
        };
        Ok(Self {
            interface: Interface {
                name: None,
                link_type: number,
                resolution,
            },
            link_type,
            ns_per_unit,
            parse: parse_function(header),
        })
    }

    /// The only interface that the file knows of.
    pub(crate) fn interfaces(&self) -> &[Interface] {
        std::slice::from_ref(&self.interface)
    }

    /// The next record, whole in the window but not consumed; none at the end.
    pub(crate) fn next(&mut self, window: &mut Window) -> Result<Option<RawRecord>, Fault> {
        if !window.fill(1)? {
            return Ok(None);
        }
        loop {
            let missing = match (self.parse)(window.data()) {
                Ok((rest, block)) => {
                    return Ok(Some(self.record(window.data().len() - rest.len(), &block)));
                }
                Err(Err::Incomplete(Needed::Size(missing))) => missing.get(),
                Err(_) => return Err(Malformation::Header.into()),
            };
            window.require(window.data().len().saturating_add(missing))?;
        }
    }

    fn record(&self, record_len: usize, block: &LegacyPcapBlock<'_>) -> RawRecord {
        let fraction_ns = u64::from(block.ts_usec) * self.ns_per_unit;
        RawRecord {
            interface: 0,
            link_type: self.link_type,
            timestamp_ns: u64::from(block.ts_sec) * NS_PER_S + fraction_ns,
            original_len: block.origlen as usize,
            packet: record_len - block.data.len()..record_len,
            record_len,
            is_outbound: false,
        }
    }
}

fn parse_function(header: &PcapHeader) -> ParseRecord {
    if header.is_modified_format() {
        parse_pcap_frame_modified
    } else if header.is_bigendian() {
        parse_pcap_frame_be
    } else {
        parse_pcap_frame
    }
}

#[cfg(test)]
mod tests {
    use crate::MAX_RECORD_BYTES;
    use crate::error::{CaptureError, Location, Malformation};
    use crate::interface::{Interface, Resolution};
    use crate::testing::{ByteOrder, Packet, PcapFile, delivered, open};

    fn packets() -> Vec<Packet> {
        vec![
            Packet {
                timestamp_ns: 1_700_000_000_123_456_000,
                bytes: vec![1; 60],
                original_len: 60,
            },
            Packet {
                timestamp_ns: 1_700_000_001_000_001_000,
                bytes: vec![2; 20],
                original_len: 1500,
            },
            Packet {
                timestamp_ns: 1_700_000_001_999_999_000,
                bytes: vec![],
                original_len: 0,
            },
        ]
    }

    #[test]
    fn both_byte_orders_and_both_resolutions() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for nanoseconds in [false, true] {
                let mut packets = packets();
                packets[0].timestamp_ns += if nanoseconds { 789 } else { 0 };
                let file = PcapFile {
                    order,
                    nanoseconds,
                    link_type: 1,
                };
                let (frames, end) = delivered(file.bytes(&packets));
                assert_eq!(frames, packets);
                assert!(end.is_ok());
                let reader = open(file.bytes(&packets)).unwrap();
                let expected = Interface {
                    name: None,
                    link_type: 1,
                    resolution: Resolution::Decimal(if nanoseconds { 9 } else { 6 }),
                };
                assert_eq!(reader.interfaces(), [expected]);
            }
        }
    }

    #[test]
    fn bits_above_the_link_type_are_ignored() {
        let file = PcapFile {
            link_type: 0x5400_0001,
            ..PcapFile::default()
        };
        assert_eq!(delivered(file.bytes(&packets())).0, packets());
    }

    #[test]
    fn a_link_type_that_is_not_supported_is_named_at_once() {
        let file = PcapFile {
            link_type: 195,
            ..PcapFile::default()
        };
        match open(file.bytes(&packets())) {
            Err(CaptureError::UnsupportedLinkType {
                link_type: 195,
                place,
                ..
            }) => {
                assert_eq!(
                    place,
                    Location {
                        record: 0,
                        offset: 0
                    }
                );
            }
            other => panic!("{:?}", other.err()),
        }
    }

    #[test]
    fn a_file_cut_anywhere_gives_the_frames_before_and_then_says_where() {
        let bytes = PcapFile::default().bytes(&packets());
        let starts = [24, 24 + 76, 24 + 76 + 36];
        for len in 25..bytes.len() {
            if starts.contains(&len) {
                continue;
            }
            let (frames, end) = delivered(bytes[..len].to_vec());
            let complete = starts.iter().filter(|start| **start < len).count() - 1;
            assert_eq!(frames, packets()[..complete]);
            match end {
                Err(CaptureError::Truncated { place, .. }) => {
                    let expected = Location {
                        record: complete as u64 + 1,
                        offset: starts[complete] as u64,
                    };
                    assert_eq!(place, expected);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn an_absurd_length_is_malformed_rather_than_truncated() {
        let mut bytes = PcapFile::default().bytes(&packets());
        bytes[24 + 76 + 8..24 + 76 + 12].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
        let (frames, end) = delivered(bytes);
        assert_eq!(frames, packets()[..1]);
        match end {
            Err(CaptureError::Malformed { place, problem, .. }) => {
                assert_eq!(
                    place,
                    Location {
                        record: 2,
                        offset: 100
                    }
                );
                assert_eq!(
                    problem,
                    Malformation::RecordTooLong {
                        claimed: 0xffff_fff0 + 16
                    }
                );
                assert!(problem.to_string().contains(&MAX_RECORD_BYTES.to_string()));
            }
            other => panic!("{other:?}"),
        }
    }
}
