//! What a collector hears of flows and bindings, while the run goes on and when it ends.

use super::{Control, thread};
use crate::command::Command;
use crate::counted::each_record;
use crate::ipfix::Exporter;
use crate::wiring::Node;
use crate::worker::Worker;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as WallClock};
use twinpath_control::service::{Instance, Service};
use twinpath_core::Named;
use twinpath_nf::descriptor::FunctionConfig;
use twinpath_nf::records::{BindingEvents, FlowRecord, Page};
use twinpath_rulecache::RuleFunction;

/// How often it is looked what has ended.
const INTERVAL: Duration = Duration::from_millis(200);

/// Records that are taken at a time.
const PART: usize = 1024;

/// Parts that are taken in a row.
const MOST_PARTS: usize = 256;

/// Between two parts of what is told at the end: a collector's buffer is not to run over.
const PAUSE: Duration = Duration::from_millis(1);

/// How long that holds: a service manager waits for an end for so long and more.
const LONGEST_PAUSES: Duration = Duration::from_secs(10);

/// A function that a change has taken out.
pub(super) struct Left {
    /// Where in the chain it was.
    place: usize,
    config: Arc<dyn FunctionConfig>,
    function: Box<dyn RuleFunction>,
}

/// Tells a collector, on a thread of its own, until it is over; then the exporter comes back.
pub(super) fn export(
    control: Arc<Control>,
    exporter: Exporter,
    is_over: Arc<AtomicBool>,
) -> io::Result<JoinHandle<Exporter>> {
    let active = control.service().ipfix.active_timeout.duration();
    let run = move || {
        let mut exporter = exporter;
        let mut next_active = WallClock::now() + active;
        while !is_over.load(Ordering::Acquire) {
            // A run that is over has nothing more to tell here.
            let _ = control.tell_ended(&mut exporter);
            if WallClock::now() >= next_active {
                next_active = WallClock::now() + active;
                let _ = control.tell_active(&mut exporter);
            }
            control.tell_left(&mut exporter);
            exporter.flush();
            control.tell_exported(exporter.counters());
            std::thread::sleep(INTERVAL);
        }
        control.tell_left(&mut exporter);
        exporter
    };
    thread("ipfix").spawn(run)
}

/// The run is over: what is still there is told, by whoever has the node.
pub(crate) fn export_rest(exporter: &mut Exporter, service: &Service, node: &mut Node) {
    export_counted(exporter, service, node);
    let workers = &mut node.workers;
    let Some(worker) = workers.first_mut() else {
        return;
    };
    for (place, function) in service.chain.iter().enumerate() {
        if let Some(running) = worker.function_mut(place) {
            export_function(exporter, (place, &*function.config), running);
        }
    }
    exporter.flush();
}

/// Whatever a function that is over has.
fn export_function(
    exporter: &mut Exporter,
    (place, config): (usize, &dyn FunctionConfig),
    function: &mut dyn RuleFunction,
) {
    let mut from = Some(0);
    while let Some(first) = from {
        let page = config.flow_records(function, first, PART as u32);
        from = page.as_ref().and_then(|page| page.next);
        for record in page.map_or_else(Vec::new, |page| page.items) {
            exporter.ended(place, record, true);
        }
    }
    end_bindings(exporter, config, function);
}

/// What became of the bindings of a function that is over, and that those which are left end.
fn end_bindings(
    exporter: &mut Exporter,
    config: &dyn FunctionConfig,
    function: &mut dyn RuleFunction,
) {
    let began = WallClock::now();
    let mut from = Some(0);
    loop {
        while let Some(events) = config.take_binding_events(function, PART)
            && !events.events.is_empty()
        {
            exporter.bindings(&events);
            if began.elapsed() < LONGEST_PAUSES {
                std::thread::sleep(PAUSE);
            }
        }
        let Some(first) = from else {
            return;
        };
        from = config.end_all_bindings(function, first, PART as u32);
    }
}

/// Records that have ended, and those that functions keep in the state of flows.
fn export_counted(exporter: &mut Exporter, service: &Service, node: &mut Node) {
    for worker in &mut node.workers {
        for (place, one) in service.chain.iter().enumerate() {
            let Some(function) = worker.any_function_mut(place) else {
                continue;
            };
            while let Some(ended) = one.config.take_ended_flows(function, PART)
                && !ended.is_empty()
            {
                let each = ended.into_iter();
                each.for_each(|record| exporter.ended(place, record, false));
            }
        }
    }
    each_record(
        service,
        &node.machine,
        &node.workers,
        &mut |place, record| {
            exporter.ended(place, record, true);
        },
    );
}

