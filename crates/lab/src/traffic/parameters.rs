//! What a plan says of its traffic.

use crate::model::ParameterError;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use twinpath_engine::Time;
use twinpath_traffic::config::{
    Arrivals, Between, FlowSize, PacketSize, Popularity, SizeUnit, TrafficConfig,
};
use twinpath_traffic::open::{OpenConfig, Pauses};
use twinpath_traffic::{Cdf, Generator, TrafficError};

/// How many nanoseconds of the generator are one of ours: it then counts picoseconds.
const SLOWER: f64 = 1000.0;

/// The parameters; the [module](super) has a table of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the module's table tells each")]
pub struct TrafficParameters {
    pub seed: u64,
    pub packets: u64,
    pub duration_ms: Option<f64>,
    pub input_gbps: Option<f64>,
    pub input_mpps: Option<f64>,
    pub arrivals: ArrivalsName,
    pub burst_us: f64,
    pub silence_us: f64,
    pub frame_bytes: FrameBytes,
    pub flows: u64,
    pub zipf: f64,
    pub churn_per_minute: f64,
    pub flow_sizes: Option<PathBuf>,
    pub flow_size_unit: SizeUnit,
    pub flow_sizes_between: Between,
    pub flow_model: FlowModel,
    pub flow_pps: f64,
    pub flow_spread: f64,
    pub history_s: f64,
    pub pause_share: f64,
    pub pause_ms: f64,
    pub pace: Pace,
    pub capture: Option<PathBuf>,
    pub time_scale: f64,
}

/// The parameters' names.
pub const FIELDS: [&str; 24] = [
    "seed",
    "packets",
    "duration_ms",
    "input_gbps",
    "input_mpps",
    "arrivals",
    "burst_us",
    "silence_us",
    "frame_bytes",
    "flows",
    "zipf",
    "churn_per_minute",
    "flow_sizes",
    "flow_size_unit",
    "flow_sizes_between",
    "flow_model",
    "flow_pps",
    "flow_spread",
    "history_s",
    "pause_share",
    "pause_ms",
    "pace",
    "capture",
    "time_scale",
];

/// How packets arrive.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalsName {
    /// Evenly spaced.
    #[default]
    Constant,
    /// At random.
    Poisson,
    /// Evenly spaced in bursts, with silences between them.
    Bursty,
}

/// Where flows come from.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowModel {
    /// A number of flows live, and one of them is drawn for each packet.
    #[default]
    Closed,
    /// Flows begin at random, and each sends at a rate of its own.
    Open,
}

/// When the packets of the open model come.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// When their flows send them.
    #[default]
    Flows,
    /// In the order in which their flows send them, evenly spaced at the rate of the plan: as a capture
    /// that is replayed at a constant rate.
    Even,
}

/// How long frames are.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum FrameBytes {
    /// All alike.
    Fixed(u16),
    /// `"imix"`, or a file.
    Named(PathBuf),
}

impl Default for TrafficParameters {
    fn default() -> Self {
        Self {
            seed: 1,
            packets: 1_000_000,
            duration_ms: None,
            input_gbps: None,
            input_mpps: None,
            arrivals: ArrivalsName::default(),
            burst_us: 10.0,
            silence_us: 10.0,
            frame_bytes: FrameBytes::Fixed(1024),
            flows: 1000,
            zipf: 0.99,
            churn_per_minute: 0.0,
            flow_sizes: None,
            flow_size_unit: SizeUnit::Packets,
            flow_sizes_between: Between::Sizes,
            flow_model: FlowModel::Closed,
            flow_pps: 1000.0,
            flow_spread: 1.5,
            history_s: 300.0,
            pause_share: 0.0,
            pause_ms: 0.0,
            pace: Pace::default(),
            capture: None,
            time_scale: 1.0,
        }
    }
}

