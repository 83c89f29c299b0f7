//! `twinpath memory-server`: a memory server on a network interface.
//!
//! All that it does is `twinpath_remote::server`'s; this adds the interface, the clock and figures.

use crate::checks::available_bytes;
use crate::error::{CommandError, MemoryServerError};
use crate::stop::Stop;
use crate::{Outcome, output};
use indicatif::{ProgressBar, ProgressStyle};
use std::slice;
use std::str::FromStr;
use std::time::{Duration, Instant as Clock};
use twinpath_control::report::units;
use twinpath_core::wire::{Address, MacAddress};
use twinpath_core::{Frame, Instant, Pools};
use twinpath_nf::duration::Human;
use twinpath_ports::{Driver, Port, PortConfig, wait};
use twinpath_remote::responder;
use twinpath_remote::server::{Config, MemoryServer};

/// Keeps payloads of a switch in this machine's memory, over RoCEv2
///
/// RDMA's server end in software, on raw frames of an interface: the machine needs no RDMA card, and one
/// that is there is not used. It announces its memory there and does what a requester that restores its
/// queue pairs asks for. The address must be none of this host's own, whose kernel would answer, too.
/// Ctrl-C ends it; what it keeps is gone then.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath memory-server --listen eth1 --memory 1G",
    "twinpath memory-server --listen eth1 --memory 256M --server 2 --address 192.0.2.7",
))]
pub struct Arguments {
    /// The interface towards the switch
    #[arg(long, value_name = "DEVICE")]
    listen: String,
    /// How much memory: bytes, or a number with K, M or G
    #[arg(long, value_name = "SIZE")]
    memory: Size,
    /// Its number among the switch's servers
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..64))]
    server: u16,
    /// Its address for RDMA: one of 169.254.0.0/16 that follows from the interface's if not said
    #[arg(long, value_name = "IP")]
    address: Option<std::net::IpAddr>,
    /// How many queue pairs
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=i64::from(responder::MAX_QUEUE_PAIRS)))]
    queue_pairs: u16,
    /// The most payload of a packet: what the interface's MTU allows if not said, up to 4096
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(64..=4096))]
    mtu: Option<u16>,
    /// End after this time
    #[arg(long = "for", value_name = "TIME")]
    time: Option<Human>,
    /// Show nothing but errors
    #[arg(long)]
    quiet: bool,
}

/// `--memory`
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Size(u64);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a number of bytes above 0, or one with K, M or G, such as 256M")]
struct NoSize;

impl FromStr for Size {
    type Err = NoSize;

    fn from_str(text: &str) -> Result<Self, NoSize> {
        let (number, shift) = match text.char_indices().last() {
            Some((at, 'K')) => (&text[..at], 10),
            Some((at, 'M')) => (&text[..at], 20),
            Some((at, 'G')) => (&text[..at], 30),
            _ => (text, 0),
        };
        let number: u64 = number.parse().map_err(|_| NoSize)?;
        let bytes = number.checked_mul(1 << shift).filter(|&bytes| bytes > 0);
        bytes.map(Self).ok_or(NoSize)
    }
}

/// Serves until it is stopped.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let stop = Stop::on_signals()?;
    if let Some(time) = arguments.time {
        stop.after(time.duration());
    }
    let mut served = Served::open(arguments)?;
    served.run(&stop);
    if !arguments.quiet {
        output::print(&served.summary())?;
    }
    Ok(Outcome::Good)
}

/// Frames that are taken, and sent, in one go.
const BURST: usize = 64;
/// Buffers for ordinary and for long packets.
const BUFFERS: (usize, usize) = (4096, 64);
/// How often the interface is looked at, and figures are shown.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

struct Served {
    server: MemoryServer,
    port: Port,
    pools: Pools,
    began: Clock,
    progress: ProgressBar,
}

