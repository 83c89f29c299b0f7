//! Single changes of a configuration: backends that are added, drained and removed.

use super::config::{Config, Service};
use super::error::ConfigError;
use super::schedule::Backend;
use super::values::{EndpointText, Weight};
use crate::edit::{Edit, EditError, word};
use crate::text::Text;
use twinpath_wire::{Endpoint, MacAddress};

/// Why a backend is not changed.
#[derive(Debug, thiserror::Error)]
enum BackendEditError {
    /// No service of that name.
    #[error("there is no service {service:?}: expected one of {known}")]
    NoService {
        /// What was asked for.
        service: String,
        /// Those that there are.
        known: String,
    },
    /// Several services, and none was named.
    #[error("there are several services: say which with --service, one of {0}")]
    WhichService(String),
    /// Added twice.
    #[error("{endpoint} is a backend of {service} already")]
    There {
        /// The backend.
        endpoint: Endpoint,
        /// Its service.
        service: String,
    },
    /// Drained twice.
    #[error("{endpoint} of {service} is drained already")]
    Drained {
        /// The backend.
        endpoint: Endpoint,
        /// Its service.
        service: String,
    },
    /// No backend of the service.
    #[error("{endpoint} is no backend of {service}")]
    NotThere {
        /// The endpoint.
        endpoint: Endpoint,
        /// The service.
        service: String,
    },
    /// What the configuration would be is wrong.
    #[error(transparent)]
    Config(Box<ConfigError>),
}

impl From<ConfigError> for BackendEditError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error.into())
    }
}

/// A backend that is to be added.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct NewBackend {
    /// Where it is.
    pub endpoint: Endpoint,
    /// 1 if absent.
    pub weight: Option<u32>,
    /// For direct return.
    pub mac: Option<MacAddress>,
}

impl Config {
    /// The same after a single change.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn after(&self, edit: &Edit) -> Result<Self, EditError> {
        let edited = match edit {
            Edit::AddBackend {
                service,
                endpoint,
                weight,
                mac,
            } => {
                let new = NewBackend {
                    endpoint: word(endpoint)?,
                    weight: *weight,
                    mac: mac.as_deref().map(word).transpose()?,
                };
                self.with_backend(service.as_deref(), &new)
            }
            Edit::DrainBackend { service, endpoint } => {
                self.with_drained(service.as_deref(), word(endpoint)?)
            }
            Edit::RemoveBackend { service, endpoint } => {
                self.without_backend(service.as_deref(), word(endpoint)?)
            }
            other => return Err(EditError::Object(other.object())),
        };
        edited.map_err(EditError::of)
    }

    /// The same with another backend of a service, or with one that was drained and no longer is; of that
    /// one what is not said stays as it was. The service may be left out if there is one only.
    ///
    /// # Errors
    /// It is a backend already, or cannot be one.
    fn with_backend(
        &self,
        service: Option<&str>,
        new: &NewBackend,
    ) -> Result<Self, BackendEditError> {
        let endpoint = checked(new.endpoint)?;
        let weight = new
            .weight
            .map(|weight| Weight::try_from(i64::from(weight)))
            .transpose()?;
        let backend = Backend {
            endpoint,
            weight: weight.unwrap_or_default(),
            mac: new.mac.map(Text),
            drained: false,
        };
        self.edited(service, |service, backends| {
            match backends.iter_mut().find(|known| known.endpoint == endpoint) {
                None => backends.push(backend),
                Some(known) if known.drained => {
                    *known = Backend {
                        weight: weight.unwrap_or(known.weight),
                        mac: backend.mac.or(known.mac),
                        ..backend
                    };
                }
                Some(_) => {
                    let endpoint = new.endpoint;
                    return Err(BackendEditError::There { endpoint, service });
                }
            }
            Ok(())
        })
    }

    /// The same with a backend that gets no new connections.
    ///
    /// # Errors
    /// It is none, or is drained.
    fn with_drained(
        &self,
        service: Option<&str>,
        endpoint: Endpoint,
    ) -> Result<Self, BackendEditError> {
        self.edited(service, |service, backends| {
            let known = backends
                .iter_mut()
                .find(|known| known.endpoint.0 == endpoint);
            match known {
                None => Err(BackendEditError::NotThere { endpoint, service }),
                Some(known) if known.drained => {
                    Err(BackendEditError::Drained { endpoint, service })
                }
                Some(known) => {
                    known.drained = true;
                    Ok(())
                }
            }
        })
    }

    /// The same without a backend.
    ///
    /// # Errors
    /// It is none, or the only one.
    fn without_backend(
        &self,
        service: Option<&str>,
        endpoint: Endpoint,
    ) -> Result<Self, BackendEditError> {
        self.edited(service, |service, backends| {
            let before = backends.len();
            backends.retain(|known| known.endpoint.0 != endpoint);
            match backends.len() < before {
                true => Ok(()),
                false => Err(BackendEditError::NotThere { endpoint, service }),
            }
        })
    }

    /// The backends, in words.
    pub fn listed_backends(&self) -> impl Iterator<Item = String> {
        let of_service = |service: &Service| -> Vec<String> {
            let name = service.name();
            let backends = service.written.backends.iter();
            backends
                .map(|backend| format!("{backend} of {name}"))
                .collect()
        };
        self.services.iter().flat_map(of_service)
    }

    fn edited(
        &self,
        service: Option<&str>,
        edit: impl FnOnce(String, &mut Vec<Backend>) -> Result<(), BackendEditError>,
    ) -> Result<Self, BackendEditError> {
        let mut config = self.clone();
        let service = config.service(service)?;
        let mut written = service.written.clone();
        edit(service.name(), &mut written.backends)?;
        *service = Service::try_from(written)?;
        config.check()?;
        Ok(config)
    }

    fn service(&mut self, wanted: Option<&str>) -> Result<&mut Service, BackendEditError> {
        let names: Vec<String> = self.services.iter().map(Service::name).collect();
        let known = names.join(", ");
        let Some(wanted) = wanted else {
            return match self.services.as_mut_slice() {
                [only] => Ok(only),
                _ => Err(BackendEditError::WhichService(known)),
            };
        };
        let mut found = self
            .services
            .iter_mut()
            .filter(|service| service.name() == wanted);
        found.next().ok_or_else(|| {
            let service = wanted.to_owned();
            BackendEditError::NoService { service, known }
        })
    }
}

