//! `[parking]`: payloads that wait in a queue of the switch while the workers see headers.

use super::sections::{count, positive};
use super::{Instance, Misplaced, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use toml::Spanned;
use twinpath_nf::duration::Human;
use twinpath_parking as parking;
use twinpath_parking::{Correction, Order, PortConfig, Small, Variant};

/// Most bytes of the queue.
const MOST_BYTES: u64 = 1 << 30;
/// Most payloads that wait.
const MOST_PARKED: u64 = 1 << 16;
/// Most copies of a packet.
const MOST_COPIES: u64 = 1 << 16;

/// `[parking]`
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Parking {
    /// How the queue is kept long enough, and whether flows keep their order.
    pub mode: Mode,
    /// Bytes that the queue holds. With `overflow = "send_whole"` whole packets that must wait for
    /// others of their flow take as much again at most, and are dropped then (`parking_full`), unless
    /// nothing may be lost, as in a replay.
    #[serde(deserialize_with = "count::<_, MOST_BYTES>")]
    #[schemars(range(min = 1, max = MOST_BYTES))]
    pub limit_bytes: usize,
    /// Payloads that may wait for their headers at a time.
    #[serde(deserialize_with = "count::<_, MOST_PARKED>")]
    #[schemars(range(min = 1, max = MOST_PARKED))]
    pub slots: usize,
    /// Rate of the port that the queue belongs to, in bits a second.
    #[serde(deserialize_with = "positive")]
    #[schemars(range(min = 1))]
    pub port_bps: u64,
    /// A packet with less payload goes to the slow path whole.
    pub least_payload_bytes: u32,
    /// How long a payload waits for its header, each time that the workers have it.
    pub header_timeout: Human,
    /// What becomes of a packet whose payload finds no room.
    pub overflow: Overflow,
    /// Whether a packet makes one more pass when its header is back, as on a switch that cannot
    /// change a packet's port after it has left a queue.
    pub port_pass: bool,
    /// The controller that fills the queue with copies; for `mode = "multicast"` alone.
    pub multicast: Option<Multicast>,
}

/// How the queue is kept long enough (TurboSwitch §III).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// What has no header yet goes round again; a flow's packets may overtake each other.
    Recirculate,
    /// The same, and flows keep their order.
    #[default]
    RecirculateOrdered,
    /// A controller fills the queue with copies; flows keep their order.
    Multicast,
}

/// What becomes of a packet whose payload finds no room.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// It goes to the slow path whole.
    #[default]
    SendWhole,
    /// It is dropped, unless flow state travels with it.
    Drop,
}

/// What becomes of a payload whose header is not back when it comes out of a queue with copies.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Late {
    /// It goes round.
    #[default]
    Again,
    /// It is given up: an ordinary output port cannot hold it.
    Discard,
}

/// The controller that fills the queue with copies (TurboSwitch §III-B).
#[derive(Copy, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Multicast {
    /// Where the queue is held; if absent, at what the port sends in the latency that the workers
    /// show.
    pub target_bytes: Option<u64>,
    /// The share of headers that are to be back in time, without a target.
    pub quantile: f64,
    /// Added to the length that the latency asks for, in bytes.
    pub margin_bytes: u64,
    /// The length until the first headers have come back, in bytes.
    pub first_bytes: u64,
    /// Which part of the distance to the target one packet makes up for.
    pub gain: f64,
    /// Copies of one packet, at most.
    #[serde(deserialize_with = "count::<_, MOST_COPIES>")]
    #[schemars(range(min = 1, max = MOST_COPIES))]
    pub most_copies: usize,
    /// How often the controller reads the queue.
    pub reading_interval: Human,
    /// What becomes of a payload whose header is not back when it comes out.
    pub late: Late,
}

impl Default for Parking {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            // TurboSwitch §IV: the buffer of the switch, and its ports.
            limit_bytes: 850_000,
            slots: 16_384,
            port_bps: 100_000_000_000,
            least_payload_bytes: 64,
            header_timeout: Human(Duration::from_millis(50)),
            overflow: Overflow::default(),
            port_pass: false,
            multicast: None,
        }
    }
}

