//! Why what an object refers to is not there.

use std::collections::HashMap;
use twinpath_dash::Files;
use twinpath_dash::config::{Configuration, NOT_THERE, Obstacle, Store};
use twinpath_dash::objects::Key;
use twinpath_nf::similar::similar;

/// For how many names it is looked for what may be meant: each is compared with all that there are.
const MOST_COMPARED: usize = 100;

/// What is known of objects that others refer to and that are not in force.
pub(super) struct Causes<'f> {
    files: &'f Files,
    /// Where something is wrong with an object, as the first error tells it.
    wrong: HashMap<&'f str, (u32, u32)>,
    /// What may be meant by names, as the end of a message.
    meant: HashMap<Key, String>,
}

impl<'f> Causes<'f> {
    /// What the files tell.
    pub fn new(files: &'f Files) -> Self {
        let errors = files.problems.iter();
        let errors = errors.filter(|(_, problem)| !problem.is_remark());
        let mut wrong = HashMap::new();
        for (file, problem) in errors {
            if let Some(object) = problem.object.as_deref() {
                wrong.entry(object).or_insert((*file, problem.line));
            }
        }
        Self {
            files,
            wrong,
            meant: HashMap::new(),
        }
    }

    /// What an obstacle to an object is, with what became of what is missing.
    pub fn message(&mut self, store: &Store, obstacle: &Obstacle) -> String {
        store.told(obstacle, || self.absence(store, &obstacle.by))
    }

    /// Why an object is not there.
    fn absence(&mut self, store: &Store, key: &Key) -> String {
        if let Some(&(file, line)) = self.wrong.get(&*key.to_string()) {
            let path = self.files.paths.get(file as usize);
            let path = path.map_or_else(String::new, |path| path.display().to_string());
            return format!("which has an error ({path}:{line})");
        }
        let meant = self.meant(&store.snapshot().configuration, key);
        format!("{NOT_THERE}{meant}")
    }

    /// The name that may be meant, as the end of a message.
    fn meant(&mut self, configuration: &Configuration, key: &Key) -> String {
        if let Some(meant) = self.meant.get(key) {
            return meant.clone();
        }
        if self.meant.len() == MOST_COMPARED {
            return String::new();
        }
        let meant = key_like(configuration, key);
        let meant = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
        self.meant.insert(key.clone(), meant.clone());
        meant
    }
}

/// The name in force of the same table that is like a name. Names that count differ on purpose where
/// their numbers do.
fn key_like(configuration: &Configuration, key: &Key) -> Option<String> {
    fn digits(name: &str) -> impl Iterator<Item = u8> {
        name.bytes().filter(u8::is_ascii_digit)
    }
    let (table, name) = (key.table().name(), key.to_string());
    let name = name.split_once(':')?.1;
    let names = names(configuration, key);
    let names = names
        .iter()
        .map(String::as_str)
        .filter(|known| digits(known).eq(digits(name)));
    similar(name, names).map(|meant| format!("{table}:{meant}"))
}

/// The names of a table whose objects have names alone.
fn names(configuration: &Configuration, key: &Key) -> Vec<String> {
    fn all<'n>(names: impl Iterator<Item = &'n (impl ToString + 'n)>) -> Vec<String> {
        names.map(ToString::to_string).collect()
    }
    match key {
        Key::Vnet(_) => all(configuration.vnets.keys()),
        Key::Tunnel(_) => all(configuration.tunnels.keys()),
        Key::PortMap(_) => all(configuration.port_maps.keys()),
        Key::Qos(_) => all(configuration.qos.keys()),
        Key::MeterPolicy(_) => all(configuration.meter_policies.keys()),
        Key::PrefixTag(_) => all(configuration.tags.keys()),
        Key::AclGroup(_) => all(configuration.acl_groups.keys()),
        Key::RouteGroup(_) => all(configuration.route_groups.keys()),
        Key::NatPool(_) => all(configuration.nat_pools.keys()),
        Key::Eni(_) => all(configuration.enis.keys()),
        Key::HaSet(_) => all(configuration.ha_sets.keys()),
        Key::Vdpu(_) => all(configuration.vdpus.keys()),
        _ => Vec::new(),
    }
}
