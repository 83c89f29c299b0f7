//! `twinpath capture`: packets of a running service, as pcapng or JSON.

use crate::error::CommandError;
use crate::follow::Follower;
use crate::output;
use crate::{Outcome, stop::Stop};
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use twinpath_control::look::{CapturePoint, Stream};
use twinpath_io::{blocks, is_named_pipe, is_standard, open_once_read};

/// Captures packets of a running service: at its ports, in front of a function, or those that it drops
///
/// A stream of pcapng, which Wireshark and tshark read while it is written. Of a packet that is dropped
/// the reason and the function are in its comment. Packets never wait for the capture: what it is too
/// slow for is counted in the stream, as packets that the interface dropped. Without --port, --function
/// and --drops all ports are captured, in and out. With --json there is an object on each line instead, for
/// a packet: when it came (time_ns), what became of it there (event: received, transmitted, meets or
/// dropped), port, functions, of one that is dropped the reason, how long it was (bytes), its headers in
/// words, and how many packets it was too slow for so far (shed). That the service ends meanwhile is an error (exit code
/// 2): what was captured until then is written.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath capture --control /run/edge.sock --port outside --out outside.pcapng --for 10s",
    "twinpath capture --control /run/edge.sock --drops --out - | tshark -r - -T fields -e frame.comment",
    "ssh gateway twinpath capture --control /run/edge.sock --function napt --out - | wireshark -k -i -",
    "twinpath capture --control /run/edge.sock --port outside --json --for 10s | jq -r '.headers[1]' | sort | uniq -c",
))]
pub struct Arguments {
    /// The socket that the service was given with --control
    #[arg(long, value_name = "SOCKET", env = crate::look::CONTROL, hide_env = true)]
    control: PathBuf,
    /// Packets that come and leave by this port, by its name or number
    #[arg(long, value_name = "NAME", group = "at")]
    port: Option<String>,
    /// Packets in front of this function, or of those that decide together with it, by its name
    #[arg(long, value_name = "NAME", group = "at")]
    function: Option<String>,
    /// Packets that are dropped
    #[arg(long, group = "at")]
    drops: bool,
    /// The file to write, which must not be there yet, a named pipe, or a character device; - for standard
    /// output, where JSON goes if nothing is said
    #[arg(
        long,
        value_name = "FILE",
        allow_hyphen_values = true,
        required_unless_present = "json"
    )]
    out: Option<PathBuf>,
    /// At most so many bytes of each packet
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 2048,
        conflicts_with = "json"
    )]
    snap: usize,
    /// As JSON, for programs: an object on each line
    #[arg(long)]
    json: bool,
    /// End after so long, such as 10s; else with Ctrl-C
    #[arg(long = "for", value_name = "TIME")]
    time: Option<twinpath_nf::duration::Human>,
}

/// Captures.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let stop = Stop::on_signals()?;
    // The service copies nothing for a reader that is not there yet.
    let path = arguments.out();
    let pipe = match is_named_pipe(path) {
        true => {
            let pipe = open_once_read(path, &stop.flag());
            let Some(pipe) = pipe.map_err(|error| cannot_write(path, error))? else {
                return Ok(Outcome::Good);
            };
            Some(pipe)
        }
        false => None,
    };
    let mut follower = Follower::begin(&arguments.control, arguments.stream(), &stop)?;
    let mut out: Box<dyn Write> = match pipe {
        Some(pipe) => Box::new(pipe),
        None => open(path)?,
    };
    if let Some(time) = arguments.time {
        stop.after(time.duration());
    }
    // Whenever it ends, it ends behind a whole packet.
    let mut waiting = Vec::new();
    while let Some(told) = follower.next()? {
        waiting.extend(told);
        let whole = arguments.whole(&waiting);
        let written = out.write_all(&waiting[..whole]).and_then(|()| out.flush());
        waiting.drain(..whole);
        match written {
            // Whoever reads it, as `head` does, has read enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            written => written.map_err(|error| cannot_write(path, error))?,
        }
    }
    Ok(Outcome::Good)
}

/// A file that is there is never overwritten; of a device nothing is lost.
fn open(path: &Path) -> Result<Box<dyn Write>, CommandError> {
    if is_standard(path) {
        return Ok(Box::new(io::stdout()));
    }
    let is_device = fs::metadata(path).is_ok_and(|found| found.file_type().is_char_device());
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(!is_device).open(path);
    Ok(Box::new(file.map_err(|error| cannot_write(path, error))?))
}

fn cannot_write(path: &Path, source: io::Error) -> CommandError {
    match source.kind() {
        ErrorKind::AlreadyExists => CommandError::CaptureIsThere(path.to_owned()),
        _ if is_standard(path) => CommandError::Output(source),
        _ => CommandError::WriteCaptured {
            path: path.to_owned(),
            source,
        },
    }
}

impl Arguments {
    fn out(&self) -> &Path {
        self.out.as_deref().unwrap_or(Path::new("-"))
    }

    fn stream(&self) -> Stream {
        let at = self.at();
        match self.json {
            true => Stream::Packets { at },
            false => Stream::Capture {
                at,
                bytes: self.snap,
            },
        }
    }

    /// How many bytes at the front of what was told are whole packets.
    fn whole(&self, told: &[u8]) -> usize {
        let last_line = || told.iter().rposition(|&byte| byte == b'\n');
        match self.json {
            true => last_line().map_or(0, |end| end + 1),
            false => blocks::whole(told),
        }
    }

    fn at(&self) -> CapturePoint {
        match (&self.port, &self.function, self.drops) {
            (Some(port), ..) => CapturePoint::Port(port.clone()),
            (_, Some(function), _) => CapturePoint::Function(function.clone()),
            (_, _, true) => CapturePoint::Drops,
            _ => CapturePoint::Ports,
        }
    }
}
