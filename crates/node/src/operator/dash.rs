//! A DPU's flows, and changes of its configuration.

use super::listing::Listing;
use super::{Control, told};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant as WallClock};
use twinpath_control::flow_filter::FlowFilter;
use twinpath_control::look::{DashActionView, DashFlowView, DashQuery, DashTunnelView, Part};
use twinpath_control::operator::Applied;
use twinpath_control::service::Service;
use twinpath_core::Instant;
use twinpath_core::time::TICK_SHIFT;
use twinpath_core::wire::{Address, Endpoint};
use twinpath_dash::flows::{EntryKey, State};
use twinpath_dash::headers::Direction;
use twinpath_dash::objects::Key;
use twinpath_dash::pipeline::{Action, tunnel_names};
use twinpath_dash::{Dpu, Files, FlowView};
use twinpath_nf::dash::Config;

/// Places of the table of flows that one question looks at.
const PART: usize = 4096;

/// How long an answer may take to be put together.
const TIME: Duration = Duration::from_secs(20);

/// What one question has found.
struct Found {
    flows: Vec<DashFlowView>,
    /// Where the next one begins, if there is more.
    next: Option<usize>,
}

impl Control {
    /// The flows that are wanted, a part at a time.
    pub(super) fn dash_flows(&self, query: &DashQuery) -> Result<Part<DashFlowView>, String> {
        let service = self.service();
        let config = dash_of(&service).ok_or(NO_DASH)?;
        if let Some(name) = &query.eni {
            let snapshot = config.store().snapshot();
            let mut enis = snapshot.configuration.enis.keys();
            if !enis.any(|eni| *eni.to_string() == **name) {
                return Err(format!("no ENI {name:?}"));
            }
        }
        let mut all = Listing::at_most(query.most());
        let until = WallClock::now() + TIME;
        for shard in 0..self.shards() {
            let mut from = Some(0);
            while let Some(first) = from.filter(|_| !all.is_full()) {
                if WallClock::now() >= until {
                    all.is_cut = true;
                    return Ok(all.finish());
                }
                let found = self.dash_part(shard, first, query)?;
                found.flows.into_iter().for_each(|flow| all.push(flow));
                from = found.next;
            }
        }
        Ok(all.finish())
    }

    /// Flows are on the fast path, unless there is none.
    fn dash_part(&self, shard: usize, from: usize, query: &DashQuery) -> Result<Found, String> {
        let wanted = query.clone();
        let fast = self.ask_machine(shard, move |machine| {
            let stage = machine.path().dash()?;
            Some(part(stage.dpu(), from, &wanted, machine.now()))
        })?;
        if let Some(found) = fast {
            return Ok(found);
        }
        let wanted = query.clone();
        let slow = self.ask(shard, move |worker, now| {
            Some(part(worker.dash()?.dpu(), from, &wanted, now))
        })?;
        slow.ok_or_else(|| NO_DASH.into())
    }

    /// How many flows the service's DPU knows, if it has one and that can be told.
    pub(super) fn dpu_flows(&self) -> Option<u64> {
        dash_of(&self.service())?;
        let mut all = 0;
        for shard in 0..self.shards() {
            let fast = self.ask_machine(shard, |machine| {
                Some(machine.path().dash()?.dpu().flow_count())
            });
            let slow = || self.ask(shard, |worker, _| Some(worker.dash()?.dpu().flow_count()));
            let flows = match fast.ok()? {
                Some(flows) => flows,
                None => slow().ok()??,
            };
            all += flows as u64;
        }
        Some(all)
    }

    /// A DPU's configuration changes by what files say.
    pub(super) fn apply_dash(
        &self,
        texts: &[(std::path::PathBuf, Arc<str>)],
    ) -> Result<Applied, String> {
        let mut changing = self.begin_change()?;
        let old = self.service();
        let mut files = Files::default();
        for (path, text) in texts {
            files.add_text(path.clone(), text.as_bytes());
        }
        let mut new = (*old).clone();
        let mut instances = new.chain.iter_mut();
        let instance = instances.find(|one| one.config.of::<Config>().is_some());
        let instance = instance.ok_or(NO_DASH)?;
        let config = instance.config.of::<Config>().ok_or(NO_DASH)?;
        let (changed, made) = config.with_changes(files).map_err(told)?;
        let waiting = waiting(&changed);
        let absent = made.absent.iter();
        let absent = absent.map(|key| format!("{key}: deleted, and not there"));
        let known: HashSet<String> = config.doubtful().into_iter().collect();
        let doubtful = changed.doubtful().into_iter();
        let doubtful = doubtful.filter(|text| !known.contains(text));
        let warnings = bounded(absent.chain(doubtful).collect());
        instance.config = Arc::new(changed);
        let plans = self.plans(&old, &new).map_err(told)?;
        let applied = self.make(plans, new, &mut changing)?;
        Ok(Applied {
            flows: self.dpu_flows(),
            waiting,
            warnings,
            ..applied
        })
    }
}

