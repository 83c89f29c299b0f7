//! `twinpath change`: changes one thing of a running service.

use crate::commands::{apply, bindings};
use crate::error::CommandError;
use crate::look::Service;
use crate::{Outcome, output};
use std::path::PathBuf;
use twinpath_control::operator::{Answer, Request, ask};
use twinpath_nf::edit::{Edit, Object};

/// Changes one rule, route, backend, forward or binding of a running service
///
/// Only what is cached because of it goes; everything else stays cached, and no packet is lost or
/// overtaken. A service file knows nothing of it: applying one takes it back. If anything is
/// wrong, nothing changes.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath run examples/gateway.toml --control /run/gateway.sock &",
    "twinpath change rule add deny protocol tcp to_port 22 --number 1 --function acl --control /run/gateway.sock",
    "twinpath change rule list --function acl --control /run/gateway.sock",
    "twinpath change route add 10.1.0.0/16 via uplink --control /run/gateway.sock",
    "twinpath change route delete 10.1.0.0/16 --control /run/gateway.sock",
    "twinpath change forward add 198.51.100.1:8080 to 10.0.0.7:80 --protocol tcp --control /run/gateway.sock",
    "host=$(twinpath bindings --most 1 --json --control /run/gateway.sock | jq -r '.[0].internal')",
    "twinpath change binding delete $host --control /run/gateway.sock",
    "twinpath run examples/edge.toml --control /run/edge.sock &    # it has a load balancer",
    "twinpath change backend drain 10.1.0.2:443 --service 192.0.2.10:443/tcp --control /run/edge.sock",
))]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
    /// The socket that the service was given with --control
    #[arg(long, value_name = "SOCKET", global = true, env = crate::look::CONTROL, hide_env = true)]
    control: Option<PathBuf>,
    /// The function, by its name in the chain; needed if several have such things
    #[arg(long, value_name = "NAME", global = true)]
    function: Option<String>,
}

#[derive(clap::Subcommand)]
enum What {
    /// Rules of an access list or a firewall
    #[command(subcommand)]
    Rule(Rule),
    /// Routes of a router
    #[command(subcommand)]
    Route(Route),
    /// Backends of a load balancer
    #[command(subcommand)]
    Backend(Backend),
    /// Forwards of an address translation
    #[command(subcommand)]
    Forward(Forward),
    /// Bindings of an address translation
    #[command(subcommand)]
    Binding(Binding),
}

#[derive(clap::Subcommand)]
enum Rule {
    /// Puts a rule before others, or last
    Add {
        /// allow or deny, then any of: ingress PORT (of the node), protocol P,
        /// from PREFIX, to PREFIX, from_port PORTS, to_port PORTS
        #[arg(required = true)]
        rule: Vec<String>,
        /// The number that it gets, counted from 1; it comes last without
        #[arg(long, value_name = "N")]
        number: Option<usize>,
    },
    /// Takes a rule out
    Delete {
        /// Its number, or the rule as `list` shows it
        #[arg(required = true)]
        rule: Vec<String>,
    },
    /// Shows the rules with their numbers
    List,
}

#[derive(clap::Subcommand)]
enum Route {
    /// Adds a route to a prefix that has none
    Add(To),
    /// Adds a route, in place of that to the same prefix if there is one
    Replace(To),
    /// Takes a route out
    Delete {
        /// Its prefix
        prefix: String,
    },
    /// Shows the routes
    List,
}

#[derive(clap::Args)]
struct To {
    /// The prefix
    prefix: String,
    /// The word via
    #[arg(value_name = "via", value_parser = ["via"], hide_possible_values = true)]
    via: String,
    /// A next hop's name, or discard
    next_hop: String,
}

#[derive(clap::Subcommand)]
enum Backend {
    /// Adds a backend, or lets one have connections again that is drained
    ///
    /// One that is drained keeps its weight and MAC address if nothing else is said.
    Add {
        #[command(flatten)]
        backend: Of,
        /// How many connections it gets beside others: 1 to 1000, and 1 if a new one is not given any
        #[arg(long)]
        weight: Option<u32>,
        /// Its MAC address, for direct return
        #[arg(long)]
        mac: Option<String>,
    },
    /// Gives a backend no new connections; those that it has go on
    Drain(Of),
    /// Takes a backend out; its connections go to others
    ///
    /// Nothing is remembered of it: one that is added again is a new one, with the weight that it is given
    /// then, and its connections are counted anew. To have it back as it was, drain it.
    Remove(Of),
    /// Shows the backends
    List,
}

#[derive(clap::Args)]
struct Of {
    /// Its address and port
    endpoint: String,
    /// The service that it serves, as 192.0.2.1:80/tcp; needed if there are several
    #[arg(long)]
    service: Option<String>,
}

