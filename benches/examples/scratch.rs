use std::time::Duration;
use twinpath_benches::chains::{build, chain, fastclick_chain};
use twinpath_benches::packets::{Plan, Spread, Trace};
use twinpath_benches::rule_bench::{Caching, RuleBench};

fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let length: usize = args[1].parse().unwrap();
    let mode = &args[2];
    let packets: usize = args[3].parse().unwrap();
    let rounds: usize = args[4].parse().unwrap();
    let flows: u64 = args[5].parse().unwrap();
    let plan = Plan::new(packets, flows, Spread::Uniform, 0.0, 1);
    let mut trace = Trace::new(packets.max(flows as usize));
    let functions = if length == 3 {
        fastclick_chain()
    } else {
        chain(length)
    };
    if mode == "hit" {
        let mut bench = RuleBench::new(build(&functions), Caching::of(flows as usize));
        for _ in 0..3 {
            trace.fill(&Plan::each_flow(flows));
            let rest = trace.frames().split_off(flows as usize);
            bench.send(trace.frames());
            trace.frames().extend(rest);
            bench.now = bench.now + Duration::from_secs(1);
            bench.tick();
        }
        let mut times = Vec::new();
        for _ in 0..rounds {
            trace.fill(&plan);
            let rest = trace.frames().split_off(packets);
            let start = cpu();
            bench.send(trace.frames());
            times.push((cpu() - start) / packets as f64);
            trace.frames().extend(rest);
        }
        times.sort_by(f64::total_cmp);
        println!(
            "hit {flows}: best {:.1} median {:.1}",
            times[0],
            times[times.len() / 2]
        );
        return;
    }
    let mut on = Caching::of(flows as usize);
    on.selection.threshold = u32::MAX;
    let modes: Vec<Caching> = match mode.as_str() {
        "on" => vec![on],
        "off" => vec![Caching::off()],
        _ => vec![Caching::off(), on],
    };
    let mut benches: Vec<RuleBench> = modes
        .into_iter()
        .map(|caching| RuleBench::new(build(&functions), caching))
        .collect();
    let mut times = vec![Vec::new(); benches.len()];
    for round in 0..=rounds {
        for (bench, times) in benches.iter_mut().zip(&mut times) {
            trace.fill(&plan);
            let rest = trace.frames().split_off(packets);
            let start = cpu();
            bench.send_to_cores(trace.frames());
            if round > 0 || rounds == 0 {
                times.push((cpu() - start) / packets as f64);
            }
            trace.frames().extend(rest);
        }
    }
    let mut middles = Vec::new();
    for times in &mut times {
        times.sort_by(f64::total_cmp);
        println!(
            "{length} {mode}: best {:.1} median {:.1}",
            times[0],
            times[times.len() / 2]
        );
        middles.push((times[0], times[times.len() / 2]));
    }
    if let [off, on] = middles[..] {
        println!(
            "overhead best {:.2} % median {:.2} %",
            100.0 * (on.0 / off.0 - 1.0),
            100.0 * (on.1 / off.1 - 1.0)
        );
    }
}
