//! One packet of a run, element by element, while it is written down.

use super::VirtualRun;
use crate::fast_path::{FastElement, Step};
use crate::place::Place;
use crate::sink::Sink;
use crate::trace::{
    CoresLook, End, FastLook, Found, Names, PacketLook, ProgramLook, SlotLook, Stage, StateRun,
    Trace, TraceError, Watcher, entry_look, rule_look,
};
use crate::worker::{Afterwards, Watched};
use twinpath_core::program::Exit;
use twinpath_core::wire::dissect;
use twinpath_core::wire::layout::{Layout, Network};
use twinpath_core::{Direction, DropReason, Frame, Instant};
use twinpath_fastpath::StepTaken;
use twinpath_io::CaptureError;
use twinpath_link::Header;
use twinpath_rulecache::{NewRule, RuleName};

/// A packet that is held, or that waits in line, does so for at most so many happenings.
const MOST_HAPPENINGS: usize = 1 << 20;

/// Where a packet is after an element.
enum After {
    On(Frame),
    Ended(End),
}

impl<S: Sink> VirtualRun<'_, S> {
    /// Lets a packet arrive and follows it to its end. It takes a round trip where it goes to the
    /// cores, as any other; no packet arrives meanwhile.
    pub(crate) fn traced(
        &mut self,
        at: Instant,
        bytes: &[u8],
        names: &Names,
    ) -> Result<Trace, TraceError> {
        let layout = dissect(bytes).map_err(TraceError::Malformed)?;
        if self.started.is_none() {
            self.start(at);
        }
        self.let_happen_until(at + self.ahead)?;
        self.now = self.now.max(at + self.ahead);
        let mut frame = self.take_frame(bytes)?.ok_or(TraceError::TooLong)?;
        frame.set_timestamp(at);
        frame.set_received_ns(self.now.0);
        let path = self.node.machine.path_mut();
        path.admit(&mut frame);
        let mut trace = Trace {
            packets_before: 0,
            time_ns: at.0,
            arrived: PacketLook::of(bytes),
            direction: None,
            stages: Vec::new(),
            end: ended("waits"),
        };
        if layout.network == Network::None {
            trace.end = leaves(&frame, "leaves as it came: it is no IP packet");
            return Ok(trace);
        }
        let place = self.node.machine.path().entry(&mut frame, &layout);
        trace.direction = Some(match place.direction {
            Direction::Original => "original",
            Direction::Reply => "reply",
        });
        trace.end = self.follow(frame, place, names, &mut trace.stages)?;
        trace.end.was_on_cores = trace.stages.iter().any(|stage| stage.cores.is_some());
        Ok(trace)
    }

    /// A buffer with the packet. If all are under way, time goes on until that is over.
    fn take_frame(&mut self, bytes: &[u8]) -> Result<Option<Frame>, CaptureError> {
        for _ in 0..MOST_HAPPENINGS {
            let frame = self.node.machine.pools().take_filled(bytes);
            if frame.is_some() || !self.let_one_happen()? {
                return Ok(frame);
            }
        }
        Ok(None)
    }

    fn follow(
        &mut self,
        mut frame: Frame,
        first: Place,
        names: &Names,
        stages: &mut Vec<Stage>,
    ) -> Result<End, TraceError> {
        let mut place = first;
        loop {
            let layout = dissect(frame.bytes()).map_err(TraceError::Malformed)?;
            let (stage, after) = self.at_element(frame, &layout, place, names)?;
            stages.push(stage);
            frame = match after {
                After::On(frame) => frame,
                After::Ended(end) => return Ok(end),
            };
            place = match place.next(names.elements.len()) {
                Some(next) => next,
                None => return Ok(leaves(&frame, "leaves")),
            };
        }
    }

    fn at_element(
        &mut self,
        mut frame: Frame,
        layout: &Layout,
        place: Place,
        names: &Names,
    ) -> Result<(Stage, After), TraceError> {
        let (keyed, _) = self.node.machine.path().flow(&frame, layout, place.element);
        let found = self.found(&frame, layout, place, names);
        let step = self.step(&mut frame, layout, place)?;
        let mut stage = Stage {
            element: place.element,
            functions: names.elements[usize::from(place.element)].clone(),
            flow: keyed.key.to_string(),
            fast: FastLook {
                found,
                decision: decision(&step),
            },
            cores: None,
        };
        self.look_again(&mut stage.fast.found, &frame, layout, place, names);
        let after = match step {
            Step::Forward => After::On(frame),
            Step::Reply => After::Ended(leaves(&frame, "leaves as an answer to its sender")),
            Step::Drop(reason) => After::Ended(dropped(reason)),
            Step::Hold => After::Ended(ended("is held: a rule for it does not become active")),
            Step::Punt(header, worker) => {
                let functions = &stage.functions;
                let (look, after) = self.on_the_cores(frame, &header, worker, functions, names)?;
                stage.cores = Some(look);
                after
            }
        };
        Ok((stage, after))
    }

    /// What the fast path has for the packet.
    fn found(&mut self, frame: &Frame, layout: &Layout, place: Place, names: &Names) -> Found {
        let path = self.node.machine.path_mut();
        if let Some(at) = path.at_rules_of(frame, layout, place) {
            return match (at.key, at.rule) {
                (None, _) => Found::NotPlain,
                (_, None) => Found::NoRule,
                (_, Some(rule)) => self.rule(rule, place.element, names),
            };
        }
        match path.elements().get(usize::from(place.element)) {
            Some(FastElement::State(_)) => match path.at_state_of(frame, layout, place.element) {
                Some(at) => Found::Slot(SlotLook {
                    state: at.slot.fsm.name(),
                    state_after: "initial",
                    words: names.words(place.element, Some(&at.words), None),
                    programs: at.steps.iter().map(program_look).collect(),
                }),
                None => Found::NoSlot,
            },
            _ => Found::Nothing,
        }
    }

    /// A cached rule in words, as the cores' book has it.
    fn rule(&self, name: RuleName, element: u8, names: &Names) -> Found {
        let functions = &names.elements[usize::from(element)];
        let cores = self.node.workers.first();
        let book = cores.and_then(|worker| worker.rules_at_element(element));
        let rule = book.and_then(|cores| cores.manager().iter().find(|rule| rule.name == name));
        match rule {
            None => Found::NoRule,
            Some(rule) => {
                let entries = rule.entries();
                let entries = entries.map(|entry| entry_look(functions, entry, None));
                let entries = entries.collect();
                let NewRule {
                    mask,
                    value,
                    action,
                    ..
                } = rule.rule;
                Found::Rule(Box::new(rule_look(mask, value, action, entries)))
            }
        }
    }

    /// The slot as the packet leaves it.
    fn look_again(
        &mut self,
        found: &mut Found,
        frame: &Frame,
        layout: &Layout,
        place: Place,
        names: &Names,
    ) {
        let Found::Slot(look) = found else { return };
        let path = self.node.machine.path_mut();
        let after = path.at_state_of(frame, layout, place.element);
        look.state_after = after.as_ref().map_or("initial", |at| at.slot.fsm.name());
        let words = names.words(
            place.element,
            None,
            after.as_ref().map(|at| at.words.as_slice()),
        );
        for (word, after) in look.words.iter_mut().zip(words) {
            word.after = after.after;
        }
    }

    /// One element on the fast path; a packet that is held is there until it is let go.
    fn step(
        &mut self,
        frame: &mut Frame,
        layout: &Layout,
        place: Place,
    ) -> Result<Step, CaptureError> {
        for _ in 0..MOST_HAPPENINGS {
            let clock = self.clock();
            let path = self.node.machine.path_mut();
            let step = path.step(frame, layout, place, clock);
            self.advance()?;
            if !matches!(step, Step::Hold) || !self.let_one_happen()? {
                return Ok(step);
            }
        }
        Ok(Step::Hold)
    }

    /// Returns whether there was anything that could happen.
    fn let_one_happen(&mut self) -> Result<bool, CaptureError> {
        match self.next_happening() {
            Some((at, _)) => self.let_happen_until(at).map(|()| true),
            None => Ok(false),
        }
    }

    fn cross_the_link(&mut self) -> Result<(), CaptureError> {
        let arrival = self.now + self.one_way;
        self.let_happen_until(arrival)?;
        self.now = self.now.max(arrival);
        Ok(())
    }

    fn on_the_cores(
        &mut self,
        frame: Frame,
        header: &Header,
        worker: usize,
        functions: &[String],
        names: &Names,
    ) -> Result<(CoresLook, After), TraceError> {
        self.cross_the_link()?;
        self.wait_in_line(worker, header.element)?;
        let hash = header.key.hash(self.node.machine.path().seed());
        let element = header.element;
        let words = |run: &Self| run.node.workers[worker].flow_words(element, &header.key, hash);
        let before = words(self);
        let mut watcher = Watcher::new(functions);
        let watched = self.node.workers[worker].receive_watched(
            header,
            frame,
            &mut self.node.worker_pools[worker],
            &mut self.returns,
            &mut watcher,
        );
        self.send_back(worker);
        let after = words(self);
        let replies: Vec<_> = watched
            .replies
            .iter()
            .map(|reply| PacketLook::of(reply))
            .collect();
        let outcome = outcome(&watched);
        let is_rules = self.node.workers[worker]
            .rules_at_element(header.element)
            .is_some();
        let look = match is_rules {
            true => {
                let mut run = watcher.run;
                (run.outcome, run.replies) = (outcome, replies);
                CoresLook::Rules(run)
            }
            false => CoresLook::State(StateRun {
                message: header.message.name(),
                answer: answer(&watched),
                words: names.words(element, before.as_deref(), after.as_deref()),
                outcome,
                replies,
            }),
        };
        Ok((look, self.come_back(watched)?))
    }

    /// Packets before this one may wait for rules to go; it waits behind them.
    fn wait_in_line(&mut self, worker: usize, element: u8) -> Result<(), CaptureError> {
        for _ in 0..MOST_HAPPENINGS {
            let rules = self.node.workers[worker].rules_at_element(element);
            if !rules.is_some_and(|rules| rules.is_waiting()) || !self.let_one_happen()? {
                break;
            }
        }
        Ok(())
    }

    fn come_back(&mut self, watched: Watched) -> Result<After, TraceError> {
        let (mut frame, header) = match watched.afterwards {
            Afterwards::Back(frame, header) => (frame, header),
            Afterwards::Dropped(reason) => return Ok(After::Ended(dropped(reason))),
            Afterwards::Answered => return Ok(After::Ended(ended("is answered by a function"))),
            Afterwards::Kept => {
                return Ok(After::Ended(ended(
                    "is kept on the cores for the time being",
                )));
            }
        };
        self.cross_the_link()?;
        let mut trip = frame.trip();
        trip.was_on_cores = true;
        frame.set_trip(trip);
        let (clock, out) = (self.clock(), &mut self.output);
        self.node.machine.take_answer(&header, clock, out);
        self.put_out()?;
        Ok(After::On(frame))
    }
}

