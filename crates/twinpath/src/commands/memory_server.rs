//! `twinpath memory-server`: a memory server on a network interface.
//!
//! All that it does is `twinpath_remote::server`'s; this says who executes requests, and adds the interface,
//! the clock and figures.

#[cfg(feature = "verbs")]
mod on_card;
mod served;

use crate::checks::available_bytes;
use crate::error::{CommandError, MemoryServerError};
use crate::stop::Stop;
use crate::{Outcome, output};
use served::{Figures, Served};
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;
use twinpath_control::report::units;
use twinpath_core::Instant;
use twinpath_core::wire::unicast::check_host;
use twinpath_core::wire::{Address, MacAddress};
use twinpath_nf::duration::Human;
use twinpath_ports::{Driver, Port, PortConfig, kernel_addresses};
use twinpath_remote::back_off::MAX_SERVERS;
use twinpath_remote::server::{Config, MemoryServer};
use twinpath_remote::{Endpoint, Responder, responder};
use twinpath_verbs::{Device, devices};

/// Keeps payloads of a switch in this machine's memory, over RoCEv2
///
/// It announces its memory on an interface and does what a requester that restores its queue pairs asks for.
/// Where the interface is an RDMA card's, a build with the feature `verbs` has the card execute requests, and
/// no processor has to do with them; the address is one of the interface's then. Elsewhere, and with
/// `--software`, RDMA's server end runs in software, on raw frames; the address must be none of this host's
/// own then, whose kernel would answer, too. Ctrl-C ends it; what it keeps is gone then.
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
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = server_number)]
    server: u16,
    /// Its address for RDMA. If not said: on a card the interface's first, of IPv4 where it has one; in
    /// software one of 169.254.0.0/16 that follows from the interface's hardware address
    #[arg(long, value_name = "IP", value_parser = host_address)]
    address: Option<std::net::IpAddr>,
    /// How many queue pairs
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=i64::from(responder::MAX_QUEUE_PAIRS)))]
    queue_pairs: u16,
    /// The most payload of a packet: what the interface's MTU allows if not said, up to 4096. A card takes a
    /// power of two from 256
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(64..=4096))]
    mtu: Option<u16>,
    /// Execute requests in software, also where the interface is an RDMA card's
    #[arg(long)]
    software: bool,
    /// End after this time
    #[arg(long = "for", value_name = "TIME")]
    time: Option<Human>,
    /// Show nothing but errors
    #[arg(long)]
    quiet: bool,
}

fn server_number(text: &str) -> Result<u16, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| usize::from(*number) < MAX_SERVERS);
    number.ok_or_else(|| format!("expected a number from 0 to {}", MAX_SERVERS - 1))
}

fn host_address(text: &str) -> Result<IpAddr, String> {
    let ip: IpAddr = text
        .parse()
        .map_err(|_| "expected an address such as 192.0.2.7 or 2001:db8::7")?;
    check_host(Address::from(ip)).map_err(|why| why.to_string())?;
    Ok(ip)
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
    let device = arguments.card()?;
    if let Some(device) = device.filter(|_| !arguments.software) {
        #[cfg(feature = "verbs")]
        {
            let server = on_card::open(arguments, device, &port, seed)?;
            let by = format!("by the card {}", server.endpoint().device().name);
            return arguments.serve(server, port, &by, &stop);
        }
        #[cfg(not(feature = "verbs"))]
        output::notice(format_args!(
            "{} belongs to the RDMA card {}, which is not used: this is a build without the feature `verbs`",
            arguments.listen, device.name
        ));
    }
    arguments.check_address()?;
    let server = MemoryServer::new(arguments.config(&port, seed)?, Instant::ZERO);
    arguments.serve(server, port, "in software", &stop)
}

impl Figures for Responder {
    fn figures(&self) -> String {
        let counters = self.counters();
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

    fn counted(&self) -> Vec<(String, u64)> {
        let named = self.counters().named();
        named
            .map(|(name, count)| (name.to_owned(), count))
            .collect()
    }
}

impl Arguments {
    /// The card that the interface belongs to.
    fn card(&self) -> Result<Option<Device>, MemoryServerError> {
        let all = kernel_addresses().map_err(MemoryServerError::Addresses)?;
        let own = all.iter().filter(|one| one.device == self.listen);
        let own: Vec<Address> = own.map(|one| Address::from(one.address)).collect();
        let folder = Path::new(devices::FOLDER);
        Ok(Device::of_interface(folder, &self.listen, &own))
    }

    /// In software an address must be none of this host's.
    fn check_address(&self) -> Result<(), MemoryServerError> {
        let Some(address) = self.address else {
            return Ok(());
        };
        let all = kernel_addresses().map_err(MemoryServerError::Addresses)?;
        match all.into_iter().find(|one| one.address == address) {
            Some(own) => Err(MemoryServerError::OwnAddress {
                address,
                device: own.device,
            }),
            None => Ok(()),
        }
    }

    /// Says what there is, serves, and tells what was counted.
    fn serve<E: Endpoint + Figures>(
        &self,
        server: MemoryServer<E>,
        port: Port,
        by: &str,
        stop: &Stop,
    ) -> Result<Outcome, CommandError> {
        if !self.quiet {
            let memory = server.memory();
            output::notice(format_args!(
                "memory server {} with {} at {} on {}, {by}, payloads of up to {} bytes",
                memory.server,
                units::bytes(memory.bytes),
                memory.ip.to_ip(),
                port.device(),
                memory.mtu,
            ));
        }
        let mut served = Served::new(server, port, self.quiet);
        served.run(stop);
        if !self.quiet {
            output::print(&served.summary())?;
        }
        Ok(Outcome::Good)
    }

    fn config(&self, port: &Port, seed: u64) -> Result<Config, MemoryServerError> {
        let interface = port.interface();
        let fitting = fitting_payload(interface.mtu);
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

/// The longest payload of a packet on a link that carries IP packets of so many bytes.
fn fitting_payload(packet_bytes: usize) -> u16 {
    /// IPv6, UDP, BTH, RETH, ICRC.
    const HEADERS: usize = 40 + 8 + 12 + 16 + 4;
    packet_bytes.saturating_sub(HEADERS).clamp(64, 4096) as u16
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
    fn numbers_and_addresses_that_can_be() {
        assert_eq!(server_number("63"), Ok(63));
        for wrong in ["64", "-1", "x", ""] {
            let told = server_number(wrong).expect_err("no number of a server");
            assert_eq!(told, "expected a number from 0 to 63", "{wrong}");
        }
        assert!(host_address("192.0.2.7").is_ok() && host_address("2001:db8::7").is_ok());
        for wrong in [
            "0.0.0.0",
            "127.0.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "ff02::1",
            "x",
        ] {
            assert!(host_address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_follow_from_the_interface() {
        let mac = MacAddress([2, 0, 0, 0, 0, 9]);
        assert_eq!(link_local(mac), Address::from_v4([169, 254, 1, 9]));
    }
}
