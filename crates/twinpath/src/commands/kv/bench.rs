//! `twinpath kv bench`: how much and how fast.

use super::Connection;
use super::session::Session;
use crate::error::{CommandError, KvError};
use crate::stop::Stop;
use crate::{Outcome, output};
use indicatif::{ProgressBar, ProgressStyle};
use std::str::FromStr;
use std::time::{Duration, Instant};
use twinpath_control::report::{LatencyRecorder, units};
use twinpath_nf::kv_store::client::{Answer, Completion, Operation, Settings};
use twinpath_traffic::config;
use twinpath_traffic::key_bytes;
use twinpath_traffic::popularity::Chooser;
use twinpath_traffic::random::{Chance, Random};
use twinpath_wire::kv::{KvOp, MAX_VALUE_BYTES};

/// Measures throughput and latency with many requests at a time
///
/// Exit code 1 if requests went unanswered.
#[derive(clap::Args)]
pub struct Arguments {
    /// How many requests
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    requests: u64,
    /// Share of the requests that read, 0 to 1; the others write
    #[arg(long, value_name = "SHARE", default_value_t = 0.95, value_parser = share)]
    get_ratio: f64,
    /// Number of keys
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    keys: u64,
    /// How requests are spread over the keys: uniform, zipf or zipf:EXPONENT
    #[arg(long, value_name = "KIND", default_value = "zipf:0.99")]
    popularity: Popularity,
    /// Bytes of each value written
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(0..=MAX_VALUE_BYTES as i64))]
    value_bytes: u16,
    /// Requests that may be unanswered at a time
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=4096))]
    window: u16,
    /// Write every key once before measuring, so that each read finds a value
    #[arg(long)]
    preload: bool,
    /// Seed of what is asked for
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

fn share(text: &str) -> Result<f64, NoShare> {
    text.parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or(NoShare)
}

#[derive(Debug, thiserror::Error)]
#[error("expected a number from 0 to 1")]
struct NoShare;

/// `--popularity`
#[derive(Clone, Debug, PartialEq)]
struct Popularity(config::Popularity);

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("expected uniform, zipf, or zipf: and an exponent above 0 and up to 10, such as zipf:0.99")]
struct NoPopularity;

impl FromStr for Popularity {
    type Err = NoPopularity;

    fn from_str(text: &str) -> Result<Self, NoPopularity> {
        let zipf = |exponent| Ok(Self(config::Popularity::Zipf { exponent }));
        match text.split_once(':') {
            None if text == "uniform" => Ok(Self(config::Popularity::Uniform {})),
            None if text == "zipf" => zipf(0.99),
            Some(("zipf", exponent)) => match exponent.parse() {
                Ok(exponent) if exponent > 0.0 && exponent <= 10.0 => zipf(exponent),
                _ => Err(NoPopularity),
            },
            _ => Err(NoPopularity),
        }
    }
}

/// Streams of random numbers that do not depend on each other.
const KEYS_STREAM: u64 = 1;
const OPERATIONS_STREAM: u64 = 2;

/// Measures.
pub fn execute(arguments: &Arguments, connection: &Connection) -> Result<Outcome, CommandError> {
    let settings = Settings {
        in_flight: arguments.window.into(),
        ..connection.settings()
    };
    let mut bench = Bench {
        session: Session::connect(&connection.server, settings)?,
        window: arguments.window.into(),
        value: vec![b'v'; arguments.value_bytes.into()],
        stop: Stop::on_signals()?,
    };
    if arguments.preload {
        let puts = (0..arguments.keys).map(|key| (key, KvOp::Put));
        bench.run("preload", arguments.keys, puts)?;
    }
    let repeated_before = bench.session.repeated();
    let began = Instant::now();
    let tally = bench.run("requests", arguments.requests, requests(arguments))?;
    let elapsed = began.elapsed();
    let repeated = bench.session.repeated() - repeated_before;
    output::print(&tally.summary(arguments.window, elapsed, repeated))?;
    Ok(if tally.timed_out == 0 {
        Outcome::Good
    } else {
        Outcome::Bad
    })
}

/// The requests of the measurement: keys with what to do with them.
fn requests(arguments: &Arguments) -> impl Iterator<Item = (u64, KvOp)> + use<> {
    let mut keys = Random::stream(arguments.seed, KEYS_STREAM);
    let mut operations = Random::stream(arguments.seed, OPERATIONS_STREAM);
    let chooser = Chooser::new(&arguments.popularity.0, arguments.keys);
    let is_get = Chance::new(arguments.get_ratio);
    (0..arguments.requests).map(move |_| {
        let operation = if is_get.draw(&mut operations) {
            KvOp::Get
        } else {
            KvOp::Put
        };
        (chooser.choose(&mut keys), operation)
    })
}

/// Requests to one store, many at a time.
struct Bench {
    session: Session,
    window: usize,
    value: Vec<u8>,
    stop: Stop,
}

