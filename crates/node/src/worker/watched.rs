//! One packet on the cores while somebody watches, for traces.

use super::rules::departing;
use super::{CoreElement, Worker};
use twinpath_coherence::Cores;
use twinpath_coherence::slow::Outgoing;
use twinpath_core::wire::dissect;
use twinpath_core::{DropCounters, DropReason, FlowKey, Frame, Packet, Pools};
use twinpath_link::Header;
use twinpath_rulecache::{Output, RuleCores, Watch};

/// What became of a packet on the cores.
pub(crate) struct Watched {
    pub afterwards: Afterwards,
    /// What functions answered, as bytes; the answers themselves are on the link.
    pub replies: Vec<Vec<u8>>,
}

/// Where a packet went.
pub(crate) enum Afterwards {
    /// It goes back to the fast path, which has still to be told this.
    Back(Frame, Box<Header>),
    Dropped(DropReason),
    /// A function has answered it.
    Answered,
    /// A function keeps it, or it waits.
    Kept,
}

impl Worker {
    /// The element of this number, if its decisions are cached.
    pub(crate) fn rules_at_element(&self, element: u8) -> Option<&RuleCores> {
        match self.elements.get(usize::from(element))? {
            CoreElement::Rules(rules) => Some(rules),
            CoreElement::Flows(_) => None,
        }
    }

    /// The state words of a flow on the cores, at an element.
    pub(crate) fn flow_words(&self, element: u8, key: &FlowKey, hash: u64) -> Option<Vec<u32>> {
        let CoreElement::Flows(flows) = self.elements.get(usize::from(element))? else {
            return None;
        };
        let store = flows.store();
        store.find(key, hash).map(|id| store.words(id).to_vec())
    }

    /// Takes a packet from the fast path to the element that its header names. What goes to the
    /// fast path besides the packet is appended to `returns`.
    pub(crate) fn receive_watched<W: Watch + ?Sized>(
        &mut self,
        header: &Header,
        frame: Frame,
        pools: &mut Pools,
        returns: &mut Vec<Frame>,
        watch: &mut W,
    ) -> Watched {
        self.received_ns = frame.received_ns();
        let watched = match self.elements.get_mut(usize::from(header.element)) {
            Some(CoreElement::Flows(flows)) => {
                let (watched, others) = through_flows(flows, header, frame, pools);
                self.outgoing.extend(others);
                watched
            }
            Some(CoreElement::Rules(_)) => self.through_rules(header, frame, pools, watch),
            None => kept(Vec::new()),
        };
        self.put_on_the_link(pools, returns);
        watched
    }

    fn through_rules<W: Watch + ?Sized>(
        &mut self,
        header: &Header,
        frame: Frame,
        pools: &mut Pools,
        watch: &mut W,
    ) -> Watched {
        let (Ok(layout), Some(rules)) = (dissect(frame.bytes()), self.rules_at(header.element))
        else {
            return kept(Vec::new());
        };
        let packet = Packet {
            layout,
            direction: frame.trip().direction,
            role: header.role,
            alias_row: 0,
            frame,
        };
        let mut outputs = Vec::new();
        rules.packet_watched(packet, pools, &mut outputs, watch);
        let mut watched = kept(Vec::new());
        for output in outputs {
            match output {
                Output::Depart(packet, egress) => {
                    let Outgoing { header, frame } = departing(packet, egress);
                    if let Some(frame) = frame {
                        watched.afterwards = Afterwards::Back(frame, Box::new(header));
                    }
                }
                Output::Drop(packet, reason) => {
                    self.drop(packet.frame, reason, pools);
                    watched.afterwards = Afterwards::Dropped(reason);
                }
                other => {
                    if let Output::Reply(reply) = &other {
                        watched.replies.push(reply.bytes().to_vec());
                    }
                    self.outputs.push(other);
                }
            }
        }
        self.put_out(header.element, header.timestamp, pools);
        answered(watched)
    }
}

/// A packet through functions that share flow state; the rest is what else they put out.
fn through_flows(
    flows: &mut Cores,
    header: &Header,
    frame: Frame,
    pools: &mut Pools,
) -> (Watched, Vec<Outgoing>) {
    let dropped_before = flows.drops().clone();
    let mut others = Vec::new();
    flows.receive(header, frame, pools, &mut others);
    let mut watched = kept(replies(&others));
    let is_ours = |other: &Outgoing| {
        let frame = other.frame.as_ref();
        let is_packet = other.header.has_packet && !other.header.is_reply;
        is_packet && frame.is_some_and(|frame| frame.timestamp() == header.timestamp)
    };
    others
        .iter_mut()
        .for_each(|other| other.header.element = header.element);
    if let Some(place) = others.iter().rposition(is_ours)
        && let Outgoing {
            header,
            frame: Some(frame),
        } = others.remove(place)
    {
        watched.afterwards = Afterwards::Back(frame, Box::new(header));
    } else if let Some(reason) = newly_dropped(&dropped_before, flows.drops()) {
        watched.afterwards = Afterwards::Dropped(reason);
    }
    (answered(watched), others)
}

fn replies(outgoing: &[Outgoing]) -> Vec<Vec<u8>> {
    let replies = outgoing.iter().filter(|one| one.header.is_reply);
    let frames = replies.filter_map(|one| one.frame.as_ref());
    frames.map(|frame| frame.bytes().to_vec()).collect()
}

fn newly_dropped(before: &DropCounters, after: &DropCounters) -> Option<DropReason> {
    DropReason::all().find(|&reason| after.of(reason) > before.of(reason))
}

const fn kept(replies: Vec<Vec<u8>>) -> Watched {
    Watched {
        afterwards: Afterwards::Kept,
        replies,
    }
}

/// A packet that went nowhere and was answered.
fn answered(mut watched: Watched) -> Watched {
    if matches!(watched.afterwards, Afterwards::Kept) && !watched.replies.is_empty() {
        watched.afterwards = Afterwards::Answered;
    }
    watched
}
