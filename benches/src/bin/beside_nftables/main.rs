//! Twinpath beside the kernel's nftables, on one machine: the same packets through both, in turns.
//!
//! Run it with `cargo xtask beside-nftables`; it needs Linux, root and two cores. A sender, the host in
//! the middle and a receiver are network namespaces, joined by veth cables. Whatever forwards has one
//! core, sender and receiver have the other. The systems take turns, each measured as often as there
//! are rounds, and their medians are put side by side.
//!
//! | figure | how |
//! |---|---|
//! | packets a second, 64 and 1500 bytes | more is offered than anybody carries, by 4096 flows of UDP; counted is what reaches the receiver's interface |
//! | without loss | the highest of a few rates, halving the distance each time, at which no more than one packet in a thousand is missing |
//! | latency | probes there and back while 50,000 packets a second pass beside them |
//! | TCP | iperf3, one connection, over each version of IP |
#![forbid(unsafe_code)]

mod bed;
mod figures;
mod page;
mod probe;
mod sender;
mod systems;

use figures::Figures;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use systems::{SYSTEMS, System};
use twinpath_netns::{has_program, is_possible};

/// What was asked for.
#[derive(Debug, PartialEq)]
struct Wanted {
    rounds: usize,
    /// How long each figure is measured.
    time: Duration,
    folder: PathBuf,
    program: PathBuf,
    /// Only systems whose names contain this.
    only: String,
}

impl Wanted {
    fn read(words: impl Iterator<Item = String>) -> Option<Self> {
        let mut wanted = Self {
            rounds: 3,
            time: Duration::from_secs(2),
            folder: "target/beside-nftables".into(),
            program: "target/release/twinpath".into(),
            only: String::new(),
        };
        let mut words = words;
        while let Some(word) = words.next() {
            let value = words.next()?;
            match word.as_str() {
                "--rounds" => wanted.rounds = value.parse().ok().filter(|rounds| *rounds > 0)?,
                "--seconds" => {
                    let seconds = value.parse().ok().filter(|seconds| *seconds > 0)?;
                    wanted.time = Duration::from_secs(seconds);
                }
                "--out" => wanted.folder = value.into(),
                "--twinpath" => wanted.program = value.into(),
                "--only" => wanted.only = value,
                _ => return None,
            }
        }
        Some(wanted)
    }
}

fn main() -> ExitCode {
    let Some(wanted) = Wanted::read(std::env::args().skip(1)) else {
        eprintln!(
            "usage: beside_nftables [--rounds N] [--seconds N] [--out DIR] [--only PART OF A NAME] [--twinpath PROGRAM]"
        );
        return ExitCode::from(2);
    };
    let is_able = is_possible()
        && has_program("nft", "nftables")
        && has_program("iperf3", "iperf3")
        && has_program("taskset", "util-linux")
        && has_program("ethtool", "ethtool");
    if !is_able || !bed::has_two_cores() {
        return ExitCode::FAILURE;
    }
    match measure(&wanted) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}

fn measure(wanted: &Wanted) -> Result<(), String> {
    let systems = || SYSTEMS.iter().filter(|one| one.name.contains(&wanted.only));
    let mut found: Vec<(&System, Vec<Figures>)> = systems().map(|one| (one, Vec::new())).collect();
    let load = page::load_average();
    for round in 1..=wanted.rounds {
        for (system, rounds) in &mut found {
            eprintln!("round {round} of {}: {}", wanted.rounds, system.name);
            let figures = Figures::measure(system, wanted)?;
            eprintln!("    {}", figures.in_words());
            rounds.push(figures);
        }
    }
    let medians: Vec<_> = found
        .iter()
        .map(|(system, rounds)| (*system, Figures::median(rounds)))
        .collect();
    println!("{}", page::table(&medians));
    page::write(wanted, &load, &medians, &found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_read() {
        let read = |text: &str| Wanted::read(text.split_whitespace().map(str::to_owned));
        let wanted = read("--rounds 5 --seconds 1 --only conntrack").expect("sound");
        assert_eq!((wanted.rounds, wanted.time.as_secs()), (5, 1));
        assert_eq!(wanted.only, "conntrack");
        for wrong in ["--rounds", "--rounds 0", "--seconds x", "--what 1"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
