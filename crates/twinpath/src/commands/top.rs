//! `twinpath top`: a running service's figures, again and again.

mod page;

use crate::error::CommandError;
use crate::look::{look, unexpected};
use crate::stop::Stop;
use crate::{Outcome, output};
use page::{Moment, page};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use twinpath_control::look::{Look, LookResult};
use twinpath_nf::duration::Human;

/// Shows the figures of a running service: rates, paths, ports, tables, functions and drops
///
/// On a terminal the page is refreshed until Ctrl-C; elsewhere pages follow each other. The figures are
/// those of report.json and of /metrics at that moment.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath top --control /run/edge.sock",
    "twinpath top --control /run/edge.sock --once",
    "twinpath top --control /run/edge.sock --once --json | jq .totals",
    "twinpath top --control /run/edge.sock --json --every 10s | jq --unbuffered .totals.packets_in",
))]
pub struct Arguments {
    /// The socket that the service was given with --control
    #[arg(long, value_name = "SOCKET", env = crate::look::CONTROL, hide_env = true)]
    control: PathBuf,
    /// How often the page is refreshed
    #[arg(long, value_name = "TIME", default_value = "1s")]
    every: Human,
    /// Show one page, with the rates of the time between, and end
    #[arg(long)]
    once: bool,
    /// As JSON, for programs: the report of that moment, and without --once one on each line
    #[arg(long)]
    json: bool,
}

/// Shortest time between two pages.
const SHORTEST: Duration = Duration::from_millis(100);

/// To the upper left, and nothing behind.
const HOME: &str = "\u{1b}[H";
const CLEAR_LINE: &str = "\u{1b}[K";
const CLEAR_REST: &str = "\u{1b}[J";
/// Another screen, without a cursor; and back.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// Shows them.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    match (arguments.json, arguments.once) {
        (true, true) => {
            let report = arguments.moment()?.report;
            output::print(&(serde_json::to_string_pretty(&report)? + "\n"))?;
            Ok(Outcome::Good)
        }
        (true, false) => arguments.reports(),
        (false, _) => arguments.pages(),
    }
}

impl Arguments {
    /// A report on each line, until somebody wants no more.
    fn reports(&self) -> Result<Outcome, CommandError> {
        let stop = Stop::on_signals()?;
        while !stop.is_requested() {
            let line = serde_json::to_string(&self.moment()?.report)? + "\n";
            if !output::print_on(&line)? {
                break;
            }
            self.wait(&stop);
        }
        Ok(Outcome::Good)
    }

    fn pages(&self) -> Result<Outcome, CommandError> {
        let mut before = self.moment()?;
        let stop = Stop::on_signals()?;
        let has_screen = std::io::stdout().is_terminal() && !self.once;
        let _screen = has_screen.then(Screen::enter);
        loop {
            self.wait(&stop);
            if stop.is_requested() {
                return Ok(Outcome::Good);
            }
            let now = self.moment()?;
            let text = page(&before, &now);
            let goes_on = match has_screen {
                true => output::print_on(&on_screen(&text))?,
                false => output::print_on(&text)?,
            };
            if self.once || !goes_on {
                return Ok(Outcome::Good);
            }
            before = now;
        }
    }

    fn moment(&self) -> Result<Moment, CommandError> {
        match look(&self.control, Look::Figures)? {
            LookResult::Figures(report) => Ok(Moment {
                at: Instant::now(),
                report: *report,
            }),
            other => Err(unexpected(other)),
        }
    }

    /// Until the next one is due, or somebody wants no more.
    fn wait(&self, stop: &Stop) {
        let until = Instant::now() + self.every.duration().max(SHORTEST);
        while Instant::now() < until && !stop.is_requested() {
            let left = until.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }
}

/// A page in place of the one before.
fn on_screen(text: &str) -> String {
    let lines = text.lines().map(|line| format!("{line}{CLEAR_LINE}\r\n"));
    HOME.to_owned() + &lines.collect::<String>() + CLEAR_REST
}

/// The terminal's other screen, for as long as this is there.
struct Screen;

impl Screen {
    fn enter() -> Self {
        print(ENTER);
        Self
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        print(LEAVE);
    }
}

/// A terminal that is gone shows nothing.
fn print(text: &str) {
    let mut stdout = std::io::stdout();
    let written = stdout.write_all(text.as_bytes());
    let _ = written.and_then(|()| stdout.flush());
}