fn decision(step: &Step) -> String {
    match step {
        Step::Forward => "on to the next element".into(),
        Step::Reply => "answered here".into(),
        Step::Drop(reason) => format!("dropped ({})", reason.name()),
        Step::Hold => "held".into(),
        Step::Punt(header, _) => format!("to the cores, as {}", header.message.name()),
    }
}

fn outcome(watched: &Watched) -> String {
    match &watched.afterwards {
        Afterwards::Back(..) => "back to the fast path".into(),
        Afterwards::Dropped(reason) => format!("dropped ({})", reason.name()),
        Afterwards::Answered => "answered".into(),
        Afterwards::Kept => "kept: a function waits for others, or for rules to go".into(),
    }
}

fn answer(watched: &Watched) -> Option<&'static str> {
    match &watched.afterwards {
        Afterwards::Back(_, header) => Some(header.message.name()),
        _ => None,
    }
}

fn dropped(reason: DropReason) -> End {
    ended(&format!("is dropped: {}", reason.name()))
}

fn program_look(taken: &StepTaken) -> ProgramLook {
    ProgramLook {
        function: taken.program.to_string(),
        step: taken.step,
        exit: match taken.exit {
            Exit::Continue => "goes on".into(),
            Exit::Drop(reason) => format!("is dropped: {}", reason.name()),
            Exit::Reply => "goes back to its sender".into(),
            Exit::Escalate => "goes to the cores".into(),
        },
    }
}

fn ended(fate: &str) -> End {
    End {
        fate: fate.into(),
        packet: None,
        egress: None,
        was_on_cores: false,
    }
}

fn leaves(frame: &Frame, fate: &str) -> End {
    End {
        packet: Some(PacketLook::of(frame.bytes())),
        egress: frame.trip().egress,
        ..ended(fate)
    }
}
