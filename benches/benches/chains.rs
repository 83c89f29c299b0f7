//! Chains whose decisions are cached: what a cached packet costs, and what caching costs the
//! workers.
//!
//! `cargo bench -p twinpath-benches --bench chains`. One core; packets of 64 bytes that no cache
//! holds. Every figure is the median of several passes with the best one beside it; compare only
//! figures of one run. Words behind `--` (`length`, `flows`, `node`, `overhead`, `requests`, `changes`,
//! `elements`, `headers`) run those parts alone. What the plans of SFCache's Fig. 7 and 8 show is measured by
//! `twinpath lab overheads`. The cost of more distinct masks is in `--bench classify -- masked`.

use std::time::{Duration, Instant as Clock};
use twinpath_benches::bench_node::BenchNode;
use twinpath_benches::chains::{build, chain, connections_chain, gateway_service};
use twinpath_benches::limit::Lines;
use twinpath_benches::packets::{Headers, Plan, Spread, Trace};
use twinpath_benches::rule_bench::{Caching, RuleBench};
use twinpath_benches::table::{Passes, ns_each, passes};
use twinpath_control::service::Paths;
use twinpath_core::Frame;
use twinpath_rulecache::{Affected, RuleFunction};

const ROUNDS: usize = 7;
/// Packets whose time is taken together, for the tail.
const PART: usize = 32;

/// Packets per pass, and whether this is only a try.
#[derive(Copy, Clone)]
struct Scale {
    packets: usize,
    is_test: bool,
}

impl Scale {
    fn few(self, flows: u64) -> u64 {
        if self.is_test { flows.min(500) } else { flows }
    }
}

