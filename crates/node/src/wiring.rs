//! A service becomes a node: elements on the fast path and with each worker, the machine around the
//! fast path, and the buffers of each.

mod faults;
mod functions;
mod memory;
mod room;
mod settings;
mod split;
mod steering;

pub use crate::build_error::BuildError;
use crate::egress::Egress;
pub use faults::faults;
pub use functions::{
    chain, element_chain, element_order, elements, needs_ports, rule_functions, slow_flows,
};
pub(crate) use functions::{flow_function, seed_of};
pub use memory::{MemoryPart, memory};
pub use room::{Room, budget, is_for_slow_path, place};
pub use settings::{Buffers, coherence, rule_table};
pub(crate) use settings::{buffers, handoff_frames, worker_buffers};
pub use split::{ServerConfig, SplitConfig};
pub(crate) use steering::{admission, admits_otherwise, egress_check, joints};
pub use steering::{causality, causality_of_hosts, follows_kernel, steering, tables_of};

use crate::fast_path::{DashStage, FastElement, FastPath, RuleStage};
use crate::machine::{Limits, Machine};
use crate::mirror::Mirror;
use crate::pinning;
use crate::watch::{Names, Watch};
use crate::worker::{Blueprint, SlowDash, SlowElement, WholeWalk, Worker};
use std::ops::Range;
use std::sync::Arc;
use twinpath_coherence::StateStage;
use twinpath_control::service::{Instance, Paths, Service};
use twinpath_core::program::FastProgram;
use twinpath_core::{Named, Pools};
use twinpath_fastpath::Interpreter;
use twinpath_nf::dash;
use twinpath_nf::descriptor::Form;
use twinpath_parking::{Config as ParkingConfig, ParkingStage, PortConfig};
use twinpath_rulecache::{RuleTable, Sides, SlowRules, SlowRulesConfig, TableConfig};
use twinpath_slowpath::Common;

/// The first processor in `[run]` that this process may not run on, or that is not there.
pub fn forbidden_cpu(service: &Service) -> Option<u16> {
    pinning::forbidden(service.run.cpus)
}

/// A machine and its workers.
pub struct Node {
    /// The fast path and what decides around it.
    pub machine: Machine,
    /// The workers, by number.
    pub workers: Vec<Worker>,
    /// Buffers of each worker: messages and packets made on the slow path.
    pub worker_pools: Vec<Pools>,
    /// The processors that threads stay on, the machine's first and then each worker's; if there are
    /// none, the system places them.
    pub cpus: Vec<u16>,
    /// The number of its shard, if it is one of several.
    pub shard: Option<u16>,
}

/// What a node is built from. [`Self::of`] takes it all from a service; whoever wants something that
/// no service file can say changes it then. Functions that no file can name are in the service's
/// chain ([`custom`](twinpath_nf::custom)).
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The service.
    pub service: Service,
    /// Which paths it has.
    pub paths: Paths,
    /// By element of the chain: whether its flow state has room on the fast path.
    pub has_room: Vec<bool>,
    /// The fast path's table of rules of each element.
    pub rule_table: TableConfig,
    /// How an element whose decisions are cached does that on the slow path.
    pub slow_rules: SlowRulesConfig,
    /// The queue in which payloads wait while their headers are on the slow path, and its port.
    pub parking: Option<(ParkingConfig, PortConfig)>,
    /// Remote memory in which they wait.
    pub split: Option<SplitConfig>,
    /// For packets that arrive.
    pub buffers: Buffers,
    /// Of each worker, for messages and packets made on the slow path.
    pub worker_buffers: Buffers,
}

