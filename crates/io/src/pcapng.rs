//! Packets of a pcapng file: several sections in either byte order, several
//! interfaces, each with its own link type and clock.
//!
//! Blocks are cut out by their length first, so that a block of an unknown
//! kind, or one nobody here cares for, is skipped without being looked into.
//! The enhanced packet block is decoded here and not by the library, which
//! collects a block's options into a fresh vector for every packet, and so are
//! the clock's options, which it reads in one byte order only.

use pcap_parser::{
    BOM_MAGIC, EPB_MAGIC, IDB_MAGIC, InterfaceDescriptionBlock, OptionCode, SHB_MAGIC, SPB_MAGIC,
    parse_interfacedescriptionblock_be, parse_interfacedescriptionblock_le,
    parse_sectionheaderblock,
};

use crate::MAX_INTERFACES;
use crate::clock::Clock;
use crate::error::{Fault, Malformation};
use crate::interface::Interface;
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
/// An option's code and length.
const OPTION_HEAD_LEN: usize = 4;
/// The option with a packet's flags, of which two bits say which way it went.
const PACKET_FLAGS: u16 = 2;
const DIRECTION: u32 = 0b11;
const OUTBOUND: u32 = 2;

/// A pcapng file behind its first section header.
pub(crate) struct PcapngFormat {
    order: ByteOrder,
    /// Every interface of the file so far.
    interfaces: Vec<Interface>,
    /// Those of this section, in the order in which its packets number them.
    section: Vec<Described>,
    /// The number in the file that was last given to an interface with this number in its section.
    last_numbers: Vec<u32>,
    /// A simple packet has no timestamp and takes that of the packet before it.
    last_timestamp_ns: u64,
}

impl PcapngFormat {
    /// Reads the section header with which the file begins.
    pub(crate) fn start(window: &mut Window) -> Result<Self, Fault> {
        let mut format = Self {
            order: ByteOrder::Little,
            interfaces: Vec::new(),
            section: Vec::new(),
            last_numbers: Vec::new(),
            last_timestamp_ns: 0,
        };
        let length = format.whole_block(window)?;
        format.decode(window.head(length))?;
        window.consume(length);
        Ok(format)
    }

    /// Every interface that was described so far, by its number in the file.
    pub(crate) fn interfaces(&self) -> &[Interface] {
        &self.interfaces
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
        self.section.clear();
        Ok(())
    }

    fn add_interface(&mut self, block: &[u8]) -> Result<(), Fault> {
        let parse = match self.order {
            ByteOrder::Little => parse_interfacedescriptionblock_le,
            ByteOrder::Big => parse_interfacedescriptionblock_be,
        };
        let (_, description) = parse(block).map_err(|_| Malformation::InterfaceDescription)?;
        let clock = clock(&description, self.order);
        let interface = Interface {
            name: name(&description),
            link_type: description.linktype.0.cast_unsigned(),
            resolution: clock.resolution,
        };
        let described = Described {
            link_type_number: interface.link_type,
            snap_len: snap_len(&description),
            clock,
            number: self.number_in_file(interface)?,
        };
        self.section.push(described);
        Ok(())
    }

    /// The number of the section's next interface. One that an earlier section described alike,
    /// at the same place, is the same: sections of a file are mostly one capture after another.
    fn number_in_file(&mut self, interface: Interface) -> Result<u32, Fault> {
        let place = self.section.len();
        if let Some(&number) = self.last_numbers.get(place)
            && self.interfaces.get(number as usize) == Some(&interface)
        {
            return Ok(number);
        }
        if self.interfaces.len() == MAX_INTERFACES {
            return Err(Malformation::TooManyInterfaces {
                limit: MAX_INTERFACES,
            }
            .into());
        }
        let number = self.interfaces.len() as u32;
        self.interfaces.push(interface);
        match self.last_numbers.get_mut(place) {
            Some(last) => *last = number,
            None => self.last_numbers.push(number),
        }
        Ok(number)
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
            interface: interface.number,
            link_type: interface.link_type()?,
            timestamp_ns: interface.clock.to_ns(units),
            original_len,
            packet: PACKET_OFFSET..PACKET_OFFSET + captured as usize,
            record_len: block.len(),
            is_outbound: self.is_outbound(block, captured as usize),
        })
    }

    /// Whether the flags behind a packet of so many bytes say that it left. Options that are cut off
    /// say nothing.
    fn is_outbound(&self, block: &[u8], captured: usize) -> bool {
        let end = block.len().saturating_sub(BLOCK_TRAILER_LEN);
        let mut at = PACKET_OFFSET + captured.next_multiple_of(4);
        while at + OPTION_HEAD_LEN <= end {
            let head = [at, at + 2].map(|at| self.order.half_word(block, at));
            let [Ok(code), Ok(length)] = head else {
                return false;
            };
            if code == OptionCode::EndOfOpt.0 {
                return false;
            }
            at += OPTION_HEAD_LEN;
            if code == PACKET_FLAGS && length == 4 {
                let flags = self.order.word(block, at).unwrap_or_default();
                return at + 4 <= end && flags & DIRECTION == OUTBOUND;
            }
            at += usize::from(length).next_multiple_of(4);
        }
        false
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
            interface: interface.number,
            link_type: interface.link_type()?,
            timestamp_ns: self.last_timestamp_ns,
            original_len,
            packet: SIMPLE_PACKET_OFFSET..SIMPLE_PACKET_OFFSET + captured,
            record_len: block.len(),
            is_outbound: false,
        })
    }

    fn interface(&self, number: u32) -> Result<&Described, Fault> {
        let found = self.section.get(number as usize);
        found.ok_or_else(|| self.unknown_interface(number).into())
    }

    fn unknown_interface(&self, interface: u32) -> Malformation {
        Malformation::UnknownInterface {
            interface,
            described: self.section.len(),
        }
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

/// What packets need to know of an interface that their section describes.
struct Described {
    /// The interface's number in the file.
    number: u32,
    link_type_number: u32,
    snap_len: usize,
    clock: Clock,
}

impl Described {
    /// An unsupported interface is an error only once it has a packet.
    fn link_type(&self) -> Result<LinkType, Fault> {
        LinkType::from_number(self.link_type_number).ok_or(Fault::LinkType(self.link_type_number))
    }
}

fn snap_len(description: &InterfaceDescriptionBlock<'_>) -> usize {
    match description.snaplen {
        0 => u32::MAX as usize,
        limit => limit as usize,
    }
}

/// The options up to the one that ends them, with their bytes.
fn options<'a>(
    description: &'a InterfaceDescriptionBlock<'_>,
) -> impl Iterator<Item = (OptionCode, &'a [u8])> {
    let all = description.options.iter();
    all.take_while(|option| option.code != OptionCode::EndOfOpt)
        .filter_map(|option| Some((option.code, option.as_bytes().ok()?)))
}

fn clock(description: &InterfaceDescriptionBlock<'_>, order: ByteOrder) -> Clock {
    let mut clock = Clock::DEFAULT;
    for (code, value) in options(description) {
        match (code, value) {
            (OptionCode::IfTsresol, [resolution]) => clock.set_resolution(*resolution),
            (OptionCode::IfTsoffset, value) => {
                if let Ok(bytes) = value.try_into() {
                    clock.offset_s = order.seconds(bytes);
                }
            }
            _ => {}
        }
    }
    clock
}

fn name(description: &InterfaceDescriptionBlock<'_>) -> Option<String> {
    let (_, value) = options(description).find(|(code, _)| *code == OptionCode::IfName)?;
    Some(String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
#[path = "pcapng_tests.rs"]
mod tests;
