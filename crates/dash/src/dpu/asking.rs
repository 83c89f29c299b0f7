//! Policies that are elsewhere: what they were asked, and have not answered yet.
//!
//! A node keeps flows on its fast path and policies on its slow one. There a packet that policies have
//! to judge stops ([`DpuStep::Ask`]), and goes on with their answer ([`Dpu::resume`]); those of its flow
//! that come meanwhile wait behind it ([`DpuStep::Wait`]). Nothing has been counted or changed of a packet
//! that stops, but that it came: what it meets when it goes on is what holds then.

use std::collections::HashMap;
use std::sync::Arc;

use twinpath_core::Instant;
use twinpath_core::hash::seed_for;
use twinpath_core::wire::layout::{Fragment, Network};
use twinpath_core::wire::{fragment, ipv4};

use super::{Dpu, Stop, Verdict};
use crate::flows::{DatagramName, EntryKey};
use crate::headers::Direction;
use crate::pipeline::{Arrival, Policies, PolicyDecision, Received};
use crate::reason::Reason;
use crate::settings::Settings;
use crate::tables::{Keyed, Tables};

/// How far a packet has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DpuStep {
    /// To its end.
    Done(Verdict),
    /// Policies have to judge it.
    Ask(Question),
    /// It waits for what they say about another packet of this key.
    Wait(EntryKey),
}

/// What policies are asked.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Which packets wait for the answer.
    pub key: EntryKey,
    /// The packet that they judge: that which asks, or the one that once opened its flow.
    pub arrival: Arrival,
}

/// What policies say, and to which question.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What they were asked.
    pub question: Question,
    /// What is done to packets, or why they are dropped.
    pub said: Result<PolicyDecision, Reason>,
}

/// Where policies judge.
pub(super) enum PolicyPlace {
    /// At once.
    Here,
    /// Who asks waits.
    Elsewhere(Box<Asked>),
}

/// A datagram of an ENI that will be there once.
type OwnDatagram = (u32, DatagramName);

/// The name of a fragment's datagram.
pub(super) fn datagram_of(inside: &[u8], received: &Received) -> Option<DatagramName> {
    let (layout, arrival) = (&received.inner, &received.arrival);
    let part = fragment::part(inside, layout)?;
    let protocol = match layout.network {
        Network::V4 => *inside.get(usize::from(layout.l3) + ipv4::PROTOCOL_AT)?,
        _ => 0,
    };
    Some(DatagramName::new(
        received.arrival.way,
        &arrival.headers,
        part.identification,
        protocol,
    ))
}

/// Datagrams of which the first fragments wait for an answer.
#[derive(Debug, Default)]
pub struct WaitingDatagrams(Vec<OwnDatagram>);

/// What is not answered yet.
pub(super) struct Asked {
    flows: HashMap<EntryKey, Waiting, Keyed>,
    /// Of which flow the first fragment of a datagram waits for an answer.
    datagrams: HashMap<OwnDatagram, EntryKey, Keyed>,
    /// The datagram of the packet that waits last, if nothing else that waits has its name.
    named: Option<OwnDatagram>,
    /// The answer for the packet in hand.
    answer: Option<Answer>,
    /// How many questions there have been, as far as it can be counted.
    questions: u32,
}

/// A question that is not answered yet.
struct Waiting {
    number: u32,
    /// Those whose first fragments wait for the answer.
    datagrams: Vec<OwnDatagram>,
}

impl Asked {
    fn new(seed: u64) -> Self {
        let keyed = Keyed::new(seed_for(seed, "dash questions"));
        Self {
            flows: HashMap::with_hasher(keyed),
            datagrams: HashMap::with_hasher(keyed),
            named: None,
            answer: None,
            questions: 0,
        }
    }

    /// Whether anything is not answered yet.
    fn is_asking(&self) -> bool {
        !self.flows.is_empty()
    }

    /// Whether there is a question about a key that is not answered yet.
    fn is_asked(&self, key: &EntryKey) -> bool {
        self.is_asking() && self.flows.contains_key(key)
    }

    /// There is a question about a key.
    fn ask(&mut self, key: EntryKey) {
        self.questions = self.questions.wrapping_add(1);
        let waiting = Waiting {
            number: self.questions,
            datagrams: Vec::new(),
        };
        self.flows.insert(key, waiting);
    }

    /// The first fragment of a datagram waits for the answer to a question about a key.
    fn name(&mut self, datagram: OwnDatagram, key: &EntryKey) {
        if let Some(waiting) = self.flows.get_mut(key)
            && self.datagrams.insert(datagram, *key) != Some(*key)
        {
            waiting.datagrams.push(datagram);
            self.named = Some(datagram);
        }
    }

    /// What was named last waits no more.
    fn forget_named(&mut self, key: &EntryKey) {
        if let Some(datagram) = self.named.take()
            && let Some(waiting) = self.flows.get_mut(key)
        {
            waiting.datagrams.pop();
            self.datagrams.remove(&datagram);
        }
    }

    fn wait_for(&self, key: &EntryKey) -> Result<(), Stop> {
        match self.is_asked(key) {
            true => Err(Stop::Wait(*key)),
            false => Ok(()),
        }
    }
}