impl NodeConfig {
    /// What a service says.
    ///
    /// # Errors
    /// The device has no room for the flow state of any element, or a file that a function needs
    /// cannot be read.
    pub fn of(service: &Service, paths: Paths) -> Result<Self, BuildError> {
        let parking = service.parking.as_ref();
        Ok(Self {
            has_room: room::room(service, paths)?,
            rule_table: rule_table(service),
            slow_rules: settings::slow_rules(service, paths),
            parking: parking.map(|parking| (parking.queue(), parking.port())),
            split: SplitConfig::of(service),
            buffers: buffers(service)?,
            worker_buffers: worker_buffers(service),
            service: service.clone(),
            paths,
        })
    }

    /// Builds the node.
    ///
    /// # Errors
    /// The parts do not go together.
    pub fn build(&self) -> Result<Node, BuildError> {
        self.build_with(&Common::default(), &Arc::default())
    }

    /// The same, whose functions count together with those of all nodes that have this, and whose packets
    /// are copied for the same readers.
    ///
    /// # Errors
    /// The parts do not go together.
    pub fn build_with(&self, common: &Common, mirror: &Arc<Mirror>) -> Result<Node, BuildError> {
        let (service, steering) = (&self.service, steering(&self.service)?);
        let workers = 0..service.slow_path.workers;
        let order = element_order(service);
        let whole_walk = (self.paths == Paths::Slow).then(|| WholeWalk {
            steering: steering.clone(),
            order,
        });
        let admission = admission(service)?;
        let elements = self.fast_elements()?;
        let mut path = FastPath::new(steering, admission, (elements, order), workers.len())
            .with_fragments(&needs_ports(service))
            .with_joints(steering::joints(service)?)
            .with_egress(Egress::new(service))
            .with_mirror(mirror);
        if let Some((queue, port)) = &self.parking {
            path = path.with_parking(ParkingStage::new(queue.clone(), *port)?);
        }
        if let Some(split) = &self.split {
            path = path.with_split(split.stage());
        }
        path.set_verifying(service.asks_for_checksums());
        path.set_egress_check(egress_check(service));
        let limits = Limits {
            ring_frames: service.link.ring_frames,
            is_lossless: true,
            is_replay: false,
        };
        let blueprint = self.blueprint();
        let worker = |_| {
            let worker = Worker::new(Arc::clone(&blueprint), whole_walk.clone())?;
            Ok::<_, BuildError>(worker.with_common(common))
        };
        let worker = |number| Ok::<_, BuildError>(worker(number)?.with_mirror(mirror));
        Ok(Node {
            machine: Machine::new(path, self.buffers.pools(), limits),
            workers: workers.clone().map(worker).collect::<Result<_, _>>()?,
            worker_pools: workers.map(|_| self.worker_buffers.pools()).collect(),
            cpus: Vec::new(),
            shard: None,
        })
    }

    fn fast_elements(&self) -> Result<Vec<FastElement>, BuildError> {
        let elements = elements(&self.service).zip(&self.has_room);
        elements
            .map(|(instances, has_room)| self.fast_element(instances, *has_room))
            .collect()
    }

    /// An element on the fast path; `has_room` if its flow state has room there.
    ///
    /// # Errors
    /// The programs of its functions do not fit each other.
    pub(crate) fn fast_element(
        &self,
        instances: &[Instance],
        has_room: bool,
    ) -> Result<FastElement, BuildError> {
        Ok(match instances[0].form() {
            Form::Dash if self.paths == Paths::Both => {
                let dpu = self
                    .dash(&instances[0])?
                    .fast(seed_of(&self.service, &instances[0]));
                FastElement::Dash(Box::new(DashStage::new(dpu)))
            }
            Form::Rules if self.slow_rules.caching => {
                let table = RuleTable::new(self.rule_table);
                FastElement::Rules(Box::new(RuleStage::new(table)))
            }
            Form::Flow if has_room => {
                let programs = element_chain(&self.service, instances)?.programs();
                let interpreter = Interpreter::new(&programs)?;
                let config = coherence(&self.service);
                let stage = StateStage::new(config, interpreter, self.service.seed);
                FastElement::State(Box::new(stage))
            }
            _ => FastElement::OnSlowPath,
        })
    }