impl Control {
    /// Functions of the chain that there still is are over: a collector will be told what they have.
    pub(super) fn keep_left(&self, functions: Vec<Named<dyn RuleFunction>>) {
        if self.exported().is_none() {
            return;
        }
        let service = self.service();
        let left = functions
            .into_iter()
            .filter_map(|Named { name, function }| {
                let mut chain = service.chain.iter();
                let place = chain.position(|instance| instance.name == name)?;
                let config = Arc::clone(&service.chain[place].config);
                Some(Left {
                    place,
                    config,
                    function,
                })
            });
        let left: Vec<Left> = left.collect();
        self.left().extend(left);
    }

    fn tell_left(&self, exporter: &mut Exporter) {
        let left = std::mem::take(&mut *self.left());
        for mut one in left {
            let ended = one
                .config
                .take_ended_flows(one.function.as_mut(), usize::MAX);
            for record in ended.unwrap_or_default() {
                exporter.ended(one.place, record, false);
            }
            let running = (one.place, &*one.config);
            export_function(exporter, running, one.function.as_mut());
        }
    }

    fn left(&self) -> MutexGuard<'_, Vec<Left>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_ended(&self, exporter: &mut Exporter) -> Result<(), String> {
        let service = self.service();
        for (place, function) in service.chain.iter().enumerate() {
            let workers = match function.makes_rules() {
                true => 1,
                false => service.slow_path.workers,
            };
            for worker in 0..workers {
                self.take_all(
                    (worker, place),
                    function,
                    |config, worker, place| {
                        config.take_ended_flows(worker.any_function_mut(place)?, PART)
                    },
                    &mut |ended: Vec<FlowRecord>| {
                        let is_last = ended.len() < PART;
                        for record in ended {
                            exporter.ended(place, record, false);
                        }
                        is_last
                    },
                )?;
            }
        }
        for (place, function) in rule_functions(&service) {
            self.take_all(
                (0, place),
                function,
                |config, worker, place| {
                    config.take_binding_events(worker.function_mut(place)?, PART)
                },
                &mut |events: BindingEvents| {
                    exporter.bindings(&events);
                    events.events.len() < PART
                },
            )?;
        }
        Ok(())
    }

    fn tell_active(&self, exporter: &mut Exporter) -> Result<(), String> {
        let service = self.service();
        exporter.begin_active();
        for (place, function) in rule_functions(&service) {
            let page = |config: &dyn FunctionConfig, function: &dyn RuleFunction, from| {
                let page: Option<Page<_>> = config.flow_records(function, from, PART as u32);
                page
            };
            self.pages(place, function, page, &mut |record, _| {
                exporter.active(place, record);
                true
            })?;
        }
        Ok(())
    }

    /// Takes something of a function in each shard, a part at a time, until there is no more of it.
    fn take_all<T: Send + 'static>(
        &self,
        (worker, place): (usize, usize),
        function: &Instance,
        take: impl Fn(&dyn FunctionConfig, &mut Worker, usize) -> Option<T> + Copy + Send + 'static,
        is_last: &mut dyn FnMut(T) -> bool,
    ) -> Result<(), String> {
        for shard in 0..self.shards() {
            for _ in 0..MOST_PARTS {
                let config = Arc::clone(&function.config);
                let take = move |worker: &mut Worker| take(&*config, worker, place);
                let taken = self.take_of_worker((shard, worker), take)?;
                if taken.is_none_or(&mut *is_last) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// What a worker of a shard gives away; the first has the functions which make rules.
    pub(super) fn take_of_worker<T: Send + 'static>(
        &self,
        (shard, worker): (usize, usize),
        take: impl FnOnce(&mut Worker) -> T + Send + 'static,
    ) -> Result<T, String> {
        let (sender, receiver) = mpsc::channel();
        let take = move |worker: &mut Worker| drop(sender.send(take(worker)));
        self.tell(shard, Command::Take(worker, Box::new(take)))?;
        receiver
            .recv_timeout(super::TIMEOUT)
            .map_err(|_| super::over())
    }
}

fn rule_functions(service: &Service) -> impl Iterator<Item = (usize, &Instance)> {
    let functions = service.chain.iter().enumerate();
    functions.filter(|(_, function)| function.makes_rules())
}
