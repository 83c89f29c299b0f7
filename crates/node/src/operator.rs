//! Answers an operator while a service runs: over a local socket, one request and one answer for
//! each connection, several connections at the same time; and a signal that asks for the service
//! file to be read again.
//!
//! Requests are read, and new functions built, on threads of their own; the paths' threads only
//! do what nobody else can, between two batches. Files that a request names are not opened here: the
//! operator's command reads them, with the operator's rights, and sends what they say.

mod change;
mod clients;
mod dash;
mod export;
mod listing;
mod look;
mod rules;
mod socket;
mod stream;

use crate::command::{Command, Commands};
use crate::figures;
use crate::health::Health;
use crate::http::Server;
use crate::ipfix::Exporter;
use crate::kernel::KernelFollower;
use crate::metrics;
use crate::mirror::Mirror;
use crate::shards::CurrentPartition;
use crate::worker::Worker;
use change::Unanswered;
use clients::{Clients, Streaming};
use export::Left;
use rules::{MOST_RULES, PortNames, check_element, views};
use socket::Socket;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use twinpath_control::look::Stream;
use twinpath_control::operator::{Answer, Applied, Filter, Request};
use twinpath_control::report::{ControlCounters, ExportCounters, Report};
use twinpath_control::service::{Fault, Instance, RuleLines, Service};
use twinpath_core::Instant;
use twinpath_nf::bindings::Bindings;
use twinpath_nf::edit::Object;
use twinpath_nf::similar::did_you_mean;

/// How an operator is heard.
#[derive(Default)]
pub struct Access<'a> {
    /// The local socket, and the group whose members may use it beside the user and the superuser.
    pub socket: Option<(&'a Path, Option<u32>)>,
    /// Where the operator says that the service file is to be read again.
    pub reload: Option<Reload>,
    /// Where figures are told over HTTP, and how the run is.
    pub metrics: Option<(SocketAddr, Arc<Mutex<Health>>)>,
    /// What figures are of.
    pub report: Report,
    /// Who copies packets.
    pub mirror: Arc<Mirror>,
    /// Who tells a collector.
    pub exporter: Option<Exporter>,
    /// Which shard packets belong to, if there are several.
    pub partition: Option<CurrentPartition>,
    /// Whoever follows the kernel's routes, which change the service as an operator does.
    pub(crate) kernel: Option<KernelFollower>,
}

/// The service file is to be read again when somebody says so.
pub struct Reload {
    /// Becomes true then.
    pub is_asked: Arc<AtomicBool>,
    /// Hears that it begins.
    pub begin: Box<dyn Fn() + Send>,
    /// Hears what came of it.
    pub tell: Box<dyn Fn(Result<Reloaded, String>) + Send>,
}

/// What came of a service file that was read again.
pub struct Reloaded {
    /// The file.
    pub path: PathBuf,
    /// What it changed.
    pub applied: Applied,
    /// What is sound in it and yet probably not meant so.
    pub warnings: Vec<Fault>,
}

/// Why nobody can be heard.
#[derive(Debug)]
pub enum ListenError {
    /// The socket cannot be made, or another service listens there.
    Socket(io::Error),
    /// The address for figures cannot be had.
    Metrics(SocketAddr, io::Error),
}

impl From<io::Error> for ListenError {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}

/// Hears an operator; its socket is closed and removed when dropped.
pub struct Operator {
    is_over: Arc<AtomicBool>,
    clients: Option<JoinHandle<ControlCounters>>,
    reload: Option<JoinHandle<()>>,
    metrics: Option<Server>,
    exporter: Option<JoinHandle<Exporter>>,
    kernel: Option<JoinHandle<()>>,
}

impl Operator {
    /// Listens for requests about a service that is about to run, each of its shards with these commands.
    ///
    /// # Errors
    /// The socket cannot be made, or another service listens there.
    pub fn listen(
        access: Access<'_>,
        service: &Service,
    ) -> Result<(Self, Vec<Commands>), ListenError> {
        let socket = access.socket;
        let socket = socket.map(|(path, group)| Socket::listen(path, group));
        let socket = socket.transpose()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let shards = (0..service.run.shards.0).map(|_| mpsc::channel());
        let (shards, receivers): (Vec<_>, Vec<_>) = shards.unzip();
        let control = Arc::new(Control {
            service: Mutex::new(Arc::new(service.clone())),
            shards,
            partition: access.partition,
            change: Mutex::new(None),
            report: access.report,
            mirror: access.mirror,
            exported: Mutex::new(access.exporter.as_ref().map(Exporter::counters)),
            left: Mutex::default(),
        });
        let mut operator = Self {
            is_over,
            clients: None,
            reload: None,
            metrics: None,
            exporter: None,
            kernel: None,
        };
        if let Some(socket) = socket {
            let (control, over) = (Arc::clone(&control), Arc::clone(&operator.is_over));
            let serve = move || serve(control, &socket, &over);
            operator.clients = Some(thread("operator").spawn(serve)?);
        }
        if let Some((address, health)) = access.metrics {
            let control = Arc::clone(&control);
            let figures = Box::new(move || control.figures());
            let server = metrics::listen(address, health, figures);
            let server = server.map_err(|error| ListenError::Metrics(address, error))?;
            let address = server.address();
            tracing::info!(%address, "figures are told over HTTP");
            operator.metrics = Some(server);
        }
        if let Some(exporter) = access.exporter {
            let (control, over) = (Arc::clone(&control), Arc::clone(&operator.is_over));
            operator.exporter = Some(export::export(control, exporter, over)?);
        }
        if let Some(following) = access.kernel {
            let (control, over) = (Arc::clone(&control), Arc::clone(&operator.is_over));
            let follow = move || following.run(&*control, &over);
            let follow = thread("kernel").spawn(follow);
            operator.kernel = Some(follow.map_err(ListenError::Socket)?);
        }
        if let Some(reload) = access.reload {
            let over = Arc::clone(&operator.is_over);
            let reload = move || reload.reload_when_asked(&control, &over);
            operator.reload = Some(thread("reload").spawn(reload)?);
        }
        Ok((operator, receivers))
    }

