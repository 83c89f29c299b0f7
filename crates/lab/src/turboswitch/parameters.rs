//! What a plan can say of the testbed, and what holds if it says nothing.

use crate::model::ParameterError;
use serde::Deserialize;
use std::time::Duration;
use toml::Table;
use twinpath_engine::Rate;
use twinpath_parking::{
    Config, ConfigError, Correction, Late, Multicast, Order, Small, Target, Variant,
};

/// Parameters, each with its source. "Switch model" is the paragraph of that name in TurboSwitch §IV.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Seed of arrivals, sizes and latencies.
    pub seed: u64,
    /// Packets that arrive, those of the warm-up included. Our choice.
    pub packets: u64,
    /// Share of the packets after which measuring begins. Our choice.
    pub warm_up: f64,
    /// How the queue is kept long enough.
    pub variant: VariantName,
    /// Whether packets of a flow keep their order.
    pub ordered: bool,
    /// Flows, which take turns (§IV, on ordering: round robin).
    pub flows: u32,
    /// Pairs of counters; 0 gives each flow its own, as the paper's simulation does.
    pub partitions: u32,
    /// Input rate (§IV: 10 to 90 Gb/s).
    pub input_gbps: f64,
    /// When packets come (Switch model: Poisson).
    pub arrivals: Arrivals,
    /// Rate of the port that drains the queue (Switch model: 100 Gb/s).
    pub loopback_gbps: f64,
    /// One pass of the switch and the loopback link, without the queue. Not given; our assumption: 0.
    pub switch_us: f64,
    /// Bytes the queue may hold (Switch model: 850 kB).
    pub queue_limit_bytes: u64,
    /// How long packets are (Switch model: exponential).
    pub sizes: SizesName,
    /// Their mean (Switch model: 1000 B).
    pub mean_bytes: f64,
    /// The shortest (Switch model: 64 B).
    pub least_bytes: u32,
    /// The longest (Switch model: 1500 B).
    pub most_bytes: u32,
    /// From the header's leaving to its being back (Switch model: 20 us).
    pub cores_us: f64,
    /// How it varies. The paper has it constant.
    pub cores: CoresLatency,
    /// `exponential`: mean of what is added. `steps`: what is added in every other period.
    pub cores_spread_us: f64,
    /// `steps`: how long a period is.
    pub cores_period_us: f64,
    /// Share of headers that the cores lose. The paper has none.
    pub header_loss: f64,
    /// Whether a joined packet goes round once more to reach its port (§III-C).
    pub cores_choose_port: bool,
    /// How long a payload waits for its header. Not given; our assumption.
    pub header_timeout_us: f64,
    /// What the controller of the multicast variant knows.
    pub controller: ControllerName,
    /// Where it holds the queue. Not given; 250 kB is what 20 us at 100 Gb/s are.
    pub target_bytes: u64,
    /// Its gain. Not given; our assumption: 1.
    pub gain: f64,
    /// How often the queue is read. Not given; our assumption: 1 us.
    pub reading_every_us: f64,
    /// How old a reading is when the controller has it (Switch model: 1 us).
    pub reading_delay_us: f64,
    /// Copies of one packet, at most. Not given; our assumption: enough for 64 B packets.
    pub most_copies: u32,
    /// `following`: share of headers that must be in time.
    pub quantile: f64,
    /// `following`: added to the target.
    pub margin_bytes: u64,
    /// What becomes of a payload that comes out of a multicast queue before its header is back.
    pub late: LateName,
}

/// `variant`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VariantName {
    /// §III-A.
    Recirculation,
    /// §III-B.
    Multicast,
}

/// `arrivals`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// At random.
    Poisson,
    /// At even distances.
    Constant,
}

/// `sizes`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SizesName {
    /// Exponentially distributed, clipped.
    Exponential,
    /// All `mean_bytes` long.
    Fixed,
}

/// `cores`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoresLatency {
    /// Always `cores_us`.
    Constant,
    /// With an exponentially distributed part.
    Exponential,
    /// Longer in every other period.
    Steps,
}

/// `controller`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControllerName {
    /// Corrects a reading exactly by what came and went since.
    Exact,
    /// Takes a reading as it is.
    Stale,
    /// As exact, with a target that follows the cores' latency.
    Following,
}

/// `late`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LateName {
    /// Given up.
    Discard,
    /// To the tail again.
    Again,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            seed: 1,
            packets: 200_000,
            warm_up: 0.2,
            variant: VariantName::Recirculation,
            ordered: false,
            flows: 1000,
            partitions: 0,
            input_gbps: 50.0,
            arrivals: Arrivals::Poisson,
            loopback_gbps: 100.0,
            switch_us: 0.0,
            queue_limit_bytes: 850_000,
            sizes: SizesName::Exponential,
            mean_bytes: 1000.0,
            least_bytes: 64,
            most_bytes: 1500,
            cores_us: 20.0,
            cores: CoresLatency::Constant,
            cores_spread_us: 0.0,
            cores_period_us: 200.0,
            header_loss: 0.0,
            cores_choose_port: false,
            header_timeout_us: 10_000.0,
            controller: ControllerName::Exact,
            target_bytes: 250_000,
            gain: 1.0,
            reading_every_us: 1.0,
            reading_delay_us: 1.0,
            most_copies: 1 << 14,
            quantile: 0.999,
            margin_bytes: 0,
            late: LateName::Discard,
        }
    }
}

/// More slots than the smallest packets need to fill 850 kB.
const SLOTS: u32 = 1 << 14;
const WINDOW: u32 = 1 << 13;

