//! Single changes of a service: one rule, one route, one backend.

use super::{Instance, Service};
use twinpath_nf::edit::{Edit, EditError, Object};

/// Why a service is not changed.
#[derive(Debug, thiserror::Error)]
pub enum ServiceEditError {
    /// No function of that name.
    #[error("there is no {name:?} in the chain: expected one of {known}")]
    NoFunction {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// No function has anything of the kind.
    #[error("no function of the chain has {0}")]
    Nothing(Object),
    /// Several functions have, and none was named.
    #[error("several functions have {object}: say which with --function, one of {known}")]
    Which {
        /// What is to change.
        object: Object,
        /// The functions.
        known: String,
    },
    /// The function cannot be changed so.
    #[error("{function}: {source}")]
    Function {
        /// Its name.
        function: String,
        /// Why.
        source: Box<EditError>,
    },
    /// What it would be does not go with the rest of the service.
    #[error(
        "{function} {why}: expected functions that do without payloads, because the service has [parking]"
    )]
    NeedsPayload {
        /// Its name.
        function: String,
        /// What it would do.
        why: &'static str,
    },
}

impl Service {
    /// The function that has something of a kind, by its name or because it alone has, and its
    /// place in the chain.
    ///
    /// # Errors
    /// There is none, or there are several.
    pub fn function_with(
        &self,
        name: Option<&str>,
        object: Object,
    ) -> Result<(usize, &Instance), ServiceEditError> {
        let has = |(_, function): &(usize, &Instance)| match name {
            Some(name) => *function.name == *name,
            None => function.config.has(object),
        };
        let found: Vec<_> = self.chain.iter().enumerate().filter(has).collect();
        let names = |functions: &mut dyn Iterator<Item = &Instance>| {
            let names: Vec<String> = functions
                .map(|function| function.name.to_string())
                .collect();
            names.join(", ")
        };
        match (found.as_slice(), name) {
            ([only], _) => Ok(*only),
            ([], None) => Err(ServiceEditError::Nothing(object)),
            ([], Some(name)) => Err(ServiceEditError::NoFunction {
                name: name.to_owned(),
                known: names(&mut self.chain.iter()),
            }),
            (several, _) => Err(ServiceEditError::Which {
                object,
                known: names(&mut several.iter().map(|(_, function)| *function)),
            }),
        }
    }

    /// The service after a single change of the function of this name; without a name of the one
    /// that has something of the kind.
    ///
    /// # Errors
    /// It cannot be made; what was wrong and what was expected.
    pub fn edited(&self, function: Option<&str>, edit: &Edit) -> Result<Self, ServiceEditError> {
        let (place, former) = self.function_with(function, edit.object())?;
        let function = former.name.to_string();
        let edited = former.config.edited(edit);
        let edited = edited.map_err(|source| ServiceEditError::Function {
            function: function.clone(),
            source: source.into(),
        })?;
        if self.parking.is_some()
            && let Some(why) = edited.needs_payload()
        {
            return Err(ServiceEditError::NeedsPayload { function, why });
        }
        let mut service = self.clone();
        service.chain[place].config = edited;
        Ok(service)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const HEAD: &str =
        "[service]\nchain = [\"acl\", \"firewall\", \"router\"]\ninside = [\"10.0.0.0/8\"]\n";
    const TABLES: &str = "[acl]\nrules = [{ action = \"allow\" }]\n[firewall]\n\
        [router]\nnext_hops = [{ name = \"up\", mac = \"02:00:00:00:01:01\", source_mac = \"02:00:00:00:00:01\", port = 1 }]\n\
        address = \"192.0.2.1\"\nroutes = [{ to = \"0.0.0.0/0\", via = \"up\" }]\n";

    fn service(more: &str) -> Service {
        let text = format!("{HEAD}{TABLES}{more}");
        Service::parse(&text, Path::new("edge.toml")).unwrap_or_else(|error| panic!("{error}"))
    }

    fn rule(rule: &str) -> Edit {
        let rule = rule.to_owned();
        Edit::AddRule { rule, number: None }
    }

    fn delete(to: &str) -> Edit {
        Edit::DeleteRoute { to: to.to_owned() }
    }

    #[test]
    fn one_function_changes_and_changes_back() {
        let before = service("");
        let after = before.edited(Some("acl"), &rule("deny")).expect("possible");
        assert_ne!(after.chain[0], before.chain[0]);
        assert_eq!(after.chain[1..], before.chain[1..]);
        assert_eq!(
            after.chain[0].config.listed(Object::Rule),
            ["allow", "deny"]
        );
        let back = after.edited(Some("acl"), &Edit::DeleteRule { rule: "2".into() });
        assert_eq!(back.expect("possible").chain, before.chain);
    }

    #[test]
    fn what_cannot_be_done_is_told() {
        let parked = service("[parking]\n");
        let said = |function, edit: &Edit| {
            let edited = parked.edited(function, edit);
            edited.expect_err("impossible").to_string()
        };
        let drain = Edit::DrainBackend {
            service: None,
            endpoint: "10.0.0.1:80".into(),
        };
        for (said, expected) in [
            (
                said(None, &rule("deny")),
                "several functions have rules: say which with --function, one of acl, firewall",
            ),
            (
                said(Some("napt"), &rule("deny")),
                "there is no \"napt\" in the chain: expected one of acl, firewall, router",
            ),
            (said(None, &drain), "no function of the chain has backends"),
            (
                said(Some("router"), &rule("deny")),
                "router: it has no rules",
            ),
            (
                said(Some("acl"), &rule("permit")),
                "acl: the rule cannot be read: expected \"allow\" or \"deny\"",
            ),
            (
                said(None, &delete("10.0.0.0/33")),
                "router: \"10.0.0.0/33\" is no prefix: its length 33",
            ),
            (
                said(None, &delete("10.0.0.0/8")),
                "router: there is no route to 10.0.0.0/8",
            ),
            (
                said(None, &delete("0.0.0.0/0")),
                "because the service has [parking]",
            ),
        ] {
            assert!(said.contains(expected), "{said}");
        }
    }
}
