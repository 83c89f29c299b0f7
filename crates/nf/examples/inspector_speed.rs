//! Prints what the inspector's matchers cost: `cargo run --release -p
//! twinpath-nf --example inspector_speed` (add `--features hyperscan` for the
//! second deep matcher).
//!
//! The gate is measured on 64-byte windows that contain no rule's literal,
//! with 10, 1000 and 4096 literals of 8 to 24 bytes, on three kinds of
//! payload; deep inspection on the same text in chunks of 1400 bytes.

use std::hint::black_box;
use std::time::Instant;

use twinpath_core::program::WINDOW_BYTES;
use twinpath_nf::inspector::{DeepMatcher, Gate, GateOutcome, Rules, StreamMatcher};

const WINDOWS: usize = 4096;
const ROUNDS: usize = 200;

fn main() {
    for (literals, shortest) in [
        (10, 8),
        (1000, 8),
        (4000, 8),
        (1000, 5),
        (1000, 4),
        (1000, 2),
    ] {
        let rules = Rules::parse(&rules_text(literals, shortest), "generated")
            .expect("the rules are well formed");
        let gate = Gate::new(&rules);
        println!(
            "{literals} literals of {shortest} bytes or more, {} TCAM entries",
            gate.tcam_entries()
        );
        for (name, payloads) in kinds_of_payload() {
            println!("  gate, {name}: {}", gate_cost(&gate, &payloads));
        }
    }
    deep_costs();
}

/// Best of several runs, since another process may have had the core.
fn best_ns(rounds: usize, mut run: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        run();
        start.elapsed().as_nanos() as f64
    };
    (0..rounds).map(time).fold(f64::INFINITY, f64::min)
}

fn gate_cost(gate: &Gate, payloads: &[u8]) -> String {
    let mut seen = 0;
    let ns = best_ns(ROUNDS, || {
        seen = 0;
        for window in payloads.chunks_exact(WINDOW_BYTES) {
            seen += usize::from(gate.inspect(black_box(window)) != GateOutcome::None);
        }
    });
    format!(
        "{:.1} ns/packet, {seen} of {WINDOWS} escalated or banned",
        ns / WINDOWS as f64
    )
}

fn deep_costs() {
    let text = rules_text(1000, 8)
        + "shell ban regex \"/bin/(ba)?sh -[ic]\"\nsql ban regex \"union\\s+(all\\s+)?select\" nocase\n\
           traverse alert regex \"(\\.\\./){3,}etc/\"\ncard alert regex \"card=[0-9]{16}\"\n";
    let rules = Rules::parse(&text, "generated").expect("the rules are well formed");
    let start = Instant::now();
    let matcher = DeepMatcher::new(&rules).expect("the rules fit");
    let (ms, bytes) = (start.elapsed().as_millis(), matcher.table_bytes());
    println!(
        "{} rules, 4 of them regular expressions: built in {ms} ms, {bytes} bytes",
        rules.len()
    );
    deep_cost("DeepMatcher", &matcher);
    #[cfg(feature = "hyperscan")]
    deep_cost(
        "HyperscanMatcher",
        &twinpath_nf::inspector::HyperscanMatcher::new(&rules).expect("Hyperscan takes the rules"),
    );
}

fn deep_cost<M: StreamMatcher>(name: &str, matcher: &M) {
    for (kind, payloads) in kinds_of_payload() {
        let ns = best_ns(10, || {
            let mut state = M::State::default();
            for chunk in payloads.chunks(1400) {
                matcher
                    .scan(&mut state, chunk, |pattern, _| _ = black_box(pattern))
                    .expect("the state is the matcher's own");
            }
        });
        println!(
            "  {name}, {kind}: {:.2} ns/byte",
            ns / payloads.len() as f64
        );
    }
}

/// A small generator, so that every run measures the same.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % limit
    }

    fn word(&mut self, letters: &[u8], length: usize) -> String {
        (0..length)
            .map(|_| char::from(letters[self.below(letters.len())]))
            .collect()
    }
}

fn rules_text(literals: usize, shortest: usize) -> String {
    let mut random = Random(1);
    let letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/=&%-_";
    let line = |number: usize| {
        let length = shortest + random.below(if literals > 1000 { 8 } else { 17 });
        format!(
            "r{number} ban literal \"{}\"\n",
            random.word(letters, length)
        )
    };
    (0..literals).map(line).collect()
}

fn kinds_of_payload() -> [(&'static str, Vec<u8>); 3] {
    let mut random = Random(7);
    let bytes = (0..WINDOWS * WINDOW_BYTES)
        .map(|_| random.below(256) as u8)
        .collect();
    [
        ("HTTP requests", http(&mut Random(3))),
        ("lower-case words", words(&mut Random(5))),
        ("random bytes", bytes),
    ]
}

/// Windows of one request line each, all different.
fn http(random: &mut Random) -> Vec<u8> {
    let letters = b"etaoinshrdlucmfwypvbgkjqxz";
    let mut text = Vec::new();
    for _ in 0..WINDOWS {
        let (path, host) = (random.word(letters, 12), random.word(letters, 9));
        let request = format!(
            "GET /{path}/index.html HTTP/1.1\r\nHost: www.{host}.com\r\nUser-Agent: Mozilla/5.0"
        );
        text.extend_from_slice(&request.as_bytes()[..WINDOW_BYTES]);
    }
    text
}

fn words(random: &mut Random) -> Vec<u8> {
    let mut text = String::new();
    while text.len() < WINDOWS * WINDOW_BYTES {
        let length = 2 + random.below(9);
        text += &random.word(b"etaoinshrdlucmfwypvbgkjqxz", length);
        text.push(' ');
    }
    text.truncate(WINDOWS * WINDOW_BYTES);
    text.into_bytes()
}
