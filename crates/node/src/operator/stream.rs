//! What an operator follows: packets that are dropped, in words, and packets at a port or in front
//! of a function, as pcapng or in words.

use super::Control;
use super::clients::Streaming;
use crate::mirror::{Copied, Drop, Event, Reader, Wanted};
use crate::watch::PacketLook;
use std::io::Write;
use std::time::{Duration, Instant as WallClock};
use twinpath_control::look::{CapturePoint, DropView, FlowPath, PacketEvent, PacketView, Stream};
use twinpath_control::operator::write_line;
use twinpath_control::service::Service;
use twinpath_io::blocks::{self, StreamedPacket};

/// Drops that are told in a second; others are counted.
const MOST_DROPS: u32 = 1000;

/// How much of a packet is put in words.
const HEADERS: usize = 256;

impl Control {
    pub(super) fn open_stream(&self, stream: &Stream) -> Result<Box<dyn Streaming>, String> {
        let service = self.service();
        let names = Names::of(&service);
        let reader = |wanted, bytes| {
            let reader = self.mirror.read(wanted, bytes);
            reader.ok_or("too many others follow packets, try again")
        };
        Ok(match stream {
            Stream::Drops => Box::new(Drops {
                reader: reader(Wanted::Drops, HEADERS)?,
                names,
                budget: Budget::new(MOST_DROPS),
                shed: 0,
            }),
            Stream::Capture { at, bytes } => {
                let wanted = wanted(at, &service)?;
                Box::new(Capture {
                    reader: reader(wanted, *bytes)?,
                    names,
                    has_begun: false,
                    shed: 0,
                    last_ns: 0,
                })
            }
            Stream::Packets { at } => Box::new(Packets {
                reader: reader(wanted(at, &service)?, HEADERS)?,
                names,
            }),
        })
    }
}

fn wanted(at: &CapturePoint, service: &Service) -> Result<Wanted, String> {
    Ok(match at {
        CapturePoint::Ports => Wanted::Port(None),
        CapturePoint::Port(name) => Wanted::Port(Some(port(name, service)?)),
        CapturePoint::Function(name) => Wanted::Element(element(name, service)?),
        CapturePoint::Drops => Wanted::Drops,
    })
}

fn port(name: &str, service: &Service) -> Result<u16, String> {
    let known = service.ports.iter().position(|port| port == name);
    let number = known.map(|place| place as u16);
    number.or_else(|| name.parse().ok()).ok_or_else(|| {
        let ports = service.ports.join(", ");
        format!("{name}: expected a port of the service: {ports}")
    })
}

/// The element that a function is in.
fn element(name: &str, service: &Service) -> Result<u8, String> {
    let mut elements = (0..).zip(crate::wiring::elements(service));
    let found = elements.find(|(_, functions)| functions.iter().any(|one| *one.name == *name));
    found.map(|(number, _)| number).ok_or_else(|| {
        let names: Vec<_> = service.chain.iter().map(|one| &*one.name).collect();
        let names = names.join(", ");
        format!("{name}: expected a function of the chain: {names}")
    })
}

/// What ports and functions are called.
struct Names {
    ports: Vec<String>,
    /// By element.
    functions: Vec<Vec<String>>,
}

impl Names {
    fn of(service: &Service) -> Self {
        let elements = crate::wiring::elements(service);
        let names = |functions: &[twinpath_control::service::Instance]| {
            functions.iter().map(|one| one.name.to_string()).collect()
        };
        Self {
            ports: service.ports.clone(),
            functions: elements.map(names).collect(),
        }
    }

    fn port(&self, number: u16) -> String {
        let name = self.ports.get(usize::from(number)).cloned();
        name.unwrap_or_else(|| number.to_string())
    }

    /// The function that dropped a packet, or those of the element.
    fn functions(&self, drop: &Drop) -> Vec<String> {
        let functions = drop
            .element
            .map_or(&[][..], |element| self.element(element));
        let known = drop
            .function
            .and_then(|place| functions.get(usize::from(place)));
        known.map_or_else(|| functions.to_vec(), |name| vec![name.clone()])
    }

    /// The functions of an element.
    fn element(&self, number: u8) -> &[String] {
        let functions = self.functions.get(usize::from(number));
        functions.map_or(&[], Vec::as_slice)
    }
}

/// So many things in a second.
struct Budget {
    most: u32,
    left: u32,
    until: WallClock,
}

impl Budget {
    fn new(most: u32) -> Self {
        Self {
            most,
            left: most,
            until: WallClock::now() + Duration::from_secs(1),
        }
    }

    fn take(&mut self) -> bool {
        let now = WallClock::now();
        if now >= self.until {
            *self = Self::new(self.most);
        }
        let has_some = self.left > 0;
        self.left = self.left.saturating_sub(1);
        has_some
    }
}

