//! Answers an operator while a service runs: over a local socket, one request and one answer for
//! each connection, several connections at the same time; and a signal that asks for the service
//! file to be read again.
//!
//! Requests are read, and new functions built, on threads of their own; the paths' threads only
//! do what nobody else can, between two batches. Files that a request names are not opened here: the
//! operator's command reads them, with the operator's rights, and sends what they say.

mod clients;
mod export;
mod look;
mod rules;
mod socket;
mod stream;

use crate::command::{Command, Commands, Replaced};
use crate::figures;
use crate::health::Health;
use crate::http::Server;
use crate::ipfix::Exporter;
use crate::kernel::Following;
use crate::machine::{Changed, Refusal};
use crate::metrics;
use crate::mirror::Mirror;
use crate::replacement::Replacement;
use crate::worker::Worker;
use clients::{Clients, Streaming};
use rules::views;
use socket::Socket;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as WallClock};
use twinpath_control::look::Stream;
use twinpath_control::operator::{Answer, Applied, Filter, Request};
use twinpath_control::report::{ControlCounters, ExportCounters, Report};
use twinpath_control::service::{Fault, Instance, RuleLines, Service, ServiceError, warnings};
use twinpath_core::Instant;
use twinpath_core::wire::Endpoint;
use twinpath_nf::bindings::{Bindings, EndBindings, Kind, KindError};
use twinpath_nf::edit::{Edit, Object};
use twinpath_nf::files::{Disk, Files};

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
    /// Whoever follows the kernel's routes, which change the service as an operator does.
    pub(crate) kernel: Option<Following>,
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
    /// Listens for requests about a service that is about to run with these commands.
    ///
    /// # Errors
    /// The socket cannot be made, or another service listens there.
    pub fn listen(access: Access<'_>, service: &Service) -> Result<(Self, Commands), ListenError> {
        let socket = access.socket;
        let socket = socket.map(|(path, group)| Socket::listen(path, group));
        let socket = socket.transpose()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (commands, receiver) = mpsc::channel();
        let control = Arc::new(Control {
            service: Mutex::new(Arc::new(service.clone())),
            commands,
            change: Mutex::new(None),
            report: access.report,
            mirror: access.mirror,
            exported: Mutex::new(access.exporter.as_ref().map(Exporter::counters)),
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
        Ok((operator, receiver))
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

/// How often a change is tried that finds another under way.
const ATTEMPTS: usize = 100;

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
    commands: mpsc::Sender<Command>,
    /// Held by whoever changes the service.
    change: Mutex<Option<Unanswered>>,
    /// What was run.
    report: Report,
    mirror: Arc<Mirror>,
    /// What a collector was told so far.
    exported: Mutex<Option<ExportCounters>>,
}

/// A change that the run has not answered in time, and what the service is if it is made.
struct Unanswered {
    answer: mpsc::Receiver<Replaced>,
    new: Arc<Service>,
}

/// The right to change the service.
type Changing<'a> = MutexGuard<'a, Option<Unanswered>>;

impl clients::Service for Control {
    fn open(&self, stream: &Stream) -> Result<Box<dyn Streaming>, String> {
        self.open_stream(stream)
    }

    fn answer(&self, request: Request) -> Result<Answer, String> {
        match request {
            Request::Rules(filter) => self.rules(filter),
            Request::Apply { text, path, files } => {
                let applied = self.apply(&text, &path, &files);
                applied.map(Answer::Applied)
            }
            Request::Change { function, change } => {
                let applied = self.change(function.as_deref(), &change);
                applied.map(Answer::Applied)
            }
            Request::EndBinding {
                function,
                endpoint,
                protocol,
            } => {
                let applied = self.end_binding(function.as_deref(), &endpoint, protocol.as_deref());
                applied.map(Answer::Applied)
            }
            Request::Look(look) => self.look(look),
            // It is opened before it comes here.
            Request::Stream(_) => Err("expected a client that listens".into()),
            Request::List { function, object } => self.list(function.as_deref(), object),
        }
    }
}

impl crate::kernel::Changes for Control {
    fn learn(&self, lesson: &mut dyn FnMut(&Service) -> Service) -> Result<Applied, String> {
        let mut changing = self.begin_change()?;
        let old = self.service();
        let new = lesson(&old);
        let replacement = Replacement::between(&old, &new).map_err(told)?;
        self.make(replacement, new, &mut changing)
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
        let found = self.ask(move |worker, now| views(worker, &filter, now))?;
        let (mut rules, matching) = (found.rules, found.matching);
        let lines = RuleLines::of(&self.service());
        for entry in rules.iter_mut().flat_map(|rule| &mut rule.entries) {
            let text = entry.text.as_deref().filter(|_| entry.rule.is_some());
            entry.line = text.and_then(|text| lines.line(&entry.function, text));
        }
        let caches_none = !self.service().chain.iter().any(Instance::makes_rules);
        Ok(Answer::Rules {
            rules,
            matching,
            caches_none,
        })
    }

    /// What a report would say now.
    fn figures(&self) -> Result<Report, String> {
        let (sender, told) = mpsc::channel();
        self.commands
            .send(Command::Figures(sender))
            .map_err(|_| over())?;
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

    /// What the worker knows that has the functions which make rules.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Worker, Instant) -> T + Send + 'static,
    ) -> Result<T, String> {
        self.ask_worker(0, question)
    }

    /// What a worker knows.
    fn ask_worker<T: Send + 'static>(
        &self,
        worker: usize,
        question: impl FnOnce(&Worker, Instant) -> T + Send + 'static,
    ) -> Result<T, String> {
        let (sender, receiver) = mpsc::channel();
        let question =
            move |worker: &Worker, now: Instant| drop(sender.send(question(worker, now)));
        self.commands
            .send(Command::Ask(worker, Box::new(question)))
            .map_err(|_| over())?;
        receiver.recv_timeout(TIMEOUT).map_err(|_| over())
    }

    /// The service file that the service is made of now is read again, with the rights of the service:
    /// the one that the run began with, or the one that was applied last.
    fn reload(&self) -> Result<Reloaded, String> {
        let path = self.service().file.path.to_path_buf();
        let text = Disk.read(&path);
        let text = text.map_err(|error| told(ServiceError::unreadable(&path, error)))?;
        let applied = self.apply(&text, &path, &Disk)?;
        let warnings = warnings(&self.service());
        Ok(Reloaded {
            path,
            applied,
            warnings,
        })
    }

    fn apply(&self, text: &str, path: &Path, files: &dyn Files) -> Result<Applied, String> {
        let mut changing = self.begin_change()?;
        let old = self.service();
        let mut new = Service::parse_with(text, path, files).map_err(told)?;
        // What the command line said stays.
        (new.run, new.seed) = (old.run, old.seed);
        new.follow(&old).map_err(told)?;
        let replacement = Replacement::between(&old, &new)
            .map_err(|error| told(new.wrong_at(&error.keys(), error.to_string())))?;
        self.make(replacement, new, &mut changing)
    }

    fn change(&self, function: Option<&str>, edit: &Edit) -> Result<Applied, String> {
        let mut changing = self.begin_change()?;
        let old = self.service();
        let new = old.edited(function, edit).map_err(told)?;
        let replacement = Replacement::between(&old, &new).map_err(told)?;
        self.make(replacement, new, &mut changing)
    }

    fn list(&self, function: Option<&str>, object: Object) -> Result<Answer, String> {
        let service = self.service();
        let (place, function) = service.function_with(function, object).map_err(told)?;
        let lines = match object {
            Object::Binding => self.ask_translation(function, place, |bindings| bindings.told())?,
            _ => function.config.listed(object),
        };
        Ok(Answer::Listed {
            function: function.name.to_string(),
            lines,
        })
    }

    fn end_binding(
        &self,
        function: Option<&str>,
        endpoint: &str,
        protocol: Option<&str>,
    ) -> Result<Applied, String> {
        let mut changing = self.begin_change()?;
        let service = self.service();
        let (place, function) = service
            .function_with(function, Object::Binding)
            .map_err(told)?;
        let endpoint: Endpoint = endpoint
            .parse()
            .map_err(|why| format!("{endpoint:?} is {why}"))?;
        let kind = |text: &str| {
            text.parse()
                .map_err(|why: KindError| format!("{text:?} is {why}"))
        };
        let kind: Option<Kind> = protocol.map(kind).transpose()?;
        let which = EndBindings {
            internal: endpoint,
            kind,
        };
        if !self.ask_translation(function, place, move |bindings| bindings.has(which))? {
            let of = kind.map_or(String::new(), |kind| format!(" of {kind}"));
            return Err(format!("{endpoint} has no binding{of}"));
        }
        let change = function.config.end_bindings(which);
        let change = change.ok_or_else(has_no_bindings)?;
        let change = Replacement::of_function(&service, place, change).map_err(told)?;
        let same = Service::clone(&service);
        self.make(change, same, &mut changing)
    }

    /// What a translation knows of its bindings that is at this place of the chain.
    fn ask_translation<T: Send + 'static>(
        &self,
        function: &Instance,
        place: usize,
        question: impl FnOnce(&dyn Bindings) -> T + Send + 'static,
    ) -> Result<T, String> {
        let config = Arc::clone(&function.config);
        let answer =
            self.ask(move |worker, _| config.bindings(worker.function(place)?).map(question))?;
        answer.ok_or_else(has_no_bindings)
    }

    /// Nobody else changes the service until the guard is dropped.
    fn begin_change(&self) -> Result<Changing<'_>, String> {
        let until = WallClock::now() + TIMEOUT;
        let mut changing = loop {
            match self.change.try_lock() {
                Ok(changing) => break changing,
                // Whoever panicked has changed nothing.
                Err(TryLockError::Poisoned(changing)) => break changing.into_inner(),
                Err(TryLockError::WouldBlock) if WallClock::now() < until => {
                    std::thread::sleep(INTERVAL);
                }
                Err(TryLockError::WouldBlock) => return Err(Refusal::Busy.to_string()),
            }
        };
        self.hear_of_earlier_change(&mut changing)?;
        Ok(changing)
    }

    fn make(
        &self,
        mut replacement: Replacement,
        new: Service,
        changing: &mut Changing<'_>,
    ) -> Result<Applied, String> {
        let new = Arc::new(new);
        let mut applied = replacement.applied.clone();
        applied.is_same = replacement.is_empty();
        let is_other = whole(&self.service().file.path) != whole(&new.file.path);
        applied.file = is_other.then(|| new.file.path.to_path_buf());
        if !applied.is_same {
            replacement.touch();
            let done = self.replace(Box::new(replacement), &new, changing)?;
            applied.pause_ns = done.pause.as_nanos() as u64;
            (applied.rules_gone, applied.rules_kept) = (done.rules_gone, done.rules_kept);
        }
        self.becomes(new);
        let (kept, changed) = (applied.kept.join(","), applied.changed.join(","));
        let (added, removed) = (applied.new.join(","), applied.removed.join(","));
        let pause_us = applied.pause_ns / 1000;
        tracing::info!(kept, changed, added, removed, pause_us, "service changed");
        Ok(applied)
    }

    fn replace(
        &self,
        mut replacement: Box<Replacement>,
        new: &Arc<Service>,
        changing: &mut Changing<'_>,
    ) -> Result<Changed, String> {
        for _ in 0..ATTEMPTS {
            let (sender, answer) = mpsc::channel();
            self.commands
                .send(Command::Replace(replacement, sender))
                .map_err(|_| over())?;
            match answer.recv_timeout(TIMEOUT) {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err((returned, Refusal::Busy))) => replacement = returned,
                Ok(Err((_, why))) => return Err(why.to_string()),
                Err(RecvTimeoutError::Disconnected) => return Err(over()),
                Err(RecvTimeoutError::Timeout) => {
                    let new = Arc::clone(new);
                    **changing = Some(Unanswered { answer, new });
                    return Err(format!(
                        "the run has not answered for {} s: the change may still be made",
                        TIMEOUT.as_secs()
                    ));
                }
            }
            std::thread::sleep(INTERVAL);
        }
        Err(Refusal::Busy.to_string())
    }

    /// What the service is now may depend on a change that was not answered in time.
    fn hear_of_earlier_change(&self, changing: &mut Changing<'_>) -> Result<(), String> {
        let Some(Unanswered { answer, new }) = changing.take() else {
            return Ok(());
        };
        match answer.try_recv() {
            Ok(Ok(_)) => self.becomes(new),
            Ok(Err(_)) | Err(TryRecvError::Disconnected) => {}
            Err(TryRecvError::Empty) => {
                **changing = Some(Unanswered { answer, new });
                return Err("an earlier change is still being made".into());
            }
        }
        Ok(())
    }
}

/// A path from the root on: a run may have been given a shorter one.
fn whole(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.into())
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