impl Served {
    fn open(arguments: &Arguments) -> Result<Self, CommandError> {
        let bytes = arguments.memory.0;
        if let Some(available) = available_bytes().filter(|&available| bytes > available) {
            return Err(MemoryServerError::Memory { bytes, available }.into());
        }
        let port = Port::open(PortConfig {
            device: arguments.listen.clone(),
            driver: Driver::AfPacket,
            is_shared: true,
        });
        let port = port.map_err(MemoryServerError::Port)?;
        let seed = getrandom::u64().map_err(MemoryServerError::Random)?;
        let config = arguments.config(&port, seed)?;
        let server = MemoryServer::new(config, Instant::ZERO);
        let progress = match arguments.quiet {
            true => ProgressBar::hidden(),
            false => ProgressBar::new_spinner(),
        };
        progress.set_style(
            ProgressStyle::with_template("{msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner()),
        );
        if !arguments.quiet {
            output::notice(format_args!(
                "memory server {} with {} at {} on {}",
                config.server,
                units::bytes(bytes),
                config.responder.ip.to_ip(),
                port.device(),
            ));
        }
        Ok(Self {
            server,
            port,
            pools: Pools::new(BUFFERS.0, BUFFERS.1),
            began: Clock::now(),
            progress,
        })
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.began.elapsed()
    }

    fn run(&mut self, stop: &Stop) {
        let (mut burst, mut leaving) = (Vec::new(), Vec::new());
        let mut next_look = Instant::ZERO;
        while !stop.is_requested() {
            let taken = self.exchange(&mut burst, &mut leaving);
            let now = self.now();
            if now >= next_look {
                next_look = now + LOOK_INTERVAL;
                // Frames that come while it is down are lost, as on any link.
                let _ = self.port.poll_state();
                self.progress.set_message(self.figures());
            }
            let until = self.server.deadline().min(next_look);
            if taken == 0 && until > now {
                wait(slice::from_ref(&self.port), None, until.since(now));
            }
        }
        self.progress.finish_and_clear();
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

    fn figures(&self) -> String {
        let counters = self.server.responder().counters();
        format!(
            "{} written, {} read, {} refused",
            units::count(counters.writes),
            units::count(counters.reads),
            units::count(
                counters.naks_sequence
                    + counters.naks_invalid
                    + counters.naks_access
                    + counters.naks_operation
            ),
        )
    }

    /// Every counter that is not zero.
    fn summary(&self) -> String {
        let responder = self.server.responder().counters().named();
        let all = responder.chain(self.server.counters().named());
        let counted = all.filter(|&(_, count)| count > 0);
        let lines = counted.map(|(name, count)| format!("{name:<24} {}\n", units::count(count)));
        lines.collect()
    }
}

impl Arguments {
    fn config(&self, port: &Port, seed: u64) -> Result<Config, MemoryServerError> {
        /// Ethernet's payload but RDMA's: IPv6, UDP, BTH, RETH, ICRC.
        const HEADERS: usize = 40 + 8 + 12 + 16 + 4;
        let interface = port.interface();
        let fitting = interface.mtu.saturating_sub(HEADERS).clamp(64, 4096) as u16;
        let mac = MacAddress(interface.mac);
        let (bytes, mtu) = (self.memory.0, self.mtu.unwrap_or(fitting));
        if mtu > fitting {
            let device = port.device().to_owned();
            return Err(MemoryServerError::Mtu {
                mtu,
                fitting,
                device,
            });
        }
        if bytes < u64::from(mtu) {
            return Err(MemoryServerError::TooLittle { bytes, mtu });
        }
        Ok(Config {
            server: self.server,
            memory_bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
            responder: responder::Config {
                mac,
                ip: self.address.map_or_else(|| link_local(mac), Address::from),
                mtu,
                queue_pairs: self.queue_pairs,
                reads: 16,
                message_bytes: 1 << 20,
            },
            seed,
        })
    }
}

/// An address for this link alone (RFC 3927) that follows from the interface's.
fn link_local(mac: MacAddress) -> Address {
    let [.., third, fourth] = mac.0;
    Address::from_v4([169, 254, third.clamp(1, 254), fourth])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let size = |text: &str| text.parse::<Size>();
        assert_eq!(size("4096"), Ok(Size(4096)));
        assert_eq!(size("2K"), Ok(Size(2048)));
        assert_eq!(size("3M"), Ok(Size(3 << 20)));
        assert_eq!(size("1G"), Ok(Size(1 << 30)));
        for wrong in [
            "",
            "0",
            "G",
            "-1",
            "1g",
            "1.5G",
            "18446744073709551615K",
            "1 G",
            "1é",
        ] {
            assert_eq!(size(wrong), Err(NoSize), "{wrong}");
        }
    }

    #[test]
    fn addresses_follow_from_the_interface() {
        let mac = MacAddress([2, 0, 0, 0, 0, 9]);
        assert_eq!(link_local(mac), Address::from_v4([169, 254, 1, 9]));
    }
}