    /// Ends it, and tells what it did; who tells a collector may have more to tell.
    pub(crate) fn finish(mut self) -> (ControlCounters, Option<Exporter>) {
        let counters = self.end();
        let exporter = self.exporter.take().map(JoinHandle::join);
        (counters, exporter.and_then(Result::ok))
    }

    fn end(&mut self) -> ControlCounters {
        self.is_over.store(true, Ordering::Release);
        self.metrics = None;
        // All end within an interval, or when what they do is done; a panic has been told already.
        for thread in [self.reload.take(), self.kernel.take()] {
            drop(thread.map(JoinHandle::join));
        }
        let served = self.clients.take().map(JoinHandle::join);
        served.and_then(Result::ok).unwrap_or_default()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.end();
    }
}

/// How often it is looked whether somebody wants something.
const INTERVAL: Duration = Duration::from_millis(5);

/// How long a path may take to do something.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How long a party of the run may take to tell its figures.
const FIGURES_TIME: Duration = Duration::from_secs(2);

/// How long those who are being answered are waited for at the end.
const END_TIME: Duration = Duration::from_secs(2);

fn thread(name: &str) -> std::thread::Builder {
    std::thread::Builder::new().name(name.into())
}

/// Hears whoever connects.
fn serve(control: Arc<Control>, socket: &Socket, is_over: &AtomicBool) -> ControlCounters {
    let clients = Clients::new(control);
    while !is_over.load(Ordering::Acquire) {
        match socket.listener.accept() {
            Ok((client, _)) => clients.serve(client, socket),
            Err(_) => std::thread::sleep(INTERVAL),
        }
    }
    clients.end(END_TIME)
}

impl Reload {
    /// Reads the file again whenever somebody says so.
    fn reload_when_asked(&self, control: &Control, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Acquire) {
            match self.is_asked.swap(false, Ordering::AcqRel) {
                true => {
                    (self.begin)();
                    let reloaded = catch_unwind(AssertUnwindSafe(|| control.reload()));
                    (self.tell)(reloaded.unwrap_or_else(|_| Err(defect())));
                }
                false => std::thread::sleep(INTERVAL),
            }
        }
    }
}

/// Answers requests, changes one after the other.
struct Control {
    service: Mutex<Arc<Service>>,
    /// Where each shard hears commands.
    shards: Vec<mpsc::Sender<Command>>,
    /// Which shard packets belong to, if there are several.
    partition: Option<CurrentPartition>,
    /// Held by whoever changes the service.
    change: Mutex<Option<Unanswered>>,
    /// What was run.
    report: Report,
    mirror: Arc<Mirror>,
    /// What a collector was told so far.
    exported: Mutex<Option<ExportCounters>>,
    /// Functions that a change has taken out, and of which a collector is to be told the rest.
    left: Mutex<Vec<Left>>,
}

impl clients::Service for Control {
    fn open(&self, stream: &Stream) -> Result<Box<dyn Streaming>, String> {
        self.open_stream(stream)
    }

    fn answer(&self, request: Request) -> Result<Answer, String> {
        match request {
            Request::Rules(filter) => self.rules(filter),
            Request::Apply { text, path, files } => {
                let applied = self.apply(&text, &path, &files);
                applied.map(Answer::applied)
            }
            Request::DashApply { files } => self.apply_dash(&files).map(Answer::applied),
            Request::Change { function, change } => {
                let applied = self.change(function.as_deref(), &change);
                applied.map(Answer::applied)
            }
            Request::EndBinding {
                function,
                endpoint,
                protocol,
            } => {
                let applied = self.end_binding(function.as_deref(), &endpoint, protocol.as_deref());
                applied.map(Answer::applied)
            }
            Request::Look(look) => self.look(look),
            // It is opened before it comes here.
            Request::Stream(_) => Err("expected a client that listens".into()),
            Request::List { function, object } => self.list(function.as_deref(), object),
        }
    }
}

