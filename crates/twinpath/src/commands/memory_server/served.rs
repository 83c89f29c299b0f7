//! A memory server at its interface: frames go in and out, and the time.

use super::fitting_payload;
use crate::output;
use indicatif::{ProgressBar, ProgressStyle};
use std::slice;
use std::time::{Duration, Instant as Clock};
use twinpath_control::report::units;
use twinpath_core::{Frame, Instant, Pools};
use twinpath_ports::{Port, State, wait};
use twinpath_remote::Endpoint;
use twinpath_remote::server::MemoryServer;

/// What somebody who executes requests tells of it.
pub trait Figures {
    /// What is shown while it runs.
    fn figures(&self) -> String;

    /// Every counter.
    fn counted(&self) -> Vec<(String, u64)>;
}

/// Frames that are taken, and sent, in one go.
const BURST: usize = 64;
/// Buffers for ordinary and for long packets.
const BUFFERS: (usize, usize) = (4096, 64);
/// How often the interface is looked at, and figures are shown.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// So much is told of switches at most in such a time: whoever is on the link may ask as often as they like.
const TOLD: (usize, Duration) = (8, Duration::from_secs(10));

/// A server that serves.
pub struct Served<E> {
    server: MemoryServer<E>,
    port: Port,
    pools: Pools,
    began: Clock,
    /// How much was told of switches since when.
    told: (usize, Clock),
    is_quiet: bool,
    progress: ProgressBar,
}

impl<E: Endpoint + Figures> Served<E> {
    /// A server that begins now, at an interface.
    pub fn new(server: MemoryServer<E>, port: Port, is_quiet: bool) -> Self {
        let progress = match is_quiet {
            true => ProgressBar::hidden(),
            false => ProgressBar::new_spinner(),
        };
        progress.set_style(
            ProgressStyle::with_template("{msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner()),
        );
        Self {
            server,
            port,
            pools: Pools::new(BUFFERS.0, BUFFERS.1),
            began: Clock::now(),
            told: (0, Clock::now()),
            is_quiet,
            progress,
        }
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.began.elapsed()
    }

    /// Serves until it is stopped.
    pub fn run(&mut self, stop: &crate::stop::Stop) {
        let (mut burst, mut leaving) = (Vec::new(), Vec::new());
        let mut next_look = Instant::ZERO;
        while !stop.is_requested() {
            let taken = self.exchange(&mut burst, &mut leaving);
            let now = self.now();
            if now >= next_look {
                next_look = now + LOOK_INTERVAL;
                self.look();
            }
            let until = self.server.deadline().min(next_look);
            if taken == 0 && until > now {
                wait(slice::from_ref(&self.port), None, until.since(now));
            }
        }
        self.progress.finish_and_clear();
    }

    fn look(&mut self) {
        match self.port.poll_state() {
            // Frames that come meanwhile are lost, as on any link.
            Some(State::Down | State::Taken) => self.warn(&format!(
                "{} is down, or gone: no switch can reach what is kept",
                self.port.device()
            )),
            Some(State::Up) => self.note(&format!("{} is up", self.port.device())),
            None | Some(State::Mastered) => {}
        }
        self.follow_mtu();
        self.tell_of_switches();
        if let Some((index, why)) = self.server.take_failure() {
            self.warn(&format!("queue pair {index}: {why}"));
        }
        self.progress.set_message(self.server.endpoint().figures());
    }

    /// What the link carries now is what is announced.
    fn follow_mtu(&mut self) {
        let (before, now) = (self.server.memory().mtu, self.now());
        let fitting = fitting_payload(self.port.interface().mtu);
        self.server.set_mtu(fitting, now);
        let after = self.server.memory().mtu;
        if after != before {
            self.note(&format!("payloads of up to {after} bytes from now on"));
        }
    }

    fn tell_of_switches(&mut self) {
        if self.told.1.elapsed() >= TOLD.1 {
            self.told = (0, Clock::now());
        }
        for event in self.server.take_switch_events() {
            self.told.0 += 1;
            match (self.told.0 <= TOLD.0, event.is_error()) {
                (true, true) => self.warn(&event.to_string()),
                (true, false) => self.note(&event.to_string()),
                (false, _) => {}
            }
        }
    }

    fn note(&self, text: &str) {
        if !self.is_quiet {
            let server = self.server.memory().server;
            let told = format_args!("memory server {server}: {text}");
            self.progress.suspend(|| output::notice(told));
        }
    }

    fn warn(&self, text: &str) {
        let server = self.server.memory().server;
        let told = format_args!("memory server {server}: {text}");
        self.progress.suspend(|| output::warning(told));
    }

    /// Takes a burst and sends what follows from it; how many frames it had.
    fn exchange(&mut self, burst: &mut Vec<Frame>, leaving: &mut Vec<Frame>) -> usize {
        self.port.receive(&mut self.pools, burst, BURST);
        let (taken, now) = (burst.len(), self.now());
        for frame in burst.drain(..) {
            self.server.receive(frame.bytes(), now);
            self.pools.give(frame);
        }
        self.server
            .transmit(now, &mut self.pools, leaving, 4 * BURST);
        for frame in leaving.drain(..) {
            self.port.transmit(frame, &mut self.pools);
        }
        self.port.flush(&mut self.pools);
        taken
    }

    /// Every counter that is not zero.
    pub fn summary(&self) -> String {
        let registration = self.server.counters().named();
        let registration = registration.map(|(name, count)| (name.to_owned(), count));
        let all = self
            .server
            .endpoint()
            .counted()
            .into_iter()
            .chain(registration);
        let counted = all.filter(|&(_, count)| count > 0);
        let lines = counted.map(|(name, count)| format!("{name:<24} {}\n", units::count(count)));
        lines.collect()
    }
}
