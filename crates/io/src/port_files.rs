//! A capture for each port.

use crate::error::CaptureError;
use crate::port_pattern::PortPattern;
use crate::writer::{CaptureWriter, FrameSink, WrittenTotals};

/// A capture file for each of several ports, in which a frame's interface is the port's place in
/// the list of their names. Behind an [`OrderedWriter`](crate::OrderedWriter) every file is in the
/// order of time, and so are all of them read together by [`MergedReader`](crate::MergedReader).
#[must_use = "without finish() nothing appears under the files' names"]
pub struct PortFiles {
    pattern: PortPattern,
    writers: Vec<CaptureWriter>,
}

impl PortFiles {
    /// Creates the file of each port. A pcapng file has the port's name as its interface's.
    ///
    /// # Errors
    /// Those of [`CaptureWriter::with_interfaces`], and [`CaptureError::InterfaceName`] where
    /// ports cannot stand in the name of a file or two would write the same.
    pub fn create(pattern: &PortPattern, ports: &[impl AsRef<str>]) -> Result<Self, CaptureError> {
        let paths = pattern.paths(ports)?;
        let writers = paths
            .iter()
            .zip(ports)
            .map(|(path, port)| CaptureWriter::with_interfaces(path, &[port]))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            pattern: pattern.clone(),
            writers,
        })
    }

    fn no_such_port(&self, interface: u32) -> CaptureError {
        CaptureError::NoSuchInterface {
            path: self.pattern.as_path().to_owned(),
            interface,
            interfaces: self.writers.len(),
        }
    }
}

impl FrameSink for PortFiles {
    /// What each port's file holds, in their order.
    type Finished = Vec<WrittenTotals>;

    fn write_on(
        &mut self,
        interface: u32,
        timestamp_ns: u64,
        frame: &[u8],
    ) -> Result<(), CaptureError> {
        match self.writers.get_mut(interface as usize) {
            Some(writer) => writer.write(timestamp_ns, frame),
            None => Err(self.no_such_port(interface)),
        }
    }

    fn hand_over(&mut self) -> Result<(), CaptureError> {
        self.writers.iter_mut().try_for_each(FrameSink::hand_over)
    }

    /// Completes one file after the other. Those behind one that cannot be completed do not appear.
    fn finish(self) -> Result<Self::Finished, CaptureError> {
        self.writers
            .into_iter()
            .map(CaptureWriter::finish)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{CaptureReader, Interface, OrderedWriter, Trace};

    fn pattern(folder: &Path, name: &str) -> PortPattern {
        PortPattern::of(folder.join(name)).unwrap()
    }

    #[test]
    fn each_port_gets_its_own_frames_in_the_order_of_time() {
        let folder = tempfile::tempdir().unwrap();
        let files = PortFiles::create(
            &pattern(folder.path(), "out-{port}.pcap"),
            &["inside", "outside", "idle"],
        );
        let mut writer = OrderedWriter::new(files.unwrap(), 1 << 20);
        for (port, timestamp_ns) in [(0, 30), (1, 20), (0, 10), (1, 40)] {
            let frame = [port as u8; 60];
            writer.push_on(port, timestamp_ns, 0, &frame).unwrap();
        }
        let (totals, counters) = writer.finish().unwrap();
        assert!(counters.is_in_order());
        let frames: Vec<u64> = totals.iter().map(|file| file.frames).collect();
        assert_eq!(frames, [2, 2, 0]);
        for (name, times, port) in [("inside", [10, 30], 0), ("outside", [20, 40], 1)] {
            let path = folder.path().join(format!("out-{name}.pcap"));
            let trace = Trace::load(path).unwrap();
            let found: Vec<(u64, &[u8])> = trace
                .iter()
                .map(|entry| (entry.timestamp_ns, entry.frame))
                .collect();
            let frame = [port; 60];
            assert_eq!(found, times.map(|time| (time, &frame[..])));
        }
        assert!(
            Trace::load(folder.path().join("out-idle.pcap"))
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn a_pcapng_file_says_which_port_it_is_of() {
        let folder = tempfile::tempdir().unwrap();
        let files = PortFiles::create(&pattern(folder.path(), "{port}.pcapng.gz"), &["inside"]);
        files.unwrap().finish().unwrap();
        let mut reader = CaptureReader::open(folder.path().join("inside.pcapng.gz")).unwrap();
        let names: Vec<Option<&str>> = reader
            .read_interfaces()
            .unwrap()
            .iter()
            .map(|Interface { name, .. }| name.as_deref())
            .collect();
        assert_eq!(names, [Some("inside")]);
    }

    #[test]
    fn a_frame_of_another_port_and_a_port_given_twice_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let pattern = pattern(folder.path(), "{port}.pcap");
        let mut files = PortFiles::create(&pattern, &["a", "b"]).unwrap();
        let error = files.write_on(2, 1, &[]).unwrap_err().to_string();
        assert!(error.contains("{port}.pcap") && error.contains("interface 2"));
        drop(files);
        assert!(PortFiles::create(&pattern, &["a", "a"]).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
