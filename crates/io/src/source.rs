//! The bytes of a capture file: counted, and decompressed if they are gzip.

use std::io::{self, BufReader, Chain, Cursor, Read};

use flate2::read::MultiGzDecoder;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// What is decoded from one such chunk is lost when the chunk is corrupt, so it
/// is small.
const GZIP_CHUNK_BYTES: usize = 16 << 10;

/// A file's bytes, or those inside if it is gzip.
pub(crate) enum Source {
    Plain(Counted),
    Gzip(Box<MultiGzDecoder<BufReader<Counted>>>),
}

impl Source {
    /// Looks at the first bytes of `file` and decides whether to decompress.
    pub(crate) fn sniff(mut file: Box<dyn Read + Send>) -> io::Result<Self> {
        let mut head = Vec::with_capacity(GZIP_MAGIC.len());
        file.by_ref()
            .take(GZIP_MAGIC.len() as u64)
            .read_to_end(&mut head)?;
        let gzip = head == GZIP_MAGIC;
        let counted = Counted {
            inner: Cursor::new(head).chain(file),
            count: 0,
        };
        Ok(if gzip {
            Self::gunzip(counted)
        } else {
            Source::Plain(counted)
        })
    }

    fn gunzip(compressed: Counted) -> Self {
        let chunks = BufReader::with_capacity(GZIP_CHUNK_BYTES, compressed);
        Source::Gzip(Box::new(MultiGzDecoder::new(chunks)))
    }

    /// Bytes taken from the file so far, compressed ones for gzip.
    pub(crate) fn bytes_read(&self) -> u64 {
        match self {
            Source::Plain(counted) => counted.count,
            Source::Gzip(decoder) => decoder.get_ref().get_ref().count,
        }
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Source::Plain(counted) => counted.read(buffer),
            Source::Gzip(decoder) => decoder.read(buffer),
        }
    }
}

/// A file, with the bytes already taken from it put back, that counts.
pub(crate) struct Counted {
    inner: Chain<Cursor<Vec<u8>>, Box<dyn Read + Send>>,
    count: u64,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.count += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn read_all(bytes: Vec<u8>) -> (Vec<u8>, u64) {
        let mut source = Source::sniff(Box::new(Cursor::new(bytes))).unwrap();
        let mut all = Vec::new();
        source.read_to_end(&mut all).unwrap();
        (all, source.bytes_read())
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn plain_bytes_pass_and_are_counted() {
        for bytes in [vec![], vec![0x1f], vec![1, 2, 3, 4, 5]] {
            let length = bytes.len() as u64;
            assert_eq!(read_all(bytes.clone()), (bytes, length));
        }
    }

    #[test]
    fn gzip_of_several_members_is_read_to_its_end_and_counts_compressed_bytes() {
        let mut bytes = gzip(&[7; 5000]);
        bytes.extend(gzip(b"tail"));
        let length = bytes.len() as u64;
        let (all, count) = read_all(bytes);
        assert_eq!(all, [vec![7; 5000], b"tail".to_vec()].concat());
        assert_eq!(count, length);
    }
}
