//! What an operator looks at: each party of the run is asked for a part at a time, between two
//! bursts, and does its own work in between.

use super::Control;
use super::listing::Listing;
use crate::command::Command;
use crate::fast_path::FastElement;
use crate::machine::Machine;
use crate::worker::{SlowElement, Worker};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant as WallClock};
use twinpath_coherence::{Grant, SlowFlows};
use twinpath_control::look::{
    BackendView, BindingView, CounterView, DashFlowView, DashQuery, FlowPath, FlowView, Look,
    LookResult, Part, Query,
};
use twinpath_control::operator::Answer;
use twinpath_control::report::EniFigures;
use twinpath_control::service::{Instance, Paths, Service};
use twinpath_core::key::KeyKind;
use twinpath_core::wire::{Address, Endpoint};
use twinpath_core::{FlowKey, Instant, Side};
use twinpath_nf::descriptor::FunctionConfig;
use twinpath_nf::edit::Object;
use twinpath_nf::records::{Count, EntryHits, FlowRecord, Page};
use twinpath_rulecache::RuleFunction;

/// Flows or entries that one question looks at.
const PART: u32 = 1024;

/// How long an answer may take to be put together.
const TIME: Duration = Duration::from_secs(20);

impl Control {
    pub(super) fn look(&self, look: Look) -> Result<Answer, String> {
        let seen = match look {
            Look::Flows(query) => LookResult::Flows(self.flows(&query)?),
            Look::Bindings(query) => LookResult::Bindings(self.bindings(&query)?),
            Look::Backends(query) => LookResult::Backends(self.backends(&query)?),
            Look::Counters(query) => LookResult::Counters(self.entry_counters(&query)?),
            Look::DashFlows(query) => LookResult::DashFlows(self.dash_flows(&query)?),
            Look::Figures => LookResult::Figures(Box::new(self.figures()?)),
        };
        Ok(Answer::LookResult(Box::new(seen)))
    }

    fn flows(&self, query: &Query) -> Result<Part<FlowView>, String> {
        let service = self.service();
        check_name(query, &service)?;
        let mut told = Listing::new(query);
        told.by_size = query.largest.then_some(flow_size);
        for (place, function) in service.chain.iter().enumerate() {
            if is_of(query, function) {
                told.is_cut |= !self.counted_flows(query, (place, function), &mut told)?;
            }
        }
        self.flows_of_dpu(query, &service, &mut told)?;
        for worker in self.workers(&service) {
            let is_through = self.each_flow(worker, query, &mut |part| {
                let held = self.fast_words(worker.0, &part)?;
                for (flow, fast) in part.flows.iter().zip(held) {
                    told.push(flow_view(&service, &part, flow, fast));
                }
                Ok(!told.is_full())
            })?;
            told.is_cut |= !is_through;
        }
        Ok(told.finish())
    }

    /// Flows of the service's DPU, if it has one.
    fn flows_of_dpu(
        &self,
        query: &Query,
        service: &Service,
        told: &mut Listing<FlowView>,
    ) -> Result<(), String> {
        let mut instances = service.chain.iter().filter(|one| is_of(query, one));
        let Some(dpu) = instances.find(|one| is_dpu(one)) else {
            return Ok(());
        };
        let part = self.dash_flows(&DashQuery {
            address: query.address,
            port: query.port,
            flow: query.flow.clone(),
            most: query.most,
            ..DashQuery::default()
        })?;
        let path = match service.run.paths {
            Paths::Both => FlowPath::Fast,
            Paths::Slow => FlowPath::Slow,
        };
        for flow in part.told {
            told.push(dpu_view(&dpu.name, flow, path));
        }
        told.has_more |= part.has_more;
        told.is_cut |= part.is_cut;
        Ok(())
    }

    /// What the ENIs of the service's DPU have counted, if it has one.
    fn eni_counters(&self, query: &Query, service: &Service) -> Result<Vec<CounterView>, String> {
        let mut instances = service.chain.iter().filter(|one| is_of(query, one));
        let Some(dpu) = instances.find(|one| is_dpu(one)) else {
            return Ok(Vec::new());
        };
        let enis = self.figures()?.dash.map_or_else(Vec::new, |dash| dash.enis);
        Ok(enis
            .iter()
            .flat_map(|eni| eni_views(&dpu.name, eni))
            .collect())
    }

    /// The workers of all shards, by shard and number.
    fn workers(&self, service: &Service) -> impl Iterator<Item = (usize, usize)> + use<> {
        let each = service.slow_path.workers;
        (0..self.shards()).flat_map(move |shard| (0..each).map(move |worker| (shard, worker)))
    }

