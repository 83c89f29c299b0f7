//! `twinpath generate`: a capture of traffic that never was.

use super::dash::{config_files, replace_config};
use crate::checks::unsent_traffic;
use crate::error::{CommandError, NoTraffic, RunRefusal};
use crate::paths::{capture, check_name, is_same};
use crate::stop::Stop;
use crate::traffic::{self, Description, expected_packets};
use crate::{Outcome, output};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};
use std::time::Duration;
use twinpath_control::report::units;
use twinpath_control::service::Service;
use twinpath_io::{CaptureWriter, FrameSink, PortFiles, PortPattern, is_standard};
use twinpath_node::ingress::Ingress;
use twinpath_node::source::Tunnels;
use twinpath_traffic::{Generator, GeneratorCounters, TrafficConfig};

/// Writes a capture of generated traffic
///
/// The same description and seed give the same bytes, on every machine. Without a description
/// it is a million packets of TCP over a thousand flows. For a DPU, told by a service file or by --dash,
/// packets come in tunnels, between its ENIs' machines and whom their routes and mappings lead to. Ctrl-C ends
/// the capture early, with all packets so far.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath generate --out a.pcap",
    "twinpath generate --service examples/edge.toml --out edge.pcap.gz",
    "twinpath generate traffic.toml --packets 100000 --seed 7 --out a.pcap",
    "twinpath generate --service examples/dpu.toml --out a.pcap    # in tunnels",
    "twinpath generate --dash dpu0/ --packets 10000 --out a.pcap   # for a DPU without a service file",
))]
pub struct Arguments {
    /// A file that describes the traffic: what a service file has in [traffic]
    #[arg(value_name = "TRAFFIC.toml", conflicts_with = "service")]
    traffic: Option<PathBuf>,
    /// A service file with a table [traffic]; its seed and its ports count, too
    #[arg(long, value_name = "SERVICE.toml")]
    service: Option<PathBuf>,
    /// A DPU's configuration, in place of what the service file's [dash] names: files in SONiC's JSON, of a
    /// folder all that end with .json
    #[arg(long, value_name = "CONFIG.json", num_args = 1..)]
    dash: Vec<PathBuf>,
    /// The capture: pcap, pcapng (.pcapng) with a service's ports as interfaces, or a capture for each
    /// port with {port} in the name, which stands for the port's name; compressed if it is named .gz. - is
    /// standard output, -.pcapng too
    #[arg(long, value_name = "FILE", allow_hyphen_values = true, value_parser = capture)]
    out: PathBuf,
    /// How many packets, in place of the description's number
    #[arg(long, value_name = "N")]
    packets: Option<u64>,
    /// Seed of all that is drawn at random
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// The service file of a DPU of which nothing is told but its configuration.
const DPU_ALONE: &str = "[service]\nchain = [\"dash\"]\n[dash]\n";

/// Packets of the traffic that is not described.
const DEFAULT_PACKETS: u64 = 1_000_000;

/// Packets between two looks at the progress bar and at Ctrl-C.
const PACKETS_PER_LOOK: u64 = 4096;

/// What was written.
struct Written {
    stats: GeneratorCounters,
    /// Of all frames, with tunnels around them.
    bytes: u64,
    first_ns: u64,
    last_ns: u64,
}

/// Generates.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let Description {
        mut config,
        seed,
        service,
    } = arguments.description()?;
    arguments.check_output()?;
    let tunnels = service.as_ref().and_then(Tunnels::of);
    let unsent = service.as_ref().and_then(unsent_traffic);
    unsent.iter().for_each(output::warning);
    if let Some(tunnels) = &tunnels {
        config = tunnels.fit(&config);
    }
    let expected = expected_packets(&config).ok_or(NoTraffic::Endless)?;
    let generator = Generator::new(&config, seed)?;
    let stop = Stop::on_signals()?;
    let bar = progress_bar(expected);
    let out = &arguments.out;
    let ingress = service.as_ref().map(Ingress::of);
    let places = (ingress.as_ref(), tunnels.as_ref());
    let ports = service.map_or_else(Vec::new, |service| service.ports);
    let written = match PortPattern::of(out) {
        Some(pattern) => {
            let files = PortFiles::create(&pattern, &ports)?;
            write(generator, files, places, &bar, &stop)
        }
        None if ports.is_empty() => {
            let places = (None, tunnels.as_ref());
            write(generator, CaptureWriter::create(out)?, places, &bar, &stop)
        }
        None => {
            let file = CaptureWriter::with_interfaces(out, &ports)?;
            write(generator, file, places, &bar, &stop)
        }
    }?;
    bar.finish_and_clear();
    if stop.is_requested() {
        output::warning("stopped early: the capture holds the packets so far");
    }
    let summary = summary(out, &written);
    match is_standard(out) {
        true => output::notice(summary.trim_end()),
        false => output::print(&summary)?,
    }
    Ok(Outcome::Good)
}