impl Bench {
    /// Keeps the window full until there are no more requests and all have ended.
    fn run(
        &mut self,
        what: &str,
        total: u64,
        mut requests: impl Iterator<Item = (u64, KvOp)>,
    ) -> Result<Tally, KvError> {
        let bar = progress_bar(what, total);
        let mut tally = Tally::new();
        let mut ended = Vec::new();
        loop {
            self.fill_window(&mut requests)?;
            if self.session.in_flight() == 0 {
                break;
            }
            self.session.exchange(&mut ended)?;
            bar.inc(ended.len() as u64);
            for completion in ended.drain(..) {
                tally.count(&completion);
                if tally.answered() == 0 && tally.timed_out > 0 {
                    bar.finish_and_clear();
                    return Err(self
                        .session
                        .silence(completion.attempts, completion.elapsed));
                }
            }
        }
        bar.finish_and_clear();
        Ok(tally)
    }

    fn fill_window(
        &mut self,
        requests: &mut impl Iterator<Item = (u64, KvOp)>,
    ) -> Result<(), KvError> {
        while self.session.in_flight() < self.window && !self.stop.is_requested() {
            let Some((key, operation)) = requests.next() else {
                break;
            };
            let operation = match operation {
                KvOp::Put => Operation::Put(&self.value),
                KvOp::Get | KvOp::Delete => Operation::Get,
            };
            self.session.request(key_bytes(key), operation)?;
        }
        Ok(())
    }
}

fn progress_bar(what: &str, total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{prefix} {bar:40.cyan/dim} {human_pos} of {human_len}, {per_sec}",
    );
    let style = style
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("█▉▊▋▌▍▎▏░");
    ProgressBar::new(total)
        .with_style(style)
        .with_prefix(what.to_owned())
}

/// What has come back.
struct Tally {
    latency: LatencyRecorder,
    hits: u64,
    misses: u64,
    stored: u64,
    refused: u64,
    timed_out: u64,
}

impl Tally {
    fn new() -> Self {
        Self {
            latency: LatencyRecorder::new(),
            hits: 0,
            misses: 0,
            stored: 0,
            refused: 0,
            timed_out: 0,
        }
    }

    fn count(&mut self, completion: &Completion) {
        let counter = match completion.answer {
            Answer::Value(_) => &mut self.hits,
            Answer::NotFound => &mut self.misses,
            Answer::Done => &mut self.stored,
            Answer::Refused(_) => &mut self.refused,
            Answer::TimedOut => &mut self.timed_out,
        };
        *counter += 1;
        if completion.answer != Answer::TimedOut {
            self.latency.record(completion.elapsed.as_nanos() as u64);
        }
    }

    fn answered(&self) -> u64 {
        self.hits + self.misses + self.stored + self.refused
    }

    fn summary(&self, window: u16, elapsed: Duration, repeated: u64) -> String {
        let elapsed_ns = elapsed.as_nanos() as u64;
        let per_second = units::fraction(self.answered(), elapsed_ns) * 1e9;
        let latency = self.latency.percentiles();
        let percentiles = [
            latency.p50_ns,
            latency.p90_ns,
            latency.p99_ns,
            latency.p999_ns,
        ];
        let [p50, p90, p99, p999] = percentiles.map(units::duration);
        format!(
            "{} answers in {}: {} a second, at most {window} unanswered at a time\n  \
             gets      {} hits, {} misses\n  \
             puts      {} stored, {} refused\n  \
             lost      {} without an answer, {} repeated\n  \
             latency   min {}, p50 {p50}, p90 {p90}, p99 {p99}, p99.9 {p999}, max {}\n",
            units::count(self.answered()),
            units::duration(elapsed_ns),
            units::count(per_second as u64),
            units::count(self.hits),
            units::count(self.misses),
            units::count(self.stored),
            units::count(self.refused),
            units::count(self.timed_out),
            units::count(repeated),
            units::duration(latency.min_ns),
            units::duration(latency.max_ns),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popularity_is_read() {
        let zipf = |exponent| Ok(Popularity(config::Popularity::Zipf { exponent }));
        assert_eq!(
            "uniform".parse(),
            Ok(Popularity(config::Popularity::Uniform {}))
        );
        assert_eq!("zipf".parse(), zipf(0.99));
        assert_eq!("zipf:1.2".parse(), zipf(1.2));
        for text in [
            "",
            "zip",
            "zipf:",
            "zipf:0",
            "zipf:-1",
            "zipf:NaN",
            "zipf:inf",
            "uniform:1",
        ] {
            assert_eq!(text.parse::<Popularity>(), Err(NoPopularity), "{text}");
        }
    }

    #[test]
    fn shares_are_from_0_to_1() {
        assert!(share("0").is_ok() && share("1").is_ok());
        assert!(share("1.01").is_err() && share("NaN").is_err() && share("-0.1").is_err());
    }
}
