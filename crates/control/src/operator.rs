//! What an operator asks of a running service, and the answers: one line of JSON each, over a
//! local socket.

mod request;

use crate::flow_filter::FlowFilter;
use crate::look::{DropView, Look, LookResult, PacketView, Stream};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use twinpath_nf::edit::{Edit, Object};

pub use request::MOST_REQUEST_BYTES;

/// Longest answer, in bytes.
const MOST_ANSWER_BYTES: u64 = 256 << 20;

/// Files by path, as a request has them.
pub type SentFiles = BTreeMap<PathBuf, Arc<str>>;

/// A request; it is read by [`Request::read`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// The cached rules.
    Rules(Filter),
    /// Change the service to what this file says.
    Apply {
        /// The service file's text.
        text: String,
        /// Its path, for messages and for relative paths in it.
        path: PathBuf,
        /// What the files say that it names: whoever asks has read them, with its own rights.
        files: SentFiles,
    },
    /// Change a DPU's configuration by what these files say, in their order.
    DashApply {
        /// Paths, for messages, and texts: SONiC's JSON.
        files: Vec<(PathBuf, Arc<str>)>,
    },
    /// Change one thing.
    Change {
        /// The function, by its name in the chain; may be left out if one alone has such things.
        function: Option<String>,
        /// The change.
        change: Edit,
    },
    /// End what stands for an inside endpoint in an address translation.
    EndBinding {
        /// The function, by its name in the chain; may be left out if there is one alone.
        function: Option<String>,
        /// The endpoint.
        endpoint: String,
        /// `tcp`, `udp` or `icmp`; all if absent.
        protocol: Option<String>,
    },
    /// Flows, bindings, backends and counters at the moment.
    Look(Look),
    /// What happens from now on, until the client goes away: the answer is followed by it.
    Stream(Stream),
    /// What the service has of something.
    List {
        /// The function, by its name in the chain; may be left out if one alone has such things.
        function: Option<String>,
        /// What to list.
        object: Object,
    },
}

/// Which rules to tell; all that are not excluded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Filter {
    /// Those of this element of the chain.
    pub element: Option<u8>,
    /// Those that came from an entry of this function.
    pub function: Option<String>,
    /// Those that may match a packet from or to this address.
    pub address: Option<IpAddr>,
    /// Those that may match a packet of such a flow.
    #[serde(default)]
    pub flow: Option<FlowFilter>,
    /// Those used by at least so many packets.
    pub least_packets: u64,
    /// At most so many, those used most; a service has a limit of its own.
    #[serde(default)]
    pub most: Option<usize>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// The rules asked for.
    Rules {
        /// The rules, those used most first.
        rules: Vec<RuleView>,
        /// How many there are of those asked for, told or not.
        matching: usize,
        /// Whether no function of the service caches rules.
        #[serde(default)]
        caches_none: bool,
    },
    /// The service has changed: every packet from now on meets the new chain.
    Applied(Box<Applied>),
    /// What there is at the moment.
    LookResult(Box<LookResult>),
    /// It follows.
    Follows,
    /// What was asked for, in words and in order.
    Listed {
        /// The function that has it.
        function: String,
        /// A line for each.
        lines: Vec<String>,
    },
    /// Nothing was done.
    Refused {
        /// Why.
        message: String,
    },
}

impl Answer {
    /// A change was made.
    #[must_use]
    pub fn applied(applied: Applied) -> Self {
        Self::Applied(Box::new(applied))
    }
}

/// A cached rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleView {
    /// The element of the chain.
    pub element: u8,
    /// Its number there.
    pub id: u32,
    /// Counts the rules that had this number.
    pub generation: u32,
    /// What it matches.
    pub matches: String,
    /// What it does.
    pub action: String,
    /// Packets that met it, as far as reported.
    pub packets: u64,
    /// Bytes of their frames.
    pub bytes: u64,
    /// How old it is, ns of packet time.
    pub age_ns: u64,
    /// How long it has not been used, ns of packet time.
    pub unused_ns: u64,
    /// Whether the fast path has said that it is there.
    pub is_installed: bool,
    /// The table entries that it came from.
    pub entries: Vec<EntryView>,
}

/// An entry of a function's table that a cached rule came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryView {
    /// The function, by its name in the chain.
    pub function: String,
    /// The function's own number for the entry.
    pub entry: u32,
    /// Where it is a rule of a list: its number, counted from 1.
    pub rule: Option<usize>,
    /// What it is, on one line, if the function says so.
    pub text: Option<String>,
    /// The line of the service file that it is in.
    pub line: Option<usize>,
}

