//! What the catalogue knows of inspectors.

use super::function::{automata, left_out, stream_bytes};
use super::{Config, DeepMatcher, Inspector, InspectorError, Matcher, NAME, inspector};
use crate::descriptor::{
    ConfigWarning, Descriptor, Form, Function, FunctionConfig, FunctionError, MigrationError,
    ReadError, SectionContext,
};
use crate::hosts::Hosts;
use crate::memory::TableMemory;
use crate::records::{EntryHits, Page};
use crate::schema;
use serde::Deserialize;
use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use toml::de::ValueDeserializer;
use twinpath_core::Guarantees;
use twinpath_rulecache::EntryText;
use twinpath_slowpath::NetworkFunction;

/// The function.
pub const FUNCTION: Descriptor = Descriptor {
    name: NAME,
    form: Form::Flow,
    placement: "it reads payloads and keeps where a connection's search stands, so both paths hold that; deep matches are for the slow path",
    needs_section: true,
    decides_last: false,
    read,
    schema: schema::of::<Config>,
};

impl FunctionConfig for Config {
    fn descriptor(&self) -> &'static Descriptor {
        &FUNCTION
    }

    fn needs_payload(&self) -> Option<&'static str> {
        Some("reads payloads")
    }

    fn guarantees(&self) -> Guarantees {
        Self::guarantees(self)
    }

    fn memory(&self, _flows: usize) -> Vec<TableMemory> {
        let streams = TableMemory {
            count: self.streams.into(),
            of: "streams",
            bytes: stream_bytes(self.streams as usize),
            key: "streams",
        };
        let automata = automata(self).map(|(rules, bytes)| TableMemory {
            count: rules as u64,
            of: "rules in automata",
            bytes: bytes as u64,
            key: "rules",
        });
        let hosts = self.host_limit().map(|_| TableMemory {
            key: "streams_per_host",
            ..Hosts::memory(self.streams as usize)
        });
        std::iter::once(streams)
            .chain(automata)
            .chain(hosts)
            .collect()
    }

    fn is_same(&self, other: &dyn FunctionConfig) -> bool {
        other.of() == Some(self)
    }

    /// Suricata's rules that say what cannot be honoured.
    fn warnings(&self) -> Vec<ConfigWarning> {
        let left_out = left_out(self).into_iter();
        let warning = |message| ConfigWarning::new(vec!["rules".into()], message);
        left_out.map(warning).collect()
    }

    fn build(&self, folder: &Path, _seed: u64) -> Result<Function, FunctionError> {
        let function = inspector(self, folder).map_err(FunctionError::of)?;
        Ok(Function::Flow(function))
    }

    fn rule_of_flow(&self, function: &dyn NetworkFunction, words: &[u32]) -> Option<EntryText> {
        let function: &dyn Any = function;
        let ban = |function: &Inspector<DeepMatcher>| function.rule_of_flow(words);
        let text = function.downcast_ref().and_then(ban);
        #[cfg(feature = "hyperscan")]
        let text = text.or_else(|| {
            let ban = |function: &Inspector<super::HyperscanMatcher>| function.rule_of_flow(words);
            function.downcast_ref().and_then(ban)
        });
        Some(EntryText::other(text?))
    }

    fn flow_hits(
        &self,
        function: &dyn NetworkFunction,
        from: u32,
        most: u32,
    ) -> Option<Page<EntryHits>> {
        let function: &dyn Any = function;
        let hits = |function: &Inspector<DeepMatcher>| function.hits(from, most);
        let page = function.downcast_ref().map(hits);
        #[cfg(feature = "hyperscan")]
        let page = page.or_else(|| {
            let hits = |function: &Inspector<super::HyperscanMatcher>| function.hits(from, most);
            function.downcast_ref().map(hits)
        });
        page
    }

    fn check_migration(&self, former: &dyn FunctionConfig) -> Result<(), MigrationError> {
        match former.of::<Self>() {
            Some(former) if former.matcher != self.matcher => Err(MigrationError {
                key: "matcher",
                why: "its matcher cannot change, because what it has half seen means nothing to another: expected the same matcher, or a chain without inspector in between".into(),
            }),
            _ => Ok(()),
        }
    }
}

/// The file of rules is read too, so that the inspector will be what it says now.
fn read(
    section: ValueDeserializer<'_>,
    context: SectionContext<'_>,
) -> Result<Arc<dyn FunctionConfig>, ReadError> {
    let SectionContext { folder, files, .. } = context;
    let mut config = Config::deserialize(section)?;
    if config.matcher == Matcher::Hyperscan && cfg!(not(feature = "hyperscan")) {
        let error = InspectorError::WithoutHyperscan;
        return Err(ReadError::named("matcher", error));
    }
    config.read_file(folder, files).map_err(|source| {
        let path = folder.join(&config.rules);
        ReadError::named("rules", InspectorError::File { path, source })
    })?;
    Ok(Arc::new(config))
}
