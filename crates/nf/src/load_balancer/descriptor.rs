//! What the catalogue knows of load balancers.

use super::config::{Misplaced, RawConfig, is_twice};
use super::connection::{Connection, Kind};
use super::maglev::Maglev;
use super::{Config, ConfigError, LoadBalancer, NAME};
use crate::descriptor::{
    ConfigWarning, Descriptor, Form, Function, FunctionConfig, FunctionError, Placed, ReadError,
    SectionContext,
};
use crate::edit::{Edit, EditError, Object};
use crate::hosts::Hosts;
use crate::memory::TableMemory;
use crate::records::{BackendText, FlowText, since_tick};
use crate::schema;
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;
use toml::de::ValueDeserializer;
use twinpath_core::Instant;

/// The function.
pub const FUNCTION: Descriptor = Descriptor {
    name: NAME,
    form: Form::Flow,
    placement: "a connection's backend is its state, which both paths hold; choosing one is for the slow path",
    needs_section: true,
    decides_last: false,
    read,
    schema: schema::of::<Config>,
};

impl FunctionConfig for Config {
    fn descriptor(&self) -> &'static Descriptor {
        &FUNCTION
    }

    fn asks_for_checksums(&self) -> bool {
        self.verify_checksums.of_state()
    }

    fn needs_payload(&self) -> Option<&'static str> {
        None
    }

    fn does_with_headers(&self) -> &'static str {
        "chooses by addresses and ports, and mends checksums by what it changed"
    }

    fn needs_ports(&self) -> bool {
        true
    }

    /// A table for each time in which a service's choice is the same, and the clients that are counted.
    fn memory(&self, flows: usize) -> Vec<TableMemory> {
        let tables: u64 = self
            .services
            .iter()
            .map(|one| one.epochs.len() as u64)
            .sum();
        let count = tables * u64::from(self.table_size.0);
        let rows = TableMemory {
            count,
            of: "rows",
            bytes: count * Maglev::ROW_BYTES,
            key: "table_size",
        };
        let hosts = self.host_limit.map(|_| Hosts::memory(flows));
        std::iter::once(rows).chain(hosts).collect()
    }

    fn warnings(&self) -> Vec<ConfigWarning> {
        let services = self.services.iter().enumerate();
        let all_drained = services.filter(|(_, service)| service.written.has_drained_all());
        let told = all_drained.map(|(number, service)| {
            let keys = ["services", &number.to_string(), "backends"].map(str::to_owned);
            let name = service.name();
            let message = format!(
                "all backends of {name} are drained: who opens a connection there is dropped (no_backend)"
            );
            ConfigWarning::new(keys.to_vec(), message)
        });
        told.collect()
    }

    fn is_same(&self, other: &dyn FunctionConfig) -> bool {
        other.of() == Some(self)
    }

    fn build(&self, _folder: &Path, seed: u64) -> Result<Function, FunctionError> {
        Ok(Function::flow(LoadBalancer::new(self, seed)))
    }

    /// Which backends are drained is looked at on the slow path alone.
    fn changes_in_place(&self, former: &dyn FunctionConfig) -> bool {
        let former = former.of();
        former.is_some_and(|former| self.has_same_table(former))
    }

    fn has(&self, object: Object) -> bool {
        object == Object::Backend
    }

    fn flow_text(&self, words: &[u32], now: Instant) -> Option<FlowText> {
        let connection = Connection::read(words)?;
        let backends = self.services.iter().flat_map(|service| &service.backends);
        let row = usize::from(connection.row);
        let is_balanced = matches!(connection.kind, Kind::Service(..));
        let backend = backends.clone().nth(row).filter(|_| is_balanced);
        let state = connection.state();
        Some(FlowText {
            state: match backend {
                Some(backend) => format!("{state}, backend {}", backend.endpoint),
                None => state.to_owned(),
            },
            unused: since_tick(now, connection.last_seen),
            backend: backend.map(|_| row),
            counted: None,
        })
    }

    /// Those that are there from the start.
    fn backends(&self) -> Vec<BackendText> {
        let (mut all, mut first) = (Vec::new(), 0);
        for service in &self.services {
            let rows = (first..).zip(&service.backends);
            let written = service.written.backends.iter();
            all.extend(
                written
                    .zip(rows)
                    .map(|(written, (row, planned))| BackendText {
                        row,
                        service: service.name(),
                        endpoint: written.endpoint.0,
                        weight: written.weight.0,
                        mac: written.mac.map(|mac| mac.0),
                        is_drained: written.drained,
                        counter: planned.counter,
                    }),
            );
            first += service.backends.len();
        }
        all
    }

    fn choice_text(&self, before: &[u32], after: &[u32]) -> Option<String> {
        self.choice(before, after)
    }

    fn listed(&self, _object: Object) -> Vec<String> {
        self.listed_backends().collect()
    }

    fn edited(&self, edit: &Edit) -> Result<Arc<dyn FunctionConfig>, EditError> {
        Ok(Arc::new(self.after(edit)?))
    }
}

fn read(
    section: ValueDeserializer<'_>,
    _: SectionContext<'_>,
) -> Result<Arc<dyn FunctionConfig>, ReadError> {
    let config = RawConfig::deserialize(section)?.checked();
    let several = |mistakes: Vec<Misplaced>| {
        ReadError::Several(mistakes.into_iter().map(misplaced).collect())
    };
    Ok(Arc::new(config.map_err(several)?))
}

/// Services that are wrong by themselves may be all that there are.
fn misplaced(mistake: Misplaced) -> ReadError {
    match (mistake.error, mistake.key) {
        (error @ ConfigError::ServiceCount(_), key) => ReadError::At {
            keys: vec![key.to_owned()],
            word: None,
            source: Box::new(error),
        },
        (error, key) if is_twice(&error) => {
            let entry = mistake.entry.map(|entry| [entry.to_string(), "vip".into()]);
            let keys = std::iter::once(key.to_owned()).chain(entry.into_iter().flatten());
            ReadError::Named {
                keys: keys.collect(),
                source: Box::new(error),
            }
        }
        (error, key) => Placed {
            key,
            entry: mistake.entry,
            error,
        }
        .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows count backends of schedules, too, which are not told.
    #[test]
    fn backends_are_told_with_their_rows_and_what_is_written_of_them() {
        let text = "services = [\n\
            { vip = '192.0.2.1:80', protocol = 'tcp', backends = [{ endpoint = '10.1.0.2:80', weight = 3, drained = true }, { endpoint = '10.1.0.4:80' }], changes = [{ at = '1s', add = '10.1.0.3:80' }] },\n\
            { vip = '192.0.2.2:53', protocol = 'udp', return = 'direct', backends = [{ endpoint = '10.2.0.2:53', mac = '02:00:00:00:00:07' }] },\n\
            ]";
        let config: Config = toml::from_str(text).expect("sound");
        let [first, second, other]: [BackendText; 3] = config.backends().try_into().expect("three");
        assert_eq!((first.row, second.row, other.row), (0, 1, 3));
        assert_eq!((first.weight, first.is_drained, first.mac), (3, true, None));
        assert_eq!((second.weight, second.is_drained), (1, false));
        assert_eq!(other.service, "192.0.2.2:53/udp");
        assert_eq!(other.endpoint.to_string(), "10.2.0.2:53");
        let mac = other.mac.map(|mac| mac.to_string());
        assert_eq!(mac.as_deref(), Some("02:00:00:00:00:07"));
        let named = "new_connections{service=\"192.0.2.2:53/udp\",backend=\"10.2.0.2:53\"}";
        assert_eq!(other.counter, named);
    }
}