#[derive(clap::Subcommand)]
enum Forward {
    /// Has external ports, or an address, stand for a host inside
    Add {
        /// The external endpoint, or several, as 192.0.2.1:8000-8010; without --protocol an address
        external: String,
        /// The word to
        #[arg(value_name = "to", value_parser = ["to"], hide_possible_values = true)]
        to: String,
        /// Whom it stands for; of several ports the first
        host: String,
        /// tcp or udp; without it a whole address stands for a host
        #[arg(long)]
        protocol: Option<String>,
    },
    /// Takes a forward out; what it has let in goes on until it is idle
    Delete {
        /// The external ports, or the address, as `list` shows them
        external: String,
        /// That of tcp or udp alone
        #[arg(long)]
        protocol: Option<String>,
    },
    /// Shows the forwards
    List,
}

#[derive(clap::Subcommand)]
enum Binding {
    /// Ends the bindings of an inside endpoint, with their sessions; its next packet opens others
    Delete {
        /// The endpoint inside: its address and port
        endpoint: String,
        /// That of tcp, udp or icmp alone
        #[arg(long)]
        protocol: Option<String>,
    },
    /// Shows the bindings that there are, as `twinpath bindings` does, which can choose among them
    List,
}

/// Changes it, or shows what there is.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let control = arguments.control.as_ref().ok_or(CommandError::NoControl)?;
    let function = arguments.function.clone();
    let Some((object, request)) = arguments.what.request(function.clone()) else {
        let service = Service {
            control: control.clone(),
            function,
            most: None,
            json: false,
        };
        return bindings::show(&service, service.query());
    };
    match ask(control, &request)? {
        Answer::Applied(applied) => {
            output::print(&apply::told(&applied))?;
            applied.warnings.iter().for_each(output::warning);
        }
        Answer::Listed { lines, .. } => output::print(&listed(object, &lines))?,
        other => return Err(CommandError::unexpected(other)),
    }
    Ok(Outcome::Good)
}

/// Rules are numbered, for their order counts.
fn listed(object: Object, lines: &[String]) -> String {
    let numbered = lines.iter().zip(1..).map(|(line, number)| match object {
        Object::Rule => format!("{number:>4}  {line}\n"),
        _ => format!("{line}\n"),
    });
    numbered.collect()
}

impl What {
    /// What it is about, and what is asked for; nothing for bindings, which no file lists.
    fn request(&self, function: Option<String>) -> Option<(Object, Request)> {
        let (object, edit) = match self {
            Self::Rule(rule) => (Object::Rule, rule.edit()),
            Self::Route(route) => (Object::Route, route.edit()),
            Self::Backend(backend) => (Object::Backend, backend.edit()),
            Self::Forward(forward) => (Object::Forward, forward.edit()),
            Self::Binding(Binding::List) => return None,
            Self::Binding(Binding::Delete { endpoint, protocol }) => {
                let (endpoint, protocol) = (endpoint.clone(), protocol.clone());
                let request = Request::EndBinding {
                    function,
                    endpoint,
                    protocol,
                };
                return Some((Object::Binding, request));
            }
        };
        let request = match edit {
            Some(change) => Request::Change { function, change },
            None => Request::List { function, object },
        };
        Some((object, request))
    }
}

impl Rule {
    fn edit(&self) -> Option<Edit> {
        Some(match self {
            Self::Add { rule, number } => Edit::AddRule {
                rule: rule.join(" "),
                number: *number,
            },
            Self::Delete { rule } => Edit::DeleteRule {
                rule: rule.join(" "),
            },
            Self::List => return None,
        })
    }
}

impl Route {
    fn edit(&self) -> Option<Edit> {
        Some(match self {
            Self::Add(To {
                prefix, next_hop, ..
            }) => Edit::AddRoute {
                to: prefix.clone(),
                via: next_hop.clone(),
            },
            Self::Replace(To {
                prefix, next_hop, ..
            }) => Edit::ReplaceRoute {
                to: prefix.clone(),
                via: next_hop.clone(),
            },
            Self::Delete { prefix } => Edit::DeleteRoute { to: prefix.clone() },
            Self::List => return None,
        })
    }
}

impl Backend {
    fn edit(&self) -> Option<Edit> {
        Some(match self {
            Self::Add {
                backend: Of { endpoint, service },
                weight,
                mac,
            } => Edit::AddBackend {
                service: service.clone(),
                endpoint: endpoint.clone(),
                weight: *weight,
                mac: mac.clone(),
            },
            Self::Drain(Of { endpoint, service }) => Edit::DrainBackend {
                service: service.clone(),
                endpoint: endpoint.clone(),
            },
            Self::Remove(Of { endpoint, service }) => Edit::RemoveBackend {
                service: service.clone(),
                endpoint: endpoint.clone(),
            },
            Self::List => return None,
        })
    }
}

impl Forward {
    fn edit(&self) -> Option<Edit> {
        Some(match self {
            Self::Add {
                external,
                host,
                protocol,
                ..
            } => Edit::AddForward {
                protocol: protocol.clone(),
                external: external.clone(),
                to: host.clone(),
            },
            Self::Delete { external, protocol } => Edit::DeleteForward {
                protocol: protocol.clone(),
                external: external.clone(),
            },
            Self::List => return None,
        })
    }
}
