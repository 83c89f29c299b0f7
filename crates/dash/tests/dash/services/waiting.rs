//! Where policies are elsewhere: who asks, who waits for whose answer, and whom an answer is for.

use std::sync::Arc;

use twinpath_dash::{Answer, DpuStep, Question};

use super::bench::*;
use super::connections::fragmented;
use super::load_balancer::{ack, balanced, change_mapping, details, redirect, syn, told};

/// Flows here, and policies there.
struct Elsewhere {
    flows: Dpu,
    policies: Bench,
}

impl Elsewhere {
    fn of(objects: Objects) -> Self {
        let policies = Bench::of(objects);
        let tables = Arc::new(policies.dpu.tables().clone());
        Self {
            flows: Dpu::with_policies_elsewhere(Settings::default(), tables, 1),
            policies,
        }
    }

    fn begin(&mut self, frame: &[u8]) -> DpuStep {
        let now = self.policies.now;
        self.flows.begin(&mut in_buffer(frame), HEADROOM, now)
    }

    fn resume(&mut self, frame: &[u8], answer: Option<&Answer>) -> DpuStep {
        let now = self.policies.now;
        self.flows
            .resume(&mut in_buffer(frame), HEADROOM, now, answer)
    }

    /// What a packet asks that policies have to judge.
    fn asks(&mut self, frame: &[u8]) -> Question {
        match self.begin(frame) {
            DpuStep::Ask(question) => question,
            step => panic!("nothing is asked: {step:?}"),
        }
    }

    /// The answer to a question for which nobody waits any more.
    fn answer(&mut self, question: Question) -> Answer {
        self.flows.no_longer_asked(&question.key);
        let said = self.policies.dpu.answer(&question.arrival);
        Answer { question, said }
    }

    /// Opens a flow.
    fn open(&mut self, frame: &[u8]) {
        let question = self.asks(frame);
        let answer = self.answer(question);
        assert!(leaves(&self.resume(frame, Some(&answer))));
    }

    /// The peer's host is another one.
    fn change_mapping(&mut self, host: &str) {
        change_mapping(&mut self.policies, host);
        let tables = Arc::new(self.policies.dpu.tables().clone());
        self.flows.set_tables(tables);
    }
}

fn in_buffer(frame: &[u8]) -> Vec<u8> {
    [&vec![0; HEADROOM][..], frame].concat()
}

fn leaves(step: &DpuStep) -> bool {
    matches!(step, DpuStep::Done(Verdict::Forward(_)))
}

/// A first fragment waits behind what its flow has asked, and the later ones behind it: none is taken for one
/// whose first is missing.
#[test]
fn fragments_wait_with_their_first() {
    let mut bench = Elsewhere::of(private_link());
    let (frames, whole) = fragmented();
    let question = bench.asks(&whole);
    for frame in &frames {
        assert_eq!(bench.begin(frame), DpuStep::Wait(question.key));
    }
    let answer = bench.answer(question);
    assert!(leaves(&bench.resume(&whole, Some(&answer))));
    for frame in &frames {
        assert!(leaves(&bench.resume(frame, None)));
    }
}

/// As it finds its flow where policies are here: errors about it and answers, which come before it is there.
#[test]
fn what_belongs_to_a_flow_waits_for_it() {
    let segment = || tcp((VM_CA, 1), ("10.2.0.8", 2), flags::SYN).macs(ENI_MAC, REMOTE_MAC);
    let quoted = segment().to_vec().expect("a packet");
    let kind = twinpath_core::wire::icmp::IcmpError::PacketTooBig { mtu: 1400 };
    let error = PacketBuilder::icmp_error(kind, &quoted).source_address(ip("10.2.0.1"));
    let answer = tcp(("10.2.0.8", 2), (VM_CA, 1), flags::SYN | flags::ACK);
    let back = [error, answer].map(|packet| from_peer("100.0.0.8", packet));
    let other = tcp(("10.2.0.8", 3), (VM_CA, 1), flags::SYN | flags::ACK);
    let mut bench = Elsewhere::of(peers());
    let first = from_vm(segment());
    let question = bench.asks(&first);
    for frame in &back {
        assert_eq!(bench.begin(frame), DpuStep::Wait(question.key));
    }
    let stray = bench.begin(&from_peer("100.0.0.8", other));
    let of_none = DpuStep::Done(Verdict::Drop(Reason::NoFlow));
    assert_eq!(stray, of_none, "of no flow");
    let answer = bench.answer(question);
    assert!(leaves(&bench.resume(&first, Some(&answer))));
    for frame in &back {
        assert!(leaves(&bench.resume(frame, None)));
    }
}

/// What one host may, another may not: an answer is for who asks the same.
#[test]
fn an_answer_lets_nobody_else_in() {
    let mut bench = Elsewhere::of(peers());
    let [own, others] =
        ["100.0.0.8", "100.0.0.9"].map(|host| from_peer(host, udp(("10.2.0.8", 5), (VM_CA, 6))));
    let question = bench.asks(&own);
    assert_eq!(bench.begin(&others), DpuStep::Wait(question.key));
    let answer = bench.answer(question);
    assert!(answer.said.is_ok());
    let DpuStep::Ask(other) = bench.resume(&others, Some(&answer)) else {
        panic!("nobody has been asked about it");
    };
    assert_eq!(other.arrival.outer_source, ip("100.0.0.9"));
    let refused = bench.answer(other);
    let dropped = DpuStep::Done(Verdict::Drop(Reason::PaValidation));
    assert_eq!(bench.resume(&others, Some(&refused)), dropped);
}

/// A packet whose flow is known overtakes none that waits, also by the shortest way.
#[test]
fn known_flows_wait_for_what_was_asked_before() {
    let mut bench = Elsewhere::of(peers());
    let out = from_vm(udp((VM_CA, 1), ("10.2.0.8", 2)));
    let back = from_peer("100.0.0.8", udp(("10.2.0.8", 2), (VM_CA, 1)));
    bench.open(&out);
    bench.change_mapping("100.0.0.9");
    let [first, second] = [&out, &back].map(|frame| bench.asks(frame));
    let answer = bench.answer(first);
    assert!(leaves(&bench.resume(&out, Some(&answer))), "judged anew");
    bench.flows.look_ahead(std::iter::once(&back[..]));
    let now = bench.policies.now;
    let step = bench
        .flows
        .begin_ahead(0, &mut in_buffer(&back), HEADROOM, now);
    assert_eq!(step, DpuStep::Wait(second.key));
}

/// A redirect is about answers to what it quotes, and waits where one of them has asked.
#[test]
fn redirects_wait_for_what_was_asked_before() {
    let mut bench = Elsewhere::of(balanced());
    let first = Bench::of(balanced()).send(&syn()).expect("sent");
    let moves = told(&redirect(&first, &details()));
    let answer = tcp(("10.2.0.8", 2), (VM_CA, 1), flags::SYN | flags::ACK);
    let back = from_peer("100.0.0.8", answer);
    bench.open(&syn());
    assert!(leaves(&bench.begin(&back)));
    bench.change_mapping("100.0.0.9");
    let question = bench.asks(&back);
    assert_eq!(bench.begin(&moves), DpuStep::Wait(question.key));
    let answer = bench.answer(question);
    assert!(leaves(&bench.resume(&back, Some(&answer))));
    let redirected = DpuStep::Done(Verdict::Drop(Reason::Redirect));
    assert_eq!(bench.resume(&moves, None), redirected);
    assert!(leaves(&bench.begin(&ack())));
    let counters = bench.flows.counters(&eni_id()).expect("there");
    assert_eq!(counters.flows_redirected, 1);
}
