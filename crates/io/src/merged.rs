//! Several captures, one for each port, read as one.

use std::collections::VecDeque;

use crate::error::CaptureError;
use crate::port_pattern::PortPattern;
use crate::reader::{CaptureReader, Next, Record};

/// Captures of several ports, merged by timestamp. A record's interface is the number of its port,
/// whatever interfaces the port's capture has itself.
///
/// The next record is always one that is next in its own capture: the one with the lowest
/// timestamp, and of equal ones that of the first port. So the order of each capture is kept, and
/// merging captures that are in the order of time gives one that is.
pub struct MergedReader {
    ports: Vec<Port>,
    /// What captures ended with before their end, and has not been told yet.
    faults: VecDeque<CaptureError>,
}

struct Port {
    reader: CaptureReader,
    ahead: Ahead,
}

/// What is known of a capture's next record.
#[derive(Clone, Copy)]
enum Ahead {
    Unknown,
    At(u64),
    End,
}

impl MergedReader {
    /// Merges captures of ports that are numbered in their order.
    pub fn new(captures: impl IntoIterator<Item = CaptureReader>) -> Self {
        let port = |reader| Port {
            reader,
            ahead: Ahead::Unknown,
        };
        Self {
            ports: captures.into_iter().map(port).collect(),
            faults: VecDeque::new(),
        }
    }

    /// Opens the capture of each port.
    ///
    /// # Errors
    /// Those of [`CaptureReader::open`] and [`PortPattern::paths`].
    pub fn open(pattern: &PortPattern, ports: &[impl AsRef<str>]) -> Result<Self, CaptureError> {
        let paths = pattern.paths(ports)?;
        let captures: Vec<CaptureReader> = paths
            .iter()
            .map(CaptureReader::open)
            .collect::<Result<_, _>>()?;
        Ok(Self::new(captures))
    }

    /// The same captures without the packets that they mark as outbound, as
    /// [`CaptureReader::arrivals`].
    #[must_use]
    pub fn arrivals(self) -> Self {
        let arrivals = |port: Port| Port {
            reader: port.reader.arrivals(),
            ..port
        };
        Self {
            ports: self.ports.into_iter().map(arrivals).collect(),
            ..self
        }
    }

    /// How many packets were skipped so far because they left, as [`CaptureReader::departures`].
    pub fn departures(&self) -> u64 {
        let ports = self.ports.iter();
        ports.map(|port| port.reader.departures()).sum()
    }

    /// Copies the next frame of all captures to the front of `buffer`.
    ///
    /// # Errors
    /// Those of [`CaptureReader::next_into`]. A capture that cannot be read on does not keep the
    /// others back: each fault is told once, after the last frame.
    pub fn next_into(&mut self, buffer: &mut [u8]) -> Result<Next, CaptureError> {
        self.look_ahead();
        match self.earliest() {
            Some(number) => self.take(number, buffer),
            None => self.faults.pop_front().map_or(Ok(Next::End), Err),
        }
    }

    /// Bytes taken from all files so far, as [`CaptureReader::bytes_read`].
    pub fn bytes_read(&self) -> u64 {
        self.ports.iter().map(|port| port.reader.bytes_read()).sum()
    }

    /// The files' length in bytes, as [`CaptureReader::bytes_total`].
    pub fn bytes_total(&self) -> u64 {
        self.ports
            .iter()
            .map(|port| port.reader.bytes_total())
            .sum()
    }

    fn look_ahead(&mut self) {
        for port in &mut self.ports {
            if let Ahead::Unknown = port.ahead {
                port.ahead = match port.reader.next_timestamp_ns() {
                    Ok(next) => next.map_or(Ahead::End, Ahead::At),
                    Err(fault) => {
                        self.faults.push_back(fault);
                        Ahead::End
                    }
                };
            }
        }
    }

    fn earliest(&self) -> Option<usize> {
        let waiting = self.ports.iter().enumerate();
        waiting
            .filter_map(|(number, port)| match port.ahead {
                Ahead::At(timestamp_ns) => Some((timestamp_ns, number)),
                Ahead::Unknown | Ahead::End => None,
            })
            .min()
            .map(|(_, number)| number)
    }

