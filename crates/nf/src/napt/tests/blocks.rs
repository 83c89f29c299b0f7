//! Blocks of ports that hosts are given as they need them.

use super::*;
use crate::napt::function::session_entry;
use crate::records::Kind;
use std::collections::BTreeSet;

/// Eight blocks of one address.
const BLOCKS: &str = r#"
    inside = ["10.0.0.0/8"]
    external = ["192.0.2.1"]
    ports = "1024-1151"
    blocks = { size = 16, assignment = "dynamic", per_host = 2 }
"#;

const SERVER: &str = "8.8.8.8:53";

/// The port that a host's is translated to.
fn port(bench: &mut Bench, host: u8, port: u16, seconds: u64) -> Result<u16, DropReason> {
    let from = format!("10.0.0.{host}:{port}");
    udp(bench, &from, SERVER, seconds).map(|(source, _)| source.port)
}

const fn block_of(port: u16) -> u16 {
    (port - 1024) / 16
}

/// RFC 6888 REQ-4, REQ-13, REQ-14, RFC 7422: ports of a host come in blocks, which no other has.
#[test]
fn hosts_are_given_blocks_as_they_need_them() {
    let mut bench = bench(BLOCKS);
    let mut owners = std::collections::BTreeMap::new();
    for host in 1..=3 {
        let given: Vec<u16> = (1..=32)
            .map(|inside| port(&mut bench, host, inside, 0).expect("a port"))
            .collect();
        assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), 32);
        let of = |ports: &[u16]| ports.iter().copied().map(block_of).collect::<BTreeSet<_>>();
        assert_eq!(
            of(&given[..16]).len(),
            1,
            "the second one comes when the first is full"
        );
        assert_eq!(of(&given).len(), 2);
        for block in of(&given) {
            assert_eq!(owners.insert(block, host), None, "no two hosts have one");
        }
        assert_eq!(port(&mut bench, host, 99, 0), Err(DropReason::HostLimit));
        let tcp = PacketBuilder::tcp(end(&format!("10.0.0.{host}:7")), end(SERVER)).flags(2);
        let (source, _) = ends(send(&mut bench, tcp, 0)).expect("a port");
        assert_eq!(
            owners.get(&block_of(source.port)),
            Some(&host),
            "of all protocols"
        );
    }
    assert_eq!(bench.counter(0, "blocks"), 6);
}

/// RFC 6888 REQ-13: what nobody uses comes back, also where cached rules have used it; what somebody uses
/// stays.
#[test]
fn blocks_come_back_with_their_last_binding() {
    let mut bench = bench(&BLOCKS.replace("per_host = 2", "per_host = 1"));
    for host in 1..=8 {
        port(&mut bench, host, 1, 0).expect("a block");
    }
    assert_eq!(port(&mut bench, 9, 1, 0), Err(DropReason::NoPort));
    let own = port(&mut bench, 1, 1, 200).expect("translated");
    for seconds in [201, 202, 203] {
        assert_eq!(port(&mut bench, 1, 1, seconds), Ok(own));
    }
    assert!(bench.hits > 0, "rules use the first one's");
    let others: BTreeSet<u16> = (9..=15)
        .map(|host| block_of(port(&mut bench, host, 1, 310).expect("one that is over")))
        .collect();
    assert_eq!(others.len(), 7);
    assert!(!others.contains(&block_of(own)));
    assert_eq!(port(&mut bench, 16, 1, 310), Err(DropReason::NoPort));
    assert_eq!(port(&mut bench, 1, 1, 311), Ok(own));
}