/// Objects that wait are told up to so many.
const MOST_WAITING_TOLD: usize = 20;

/// What waits for something that is not there, and what is to go and others still refer to.
fn waiting(config: &Config) -> Vec<String> {
    let store = config.store();
    let waiting = store.waiting();
    let waiting = waiting.map(|(key, waiting)| format!("{key}: {}", store.why(waiting)));
    let explained = store.leaving().take(MOST_WAITING_TOLD);
    let found = store.referring(explained.map(|(key, _)| key), MOST_REFERRING + 1);
    let leaving = store.leaving().map(|(key, _)| {
        let by = found.get(key).map_or_else(String::new, |by| referring(by));
        format!("{key}: deleted once nothing refers to it{by}")
    });
    let told = waiting.chain(leaving).take(MOST_WAITING_TOLD);
    let all: usize = store.unsettled().iter().sum();
    let more = all.checked_sub(MOST_WAITING_TOLD).filter(|more| *more > 0);
    told.chain(more.map(|more| format!("{more} more")))
        .collect()
}

/// Objects that are named which refer to one.
const MOST_REFERRING: usize = 3;

/// What refers to an object, in words.
fn referring(found: &[Key]) -> String {
    let named = found.iter().take(MOST_REFERRING);
    let named: Vec<_> = named.map(ToString::to_string).collect();
    match (named.as_slice(), found.len()) {
        ([], _) => String::new(),
        ([one], _) => format!("; {one} does"),
        (_, all) if all > MOST_REFERRING => format!("; {} and more do", named.join(", ")),
        _ => format!("; {} do", named.join(", ")),
    }
}

/// What waited in a service's DPU and waits no more, nor is in force, since its service file says all
/// anew.
pub(super) fn forgotten(old: &Service, new: &Service) -> Vec<String> {
    let (Some(old), Some(new)) = (dash_of(old), dash_of(new)) else {
        return Vec::new();
    };
    let (old, new) = (old.store(), new.store());
    let configuration = &new.snapshot().configuration;
    let still: HashSet<&Key> = new.waiting().map(|(key, _)| key).collect();
    let leaving_still: HashSet<&Key> = new.leaving().map(|(key, _)| key).collect();
    let waited = old.waiting().map(|(key, _)| key);
    let waited = waited
        .filter(|key| !still.contains(key) && !configuration.contains(key))
        .map(|key| format!("{key}: waited, and the service file does not say it"));
    let left = old.leaving().map(|(key, _)| key);
    let left = left
        .filter(|key| !leaving_still.contains(key) && configuration.contains(key))
        .map(|key| format!("{key}: was to be deleted, and the service file says it"));
    bounded(waited.chain(left).collect())
}

/// At most so many as are told, and how many more there are.
fn bounded(mut all: Vec<String>) -> Vec<String> {
    let more = all.len().saturating_sub(MOST_WAITING_TOLD);
    all.truncate(MOST_WAITING_TOLD);
    all.extend((more > 0).then(|| format!("{more} more")));
    all
}

/// The configuration of a service's DPU.
fn dash_of(service: &Service) -> Option<&Config> {
    let mut instances = service.chain.iter();
    instances.find_map(|instance| instance.config.of::<Config>())
}

const NO_DASH: &str = "the service has no DPU";

fn part(dpu: &Dpu, from: usize, query: &DashQuery, now: Instant) -> Found {
    let flows = dpu.flows_from(from, PART);
    let views = flows.filter_map(|flow| wanted(dpu, &flow, query, now));
    let next = from + PART;
    Found {
        flows: views.collect(),
        next: (next < dpu.flow_places()).then_some(next),
    }
}

/// The flow as it is told, if it is wanted.
fn wanted(dpu: &Dpu, flow: &FlowView, query: &DashQuery, now: Instant) -> Option<DashFlowView> {
    let eni = dpu.tables().eni(flow.eni)?.id.to_string();
    let unused_ns = u64::from(now.ticks_since(flow.last_seen)) << TICK_SHIFT;
    let is_wanted = query.eni.as_ref().is_none_or(|wanted| *wanted == eni)
        && unused_ns >= query.least_unused_ns
        && are_wanted(&flow.keys, query);
    is_wanted.then(|| view(flow, eni, ends(&flow.keys[0]), unused_ns))
}

