//! A sliding window over a file: the decoders see whole records in one slice
//! and the window knows at which byte of the file each begins.

use std::io::{self, Read};

use crate::MAX_RECORD_BYTES;
use crate::error::{Fault, Malformation};
use crate::source::Source;

const INITIAL_BYTES: usize = 256 << 10;

/// The bytes of the file that have been read and not yet consumed.
pub(crate) struct Window {
    source: Source,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    offset: u64,
}

impl Window {
    pub(crate) fn new(source: Source) -> Self {
        Self {
            source,
            buffer: vec![0; INITIAL_BYTES],
            start: 0,
            end: 0,
            offset: 0,
        }
    }

    /// Everything that has been read and not yet consumed.
    pub(crate) fn data(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The first `count` bytes of [`Self::data`], fewer if it is shorter.
    pub(crate) fn head(&self, count: usize) -> &[u8] {
        let data = self.data();
        &data[..count.min(data.len())]
    }

    /// Offset in the decompressed file of the first byte of [`Self::data`].
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn bytes_read(&self) -> u64 {
        self.source.bytes_read()
    }

    /// Reads until `count` bytes are there, or the file ends: then false.
    pub(crate) fn fill(&mut self, count: usize) -> Result<bool, Fault> {
        if self.data().len() >= count {
            return Ok(true);
        }
        if count > MAX_RECORD_BYTES {
            return Err(Malformation::RecordTooLong {
                claimed: count as u64,
            }
            .into());
        }
        self.make_room(count);
        while self.data().len() < count {
            if self.read_more()? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Like [`Self::fill`], where the end of the file is an error.
    pub(crate) fn require(&mut self, count: usize) -> Result<(), Fault> {
        if self.fill(count)? {
            Ok(())
        } else {
            Err(Fault::Truncated)
        }
    }

    /// Slides past the first `count` bytes, which must be there.
    pub(crate) fn consume(&mut self, count: usize) {
        let count = count.min(self.data().len());
        self.start += count;
        self.offset += count as u64;
    }

    fn make_room(&mut self, count: usize) {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < count {
            self.buffer.resize(count, 0);
        }
    }

    fn read_more(&mut self) -> Result<usize, Fault> {
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The decompressor says so when the compressed file was cut short.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(Fault::Truncated);
                }
                Err(error) => return Err(Fault::Io(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn window(bytes: Vec<u8>) -> Window {
        Window::new(Source::sniff(Box::new(Cursor::new(bytes))).unwrap())
    }

    #[test]
    fn slides_over_a_file_longer_than_itself() {
        let bytes: Vec<u8> = (0..3 * INITIAL_BYTES).map(|i| (i % 251) as u8).collect();
        let mut window = window(bytes.clone());
        let mut seen = Vec::new();
        while window.fill(1000).unwrap() {
            assert_eq!(window.offset(), seen.len() as u64);
            seen.extend_from_slice(window.head(1000));
            window.consume(1000);
        }
        seen.extend_from_slice(window.data());
        assert!(seen == bytes);
    }

    #[test]
    fn grows_for_a_long_record_and_no_further_than_the_limit() {
        let mut window = window(vec![5; INITIAL_BYTES * 2]);
        assert!(window.fill(INITIAL_BYTES * 2).unwrap());
        assert!(matches!(
            window.require(INITIAL_BYTES * 2 + 1),
            Err(Fault::Truncated)
        ));
        let claimed = MAX_RECORD_BYTES as u64 + 1;
        match window.fill(MAX_RECORD_BYTES + 1) {
            Err(Fault::Malformed(problem)) => {
                assert_eq!(problem, Malformation::RecordTooLong { claimed })
            }
            other => panic!("{other:?}"),
        }
    }
}
