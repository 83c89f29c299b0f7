//! What the catalogue knows of firewalls.

use super::connection::Connection;
use super::edit::edited_rules;
use super::program::GUARANTEES;
use super::rule::Rule;
use super::rules::{FirstPacket, RuleSet};
use super::{Config, Firewall, NAME};
use crate::descriptor::{
    ConfigWarning, Descriptor, Form, Function, FunctionConfig, FunctionError, ReadError,
    SectionContext,
};
use crate::edit::{Edit, EditError, Object};
use crate::firewall::cover::unreachable_rules;
use crate::hosts::Hosts;
use crate::memory::TableMemory;
use crate::records::{EntryHits, FlowText, Page, since_tick};
use crate::schema;
use serde::Deserialize;
use serde::de::Error;
use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use toml::de::ValueDeserializer;
use twinpath_core::Guarantees;
use twinpath_core::Instant;
use twinpath_core::wire::layout::Layout;
use twinpath_rulecache::EntryText;
use twinpath_slowpath::NetworkFunction;

/// The function.
pub const FUNCTION: Descriptor = Descriptor {
    name: NAME,
    form: Form::Flow,
    placement: "each packet may move its connection's state on, so both paths hold the state",
    needs_section: true,
    decides_last: false,
    read,
    schema: schema::of::<Config>,
};

fn read(
    section: ValueDeserializer<'_>,
    context: SectionContext<'_>,
) -> Result<Arc<dyn FunctionConfig>, ReadError> {
    let mut config = Config::deserialize(section)?;
    config.ports = context.ports.to_vec();
    config.check_ingress().map_err(toml::de::Error::custom)?;
    Ok(Arc::new(config))
}

impl FunctionConfig for Config {
    fn descriptor(&self) -> &'static Descriptor {
        &FUNCTION
    }

    fn flow_text(&self, words: &[u32], now: Instant) -> Option<FlowText> {
        let connection = Connection::load(words)?;
        Some(FlowText {
            state: connection.phase.to_string(),
            unused: since_tick(now, connection.last_seen),
            backend: None,
            counted: None,
        })
    }

    fn asks_for_checksums(&self) -> bool {
        self.verify_checksums.of_state()
    }

    fn needs_payload(&self) -> Option<&'static str> {
        None
    }

    fn does_with_headers(&self) -> &'static str {
        "judges connections by addresses, ports, flags, numbers and lengths, which headers tell"
    }

    fn guarantees(&self) -> Guarantees {
        GUARANTEES
    }

    fn warnings(&self) -> Vec<ConfigWarning> {
        unreachable_rules(self.rules(), &self.ports)
    }

    fn needs_ports(&self) -> bool {
        true
    }

    /// A limit for each host needs to know all that have connections.
    fn memory(&self, flows: usize) -> Vec<TableMemory> {
        let hosts = self.host_limit().map(|_| Hosts::memory(flows));
        hosts.into_iter().collect()
    }

    fn is_same(&self, other: &dyn FunctionConfig) -> bool {
        other.of() == Some(self)
    }

    fn build(&self, _folder: &Path, _seed: u64) -> Result<Function, FunctionError> {
        Ok(Function::flow(Firewall::new(self)))
    }

    /// Rules see packets of connections that are unknown, which are all on the slow path.
    fn changes_in_place(&self, former: &dyn FunctionConfig) -> bool {
        let former = former.of::<Self>();
        former.is_some_and(|former| {
            let has_same_program =
                former.verify_checksums.of_all() == self.verify_checksums.of_all();
            former.timeouts == self.timeouts && has_same_program
        })
    }

    fn has(&self, object: Object) -> bool {
        object == Object::Rule
    }

    fn flow_hits(
        &self,
        function: &dyn NetworkFunction,
        from: u32,
        most: u32,
    ) -> Option<Page<EntryHits>> {
        let function: &dyn Any = function;
        let decided = function.downcast_ref::<Firewall>()?.decided();
        let hits = |number: u32| {
            let place = number as usize;
            let rule = self.rules().get(place);
            let default = || format!("the default: {}", self.default);
            Some(EntryHits {
                rule: rule.map(|_| place + 1),
                text: rule.map_or_else(default, ToString::to_string),
                packets: decided.packets(place),
                bytes: None,
            })
        };
        Some(Page::of(from, most, self.rules().len() + 1, hits))
    }

    fn listed(&self, _object: Object) -> Vec<String> {
        self.rules().iter().map(ToString::to_string).collect()
    }

    fn rule_for(&self, packet: &[u8], layout: &Layout, ingress: u16) -> Option<EntryText> {
        let first = FirstPacket::of(packet, layout, ingress);
        let decides = |rule: &Rule| {
            let alone = RuleSet::new(std::slice::from_ref(rule), &self.ports);
            alone.decide(&first).is_some()
        };
        let mut rules = (1..).zip(self.rules());
        Some(match rules.find(|(_, rule)| decides(rule)) {
            Some((number, rule)) => EntryText {
                rule: Some(number),
                text: rule.to_string(),
            },
            None if layout.inner.is_some() => {
                EntryText::other("an ICMP error about no connection that is known")
            }
            None => EntryText::other(format!("the default: {}", self.default)),
        })
    }

    fn edited(&self, edit: &Edit) -> Result<Arc<dyn FunctionConfig>, EditError> {
        let edited = self.with_rules(edited_rules(self.rules(), edit)?);
        Ok(Arc::new(edited.map_err(EditError::of)?))
    }
}
