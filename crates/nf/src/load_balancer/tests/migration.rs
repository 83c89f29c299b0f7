//! Another configuration while connections live.

use super::*;
use twinpath_core::DropReason;
use twinpath_wire::icmp::IcmpError;
use twinpath_wire::tcp::flags;
use twinpath_wire::{PacketBuilder, protocol};

/// One TCP service with these backends, and a UDP service in front of it, so that rows move.
fn services(before: usize, backends: &[&str], more: &str) -> String {
    let backend = |text: &String| format!("{{ endpoint = \"{text}\" }}");
    let names = (0..before).map(|number| format!("10.9.0.{number}:53"));
    let others: Vec<_> = names.map(|name| backend(&name)).collect();
    let backends: Vec<_> = backends
        .iter()
        .map(|name| backend(&(*name).into()))
        .collect();
    let first = match before {
        0 => String::new(),
        _ => format!(
            "[[services]]\nvip = \"192.0.2.9:53\"\nprotocol = \"udp\"\nbackends = [{}]\n",
            others.join(", ")
        ),
    };
    format!(
        "table_size = 251\n{first}[[services]]\nvip = \"192.0.2.1:80\"\nprotocol = \"tcp\"\nbackends = [{}]\n{more}",
        backends.join(", ")
    )
}

fn reconfigure(paths: &mut [Path<LoadBalancer>; 2], text: &str) {
    for path in paths {
        path.reconfigure(LoadBalancer::new(&config(text), SEED));
    }
}

fn client(number: u16) -> Endpoint {
    Endpoint::v4([198, 51, 100, 7], 10_000 + number)
}

fn packet(from: Endpoint, to: Endpoint, tcp_flags: u8) -> Vec<u8> {
    let packet = PacketBuilder::tcp(from, to).flags(tcp_flags);
    packet.to_vec().expect("valid")
}

fn vip() -> Endpoint {
    endpoint("192.0.2.1:80")
}

fn send(paths: &mut [Path<LoadBalancer>; 2], number: u16, tcp_flags: u8, millis: u64) -> Endpoint {
    let packet = packet(client(number), vip(), tcp_flags);
    ends(process(paths, &packet, at(millis))).1
}

const TOO_BIG: IcmpError = IcmpError::PacketTooBig { mtu: 1280 };

const TWO: [&str; 2] = ["10.0.0.1:80", "10.0.0.2:80"];

#[test]
fn connections_keep_their_backends_in_other_rows() {
    let mut paths = paths(&services(0, &TWO, ""));
    let before: Vec<_> = (0..50)
        .map(|number| send(&mut paths, number, flags::SYN, 0))
        .collect();
    reconfigure(
        &mut paths,
        &services(3, &["10.0.0.2:80", "10.0.0.7:80", "10.0.0.1:80"], ""),
    );
    let simple = paths[1].simple;
    for (number, &backend) in (0..50).zip(&before) {
        assert_eq!(send(&mut paths, number, flags::ACK, 1), backend);
        let answer = packet(backend, client(number), flags::ACK);
        for _ in 0..2 {
            let answered = ends(process(&mut paths, &answer, at(1)));
            assert_eq!(answered, (vip(), client(number)));
        }
    }
    assert_eq!(
        paths[1].simple - simple,
        50,
        "all but the first of either end"
    );
    let new = (50..150).map(|number| send(&mut paths, number, flags::SYN, 2));
    assert!(
        new.into_iter()
            .any(|backend| backend == endpoint("10.0.0.7:80"))
    );
    let counter = "new_connections{service=\"192.0.2.1:80/tcp\",backend=\"10.0.0.1:80\"}";
    let first = before
        .iter()
        .filter(|&&backend| backend == endpoint(TWO[0]))
        .count() as u64;
    assert!(paths[0].counter(counter) > first, "it goes on counting");
}