impl TrafficParameters {
    /// Takes files as named from `folder`.
    pub(crate) fn resolve(&mut self, folder: &Path) {
        for path in [&mut self.flow_sizes, &mut self.capture]
            .into_iter()
            .flatten()
        {
            *path = folder.join(&*path);
        }
        if let FrameBytes::Named(path) = &mut self.frame_bytes
            && path.as_os_str() != "imix"
        {
            *path = folder.join(&*path);
        }
    }

    /// Checks what can be checked without reading files.
    ///
    /// # Errors
    /// The first parameter that is out of range.
    pub(crate) fn check(&self) -> Result<(), ParameterError> {
        let within = |value: f64, low: f64, high: f64| (low..=high).contains(&value);
        let rate = |value: Option<f64>| value.is_none_or(|value| within(value, 1e-6, 1e5));
        let checks = [
            (
                (10..=10_000_000_000).contains(&self.packets),
                "packets",
                "10 to ten thousand million",
            ),
            (
                self.duration_ms.is_none_or(|ms| within(ms, 1e-3, 1e7)),
                "duration_ms",
                "above 0 and at most three hours",
            ),
            (
                rate(self.input_gbps),
                "input_gbps",
                "above 0 and at most 100,000",
            ),
            (
                rate(self.input_mpps),
                "input_mpps",
                "above 0 and at most 100,000",
            ),
            (
                within(self.burst_us, 1e-3, 1e6),
                "burst_us",
                "above 0 and at most a second",
            ),
            (
                within(self.silence_us, 1e-3, 1e6),
                "silence_us",
                "above 0 and at most a second",
            ),
            (
                (1..=10_000_000).contains(&self.flows),
                "flows",
                "1 to 10 million",
            ),
            (within(self.zipf, 0.0, 4.0), "zipf", "0 to 4"),
            (
                within(self.churn_per_minute, 0.0, 1e9),
                "churn_per_minute",
                "0 to a thousand million",
            ),
            (
                within(self.flow_pps, 1e-3, 1e9),
                "flow_pps",
                "above 0 and at most a thousand million",
            ),
            (within(self.flow_spread, 0.0, 5.0), "flow_spread", "0 to 5"),
            (within(self.history_s, 0.0, 1e4), "history_s", "0 to 10,000"),
            (within(self.pause_share, 0.0, 1.0), "pause_share", "0 to 1"),
            (
                within(self.pause_ms, 0.0, 1e6),
                "pause_ms",
                "0 to a thousand seconds",
            ),
            (within(self.time_scale, 1e-6, 1e9), "time_scale", "above 0"),
        ];
        for (holds, field, range) in checks {
            if !holds {
                return Err(ParameterError::new(field, format!("must be {range}")));
            }
        }
        if let FrameBytes::Fixed(bytes) = self.frame_bytes {
            super::frames::check_length(bytes.into())?;
        }
        self.check_together()
    }

    fn check_together(&self) -> Result<(), ParameterError> {
        let both = self.input_gbps.is_some() && self.input_mpps.is_some();
        if both {
            return Err(ParameterError::new(
                "input_mpps",
                "either this or input_gbps, not both",
            ));
        }
        let has_rate = self.input_gbps.is_some() || self.input_mpps.is_some();
        if self.capture.is_some() && has_rate {
            return Err(ParameterError::new(
                "capture",
                "a capture has its own rate: time_scale changes it, input_gbps and input_mpps do not",
            ));
        }
        if self.flow_model == FlowModel::Open {
            if self.flow_sizes.is_none() {
                return Err(ParameterError::new(
                    "flow_sizes",
                    "missing: the open model needs it",
                ));
            }
            if self.flow_sizes.is_some() && self.flow_size_unit != SizeUnit::Packets {
                return Err(ParameterError::new(
                    "flow_size_unit",
                    "the open model counts packets",
                ));
            }
        }
        Ok(())
    }

    /// Checks that a rate is given where one is needed: when all of a point's parameters are known.
    pub(crate) fn check_complete(&self) -> Result<(), ParameterError> {
        let has_rate = self.input_gbps.is_some() || self.input_mpps.is_some();
        match has_rate || self.capture.is_some() {
            true => Ok(()),
            false => Err(ParameterError::new(
                "input_gbps",
                "missing: how fast packets come (or input_mpps, or a capture)",
            )),
        }
    }

