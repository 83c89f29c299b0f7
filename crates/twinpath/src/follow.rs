//! What a running service tells for as long as somebody listens.

use crate::error::CommandError;
use crate::stop::Stop;
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use twinpath_control::look::Stream;
use twinpath_control::operator::{Answer, AskError, subscribe};

/// How soon the end is seen while nothing is told.
const INTERVAL: Duration = Duration::from_millis(100);

/// Longest line that is told.
const MOST_BYTES: usize = 1 << 20;

/// Hears a service until it is time to stop. That the service ends before is an error: whoever waits for
/// what it tells would take silence for nothing to tell.
pub struct Follower {
    reader: BufReader<UnixStream>,
    stop: Stop,
}

impl Follower {
    /// Asks a service to tell.
    pub fn begin(control: &Path, stream: Stream, stop: &Stop) -> Result<Self, CommandError> {
        let (answer, reader) = subscribe(control, stream)?;
        if answer != Answer::Follows {
            return Err(CommandError::unexpected(answer));
        }
        let timeout = reader.get_ref().set_read_timeout(Some(INTERVAL));
        timeout.map_err(AskError::from)?;
        Ok(Self {
            reader,
            stop: stop.clone(),
        })
    }

    /// Takes what is told next, whatever its length; nothing when it is time to stop.
    pub fn next(&mut self) -> Result<Option<Vec<u8>>, CommandError> {
        if !self.waits()? {
            return Ok(None);
        }
        let told = self.reader.buffer().to_vec();
        self.reader.consume(told.len());
        Ok(Some(told))
    }

    /// Takes the next line; nothing when it is time to stop.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>, CommandError> {
        let mut line = Vec::new();
        while !line.ends_with(b"\n") && line.len() < MOST_BYTES {
            if !self.waits()? {
                return Ok(None);
            }
            let told = self.reader.buffer();
            let end = told.iter().position(|&byte| byte == b'\n');
            let count = end.map_or(told.len(), |end| end + 1);
            line.extend_from_slice(&told[..count]);
            self.reader.consume(count);
        }
        Ok(Some(line))
    }

    /// Waits until something is told; false when it is time to stop.
    fn waits(&mut self) -> Result<bool, CommandError> {
        while !self.stop.is_requested() {
            match self.reader.fill_buf() {
                // The same signal may have ended both.
                Ok([]) => return self.has_ended(),
                Ok(_) => return Ok(true),
                Err(error) if is_nothing_yet(&error) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    return self.has_ended();
                }
                Err(error) => return Err(AskError::from(error).into()),
            }
        }
        Ok(false)
    }

    fn has_ended(&self) -> Result<bool, CommandError> {
        match self.stop.is_requested() {
            true => Ok(false),
            false => Err(CommandError::NothingMore),
        }
    }
}

fn is_nothing_yet(error: &io::Error) -> bool {
    let kinds = [
        ErrorKind::WouldBlock,
        ErrorKind::TimedOut,
        ErrorKind::Interrupted,
    ];
    kinds.contains(&error.kind())
}
