use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use twinpath_core::wire::{Endpoint, PacketBuilder};
use twinpath_core::{FlowKey, Metadata};
use twinpath_link::{Header, Message, Sender, attach, number};
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
        let blueprint: Blueprint = Arc::new(move || {
            let slow = SlowFlows::new(Chain::new(Vec::new()), flows, 1, SEED);
            Ok(vec![SlowElement::Flows(Box::new(slow))])
        });
        let mut worker = Worker::new(blueprint, None).expect("no files");
        worker.crash(Instant::ZERO, &mut Pools::new(1, 1), &mut Vec::new());
        Self {
            worker,
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

    /// It gets that late, and then a message about flow `flow` comes: what comes back is read.
    fn ask(&mut self, message: Message, flow: u64, at: Instant) -> Vec<Message> {
        let (passed, now) = (Moment::end_of(at), at);
        let time = Time { passed, now };
        let mut returns = Vec::new();
        self.worker.advance(time, &mut self.own, &mut returns);
        let mut header = Header::new(message, FlowKey([flow, 0, 0, 0, 1]));
        (header.generation, header.epoch, header.timestamp) = (9, 1, at);
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

/// A message that crossed a change is about an element of the other chain: nobody may take it
/// for one of this. It is sent again; a packet does not cross a change, and would be counted.
#[test]
fn what_is_about_another_chain_is_left_alone() {
    let mut bench = Bench::new(8);
    let command = WorkerCommand::Replace {
        plans: vec![SlowPlan::Keep(0)],
        blueprint: Arc::clone(&bench.worker.blueprint),
        walk: Box::new(WholeWalk {
            steering: Steering::new(SEED),
            order: ElementOrder::default(),
        }),
        chain: 1,
        now: Instant::ZERO,
    };
    let answer = bench
        .worker
        .execute(command, &mut bench.own, &mut Vec::new());
    assert!(matches!(answer, WorkerAnswer::Replaced(_)));
    let answers = bench.ask(Message::Pull, 1, Instant(5));
    assert_eq!((answers, bench.worker.drops().total()), (Vec::new(), 0));
    let packet = PacketBuilder::udp(Endpoint::v4([1; 4], 1), Endpoint::v4([2; 4], 2));
    let mut header = Header::new(Message::Plain, FlowKey([1, 0, 0, 0, 1]));
    header.has_packet = true;
    let packet = packet.to_vec().expect("fits");
    bench.send(&header, &packet, &mut Vec::new());
    assert_eq!(bench.worker.drops().total(), 1);
    header.chain = 1;
    let mut returns = Vec::new();
    bench.send(&header, &packet, &mut returns);
    let back = Header::read(returns[0].bytes()).expect("a header");
    assert_eq!((back.message, back.chain), (Message::Return, 1));
}

/// What comes in bursts is handled as what comes one by one, flows or not, headers or not.
#[test]
fn bursts_are_looked_ahead_at_and_change_nothing() {
    let answers = |is_burst: bool| {
        let (mut bench, mut burst, mut returns) = (Bench::new(40), Vec::new(), Vec::new());
        for number in 0..100u64 {
            let mut header = Header::new(
                [Message::WriteBack, Message::Pull][usize::from(number >= 50)],
                FlowKey([number % 50, 0, 0, 0, 1]),
            );
            (header.generation, header.epoch) = (number as u32 / 50, 1);
            header.element = u8::from(number % 9 == 8);
            let mut frame = bench.buffers.take(0).expect("a buffer");
            if number % 7 != 3 {
                attach(&mut frame, &header).expect("headroom");
                twinpath_link::number(&mut frame, bench.sender.number());
            }
            burst.push(frame);
        }
        match is_burst {
            true => bench
                .worker
                .receive_burst(&mut burst, &mut bench.own, &mut returns),
            false => burst.drain(..).for_each(|frame| {
                bench.worker.receive(frame, &mut bench.own, &mut returns);
            }),
        }
        let answers: Vec<Vec<u8>> = returns.iter().map(|frame| frame.bytes().to_vec()).collect();
        (answers, bench.worker.drops().clone())
    };
    let (burst, one_by_one) = (answers(true), answers(false));
    assert!(burst.0.len() > 40, "{} answers", burst.0.len());
    assert_eq!(burst, one_by_one);
}

/// Elements that cannot be made again after a crash are tried again later; what comes meanwhile
/// is dropped, with the reason.
#[test]
fn a_worker_whose_elements_cannot_be_made_tries_again() {
    let is_broken = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_broken);
    let blueprint: Blueprint = Arc::new(move || {
        assert!(!seen.load(Ordering::Relaxed), "a panic counts as a failure");
        let slow = SlowFlows::new(Chain::new(Vec::new()), 10, 1, SEED);
        Ok(vec![SlowElement::Flows(Box::new(slow))])
    });
    let mut bench = Bench::new(1);
    bench.worker = Worker::new(blueprint, None).expect("not yet");
    is_broken.store(true, Ordering::Relaxed);
    let at = |milliseconds: u64| Instant(milliseconds * 1_000_000);
    bench.worker.crash(at(1), &mut bench.own, &mut Vec::new());
    assert_eq!(bench.ask(Message::WriteBack, 1, at(500)), []);
    assert_eq!(bench.ask(Message::WriteBack, 1, at(1500)), []);
    assert_eq!(bench.worker.drops().of(DropReason::WorkerCrashed), 2);
    is_broken.store(false, Ordering::Relaxed);
    assert_eq!(bench.ask(Message::WriteBack, 1, at(1600)), [], "not yet");
    let answers = bench.ask(Message::WriteBack, 1, at(2600));
    assert_eq!(answers, [Message::Acknowledge]);
    assert_eq!(bench.worker.restarts(), 1);
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
    assert_eq!(bench.worker.link_counters().no_buffer, 0);
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

/// The same of a pull whose packet's payload waits on the fast path's side: the payload is
/// told of by itself.
#[test]
fn a_refused_pull_of_a_header_is_declined_too() {
    let mut bench = Bench::new(1);
    bench.ask(Message::WriteBack, 1, Instant::ZERO);
    let mut header = Header::new(Message::Pull, FlowKey([2, 0, 0, 0, 1]));
    header.has_packet = true;
    let mut frame = bench.buffers.take_filled(&[0; 54]).expect("a buffer");
    frame.set_metadata(Metadata {
        parked_bytes: 20,
        ..Metadata::default()
    });
    attach(&mut frame, &header).expect("headroom");
    number(&mut frame, bench.sender.number());
    let mut returns = Vec::new();
    bench.worker.receive(frame, &mut bench.own, &mut returns);
    assert_eq!(
        returns.iter().map(says).collect::<Vec<_>>(),
        [Message::Decline, Message::Dropped]
    );
    let drops = bench.worker.drops();
    assert_eq!(drops.of(DropReason::FlowTableFull), 1);
    assert_eq!(drops.total(), 1);
}

/// What crashed workers had granted is kept until the fast path says that it has let go: it is
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
    assert_eq!(bench.worker.flows().next().expect("flows").store().len(), 1);
    let asked = bench.ask(Message::WriteBack, 2, later(2));
    assert_eq!(asked, [Message::Recall, Message::Acknowledge]);
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