/// Whether a flow's ends are wanted, as its packets come or as they leave: answers have the ends that packets
/// are translated to.
fn are_wanted(keys: &[EntryKey; 2], query: &DashQuery) -> bool {
    let [packets, answers] = keys.map(|key| ends(&key));
    let is_any = |is_wanted: &dyn Fn(Endpoint) -> bool| {
        let mut all = packets.into_iter().chain(answers);
        all.any(is_wanted)
    };
    let address = query.address.map(Address::from);
    let [to, from] = answers;
    let of_flow = |flow: &FlowFilter| {
        flow.includes(keys[0].protocol(), packets[0], packets[1])
            || flow.includes(keys[1].protocol(), from, to)
    };
    address.is_none_or(|address| is_any(&|end| end.address == address))
        && query
            .port
            .is_none_or(|port| is_any(&|end| end.port == port))
        && query.flow.as_ref().is_none_or(of_flow)
}

fn view(flow: &FlowView, eni: String, ends: [Endpoint; 2], unused_ns: u64) -> DashFlowView {
    let [key, _] = flow.keys;
    let [source, destination] = ends.map(|end| end.to_string());
    let [action, answers] = flow.actions.map(|action| action_view(&action));
    DashFlowView {
        eni,
        direction: match key.direction() {
            Direction::Outbound => "outbound".into(),
            Direction::Inbound => "inbound".into(),
        },
        protocol: key.protocol(),
        source,
        destination,
        state: state(&key, flow.state),
        action,
        answers,
        unused_ns,
    }
}

fn action_view(action: &Action) -> DashActionView {
    let (text, [source, destination]) = (
        action.to_string(),
        action.addresses.map_or([None; 2], |ends| ends.map(Some)),
    );
    let tunnels = action.layers.iter().flatten().map(|layer| DashTunnelView {
        encapsulation: tunnel_names(layer.encapsulation)[0].into(),
        key: layer.key,
        source: layer.source.to_string(),
        destination: layer.destination.to_string(),
    });
    DashActionView {
        text,
        source: source.map(|address| address.to_string()),
        destination: destination.map(|address| address.to_string()),
        source_port: action.source_port,
        destination_port: action.destination_port,
        source_mac: action.source_mac.map(|mac| mac.to_string()),
        destination_mac: action.destination_mac.map(|mac| mac.to_string()),
        tunnels: tunnels.collect(),
    }
}

/// Of what is not TCP nothing is known but that it is there.
fn state(key: &EntryKey, state: State) -> String {
    match key.protocol() {
        6 => state.name().into(),
        _ => "open".into(),
    }
}

fn ends(key: &EntryKey) -> [Endpoint; 2] {
    let [source, destination] = key.addresses();
    let [from, to] = key.ports();
    let end = |address, port| Endpoint { address, port };
    [end(source, from), end(destination, to)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_dash::headers::Headers;

    /// TCP of a machine, whose address and port a NAT gateway has hidden.
    fn hidden() -> [EntryKey; 2] {
        let key = |way, source: &str, destination: &str, ports: [u16; 2]| {
            let headers = Headers {
                source: source.parse().expect("an address"),
                destination: destination.parse().expect("an address"),
                ports: Some(ports),
                protocol: 6,
            };
            EntryKey::new(1, way, &headers, ports)
        };
        [
            key(Direction::Outbound, "10.0.0.1", "30.0.0.1", [50_000, 80]),
            key(Direction::Inbound, "30.0.0.1", "60.0.0.1", [80, 4000]),
        ]
    }

    #[test]
    fn a_flow_is_found_by_what_it_is_translated_to() {
        let found = |query: DashQuery| are_wanted(&hidden(), &query);
        let address = |text: &str| DashQuery {
            address: Some(text.parse().expect("an address")),
            ..DashQuery::default()
        };
        let port = |port| DashQuery {
            port: Some(port),
            ..DashQuery::default()
        };
        let flow = |text: &str| DashQuery {
            flow: Some(text.parse().expect("a flow")),
            ..DashQuery::default()
        };
        for (query, is_wanted) in [
            (address("10.0.0.1"), true),
            (address("60.0.0.1"), true),
            (address("60.0.0.2"), false),
            (port(50_000), true),
            (port(4000), true),
            (port(4001), false),
            (flow("tcp 10.0.0.1:* 30.0.0.1:80"), true),
            (flow("tcp 60.0.0.1:4000 30.0.0.1:80"), true),
            (flow("tcp 60.0.0.1:50000 30.0.0.1:80"), false),
            (flow("udp 60.0.0.1:4000 30.0.0.1:80"), false),
        ] {
            assert_eq!(found(query.clone()), is_wanted, "{query:?}");
        }
    }
}
