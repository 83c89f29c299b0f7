//! The verdict: whether a service can run, and what of it on which path.

use super::{DeviceFit, FunctionPlace};
use serde::Serialize;
use std::fmt::{self, Display, Formatter};
use twinpath_control::report::units;
use twinpath_control::service::{Paths, Service};
use twinpath_nf::dash;

/// What a reader wants to know first.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    #[serde(skip)]
    service: String,
    /// Whether the service can run as its file says.
    pub can_run: bool,
    /// The device that it is for.
    device: &'static str,
    /// The limit of the device that flow state exceeds, so that none fits.
    refusal: Option<String>,
    /// Functions whose packets both paths handle.
    both_paths: Vec<String>,
    /// Functions whose packets the slow path handles alone.
    slow_path_alone: Vec<String>,
    #[serde(skip)]
    why: Why,
}

/// Why it can run, or cannot.
#[derive(Debug, PartialEq, Eq)]
enum Why {
    /// There is a fast path, which asks nothing of the device.
    NoFlowState,
    /// It is a DPU, with a table of its own for at most so many flows.
    Dpu(usize),
    /// All flow state has room.
    Fits,
    /// Some has.
    FitsInPart(Vec<String>),
    /// None has, but another device would have room.
    FitsElsewhere(&'static str),
    /// No device has room.
    FitsNowhere,
    /// The file leaves the fast path out.
    SlowPathAlone,
}

impl Verdict {
    /// What follows for a service from where its functions run and which devices it fits.
    pub fn of(service: &Service, places: &[FunctionPlace], devices: &[DeviceFit]) -> Self {
        let why = Why::of(service, devices);
        let chosen = devices.iter().find(|device| device.is_chosen);
        let refusal = chosen.and_then(|device| device.refusal.clone());
        let can_run = why.can_run();
        let named = |is_slow: bool| {
            let places = places.iter().filter(|_| can_run);
            let places = places.filter(|place| (place.place == "slow_path") == is_slow);
            places.map(|place| place.name.clone()).collect()
        };
        Self {
            service: service.name.clone(),
            can_run,
            device: super::device_name(service),
            refusal,
            both_paths: named(false),
            slow_path_alone: named(true),
            why,
        }
    }
}

impl Why {
    fn of(service: &Service, devices: &[DeviceFit]) -> Self {
        let chosen = devices.iter().find(|device| device.is_chosen);
        let other = devices.iter().find(|device| device.refusal.is_none());
        match (service.run.paths, chosen, other) {
            (Paths::Slow, ..) => Self::SlowPathAlone,
            (_, None, _) => dpu_flows(service).map_or(Self::NoFlowState, Self::Dpu),
            (_, Some(chosen), _) if chosen.refusal.is_none() => match &chosen.without_room[..] {
                [] => Self::Fits,
                names => Self::FitsInPart(names.to_vec()),
            },
            (_, _, Some(other)) => Self::FitsElsewhere(other.device),
            (_, _, None) => Self::FitsNowhere,
        }
    }

    const fn can_run(&self) -> bool {
        !matches!(self, Self::FitsElsewhere(_) | Self::FitsNowhere)
    }
}

impl Display for Verdict {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (service, device) = (&self.service, self.device);
        let can = if self.can_run { "can" } else { "cannot" };
        write!(f, "{service} {can} run: ")?;
        match &self.why {
            Why::NoFlowState => {
                writeln!(f, "it has no flow state that a device must have room for")?
            }
            Why::Dpu(flows) => {
                let flows = units::counted(*flows as u64, "flow");
                writeln!(f, "it is a DPU, with room for {flows}")?;
            }
            Why::Fits => writeln!(f, "it fits its device ({device})")?,
            Why::FitsInPart(names) => {
                let names = names.join(", ");
                writeln!(
                    f,
                    "it fits its device ({device}), but for the flow state of {names}"
                )?;
            }
            Why::SlowPathAlone => writeln!(
                f,
                "everything runs on the slow path, since the file has paths = \"slow\""
            )?,
            Why::FitsElsewhere(_) | Why::FitsNowhere => self.refused(f)?,
        }
        functions(f, "both paths", &self.both_paths)?;
        functions(f, "slow path alone", &self.slow_path_alone)
    }
}

impl Verdict {
    /// Why it does not fit, and what could be changed.
    fn refused(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let refusal = self.refusal.as_deref().unwrap_or("no room");
        writeln!(f, "it does not fit its device ({}): {refusal}", self.device)?;
        if let Why::FitsElsewhere(other) = self.why {
            writeln!(f, "  it could with device = \"{other}\" in [fast_path]")?;
        }
        writeln!(
            f,
            "  it could on the slow path alone: paths = \"slow\" in [run]"
        )
    }
}

/// How many flows a DPU has room for, if the service is one.
fn dpu_flows(service: &Service) -> Option<usize> {
    let mut instances = service.chain.iter();
    let config = instances.find_map(|instance| instance.config.of::<dash::Config>())?;
    Some(config.settings().flows)
}

fn functions(f: &mut Formatter<'_>, place: &str, names: &[String]) -> fmt::Result {
    match names {
        [] => Ok(()),
        names => writeln!(f, "  {:<16} {}", format!("{place}:"), names.join(", ")),
    }
}