/// A part's name and what it does.
type Part = (&'static str, fn(Scale));

fn main() {
    // `cargo bench -- --test` only wants to know that it runs.
    let is_test = std::env::args().any(|argument| argument == "--test");
    let packets = if is_test { 2_000 } else { 1_000_000 };
    let scale = Scale { packets, is_test };
    println!("{packets} packets of 64 bytes per pass, {ROUNDS} passes\n");
    let parts: [Part; 8] = [
        ("length", lengths),
        ("flows", flow_counts),
        ("node", node_flow_counts),
        ("overhead", overheads),
        ("requests", requests),
        ("changes", changes),
        ("elements", elements),
        ("headers", headers),
    ];
    for (_, part) in parts.iter().filter(|(name, _)| wanted(name)) {
        part(scale);
        println!();
    }
}

/// Whether a part was asked for: by name, or by naming none.
fn wanted(part: &str) -> bool {
    let mut named = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .peekable();
    named.peek().is_none() || named.any(|name| name == part)
}

fn row(what: &str, Passes { median, best }: Passes, beside: &str) {
    let mpps = 1000.0 / median;
    println!("{what:<52} {median:8.1} ns/packet (best {best:7.1}) {mpps:7.2} Mpps{beside}");
}

fn lengths(scale: Scale) {
    println!("length of the chain, 1000 flows, uniform");
    let flows = scale.few(1_000);
    let plan = Plan::new(scale.packets, flows, Spread::Uniform, 0.0, 1);
    for length in [1, 2, 4, 8] {
        let functions = || build(&chain(length));
        let (mut bench, mut trace) = prepared(functions(), flows, scale.packets);
        let cached = measure(&mut trace, &plan, |frames| bench.send(frames));
        row(
            &format!("{length} functions, cached"),
            cached,
            &hits(&bench),
        );
        let mut slow = RuleBench::new(functions(), Caching::off());
        let few = Plan::new(scale.packets / 4, flows, Spread::Uniform, 0.0, 1);
        let alone = measure(&mut trace, &few, |frames| slow.send_to_worker(frames));
        let times = format!("   {:.1} times", alone.median / cached.median);
        row(
            &format!("{length} functions, slow path alone"),
            alone,
            &times,
        );
    }
}

/// Rules, and the share of packets that met them since the flows were made.
fn hits(bench: &RuleBench) -> String {
    let counters = bench.table.counters();
    let share = 100.0 * counters.hits as f64 / (counters.hits + bench.punted).max(1) as f64;
    format!("   {} rules, {share:.1} % hits", bench.table.active())
}

fn flow_counts(scale: Scale) {
    println!("ACL of 100 rules, NAPT, monitor of connections");
    for spread in [Spread::Uniform, Spread::Zipf(0.99)] {
        for flows in [1_000, 32_000, 1_000_000] {
            let flows = scale.few(flows);
            let plan = Plan::new(scale.packets, flows, spread, 0.0, 1);
            let functions = build(&connections_chain());
            let (mut bench, mut trace) = prepared(functions, flows, scale.packets);
            let lines = Lines::new(4 * flows as usize);
            let limit = measure(&mut trace, &plan, |frames| _ = lines.touch(frames));
            let cached = measure(&mut trace, &plan, |frames| bench.send(frames));
            let beside = format!("{}; limit {:.1}", hits(&bench), limit.median);
            row(&format!("{flows} flows {spread}"), cached, &beside);
        }
    }
}

/// Through a whole node: steering, the walk through the chain, departure.
fn node_flow_counts(scale: Scale) {
    println!("ACL of 100 rules, NAPT, load balancer as a service");
    for spread in [Spread::Uniform, Spread::Zipf(0.99)] {
        for flows in [1_000, 32_000, 1_000_000] {
            let flows = scale.few(flows);
            let plan = Plan::new(scale.packets, flows, spread, 0.0, 1);
            let mut node = BenchNode::new(&gateway_service(flows as usize), Paths::Both);
            // Some more, for packets that are held while rules become active.
            let mut trace = Trace::new(scale.packets.max(flows as usize) + 4096);
            make_rules(&mut node, &mut trace, flows);
            let before = node.fast_packets();
            let cached = measure(&mut trace, &plan, |frames| node.send(frames));
            let sent = (ROUNDS * plan.len()) as f64;
            let hits = 100.0 * (node.fast_packets() - before) as f64 / sent;
            row(
                &format!("{flows} flows {spread}"),
                cached,
                &format!("   {hits:.1} % hits"),
            );
        }
    }
}

/// Sends packets of each flow until they meet rules.
fn make_rules(node: &mut BenchNode, trace: &mut Trace, flows: u64) {
    for _ in 0..4 {
        trace.fill(&Plan::each_flow(flows));
        send_first(trace, flows as usize, |frames| node.send(frames));
        // Rules become active some hundred at a time, each time after a round trip.
        for _ in 0..flows / 64 {
            node.pass_time(Duration::from_micros(1));
        }
        trace.arrival = node.pass_time(Duration::from_millis(500));
    }
}

/// A chain in which every flow has its rule.
fn prepared(
    functions: Vec<Box<dyn RuleFunction>>,
    flows: u64,
    packets: usize,
) -> (RuleBench, Trace) {
    let mut bench = RuleBench::new(functions, Caching::of(flows as usize));
    let mut trace = Trace::new(packets.max(flows as usize));
    for _ in 0..3 {
        trace.fill(&Plan::each_flow(flows));
        send_first(&mut trace, flows as usize, |frames| bench.send(frames));
        bench.now = bench.now + Duration::from_secs(1);
        bench.tick();
    }
    bench.punted = 0;
    (bench, trace)
}

/// Sends as many frames as were filled.
fn send_first(trace: &mut Trace, count: usize, mut send: impl FnMut(&mut Vec<Frame>)) {
    let rest = trace.frames().split_off(count);
    send(trace.frames());
    trace.frames().extend(rest);
}

fn measure(trace: &mut Trace, plan: &Plan, mut send: impl FnMut(&mut Vec<Frame>)) -> Passes {
    passes(
        ROUNDS,
        plan.len(),
        trace,
        |trace| trace.fill(plan),
        |trace| send_timed(trace, plan.len(), &mut send),
    )
}

fn send_timed(trace: &mut Trace, count: usize, send: &mut impl FnMut(&mut Vec<Frame>)) -> Duration {
    let rest = trace.frames().split_off(count);
    let started = Clock::now();
    send(trace.frames());
    let time = started.elapsed();
    trace.frames().extend(rest);
    time
}

/// The chain on the slow path with everything that caching needs, and without.
fn overheads(scale: Scale) {
    println!(
        "recording and selection on the slow path (paper: 4.16 % of throughput, 5.44 % of p99)"
    );
    let flows = scale.few(32_000);
    let plan = Plan::new(scale.packets / 4, flows, Spread::Uniform, 0.0, 1);
    let mut traces = traces(2, &plan);
    for length in [1, 2, 4, 8] {
        let mut kinds = [Caching::off(), never_hot(flows as usize)]
            .map(|caching| RuleBench::new(build(&chain(length)), caching));
        let times = in_turns(
            &mut kinds,
            &mut traces,
            &plan,
            RuleBench::send_to_worker,
            |_, _| (),
        );
        compare(&format!("{length} functions"), times[0], times[1]);
    }
}

/// A mean and a 99th percentile, in ns per packet.
type Times = (f64, f64);

/// Prints what was measured with something and without it, and the changes.
fn compare(what: &str, without: Times, with: Times) {
    let throughput = 100.0 * (without.0 / with.0 - 1.0);
    let tail = 100.0 * (with.1 / without.1 - 1.0);
    println!(
        "{what}: {:.1} ns without, {:.1} ns with: {throughput:+.2} % of throughput; p99 {:.1} and {:.1} ns: {tail:+.2} %",
        without.0, with.0, without.1, with.1,
    );
}

/// What asking for rules costs the workers that handle the packets, at the paper's highest rate: nobody
/// answers with a rule, so all packets stay on the slow path and the rules are asked for again. Windows are
/// so long that this, and not their change, decides how often (SFCache Fig. 8).
fn requests(scale: Scale) {
    println!(
        "asking for rules (paper: at most 1.52 % of throughput and 1.54 % of p99, up to 50,000 a second)"
    );
    let flows = scale.few(500);
    let plan = Plan::new(scale.packets / 4, flows, Spread::Uniform, 0.0, 1);
    let mut traces = traces(2, &plan);
    let mut benches = [false, true].map(asking);
    let send = RuleBench::send_to_worker;
    let times = in_turns(&mut benches, &mut traces, &plan, send, |_, bench| {
        bench.now = bench.now + WINDOW / PARTS_A_WINDOW;
    });
    let asked = benches[1].requests as f64 / benches[1].punted as f64 / times[1].0 * 1e9;
    println!("asked for {asked:.0} a second");
    compare("up to 50,000 a second", times[0], times[1]);
}

/// Parts of a trace in a window of [`requests`].
const PARTS_A_WINDOW: u32 = 4000;

/// A chain that asks for the rules of hot flows, if it does, and gets none.
fn asking(does: bool) -> RuleBench {
    let mut caching = Caching::of(4096);
    caching.selection.window = WINDOW;
    if !does {
        caching.selection.threshold = u32::MAX;
    }
    let mut bench = RuleBench::new(build(&chain(2)), caching);
    bench.refuses = true;
    bench
}

const WINDOW: Duration = Duration::from_secs(1);

/// All is recorded and counted, and nothing ever selected.
fn never_hot(rules: usize) -> Caching {
    let mut caching = Caching::of(rules);
    caching.selection.threshold = u32::MAX;
    caching
}

fn traces(count: usize, plan: &Plan) -> Vec<Trace> {
    (0..count).map(|_| Trace::new(plan.len())).collect()
}

/// Sends a plan's packets to all benches in small parts, now of the one, now of the other, so that
/// the machine is the same for all; `after` is called with a bench's number after each of its parts.
fn in_turns<B>(
    benches: &mut [B],
    traces: &mut [Trace],
    plan: &Plan,
    send: impl Fn(&mut B, &mut Vec<Frame>),
    mut after: impl FnMut(usize, &mut B),
) -> Vec<Times> {
    let mut times = vec![Vec::new(); benches.len()];
    for round in 0..=ROUNDS {
        // The first round is for what is only done once.
        if round == 1 {
            times.iter_mut().for_each(Vec::clear);
        }
        traces.iter_mut().for_each(|trace| trace.fill(plan));
        let mut waiting: Vec<_> = traces
            .iter_mut()
            .map(|trace| trace.frames().split_off(0))
            .collect();
        for part in 0..plan.len().div_ceil(PART) {
            for turn in 0..benches.len() {
                let number = (part + turn) % benches.len();
                let (bench, waiting) = (&mut benches[number], &mut waiting[number]);
                let done = traces[number].frames();
                times[number].push(one_part(|part| send(bench, part), waiting, done));
                after(number, bench);
            }
        }
        for (trace, unsent) in traces.iter_mut().zip(waiting) {
            trace.frames().extend(unsent);
        }
    }
    times.into_iter().map(mean_and_tail).collect()
}

/// Sends the last of the frames that wait. Returns what a packet took, in ns.
fn one_part(
    send: impl FnOnce(&mut Vec<Frame>),
    waiting: &mut Vec<Frame>,
    done: &mut Vec<Frame>,
) -> f64 {
    let mut part = waiting.split_off(waiting.len().saturating_sub(PART));
    let started = Clock::now();
    send(&mut part);
    let each = ns_each(started.elapsed(), part.len());
    done.append(&mut part);
    each
}

fn mean_and_tail(mut times: Vec<f64>) -> Times {
    let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
    times.sort_by(f64::total_cmp);
    let tail = times.get(times.len() * 99 / 100);
    (mean, tail.copied().unwrap_or(mean))
}

/// A node with rules and flow state for so many flows. Rules are made for those hotter than that.
fn mixed(chain: &[&str], flows: usize, threshold: u32) -> BenchNode {
    let entries = 4 * flows.next_power_of_two();
    let inside = match chain {
        ["firewall"] => "",
        _ => "inside = ['11.0.0.0/8', 'fd00::/16']",
    };
    let service = format!(
        "[service]\nname = 'bench'\nchain = {chain:?}\n{inside}\n\
         [fast_path]\nslots = {entries}\nhot_packets = 1\ntime_to_live = '1h'\n\
         [rule_cache]\nexact = {entries}\nmasked = {entries}\nthreshold = {threshold}\nwindow = '500ms'\nidle_windows = 255\n\
         [acl]\ndefault = 'allow'\n[monitor]\n[firewall]\ndefault = 'allow'\n\
         [napt]\ninside = ['11.0.0.0/8']\nexternal = ['198.51.100.1', '198.51.100.2', '198.51.100.3', '198.51.100.4']\n\
         [router]\naddress = '192.0.2.254'\nroutes = [{{ to = '0.0.0.0/0', via = 'uplink' }}]\n\
         next_hops = [{{ name = 'uplink', mac = '02:00:00:00:01:01', source_mac = '02:00:00:00:00:01', port = 1 }}]\n"
    );
    BenchNode::new(&service, Paths::Both)
}

/// What a hit costs that passes one element, or several.
fn elements(scale: Scale) {
    const CHAINS: [(&str, &[&str]); 5] = [
        ("rules", &["acl", "monitor"]),
        ("state", &["firewall"]),
        ("rules, state", &["acl", "firewall"]),
        ("rules, state, rules", &["acl", "firewall", "monitor"]),
        (
            "rules, state, rules that rewrite",
            &["acl", "firewall", "napt", "router"],
        ),
    ];
    for flows in [1_000, 32_000] {
        let flows = scale.few(flows);
        println!("elements of the chain, through a whole node, {flows} flows, uniform");
        let plan = Plan::new(scale.packets / 2, flows, Spread::Uniform, 0.0, 1);
        let mut nodes = CHAINS.map(|(_, chain)| mixed(chain, flows as usize, 0));
        let mut traces = nodes.each_mut().map(|node| {
            let mut trace = Trace::of_datagrams(plan.len().max(flows as usize + 4096));
            make_rules(node, &mut trace, flows);
            trace
        });
        let before = nodes.each_ref().map(BenchNode::fast_packets);
        let times = in_turns(&mut nodes, &mut traces, &plan, BenchNode::send, |_, _| {});
        for (number, (what, chain)) in CHAINS.into_iter().enumerate() {
            let sent = ((ROUNDS + 1) * plan.len()) as f64;
            let share = (nodes[number].fast_packets() - before[number]) as f64 / sent;
            println!(
                "{:<70} {:8.1} ns/packet   {:.1} % hits",
                format!("{what} ({})", chain.join(", ")),
                times[number].0,
                100.0 * share
            );
        }
    }
}

/// What a hit costs by the headers of packets.
fn headers(scale: Scale) {
    const CHAINS: [&[&str]; 3] = [
        &["acl", "monitor"],
        &["firewall"],
        &["acl", "firewall", "monitor"],
    ];
    for flows in [1_000, 32_000] {
        let flows = scale.few(flows);
        println!("headers of packets, through a whole node, {flows} flows, uniform");
        let plan = Plan::new(scale.packets / 2, flows, Spread::Uniform, 0.0, 1);
        for chain in CHAINS {
            let mut nodes = Headers::ALL.map(|_| mixed(chain, flows as usize, 0));
            let mut traces = Headers::ALL.map(|headers| {
                Trace::of_datagrams_with(headers, plan.len().max(flows as usize + 4096))
            });
            for (node, trace) in nodes.iter_mut().zip(&mut traces) {
                make_rules(node, trace, flows);
            }
            let before = nodes.each_ref().map(BenchNode::fast_packets);
            let times = in_turns(&mut nodes, &mut traces, &plan, BenchNode::send, |_, _| {});
            for (number, headers) in Headers::ALL.into_iter().enumerate() {
                let sent = ((ROUNDS + 1) * plan.len()) as f64;
                let share = (nodes[number].fast_packets() - before[number]) as f64 / sent;
                println!(
                    "{:<50} {:8.1} ns/packet   {:.1} % hits",
                    format!("{} ({headers})", chain.join(", ")),
                    times[number].0,
                    100.0 * share
                );
            }
        }
    }
}

/// What it takes to make rules, and to take them out again.
fn changes(scale: Scale) {
    println!("rules that come and go (both sides in one thread, no link between)");
    let flows = scale.few(32_000);
    let (mut bench, mut trace) = prepared(build(&connections_chain()), flows, scale.packets);
    let rules = bench.table.active();
    let mut out = Vec::new();
    let started = Clock::now();
    let all = Affected::Everything;
    bench.slow.take_out(0, all, bench.now, &mut out);
    bench.deliver(out);
    let cleared = ns_each(started.elapsed(), rules);
    assert!(bench.slow.may_change() && bench.table.active() == 0);
    bench.slow.end_changes();
    // The entries are hot already: the next packet of each flow makes its rule.
    bench.now = bench.now + Duration::from_secs(1);
    trace.fill(&Plan::each_flow(flows));
    let mut alone = RuleBench::new(build(&connections_chain()), never_hot(flows as usize));
    let mut slow = Duration::ZERO;
    for _ in 0..2 {
        trace.fill(&Plan::each_flow(flows));
        slow = send_timed(&mut trace, flows as usize, &mut |frames| {
            alone.send_to_worker(frames)
        });
    }
    // One window in which the flows are seen, and one in which they are selected.
    let mut made = Duration::ZERO;
    for _ in 0..2 {
        trace.fill(&Plan::each_flow(flows));
        made = send_timed(&mut trace, flows as usize, &mut |frames| bench.send(frames));
        bench.now = bench.now + Duration::from_secs(1);
        bench.tick();
    }
    let made = ns_each(made.saturating_sub(slow), bench.table.active());
    println!(
        "{rules} rules taken out: {cleared:.0} ns each, {:.2} million per second",
        1000.0 / cleared
    );
    println!(
        "{} rules made (synthesis, request, promotion): {made:.0} ns each besides the packet itself, {:.2} million per second",
        bench.table.active(),
        1000.0 / made
    );
    one_rule(&mut bench, &mut trace);
}

/// From the packet whose rule is selected to the rule that packets meet.
fn one_rule(bench: &mut RuleBench, trace: &mut Trace) {
    let mut times = Vec::new();
    for _ in 0..200 {
        let mut out = Vec::new();
        let all = Affected::Everything;
        bench.slow.take_out(0, all, bench.now, &mut out);
        bench.deliver(out);
        bench.slow.end_changes();
        for _ in 0..2 {
            bench.now = bench.now + Duration::from_secs(1);
            trace.fill(&Plan::each_flow(1));
            let time = send_timed(trace, 1, &mut |frames| bench.send(frames));
            if bench.table.active() == 1 {
                times.push(time.as_nanos() as f64);
            }
        }
    }
    times.sort_by(f64::total_cmp);
    if let (Some(middle), Some(p99)) = (
        times.get(times.len() / 2),
        times.get(times.len() * 99 / 100),
    ) {
        println!(
            "from a packet's arrival to its active rule, cold: {:.1} us (p99 {:.1}), to which a link adds two round trips",
            middle / 1000.0,
            p99 / 1000.0
        );
    }
}