    pub(crate) fn end(&self) -> Time {
        self.duration_ms
            .map_or(Time(u64::MAX), |ms| Time::from_us_f64(ms * 1e3))
    }

    pub(crate) fn fixed_frame_bytes(&self) -> Result<usize, ParameterError> {
        match self.frame_bytes {
            FrameBytes::Fixed(bytes) => Ok(bytes.into()),
            FrameBytes::Named(_) => Err(ParameterError::new(
                "frame_bytes",
                "the open model needs one length",
            )),
        }
    }

    fn packet_size(&self) -> PacketSize {
        match &self.frame_bytes {
            FrameBytes::Fixed(frame_bytes) => PacketSize::Fixed {
                frame_bytes: *frame_bytes,
            },
            FrameBytes::Named(name) if name.as_os_str() == "imix" => PacketSize::Imix {},
            FrameBytes::Named(file) => PacketSize::Cdf {
                file: file.clone(),
                partial: false,
            },
        }
    }

    /// The mean length of frames, in bytes.
    fn mean_bytes(&self) -> Result<f64, ParameterError> {
        Ok(match self.packet_size() {
            PacketSize::Fixed { frame_bytes } => frame_bytes.into(),
            PacketSize::Imix {} => (7.0 * 64.0 + 4.0 * 594.0 + 1514.0) / 12.0,
            PacketSize::Cdf { file, partial } => {
                let sizes = Cdf::read(&file, SizeUnit::Bytes, partial);
                sizes.map_err(|error| named(&error, "frame_bytes"))?.mean()
            }
            PacketSize::Mix { .. } => 0.0,
        })
    }

    /// Packets a second, on a wire where each takes so many bytes more than it has.
    ///
    /// # Errors
    /// A distribution file that cannot be read.
    pub fn packets_per_s(&self, wire_bytes: f64) -> Result<f64, ParameterError> {
        if let Some(mpps) = self.input_mpps {
            return Ok(mpps * 1e6);
        }
        let gbps = self.input_gbps.unwrap_or(1.0);
        Ok(gbps * 1e9 / 8.0 / (self.mean_bytes()? + wire_bytes))
    }

    /// The generator's configuration, with what the plan says of it.
    ///
    /// # Errors
    /// A distribution file that cannot be read, or frames of a length that there is not.
    pub(crate) fn generator(&self, wire_bytes: f64) -> Result<TrafficConfig, ParameterError> {
        let packets_per_s = self.packets_per_s(wire_bytes)?;
        let mut config = self.generator_at(packets_per_s)?;
        let is_of_sizes = self.flow_sizes.is_some() && self.flow_model == FlowModel::Closed;
        if is_of_sizes && self.input_mpps.is_none() {
            // Flows begin and end with packets that are shorter than others.
            let (meant, found) = (self.mean_bytes()?, self.sampled_bytes(&config)?);
            let more = (meant + wire_bytes) / (found + wire_bytes);
            config.arrivals = self.arrivals(packets_per_s * more);
        }
        Ok(config)
    }

    /// The mean length of the first frames that a generator makes, in bytes.
    fn sampled_bytes(&self, config: &TrafficConfig) -> Result<f64, ParameterError> {
        // The flows of the start all begin at once, so a few packets would not tell.
        const SAMPLE: u64 = 1_000_000;
        let generator = Generator::new(config, self.seed);
        let mut generator = generator.map_err(|error| misfit_of_traffic(&error))?;
        let mut buffer = vec![0; generator.frame_bytes_max()];
        let (mut frames, mut bytes) = (0.0, 0.0);
        for _ in 0..self.packets.min(SAMPLE) {
            let Some(generated) = generator.next_into(&mut buffer) else {
                break;
            };
            frames += 1.0;
            bytes += generated.len as f64;
        }
        Ok(bytes / f64::max(frames, 1.0))
    }

