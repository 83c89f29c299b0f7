//! What an operator chooses. A [`Config`] that [`Config::check`] accepts can be built.

use std::time::Duration;

/// Most slots of one buffer.
pub const MAX_SLOTS: u32 = 1 << 20;
/// Most partitions of one buffer.
pub const MAX_PARTITIONS: u32 = 1 << 16;
/// Longest window of one partition, in packets.
pub const MAX_WINDOW: u32 = 1 << 16;

/// One parking queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// How the queue is kept long enough.
    pub variant: Variant,
    /// Whether packets of a flow keep their order.
    pub order: Order,
    /// What becomes of packets too small to be split.
    pub small: Small,
    /// A packet with less payload than this is small, in bytes.
    pub least_payload_bytes: u32,
    /// Whether the workers choose the port. A switch that cannot change a packet's port after it has
    /// left a queue sends the joined packet through it once more (TurboSwitch §III-C).
    pub slow_path_chooses_port: bool,
    /// Bytes the queue may hold, payloads on their way round included.
    pub limit_bytes: u64,
    /// Payloads that may be parked at a time.
    pub slots: u32,
    /// How long a payload waits for its header each time that the workers have it.
    pub header_timeout: Duration,
}

/// How the queue is kept long enough.
#[derive(Clone, Debug, PartialEq)]
pub enum Variant {
    /// What has no header yet goes round again (TurboSwitch §III-A).
    Recirculation,
    /// A controller fills the queue with copies (TurboSwitch §III-B).
    Multicast(Multicast),
}

/// Whether packets keep their order.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// A packet leaves as soon as it can.
    None,
    /// Packets of a flow leave in the order in which they came.
    ByFlow {
        /// Flows are hashed to so many pairs of counters.
        partitions: u32,
        /// Packets of one partition under way at a time, at most.
        window: u32,
    },
    /// Packets of a flow leave in the order in which their headers came back: a number is given to
    /// a header when it is back, and to a whole packet that must not overtake it
    /// ([`PayloadBuffer::wait_behind`](crate::PayloadBuffer::wait_behind)). A header that never comes
    /// back holds nobody up.
    AsReturned,
}

/// What becomes of packets too small to be split.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Small {
    /// The whole packet goes to the slow path, and an empty payload waits in its stead, so that order is kept.
    Token,
    /// The whole packet goes to the slow path and leaves when it is back: it may overtake.
    Bypass,
}

/// The controller's parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Multicast {
    /// Where the queue is to be held.
    pub target: Target,
    /// Which part of the distance to the target one packet makes up for, above 0.
    pub gain: f64,
    /// What is made of a reading that is old.
    pub correction: Correction,
    /// Rate of the port that drains the queue, in bits a second.
    pub drain_bps: u64,
    /// Copies of one packet, at most: what the multicast engine can do.
    pub most_copies: u32,
    /// What becomes of a payload whose header is not back when it comes out.
    pub late: Late,
}

/// Where the queue is to be held.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Target {
    /// At a length that somebody worked out.
    Fixed {
        /// That length.
        bytes: u64,
    },
    /// At what the port sends in the latency that the workers show.
    Follow {
        /// The share of headers that must be back in time, below 1.
        quantile: f64,
        /// Added to the length, in bytes.
        margin_bytes: u64,
        /// The length until headers have come back.
        first_bytes: u64,
    },
}

/// What is made of a reading of the queue that is old.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Correction {
    /// What has joined since is added, what the port sent since is taken off.
    Exact,
    /// It is taken as it is.
    None,
}

/// What becomes of a payload whose header is not back when it comes out of a multicast queue.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Late {
    /// It is given up: an ordinary output port cannot hold it.
    Discard,
    /// It goes to the tail again: the port is in loopback mode.
    Again,
}

/// Why a configuration cannot be built.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// `slots`.
    #[error("slots must be 1 to {MAX_SLOTS}")]
    Slots,
    /// `partitions` or `window`.
    #[error("partitions must be 1 to {MAX_PARTITIONS}, and the window 1 to {MAX_WINDOW}")]
    Partitions,
    /// `small` and `order`.
    #[error("packets that bypass the queue may overtake; ordered parking needs small = token")]
    BypassUnordered,
    /// `gain`.
    #[error("the gain must be above 0 and at most 1")]
    Gain,
    /// `quantile`.
    #[error("the quantile must be above 0 and below 1")]
    Quantile,
    /// `target`.
    #[error("the target must be below the queue's limit")]
    Target,
    /// `drain_bps`.
    #[error("the draining port needs a rate")]
    Drain,
    /// `slow_path_chooses_port` and `late`.
    #[error("one more pass to another port needs a port in loopback mode: late = again")]
    PassNeedsLoopback,
}

