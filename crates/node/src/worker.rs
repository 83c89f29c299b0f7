//! One worker of the slow path.

use twinpath_coherence::Cores;
use twinpath_coherence::slow::Outgoing;
use twinpath_core::{DropCounters, DropReason, Frame, Instant, Pools};
use twinpath_link::{Arrival, Receiver, attach, detach};

/// What a worker counts on its link.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Frames from the fast path that overtook others.
    pub reordered: u64,
    /// Frames from the fast path that never came.
    pub lost: u64,
    /// Messages to the fast path that found no buffer; the protocol repeats them.
    pub no_buffer: u64,
}

/// A worker: the cores' side of one queue pair. One thread owns it.
pub struct Worker {
    cores: Cores,
    arrivals: Receiver,
    outgoing: Vec<Outgoing>,
    drops: DropCounters,
    counts: LinkCounts,
}

impl Worker {
    /// A worker around its flows and functions.
    pub fn new(cores: Cores) -> Self {
        Self {
            cores,
            arrivals: Receiver::default(),
            outgoing: Vec::new(),
            drops: DropCounters::default(),
            counts: LinkCounts::default(),
        }
    }

    /// The run begins at this packet time.
    pub fn start(&mut self, now: Instant) {
        self.cores.start(now);
    }

    /// The flows and functions.
    pub fn cores(&self) -> &Cores {
        &self.cores
    }

    /// Takes the worker's flows and functions away, as a crash does, and gives it new ones. The
    /// link goes on, and what was counted stays counted.
    pub fn restart(&mut self, cores: Cores) {
        self.drops.absorb(self.cores.drops());
        self.cores = cores;
    }

    /// Everything this worker dropped.
    pub fn drops(&self) -> DropCounters {
        let mut drops = self.drops.clone();
        drops.absorb(self.cores.drops());
        drops
    }

    /// What happened on the link.
    pub fn link_counts(&self) -> &LinkCounts {
        &self.counts
    }

    /// Handles one frame from the fast path; frames for it are appended to `returns`. They carry
    /// the link header and still need their number.
    pub fn receive(&mut self, mut frame: Frame, pools: &mut Pools, returns: &mut Vec<Frame>) {
        let Ok(header) = detach(&mut frame) else {
            self.drops.count(DropReason::BadLinkFrame);
            return pools.give(frame);
        };
        match self.arrivals.judge(header.sequence) {
            Arrival::InOrder { lost } => self.counts.lost += u64::from(lost),
            Arrival::Reordered => {
                self.counts.reordered += 1;
                self.drops.count(DropReason::LinkReordered);
                return pools.give(frame);
            }
        }
        self.cores
            .receive(&header, frame, pools, &mut self.outgoing);
        self.put_on_the_link(pools, returns);
    }

    /// Lets the packet clock reach `now`.
    pub fn advance(&mut self, now: Instant, pools: &mut Pools, returns: &mut Vec<Frame>) {
        self.cores.advance(now, pools, &mut self.outgoing);
        self.put_on_the_link(pools, returns);
    }