impl Service {
    /// Its endpoint and protocol: `192.0.2.1:80/tcp`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.vip, self.protocol)
    }
}

impl std::fmt::Display for Backend {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.endpoint.0)?;
        if self.weight != Weight::default() {
            write!(formatter, " weight {}", self.weight.0)?;
        }
        if let Some(mac) = self.mac {
            write!(formatter, " mac {}", mac.0)?;
        }
        formatter.write_str(if self.drained { " drained" } else { "" })
    }
}

fn checked(endpoint: Endpoint) -> Result<EndpointText, ConfigError> {
    match endpoint.port {
        0 => Err(ConfigError::PortZero(endpoint)),
        _ => Ok(EndpointText(endpoint)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "services = [\n\
        { vip = '192.0.2.1:80', protocol = 'tcp', backends = [{ endpoint = '10.1.0.2:80' }, { endpoint = '10.1.0.3:80', weight = 2, drained = true }] },\n";

    fn config(more: &str) -> Config {
        toml::from_str(&format!("{TEXT}{more}]")).expect("valid")
    }

    fn end(text: &str) -> Endpoint {
        text.parse().expect(text)
    }

    fn new(text: &str) -> NewBackend {
        NewBackend {
            endpoint: end(text),
            weight: None,
            mac: None,
        }
    }

    fn listed(config: &Config) -> Vec<String> {
        let listed = config.listed_backends();
        listed
            .map(|backend| backend.replace(" of 192.0.2.1:80/tcp", ""))
            .collect()
    }

    #[test]
    fn backends_come_and_go() {
        let one = config("");
        let more = one
            .with_backend(None, &new("10.1.0.4:80"))
            .expect("possible");
        assert_eq!(
            listed(&more),
            ["10.1.0.2:80", "10.1.0.3:80 weight 2 drained", "10.1.0.4:80"]
        );
        assert_ne!(one, more);
        let back = more.without_backend(Some("192.0.2.1:80/tcp"), end("10.1.0.4:80"));
        assert_eq!(back.expect("possible"), one);
        let again = one.with_backend(
            None,
            &NewBackend {
                weight: Some(2),
                ..new("10.1.0.3:80")
            },
        );
        let again = again.expect("possible");
        assert_eq!(listed(&again)[1], "10.1.0.3:80 weight 2");
        let as_it_was = one.with_backend(None, &new("10.1.0.3:80"));
        assert_eq!(as_it_was.expect("possible"), again, "its weight stays");
        let removed = again.without_backend(None, end("10.1.0.3:80"));
        let anew = removed.and_then(|one| one.with_backend(None, &new("10.1.0.3:80")));
        assert_eq!(listed(&anew.expect("possible"))[1], "10.1.0.3:80");
        assert_eq!(
            again
                .with_drained(None, end("10.1.0.3:80"))
                .expect("possible"),
            one
        );
    }

    #[test]
    fn what_cannot_be_done_is_told() {
        let (one, two) = (
            config(""),
            config(
                "{ vip = '[2001:db8::1]:53', protocol = 'udp', backends = [{ endpoint = '[fd00::1]:53' }] }",
            ),
        );
        let said =
            |result: Result<Config, BackendEditError>| result.expect_err("impossible").to_string();
        let there = end("10.1.0.2:80");
        for (said, expected) in [
            (
                said(one.with_backend(None, &new("10.1.0.2:80"))),
                "10.1.0.2:80 is a backend of 192.0.2.1:80/tcp already",
            ),
            (said(one.with_backend(None, &new("10.1.0.9:0"))), "port"),
            (
                said(one.with_backend(None, &new("[fd00::9]:80"))),
                "fd00::9",
            ),
            (
                said(one.with_backend(
                    None,
                    &NewBackend {
                        weight: Some(5000),
                        ..new("10.1.0.9:80")
                    },
                )),
                "5000",
            ),
            (
                said(one.with_backend(
                    None,
                    &NewBackend {
                        mac: Some(MacAddress::ZERO),
                        ..new("10.1.0.9:80")
                    },
                )),
                "mac",
            ),
            (
                said(one.with_drained(None, end("10.1.0.3:80"))),
                "10.1.0.3:80 of 192.0.2.1:80/tcp is drained already",
            ),
            (
                said(one.with_drained(None, end("10.1.0.9:80"))),
                "10.1.0.9:80 is no backend",
            ),
            (
                said(one.without_backend(None, end("10.1.0.9:80"))),
                "10.1.0.9:80 is no backend",
            ),
            (
                said(one.without_backend(Some("10.0.0.1:1/tcp"), there)),
                "expected one of 192.0.2.1:80/tcp",
            ),
            (
                said(two.without_backend(None, there)),
                "say which with --service, one of 192.0.2.1:80/tcp, [2001:db8::1]:53/udp",
            ),
            (
                said(two.without_backend(Some("[2001:db8::1]:53/udp"), end("[fd00::1]:53"))),
                "backend",
            ),
        ] {
            assert!(said.contains(expected), "{said}");
        }
    }
}