impl Default for Config {
    /// Recirculation without order in 850 kB, the buffer of TurboSwitch §IV.
    fn default() -> Self {
        Self {
            variant: Variant::Recirculation,
            order: Order::None,
            small: Small::Token,
            least_payload_bytes: 64,
            slow_path_chooses_port: false,
            limit_bytes: 850_000,
            slots: 1 << 14,
            header_timeout: Duration::from_millis(1),
        }
    }
}

impl Config {
    /// Whether this can be built.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        require((1..=MAX_SLOTS).contains(&self.slots), ConfigError::Slots)?;
        self.check_order()?;
        match &self.variant {
            Variant::Recirculation => Ok(()),
            Variant::Multicast(multicast) => self.check_multicast(multicast),
        }
    }

    fn check_order(&self) -> Result<(), ConfigError> {
        let (partitions, window) = match self.order {
            Order::None | Order::AsReturned => return Ok(()),
            Order::ByFlow { partitions, window } => (partitions, window),
        };
        let partitions_fit = (1..=MAX_PARTITIONS).contains(&partitions);
        let window_fits = (1..=MAX_WINDOW).contains(&window);
        require(partitions_fit && window_fits, ConfigError::Partitions)?;
        require(self.small == Small::Token, ConfigError::BypassUnordered)
    }

    fn check_multicast(&self, multicast: &Multicast) -> Result<(), ConfigError> {
        let (gain, late) = (multicast.gain, multicast.late);
        require(gain > 0.0 && gain <= 1.0, ConfigError::Gain)?;
        require(multicast.drain_bps > 0, ConfigError::Drain)?;
        require(
            late == Late::Again || !self.slow_path_chooses_port,
            ConfigError::PassNeedsLoopback,
        )?;
        match multicast.target {
            Target::Fixed { bytes } => require(bytes < self.limit_bytes, ConfigError::Target),
            Target::Follow {
                quantile,
                first_bytes,
                ..
            } => {
                require(quantile > 0.0 && quantile < 1.0, ConfigError::Quantile)?;
                require(first_bytes < self.limit_bytes, ConfigError::Target)
            }
        }
    }
}

fn require(holds: bool, otherwise: ConfigError) -> Result<(), ConfigError> {
    holds.then_some(()).ok_or(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn multicast(change: impl FnOnce(&mut Config, &mut Multicast)) -> Result<(), ConfigError> {
        let mut inner = Multicast {
            target: Target::Fixed { bytes: 250_000 },
            gain: 1.0,
            correction: Correction::Exact,
            drain_bps: 100_000_000_000,
            most_copies: 4096,
            late: Late::Discard,
        };
        let mut config = Config::default();
        change(&mut config, &mut inner);
        config.variant = Variant::Multicast(inner);
        config.check()
    }

    #[test]
    fn each_mistake_has_its_error() {
        assert_eq!(Config::default().check(), Ok(()));
        assert_eq!(multicast(|_, _| ()), Ok(()));
        let wrong = multicast(|_, inner| inner.gain = f64::NAN);
        assert_eq!(wrong, Err(ConfigError::Gain));
        let wrong = multicast(|config, _| config.limit_bytes = 250_000);
        assert_eq!(wrong, Err(ConfigError::Target));
        let wrong = multicast(|config, _| config.slow_path_chooses_port = true);
        assert_eq!(wrong, Err(ConfigError::PassNeedsLoopback));
        let wrong = multicast(|_, inner| inner.drain_bps = 0);
        assert_eq!(wrong, Err(ConfigError::Drain));
        let wrong = multicast(|config, _| config.slots = 0);
        assert_eq!(wrong, Err(ConfigError::Slots));
        let follow = |quantile| Target::Follow {
            quantile,
            margin_bytes: 0,
            first_bytes: 0,
        };
        let wrong = multicast(|_, inner| inner.target = follow(1.0));
        assert_eq!(wrong, Err(ConfigError::Quantile));
    }

    #[test]
    fn order_is_not_promised_to_what_overtakes() {
        let ordered = Order::ByFlow {
            partitions: 1,
            window: 64,
        };
        let config = Config {
            order: ordered,
            small: Small::Bypass,
            ..Config::default()
        };
        assert_eq!(config.check(), Err(ConfigError::BypassUnordered));
    }
}