impl Arguments {
    /// What describes the traffic is not replaced by it.
    fn check_output(&self) -> Result<(), RunRefusal> {
        check_name("--out", &self.out)?;
        let configs = config_files(&self.dash);
        let described = self.service.iter().chain(&self.traffic).chain(&configs);
        match described.into_iter().find(|path| is_same(path, &self.out)) {
            Some(_) => Err(RunRefusal::SameFile {
                path: self.out.clone(),
                flag: "what --out writes",
                other: "what describes the traffic",
            }),
            None => Ok(()),
        }
    }

    fn description(&self) -> Result<Description, CommandError> {
        let alone = |config| Description {
            config,
            seed: 0,
            service: None,
        };
        let mut description = match (&self.service, &self.traffic) {
            (Some(path), _) => traffic::load_service(path)?,
            (None, Some(path)) => alone(traffic::load(path)?),
            (None, None) => alone(TrafficConfig {
                packets: Some(DEFAULT_PACKETS),
                ..TrafficConfig::default()
            }),
        };
        let config = &mut description.config;
        config.packets = self.packets.or(config.packets);
        description.seed = self.seed.unwrap_or(description.seed);
        if description.service.is_none() && !self.dash.is_empty() {
            let mut service = Service::parse(DPU_ALONE, Path::new(""))?;
            service.traffic = Some(description.config.clone());
            description.service = Some(service);
        }
        if let Some(service) = &mut description.service {
            service.seed = description.seed;
            replace_config(&self.dash, service)?;
        }
        Ok(description)
    }
}

/// Packets come in by the same ports as in a run.
fn write<S: FrameSink>(
    mut generator: Generator,
    mut writer: S,
    (ingress, tunnels): (Option<&Ingress>, Option<&Tunnels>),
    bar: &ProgressBar,
    stop: &Stop,
) -> Result<Written, CommandError> {
    let mut frame = vec![0; generator.frame_bytes_max()];
    let (mut first_ns, mut last_ns, mut all_bytes) = (None, 0, 0);
    let mut outer = vec![0; frame.len() + Tunnels::MOST_BYTES];
    while let Some(packet) = generator.next_into(&mut frame) {
        let bytes = match tunnels {
            None => frame.get(..packet.len).unwrap_or(&[]),
            // Flows are of versions that machines talk over, as in a run.
            Some(tunnels) => match tunnels.put(&packet, &mut frame, &mut outer) {
                Some(len) => outer.get(..len).unwrap_or(&[]),
                None => continue,
            },
        };
        let port = ingress.map_or(0, |ingress| ingress.of_generated(bytes, packet.direction));
        writer.write_on(port.into(), packet.timestamp_ns, bytes)?;
        all_bytes += bytes.len() as u64;
        first_ns = first_ns.or(Some(packet.timestamp_ns));
        last_ns = packet.timestamp_ns;
        if generator
            .counters()
            .packets
            .is_multiple_of(PACKETS_PER_LOOK)
        {
            bar.set_position(generator.counters().packets);
            if stop.is_requested() {
                break;
            }
        }
    }
    writer.finish()?;
    Ok(Written {
        stats: generator.counters(),
        bytes: all_bytes,
        first_ns: first_ns.unwrap_or(last_ns),
        last_ns,
    })
}

/// On standard error; hidden where that is no terminal.
fn progress_bar(packets: u64) -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{bar:40.cyan/dim} {human_pos} of {human_len} packets, {per_sec}, {eta} left",
    );
    let style = style
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("█▉▊▋▌▍▎▏░");
    let bar = ProgressBar::new(packets).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn summary(path: &Path, written: &Written) -> String {
    let Written {
        stats,
        bytes,
        first_ns,
        last_ns,
    } = written;
    let duration_ns = last_ns - first_ns;
    let per_second = |amount| units::fraction(amount, duration_ns) * 1e9;
    format!(
        "{}: {}, {} in frames\n  flows     drawn from {}, {} of them ended\n  late      {} out of order\n  duration  {} at {}, {}\n",
        path.display(),
        units::counted(stats.packets, "packet"),
        units::bytes(*bytes),
        units::count(stats.flows),
        units::count(stats.flows_ended),
        units::counted(stats.late_segments, "TCP segment"),
        units::duration(duration_ns),
        units::packet_rate(per_second(stats.packets)),
        units::bit_rate(per_second(stats.bytes) * 8.0),
    )
}
