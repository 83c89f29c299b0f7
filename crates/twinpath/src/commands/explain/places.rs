//! What runs where: a line for each function.

use serde::Serialize;
use std::fmt::{self, Display, Formatter};
use twinpath_control::service::{Instance, Paths, Service};
use twinpath_nf::descriptor::Form;
use twinpath_node::wiring;

/// Where a function's decisions are taken.
#[derive(Serialize)]
pub struct FunctionPlace {
    pub name: String,
    /// What it is.
    function: &'static str,
    pub place: &'static str,
    why: String,
}

/// The functions of a service, in the chain's order.
pub fn places(service: &Service) -> Vec<FunctionPlace> {
    let room = wiring::place(service, &wiring::budget(service));
    let room = room.map_or_else(|_| Vec::new(), |room| room.has_room);
    let elements = wiring::elements(service).zip(room);
    let has_room: Vec<bool> = elements
        .flat_map(|(instances, has_room)| instances.iter().map(move |_| has_room))
        .collect();
    // Where there is no room for anything, that is told with the device.
    let functions = service.chain.iter();
    let functions = functions.zip(has_room.into_iter().chain(std::iter::repeat(true)));
    functions
        .map(|(instance, has_room)| FunctionPlace::of(instance, service, has_room))
        .collect()
}

impl FunctionPlace {
    fn of(instance: &Instance, service: &Service, has_room: bool) -> Self {
        let function = instance.config.descriptor();
        let (place, why) = match (instance.form(), service.run.paths) {
            (_, Paths::Slow) => ("slow_path", "the service has paths = \"slow\""),
            (Form::Dash, _) => ("flows", instance.config.placement()),
            (Form::Rules, _) if !service.rule_cache.enabled => {
                ("slow_path", "[rule_cache] has enabled = false")
            }
            (Form::Rules, _) => ("rules", instance.config.placement()),
            (Form::Flow, _) if !has_room => (
                "slow_path",
                "the device has no room for its flow state beside that of others",
            ),
            (Form::Flow, _) => ("shared", instance.config.placement()),
        };
        Self {
            name: instance.name.to_string(),
            function: function.name,
            place,
            why: why.into(),
        }
    }
}

impl FunctionPlace {
    /// Its name, and what it is where the name does not say it.
    fn told_name(&self) -> String {
        match self.name == self.function {
            true => self.name.clone(),
            false => format!("{} ({})", self.name, self.function),
        }
    }
}

impl Display for FunctionPlace {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (name, why) = (self.told_name(), &self.why);
        let place = match self.place {
            "rules" => "cached as rules",
            "shared" => "shares flow state",
            "flows" => "kept as flows",
            _ => "on the slow path",
        };
        write!(f, "  {name:<14} {place:<18} {why}")
    }
}
