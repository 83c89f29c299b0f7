//! A shard whose packets have ended is heard as long as packets come to another.

use crate::common::sharded::{run_each, spread};
use crate::common::{generate, service, traffic};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant as WallClock};
use twinpath_control::service::{Execution, Service};
use twinpath_core::Instant;
use twinpath_io::{CaptureError, Trace};
use twinpath_nf::shard::Shard;
use twinpath_node::command::{ChangeResult, Command, no_commands};
use twinpath_node::figures::PartFigures;
use twinpath_node::replacement::Replacement;
use twinpath_node::shards::{Partition, share};
use twinpath_node::source::{Feed, FeedItem, Source};
use twinpath_node::worker::Worker;

const PLAIN: &str = "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n";

/// Packets may cross between its shards.
const TRANSLATED: &str = "[service]\nchain = [\"napt\", \"firewall\"]\ninside = [\"10.0.0.0/8\"]\n\
    [napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"192.0.2.1\"]\n[firewall]\ndefault = \"allow\"\n";

/// So long an answer is waited for: without one the test would never end.
const LONGEST: Duration = Duration::from_secs(60);

/// Who is asked something while packets wait.
struct Asked {
    commands: mpsc::Sender<Command>,
    /// Whether its packets have ended.
    has_ended: Arc<AtomicBool>,
    change: Option<Box<Replacement>>,
    answers: Option<Answers>,
    told: Arc<Mutex<Option<Told>>>,
}

/// Where answers come.
struct Answers {
    changed: mpsc::Receiver<ChangeResult>,
    figures: mpsc::Receiver<PartFigures>,
    asked: mpsc::Receiver<Instant>,
    since: WallClock,
}

/// What was answered.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    is_changed: Result<(), String>,
    has_figures: bool,
    has_worker: bool,
}

impl Asked {
    /// Asks for all at once.
    fn ask(&mut self) -> Answers {
        let (figures, told) = mpsc::channel();
        let (worker, asked) = mpsc::channel();
        let (change, changed) = mpsc::channel();
        let question = move |_: &Worker, now: Instant| worker.send(now).expect("somebody waits");
        let replacement = self.change.take().expect("asked for once");
        for command in [
            Command::Figures(figures),
            Command::Ask(0, Box::new(question)),
            Command::Replace(replacement, change),
        ] {
            assert!(self.commands.send(command).is_ok(), "its run goes on");
        }
        Answers {
            changed,
            figures: told,
            asked,
            since: WallClock::now(),
        }
    }

    /// Whether it is still waited for.
    fn is_awaited(&mut self) -> bool {
        if !self.has_ended.load(Ordering::Acquire) {
            return true;
        }
        if self.answers.is_none() && self.change.is_some() {
            self.answers = Some(self.ask());
        }
        let Some(answers) = &self.answers else {
            return false;
        };
        let is_changed = match answers.changed.try_recv() {
            Ok(Ok(_)) => Ok(()),
            Ok(Err((_, why))) => Err(why.to_string()),
            Err(_) if answers.since.elapsed() < LONGEST => return true,
            Err(_) => Err("no answer".into()),
        };
        let told = Told {
            is_changed,
            has_figures: answers.figures.try_recv().is_ok(),
            has_worker: answers.asked.recv_timeout(LONGEST).is_ok(),
        };
        *self.told.lock().expect("nobody panics") = Some(told);
        self.answers = None;
        false
    }
}

/// Packets that end, which is told; another shard may be asked something in front of one of them.
struct Packets {
    trace: Trace,
    next: usize,
    has_ended: Arc<AtomicBool>,
    asked: Option<(usize, Asked)>,
}

impl Feed for Packets {
    fn next_into(&mut self, buffer: &mut [u8]) -> Result<FeedItem, CaptureError> {
        if let Some((at, asked)) = &mut self.asked
            && *at == self.next
            && asked.is_awaited()
        {
            return Ok(FeedItem::Nothing);
        }
        let Some(frame) = self.trace.at(self.next) else {
            self.has_ended.store(true, Ordering::Release);
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

/// Packets of which the last two thirds are the second shard's alone, and all if the first has none.
fn packets(service: &Service, has_first: bool) -> Trace {
    let partition = Partition::of(service, 2).expect("no files");
    let all = generate(
        &traffic(
            "packets = 600\nflows = 20\nserver_packets = false\narrivals = { process = \"constant\", rate_pps = 20000.0 }\n",
        ),
        3,
    );
    let mut kept = Trace::new();
    for (number, frame) in all.iter().enumerate() {
        if partition.shard(frame.frame) == 1 || has_first && number < all.len() / 3 {
            kept.push(frame.timestamp_ns, frame.frame);
        }
    }
    kept
}

/// What the first shard answers whose packets have ended, while the second has packets.
fn told(text: &str, execution: Execution, has_first: bool) -> Option<Told> {
    let (old, new) = (service(text), service(&text.replace("allow", "deny")));
    let [old, new] = [old, new].map(|one| spread(&one, 2, execution));
    let trace = packets(&old, has_first);
    let first = Shard { number: 0, of: 2 };
    let [before, after] = [&old, &new].map(|one| share(one, first).expect("enough"));
    let change = Replacement::between(&before, &after).expect("the firewall alone differs");
    let (commands, received) = mpsc::channel();
    let (has_ended, told) = (Arc::<AtomicBool>::default(), Arc::default());
    let asked = Asked {
        commands,
        has_ended: Arc::clone(&has_ended),
        change: Some(Box::new(change)),
        answers: None,
        told: Arc::clone(&told),
    };
    let half = trace.len() / 2;
    let feed = |has_ended, asked| {
        let (trace, next) = (crate::common::copy(&trace), 0);
        Source::new(Packets {
            trace,
            next,
            has_ended,
            asked,
        })
    };
    let ends = vec![
        (feed(has_ended, None), received),
        (feed(Arc::default(), Some((half, asked))), no_commands()),
    ];
    let ran = run_each(&old, ends);
    assert_eq!(ran.arrived[0] > 0, has_first);
    assert!(ran.arrived[1] > 100, "{:?}", ran.arrived);
    told.lock().expect("nobody panics").take()
}

#[test]
fn a_shard_whose_packets_have_ended_is_still_heard() {
    for text in [PLAIN, TRANSLATED] {
        for execution in [Execution::Threads, Execution::Virtual] {
            for has_first in [true, false] {
                let told = told(text, execution, has_first);
                let expected = Told {
                    is_changed: Ok(()),
                    has_figures: true,
                    has_worker: true,
                };
                assert_eq!(
                    told,
                    Some(expected),
                    "{text} {execution:?}, with packets: {has_first}"
                );
            }
        }
    }
}
