//! A feed that keeps its reader waiting, such as a pipe, as one that does not.

use super::{BUFFER_BYTES, Feed, FeedItem};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use twinpath_io::CaptureError;

/// Packets that may wait for the run. Behind them the pipe waits, and whoever writes to it.
const WAITING_PACKETS: usize = 1024;

/// A feed that is read on a thread of its own. Once the run is over nobody waits for that thread.
pub(super) struct Piped {
    packets: Receiver<Result<Piece, CaptureError>>,
    /// Buffers, to be filled again.
    emptied: Sender<Vec<u8>>,
    /// What the feed knew of its packets when it had the last that was taken.
    known: Known,
    is_over: bool,
}

/// What a feed has found out about its packets.
#[derive(Clone, Default)]
struct Known {
    departures: u64,
    has_guessed_ports: bool,
    unknown_interfaces: Option<Arc<str>>,
}

impl Known {
    /// What it has found out so far.
    fn of(feed: &impl Feed) -> Self {
        Self {
            departures: feed.departures(),
            has_guessed_ports: feed.has_guessed_ports(),
            unknown_interfaces: feed.unknown_interfaces(),
        }
    }
}

/// What the feed had.
struct Piece {
    item: FeedItem,
    /// The packet's bytes, if it was one.
    bytes: Vec<u8>,
    /// What it knew by then.
    known: Known,
}

impl Piped {
    /// What `open` opens, which may take as long as it likes.
    pub fn new<F: Feed>(open: impl FnOnce() -> Result<F, CaptureError> + Send + 'static) -> Self {
        let (sender, packets) = sync_channel(WAITING_PACKETS);
        let (emptied, buffers) = channel();
        std::thread::spawn(move || {
            // Nobody listens any more if the run is over.
            let _ = match open() {
                Ok(feed) => pump(feed, &sender, &buffers),
                Err(error) => sender.send(Err(error)).ok(),
            };
        });
        Self {
            packets,
            emptied,
            known: Known::default(),
            is_over: false,
        }
    }
}

/// Reads on until the feed ends or nobody listens.
fn pump(
    mut feed: impl Feed,
    sender: &SyncSender<Result<Piece, CaptureError>>,
    buffers: &Receiver<Vec<u8>>,
) -> Option<()> {
    let mut whole = vec![0; BUFFER_BYTES];
    loop {
        let item = match feed.next_into(&mut whole) {
            Ok(item) => item,
            Err(error) => return sender.send(Err(error)).ok(),
        };
        let mut bytes = buffers.try_recv().unwrap_or_default();
        bytes.clear();
        if let FeedItem::Packet { len, .. } = item {
            bytes.extend_from_slice(&whole[..len]);
        }
        let piece = Piece {
            item,
            bytes,
            known: Known::of(&feed),
        };
        sender.send(Ok(piece)).ok()?;
        if item == FeedItem::End {
            return Some(());
        }
    }
}

impl Feed for Piped {
    fn next_into(&mut self, buffer: &mut [u8]) -> Result<FeedItem, CaptureError> {
        // Its thread may still be about to end.
        if self.is_over {
            return Ok(FeedItem::End);
        }
        let Piece { item, bytes, known } = match self.packets.try_recv() {
            Ok(piece) => piece?,
            Err(TryRecvError::Empty) => return Ok(FeedItem::Nothing),
            Err(TryRecvError::Disconnected) => return Ok(FeedItem::End),
        };
        self.is_over = item == FeedItem::End;
        self.known = known;
        let place = buffer.get_mut(..bytes.len());
        let fits = place.map(|place| place.copy_from_slice(&bytes));
        let _ = self.emptied.send(bytes);
        Ok(fits.map_or(FeedItem::TooLong, |()| item))
    }

    fn departures(&self) -> u64 {
        self.known.departures
    }

    fn has_guessed_ports(&self) -> bool {
        self.known.has_guessed_ports
    }

    fn unknown_interfaces(&self) -> Option<Arc<str>> {
        self.known.unknown_interfaces.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;
    use twinpath_io::{CaptureReader, Next};

    struct Reader(CaptureReader);

    impl Feed for Reader {
        fn next_into(&mut self, buffer: &mut [u8]) -> Result<FeedItem, CaptureError> {
            Ok(match self.0.next_into(buffer)? {
                Next::Frame(record) => FeedItem::Packet {
                    timestamp_ns: record.timestamp_ns,
                    len: record.captured_len,
                    ingress: 0,
                },
                Next::Oversized(_) => FeedItem::TooLong,
                Next::End => FeedItem::End,
            })
        }
    }

    /// A pcap file's header, and a record of 14 bytes.
    fn pieces() -> [Vec<u8>; 2] {
        let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let header = bytes(&[0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, 1]);
        let mut record: Vec<u8> = bytes(&[1, 0, 14, 14]);
        record.extend([7; 14]);
        [header, record]
    }

    fn wait_for(piped: &mut Piped, buffer: &mut [u8]) -> Result<FeedItem, CaptureError> {
        loop {
            match piped.next_into(buffer) {
                Ok(FeedItem::Nothing) => std::thread::sleep(Duration::from_millis(1)),
                item => return item,
            }
        }
    }

    #[test]
    fn packets_are_taken_as_they_come_and_nobody_waits_in_between() {
        let (mut writer, reader) = UnixStream::pair().expect("a pair");
        let open = move || CaptureReader::from_source("a pipe", Box::new(reader), 0).map(Reader);
        let (mut piped, mut buffer) = (Piped::new(open), [0; 64]);
        assert_eq!(
            piped.next_into(&mut buffer).expect("sound"),
            FeedItem::Nothing
        );
        let [header, record] = pieces();
        writer.write_all(&header).expect("it reads");
        for _ in 0..3 {
            writer.write_all(&record).expect("it reads");
            let item = wait_for(&mut piped, &mut buffer).expect("sound");
            assert!(matches!(item, FeedItem::Packet { len: 14, .. }), "{item:?}");
            assert_eq!(buffer[..14], [7; 14]);
            assert_eq!(
                piped.next_into(&mut buffer).expect("sound"),
                FeedItem::Nothing
            );
        }
        drop(writer);
        assert_eq!(
            wait_for(&mut piped, &mut buffer).expect("sound"),
            FeedItem::End
        );
        assert_eq!(piped.next_into(&mut buffer).expect("sound"), FeedItem::End);
    }

    #[test]
    fn nothing_comes_behind_the_end_although_its_thread_lives_on() {
        let (sender, packets) = sync_channel(1);
        let end = Piece {
            item: FeedItem::End,
            bytes: Vec::new(),
            known: Known::default(),
        };
        sender.send(Ok(end)).expect("somebody listens");
        let mut piped = Piped {
            packets,
            emptied: channel().0,
            known: Known::default(),
            is_over: false,
        };
        for _ in 0..2 {
            assert_eq!(piped.next_into(&mut []).expect("sound"), FeedItem::End);
        }
    }

    #[test]
    fn what_is_no_capture_is_told() {
        let (mut writer, reader) = UnixStream::pair().expect("a pair");
        writer.write_all(b"hello").expect("it reads");
        drop(writer);
        let open = move || CaptureReader::from_source("a pipe", Box::new(reader), 0).map(Reader);
        let error = wait_for(&mut Piped::new(open), &mut [0; 64]).expect_err("no capture");
        assert!(
            error.to_string().starts_with("a pipe is not a capture"),
            "{error}"
        );
    }
}
