//! What a run leaves behind.

use super::Ports;
use super::operate::describe;
use crate::exit::{Exit, ExitFigures, Guarded};
use crate::observe::{Observer, pool_figures};
use crate::sink::CaptureLosses;
use crate::source::{Source, departures_in_words};
use crate::udp_port::SinkCounters;
use crate::wiring::Node;
use std::time::{Duration, Instant as WallClock};
use twinpath_control::report::{self, Report};
use twinpath_control::service::Service;
use twinpath_core::{DropReason, counted};
use twinpath_io::CaptureError;

/// Traffic that is further behind its time is told of.
const MUCH_BEHIND: Duration = Duration::from_millis(500);

/// What a run leaves behind.
#[derive(Debug)]
pub struct Finished {
    /// The figures.
    pub report: Report,
    /// That the capture ended in the middle of a packet, if it did.
    pub truncated: Option<String>,
    /// What became of frames that left through a UDP address, if one was served.
    pub udp: Option<SinkCounters>,
    /// What the capture that was written lacks.
    pub written: CaptureLosses,
    /// Whether all that came in had come to its end; if not, what was inside is lost.
    pub has_drained: bool,
    /// How far live traffic was behind its time, at most.
    pub behind: Duration,
    /// Whether packets did not say by which port of the node they came in, so that their sources told.
    pub has_guessed_ports: bool,
    /// What is told of interfaces of the capture that are called like no port of the service, if packets
    /// were taken by their numbers.
    pub unknown_interfaces: Option<String>,
    /// Packets of the capture that were skipped because it says that they left.
    pub departures: u64,
    /// Why packets could not be written any more: then the run has ended early. All figures are of
    /// what ran.
    pub failure: Option<CaptureError>,
    /// Packets that have left, and were not written for that reason.
    pub unwritten: u64,
    /// What ports lost, in words.
    pub ports_lost: Vec<String>,
}

/// What a run was, of one shard or several, when it is over.
pub(super) struct Ran<'a> {
    pub packet_time: Duration,
    pub began: WallClock,
    pub nodes: Vec<&'a mut Node>,
    pub sources: Vec<&'a Source>,
    pub observer: Observer,
    pub exit: Guarded<Exit>,
}

impl Ran<'_> {
    pub fn finish(mut self, service: &Service, ports: &Ports) -> Finished {
        let (exit, failure, unwritten) = self.exit.into_parts();
        let (told, failure) = match (exit.finish(), failure) {
            (Ok(told), failure) => (told, failure),
            (Err(error), failure) => (ExitFigures::default(), Some(failure.unwrap_or(error))),
        };
        let ExitFigures { udp, written } = told;
        let mut report = Report {
            schema: report::SCHEMA.to_owned(),
            ..Report::default()
        };
        describe(service, ports, &mut report);
        for node in &mut self.nodes {
            pool_figures(node.machine.pools(), &mut report);
        }
        let nodes = self.nodes.iter();
        let nodes: Vec<_> = nodes.map(|node| (&node.machine, &*node.workers)).collect();
        self.observer.finish_all(
            self.packet_time.as_nanos() as u64,
            self.began.elapsed().as_nanos() as u64,
            &nodes,
            &mut report,
        );
        let mut sources = self.sources.iter();
        Finished {
            report,
            truncated: sources
                .clone()
                .find_map(|source| source.truncated())
                .map(ToString::to_string),
            udp,
            written,
            has_drained: nodes.iter().all(|(machine, _)| machine.has_drained()),
            behind: sources
                .clone()
                .map(|source| source.behind())
                .max()
                .unwrap_or_default(),
            departures: departures(sources.clone()),
            unknown_interfaces: sources
                .clone()
                .find_map(|source| source.unknown_interfaces())
                .map(|words| words.to_string()),
            has_guessed_ports: sources.any(|source| source.has_guessed_ports()),
            failure,
            unwritten,
            ports_lost: Vec::new(),
        }
    }
}

/// Every shard has read all of them.
fn departures<'s>(sources: impl Iterator<Item = &'s &'s Source>) -> u64 {
    let departures = sources.map(|source| source.departures());
    departures.max().unwrap_or_default()
}