impl Dpu {
    /// A DPU whose policies judge elsewhere, over the same tables.
    #[must_use]
    pub fn with_policies_elsewhere(settings: Settings, tables: Arc<Tables>, seed: u64) -> Self {
        let mut dpu = Self::with_tables(settings, tables, seed);
        dpu.judge = PolicyPlace::Elsewhere(Box::new(Asked::new(seed)));
        dpu
    }

    /// What policies say to a question.
    ///
    /// # Errors
    /// Why packets are dropped.
    pub fn answer(&self, arrival: &Arrival) -> Result<PolicyDecision, Reason> {
        let eni = self.tables.eni(arrival.eni).ok_or(Reason::EniMiss)?;
        let policies = Policies {
            tables: &self.tables,
            settings: &self.settings,
            eni,
            notes: None,
        };
        policies.decide(arrival)
    }

    /// As [`Self::process`], but a packet stops where policies have to judge it.
    pub fn begin(&mut self, buffer: &mut [u8], start: usize, now: Instant) -> DpuStep {
        let frame = buffer.get(start..).unwrap_or(&[]);
        let mut received = Received::read(frame, &self.tables, &self.settings);
        self.finish(buffer, start, &mut received, None, now)
    }

    /// A packet that has stopped goes on, with the answer that it waited for, if there is one. It may have to
    /// ask again: what it would ask now may be something else.
    pub fn resume(
        &mut self,
        buffer: &mut [u8],
        start: usize,
        now: Instant,
        answer: Option<&Answer>,
    ) -> DpuStep {
        let frame = buffer.get(start..).unwrap_or(&[]);
        let mut received = match Received::read(frame, &self.tables, &self.settings) {
            Ok(received) => received,
            Err((reason, whose)) => {
                let eni = whose.map(|(_, eni, _)| eni);
                return DpuStep::Done(self.dropped(reason, eni));
            }
        };
        self.set_answer(answer.copied());
        let step = self.go_on(buffer, start, &mut received, None, now);
        self.set_answer(None);
        step
    }

    /// Nothing waits for the answer to a question about this key any more. Returns whose first fragments did.
    pub fn no_longer_asked(&mut self, key: &EntryKey) -> WaitingDatagrams {
        let PolicyPlace::Elsewhere(asked) = &mut self.judge else {
            return WaitingDatagrams::default();
        };
        let waiting = asked.flows.remove(key);
        let mut datagrams = waiting.map_or_else(Vec::new, |waiting| waiting.datagrams);
        // Another flow's may have its name now.
        datagrams.retain(|datagram| asked.datagrams.get(datagram) == Some(key));
        for datagram in &datagrams {
            asked.datagrams.remove(datagram);
        }
        WaitingDatagrams(datagrams)
    }

    /// Who waited for an answer about a key waits for the next one: somebody in front has asked again.
    pub fn wait_again(&mut self, key: &EntryKey, datagrams: WaitingDatagrams) {
        if let PolicyPlace::Elsewhere(asked) = &mut self.judge
            && let Some(waiting) = asked.flows.get_mut(key)
        {
            for datagram in datagrams.0 {
                asked.datagrams.entry(datagram).or_insert(*key);
                waiting.datagrams.push(datagram);
            }
        }
    }

    /// The packet that was to wait last, for who has asked about this key, is dropped: its ENI has no room for it.
    pub fn not_held(&mut self, key: &EntryKey, eni: u16) {
        if let PolicyPlace::Elsewhere(asked) = &mut self.judge {
            asked.forget_named(key);
        }
        if let Some(state) = self.enis.get_mut(usize::from(eni)) {
            state.counters.not_held += 1;
        }
    }

    /// The number of the question about this key that is not answered yet. Numbers follow one another, and
    /// begin again after the last.
    #[must_use]
    pub fn question_number(&self, key: &EntryKey) -> Option<u32> {
        match &self.judge {
            PolicyPlace::Elsewhere(asked) => Some(asked.flows.get(key)?.number),
            PolicyPlace::Here => None,
        }
    }

    fn set_answer(&mut self, answer: Option<Answer>) {
        if let PolicyPlace::Elsewhere(asked) = &mut self.judge {
            asked.answer = answer;
        }
    }

    /// A packet asks about this key: all that are of its flow wait, and if it is the first fragment of a
    /// datagram, so do the others.
    pub(super) fn asks(&mut self, key: &EntryKey, inside: &[u8], received: &Received) {
        if let PolicyPlace::Elsewhere(asked) = &mut self.judge {
            asked.ask(*key);
            self.waits(key, inside, received);
        }
    }

    /// A packet waits for who has asked about this key; so do the other fragments of a datagram whose
    /// first it is.
    pub(super) fn waits(&mut self, key: &EntryKey, inside: &[u8], received: &Received) {
        let PolicyPlace::Elsewhere(asked) = &mut self.judge else {
            return;
        };
        asked.named = None;
        if received.inner.fragment == Fragment::First
            && let Some(name) = datagram_of(inside, received)
        {
            asked.name((key.serial(), name), key);
        }
    }