/// RFC 6888 REQ-13, RFC 8158 §5.2: a record for each block that is given or comes back, and none for bindings.
#[test]
fn a_block_is_one_record() {
    let config: Config = toml::from_str(BLOCKS).expect("valid");
    let mut napt = Napt::new(&config, 7);
    napt.table.log.take(0);
    let internal = end("10.0.0.1:7");
    let (first, _) = napt.external.addresses_for(internal.address);
    let blocks = napt
        .external
        .blocks()
        .expect("dynamic")
        .free_at(first[0], 3, 1);
    let mut sessions = Vec::new();
    for inside in 1..=3 {
        let internal = Endpoint::new(internal.address, inside);
        let mut search = napt.external.search_in(internal, Kind::Udp, blocks[0]);
        let slot = search.next(&napt.external).expect("a slot");
        let (table, external) = (&mut napt.table, &mut napt.external);
        let binding = table
            .bind(internal, Kind::Udp, slot, external)
            .expect("room");
        sessions.extend(table.ensure_session(binding, end(SERVER), at(0), external));
    }
    let own = napt.blocks_of(internal.address);
    assert_eq!(own, [(blocks[0].first, blocks[0].last)]);
    for session in sessions {
        napt.forget(session_entry(session), at(100_000));
    }
    assert!(napt.blocks_of(internal.address).is_empty());
    let events = napt.table.log.take(99).events;
    let told: Vec<_> = events
        .iter()
        .map(|event| (event.is_new, event.binding.external.port, event.last_port))
        .collect();
    let (begin, last) = (blocks[0].first, Some(blocks[0].last));
    assert_eq!(told, [(true, begin, last), (false, begin, last)]);
    assert_eq!(events[0].binding.internal.address, internal.address);
}

/// Of a translation that is over the blocks come back and the bindings end, a part at a time.
#[test]
fn what_there_is_at_an_end_ends() {
    const WITHOUT: &str = "inside = [\"10.0.0.0/8\"]\nexternal = [\"192.0.2.1\"]\n";
    for (text, expected) in [(BLOCKS, 1), (WITHOUT, 3)] {
        let config: Config = toml::from_str(text).expect("valid");
        let mut napt = Napt::new(&config, 7);
        napt.table.log.take(0);
        for inside in 1..=3 {
            let internal = Endpoint::new(end("10.0.0.1:7").address, inside);
            let slot = napt.external.slot(
                Endpoint::new(end("192.0.2.1:7").address, 1024 + inside),
                Kind::Udp,
            );
            let slot = slot.expect("its address");
            let (table, external) = (&mut napt.table, &mut napt.external);
            let binding = table
                .bind(internal, Kind::Udp, slot, external)
                .expect("room");
            table.ensure_session(binding, end(SERVER), at(0), external);
        }
        let mut from = Some(0);
        while let Some(first) = from {
            from = napt.end_all(first, 2);
        }
        assert_eq!(
            (napt.table.binding_count(), napt.table.session_count()),
            (0, 0)
        );
        let events = napt.table.log.take(99).events;
        let ended = events.iter().filter(|event| !event.is_new).count();
        assert_eq!((events.len(), ended), (2 * expected, expected));
    }
}

#[test]
fn other_blocks_end_all_bindings() {
    let mut bench = bench(BLOCKS);
    port(&mut bench, 1, 1, 0).expect("a port");
    let other = BLOCKS.replace("size = 16", "size = 32");
    super::forwards::change(&mut bench, &other);
    assert_eq!(bench.counter(0, "bindings"), 0);
    for inside in 1..=64 {
        port(&mut bench, 1, inside, 1).expect("two blocks of 32");
    }
    assert_eq!(port(&mut bench, 1, 99, 1), Err(DropReason::HostLimit));
    let more = other.replace("192.0.2.1", "192.0.2.0/31");
    super::forwards::change(&mut bench, &more);
    assert_eq!(
        bench.counter(0, "bindings"),
        64,
        "the address has another number"
    );
    assert_eq!(bench.counter(0, "blocks"), 2);
}

#[test]
fn blocks_that_cannot_be_are_refused() {
    for (from, to, expected) in [
        ("size = 16", "size = 15", "dynamic blocks of 15 ports"),
        ("size = 16", "size = 129", "dynamic blocks of 129 ports"),
        ("per_host = 2", "per_host = 0", "per_host = 0"),
        (
            "dynamic",
            "deterministic",
            "a host has one deterministic block",
        ),
    ] {
        let error = toml::from_str::<Config>(&BLOCKS.replace(from, to)).expect_err("refused");
        assert!(error.to_string().contains(expected), "{error}");
    }
}