impl Finished {
    /// What went otherwise than was asked for, in words.
    pub(super) fn warnings(&self) -> Vec<String> {
        let CaptureLosses { order } = self.written;
        let no_egress = DropReason::NoEgress.name();
        let without_port = self.report.drops.get(no_egress).copied().unwrap_or(0);
        let SinkCounters {
            unsendable,
            refused,
            ..
        } = self.udp.unwrap_or_default();
        let (behind, truncated) = (self.behind, self.truncated.as_deref());
        let slots = &self.report.slots_at_end;
        let unsettled = slots.incomplete + slots.frozen;
        let troubles = self.report.control.and_then(|control| control.troubles());
        [
            (
                !self.has_drained,
                "the run ended while packets were inside: they did not come to rest in time, and are lost"
                    .to_owned(),
            ),
            (
                behind > MUCH_BEHIND,
                format!("the traffic fell {behind:.1?} behind its time: less was offered than the file says"),
            ),
            (
                self.has_guessed_ports,
                "the capture does not say by which ports packets came in: their source addresses told, which anybody can forge".to_owned(),
            ),
            (
                unsettled > 0,
                format!("when the run was over, {} still waited for the workers: no packet is missing, but the last that is known of their flows", counted(unsettled, "slot")),
            ),
            (
                truncated.is_some(),
                format!("{}; all packets before were run", truncated.unwrap_or_default()),
            ),
            (
                !order.is_in_order(),
                format!("the capture is not in order: {order}"),
            ),
            (
                without_port > 0,
                format!("{} left by no port that the service names, and {} not written", counted(without_port, "packet"), was(without_port)),
            ),
            (
                unsendable > 0,
                format!("{} left as no answer to a client, and {} not sent", counted(unsendable, "packet"), was(unsendable)),
            ),
            (
                refused > 0,
                format!("{} lost, which the system did not take", counted(refused, "answer")),
            ),
            (
                self.failure.is_some(),
                format!(
                    "the run ended early, because packets could not be written any more: {}; {} that left were not written",
                    self.failure.as_ref().map_or(String::new(), ToString::to_string),
                    self.unwritten
                ),
            ),
            (
                troubles.is_some(),
                format!("clients of the control socket: {}", troubles.unwrap_or_default()),
            ),
        ]
        .into_iter()
        .filter_map(|(is_so, words)| is_so.then_some(words))
        .chain(self.unknown_interfaces.clone())
        .chain(departures_in_words(self.departures))
        .chain(self.report.ipfix.and_then(|exported| exported.losses()))
        .chain(self.ports_lost.iter().cloned())
        .collect()
    }
}

const fn was(count: u64) -> &'static str {
    match count {
        1 => "was",
        _ => "were",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::departure::{Departure, Via};
    use crate::sink::Sink;
    use std::path::Path;
    use twinpath_core::{Instant, Pools};

    fn finished() -> Finished {
        Finished {
            report: Report::default(),
            truncated: None,
            udp: None,
            written: CaptureLosses::default(),
            has_drained: true,
            behind: MUCH_BEHIND,
            has_guessed_ports: false,
            unknown_interfaces: None,
            departures: 0,
            failure: None,
            unwritten: 0,
            ports_lost: Vec::new(),
        }
    }

    #[test]
    fn a_run_that_went_as_it_should_warns_of_nothing() {
        assert_eq!(finished().warnings(), Vec::<String>::new());
    }

    #[test]
    fn packets_that_were_inside_at_the_end_are_told_of() {
        let told = Finished {
            has_drained: false,
            ..finished()
        }
        .warnings();
        assert!(
            told.len() == 1 && told[0].contains("packets were inside"),
            "{told:?}"
        );
    }

    /// A packet leaves that is older than what has been written.
    #[test]
    fn a_capture_that_is_not_in_order_is_told_of() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n";
        let service = Service::parse(text, Path::new("late.toml")).expect("sound");
        let exit = Exit::capture(&folder.path().join("late.pcap"), &service);
        let mut exit = exit.expect("a file");
        for at in [10, 20, 5] {
            let mut frame = Pools::new(1, 1).take_filled(&[0; 60]).expect("a buffer");
            frame.set_timestamp(Instant(at));
            let departure = Departure::new(frame, Via::Slow, false);
            exit.packet(&departure).expect("written");
            exit.advance(Instant(at)).expect("written");
        }
        let written = exit.finish().expect("written").written;
        assert_eq!(written.order.out_of_order, 1);
        let told = Finished {
            written,
            ..finished()
        }
        .warnings();
        assert!(
            told.len() == 1 && told[0].contains("1 written late"),
            "{told:?}"
        );
    }

    #[test]
    fn traffic_that_fell_behind_is_told_of() {
        let told = Finished {
            behind: MUCH_BEHIND + Duration::from_millis(400),
            ..finished()
        }
        .warnings();
        assert!(
            told.len() == 1 && told[0].contains("behind its time"),
            "{told:?}"
        );
    }
}
