//! `twinpath compare`: whether two captures hold the same packets.

use crate::error::CommandError;
use crate::{Outcome, output};
use std::path::{Path, PathBuf};
use twinpath_classify::Prefix;
use twinpath_compare::{Comparison, Inner, Options, OuterField, Renaming, Summary};
use twinpath_control::report::units;
use twinpath_core::wire::layout::{MAX_FRAME_BYTES, Transport};
use twinpath_core::wire::{Address, dissect, fields};
use twinpath_io::{CaptureReader, Next};
use twinpath_nf::duration::Human;
use twinpath_nf::files::{Disk, Files};

/// Compares two captures, flow by flow
///
/// They are the same if each flow and direction has the same packets in the same order, byte for
/// byte; packets of several flows may come in any order. If they are not, the first difference is
/// told: which packet is missing, extra or at another place, or which header fields and payload
/// bytes are others. Exit code 0 if they are the same, 1 if not or if
/// neither holds a packet, 2 if a capture cannot be read. With --fields two captures without packets are
/// the same: all packets of a test vector's step may have to be dropped. How many flows and directions
/// have several packets is told, for only of these is there an order to compare.
///
/// Where both are pcapng with the same several interfaces, as a service with ports writes, each packet must
/// also have the same interface.
///
/// With --renamed, what an address translation gave out (the port of an external address, or the
/// identifier of an echo) may differ, up to a one-to-one renaming for as long as a binding lives. So may
/// the identifications of IPv4 packets from those addresses, which a translation draws. A load balancer chooses
/// backends by the service's seed, and behind a translation by what that gave out: let both runs have one seed.
///
/// In a capture from behind a translation answers go to hosts inside, and pass untranslated: what comes back
/// through a translation is tried with generated traffic, or with a capture from in front of it.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath compare both.pcap slow.pcap",
    "twinpath compare both.pcap slow.pcap --renamed 198.51.100.0/24",
    "twinpath compare a.pcap b.pcap.gz --ignore-ip-ids --timestamps",
    "twinpath compare out.pcap vectors/dash/vnet/expected.pcap --fields vectors/dash/vnet/compare.json",
))]
pub struct Arguments {
    /// A capture: pcap or pcapng, gzip too
    a: PathBuf,
    /// The capture to compare it with
    b: PathBuf,
    /// Names within these external addresses may differ, one to one: protocol, address and port
    #[arg(long, value_name = "PREFIX", value_delimiter = ',')]
    renamed: Vec<Prefix>,
    /// How long an external port is silent until its binding is over; it may stand for another then
    #[arg(
        long,
        value_name = "TIME",
        requires = "renamed",
        default_value = "120s"
    )]
    binding_idle: Human,
    /// Timestamps must be the same, too
    #[arg(long)]
    timestamps: bool,
    /// The identifications of IP packets may differ
    #[arg(long)]
    ignore_ip_ids: bool,
    /// Of packets in tunnels (VXLAN, NVGRE) flows are those of the packets inside, with their MAC addresses
    #[arg(long)]
    inner: bool,
    /// What does not count of the headers around packets in tunnels: a test vector's compare.json. Flows are
    /// then those inside, too
    #[arg(long, value_name = "COMPARE.json")]
    fields: Option<PathBuf>,
}

/// What a vector's file says.
#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Counting {
    ignore: Vec<String>,
    endpoints: Vec<String>,
    /// Whether packets must go to each of the endpoints.
    endpoints_all_used: bool,
    /// First and last.
    source_ports: Option<[u16; 2]>,
    /// Where VXLAN goes, too.
    vxlan_port: Option<u16>,
}

/// What is wrong with a file that begins otherwise.
const NO_OBJECT: &str =
    "line 1: expected an object with ignore and endpoints, as {\"ignore\": [\"outer.ttl\"]}";

/// What whoever compares behind a translation may have forgotten.
const DRAWN: &str = "if an address translation drew that (ports, identifications): \
    --renamed with its external addresses, such as 198.51.100.0/24\n";

/// Compares.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let comparison = Comparison::new(arguments.options()?);
    let (a, b) = (&arguments.a, &arguments.b);
    match comparison.compare_captures(a, b)? {
        // Two captures that are empty by mistake are the same, too; a vector's may have to be empty.
        Ok(summary) if summary.packets == 0 && arguments.fields.is_none() => {
            output::print("nothing was compared: neither capture holds a packet\n")?;
            Ok(Outcome::Bad)
        }
        Ok(summary) => match arguments.broken_rule()? {
            Some(what) => {
                output::print(&format!("different: in {}, {what}\n", a.to_string_lossy()))?;
                Ok(Outcome::Bad)
            }
            None if summary.packets == 0 => {
                output::print("the same: both are empty\n")?;
                Ok(Outcome::Good)
            }
            None => {
                output::print(&told(&summary, !arguments.renamed.is_empty()))?;
                Ok(Outcome::Good)
            }
        },
        Err(difference) => {
            let (a, b) = (a.to_string_lossy(), b.to_string_lossy());
            output::print(&format!("different: {}\n", difference.between(&a, &b)))?;
            if arguments.renamed.is_empty() && difference.may_be_drawn() {
                output::print(DRAWN)?;
            }
            Ok(Outcome::Bad)
        }
    }
}

