//! Answers an operator while a service runs: over a local socket, one request and one answer for
//! each connection.
//!
//! Requests are read, and new functions built, on a thread of their own; the paths' threads only
//! do what nobody else can, between two batches.

use crate::command::{Command, Commands, Replaced};
use crate::machine::{Changed, Refusal};
use crate::replacement::Replacement;
use crate::worker::Worker;
use std::any::Any;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, TryRecvError};
use std::thread::JoinHandle;
use std::time::Duration;
use twinpath_control::operator::{Answer, Filter, Request, RuleView, read_line, write_line};
use twinpath_control::service::Service;
use twinpath_core::wire::Address;
use twinpath_core::wire::Endpoint;
use twinpath_core::{Direction, Instant, Named};
use twinpath_nf::edit::{Edit, Object};
use twinpath_nf::napt::{Kind, KindError, Napt, NewNapt};
use twinpath_rulecache::{
    Action, CachedRule, EntryId, Field, NewRule, Reconfiguration, RuleFunction, words,
};

/// The socket of a running service; closed and removed when dropped.
pub struct Operator {
    path: PathBuf,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Operator {
    /// Listens at `path` for requests about a service that is about to run with these commands.
    ///
    /// # Errors
    /// The socket cannot be made, or another service listens there.
    pub fn listen(path: &Path, service: &Service) -> io::Result<(Self, Commands)> {
        let listener = bind(path)?;
        listener.set_nonblocking(true)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (commands, receiver) = mpsc::channel();
        let mut control = Control {
            service: service.clone(),
            commands,
            unanswered: None,
        };
        let over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || control.serve(&listener, &over));
        let operator = Self {
            path: path.into(),
            is_over,
            thread: Some(thread),
        };
        Ok((operator, receiver))
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // It ends within an interval; a panic there has been told already.
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A socket that nobody listens at any more is left over from a service that was killed. Any other
/// file is somebody's.
fn bind(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let is_socket = std::fs::symlink_metadata(path)?.file_type().is_socket();
            if !is_socket || UnixStream::connect(path).is_ok() {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    }
}

/// How often the listener looks for a connection.
const INTERVAL: Duration = Duration::from_millis(5);

/// How long a client may take to say what it wants and to hear the answer, and a path to do it.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How often a change is tried that finds another under way.
const ATTEMPTS: usize = 100;

/// Answers requests, one after the other.
struct Control {
    service: Service,
    commands: mpsc::Sender<Command>,
    /// A change that the run has not answered in time, and what the service is if it is made.
    unanswered: Option<(mpsc::Receiver<Replaced>, Box<Service>)>,
}

impl Control {
    fn serve(&mut self, listener: &UnixListener, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Acquire) {
            match listener.accept() {
                // A client that breaks off hears nothing, and that is all.
                Ok((client, _)) => drop(self.attend(client)),
                Err(_) => std::thread::sleep(INTERVAL),
            }
        }
    }

    fn attend(&mut self, mut client: UnixStream) -> io::Result<()> {
        client.set_nonblocking(false)?;
        client.set_read_timeout(Some(TIMEOUT))?;
        client.set_write_timeout(Some(TIMEOUT))?;
        let answer = match read_line(&client) {
            Ok(request) => self.answer(request),
            Err(error) => Err(format!("the request cannot be read: {error}")),
        };
        write_line(
            &mut client,
            &answer.unwrap_or_else(|message| Answer::Refused { message }),
        )
    }

    fn answer(&mut self, request: Request) -> Result<Answer, String> {
        match request {
            Request::Rules(filter) => self.rules(filter),
            Request::Apply { text, path } => self.apply(&text, &path),
            Request::Change { function, change } => self.change(function.as_deref(), &change),
            Request::EndBinding {
                function,
                endpoint,
                protocol,
            } => self.end_binding(function.as_deref(), &endpoint, protocol.as_deref()),
            Request::List { function, object } => self.list(function.as_deref(), object),
        }
    }

    fn rules(&self, filter: Filter) -> Result<Answer, String> {
        let rules = self.ask(move |worker| views(worker, &filter))?;
        Ok(Answer::Rules { rules })
    }

    /// What the worker knows that has the functions which make rules.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Worker) -> T + Send + 'static,
    ) -> Result<T, String> {
        let (sender, receiver) = mpsc::channel();
        let question = move |worker: &Worker| drop(sender.send(question(worker)));
        self.commands
            .send(Command::Ask(Box::new(question)))
            .map_err(|_| over())?;
        receiver.recv_timeout(TIMEOUT).map_err(|_| over())
    }