/// What a change did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// Functions that went on with all they knew.
    pub kept: Vec<String>,
    /// Functions that took a new configuration and went on with what they know.
    pub changed: Vec<String>,
    /// Functions that were not there.
    pub new: Vec<String>,
    /// Functions that were there and begin anew: they share flow state with others than before.
    #[serde(default)]
    pub anew: Vec<String>,
    /// Functions that are gone.
    pub removed: Vec<String>,
    /// Keys of `[service]` that say something else than before.
    #[serde(default)]
    pub keys: Vec<String>,
    /// Cached rules that went.
    pub rules_gone: usize,
    /// Cached rules that stayed.
    pub rules_kept: usize,
    /// Flows of a DPU, which stay: those that the change touches are judged anew with their next packet.
    /// `None` of any other service.
    #[serde(default)]
    pub flows: Option<u64>,
    /// How long no packet was taken, ns.
    pub pause_ns: u64,
    /// Whether there was nothing to change.
    pub is_same: bool,
    /// The service file that SIGHUP reads from now on, if it is another than before.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// Objects of a DPU that wait for something that is not there, or to be deleted, the first of them.
    #[serde(default)]
    pub waiting: Vec<String>,
    /// Objects of a DPU that waited, or were to be deleted, and are forgotten, the first of them.
    #[serde(default)]
    pub forgotten: Vec<String>,
    /// What a single change has made that is sound and yet probably not meant so.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens.
    #[error(
        "cannot reach a service at {}: {source} (expected the path that `twinpath run --control` was given)",
        path.display()
    )]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The connection broke.
    #[error("the service did not answer: {0}")]
    Broken(#[from] std::io::Error),
    /// Not what was expected.
    #[error("the service's answer cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

/// How long to wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Asks the service that listens at `path`.
///
/// # Errors
/// Nobody listens there, or what listens does not answer.
pub fn ask(path: &Path, request: &Request) -> Result<Answer, AskError> {
    let mut stream = UnixStream::connect(path).map_err(|source| AskError::Unreachable {
        path: path.into(),
        source,
    })?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    // A service that refuses whoever asks says so without reading what is asked.
    let written = write_line(&mut stream, request);
    match read_answer(stream) {
        Ok(answer) => Ok(answer),
        Err(error) => Err(written.err().unwrap_or(error).into()),
    }
}

/// Asks the service that listens at `path` for what happens from now on: that follows the answer.
///
/// # Errors
/// As [`ask`].
pub fn subscribe(path: &Path, stream: Stream) -> Result<(Answer, BufReader<UnixStream>), AskError> {
    let mut stream_to = UnixStream::connect(path).map_err(|source| AskError::Unreachable {
        path: path.into(),
        source,
    })?;
    stream_to.set_read_timeout(Some(TIMEOUT))?;
    let written = write_line(&mut stream_to, &Request::Stream(stream));
    let mut reader = BufReader::new(stream_to);
    let line = match line_of(&mut reader, MOST_ANSWER_BYTES) {
        Ok(line) => line,
        Err(error) => return Err(written.err().unwrap_or(error).into()),
    };
    // Nothing may happen for long.
    reader.get_ref().set_read_timeout(None)?;
    Ok((serde_json::from_slice(&line)?, reader))
}

/// What is told in a line of JSON. It is put in words in this crate, which is quick to build, and not once
/// more wherever it is told.
pub trait Line {
    /// Its JSON.
    ///
    /// # Errors
    /// It has none.
    fn json(&self) -> serde_json::Result<Vec<u8>>;
}

impl Line for Request {
    fn json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }
}

impl Line for Answer {
    fn json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }
}

impl Line for DropView {
    fn json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }
}

impl Line for PacketView {
    fn json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }
}

/// Writes one line.
///
/// # Errors
/// The other side is gone.
pub fn write_line(to: &mut dyn Write, message: &dyn Line) -> std::io::Result<()> {
    let mut line = message.json()?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Reads an answer.
///
/// # Errors
/// It does not come, is too long, or is none.
pub fn read_answer(from: impl Read) -> std::io::Result<Answer> {
    let line = line_of(&mut BufReader::new(from), MOST_ANSWER_BYTES)?;
    Ok(serde_json::from_slice(&line)?)
}

/// A line of at most so many bytes, its end included.
fn line_of(from: &mut impl BufRead, most: u64) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    from.take(most).read_until(b'\n', &mut line)?;
    if line.len() as u64 == most && !line.ends_with(b"\n") {
        let message = format!("it is longer than {most} bytes");
        return Err(std::io::Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(line)
}
