//! Backends that come and go.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// One TCP service with these backends, those in the second list drained.
fn service(live: &[u8], drained: &[u8]) -> String {
    let backend = |number: &u8| format!("{{ endpoint = \"10.1.0.{number}:8080\" }}");
    let drain = |number: &u8| format!("{{ endpoint = \"10.1.0.{number}:8080\", drained = true }}");
    let all: Vec<String> = live
        .iter()
        .map(backend)
        .chain(drained.iter().map(drain))
        .collect();
    format!(
        "table_size = 251\n[[services]]\nvip = \"192.0.2.1:80\"\nprotocol = \"tcp\"\nbackends = [{}]",
        all.join(", ")
    )
}

fn change(bench: &mut Bench, text: &str) {
    bench.reconfigure::<RuleBalancer>(0, Prepared::new(&config(text)));
}

fn client(number: u16) -> String {
    format!("198.51.100.7:{}", 1000 + number)
}

/// Backends by client, each with its rule cached.
fn connect(bench: &mut Bench, clients: std::ops::Range<u16>) -> BTreeMap<u16, Endpoint> {
    let connected = clients.map(|number| {
        let backend = to_service(bench, &client(number), flags::ACK, 0).expect("a backend");
        (number, backend)
    });
    connected.collect()
}

#[test]
fn draining_keeps_live_connections_and_their_rules() {
    let mut bench = Bench::cached(vec![balancer(&service(&[2, 3], &[]))], 100);
    let before = connect(&mut bench, 0..20);
    assert_eq!(before.values().collect::<BTreeSet<_>>().len(), 2);
    let rules = bench.rules();
    change(&mut bench, &service(&[3], &[2]));
    assert_eq!(bench.rules(), rules, "no rule had to go");
    for (&number, &backend) in &before {
        assert_eq!(
            to_service(&mut bench, &client(number), flags::ACK, 1),
            Ok(backend)
        );
    }
    assert_eq!(bench.hits, 20);
    let after = connect(&mut bench, 20..60);
    assert!(
        after
            .values()
            .all(|&backend| backend == end("10.1.0.3:8080"))
    );
    change(&mut bench, &service(&[2, 3], &[]));
    let back = connect(&mut bench, 60..100);
    assert_eq!(back.values().collect::<BTreeSet<_>>().len(), 2);
}

#[test]
fn a_removed_backend_gets_nothing_any_more() {
    let mut bench = Bench::cached(vec![balancer(&service(&[2, 3], &[]))], 100);
    let before = connect(&mut bench, 0..20);
    let gone = end("10.1.0.2:8080");
    let its = before.values().filter(|&&backend| backend == gone).count();
    change(&mut bench, &service(&[3, 4], &[]));
    assert_eq!(bench.rules(), 20 - its, "rules of others stay");
    for (&number, &backend) in &before {
        let now = to_service(&mut bench, &client(number), flags::ACK, 1).expect("another one");
        assert_ne!(now, gone);
        assert!(
            backend == gone || now == backend,
            "others are not disturbed"
        );
    }
    assert_eq!(bench.counter(0, "reassigned"), its as u64);
    let late = tcp(gone, end(&client(0)), flags::ACK);
    let late = ends(send(&mut bench, late, 1));
    assert_eq!(late, Ok((gone, end(&client(0)))), "its late packets pass");
}

#[test]
fn a_new_backend_s_packets_no_longer_pass() {
    let mut bench = Bench::cached(vec![balancer(&service(&[2], &[]))], 100);
    let (new, client) = (end("10.1.0.9:8080"), "198.51.100.7:1000");
    let answer = |bench: &mut Bench| ends(send(bench, tcp(new, end(client), flags::ACK), 1));
    for _ in 0..2 {
        assert_eq!(answer(&mut bench), Ok((new, end(client))));
    }
    assert_eq!(bench.hits, 1);
    change(&mut bench, &service(&[9], &[]));
    assert_eq!(to_service(&mut bench, client, flags::ACK, 1), Ok(new));
    assert_eq!(answer(&mut bench), Ok((end("192.0.2.1:80"), end(client))));
}

