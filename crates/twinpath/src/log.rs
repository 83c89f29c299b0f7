//! What a service that runs for months tells: lines for people or for programs, on standard error.
//!
//! Until [`begin`] is called, what the command has to say is for whoever sits in front of it
//! ([`output`](crate::output)). From then on each sentence is an event with a time and a level. Where
//! standard error is the journal's, a line bears its priority in place of both. Nothing is ever told
//! of single packets. A line that cannot be written, as where the disk is full, is lost, and so is one that
//! nobody reads: from [`go_on_in_background`] on nobody waits for a line to be written.

mod queue;

use queue::Queue;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::{self, Display};
use std::io::{self, IsTerminal, Write};
use std::os::linux::fs::MetadataExt;
use std::panic::PanicHookInfo;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// How events are written.
#[derive(Copy, Clone, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// A line each: time, level, what happened; in the journal its priority and what happened
    Text,
    /// A JSON object on a line each
    Json,
}

/// What is told.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogLevel {
    /// What the service could not do
    Error,
    /// What may be wrong, too
    Warn,
    /// What happened, too
    #[default]
    Info,
    /// Details, too
    Debug,
}

impl From<LogLevel> for Level {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
        }
    }
}

static HAS_BEGUN: OnceLock<()> = OnceLock::new();

/// What waits to be written, once that is another thread's affair.
static QUEUE: OnceLock<Arc<Queue>> = OnceLock::new();

/// How long lines that wait are waited for at the end.
const END_TIME: Duration = Duration::from_secs(1);

/// From now on events are written to standard error.
pub fn begin(format: LogFormat, level: LogLevel) {
    let builder = tracing_subscriber::fmt()
        .with_max_level(Level::from(level))
        .with_writer(|| Lines)
        .with_ansi(false)
        .with_target(false);
    let begun = match format {
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
        LogFormat::Text if is_journal() => builder.event_format(Labelled(priority)).try_init(),
        LogFormat::Text => builder.try_init(),
    };
    if begun.is_ok() {
        let _ = HAS_BEGUN.set(());
    }
}

/// Somebody sits in front of the command, and standard error is no terminal, where a table is drawn: what went
/// wrong or may be wrong is told there in sentences, as the command tells of itself.
pub fn begin_for_people() {
    if io::stderr().is_terminal() {
        return;
    }
    let _ = tracing_subscriber::fmt()
        .with_max_level(Level::WARN)
        .with_writer(|| Lines)
        .event_format(Labelled(label))
        .try_init();
}

/// From now on lines are written by a thread of their own. It has the rights of the thread that calls this. On a
/// terminal whoever sits there sees them at once, unless they are those of a log.
pub fn go_on_in_background() {
    if io::stderr().is_terminal() && !has_begun() {
        return;
    }
    // Without a thread they are written as before.
    if let Ok(queue) = Queue::begin(write_now, tell_lost) {
        let _ = QUEUE.set(queue);
        std::panic::set_hook(Box::new(tell_panic));
    }
}

/// A thread that panics does not wait, either.
fn tell_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("<unnamed>");
    let backtrace = Backtrace::capture();
    let told = match backtrace.status() {
        BacktraceStatus::Captured => format!("the thread {name} {panic}\n{backtrace}"),
        _ => format!("the thread {name} {panic}"),
    };
    match has_begun() {
        true => error(told),
        false => write(format!("{told}\n").as_bytes()),
    }
}

/// Whether lines are written by a thread of their own.
pub fn is_in_background() -> bool {
    QUEUE.get().is_some()
}

/// The process is about to end: what waits is written, if somebody reads it.
pub fn end() {
    if let Some(queue) = QUEUE.get() {
        queue.drain(END_TIME);
    }
}

fn tell_lost(lost: u64) {
    tracing::warn!(
        lost,
        "lines of the log were lost, for they were not read as fast as they came: {lost} since the start"
    );
}

/// Writes to standard error, or has it written.
pub fn write(bytes: &[u8]) {
    match QUEUE.get() {
        Some(queue) => queue.push(bytes),
        None => write_now(bytes),
    }
}

/// Who told of something goes on with what it does, and nobody tells of the failure where that failed.
fn write_now(bytes: &[u8]) {
    let _ = io::stderr().write_all(bytes);
}

/// Takes whole lines to standard error, whatever becomes of them.
pub struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether events are written, in place of sentences for whoever sits in front of the command.
pub fn has_begun() -> bool {
    HAS_BEGUN.get().is_some()
}

/// Whether standard error goes to the journal, which says so by the file's device and number.
fn is_journal() -> bool {
    let Ok(told) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    let own = std::fs::metadata("/proc/self/fd/2");
    own.is_ok_and(|own| told == format!("{}:{}", own.st_dev(), own.st_ino()))
}

/// What happened, with what its level is called in front.
struct Labelled(fn(Level) -> &'static str);

impl<S, N> FormatEvent<S, N> for Labelled
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        writer.write_str(self.0(*event.metadata().level()))?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// As the journal reads lines: the priority of syslog (sd-daemon(3)).
const fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        _ => "<7>",
    }
}

/// As the command tells of itself.
const fn label(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error: ",
        _ => "warning: ",
    }
}

/// Something that went wrong, as an event; lines of several are told together.
pub fn error(text: impl Display) {
    tracing::error!("{}", plain(&text));
}

/// Something that the run went on in spite of.
pub fn warning(text: impl Display) {
    tracing::warn!("{}", plain(&text));
}

/// Something to know.
pub fn notice(text: impl Display) {
    tracing::info!("{}", plain(&text));
}

/// On one line, without what colours terminals, and without the line of a file that is shown to people with a
/// mark below: the message says where it is.
fn plain(text: &impl Display) -> String {
    let text = anstream::adapter::strip_str(&text.to_string()).to_string();
    let lines: Vec<&str> = text.lines().collect();
    let is_shown = |place: usize| lines.get(place + 1).is_some_and(|next| is_mark(next));
    let told = lines.iter().enumerate();
    let told = told.filter(|(place, line)| !line.trim().is_empty() && !is_shown(*place));
    let told = told.filter(|(_, line)| !is_mark(line));
    told.map(|(_, line)| line.trim())
        .collect::<Vec<_>>()
        .join("; ")
}

/// Whether a line is a mark below another.
fn is_mark(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && line.chars().all(|mark| mark == '^')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        assert_eq!(plain(&"\u{1b}[1mone\u{1b}[0m\n  two\n\n"), "one; two");
        assert_eq!(
            plain(&"a.toml:3:10: a mistake\n  rate = 1\n         ^^^\nb.toml: another\n"),
            "a.toml:3:10: a mistake; b.toml: another"
        );
    }

    #[test]
    fn priorities_are_those_of_syslog() {
        let levels = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG];
        assert_eq!(levels.map(priority), ["<3>", "<4>", "<6>", "<7>"]);
    }
}