    /// What makes a worker's elements.
    pub(crate) fn blueprint(&self) -> Blueprint {
        let config = self.clone();
        Arc::new(move || config.slow_elements())
    }

    fn slow_elements(&self) -> Result<Vec<SlowElement>, BuildError> {
        let element = |instances: &[Instance]| {
            Ok(match instances[0].form() {
                Form::Dash => SlowElement::Dash(Box::new(self.slow_dash(&instances[0])?)),
                Form::Rules => {
                    let mut rules = self.slow_rules(instances);
                    rules.exchange_functions(rule_functions(&self.service, instances)?);
                    SlowElement::Rules(rules)
                }
                Form::Flow => SlowElement::Flows(Box::new(slow_flows(&self.service, instances)?)),
            })
        };
        elements(&self.service).map(element).collect()
    }

    /// A DPU's configuration.
    fn dash<'i>(&self, instance: &'i Instance) -> Result<&'i dash::Config, BuildError> {
        let config = instance.config.of::<dash::Config>();
        config.ok_or_else(|| BuildError::MakesRules(instance.name.to_string()))
    }

    /// A DPU on the slow path.
    pub(crate) fn slow_dash(&self, instance: &Instance) -> Result<SlowDash, BuildError> {
        let seed = seed_of(&self.service, instance);
        Ok(SlowDash::new(self.dash(instance)?.slow(seed)))
    }

    /// An element whose decisions are cached, on the slow path, still without functions.
    pub(crate) fn slow_rules(&self, instances: &[Instance]) -> Box<SlowRules> {
        let rules = SlowRules::new(self.slow_rules, Sides::KNOWN, Vec::new());
        let last = instances.iter().filter(|one| one.decides_last()).count();
        Box::new(rules.with_last(last))
    }
}

/// Builds a node.
///
/// # Errors
/// The service is sound as a file, but its parts do not go together.
pub fn build(service: &Service, paths: Paths) -> Result<Node, BuildError> {
    NodeConfig::of(service, paths)?.build()
}

impl Node {
    /// Follows packets, by their numbers in the order of arrival.
    pub fn watch(&mut self, packets: Range<u64>) -> Watch {
        let watch = self.watch_of(packets);
        self.tell(watch)
    }

    /// The same of packets that pass elements as if nobody followed them ([`Watch::of_loop`]): for the
    /// test that checks the order in which the loop over a lane takes packets.
    pub fn watch_loop(&mut self, packets: Range<u64>) -> Watch {
        let watch = self.watch_of(packets).of_loop();
        self.tell(watch)
    }

    fn watch_of(&self, packets: Range<u64>) -> Watch {
        let elements = self.workers.first().map_or(&[][..], Worker::elements);
        Watch::new(elements.iter().map(names).collect(), packets)
    }

    fn tell(&mut self, watch: Watch) -> Watch {
        self.machine.watch(watch.clone());
        for worker in &mut self.workers {
            worker.watch(watch.clone());
        }
        watch
    }
}

/// What an element's functions and state words are called.
fn names(element: &SlowElement) -> Names {
    match element {
        SlowElement::Rules(rules) => Names {
            functions: names_of(rules.functions()),
            words: Vec::new(),
        },
        SlowElement::Dash(_) => Names {
            functions: vec![dash::NAME.into()],
            words: Vec::new(),
        },
        SlowElement::Flows(flows) => Names {
            functions: names_of(flows.chain().functions()),
            words: flows
                .chain()
                .programs()
                .iter()
                .flat_map(names_of_words)
                .collect(),
        },
    }
}

fn names_of<F: ?Sized>(functions: &[Named<F>]) -> Vec<String> {
    let names = functions.iter().map(|function| function.name.to_string());
    names.collect()
}

fn names_of_words(program: &FastProgram) -> Vec<(String, &'static str)> {
    let words = program.words.iter();
    words
        .map(|word| (program.name.to_string(), word.name))
        .collect()
}