impl Arguments {
    fn inner(&self) -> Result<Option<Inner>, CommandError> {
        match &self.fields {
            Some(path) => Ok(Some(inner_of(path, &counting(path)?)?)),
            None => Ok(self.inner.then(Inner::default)),
        }
    }

    /// What must be true of all packets of the first capture together, and is not.
    fn broken_rule(&self) -> Result<Option<String>, CommandError> {
        let Some(path) = &self.fields else {
            return Ok(None);
        };
        let counting = counting(path)?;
        let is_all_used = counting.endpoints_all_used;
        let mut unused = inner_of(path, &counting)?.endpoints;
        unused.retain(|_| is_all_used);
        let (mut capture, mut buffer) = (CaptureReader::open(&self.a)?, vec![0; MAX_FRAME_BYTES]);
        loop {
            let frame = match capture.next_into(&mut buffer)? {
                Next::Frame(record) => &buffer[..record.captured_len],
                Next::Oversized(_) => continue,
                Next::End => break,
            };
            let Ok(layout) = dissect(frame) else { continue };
            let destination = fields::destination_address(frame, &layout);
            unused.retain(|endpoint| *endpoint != destination);
            let port = fields::source_port(frame, &layout);
            if let Some([first, last]) = counting.source_ports
                && layout.transport == Transport::Udp
                && !(first..=last).contains(&port)
            {
                return Ok(Some(format!(
                    "a packet comes from port {port}, which is none of {first} to {last}"
                )));
            }
        }
        let unused = unused.first();
        Ok(unused.map(|endpoint| format!("no packet goes to {endpoint}")))
    }

    fn options(&self) -> Result<Options, CommandError> {
        let renaming = Renaming::of(self.renamed.clone());
        let renaming = renaming.with_binding_idle(self.binding_idle.duration());
        Ok(Options {
            timestamps: self.timestamps,
            ignore_ip_ids: self.ignore_ip_ids,
            renaming: (!self.renamed.is_empty()).then_some(renaming),
            inner: self.inner()?,
        })
    }
}

/// What a vector's file says.
fn counting(path: &Path) -> Result<Counting, CommandError> {
    let wrong = |why: String| wrong(path, why);
    let text = Disk.read(path).map_err(|error| wrong(error.to_string()))?;
    // A list would be taken for the values of the fields in their order.
    if !text.trim_start().starts_with('{') {
        return Err(wrong(NO_OBJECT.to_owned()));
    }
    serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
}

fn wrong(path: &Path, why: String) -> CommandError {
    CommandError::Counting {
        path: path.to_owned(),
        why,
    }
}

/// What it comes to.
fn inner_of(path: &Path, counting: &Counting) -> Result<Inner, CommandError> {
    let ignore = counting.ignore.iter().map(|name| {
        let field = name.parse::<OuterField>();
        field.map_err(|why| wrong(path, format!("ignore: {name:?}: {why}")))
    });
    let endpoints = counting.endpoints.iter().map(|text| {
        let address = text.parse::<Address>();
        address.map_err(|why| wrong(path, format!("endpoints: {text:?}: {why}")))
    });
    Ok(Inner {
        ignore: ignore.collect::<Result<_, _>>()?,
        endpoints: endpoints.collect::<Result<_, _>>()?,
        vxlan_port: counting.vxlan_port,
    })
}

fn told(summary: &Summary, with_bindings: bool) -> String {
    let Summary {
        packets,
        flows,
        long_flows,
        bindings,
        renamed,
        by_ports,
    } = summary;
    let packets = units::counted(*packets, "packet");
    let ways = match flows {
        1 => "1 flow and direction".to_owned(),
        flows => format!("{} flows and directions", units::count(*flows)),
    };
    let mut text = format!("the same: {packets} in {ways}");
    if with_bindings {
        let bindings = units::counted(*bindings, "binding");
        let renamed = units::count(*renamed);
        text += &format!(", {bindings}, {renamed} of them renamed");
    }
    if *by_ports {
        text += ", each at the same port";
    }
    text + &of_order(*flows, *long_flows) + "\n"
}

/// Of how many flows there is an order that could have been another: what is the same without one says
/// little of a service.
fn of_order(flows: u64, long_flows: u64) -> String {
    match long_flows {
        0 => "; each has 1 packet, so no order was compared".to_owned(),
        long if long == flows => String::new(),
        long => format!("; {} of them with several packets", units::count(long)),
    }
}