impl Parameters {
    pub(crate) fn read(table: &Table) -> Result<Self, ParameterError> {
        let parameters: Self = table.clone().try_into()?;
        parameters.check()?;
        Ok(parameters)
    }

    fn check(&self) -> Result<(), ParameterError> {
        let rates = [
            ("input_gbps", self.input_gbps),
            ("loopback_gbps", self.loopback_gbps),
            ("mean_bytes", self.mean_bytes),
            ("cores_us", self.cores_us),
            ("cores_period_us", self.cores_period_us),
            ("header_timeout_us", self.header_timeout_us),
            ("reading_every_us", self.reading_every_us),
        ];
        rates.into_iter().try_for_each(|(field, value)| {
            let fits = value > 0.0 && value <= 1e6;
            require(fits, field, "must be above 0 and at most a million")
        })?;
        let amounts = [
            ("switch_us", self.switch_us),
            ("cores_spread_us", self.cores_spread_us),
            ("reading_delay_us", self.reading_delay_us),
        ];
        amounts.into_iter().try_for_each(|(field, value)| {
            require(
                (0.0..=1e6).contains(&value),
                field,
                "must be 0 to a million",
            )
        })?;
        let shares = [("warm_up", self.warm_up), ("header_loss", self.header_loss)];
        shares.into_iter().try_for_each(|(field, value)| {
            require(
                (0.0..1.0).contains(&value),
                field,
                "must be at least 0 and below 1",
            )
        })?;
        self.check_counts()?;
        self.config().check().map_err(|error| wrong(&error))
    }

    fn check_counts(&self) -> Result<(), ParameterError> {
        let packets = (10..=1_000_000_000).contains(&self.packets);
        require(packets, "packets", "must be 10 to a thousand million")?;
        require(
            (1..=65_536).contains(&self.flows),
            "flows",
            "must be 1 to 65536",
        )?;
        require(
            self.queue_limit_bytes > 0,
            "queue_limit_bytes",
            "must be above 0",
        )?;
        let sizes = self.least_bytes > 0 && self.least_bytes <= self.most_bytes;
        require(
            sizes,
            "least_bytes",
            "must be above 0 and at most most_bytes",
        )?;
        require(
            self.most_bytes <= 65_535,
            "most_bytes",
            "must be at most 65535",
        )?;
        let limits = f64::from(self.least_bytes)..=f64::from(self.most_bytes);
        require(
            self.sizes == SizesName::Fixed || limits.contains(&self.mean_bytes),
            "mean_bytes",
            "must lie between least_bytes and most_bytes",
        )
    }

    /// The payload buffer of this testbed.
    pub(crate) fn config(&self) -> Config {
        Config {
            variant: self.variant(),
            order: self.order(),
            small: Small::Token,
            slow_path_chooses_port: self.cores_choose_port,
            limit_bytes: self.queue_limit_bytes,
            slots: SLOTS,
            header_timeout: Duration::from_nanos((self.header_timeout_us * 1e3) as u64),
            ..Config::default()
        }
    }

    fn order(&self) -> Order {
        let partitions = match self.partitions {
            0 => self.flows,
            partitions => partitions,
        };
        match self.ordered {
            false => Order::None,
            true => Order::ByFlow {
                partitions,
                window: WINDOW,
            },
        }
    }

    fn variant(&self) -> Variant {
        if self.variant == VariantName::Recirculation {
            return Variant::Recirculation;
        }
        let correction = match self.controller {
            ControllerName::Stale => Correction::None,
            ControllerName::Exact | ControllerName::Following => Correction::Exact,
        };
        Variant::Multicast(Multicast {
            target: self.target(),
            gain: self.gain,
            correction,
            drain_bps: self.loopback().0,
            most_copies: self.most_copies,
            late: match self.late {
                LateName::Discard => Late::Discard,
                LateName::Again => Late::Again,
            },
        })
    }

    fn target(&self) -> Target {
        match self.controller {
            ControllerName::Following => Target::Follow {
                quantile: self.quantile,
                margin_bytes: self.margin_bytes,
                first_bytes: self.target_bytes,
            },
            _ => Target::Fixed {
                bytes: self.target_bytes,
            },
        }
    }

    pub(crate) fn loopback(&self) -> Rate {
        Rate::from_gbps(self.loopback_gbps)
    }

    /// The cores' latency on average.
    pub(crate) fn mean_cores_us(&self) -> f64 {
        match self.cores {
            CoresLatency::Constant => self.cores_us,
            CoresLatency::Exponential => self.cores_us + self.cores_spread_us,
            CoresLatency::Steps => self.cores_us + self.cores_spread_us / 2.0,
        }
    }
}

fn require(holds: bool, field: &'static str, otherwise: &str) -> Result<(), ParameterError> {
    holds
        .then_some(())
        .ok_or_else(|| ParameterError::new(field, otherwise))
}

pub(crate) fn wrong(error: &ConfigError) -> ParameterError {
    let field = match error {
        ConfigError::Slots => "queue_limit_bytes",
        ConfigError::Partitions => "partitions",
        ConfigError::BypassUnordered => "ordered",
        ConfigError::Gain => "gain",
        ConfigError::Quantile => "quantile",
        ConfigError::Target => "target_bytes",
        ConfigError::Drain => "loopback_gbps",
        ConfigError::PassNeedsLoopback => "cores_choose_port",
    };
    ParameterError::new(field, error.to_string())
}
