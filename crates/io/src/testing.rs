//! Builds capture files for tests, byte by byte and independently of the
//! reader and of the library beneath it.

use std::io::{Cursor, Write};

use flate2::{Compression, write::GzEncoder};

use crate::{CaptureError, CaptureReader, Next};

/// A packet as written to a file, or a frame as read from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) timestamp_ns: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) original_len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    fn bytes2(self, value: u16) -> [u8; 2] {
        if self == ByteOrder::Little {
            value.to_le_bytes()
        } else {
            value.to_be_bytes()
        }
    }

    fn bytes4(self, value: u32) -> [u8; 4] {
        if self == ByteOrder::Little {
            value.to_le_bytes()
        } else {
            value.to_be_bytes()
        }
    }

    pub(crate) fn bytes8(self, value: u64) -> Vec<u8> {
        if self == ByteOrder::Little {
            value.to_le_bytes().to_vec()
        } else {
            value.to_be_bytes().to_vec()
        }
    }
}

pub(crate) struct PcapFile {
    pub(crate) order: ByteOrder,
    pub(crate) nanoseconds: bool,
    pub(crate) link_type: u32,
}

impl Default for PcapFile {
    fn default() -> Self {
        Self {
            order: ByteOrder::Little,
            nanoseconds: true,
            link_type: 1,
        }
    }
}

impl PcapFile {
    pub(crate) fn bytes(&self, packets: &[Packet]) -> Vec<u8> {
        let magic = if self.nanoseconds {
            0xa1b2_3c4d
        } else {
            0xa1b2_c3d4
        };
        let mut bytes = self.order.bytes4(magic).to_vec();
        bytes.extend(self.order.bytes2(2));
        bytes.extend(self.order.bytes2(4));
        bytes.extend([0; 8]);
        bytes.extend(self.order.bytes4(96));
        bytes.extend(self.order.bytes4(self.link_type));
        packets
            .iter()
            .for_each(|packet| self.record(packet, &mut bytes));
        bytes
    }

    fn record(&self, packet: &Packet, bytes: &mut Vec<u8>) {
        let fraction_ns = (packet.timestamp_ns % 1_000_000_000) as u32;
        bytes.extend(
            self.order
                .bytes4((packet.timestamp_ns / 1_000_000_000) as u32),
        );
        bytes.extend(self.order.bytes4(if self.nanoseconds {
            fraction_ns
        } else {
            fraction_ns / 1000
        }));
        bytes.extend(self.order.bytes4(packet.bytes.len() as u32));
        bytes.extend(self.order.bytes4(packet.original_len as u32));
        bytes.extend(&packet.bytes);
    }
}

pub(crate) struct PcapngFile {
    order: ByteOrder,
    pub(crate) bytes: Vec<u8>,
}

type Options<'a> = &'a [(u16, Vec<u8>)];

impl PcapngFile {
    pub(crate) fn new(order: ByteOrder) -> Self {
        let mut file = Self {
            order,
            bytes: Vec::new(),
        };
        file.section(order);
        file
    }

    pub(crate) fn section(&mut self, order: ByteOrder) {
        self.order = order;
        let mut body = order.bytes4(0x1a2b_3c4d).to_vec();
        body.extend(order.bytes2(1));
        body.extend(order.bytes2(0));
        body.extend([0xff; 8]);
        self.block(0x0a0d_0d0a, &body);
    }

    pub(crate) fn interface(&mut self, link_type: u16, snap_len: u32, options: Options<'_>) {
        let mut body = self.order.bytes2(link_type).to_vec();
        body.extend([0; 2]);
        body.extend(self.order.bytes4(snap_len));
        self.options(options, &mut body);
        self.block(1, &body);
    }

    pub(crate) fn enhanced(
        &mut self,
        interface: u32,
        units: u64,
        packet: &[u8],
        original_len: u32,
    ) {
        self.enhanced_with_options(interface, units, packet, original_len, &[]);
    }

    pub(crate) fn enhanced_with_options(
        &mut self,
        interface: u32,
        units: u64,
        packet: &[u8],
        original_len: u32,
        options: Options<'_>,
    ) {
        let mut body = self.order.bytes4(interface).to_vec();
        self.packet(units, packet, original_len, &mut body);
        self.options(options, &mut body);
        self.block(6, &body);
    }

    pub(crate) fn old_packet(
        &mut self,
        interface: u16,
        units: u64,
        packet: &[u8],
        original_len: u32,
    ) {
        let mut body = self.order.bytes2(interface).to_vec();
        body.extend(self.order.bytes2(77));
        self.packet(units, packet, original_len, &mut body);
        self.block(2, &body);
    }

    pub(crate) fn simple(&mut self, packet: &[u8], original_len: u32) {
        let mut body = self.order.bytes4(original_len).to_vec();
        body.extend(packet);
        pad(&mut body);
        self.block(3, &body);
    }

    pub(crate) fn block(&mut self, kind: u32, body: &[u8]) {
        let length = self.order.bytes4(body.len() as u32 + 12);
        self.bytes.extend(self.order.bytes4(kind));
        self.bytes.extend(length);
        self.bytes.extend(body);
        self.bytes.extend(length);
    }

    fn packet(&self, units: u64, packet: &[u8], original_len: u32, body: &mut Vec<u8>) {
        body.extend(self.order.bytes4((units >> 32) as u32));
        body.extend(self.order.bytes4(units as u32));
        body.extend(self.order.bytes4(packet.len() as u32));
        body.extend(self.order.bytes4(original_len));
        body.extend(packet);
        pad(body);
    }

    fn options(&self, options: Options<'_>, body: &mut Vec<u8>) {
        for (code, value) in options {
            body.extend(self.order.bytes2(*code));
            body.extend(self.order.bytes2(value.len() as u16));
            body.extend(value);
            pad(body);
        }
    }
}

fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn open(bytes: Vec<u8>) -> Result<CaptureReader, CaptureError> {
    let bytes_total = bytes.len() as u64;
    CaptureReader::from_source("test", Box::new(Cursor::new(bytes)), bytes_total)
}

/// Every frame of a file up to its end or first error, and which it was.
pub(crate) fn delivered(bytes: Vec<u8>) -> (Vec<Packet>, Result<(), CaptureError>) {
    let mut reader = match open(bytes) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Err(error)),
    };
    let mut buffer = vec![0; crate::MAX_RECORD_BYTES];
    let mut frames = Vec::new();
    loop {
        match reader.next_into(&mut buffer) {
            Ok(Next::Frame(record)) => frames.push(Packet {
                timestamp_ns: record.timestamp_ns,
                bytes: buffer[..record.captured_len].to_vec(),
                original_len: record.original_len,
            }),
            Ok(Next::Oversized(record)) => panic!("{record:?}"),
            Ok(Next::End) => return (frames, Ok(())),
            Err(error) => {
                assert_eq!(reader.next_into(&mut buffer).unwrap(), Next::End);
                return (frames, Err(error));
            }
        }
    }
}