    fn take(&mut self, number: usize, buffer: &mut [u8]) -> Result<Next, CaptureError> {
        let port = &mut self.ports[number];
        port.ahead = Ahead::Unknown;
        let of_port = |record| Record {
            interface: number as u32,
            ..record
        };
        Ok(match port.reader.next_into(buffer)? {
            Next::Frame(record) => Next::Frame(of_port(record)),
            Next::Oversized(record) => Next::Oversized(of_port(record)),
            Next::End => Next::End,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ByteOrder, Packet, PcapFile, PcapngFile, open};

    fn packet(timestamp_ns: u64, fill: u8) -> Packet {
        Packet {
            timestamp_ns,
            bytes: vec![fill; 60],
            original_len: 60,
        }
    }

    fn capture(packets: &[(u64, u8)]) -> Vec<u8> {
        let packets: Vec<Packet> = packets
            .iter()
            .map(|(time, fill)| packet(*time, *fill))
            .collect();
        PcapFile::default().bytes(&packets)
    }

    fn merged(files: Vec<Vec<u8>>) -> MergedReader {
        MergedReader::new(files.into_iter().map(|bytes| open(bytes).unwrap()))
    }

    /// Port, time and first byte.
    type Frame = (u32, u64, u8);

    /// The frames up to the first error or the end.
    fn frames(reader: &mut MergedReader) -> (Vec<Frame>, Result<Next, CaptureError>) {
        let mut buffer = [0; 100];
        let mut frames = Vec::new();
        loop {
            match reader.next_into(&mut buffer) {
                Ok(Next::Frame(record)) => {
                    frames.push((record.interface, record.timestamp_ns, buffer[0]));
                }
                end => return (frames, end),
            }
        }
    }

    #[test]
    fn the_earliest_comes_first_and_of_equals_the_first_port() {
        let mut reader = merged(vec![
            capture(&[(5, 1), (7, 2), (7, 3)]),
            capture(&[]),
            capture(&[(5, 4), (6, 5), (7, 6)]),
        ]);
        let total = reader.bytes_total();
        let (found, end) = frames(&mut reader);
        let expected = [
            (0, 5, 1),
            (2, 5, 4),
            (2, 6, 5),
            (0, 7, 2),
            (0, 7, 3),
            (2, 7, 6),
        ];
        assert_eq!(found, expected);
        assert_eq!(end.unwrap(), Next::End);
        assert_eq!(reader.bytes_read(), total);
    }

    #[test]
    fn a_capture_that_is_out_of_order_keeps_its_order() {
        let mut reader = merged(vec![capture(&[(9, 1), (3, 2)]), capture(&[(5, 3), (9, 4)])]);
        let found = frames(&mut reader).0;
        assert_eq!(found, [(1, 5, 3), (0, 9, 1), (0, 3, 2), (1, 9, 4)]);
    }

    #[test]
    fn interfaces_within_a_capture_are_all_of_its_port() {
        let mut file = PcapngFile::new(ByteOrder::Little);
        file.interface(1, 0, &[(9, vec![9])]);
        file.interface(1, 0, &[(9, vec![9])]);
        file.enhanced(1, 4, &[1; 60], 60);
        file.enhanced(0, 6, &[2; 60], 60);
        let mut reader = merged(vec![capture(&[(5, 3)]), file.bytes]);
        assert_eq!(frames(&mut reader).0, [(1, 4, 1), (0, 5, 3), (1, 6, 2)]);
    }

    #[test]
    fn a_broken_capture_keeps_no_other_back_and_every_fault_is_told() {
        let cut = |packets, by| {
            let mut bytes = capture(packets);
            bytes.truncate(bytes.len() - by);
            bytes
        };
        let mut reader = merged(vec![
            cut(&[(1, 1), (2, 2)], 1),
            capture(&[(3, 3)]),
            cut(&[(4, 4)], 70),
        ]);
        let (found, fault) = frames(&mut reader);
        assert_eq!(found, [(0, 1, 1), (1, 3, 3)]);
        let record = |fault| match fault {
            Err(CaptureError::Truncated { place, .. }) => place.record,
            other => panic!("{other:?}"),
        };
        // In the order in which they were met.
        let told = [record(fault), record(reader.next_into(&mut []))];
        assert_eq!(told, [1, 2]);
        assert_eq!(reader.next_into(&mut []).unwrap(), Next::End);
    }

    #[test]
    fn a_frame_longer_than_the_buffer_is_told_with_its_port() {
        let mut reader = merged(vec![capture(&[(5, 1)]), capture(&[(4, 2)])]);
        let Next::Oversized(record) = reader.next_into(&mut [0; 59]).unwrap() else {
            panic!("it does not fit");
        };
        assert_eq!((record.interface, record.captured_len), (1, 60));
        assert_eq!(frames(&mut reader).0, [(0, 5, 1)]);
    }

    #[test]
    fn no_capture_at_all_ends_at_once() {
        assert_eq!(merged(vec![]).next_into(&mut []).unwrap(), Next::End);
    }
}
