//! Runs a service that becomes others, each change between the same two packets in every run.

use super::{Leaving, Outcome, copy, undrawn_flows};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use twinpath_control::live::Live;
use twinpath_control::report::Report;
use twinpath_control::service::{Execution, Pace, Paths, Service};
use twinpath_io::{CaptureError, Trace};
use twinpath_node::command::{ChangeResult, Command};
use twinpath_node::observe::Observer;
use twinpath_node::replacement::Replacement;
use twinpath_node::run::drive;
use twinpath_node::source::{Feed, FeedItem, Source};
use twinpath_node::{Ports, build};

/// What a service becomes, and in front of which packet.
pub struct ServiceChange {
    pub before: usize,
    pub to: Service,
}

/// Packets of a trace, with changes in between: no packet comes while one is made.
struct ChangingFeed {
    trace: Trace,
    next: usize,
    /// The next change last.
    changes: Vec<(usize, Box<Replacement>)>,
    commands: mpsc::Sender<Command>,
    answer: Option<mpsc::Receiver<ChangeResult>>,
    told: mpsc::Sender<RulesChanged>,
}

/// What a change did.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RulesChanged {
    pub rules_gone: usize,
    pub rules_kept: usize,
}

impl ChangingFeed {
    /// Whether a change is being made.
    fn is_changing(&mut self) -> bool {
        if let Some(answer) = &self.answer {
            match answer.try_recv() {
                Err(mpsc::TryRecvError::Empty) => return true,
                Err(mpsc::TryRecvError::Disconnected) => panic!("nobody made the change"),
                Ok(Ok(done)) => {
                    let told = RulesChanged {
                        rules_gone: done.rules_gone,
                        rules_kept: done.rules_kept,
                    };
                    self.told.send(told).expect("somebody listens");
                    self.answer = None;
                }
                Ok(Err((_, why))) => panic!("{why}"),
            }
            return self.answer.is_some();
        }
        let is_next = |change: &mut (usize, Box<Replacement>)| change.0 == self.next;
        if let Some((_, replacement)) = self.changes.pop_if(is_next) {
            self.ask(replacement);
        }
        self.answer.is_some()
    }

    fn ask(&mut self, replacement: Box<Replacement>) {
        let (sender, receiver) = mpsc::channel();
        let sent = self.commands.send(Command::Replace(replacement, sender));
        assert!(sent.is_ok(), "the run goes on");
        self.answer = Some(receiver);
    }
}

impl Feed for ChangingFeed {
    fn next_into(&mut self, buffer: &mut [u8]) -> Result<FeedItem, CaptureError> {
        if self.is_changing() {
            return Ok(FeedItem::Nothing);
        }
        let Some(frame) = self.trace.at(self.next) else {
            return Ok(FeedItem::End);
        };
        self.next += 1;
        buffer[..frame.frame.len()].copy_from_slice(frame.frame);
        Ok(FeedItem::Packet {
            timestamp_ns: frame.timestamp_ns,
            len: frame.frame.len(),
            ingress: 0,
        })
    }
}

/// A service as it is run here.
pub fn settled(service: &Service, paths: Paths, execution: Execution) -> Service {
    let mut service = service.clone();
    (service.run.paths, service.run.execution, service.run.pace) =
        (paths, execution, Some(Pace::Lossless));
    service
}

/// Runs a service over packets in memory; it becomes others on the way.
pub fn run_changing(
    service: &Service,
    changes: &[ServiceChange],
    trace: &Trace,
    paths: Paths,
    execution: Execution,
) -> Outcome {
    run_changing_told(service, changes, trace, paths, execution).0
}

/// The same, with what each change did.
pub fn run_changing_told(
    service: &Service,
    changes: &[ServiceChange],
    trace: &Trace,
    paths: Paths,
    execution: Execution,
) -> (Outcome, Vec<RulesChanged>) {
    let mut replacements = Vec::new();
    let mut present = settled(service, paths, execution);
    for change in changes {
        let next = settled(&change.to, paths, execution);
        let replacement = Replacement::between(&present, &next);
        let replacement = replacement.unwrap_or_else(|error| panic!("{error}"));
        replacements.push((change.before, replacement));
        present = next;
    }
    run_replacing(service, replacements, trace, paths, execution)
}

/// Runs a service whose chain is replaced in front of packets with these numbers.
pub fn run_replacing(
    service: &Service,
    replacements: Vec<(usize, Replacement)>,
    trace: &Trace,
    paths: Paths,
    execution: Execution,
) -> (Outcome, Vec<RulesChanged>) {
    let (told, all_told) = mpsc::channel();
    let first = settled(service, paths, execution);
    let mut node = build(&first, paths).unwrap_or_else(|error| panic!("{error}"));
    let (sender, commands) = mpsc::channel();
    let replacements = replacements.into_iter().rev();
    let replacements = replacements.map(|(before, replacement)| (before, Box::new(replacement)));
    let mut source = Source::new(ChangingFeed {
        trace: copy(trace),
        next: 0,
        changes: replacements.collect(),
        commands: sender,
        answer: None,
        told,
    });
    let mut sink = Leaving::default();
    let mut observer = Observer::new(Live::hidden());
    let ports = Ports {
        input: Some(PathBuf::from("memory")),
        ..Ports::default()
    };
    drive(
        &first,
        &ports,
        &mut node,
        &mut source,
        &mut sink,
        &mut observer,
        &commands,
        &AtomicBool::new(false),
    )
    .expect("memory never fails");
    let mut report = Report::default();
    observer.finish(0, 0, &node.machine, &node.workers, &mut report);
    let outcome = Outcome {
        flows: undrawn_flows(&first, super::packets_of(&sink)),
        packets: sink.packets,
        ports: sink.ports,
        report,
    };
    (outcome, all_told.try_iter().collect())
}
