//! Packets of a pcapng file: several sections in either byte order, several
//! interfaces, each with its own link type and clock.
//!
//! Blocks are cut out by their length first, so that a block of an unknown
//! kind, or one nobody here cares for, is skipped without being looked into.
//! The enhanced packet block is decoded here and not by the library, which
//! collects a block's options into a fresh vector for every packet, and so are
//! the clock's options, which it reads in one byte order only.

use pcap_parser::{
    BOM_MAGIC, EPB_MAGIC, IDB_MAGIC, InterfaceDescriptionBlock, OptionCode, PcapNGOption,
    SHB_MAGIC, SPB_MAGIC, parse_interfacedescriptionblock_be, parse_interfacedescriptionblock_le,
    parse_sectionheaderblock,
};

use crate::error::{Fault, Malformation};
use crate::link_type::LinkType;
use crate::pcap::RawRecord;
use crate::window::Window;

/// The packet block that the enhanced one replaced, still found in old files.
const OLD_PACKET_BLOCK: u32 = 2;

/// Type, length and, in a section header, byte order; also the shortest block.
const BLOCK_HEAD_LEN: usize = 12;
const BLOCK_TRAILER_LEN: usize = 4;
/// An enhanced packet block up to its packet.
const PACKET_OFFSET: usize = 28;
const SIMPLE_PACKET_OFFSET: usize = 12;

const MAX_INTERFACES: usize = 4096;

/// A pcapng file behind its first section header.
pub(crate) struct PcapngFormat {
    order: ByteOrder,
    interfaces: Vec<Interface>,
    /// A simple packet has no timestamp and takes that of the packet before it.
    last_timestamp_ns: u64,
}

impl PcapngFormat {
    /// Reads the section header with which the file begins.
    pub(crate) fn start(window: &mut Window) -> Result<Self, Fault> {
        let mut format = Self {
            order: ByteOrder::Little,
            interfaces: Vec::new(),
            last_timestamp_ns: 0,
        };
        let length = format.whole_block(window)?;
        format.decode(window.head(length))?;
        window.consume(length);
        Ok(format)
    }

    /// The next packet, whole in the window but not consumed; none at the end.
    pub(crate) fn next(&mut self, window: &mut Window) -> Result<Option<RawRecord>, Fault> {
        while window.fill(1)? {
            let length = self.whole_block(window)?;
            if let Some(record) = self.decode(window.head(length))? {
                self.last_timestamp_ns = record.timestamp_ns;
                return Ok(Some(record));
            }
            window.consume(length);
        }
        Ok(None)
    }

    /// Brings the next block into the window as a whole and returns its length.
    fn whole_block(&mut self, window: &mut Window) -> Result<usize, Fault> {
        window.require(BLOCK_HEAD_LEN)?;
        if self.order.word(window.data(), 0)? == SHB_MAGIC {
            self.order = ByteOrder::of_section(window.data())?;
        }
        let first = self.order.word(window.data(), 4)?;
        let length = first as usize;
        if length < BLOCK_HEAD_LEN || !length.is_multiple_of(4) {
            return Err(Malformation::BlockLength { length: first }.into());
        }
        window.require(length)?;
        let last = self.order.word(window.data(), length - BLOCK_TRAILER_LEN)?;
        if last != first {
            return Err(Malformation::BlockLengthsDiffer { first, last }.into());
        }
        Ok(length)
    }

    fn decode(&mut self, block: &[u8]) -> Result<Option<RawRecord>, Fault> {
        match self.order.word(block, 0)? {
            SHB_MAGIC => self.begin_section(block).map(|()| None),
            IDB_MAGIC => self.add_interface(block).map(|()| None),
            EPB_MAGIC => {
                let interface = self.order.word(block, 8)?;
                self.packet(block, interface).map(Some)
            }
            OLD_PACKET_BLOCK => {
                let interface = self.order.half_word(block, 8)?;
                self.packet(block, u32::from(interface)).map(Some)
            }
            SPB_MAGIC => self.simple_packet(block).map(Some),
            _ => Ok(None),
        }
    }

    fn begin_section(&mut self, block: &[u8]) -> Result<(), Fault> {
        let (_, section) =
            parse_sectionheaderblock(block).map_err(|_| Malformation::SectionHeader)?;
        if section.major_version != 1 {
            return Err(Malformation::SectionHeader.into());
        }
        self.interfaces.clear();
        Ok(())
    }

    fn add_interface(&mut self, block: &[u8]) -> Result<(), Fault> {
        if self.interfaces.len() == MAX_INTERFACES {
            return Err(Malformation::TooManyInterfaces {
                limit: MAX_INTERFACES,
            }
            .into());
        }
        let parse = match self.order {
            ByteOrder::Little => parse_interfacedescriptionblock_le,
            ByteOrder::Big => parse_interfacedescriptionblock_be,
        };
        let (_, description) = parse(block).map_err(|_| Malformation::InterfaceDescription)?;
        self.interfaces
            .push(Interface::new(&description, self.order));
        Ok(())
    }

    /// An enhanced packet; the old kind differs only in how it names the interface.
    fn packet(&self, block: &[u8], interface: u32) -> Result<RawRecord, Fault> {
        let interface = self.interface(interface)?;
        let units =
            u64::from(self.order.word(block, 12)?) << 32 | u64::from(self.order.word(block, 16)?);
        let captured = self.order.word(block, 20)?;
        let original_len = self.order.word(block, 24)? as usize;
        let room = block
            .len()
            .saturating_sub(PACKET_OFFSET + BLOCK_TRAILER_LEN);
        if captured as usize > room {
            return Err(Malformation::PacketExceedsBlock { captured }.into());
        }
        Ok(RawRecord {
            link_type: interface.link_type()?,
            timestamp_ns: interface.clock.to_ns(units),
            original_len,
            packet: PACKET_OFFSET..PACKET_OFFSET + captured as usize,
            record_len: block.len(),
        })
    }