#[test]
fn connections_of_removed_backends_go_to_others() {
    let mut paths = paths(&services(0, &TWO, ""));
    let gone = endpoint(TWO[0]);
    let before: Vec<_> = (0..50)
        .map(|number| send(&mut paths, number, flags::SYN, 0))
        .collect();
    reconfigure(&mut paths, &services(1, &TWO[1..], ""));
    // The first change has made rows mean something else, the second must not see that.
    reconfigure(&mut paths, &services(0, &TWO[1..], ""));
    let late = packet(gone, client(0), flags::ACK);
    assert_eq!(
        process(&mut paths, &late, at(1)).onward,
        [late],
        "it passes"
    );
    let error = process(&mut paths, &packet(client(0), vip(), flags::ACK), at(1));
    assert_eq!(ends(error).1, endpoint(TWO[1]));
    for (number, &backend) in (0..50).zip(&before) {
        let now = send(&mut paths, number, flags::ACK, 2);
        assert!(now == endpoint(TWO[1]) && (now == backend || backend == gone));
    }
    let moved = before.iter().filter(|&&backend| backend == gone).count() as u64;
    assert_eq!(paths[0].counter("reassigned"), moved);
    reconfigure(&mut paths, &services(0, &TWO, ""));
    assert_eq!(
        send(&mut paths, 0, flags::ACK, 3),
        endpoint(TWO[1]),
        "it stays"
    );
}

#[test]
fn a_service_that_goes_or_comes_is_seen_by_flows_that_there_are() {
    let other = services(2, &TWO, "").replace("192.0.2.1:80", "192.0.2.5:80");
    let mut paths = paths(&other);
    assert_eq!(send(&mut paths, 1, flags::ACK, 0), vip(), "it passes");
    reconfigure(&mut paths, &services(0, &TWO, ""));
    let backend = send(&mut paths, 1, flags::ACK, 1);
    assert_ne!(backend, vip());
    assert_eq!(paths[0].counter("picked_up"), 1);
    reconfigure(&mut paths, &other);
    assert_eq!(send(&mut paths, 1, flags::ACK, 2), vip(), "it passes again");
}

/// A backend that answers otherwise is another one.
#[test]
fn a_return_path_may_change() {
    let through = services(0, &["10.0.0.1:80"], "");
    let direct = through
        .replace(
            "protocol = \"tcp\"",
            "protocol = \"tcp\"\nreturn = \"direct\"",
        )
        .replace(
            "10.0.0.1:80\" }",
            "10.0.0.1:80\", mac = \"02:00:00:00:01:02\" }",
        );
    let mut paths = paths(&through);
    assert_eq!(send(&mut paths, 1, flags::SYN, 0), endpoint("10.0.0.1:80"));
    reconfigure(&mut paths, &direct);
    assert_eq!(
        send(&mut paths, 1, flags::ACK, 1),
        vip(),
        "by its MAC address"
    );
    assert_eq!(send(&mut paths, 1, flags::ACK, 2), vip());
    assert_eq!(paths[1].simple, 1);
    reconfigure(&mut paths, &through);
    assert_eq!(send(&mut paths, 1, flags::ACK, 3), endpoint("10.0.0.1:80"));
    assert_eq!(paths[0].counter("reassigned"), 2);
}

/// Errors about a connection whose backend is gone have nowhere to go.
#[test]
fn errors_wait_for_a_new_backend() {
    let mut paths = paths(&services(0, &TWO, ""));
    let gone = send(&mut paths, 1, flags::SYN, 0);
    let stays = TWO
        .map(endpoint)
        .into_iter()
        .find(|&backend| backend != gone);
    let stays = stays.expect("one of two").to_string();
    reconfigure(&mut paths, &services(0, &[&stays], ""));
    let key = key(client(1), vip(), protocol::TCP);
    assert_ne!(paths[0].words(&key)[0], 0, "the connection is known");
    // The client's network could not deliver what the service sent.
    let quoted = packet(vip(), client(1), flags::ACK);
    let error = PacketBuilder::icmp_error(TOO_BIG, &quoted).to_vec();
    let error = error.expect("valid");
    let fate = process(&mut paths, &error, at(1));
    assert_eq!(fate.drops, [(DropReason::NoBackend, 1)]);
}
