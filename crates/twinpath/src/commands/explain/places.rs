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

/// Whether an element may have its packets on the fast path.
enum Admitted<'a> {
    /// It may.
    Yes,
    /// The device has no room for it.
    NoRoom,
    /// A function of it wants all packets on the slow path.
    Wanted(&'a Instance),
}

impl<'a> Admitted<'a> {
    fn of(instances: &'a [Instance], has_room: bool) -> Self {
        let mut wanting = instances.iter();
        match wanting.find(|one| one.config.is_for_slow_path()) {
            Some(one) => Self::Wanted(one),
            None if has_room => Self::Yes,
            None => Self::NoRoom,
        }
    }
}

/// The functions of a service, in the chain's order.
pub fn places(service: &Service) -> Vec<FunctionPlace> {
    let room = wiring::place(service, &wiring::budget(service));
    let room = room.map_or_else(|_| Vec::new(), |room| room.has_room);
    // Where there is no room for anything, that is told with the device.
    let room = room.into_iter().chain(std::iter::repeat(true));
    let elements = wiring::elements(service).zip(room);
    elements
        .flat_map(|(instances, has_room)| {
            let place = move |instance| {
                let admitted = Admitted::of(instances, has_room);
                FunctionPlace::of(instance, service, &admitted)
            };
            instances.iter().map(place)
        })
        .collect()
}

impl FunctionPlace {
    fn of(instance: &Instance, service: &Service, admitted: &Admitted<'_>) -> Self {
        let function = instance.config.descriptor();
        let placement = instance.config.placement().to_owned();
        let slow_path = |why: &str| ("slow_path", why.to_owned());
        let (place, why) = match (instance.form(), service.run.paths) {
            (_, Paths::Slow) => slow_path("the service has paths = \"slow\""),
            (Form::Dash, _) => ("flows", placement),
            (Form::Rules, _) if !service.rule_cache.enabled => {
                slow_path("[rule_cache] has enabled = false")
            }
            (Form::Rules, _) => ("rules", placement),
            (Form::Flow, _) => match admitted {
                Admitted::Yes => ("shared", placement),
                Admitted::NoRoom => {
                    slow_path("the device has no room for its flow state beside that of others")
                }
                Admitted::Wanted(one) if one.name == instance.name => ("slow_path", placement),
                Admitted::Wanted(one) => slow_path(&format!(
                    "it shares flow state with {}, which wants all packets on the slow path",
                    one.name
                )),
            },
        };
        Self {
            name: instance.name.to_string(),
            function: function.name,
            place,
            why,
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