impl Default for Multicast {
    fn default() -> Self {
        Self {
            target_bytes: None,
            quantile: 0.999,
            margin_bytes: 10_000,
            first_bytes: 250_000,
            gain: 1.0,
            most_copies: 4096,
            reading_interval: Human(Duration::from_micros(1)),
            late: Late::default(),
        }
    }
}

impl Parking {
    /// The queue, as its mechanism wants it.
    pub fn queue(&self) -> parking::Config {
        parking::Config {
            variant: match self.mode {
                Mode::Recirculate | Mode::RecirculateOrdered => Variant::Recirculation,
                Mode::Multicast => Variant::Multicast(self.controller()),
            },
            order: match self.mode {
                Mode::Recirculate => Order::None,
                Mode::RecirculateOrdered | Mode::Multicast => Order::AsReturned,
            },
            small: Small::Bypass,
            least_payload_bytes: self.least_payload_bytes,
            slow_path_chooses_port: self.port_pass,
            limit_bytes: self.limit_bytes as u64,
            slots: self.slots as u32,
            header_timeout: self.header_timeout.duration(),
        }
    }

    /// Its port.
    pub fn port(&self) -> PortConfig {
        PortConfig {
            rate_bps: self.port_bps,
            reading_interval: self.multicast().reading_interval.duration(),
            drops_overflow: self.overflow == Overflow::Drop,
        }
    }

    fn multicast(&self) -> Multicast {
        self.multicast.unwrap_or_default()
    }

    fn controller(&self) -> parking::Multicast {
        let multicast = self.multicast();
        parking::Multicast {
            target: match multicast.target_bytes {
                Some(bytes) => parking::Target::Fixed { bytes },
                None => parking::Target::Follow {
                    quantile: multicast.quantile,
                    margin_bytes: multicast.margin_bytes,
                    first_bytes: multicast.first_bytes,
                },
            },
            gain: multicast.gain,
            correction: Correction::Exact,
            drain_bps: self.port_bps,
            most_copies: multicast.most_copies as u32,
            late: match multicast.late {
                Late::Again => parking::Late::Again,
                Late::Discard => parking::Late::Discard,
            },
        }
    }

    fn check(&self) -> Result<(), String> {
        if self.multicast.is_some() && self.mode != Mode::Multicast {
            return Err("[parking.multicast] is for mode = \"multicast\"".into());
        }
        if self.header_timeout.duration().is_zero() {
            return Err("header_timeout = \"0s\": expected more than no time, in which no header comes back".into());
        }
        if self.multicast().reading_interval.duration().is_zero() {
            return Err("multicast.reading_interval = \"0s\": expected more than no time".into());
        }
        if self.least_payload_bytes as usize > self.limit_bytes {
            return Err(format!(
                "least_payload_bytes = {}: expected at most limit_bytes, which is {}, or no payload is ever parked",
                self.least_payload_bytes, self.limit_bytes
            ));
        }
        self.queue().check().map_err(|error| error.to_string())
    }
}

const _: () = assert!(
    super::MAX_CHAIN <= twinpath_core::split::MOST_HOPS as usize,
    "a packet whose time to live ends within a chain is not parked"
);

/// Checks the table, and that all functions do without payloads.
pub(super) fn checked(
    written: Option<Spanned<Parking>>,
    functions: &[Instance],
    names: &[Spanned<String>],
) -> Result<Option<Parking>, Misplaced> {
    let Some(written) = written else {
        return Ok(None);
    };
    for (function, name) in functions.iter().zip(names) {
        if let Some(why) = function.config.needs_payload() {
            let message = format!(
                "{} {why}, so no payload can wait while this chain's headers are on the slow path: expected a chain of functions that do without payloads, or no [parking]",
                function.name
            );
            return Err((name.span(), message));
        }
        if let Some(longest) = function.config.longest_hold() {
            let message = format!(
                "{} holds packets for up to {longest:?}, and a payload that is parked waits in a switch's queue, which stands still for none: expected a chain of functions that hold none, [split], or no [parking]",
                function.name
            );
            return Err((name.span(), message));
        }
    }
    let checked = written.get_ref().check();
    checked.map_err(|message| (written.span(), message))?;
    Ok(Some(written.into_inner()))
}

