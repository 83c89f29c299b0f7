//! Traffic as plans ask for it.
//!
//! | parameter | what it is | default |
//! |---|---|---|
//! | `seed` | of everything drawn at random | 1 |
//! | `packets` | how many packets come | 1,000,000 |
//! | `duration_ms` | when they end, if that is earlier | - |
//! | `input_gbps` or `input_mpps` | how fast they come: bits on the wire, gaps and preambles included, or packets | one is needed |
//! | `arrivals` | `"constant"`, `"poisson"` or `"bursty"` | `"constant"` |
//! | `burst_us`, `silence_us` | mean lengths of bursts and of the silences between them | 10, 10 |
//! | `frame_bytes` | length of frames without checksum, or `"imix"`, or a file of points of a distribution | 1024 |
//! | `flows` | flows that live at the same time | 1000 |
//! | `zipf` | exponent of their popularity; 0 for flows that are all alike | 0.99 |
//! | `churn_per_minute` | new flows, each instead of the oldest | 0 |
//! | `flow_sizes` | a file of points of a distribution: flows end when they have sent so much | none: they never end |
//! | `flow_size_unit` | what it counts, `"packets"` or `"bytes"` | `"packets"` |
//! | `flow_sizes_between` | what it is straight over between two points, `"sizes"` or `"logarithms"` | `"sizes"` |
//! | `flow_model` | `"closed"`: so many flows live; `"open"`: flows begin at random, each with a rate of its own | `"closed"` |
//! | `flow_pps`, `flow_spread`, `history_s` | of the open model: median rate, deviation of its logarithm, seconds of flows before the start | 1000, 1.5, 300 |
//! | `pause_share`, `pause_ms` | of the open model: the share of a flow's packets that a pause follows, and its mean length | 0, 0 |
//! | `pace` | of the open model: packets come when `"flows"` send them, or `"even"`ly spaced in that order | `"flows"` |
//! | `capture` | a capture to replay instead, again and again until there are enough packets | none |
//! | `time_scale` | how much faster than it was captured | 1 |
//!
//! Files are named as seen from the plan. What a function must meet (protocol, segments out of order,
//! strings in payloads) is the [model](crate::two_paths)'s to add.

mod frames;
mod parameters;
mod replay;

pub use parameters::{
    ArrivalsName, FIELDS, FlowModel, FrameBytes, Pace, TrafficParameters, misfit_of_traffic,
};

pub(crate) use frames::SERVICE;

use crate::model::ParameterError;
use frames::Template;
use replay::Replay;
use twinpath_engine::Time;
use twinpath_traffic::config::TrafficConfig;
use twinpath_traffic::open::OpenFlows;
use twinpath_traffic::{Generator, PacketKind};

/// A packet, of which the bytes are in the caller's buffer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// When it comes.
    pub at: Time,
    /// Its length in bytes, without checksum.
    pub len: usize,
    /// Its flow, if the source knows.
    pub flow: Option<u64>,
}

/// Where packets come from.
pub struct Traffic {
    source: Source,
    left: u64,
    end: Time,
    buffer_bytes: usize,
}

#[expect(clippy::large_enum_variant, reason = "there is one per run")]
enum Source {
    Generated(Generator),
    Open(OpenFlows, Template, Option<Even>),
    Replay(Replay),
}

impl Traffic {
    /// The traffic of these parameters; `config` is what the function under test adds to them.
    ///
    /// # Errors
    /// A file that cannot be read, or numbers that do not go together.
    pub fn new(
        parameters: &TrafficParameters,
        config: &TrafficConfig,
    ) -> Result<Self, ParameterError> {
        let source = match (&parameters.capture, parameters.flow_model) {
            (Some(path), _) => Source::Replay(Replay::load(path, parameters.time_scale)?),
            (None, FlowModel::Open) => {
                let template = Template::new(parameters.fixed_frame_bytes()?)?;
                let config = parameters.open_config()?;
                let even = (parameters.pace == Pace::Even).then(|| Even::new(config.packets_per_s));
                Source::Open(OpenFlows::new(config, parameters.seed), template, even)
            }
            (None, FlowModel::Closed) => {
                let generator = Generator::new(config, parameters.seed);
                Source::Generated(generator.map_err(|error| misfit_of_traffic(&error))?)
            }
        };
        let buffer_bytes = match &source {
            Source::Generated(generator) => generator.frame_bytes_max(),
            Source::Open(_, template, _) => template.bytes(),
            Source::Replay(replay) => replay.longest(),
        };
        Ok(Self {
            source,
            left: parameters.packets,
            end: parameters.end(),
            buffer_bytes,
        })
    }

    /// The longest packet.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// Writes the next packet to the start of `buffer`, which is at least [`Self::buffer_bytes`] long.
    pub fn next_into(&mut self, buffer: &mut [u8]) -> Option<Incoming> {
        self.left = self.left.checked_sub(1)?;
        let incoming = match &mut self.source {
            Source::Generated(generator) => generated(generator, buffer)?,
            Source::Open(flows, template, even) => {
                let packet = flows.next_packet();
                template.write(packet.flow, buffer);
                let sent = Time::from_ns(packet.at_ns);
                Incoming {
                    at: even.as_mut().map_or(sent, Even::next),
                    len: template.bytes(),
                    flow: Some(packet.flow),
                }
            }
            Source::Replay(replay) => replay.next_into(buffer)?,
        };
        (incoming.at <= self.end).then_some(incoming)
    }
}

/// Times at even distances.
struct Even {
    packets_per_s: f64,
    packets: u64,
}

impl Even {
    fn new(packets_per_s: f64) -> Self {
        Self {
            packets_per_s,
            packets: 0,
        }
    }

    fn next(&mut self) -> Time {
        let at = Time::from_us_f64(self.packets as f64 * 1e6 / self.packets_per_s);
        self.packets += 1;
        at
    }
}

/// The generator counts nanoseconds; it is asked for a thousandth of the rate, so they are picoseconds
/// here.
fn generated(generator: &mut Generator, buffer: &mut [u8]) -> Option<Incoming> {
    let generated = generator.next_into(buffer)?;
    let is_request = matches!(generated.kind, PacketKind::KvGet | PacketKind::KvPut);
    Some(Incoming {
        at: Time(generated.timestamp_ns),
        len: generated.len,
        flow: (!is_request).then_some(generated.flow),
    })
}

#[cfg(test)]
mod tests;