/// Drops, a line of JSON for each.
struct Drops {
    reader: Reader,
    names: Names,
    budget: Budget,
    /// Of those that were copied.
    shed: u64,
}

impl Streaming for Drops {
    fn next(&mut self, out: &mut Vec<u8>) {
        let lost = self.reader.shed();
        for copied in self.reader.copies() {
            if !self.budget.take() {
                self.shed += 1;
                continue;
            }
            if let Event::Dropped(drop) = copied.event {
                let view = drop_view(&self.names, copied, &drop, lost + self.shed);
                // Memory takes all.
                let _ = write_line(out, &view);
            }
        }
    }
}

fn drop_view(names: &Names, copied: &Copied, drop: &Drop, shed: u64) -> DropView {
    DropView {
        time_ns: copied.at_ns,
        reason: drop.reason.name().to_owned(),
        path: match drop.on_slow_path {
            true => FlowPath::Slow,
            false => FlowPath::Fast,
        },
        functions: names.functions(drop),
        port: names.port(copied.port),
        bytes: copied.length,
        headers: headers(&copied.bytes, copied.length),
        shed,
    }
}

/// The headers of a packet of which the first bytes were copied.
fn headers(copied: &[u8], length: usize) -> Vec<String> {
    let mut packet = copied.to_vec();
    packet.resize(length.max(copied.len()), 0);
    PacketLook::of(&packet).headers
}

/// Packets, a line of JSON for each.
struct Packets {
    reader: Reader,
    names: Names,
}

impl Streaming for Packets {
    fn next(&mut self, out: &mut Vec<u8>) {
        let shed = self.reader.shed();
        for copied in self.reader.copies() {
            // Memory takes all.
            let _ = write_line(out, &packet_view(&self.names, copied, shed));
        }
    }
}

fn packet_view(names: &Names, copied: &Copied, shed: u64) -> PacketView {
    let (event, functions, reason) = match copied.event {
        Event::Received => (PacketEvent::Received, Vec::new(), None),
        Event::Transmitted => (PacketEvent::Transmitted, Vec::new(), None),
        Event::Meets(element) => (PacketEvent::Meets, names.element(element).to_vec(), None),
        Event::Dropped(drop) => {
            let reason = drop.reason.name().to_owned();
            (PacketEvent::Dropped, names.functions(&drop), Some(reason))
        }
    };
    PacketView {
        time_ns: copied.at_ns,
        event,
        port: names.port(copied.port),
        functions,
        reason,
        bytes: copied.length,
        headers: headers(&copied.bytes, copied.length),
        shed,
    }
}

/// Packets as pcapng; an interface for each port.
struct Capture {
    reader: Reader,
    names: Names,
    has_begun: bool,
    /// As it was told last.
    shed: u64,
    last_ns: u64,
}

/// What stands for ports without a name.
const MOST_INTERFACES: u16 = 256;

impl Streaming for Capture {
    fn next(&mut self, out: &mut Vec<u8>) {
        let count = self.names.ports.len().max(2) as u16;
        let count = count.min(MOST_INTERFACES);
        if !self.has_begun {
            self.has_begun = true;
            let names: Vec<String> = (0..count).map(|number| self.names.port(number)).collect();
            blocks::begin(&names, out);
        }
        let names = &self.names;
        for copied in self.reader.copies() {
            let comment = comment(names, &copied.event);
            self.last_ns = copied.at_ns;
            let packet = StreamedPacket {
                interface: u32::from(copied.port.min(count - 1)),
                timestamp_ns: copied.at_ns,
                bytes: &copied.bytes,
                length: copied.length as u32,
                is_outbound: copied.event == Event::Transmitted,
                comment: &comment,
            };
            blocks::packet(&packet, out);
        }
        let shed = self.reader.shed();
        if shed > self.shed {
            self.shed = shed;
            blocks::dropped(0, self.last_ns, shed, out);
        }
        let _ = out.flush();
    }
}

fn comment(names: &Names, event: &Event) -> String {
    let Event::Dropped(drop) = event else {
        return String::new();
    };
    let functions = names.functions(drop).join(", ");
    let reason = drop.reason.name();
    match functions.is_empty() {
        true => format!("dropped: {reason}"),
        false => format!("dropped: {reason} by {functions}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::wire::{Endpoint, PacketBuilder};

    /// Copies end long before packets do.
    #[test]
    fn headers_of_a_packet_that_was_copied_in_part_are_those_of_the_whole() {
        let ends = [[10, 0, 0, 1], [192, 0, 2, 1]].map(|address| Endpoint::v4(address, 80));
        let packet = PacketBuilder::tcp(ends[0], ends[1]).payload(&[7; 1400]);
        let bytes = packet.to_vec().expect("a packet");
        let whole = PacketLook::of(&bytes).headers;
        assert!(whole.len() > 2, "{whole:?}");
        assert_eq!(headers(&bytes[..96], bytes.len()), whole);
    }
}