impl Service {
    /// Frames that may be parked, with a header each on its way.
    pub fn parked_frames(&self) -> usize {
        self.parking.as_ref().map_or(0, |parking| parking.slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn parse(text: &str) -> Result<Service, String> {
        let parsed = Service::parse(text, Path::new("folder/edge.toml"));
        parsed.map_err(|error| error.to_string())
    }

    const FIREWALL: &str =
        "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n[parking]\n";

    #[test]
    fn an_empty_table_has_defaults() {
        let service = parse(FIREWALL).expect("valid");
        assert_eq!(service.parking, Some(Parking::default()));
        assert_eq!(service.parked_frames(), 16_384);
        let none = parse("[service]\nchain = [\"reassembler\"]\n").expect("valid");
        assert_eq!(none.parking, None);
    }

    #[test]
    fn who_reads_payloads_is_named_with_its_place() {
        let refusal = parse("[service]\nchain = [\"reassembler\"]\n[parking]\n").expect_err("no");
        let start =
            "folder/edge.toml:2:10: reassembler puts payloads in order, so no payload can wait";
        assert!(refusal.starts_with(start), "{refusal}");
    }

    #[test]
    fn who_holds_packets_is_named_with_its_place() {
        let text = |excess: &str| {
            format!(
                "[service]\nchain = [\"rate_limiter\"]\n[rate_limiter]\nrate_pps = 1000\nexcess = \"{excess}\"\n[parking]\n"
            )
        };
        assert!(parse(&text("drop")).is_ok());
        let refusal = parse(&text("delay")).expect_err("no");
        let start = "folder/edge.toml:2:10: rate_limiter holds packets for up to 100ms, and";
        assert!(refusal.starts_with(start), "{refusal}");
    }

    #[test]
    fn a_router_that_quotes_payloads_is_told_what_to_do() {
        let router = |more: &str| {
            parse(&format!(
                "[service]\nchain = [\"router\"]\n[parking]\n[router]\nnext_hops = [{{ name = \"a\", mac = \"02:00:00:00:01:01\", source_mac = \"02:00:00:00:00:01\", port = 1 }}]\n{more}"
            ))
        };
        let address = "address = \"10.0.0.1\"\n";
        let route = |to: &str| format!("{address}routes = [{{ to = \"{to}\", via = \"a\" }}]\n");
        assert!(router(&route("0.0.0.0/0")).is_ok());
        assert!(router(&format!("{address}no_route = \"drop\"\n")).is_ok());
        let refusal = router(&route("10.0.0.0/8")).expect_err("no");
        assert!(refusal.contains("no_route = \"drop\""), "{refusal}");
    }

    #[test]
    fn wrong_values_are_told_with_their_place() {
        let refusal = |more: &str| parse(&format!("{FIREWALL}{more}")).expect_err("wrong");
        let mode = refusal("mode = \"round\"\n");
        assert!(
            mode.starts_with("folder/edge.toml:6:8: unknown variant `round`, expected one of"),
            "{mode}"
        );
        let rate = refusal("port_bps = 0\n");
        assert!(rate.starts_with("folder/edge.toml:6:12:"), "{rate}");
        let target = refusal("mode = \"multicast\"\nmulticast = { target_bytes = 900000 }\n");
        assert!(
            target.starts_with("folder/edge.toml:5:1: the target must be below the queue's limit"),
            "{target}"
        );
        for (more, start) in [
            (
                "header_timeout = \"0s\"\n",
                "header_timeout = \"0s\": expected",
            ),
            (
                "mode = \"multicast\"\nmulticast = { reading_interval = \"0s\" }\n",
                "multicast.reading_interval = \"0s\": expected",
            ),
            (
                "least_payload_bytes = 101\nlimit_bytes = 100\n",
                "least_payload_bytes = 101: expected at most limit_bytes, which is 100",
            ),
        ] {
            let told = refusal(more);
            assert!(
                told.starts_with(&format!("folder/edge.toml:5:1: {start}")),
                "{told}"
            );
        }
        let idle = refusal("multicast = { gain = 0.5 }\n");
        assert!(idle.contains("is for mode = \"multicast\""), "{idle}");
    }
}
