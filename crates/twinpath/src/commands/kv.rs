//! `twinpath kv`: a client of the key-value store.
//!
//! The protocol is that of `twinpath_wire::kv`; requests are built and matched by
//! `twinpath_nf::kv_store::client`, this adds the socket and the clock.

mod bench;
mod session;

use crate::error::{CommandError, KvError};
use crate::{Outcome, output};
use session::Session;
use std::io::{self, Write};
use twinpath_nf::duration::Human;
use twinpath_nf::kv_store::client::{Answer, Completion, Key, Operation, Settings};
use twinpath_wire::kv::{KvStatus, MAX_VALUE_BYTES, key_from_text};

/// Talks to a key-value store over UDP
///
/// Such as one that `twinpath run examples/kv.toml --listen 127.0.0.1:19286` serves. A request that
/// is not answered in time is sent again.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath kv put colour green",
    "twinpath kv get colour",
    "twinpath kv delete colour --server 192.0.2.7:19286",
    "twinpath kv bench --requests 1000000 --window 256 --popularity zipf:0.99",
))]
pub struct Arguments {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: Command,
}

/// How to reach the store.
#[derive(clap::Args)]
struct Connection {
    /// The store's address: a host name or an IP address, and a port
    #[arg(
        long,
        global = true,
        value_name = "ADDR",
        default_value = "127.0.0.1:19286"
    )]
    server: String,
    /// How long the first answer may take; each repetition waits twice as long
    #[arg(long, global = true, value_name = "TIME", default_value = "100ms")]
    timeout: Human,
    /// How often a request is sent at most
    #[arg(long, global = true, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=20))]
    attempts: u32,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Prints a key's value; exit code 1 if there is no such key
    Get {
        /// At most 16 bytes
        key: KeyArgument,
    },
    /// Stores a value
    Put {
        /// At most 16 bytes
        key: KeyArgument,
        /// At most 128 bytes
        value: String,
    },
    /// Forgets a key; exit code 1 if there is no such key
    Delete {
        /// At most 16 bytes
        key: KeyArgument,
    },
    Bench(bench::Arguments),
}

/// A key as it is written on the command line.
#[derive(Clone, Debug)]
struct KeyArgument {
    text: String,
    key: Key,
}

impl std::str::FromStr for KeyArgument {
    type Err = KvError;

    fn from_str(text: &str) -> Result<Self, KvError> {
        match key_from_text(text) {
            Some(key) if !text.is_empty() => Ok(Self {
                text: text.into(),
                key,
            }),
            _ => Err(KvError::KeyLength(text.len())),
        }
    }
}

/// Asks the store.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let connection = &arguments.connection;
    match &arguments.command {
        Command::Get { key } => connection.get(key),
        Command::Put { key, value } => connection.put(key, value.as_bytes()),
        Command::Delete { key } => connection.delete(key),
        Command::Bench(arguments) => bench::execute(arguments, connection),
    }
}

impl Connection {
    fn settings(&self) -> Settings {
        Settings {
            timeout: self.timeout.duration(),
            attempts: self.attempts,
            ..Settings::default()
        }
    }

    fn get(&self, key: &KeyArgument) -> Result<Outcome, CommandError> {
        match self.ask(key, Operation::Get)? {
            Answer::Value(value) => {
                let mut stdout = io::stdout().lock();
                let line = [value.as_bytes(), b"\n"].concat();
                stdout.write_all(&line).map_err(CommandError::Output)?;
                Ok(Outcome::Good)
            }
            answer => Ok(negative(key, answer)),
        }
    }

    fn put(&self, key: &KeyArgument, value: &[u8]) -> Result<Outcome, CommandError> {
        if value.len() > MAX_VALUE_BYTES {
            return Err(KvError::ValueLength(value.len()).into());
        }
        match self.ask(key, Operation::Put(value))? {
            Answer::Done => Ok(Outcome::Good),
            answer => Ok(negative(key, answer)),
        }
    }

    fn delete(&self, key: &KeyArgument) -> Result<Outcome, CommandError> {
        match self.ask(key, Operation::Delete)? {
            Answer::Done => Ok(Outcome::Good),
            answer => Ok(negative(key, answer)),
        }
    }

    /// Sends one request until it is answered.
    fn ask(&self, key: &KeyArgument, operation: Operation<'_>) -> Result<Answer, CommandError> {
        let mut session = Session::connect(&self.server, self.settings())?;
        session.request(key.key, operation)?;
        let mut ended: Vec<Completion> = Vec::new();
        while ended.is_empty() {
            session.exchange(&mut ended)?;
        }
        match ended.first() {
            Some(Completion {
                answer: Answer::TimedOut,
                attempts,
                elapsed,
                ..
            }) => Err(session.silence(*attempts, *elapsed).into()),
            Some(completion) => Ok(completion.answer),
            None => Ok(Answer::TimedOut),
        }
    }
}

/// The store has answered, but not as hoped for.
fn negative(key: &KeyArgument, answer: Answer) -> Outcome {
    match answer {
        Answer::NotFound => output::notice(format_args!("{}: no such key", key.text)),
        Answer::Refused(status) => {
            output::notice(format_args!("{}: refused: {}", key.text, reason(status)))
        }
        other => output::notice(format_args!("{}: unexpected answer {other:?}", key.text)),
    }
    Outcome::Bad
}

fn reason(status: KvStatus) -> &'static str {
    match status {
        KvStatus::Ok => "ok",
        KvStatus::NotFound => "no such key",
        KvStatus::BadRequest => "the request makes no sense to the store",
        KvStatus::TooLarge => "the value is too long for the store",
        KvStatus::Full => "the store has no room for another key",
    }
}