    fn generator_at(&self, packets_per_s: f64) -> Result<TrafficConfig, ParameterError> {
        Ok(TrafficConfig {
            arrivals: self.arrivals(packets_per_s),
            flows: self.flows,
            popularity: self.popularity(),
            churn_per_minute: self.churn_per_minute / SLOWER,
            flow_size: self.flow_size(),
            packet_size: self.packet_size(),
            server_packets: false,
            ..TrafficConfig::default()
        })
    }

    fn arrivals(&self, packets_per_s: f64) -> Arrivals {
        let rate_pps = packets_per_s / SLOWER;
        match self.arrivals {
            ArrivalsName::Constant => Arrivals::Constant { rate_pps },
            ArrivalsName::Poisson => Arrivals::Poisson { rate_pps },
            ArrivalsName::Bursty => Arrivals::OnOff {
                rate_pps,
                on_ns: self.burst_us * 1e3 * SLOWER,
                off_ns: self.silence_us * 1e3 * SLOWER,
            },
        }
    }

    pub(crate) fn popularity(&self) -> Popularity {
        match self.zipf > 0.0 {
            false => Popularity::Uniform {},
            true => Popularity::Zipf {
                exponent: self.zipf,
            },
        }
    }

    fn flow_size(&self) -> FlowSize {
        match &self.flow_sizes {
            None => FlowSize::Endless {},
            Some(file) => FlowSize::Cdf {
                file: file.clone(),
                unit: self.flow_size_unit,
                between: self.flow_sizes_between,
                partial: false,
            },
        }
    }

    pub(crate) fn open_config(&self) -> Result<OpenConfig, ParameterError> {
        let file = self.flow_sizes.as_deref().unwrap_or(Path::new(""));
        let sizes = Cdf::read(file, SizeUnit::Packets, false);
        let sizes = sizes.map_err(|error| named(&error, "flow_sizes"))?;
        Ok(OpenConfig {
            packets_per_s: self.packets_per_s(super::frames::WIRE_BYTES)?,
            sizes: sizes.with(self.flow_sizes_between),
            flow_pps: self.flow_pps,
            spread: self.flow_spread,
            history_s: self.history_s,
            pauses: Pauses {
                share: self.pause_share,
                mean_s: self.pause_ms / 1e3,
            },
        })
    }
}

/// An error of the generator, with the parameter that it is about.
pub fn misfit_of_traffic(error: &TrafficError) -> ParameterError {
    let of_field = |field: &str| {
        let known = [
            ("arrivals.rate", "input_gbps"),
            ("arrivals.on", "burst_us"),
            ("arrivals.off", "silence_us"),
            ("flows", "flows"),
            ("popularity", "zipf"),
            ("churn", "churn_per_minute"),
            ("packet_size", "frame_bytes"),
            ("mtu", "frame_bytes"),
            ("flow_size", "flow_sizes"),
            ("hosts.clients", "flows"),
            ("tcp.out_of_order", "complex_share"),
            ("signatures", "complex_share"),
            ("kv.keys", "flows"),
        ];
        let found = known.iter().find(|(start, _)| field.starts_with(start));
        found.map(|(_, parameter)| *parameter)
    };
    let parameter = match error {
        TrafficError::OutOfRange { field, .. }
        | TrafficError::Empty { field }
        | TrafficError::Contradiction { field, .. }
        | TrafficError::Refused { field, .. } => of_field(field),
        TrafficError::CdfRead { .. } | TrafficError::CdfSyntax { .. } => Some("flow_sizes"),
        _ => None,
    };
    ParameterError {
        field: parameter.map(Into::into),
        message: with_cause(error),
    }
}

fn named(error: &TrafficError, field: &'static str) -> ParameterError {
    ParameterError::new(field, with_cause(error))
}

/// The message, and what the system said beneath it.
fn with_cause(error: &TrafficError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