    fn apply(&mut self, text: &str, path: &Path) -> Result<Answer, String> {
        self.hear_of_earlier_change()?;
        let mut new = Service::parse(text, path).map_err(told)?;
        // What the command line said stays.
        (new.run, new.seed) = (self.service.run, self.service.seed);
        let replacement = Replacement::between(&self.service, &new)
            .map_err(|error| told(new.wrong_at(&error.keys(), error.to_string())))?;
        self.make(replacement, new)
    }

    fn change(&mut self, function: Option<&str>, edit: &Edit) -> Result<Answer, String> {
        self.hear_of_earlier_change()?;
        let new = self.service.edited(function, edit).map_err(told)?;
        self.change_to(new)
    }

    fn list(&mut self, function: Option<&str>, object: Object) -> Result<Answer, String> {
        self.hear_of_earlier_change()?;
        let (place, function) = self.service.function_with(function, object).map_err(told)?;
        let lines = match object {
            Object::Binding => self.ask_translation(place, Napt::bindings)?,
            _ => function.config.listed(object),
        };
        Ok(Answer::Listed {
            function: function.name.to_string(),
            lines,
        })
    }

    fn end_binding(
        &mut self,
        function: Option<&str>,
        endpoint: &str,
        protocol: Option<&str>,
    ) -> Result<Answer, String> {
        self.hear_of_earlier_change()?;
        let (place, _) = self
            .service
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
        if !self.ask_translation(place, move |napt| napt.is_bound_inside(endpoint, kind))? {
            let of = kind.map_or(String::new(), |kind| format!(" of {kind}"));
            return Err(format!("{endpoint} has no binding{of}"));
        }
        let change = Reconfiguration::of::<Napt>(NewNapt::End(endpoint, kind));
        let change = Replacement::of_function(&self.service, place, change).map_err(told)?;
        let service = self.service.clone();
        self.make(change, service)
    }

