//! Scenarios as text, one event a line.
//!
//! `> 100 abc => > 100 abc | > 103 def` reads: the opener sends "abc" with sequence number 100,
//! and two segments come out. Flags stand behind the number (`> 99/S`); without any it is a plain
//! ACK that acknowledges all that the other end sent, unless a number stands behind it (`< 499/SA@100`). `drop REASON` is a dropped packet, `wait TIME` lets time pass, `release` lets go of what is held, `? known`, `? unknown` and
//! `? pending` look at the flow, `! COUNTER N` at a counter.
//!
//! Every scenario runs over IPv4 and IPv6, from either end, and with sequence numbers that wrap
//! at every place it names.

use super::bench::{Bench, Released, Sent};
use crate::duration::Human;
use crate::reassembler::Config;
use twinpath_core::wire::tcp::flags;
use twinpath_core::{Direction, DropCounters};
use twinpath_slowpath::NetworkFunction;

/// Letters of the flags that scenarios name.
const LETTERS: [(char, u8); 5] = [
    ('S', flags::SYN),
    ('F', flags::FIN),
    ('R', flags::RST),
    ('U', flags::URG),
    ('A', flags::ACK),
];

/// What 0 stands for: small numbers, the wrap at 100, 103, 106, and the middle of the space.
const BASES: [u32; 6] = [
    0,
    0u32.wrapping_sub(100),
    0u32.wrapping_sub(103),
    0u32.wrapping_sub(107),
    0x7fff_ff98,
    0xffff_0000,
];

struct Run {
    bench: Bench,
    base: u32,
    mirrored: bool,
}

impl Run {
    fn line(&mut self, line: &str) {
        let line = line.trim();
        let (input, expected) = line.split_once("=>").unwrap_or((line, ""));
        match input.split_whitespace().collect::<Vec<_>>()[..] {
            ["?", state] => self.check_flow(state),
            ["!", counter, value] => self.check_counter(counter, value),
            ["release"] => self.expect(expected, Bench::release),
            ["wait", time] => {
                let time: Human = time.parse().expect("a duration");
                self.expect(expected, |bench| bench.pass(time.duration()));
            }
            [..] => {
                let sent = self.parse(input.trim());
                self.expect(expected, |bench| bench.send(&sent));
            }
        }
    }

    fn expect(&mut self, expected: &str, act: impl FnOnce(&mut Bench) -> Vec<Released>) {
        let drops = self.bench.drops.clone();
        let seen = act(&mut self.bench);
        let mut actual: Vec<String> = seen.iter().map(|seen| self.print(&seen.sent)).collect();
        actual.extend(new_drops(&drops, &self.bench.drops));
        let expected: Vec<&str> = expected
            .split('|')
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .collect();
        assert_eq!(actual, expected);
    }

    fn check_flow(&self, state: &str) {
        let actual = match (self.bench.words[0], self.bench.handle) {
            (0, 0) => "unknown",
            (_, 0) => "known",
            _ => "pending",
        };
        assert_eq!(actual, state);
    }

    fn check_counter(&self, counter: &str, value: &str) {
        let mut found = None;
        self.bench.function.counters(&mut |name, value| {
            if name == counter {
                found = Some(value.to_string())
            }
        });
        assert_eq!(found.as_deref(), Some(value), "{counter}");
    }

    fn parse(&self, text: &str) -> Sent {
        let parts: Vec<&str> = text.split_whitespace().collect();
        let (number, letters) = parts[1].split_once('/').unwrap_or((parts[1], "A"));
        let (letters, acknowledged) = match letters.split_once('@') {
            Some((letters, number)) => (letters, Some(self.number(number))),
            None => (letters, None),
        };
        let sequence = self.number(number);
        let flags = LETTERS
            .iter()
            .filter(|(letter, _)| letters.contains(*letter))
            .map(|(_, flag)| flag)
            .sum();
        let payload = parts.get(2).unwrap_or(&"").as_bytes().to_vec();
        Sent {
            way: self.way(parts[0] == ">"),
            sequence,
            flags,
            payload,
            acknowledged,
        }
    }

    fn number(&self, text: &str) -> u32 {
        let number = text.parse::<u32>().expect("a number");
        number.wrapping_add(self.base)
    }

    fn way(&self, forth: bool) -> Direction {
        if forth != self.mirrored {
            Direction::Original
        } else {
            Direction::Reply
        }
    }

    fn print(&self, sent: &Sent) -> String {
        let arrow = if sent.way == self.way(true) { '>' } else { '<' };
        let letters: String = LETTERS
            .iter()
            .filter(|(_, flag)| sent.flags & flag != 0)
            .map(|(letter, _)| letter)
            .collect();
        let mut text = format!("{arrow} {}", sent.sequence.wrapping_sub(self.base));
        if letters != "A" {
            text += &format!("/{letters}");
        }
        format!("{text} {}", String::from_utf8_lossy(&sent.payload))
            .trim_end()
            .to_owned()
    }
}

fn new_drops<'a>(
    before: &'a DropCounters,
    after: &'a DropCounters,
) -> impl Iterator<Item = String> + 'a {
    after.nonzero().flat_map(|(reason, count)| {
        (before.of(reason)..count).map(move |_| format!("drop {}", reason.name()))
    })
}

/// Runs a scenario in all its variants. The name of the variant and the line are in the panic's
/// output.
pub fn play(config: &Config, script: &str) {
    for base in BASES {
        for (v6, mirrored) in [(false, false), (true, false), (false, true)] {
            let mut run = Run {
                bench: Bench::new(config, v6),
                base,
                mirrored,
            };
            println!("base {base}, IPv6 {v6}, mirrored {mirrored}");
            for line in script.lines().filter(|line| !line.trim().is_empty()) {
                println!("{}", line.trim());
                run.line(line);
            }
            run.bench.assert_no_buffer_lost();
        }
    }
}