    /// Flows that a function which makes rules counts. Whether there was time for all.
    fn counted_flows(
        &self,
        query: &Query,
        (place, function): (usize, &Instance),
        told: &mut Listing<FlowView>,
    ) -> Result<bool, String> {
        let page = |config: &dyn FunctionConfig, function: &dyn RuleFunction, from| {
            config.flow_records(function, from, PART)
        };
        self.pages(place, function, page, &mut |record: FlowRecord, now| {
            if is_wanted(query, &record.key) {
                told.push(counted_view(&function.name, &record, now));
            }
            !told.is_full()
        })
    }

    /// Calls `each` with all that a function tells in pages, and the packet time, until it has
    /// enough. Whether there was time for all.
    pub(super) fn pages<T: Send + 'static>(
        &self,
        place: usize,
        function: &Instance,
        page: impl Fn(&dyn FunctionConfig, &dyn RuleFunction, u32) -> Option<Page<T>>
        + Copy
        + Send
        + 'static,
        each: &mut dyn FnMut(T, Instant) -> bool,
    ) -> Result<bool, String> {
        if !function.makes_rules() {
            return Ok(true);
        }
        let until = WallClock::now() + TIME;
        for shard in 0..self.shards() {
            let mut from = Some(0);
            while let Some(first) = from {
                let config = Arc::clone(&function.config);
                let asked = self.ask(shard, move |worker, now| {
                    let found = page(&*config, worker.function(place)?, first)?;
                    Some((found, now))
                })?;
                let Some((found, now)) = asked else {
                    return Ok(true);
                };
                for item in found.items {
                    if !each(item, now) {
                        return Ok(true);
                    }
                }
                from = found.next;
                if from.is_some() && WallClock::now() >= until {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Calls `each` with the flows of a worker that are wanted, part by part, until it has enough. Whether
    /// there was time for all.
    fn each_flow(
        &self,
        worker: (usize, usize),
        query: &Query,
        each: &mut dyn FnMut(FlowPart) -> Result<bool, String>,
    ) -> Result<bool, String> {
        let until = WallClock::now() + TIME;
        let mut next = Some((0, 0));
        while let Some((element, from)) = next {
            let part = self.flow_part(worker, (element, from), query)?;
            next = part.next;
            if !part.flows.is_empty() && !each(part)? {
                return Ok(true);
            }
            if next.is_some() && WallClock::now() >= until {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Some flows of a worker, as the present chain knows them: those that still follow to it from a former
    /// one do so first.
    fn flow_part(
        &self,
        worker: (usize, usize),
        (element, from): (usize, usize),
        query: &Query,
    ) -> Result<FlowPart, String> {
        loop {
            let wanted = query.clone();
            let part = self.ask_worker(worker, move |worker, now| {
                flow_part(worker, (element, from), &wanted, now)
            })?;
            match part {
                Some(part) => return Ok(part),
                None => self.take_of_worker(worker, move |worker| {
                    worker.catch_up(element, from..from + PART as usize);
                })?,
            }
        }
    }

    /// The words of flows that a shard's fast path holds, as they are there.
    fn fast_words(&self, shard: usize, part: &FlowPart) -> Result<Vec<Option<Vec<u32>>>, String> {
        let element = part.element;
        let granted = |flow: &RawFlow| flow.is_granted.then_some(flow.key);
        let keys: Vec<Option<FlowKey>> = part.flows.iter().map(granted).collect();
        if keys.iter().all(Option::is_none) {
            return Ok(vec![None; keys.len()]);
        }
        self.ask_machine(shard, move |machine| {
            let stage = match machine.path().elements().get(element) {
                Some(FastElement::State(stage)) => Some(stage),
                _ => None,
            };
            let words = |key: &Option<FlowKey>| Some(stage?.words_of(key.as_ref()?)?.to_vec());
            keys.iter().map(words).collect()
        })
    }

    pub(super) fn ask_machine<T: Send + 'static>(
        &self,
        shard: usize,
        question: impl FnOnce(&Machine) -> T + Send + 'static,
    ) -> Result<T, String> {
        let (sender, receiver) = mpsc::channel();
        let question = move |machine: &Machine| drop(sender.send(question(machine)));
        self.tell(shard, Command::AskMachine(Box::new(question)))?;
        receiver
            .recv_timeout(super::TIMEOUT)
            .map_err(|_| super::over())
    }

    fn bindings(&self, query: &Query) -> Result<Part<BindingView>, String> {
        let service = self.service();
        check_name(query, &service)?;
        let mut told = Listing::new(query).where_any_has(&service, Object::Binding);
        for (place, function) in service.chain.iter().enumerate() {
            if !is_of(query, function) {
                continue;
            }
            let page = |config: &dyn FunctionConfig, function: &dyn RuleFunction, from| {
                Some(config.bindings(function)?.page(from, PART))
            };
            let is_through = self.pages(place, function, page, &mut |binding, _| {
                if ends_are_wanted(query, &[binding.internal, binding.external]) {
                    told.push(BindingView {
                        function: function.name.to_string(),
                        protocol: binding.kind.to_string(),
                        internal: binding.internal.to_string(),
                        external: binding.external.to_string(),
                        sessions: binding.sessions,
                    });
                }
                !told.is_full()
            })?;
            told.is_cut |= !is_through;
        }
        Ok(told.finish())
    }

    fn entry_counters(&self, query: &Query) -> Result<Part<CounterView>, String> {
        let service = self.service();
        check_name(query, &service)?;
        let mut told = Listing::new(query);
        for (place, function) in service.chain.iter().enumerate() {
            if !is_of(query, function) {
                continue;
            }
            let page = |config: &dyn FunctionConfig, function: &dyn RuleFunction, from| {
                config.hits(function, from, PART)
            };
            let is_through = self.pages(place, function, page, &mut |hits, _| {
                told.push(counter_view(function, hits));
                !told.is_full()
            })?;
            told.is_cut |= !is_through;
            self.flow_hits(&service, (place, function), &mut told)?;
        }
        let enis = self.eni_counters(query, &service)?;
        enis.into_iter().for_each(|view| told.push(view));
        Ok(told.finish())
    }

    /// How often rules of a function that shares flow state decided, on all workers together.
    fn flow_hits(
        &self,
        service: &Service,
        (place, function): (usize, &Instance),
        told: &mut Listing<CounterView>,
    ) -> Result<(), String> {
        let until = WallClock::now() + TIME;
        let mut from = Some(0);
        while let Some(first) = from {
            let mut sum: Option<Page<EntryHits>> = None;
            for worker in self.workers(service) {
                let config = Arc::clone(&function.config);
                let page = self.ask_worker(worker, move |worker, _| {
                    config.flow_hits(worker.flow_function(place)?, first, PART)
                })?;
                let Some(page) = page else {
                    return Ok(());
                };
                match &mut sum {
                    Some(sum) => add_hits(&mut sum.items, &page.items),
                    None => sum = Some(page),
                }
            }
            let Some(sum) = sum else {
                return Ok(());
            };
            for hits in sum.items {
                told.push(counter_view(function, hits));
            }
            from = sum.next.filter(|_| !told.is_full());
            if from.is_some() && WallClock::now() >= until {
                told.is_cut = true;
                return Ok(());
            }
        }
        Ok(())
    }

    fn backends(&self, query: &Query) -> Result<Part<BackendView>, String> {
        let service = self.service();
        check_name(query, &service)?;
        let mut told = Listing::new(query).where_any_has(&service, Object::Backend);
        for function in service.chain.iter().filter(|one| is_of(query, one)) {
            let backends = function.config.backends();
            if backends.is_empty() {
                continue;
            }
            let connections = self.connections(&service, function)?;
            // Later, so that none is known that was not opened.
            let figures = self.figures()?;
            let counted = figures.functions.iter();
            let counters = counted.filter(|one| one.name == *function.name);
            let counters = counters.map(|one| &one.counters).next();
            for backend in backends {
                let opened = counters.and_then(|all| all.get(backend.counter));
                told.push(BackendView {
                    function: function.name.to_string(),
                    service: backend.service,
                    backend: backend.endpoint.to_string(),
                    weight: backend.weight,
                    mac: backend.mac.map(|mac| mac.to_string()),
                    is_drained: backend.is_drained,
                    opened: opened.copied().unwrap_or_default(),
                    connections: connections.get(&backend.row).copied().unwrap_or_default(),
                });
            }
        }
        Ok(told.finish())
    }

    /// How many connections each backend of a function has, by its place.
    fn connections(
        &self,
        service: &Service,
        function: &Instance,
    ) -> Result<BTreeMap<usize, u64>, String> {
        let mut connections = BTreeMap::new();
        let query = Query {
            function: Some(function.name.to_string()),
            ..Query::default()
        };
        for worker in self.workers(service) {
            self.each_flow(worker, &query, &mut |part| {
                for flow in &part.flows {
                    let words = part.words(&function.name, &flow.words);
                    let text = function.config.flow_text(words, part.now);
                    if let Some(row) = text.and_then(|text| text.backend) {
                        *connections.entry(row).or_default() += 1;
                    }
                }
                Ok(true)
            })?;
        }
        Ok(connections)
    }
}

/// A DPU's flow among flows of any function: whose it is and which way it was opened is its state.
fn dpu_view(function: &str, flow: DashFlowView, path: FlowPath) -> FlowView {
    let DashFlowView {
        eni,
        direction,
        protocol,
        source,
        destination,
        state,
        action,
        unused_ns,
        ..
    } = flow;
    let state = [eni, direction, state]
        .into_iter()
        .filter(|part| !part.is_empty());
    let state: Vec<_> = state.collect();
    FlowView {
        functions: vec![function.to_owned()],
        protocol,
        ends: vec![source, destination],
        state: vec![(
            function.to_owned(),
            format!("{}: {}", state.join(" "), action.text),
        )],
        path: Some(path),
        packets: None,
        bytes: None,
        age_ns: None,
        unused_ns: Some(unused_ns),
    }
}

/// What an ENI has counted: packets either way as they came and as they left, and those that were dropped
/// by reason.
fn eni_views(function: &str, eni: &EniFigures) -> Vec<CounterView> {
    let view = |what: String, packets, bytes| CounterView {
        function: function.to_owned(),
        rule: None,
        text: format!("ENI {}: {what}", eni.eni),
        packets,
        bytes,
    };
    let ways = [("outbound", &eni.outbound), ("inbound", &eni.inbound)];
    let ways = ways.into_iter().flat_map(|(way, counts)| {
        let (came, left) = (counts.received_bytes, counts.sent_bytes);
        [
            view(format!("{way}, came"), counts.received_packets, Some(came)),
            view(format!("{way}, left"), counts.sent_packets, Some(left)),
        ]
    });
    let drops = eni.drops.iter();
    let drops = drops.map(|(reason, count)| view(format!("dropped ({reason})"), *count, None));
    ways.chain(drops).collect()
}

fn is_dpu(instance: &Instance) -> bool {
    instance.config.of::<twinpath_nf::dash::Config>().is_some()
}

/// Adds what another worker has counted for the same rules.
fn add_hits(sum: &mut [EntryHits], more: &[EntryHits]) {
    for (sum, more) in sum.iter_mut().zip(more) {
        sum.packets += more.packets;
    }
}

fn counter_view(function: &Instance, hits: EntryHits) -> CounterView {
    CounterView {
        function: function.name.to_string(),
        rule: hits.rule,
        text: hits.text,
        packets: hits.packets,
        bytes: hits.bytes,
    }
}

/// A flow as a worker knows it.
struct RawFlow {
    key: FlowKey,
    words: Vec<u32>,
    is_granted: bool,
}

/// Some flows of an element.
struct FlowPart {
    now: Instant,
    element: usize,
    /// The functions, with the number of words that each has.
    functions: Vec<(String, usize)>,
    flows: Vec<RawFlow>,
    /// The element and the number where others begin.
    next: Option<(usize, usize)>,
}

impl FlowPart {
    /// The words of a function among all of a flow.
    fn words<'w>(&self, function: &str, words: &'w [u32]) -> &'w [u32] {
        let mut first = 0;
        for (name, count) in &self.functions {
            if name == function {
                return words.get(first..first + count).unwrap_or_default();
            }
            first += count;
        }
        &[]
    }
}

/// The flows that are wanted among some of an element's; `None` if some of them still follow from a former
/// chain, whose words they have.
fn flow_part(
    worker: &Worker,
    (element, from): (usize, usize),
    query: &Query,
    now: Instant,
) -> Option<FlowPart> {
    let mut part = FlowPart {
        now,
        element,
        functions: Vec::new(),
        flows: Vec::new(),
        next: (element + 1 < worker.elements().len()).then_some((element + 1, 0)),
    };
    let Some(SlowElement::Flows(flows)) = worker.elements().get(element) else {
        return Some(part);
    };
    part.functions = functions_of(flows);
    let is_named = |name: &String| part.functions.iter().any(|(other, _)| other == name);
    if !query.function.as_ref().is_none_or(is_named) {
        return Some(part);
    }
    let (store, end) = (flows.store(), from + PART as usize);
    if !store.ids_among(from..end).all(|id| store.has_moved(id)) {
        return None;
    }
    for id in store.ids_among(from..end) {
        let (key, words, grant) = store.view(id);
        if is_wanted(query, key) {
            part.flows.push(RawFlow {
                key: *key,
                words: words.to_vec(),
                is_granted: matches!(grant, Grant::Granted(_)),
            });
        }
    }
    if end < store.bound() {
        part.next = Some((element, end));
    }
    Some(part)
}

fn functions_of(flows: &SlowFlows) -> Vec<(String, usize)> {
    let chain = flows.chain();
    let functions = chain.functions().iter().enumerate();
    functions
        .map(|(place, function)| (function.name.to_string(), chain.words_at(place)))
        .collect()
}

fn flow_view(
    service: &Service,
    part: &FlowPart,
    flow: &RawFlow,
    fast: Option<Vec<u32>>,
) -> FlowView {
    let path = match fast.is_some() {
        true => FlowPath::Fast,
        false => FlowPath::Slow,
    };
    let words = fast.as_ref().unwrap_or(&flow.words);
    let (mut state, mut unused, mut counted) = (Vec::new(), None::<Duration>, None);
    for (name, _) in &part.functions {
        let instance = service.chain.iter().find(|one| *one.name == **name);
        let text = instance.and_then(|one| {
            let words = part.words(name, words);
            one.config.flow_text(words, part.now)
        });
        if let Some(text) = text {
            unused = Some(unused.map_or(text.unused, |other| other.min(text.unused)));
            state.push((name.clone(), text.state));
            counted = counted.or(text.counted);
        }
    }
    let sum = |of: fn(&Count) -> u64| {
        let record: Option<FlowRecord> = counted;
        record.map(|record| record.sent.iter().map(of).sum())
    };
    FlowView {
        functions: part
            .functions
            .iter()
            .map(|(name, _)| name.clone())
            .collect(),
        state,
        path: Some(path),
        packets: sum(|count| count.packets),
        bytes: sum(|count| count.bytes),
        age_ns: counted.map(|record| part.now.since(record.first).as_nanos() as u64),
        unused_ns: unused.map(|unused| unused.as_nanos() as u64),
        ..named_view(&flow.key)
    }
}

fn counted_view(function: &str, record: &FlowRecord, now: Instant) -> FlowView {
    let [one, other] = record.sent;
    FlowView {
        functions: vec![function.to_owned()],
        packets: Some(one.packets + other.packets),
        bytes: Some(one.bytes + other.bytes),
        age_ns: Some(now.since(record.first).as_nanos() as u64),
        unused_ns: Some(now.since(record.last).as_nanos() as u64),
        ..named_view(&record.key)
    }
}

/// A flow of which nothing but its name is known.
/// Bytes; none where nobody counts.
fn flow_size(flow: &FlowView) -> u64 {
    flow.bytes.unwrap_or_default()
}

fn named_view(key: &FlowKey) -> FlowView {
    let ends = match key.kind() {
        KeyKind::Entry => vec![format!("{:032x}", u128::from_be_bytes(key.entry_key()))],
        _ => ends_of(key).iter().map(Endpoint::to_string).collect(),
    };
    FlowView {
        functions: Vec::new(),
        protocol: key.protocol(),
        ends,
        state: Vec::new(),
        path: None,
        packets: None,
        bytes: None,
        age_ns: None,
        unused_ns: None,
    }
}

fn ends_of(key: &FlowKey) -> [Endpoint; 2] {
    [key.end(Side::Low), key.end(Side::High)]
}

fn is_wanted(query: &Query, key: &FlowKey) -> bool {
    let says_nothing = query.address.is_none() && query.port.is_none() && query.flow.is_none();
    if key.kind() == KeyKind::Entry {
        return says_nothing;
    }
    let ends = ends_of(key);
    let [one, other] = ends;
    let is_such = |flow: &twinpath_control::flow_filter::FlowFilter| {
        flow.includes(key.protocol(), one, other)
    };
    says_nothing || (ends_are_wanted(query, &ends) && query.flow.as_ref().is_none_or(is_such))
}

fn ends_are_wanted(query: &Query, ends: &[Endpoint]) -> bool {
    let has_address = |address: Address| ends.iter().any(|end| end.address == address);
    query
        .address
        .is_none_or(|address| has_address(address.into()))
        && query
            .port
            .is_none_or(|port| ends.iter().any(|end| end.port == port))
}

fn is_of(query: &Query, function: &Instance) -> bool {
    let name = query.function.as_deref();
    name.is_none_or(|name| name == &*function.name)
}

/// A name that nothing has is a mistake.
fn check_name(query: &Query, service: &Service) -> Result<(), String> {
    let Some(name) = &query.function else {
        return Ok(());
    };
    let mut names = service.chain.iter().map(|one| &*one.name);
    match names.any(|known| known == name) {
        true => Ok(()),
        false => {
            let names: Vec<_> = service.chain.iter().map(|one| &*one.name).collect();
            let names = names.join(", ");
            Err(format!("{name}: expected a function of the chain: {names}"))
        }
    }
}