#[test]
fn connections_of_a_backend_that_the_schedule_removes_make_no_rules() {
    let text = format!(
        "{}\nchanges = [{{ at = \"30s\", remove = \"10.1.0.2:8080\" }}, {{ at = \"30s\", add = \"10.1.0.3:8080\" }}]",
        service(&[2], &[])
    );
    let mut bench = Bench::cached(vec![balancer(&text)], 100);
    bench.function::<RuleBalancer>(0).start(at(0));
    let client = client(1);
    let backends: Vec<_> = [0, 1, 29, 30, 31, 32]
        .into_iter()
        .map(|seconds| to_service(&mut bench, &client, flags::ACK, seconds))
        .collect();
    let [old, new] = ["10.1.0.2:8080", "10.1.0.3:8080"].map(|text| Ok(end(text)));
    assert_eq!(backends, [old, old, old, new, new, new]);
    assert_eq!(bench.hits, 1, "only the new backend's");
}

#[test]
fn backends_without_connections_leave_their_numbers_to_others() {
    let mut bench = bench(&service(&[2], &[]));
    for number in 3..200 {
        change(&mut bench, &service(&[number], &[]));
    }
    let numbers = |bench: &mut Bench| bench.function::<RuleBalancer>(0).servers.numbers();
    assert_eq!(numbers(&mut bench), 1);
    assert!(to_service(&mut bench, &client(1), flags::ACK, 0).is_ok());
    change(&mut bench, &service(&[201], &[]));
    change(&mut bench, &service(&[202], &[]));
    assert_eq!(numbers(&mut bench), 2, "one still has a connection");
}

#[derive(Clone, Debug)]
enum Step {
    FromClient(u16, u8),
    FromServer(u16, u8),
    /// Backends by bit, and which of them are drained.
    Change(u8, u8),
    Pause(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    let flags = prop::sample::select(vec![
        flags::ACK,
        flags::ACK,
        flags::ACK,
        flags::SYN,
        flags::FIN | flags::ACK,
        flags::RST,
    ]);
    prop_oneof![
        8 => (0u16..4, flags.clone()).prop_map(|(client, flags)| Step::FromClient(client, flags)),
        4 => (0u16..4, flags).prop_map(|(client, flags)| Step::FromServer(client, flags)),
        2 => (1u8..16, any::<u8>()).prop_map(|(all, drained)| Step::Change(all, drained)),
        1 => prop::sample::select(vec![5u64, 35, 1000]).prop_map(Step::Pause),
    ]
}

proptest! {
    /// With rules and without the same, and never to a backend that is gone, or anew to one that
    /// is drained.
    #[test]
    fn changes_never_leave_an_old_decision_behind(steps in prop::collection::vec(any_step(), 1..120)) {
        let first = service(&[1, 2, 3, 4], &[]);
        let mut plain = Bench::plain(vec![balancer(&first)]);
        let mut cached = Bench::cached(vec![balancer(&first)], 6);
        let (mut now, mut present, mut live) = (0, 15u8, 15u8);
        let mut known: BTreeMap<u16, Endpoint> = BTreeMap::new();
        let bit = |backend: Endpoint| 1 << (backend.address.octets4()[3] - 1);
        for step in steps {
            match step {
                Step::Pause(seconds) => {
                    now += seconds;
                    cached.tick(at(now));
                }
                Step::Change(all, drained) => {
                    (present, live) = (all, all & !drained);
                    let members = |bits: u8| (1..=4).filter(|n| bits & 1 << (n - 1) != 0).collect::<Vec<_>>();
                    let text = service(&members(live), &members(all & drained));
                    change(&mut plain, &text);
                    change(&mut cached, &text);
                }
                Step::FromClient(number, flags) => {
                    let sent = to_service(&mut plain, &client(number), flags, now);
                    prop_assert_eq!(to_service(&mut cached, &client(number), flags, now), sent);
                    if let Ok(backend) = sent {
                        prop_assert!(present & bit(backend) != 0, "a backend that is gone");
                        let is_kept = known.insert(number, backend) == Some(backend);
                        prop_assert!(is_kept || live & bit(backend) != 0, "anew to a drained one");
                    } else {
                        prop_assert_eq!(live, 0);
                    }
                }
                Step::FromServer(number, flags) => {
                    let Some(&backend) = known.get(&number) else { continue };
                    let packet = || tcp(backend, end(&client(number)), flags);
                    let answered = ends(send(&mut plain, packet(), now));
                    prop_assert_eq!(ends(send(&mut cached, packet(), now)), answered);
                }
            }
        }
        cached.tell_all();
        for counter in ["new_connections", "reassigned", "unexpected_replies"] {
            prop_assert_eq!(cached.counter(0, counter), plain.counter(0, counter), "{}", counter);
        }
    }
}
