//! Services that must act on a capture.

mod acl;
mod firewall;
mod inspector;
mod kv_store;
mod load_balancer;
mod monitor;
mod napt;
mod nptv6;
mod reassembler;
mod reframer;
mod router;
mod slice;
mod telemetry;

use crate::expectation::{Evidence, Expectation};
use crate::profile::Profile;
use std::fmt::Write as _;
use std::path::Path;
use twinpath_classify::Prefix;

/// What a capture lacks that a function needs to act.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the capture has {0}")]
pub struct Lacking(pub &'static str);

/// A function's table of a service file, and what must be seen of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionText {
    /// The function's name in a chain.
    pub function: &'static str,
    /// What tells it from other tables of the function.
    pub variant: &'static str,
    /// The table.
    pub table: String,
    /// Files that the table names, relative to the service file, with what they say.
    pub files: Vec<(&'static str, String)>,
    /// What must be seen if the function is alone.
    pub expectations: Vec<Expectation>,
}

impl FunctionText {
    /// The table of such a function under a name.
    fn table_named(&self, name: &str) -> String {
        let kind = self.function;
        if name == kind {
            return self.table.clone();
        }
        let said = format!("[{name}]\nfunction = \"{kind}\"\n");
        let table = self.table.replacen(&format!("[{kind}]\n"), &said, 1);
        table.replace(&format!("[{kind}."), &format!("[{name}."))
    }
}

/// A service file, and what must be seen of its functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceText {
    /// The service file.
    pub text: String,
    /// Files that it names, relative to itself, with what they say.
    pub files: Vec<(&'static str, String)>,
    /// What must be seen if its only function is alone, else nothing: those in front decide what
    /// the others meet.
    pub expectations: Vec<Expectation>,
}

impl ServiceText {
    /// Writes the files that the service names into its folder.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_files(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let mut files = self.files.iter();
        files.try_for_each(|(name, text)| std::fs::write(folder.join(name), text))
    }
}

/// Functions that know an inside: their decisions are cached as rules.
const WITH_INSIDE: [&str; 5] = ["acl", "napt", "nptv6", "router", "monitor"];

/// What a function that verifies checksums is told about a capture.
fn verified(profile: &Profile) -> &'static str {
    match profile.counts.broken {
        0 => "",
        _ => "verify_checksums = \"none\"\n",
    }
}

impl Profile {
    /// The table of a function by its name.
    ///
    /// # Errors
    /// What the capture lacks for it, or that there is no such function.
    pub fn function(&self, name: &str) -> Result<FunctionText, Lacking> {
        match name {
            "firewall" => self.firewall(),
            "acl" => self.acl(),
            "load_balancer" => self.load_balancer(),
            "napt" => self.napt(),
            "nptv6" => self.nptv6(),
            "router" => self.router(),
            "monitor" => self.monitor(),
            "reassembler" => self.reassembler(),
            "inspector" => self.inspector(),
            "reframer" => self.reframer(),
            "telemetry" => self.telemetry(),
            "kv_store" => self.kv_store(),
            _ => Err(Lacking("no function of this name")),
        }
    }

    /// A service whose chain has these functions.
    ///
    /// # Errors
    /// As for [`Self::function`], of the first that lacks something.
    pub fn service(&self, chain: &[&str]) -> Result<ServiceText, Lacking> {
        let functions: Result<Vec<_>, _> = chain.iter().map(|name| self.function(name)).collect();
        Ok(self.service_of(functions?))
    }

    /// A service whose chain has functions of these tables.
    pub fn service_of(&self, functions: Vec<FunctionText>) -> ServiceText {
        let named = functions.into_iter().map(|one| (one.function, one));
        self.service_of_named(named.collect())
    }

    /// The same under names.
    pub fn service_of_named(&self, functions: Vec<(&str, FunctionText)>) -> ServiceText {
        let chain: Vec<&str> = functions.iter().map(|(name, _)| *name).collect();
        let mut service = ServiceText {
            // Hosts that leave checksums to their cards were captured with wrong ones.
            text: format!(
                "[service]\nname = \"derived\"\nchain = {chain:?}\nverify_ipv4_checksum = false\n"
            ),
            ..ServiceText::default()
        };
        let mut kinds = functions.iter().map(|(_, function)| function.function);
        if kinds.any(|kind| WITH_INSIDE.contains(&kind)) {
            let inside = texts(&self.inside);
            _ = writeln!(service.text, "inside = {inside:?}");
        }
        service.text.push_str(&self.settings());
        for (name, function) in functions {
            service.text.push_str(&function.table_named(name));
            service.files.extend(function.files);
            service.expectations.extend(function.expectations);
        }
        if chain.len() > 1 {
            service.expectations.clear();
        }
        service
    }

    /// That packets of an IP version leave with fresh addresses, if any are to be rewritten.
    fn rewritten(&self, function: &'static str, v4: bool, are_any: bool) -> Option<Expectation> {
        let seen = Evidence::Addressed(self.fresh.prefix(v4));
        are_any.then_some(Expectation {
            function,
            seen,
            at_least: 1,
        })
    }

    /// Settings under which the fast path gets hold of what a capture of this length has, which
    /// may be seconds or a millisecond.
    fn settings(&self) -> String {
        let window_ns = self.window.as_nanos();
        format!(
            "[fast_path]\nhot_packets = 1\ntime_to_live = \"1m\"\n\
             [rule_cache]\nwindow = \"{window_ns}ns\"\nthreshold = 0\nidle_windows = 255\n"
        )
    }
}

/// Prefixes as a service file writes them.
fn texts(prefixes: &[Prefix]) -> Vec<String> {
    prefixes.iter().map(Prefix::to_string).collect()
}
