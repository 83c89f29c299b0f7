use super::*;
use crate::messages::kind;
use crate::testing::{done, link, message, route};
use crate::view::Interest;

const WAN: u32 = 4;

fn monitor() -> KernelMonitor {
    KernelMonitor::new(Interest {
        ports: vec![Some("wan".into())],
        table: 254,
        most_routes: 10,
    })
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// The type of what is asked, and under which number.
fn asked(question: &[u8]) -> (u16, u32) {
    let kind = u16::from_ne_bytes([question[4], question[5]]);
    let number = question[8..12].first_chunk().expect("a header");
    (kind, u32::from_ne_bytes(*number))
}

/// A kernel answers all questions with what `told` says of each; returns the types of questions.
fn answer_all(
    monitor: &mut KernelMonitor,
    first: Vec<u8>,
    now: Duration,
    told: &dyn Fn(u16) -> Vec<u8>,
) -> Vec<u16> {
    let (mut next, mut kinds) = (Some(first), Vec::new());
    while let Some(question) = next {
        let (kind, number) = asked(&question);
        kinds.push(kind);
        assert_eq!(monitor.take(&told(kind), now), None);
        next = monitor.take(&done(number, 0), now);
    }
    kinds
}

fn a_route(kind: u16) -> Vec<u8> {
    match kind {
        kind::GET_LINK => link(kind::NEW_LINK, WAN, "wan", true),
        kind::GET_ROUTE => route(kind::NEW_ROUTE, 2, "10.0.0.0/8", Some("192.0.2.1"), WAN),
        _ => Vec::new(),
    }
}

fn started() -> KernelMonitor {
    let mut monitor = monitor();
    let first = monitor.question(Duration::ZERO).expect("all is asked for");
    let kinds = answer_all(&mut monitor, first, Duration::ZERO, &a_route);
    let all = [
        kind::GET_LINK,
        kind::GET_ADDRESS,
        kind::GET_NEXT_HOP,
        kind::GET_ROUTE,
        kind::GET_ROUTE,
        kind::GET_NEIGHBOR,
    ];
    assert_eq!(kinds, all);
    assert!(monitor.is_complete());
    monitor
}

#[test]
fn all_is_asked_for_once() {
    let mut monitor = started();
    assert_eq!(monitor.view().route_count(), 1);
    assert_eq!(monitor.question(seconds(100.0)), None);
    assert_eq!(monitor.counters().resyncs, 0);
}

#[test]
fn a_list_that_was_interrupted_is_asked_for_again() {
    let mut monitor = monitor();
    let first = monitor.question(Duration::ZERO).expect("links");
    let (kind, number) = asked(&first);
    let again = monitor.take(&done(number, 0x10), Duration::ZERO);
    let (again_kind, again_number) = asked(&again.expect("once more"));
    assert_eq!(again_kind, kind);
    assert_ne!(again_number, number);
    // The end of the former one is nobody's.
    assert_eq!(monitor.take(&done(number, 0), Duration::ZERO), None);
    assert!(monitor.is_asking());
}

#[test]
fn a_kernel_without_objects_has_none() {
    let mut monitor = monitor();
    let mut next = monitor.question(Duration::ZERO);
    while let Some(question) = next {
        let (_, number) = asked(&question);
        let refusal = message(kind::ERROR, 0, number, &(-95i32).to_ne_bytes(), &question);
        next = monitor.take(&refusal, Duration::ZERO);
    }
    assert!(monitor.is_complete());
}

#[test]
fn lost_messages_have_all_asked_for_again() {
    let mut monitor = started();
    monitor.overrun(seconds(5.0));
    let first = monitor.question(seconds(5.0)).expect("all again");
    let kinds = answer_all(&mut monitor, first, seconds(5.0), &|kind| match kind {
        kind::GET_LINK => link(kind::NEW_LINK, WAN, "wan", true),
        _ => Vec::new(),
    });
    assert_eq!(kinds.len(), List::ALL.len());
    assert_eq!(monitor.view().route_count(), 0, "it was gone meanwhile");
    // They are lost again and again: it is asked once a second.
    let mut asked = 0;
    for tenth in 51..=100 {
        let now = seconds(f64::from(tenth) / 10.0);
        monitor.overrun(now);
        asked += u32::from(monitor.question(now).is_some());
    }
    assert_eq!(asked, 5);
    assert_eq!(monitor.counters().overruns, 51);
}

#[test]
fn a_link_that_flaps_has_routes_asked_for_once_a_second() {
    let mut monitor = started();
    let mut asked = 0;
    for hundredth in 200..1200u32 {
        let now = seconds(f64::from(hundredth) / 100.0);
        let is_up = hundredth % 2 == 0;
        monitor.take(&link(kind::NEW_LINK, WAN, "wan", is_up), now);
        if let Some(first) = monitor.question(now) {
            asked += 1;
            answer_all(&mut monitor, first, now, &a_route);
        }
    }
    assert!((9..=11).contains(&asked), "{asked}");
}

/// So many routes as a list tells them.
fn routes(count: u8) -> Vec<u8> {
    let to = |network: u8| format!("10.{network}.0.0/16");
    let routes = (0..count).map(|network| route(kind::NEW_ROUTE, 2, &to(network), None, WAN));
    routes.collect::<Vec<_>>().concat()
}

#[test]
fn routes_without_room_are_asked_for_when_there_is_some() {
    let mut monitor = started();
    let full = |kind| match kind {
        kind::GET_ROUTE => routes(13),
        kind => a_route(kind),
    };
    monitor.overrun(seconds(5.0));
    let first = monitor.question(seconds(5.0)).expect("all again");
    answer_all(&mut monitor, first, seconds(5.0), &full);
    let view = monitor.view();
    assert_eq!(view.route_count(), 10);
    assert!(view.ignored_routes() >= 3, "both lists have told them");
    assert_eq!(monitor.question(seconds(60.0)), None, "there is no room");
    // Routes come and go at the limit.
    let mut asked = 0;
    for tenth in 600..1600 {
        let now = seconds(f64::from(tenth) / 10.0);
        for (kind, flags) in [(kind::DEL_ROUTE, 0), (kind::NEW_ROUTE, 0x600)] {
            monitor.take(&route(kind, flags, "10.0.0.0/16", None, WAN), now);
        }
        if let Some(first) = monitor.question(now) {
            asked += 1;
            answer_all(&mut monitor, first, now, &full);
        }
    }
    assert!((9..=11).contains(&asked), "{asked}");
    if let Some(first) = monitor.question(seconds(180.0)) {
        answer_all(&mut monitor, first, seconds(180.0), &full);
    }
    // Some are gone for good, of those that were known and of those that were not.
    for network in ["10.0.0.0/16", "10.1.0.0/16", "10.12.0.0/16"] {
        monitor.take(
            &route(kind::DEL_ROUTE, 0, network, None, WAN),
            seconds(200.0),
        );
    }
    assert_eq!(monitor.question(seconds(200.0)), None, "it settles first");
    let first = monitor.question(seconds(200.2)).expect("there is room");
    answer_all(&mut monitor, first, seconds(200.2), &|kind| match kind {
        kind::GET_ROUTE => routes(10),
        kind => a_route(kind),
    });
    let view = monitor.view();
    assert_eq!((view.route_count(), view.ignored_routes()), (10, 0));
    monitor.take(
        &route(kind::DEL_ROUTE, 0, "10.2.0.0/16", None, WAN),
        seconds(300.0),
    );
    assert_eq!(monitor.question(seconds(400.0)), None, "none is missing");
}

#[test]
fn a_kernel_that_falls_silent_is_asked_again() {
    let mut monitor = monitor();
    assert!(monitor.question(Duration::ZERO).is_some());
    assert_eq!(monitor.question(seconds(29.0)), None);
    assert!(monitor.question(seconds(31.0)).is_some());
}