    /// A later fragment waits for the first of its datagram.
    pub(super) fn wait_for_first(&self, datagram: &OwnDatagram) -> Result<(), Stop> {
        match &self.judge {
            PolicyPlace::Elsewhere(asked) => match asked.datagrams.get(datagram) {
                Some(key) => Err(Stop::Wait(*key)),
                None => Ok(()),
            },
            PolicyPlace::Here => Ok(()),
        }
    }

    /// A packet waits if another of its flow and direction has asked.
    #[inline]
    pub(super) fn wait_for_others(&self, key: &EntryKey) -> Result<(), Stop> {
        match &self.judge {
            PolicyPlace::Elsewhere(asked) => asked.wait_for(key),
            PolicyPlace::Here => Ok(()),
        }
    }

    /// Whether another packet of a key's flow has asked, and is not answered yet.
    #[inline]
    pub(super) fn is_asked(&self, key: &EntryKey) -> bool {
        matches!(&self.judge, PolicyPlace::Elsewhere(asked) if asked.is_asked(key))
    }

    /// A packet of no flow waits if one has asked that may open the flow that it belongs to: with this
    /// key, or as what packets with this key answer.
    pub(super) fn wait_for_opening(&self, key: &EntryKey) -> Result<(), Stop> {
        let PolicyPlace::Elsewhere(asked) = &self.judge else {
            return Ok(());
        };
        let answered = [Direction::Outbound, Direction::Inbound].map(|way| key.turned(way));
        let mut openings = answered.into_iter().chain([*key]);
        match openings.find(|key| asked.is_asked(key)) {
            Some(opening) => Err(Stop::Wait(opening)),
            None => Ok(()),
        }
    }

    /// Whether policies can say at once what a packet asks.
    pub(super) fn may_judge(&self, key: &EntryKey, arrival: &Arrival) -> Result<(), Stop> {
        let PolicyPlace::Elsewhere(asked) = &self.judge else {
            return Ok(());
        };
        let question = Question {
            key: *key,
            arrival: *arrival,
        };
        match &asked.answer {
            Some(answer) if answer.question == question => Ok(()),
            _ => Err(Stop::Ask(Box::new(question))),
        }
    }

    /// What they say.
    pub(super) fn judged(&mut self, arrival: &Arrival) -> Result<PolicyDecision, Reason> {
        let given = match &self.judge {
            PolicyPlace::Elsewhere(asked) => asked.answer.as_ref(),
            PolicyPlace::Here => None,
        };
        given.map_or_else(|| self.answer(arrival), |answer| answer.said)
    }
}

#[cfg(all(test, feature = "samples"))]
mod tests {
    use twinpath_core::wire::tunnel::Varying;
    use twinpath_core::wire::{Endpoint, MacAddress, PacketBuilder, dissect};

    use super::*;
    use crate::samples::{Large, large};

    const HEADROOM: usize = 64;

    /// The first fragment of a datagram, in its buffer.
    fn first_fragment(identification: u32) -> Vec<u8> {
        let ends = [Large::machine(1), Large::mapped(0)].map(|end| Endpoint::new(end, 80));
        let datagram = PacketBuilder::udp(ends[0], ends[1]).payload_len(600);
        let datagram = datagram.macs(Large::mac(0), MacAddress([2; 6]));
        let whole = datagram.to_vec().expect("a packet");
        let layout = dissect(&whole).expect("sound");
        let pieces = fragment::cut(&whole, &layout, 400, identification).expect("cut");
        let frame = Large::outbound(0, &pieces[0], &Varying::default());
        [vec![0; HEADROOM], frame].concat()
    }

    /// However many fragments come that there is no room for.
    #[test]
    fn datagrams_are_named_whose_fragments_wait() {
        let objects = large(&Large {
            enis: 1,
            acl_stages: 0,
            acl_rules: 0,
            acl_prefixes: 0,
            routes: 1,
            mappings: 1,
        });
        let mut policies = Dpu::new(Settings::default(), 1);
        policies.update(&objects, &objects.keys());
        let tables = Arc::new(policies.tables().clone());
        let mut dpu = Dpu::with_policies_elsewhere(Settings::default(), tables, 1);
        let now = Instant(1);
        let asked = dpu.begin(&mut first_fragment(1), HEADROOM, now);
        let DpuStep::Ask(Question { key, .. }) = asked else {
            panic!("nothing is asked: {asked:?}");
        };
        let waits = |dpu: &mut Dpu, identification| {
            let step = dpu.begin(&mut first_fragment(identification), HEADROOM, now);
            assert_eq!(step, DpuStep::Wait(key));
        };
        // Three times the same, as some networks have it.
        (0..3).for_each(|_| waits(&mut dpu, 2));
        for identification in 3..100 {
            waits(&mut dpu, identification);
            dpu.not_held(&key, 0);
        }
        waits(&mut dpu, 2);
        dpu.not_held(&key, 0);
        waits(&mut dpu, 1000);
        let counters = dpu.counters(&"eni-0".into()).expect("there");
        assert_eq!(counters.not_held, 98);
        assert_eq!(dpu.no_longer_asked(&key).0.len(), 3);
    }
}