    /// What the translation knows that is at this place of the chain.
    fn ask_translation<T: Send + 'static>(
        &self,
        place: usize,
        question: impl FnOnce(&Napt) -> T + Send + 'static,
    ) -> Result<T, String> {
        let answer = self.ask(move |worker| {
            let napt: &dyn Any = worker.function(place)?;
            napt.downcast_ref().map(question)
        })?;
        answer.ok_or_else(|| "there is no address translation".into())
    }

    /// The service becomes another one, or stays what it is.
    fn change_to(&mut self, new: Service) -> Result<Answer, String> {
        let replacement = Replacement::between(&self.service, &new).map_err(told)?;
        self.make(replacement, new)
    }

    fn make(&mut self, mut replacement: Replacement, new: Service) -> Result<Answer, String> {
        let mut applied = replacement.applied.clone();
        applied.is_same = replacement.is_empty();
        if !applied.is_same {
            replacement.touch();
            let done = self.replace(Box::new(replacement), &new)?;
            applied.pause_ns = done.pause.as_nanos() as u64;
            (applied.rules_gone, applied.rules_kept) = (done.rules_gone, done.rules_kept);
        }
        self.service = new;
        Ok(Answer::Applied(applied))
    }

    fn replace(
        &mut self,
        mut replacement: Box<Replacement>,
        new: &Service,
    ) -> Result<Changed, String> {
        for _ in 0..ATTEMPTS {
            let (sender, receiver) = mpsc::channel();
            self.commands
                .send(Command::Replace(replacement, sender))
                .map_err(|_| over())?;
            match receiver.recv_timeout(TIMEOUT) {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err((returned, Refusal::Busy))) => replacement = returned,
                Ok(Err((_, why))) => return Err(why.to_string()),
                Err(RecvTimeoutError::Disconnected) => return Err(over()),
                Err(RecvTimeoutError::Timeout) => {
                    self.unanswered = Some((receiver, Box::new(new.clone())));
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
    fn hear_of_earlier_change(&mut self) -> Result<(), String> {
        let Some((receiver, new)) = self.unanswered.take() else {
            return Ok(());
        };
        match receiver.try_recv() {
            Ok(Ok(_)) => self.service = *new,
            Ok(Err(_)) | Err(TryRecvError::Disconnected) => {}
            Err(TryRecvError::Empty) => {
                self.unanswered = Some((receiver, new));
                return Err("an earlier change is still being made".into());
            }
        }
        Ok(())
    }
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn over() -> String {
    "the run is over".into()
}

/// A worker's cached rules, those used most first.
fn views(worker: &Worker, filter: &Filter) -> Vec<RuleView> {
    let mut views = Vec::new();
    for (element, rules) in worker.rules_by_element() {
        if filter.element.is_some_and(|wanted| wanted != element) {
            continue;
        }
        for rule in rules.manager().iter() {
            let view = view(element, &rule, rules.functions(), rules.clock());
            if is_wanted(filter, &rule, &view) {
                views.push(view);
            }
        }
    }
    views.sort_by_key(|view| std::cmp::Reverse(view.packets));
    views
}

fn view(
    element: u8,
    cached: &CachedRule<'_>,
    functions: &[Named<dyn RuleFunction>],
    now: Instant,
) -> RuleView {
    let rule = cached.rule;
    let entry = |entry: EntryId| match functions.get(usize::from(entry.function)) {
        Some(function) => format!("{} {}", function.name, function.number_of(entry.entry)),
        None => "?".into(),
    };
    RuleView {
        element,
        id: cached.name.id,
        generation: cached.name.generation,
        matches: matches(rule),
        action: action(&rule.action),
        packets: cached.uses.packets,
        bytes: cached.uses.bytes,
        age_ns: now.since(rule.used).as_nanos() as u64,
        unused_ns: now.since(cached.uses.last.max(rule.used)).as_nanos() as u64,
        is_installed: cached.is_installed,
        entries: cached.entries().map(entry).collect(),
    }
}

fn matches(rule: &NewRule) -> String {
    let version = if rule.value.is_v6() { "IPv6" } else { "IPv4" };
    let mut parts = vec![version.to_owned()];
    let fields = words::matched(&rule.mask, &rule.value);
    parts.extend(fields.into_iter().map(|field| field.text));
    if rule.value.direction() == Direction::Reply {
        parts.push("in reverse".into());
    }
    parts.join(", ")
}

fn action(action: &Action) -> String {
    let mut parts = words::rewritten(&action.rewrites);
    parts.push(words::fate(action));
    if let Some(idle) = action.idle {
        parts.push(format!("idle time-out {idle:?}"));
    }
    parts.join(", ")
}

fn is_wanted(filter: &Filter, cached: &CachedRule<'_>, view: &RuleView) -> bool {
    let is_from = |function: &String| {
        let mut functions = view
            .entries
            .iter()
            .filter_map(|entry| entry.split(' ').next());
        functions.any(|name| name == function)
    };
    view.packets >= filter.least_packets
        && filter.function.as_ref().is_none_or(is_from)
        && filter
            .address
            .is_none_or(|address| may_match(cached, address))
}

/// Whether a packet from or to the address may meet the rule.
fn may_match(cached: &CachedRule<'_>, address: IpAddr) -> bool {
    let address = Address::from(address).0;
    [Field::SourceAddress, Field::DestinationAddress]
        .into_iter()
        .any(|field| {
            let (mask, value) = (field.of(&cached.rule.mask), field.of(&cached.rule.value));
            address & mask == value
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_that_are_left_over_are_replaced() {
        let folder = std::env::temp_dir().join(format!("twinpath-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (file, socket) = (folder.join("file"), folder.join("socket"));
        std::fs::write(&file, "precious").expect("a file");
        assert!(bind(&file).is_err());
        assert_eq!(std::fs::read(&file).expect("still there"), b"precious");
        let listener = bind(&socket).expect("nobody is there");
        assert!(bind(&socket).is_err(), "somebody listens");
        drop(listener);
        assert!(bind(&socket).is_ok(), "nobody listens any more");
        std::fs::remove_dir_all(&folder).expect("ours");
    }
}