    /// A packet of the first interface whose length must be inferred.
    fn simple_packet(&self, block: &[u8]) -> Result<RawRecord, Fault> {
        let interface = self.interface(0)?;
        let original_len = self.order.word(block, 8)? as usize;
        let room = block
            .len()
            .saturating_sub(SIMPLE_PACKET_OFFSET + BLOCK_TRAILER_LEN);
        let captured = original_len.min(interface.snap_len).min(room);
        Ok(RawRecord {
            link_type: interface.link_type()?,
            timestamp_ns: self.last_timestamp_ns,
            original_len,
            packet: SIMPLE_PACKET_OFFSET..SIMPLE_PACKET_OFFSET + captured,
            record_len: block.len(),
        })
    }

    fn interface(&self, number: u32) -> Result<&Interface, Fault> {
        let found = self.interfaces.get(number as usize);
        found.ok_or(Malformation::UnknownInterface { interface: number }.into())
    }
}

/// Byte order of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    fn of_section(block: &[u8]) -> Result<Self, Fault> {
        let orders = [ByteOrder::Little, ByteOrder::Big];
        let found = orders
            .into_iter()
            .find(|order| order.word(block, 8) == Ok(BOM_MAGIC));
        found.ok_or(Malformation::SectionHeader.into())
    }

    fn word(self, block: &[u8], at: usize) -> Result<u32, Malformation> {
        let bytes = *field(block, at)?;
        Ok(match self {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        })
    }

    fn half_word(self, block: &[u8], at: usize) -> Result<u16, Malformation> {
        let bytes = *field(block, at)?;
        Ok(match self {
            ByteOrder::Little => u16::from_le_bytes(bytes),
            ByteOrder::Big => u16::from_be_bytes(bytes),
        })
    }

    fn seconds(self, bytes: [u8; 8]) -> i64 {
        match self {
            ByteOrder::Little => i64::from_le_bytes(bytes),
            ByteOrder::Big => i64::from_be_bytes(bytes),
        }
    }
}

fn field<const N: usize>(block: &[u8], at: usize) -> Result<&[u8; N], Malformation> {
    let found = block.get(at..).and_then(|rest| rest.first_chunk());
    found.ok_or(Malformation::BlockLength {
        length: u32::try_from(block.len()).unwrap_or(u32::MAX),
    })
}

/// What packets need to know of the interface they were captured on.
struct Interface {
    link_type_number: u32,
    snap_len: usize,
    clock: Clock,
}

impl Interface {
    fn new(description: &InterfaceDescriptionBlock<'_>, order: ByteOrder) -> Self {
        let snap_len = if description.snaplen == 0 {
            u32::MAX
        } else {
            description.snaplen
        };
        Self {
            link_type_number: description.linktype.0.cast_unsigned(),
            snap_len: snap_len as usize,
            clock: Clock::new(&description.options, order),
        }
    }

    /// An unsupported interface is an error only once it has a packet.
    fn link_type(&self) -> Result<LinkType, Fault> {
        LinkType::from_number(self.link_type_number).ok_or(Fault::LinkType(self.link_type_number))
    }
}

/// How an interface counts time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clock {
    resolution: u8,
    offset_s: i64,
}

const NS_PER_S: u128 = 1_000_000_000;
const MICROSECONDS: u8 = 6;
const POWER_OF_TWO: u8 = 0x80;
/// Ten to this power is the largest that fits, with a timestamp, in 128 bits.
const MAX_DECIMAL_EXPONENT: u32 = 38;

impl Clock {
    fn new(options: &[PcapNGOption<'_>], order: ByteOrder) -> Self {
        let mut clock = Self {
            resolution: MICROSECONDS,
            offset_s: 0,
        };
        for option in options
            .iter()
            .take_while(|option| option.code != OptionCode::EndOfOpt)
        {
            match (option.code, option.as_bytes()) {
                (OptionCode::IfTsresol, Ok([resolution])) => clock.resolution = *resolution,
                (OptionCode::IfTsoffset, Ok(value)) => clock.set_offset(value, order),
                _ => {}
            }
        }
        clock
    }

    fn set_offset(&mut self, value: &[u8], order: ByteOrder) {
        if let Ok(bytes) = value.try_into() {
            self.offset_s = order.seconds(bytes);
        }
    }

    /// Nanoseconds since 1970, limited to what 64 bits hold.
    fn to_ns(self, units: u64) -> u64 {
        let since_offset_ns = self.scale_to_ns(units);
        let offset_ns = u128::from(self.offset_s.unsigned_abs()) * NS_PER_S;
        let ns = match self.offset_s {
            0.. => since_offset_ns.saturating_add(offset_ns),
            _ => since_offset_ns.saturating_sub(offset_ns),
        };
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    fn scale_to_ns(self, units: u64) -> u128 {
        let scaled = u128::from(units) * NS_PER_S;
        let exponent = u32::from(self.resolution & !POWER_OF_TWO);
        if self.resolution & POWER_OF_TWO == 0 {
            scaled / 10_u128.pow(exponent.min(MAX_DECIMAL_EXPONENT))
        } else {
            scaled.checked_shr(exponent).unwrap_or(0)
        }
    }
}

#[cfg(test)]
#[path = "pcapng_tests.rs"]
mod tests;