    fn put_on_the_link(&mut self, pools: &mut Pools, returns: &mut Vec<Frame>) {
        for Outgoing { header, frame } in self.outgoing.drain(..) {
            let Some(mut frame) = frame.or_else(|| pools.take(0)) else {
                self.counts.no_buffer += 1;
                continue;
            };
            if attach(&mut frame, &header).is_ok() {
                returns.push(frame);
            } else {
                self.drops.count(DropReason::BadLinkFrame);
                pools.give(frame);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::FlowKey;
    use twinpath_core::wire::{Endpoint, PacketBuilder};
    use twinpath_link::{Header, Message, Sender, number};
    use twinpath_slowpath::Chain;

    const SEED: u64 = 7;

    /// A worker in its second life, with one buffer of its own, and the fast path's buffers.
    struct Bench {
        worker: Worker,
        own: Pools,
        buffers: Pools,
        sender: Sender,
    }

    impl Bench {
        fn new(flows: usize) -> Self {
            let cores = Cores::new(Chain::new(Vec::new()), flows, 2, SEED);
            Self {
                worker: Worker::new(cores),
                own: Pools::new(1, 1),
                buffers: Pools::new(1000, 1),
                sender: Sender::default(),
            }
        }

        fn send(&mut self, header: &Header, packet: &[u8], returns: &mut Vec<Frame>) {
            let mut frame = self.buffers.take_filled(packet).expect("a buffer");
            attach(&mut frame, header).expect("headroom");
            number(&mut frame, self.sender.number());
            self.worker.receive(frame, &mut self.own, returns);
        }

        /// Sends a message about flow `flow` and lets everything come back and be read.
        fn ask(&mut self, message: Message, flow: u64, at: Instant) -> Vec<Message> {
            let mut header = Header::new(message, FlowKey([flow, 0, 0, 0, 1]));
            (header.generation, header.epoch, header.timestamp) = (9, 1, at);
            let mut returns = Vec::new();
            self.send(&header, &[], &mut returns);
            returns.iter().map(says).collect()
        }
    }

    fn says(frame: &Frame) -> Message {
        let header = Header::read(frame.bytes()).expect("a header");
        assert_eq!(frame.len(), header.bytes(), "a message alone");
        assert!(!header.has_packet);
        header.message
    }

    /// When all state is given back at once, the frames that bring it carry the answers.
    #[test]
    fn masses_of_write_backs_are_acknowledged_without_buffers() {
        let mut bench = Bench::new(1000);
        let mut returns = Vec::new();
        for flow in 0..500 {
            let header = Header::new(Message::WriteBack, FlowKey([flow, 0, 0, 0, 1]));
            bench.send(&header, &[], &mut returns);
        }
        let acknowledged = returns
            .iter()
            .filter(|frame| says(frame) == Message::Acknowledge);
        assert_eq!(acknowledged.count(), 500);
        assert_eq!(bench.worker.link_counts().no_buffer, 0);
        drop(returns);
        assert_eq!(bench.buffers.small().available(), 1000, "all came home");
    }

    /// A pull whose packet is refused for want of room is declined in its own frame, emptied.
    #[test]
    fn a_refused_pull_is_declined_in_its_own_frame() {
        let mut bench = Bench::new(1);
        bench.ask(Message::WriteBack, 1, Instant::ZERO);
        let mut header = Header::new(Message::Pull, FlowKey([2, 0, 0, 0, 1]));
        header.has_packet = true;
        let (from, to) = (
            Endpoint::v4([10, 0, 0, 1], 1),
            Endpoint::v4([10, 0, 0, 2], 2),
        );
        let packet = PacketBuilder::udp(from, to).to_vec().expect("a packet");
        let mut returns = Vec::new();
        bench.send(&header, &packet, &mut returns);
        assert_eq!(
            returns.iter().map(says).collect::<Vec<_>>(),
            [Message::Decline]
        );
        assert_eq!(bench.worker.drops().of(DropReason::FlowTableFull), 1);
        assert_eq!(bench.own.small().available(), 1);
    }

    /// What crashed cores had granted is kept until the fast path says that it has let go: it is
    /// asked after a long silence.
    #[test]
    fn a_silent_flow_of_a_former_life_is_asked_for_and_forgotten() {
        let later = |minutes: u64| Instant(minutes * 61_000_000_000);
        let mut bench = Bench::new(2);
        assert_eq!(
            bench.ask(Message::WriteBack, 1, later(1)),
            [Message::Acknowledge]
        );
        assert_eq!(
            bench.ask(Message::Plain, 2, later(1)),
            [],
            "nothing new to ask"
        );
        assert_eq!(bench.worker.cores().store().len(), 1);
        let asked = bench.ask(Message::WriteBack, 2, later(2));
        assert_eq!(asked, [Message::Acknowledge, Message::Recall]);
        assert_eq!(
            bench.ask(Message::WriteBack, 3, later(2)),
            [],
            "no room yet"
        );
        bench.ask(Message::Plain, 1, later(2));
        assert_eq!(
            bench.ask(Message::WriteBack, 3, later(2)),
            [Message::Acknowledge]
        );
    }
}
