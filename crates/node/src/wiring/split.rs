//! Remote memory, as a service names it.

use twinpath_control::service::Service;
use twinpath_remote::fast::{self, Server};
use twinpath_remote::{PayloadMemory, Requester, SplitStage, Store, requester};

/// What splits packets, and where their payloads wait.
#[derive(Clone, Debug)]
pub struct SplitConfig {
    /// The stage.
    pub stage: fast::Config,
    /// Whether the chain's functions do without payloads; else nothing is split.
    pub is_active: bool,
    /// The servers; if there are none, payloads wait in this process.
    pub servers: Vec<ServerConfig>,
    /// Payloads that wait in this process at most.
    pub store_payloads: usize,
}

/// A memory server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// What it is called.
    pub name: String,
    /// The number of the port that leads to it, behind those of the service.
    pub port: u16,
    /// The switch's end.
    pub requester: requester::Config,
}

impl SplitConfig {
    /// What a service says, if it splits packets.
    pub fn of(service: &Service) -> Option<Self> {
        let split = service.split.as_ref()?;
        let links = split.links();
        let first = service.devices.len();
        let shard = u64::from(split.shard.number);
        let seed = service.seed ^ shard << 32;
        let servers = (1..).zip(split.servers()).map(|(number, server)| {
            let link = links.iter().position(|link| link.device == server.device);
            ServerConfig {
                name: server.name.clone(),
                port: (first + link.unwrap_or_default()) as u16,
                requester: requester::Config {
                    life: service.life,
                    ..split.requester(server, seed ^ number)
                },
            }
        });
        Some(Self {
            stage: split.stage(),
            is_active: service.splits().is_some(),
            servers: servers.collect(),
            store_payloads: split.store.payloads,
        })
    }

    /// The stage.
    pub fn stage(&self) -> SplitStage {
        let servers = match self.servers.is_empty() {
            true => vec![server("store", None, Store::new(0, self.store_payloads))],
            false => {
                let requester = |one: &ServerConfig| {
                    let requester = Requester::new(one.requester);
                    server(&one.name, Some(one.port), requester)
                };
                self.servers.iter().map(requester).collect()
            }
        };
        let mut stage = SplitStage::new(self.stage.clone(), servers);
        stage.set_active(self.is_active);
        stage
    }
}

fn server(name: &str, port: Option<u16>, memory: impl PayloadMemory + Send + 'static) -> Server {
    Server {
        name: name.to_owned(),
        port,
        memory: Box::new(memory),
    }
}