impl Control {
    fn service(&self) -> Arc<Service> {
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&service)
    }

    fn becomes(&self, new: Arc<Service>) {
        *self.service.lock().unwrap_or_else(PoisonError::into_inner) = new;
    }

    fn rules(&self, filter: Filter) -> Result<Answer, String> {
        if let Some(name) = &filter.function {
            self.check_function(name)?;
        }
        let (mut rules, mut matching) = (Vec::new(), 0);
        let ports = PortNames::of(&self.service());
        for shard in 0..self.shards() {
            let (wanted, ports) = (filter.clone(), ports.clone());
            let found = self.ask(shard, move |worker, now| {
                check_element(worker, &wanted).map(|()| views(worker, &wanted, &ports, now))
            })??;
            rules.extend(found.rules);
            matching += found.matching;
        }
        if self.shards() > 1 {
            rules.sort_by_key(|rule| std::cmp::Reverse(rule.packets));
            rules.truncate(filter.most.unwrap_or(MOST_RULES).min(MOST_RULES));
        }
        let lines = RuleLines::of(&self.service());
        for entry in rules.iter_mut().flat_map(|rule| &mut rule.entries) {
            let text = entry.text.as_deref();
            entry.line = text.and_then(|text| lines.line(&entry.function, text));
        }
        let caches_none = !self.service().chain.iter().any(Instance::makes_rules);
        Ok(Answer::Rules {
            rules,
            matching,
            caches_none,
        })
    }

    /// Whether the chain has a function of this name.
    fn check_function(&self, name: &str) -> Result<(), String> {
        let service = self.service();
        let known: Vec<&str> = service.chain.iter().map(|one| &*one.name).collect();
        if known.contains(&name) {
            return Ok(());
        }
        let meant = did_you_mean(name, known.iter().copied());
        Err(format!(
            "the chain has no function called {name:?}{meant}\nexpected one of: {}",
            known.join(", ")
        ))
    }

    /// What a report would say now.
    fn figures(&self) -> Result<Report, String> {
        let mut told = Vec::new();
        for shard in 0..self.shards() {
            let (sender, receiver) = mpsc::channel();
            self.tell(shard, Command::Figures(sender))?;
            told.push(receiver);
        }
        let mut report = self.report.clone();
        report.ipfix = *self.exported();
        let report = figures::gather(&told, FIGURES_TIME, report);
        report.ok_or_else(|| "the data plane does not answer".into())
    }

    fn exported(&self) -> MutexGuard<'_, Option<ExportCounters>> {
        self.exported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A collector was told so much.
    fn tell_exported(&self, counters: ExportCounters) {
        *self.exported() = Some(counters);
    }

    /// How many shards there are.
    fn shards(&self) -> usize {
        self.shards.len()
    }

    /// What the worker of a shard knows that has the functions which make rules.
    fn ask<T: Send + 'static>(
        &self,
        shard: usize,
        question: impl FnOnce(&Worker, Instant) -> T + Send + 'static,
    ) -> Result<T, String> {
        self.ask_worker((shard, 0), question)
    }

    /// What a worker of a shard knows.
    fn ask_worker<T: Send + 'static>(
        &self,
        (shard, worker): (usize, usize),
        question: impl FnOnce(&Worker, Instant) -> T + Send + 'static,
    ) -> Result<T, String> {
        let (sender, receiver) = mpsc::channel();
        let question =
            move |worker: &Worker, now: Instant| drop(sender.send(question(worker, now)));
        self.tell(shard, Command::Ask(worker, Box::new(question)))?;
        receiver.recv_timeout(TIMEOUT).map_err(|_| over())
    }

    fn tell(&self, shard: usize, command: Command) -> Result<(), String> {
        let shard = self.shards.get(shard).ok_or_else(over)?;
        shard.send(command).map_err(|_| over())
    }

    fn list(&self, function: Option<&str>, object: Object) -> Result<Answer, String> {
        let service = self.service();
        let (place, function) = service.function_with(function, object).map_err(told)?;
        let lines = match object {
            Object::Binding => self.bindings_told(function, place)?,
            _ => function.config.listed(object),
        };
        Ok(Answer::Listed {
            function: function.name.to_string(),
            lines,
        })
    }

    fn bindings_told(&self, function: &Instance, place: usize) -> Result<Vec<String>, String> {
        let mut told = Vec::new();
        for shard in 0..self.shards() {
            told.extend(self.ask_translation(shard, function, place, |bindings| bindings.told())?);
        }
        Ok(told)
    }

    /// What a translation knows of its bindings that is at this place of the chain.
    fn ask_translation<T: Send + 'static>(
        &self,
        shard: usize,
        function: &Instance,
        place: usize,
        question: impl FnOnce(&dyn Bindings) -> T + Send + 'static,
    ) -> Result<T, String> {
        let config = Arc::clone(&function.config);
        let answer = self.ask(shard, move |worker, _| {
            config.bindings(worker.function(place)?).map(question)
        })?;
        answer.ok_or_else(has_no_bindings)
    }
}

pub(crate) use export::export_rest;

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// What is said of a panic.
fn defect() -> String {
    "it failed, which is a defect of the service; the service goes on as it was".into()
}

fn has_no_bindings() -> String {
    "there is no address translation".into()
}

fn over() -> String {
    "the run is over".into()
}
