//! Interfaces that are gone for a time, that are made anew, or that were elsewhere.

use super::*;

#[test]
fn outages_end() {
    if !is_possible() {
        return;
    }
    let mut network = network();
    let forwarder = forwarder(&network, [Driver::AfPacket; 2]);
    datagrams(&network, "10.9.0.1:4000", "10.9.0.2:4000");
    network.ip("middle", "link set port0 down");
    std::thread::sleep(Duration::from_millis(200));
    network.ip("middle", "link set port0 up");
    std::thread::sleep(Duration::from_millis(200));
    datagrams(&network, "10.9.0.1:4000", "10.9.0.2:4000");
    network.ip("middle", "link delete port0");
    std::thread::sleep(Duration::from_millis(200));
    network.cable("middle port0", "left eth0");
    network.address("left", "eth0", "10.9.0.1/24");
    std::thread::sleep(Duration::from_millis(400));
    datagrams(&network, "10.9.0.1:4000", "10.9.0.2:4000");
    let seen = forwarder.stop();
    let of_a: Vec<_> = seen.states.iter().filter(|(port, _)| *port == 0).collect();
    let states: Vec<State> = of_a.iter().map(|(_, state)| *state).collect();
    assert_eq!(states, [State::Down, State::Up, State::Down, State::Up]);
    assert_eq!(seen.counters[0].outages, 2);
}

/// A link that is gone and back between two looks is an outage: behind it may be other neighbours.
#[test]
fn an_outage_between_two_looks_is_noticed() {
    if !is_possible() {
        return;
    }
    for driver in [Driver::AfPacket, Driver::AfXdp] {
        let network = network();
        let (told, on_its_way) = std::sync::mpsc::channel();
        let (is_back, back) = std::sync::mpsc::channel();
        let looks = network.on("middle", move || {
            let mut port = port("port0", driver);
            let before = port.poll_state();
            told.send(()).expect("somebody waits");
            back.recv().expect("it comes back");
            let states = [before, port.poll_state(), port.poll_state()];
            (states, port.counters().outages)
        });
        on_its_way.recv().expect("it is looked at");
        network.ip("left", "link set eth0 down");
        network.ip("left", "link set eth0 up");
        is_back.send(()).expect("somebody waits");
        let seen = looks.join().expect("it does not panic");
        assert_eq!(seen, ([None, Some(State::Up), None], 1), "{driver:?}");
    }
}

/// An interface that was elsewhere meanwhile is asked for all stations' frames again.
#[test]
fn an_interface_that_was_elsewhere_hands_over_everything() {
    if !is_possible() {
        return;
    }
    let mut network = network();
    network.host("elsewhere");
    let elsewhere = network.namespace("elsewhere");
    let middle = network.namespace("middle");
    for driver in [Driver::AfPacket, Driver::AfXdp] {
        let (told, state) = std::sync::mpsc::channel();
        let following = network.on("middle", move || {
            let mut port = port("port0", driver);
            let before = promiscuity("port0");
            let is_there = follows(&mut port, &|state| told.send(state).is_ok());
            (is_there, before, promiscuity("port0"))
        });
        let wait_for = |wanted| assert!(state.iter().any(|state| state == wanted), "{driver:?}");
        wait_for(State::Up);
        network.ip("middle", &format!("link set port0 netns {elsewhere}"));
        wait_for(State::Down);
        network.ip("elsewhere", &format!("link set port0 netns {middle}"));
        network.ip("middle", "link set port0 up");
        let (is_there, before, after) = following.join().expect("no panic");
        assert!(
            is_there && before > 0 && after > 0,
            "{driver:?}: {is_there}, {before}, {after}"
        );
    }
}

/// An interface that is made anew between two looks is told of: other stations may be behind it.
#[test]
fn an_interface_made_anew_between_two_looks_is_told() {
    if !is_possible() {
        return;
    }
    for driver in [Driver::AfPacket, Driver::AfXdp] {
        let network = network();
        let (opened, is_open) = std::sync::mpsc::channel();
        let (made, is_made) = std::sync::mpsc::channel();
        let looking = network.on("middle", move || {
            let mut port = port("port0", driver);
            port.poll_state();
            opened.send(()).expect("somebody waits");
            is_made.recv().expect("it is made");
            let (mut pools, mut burst) = (Pools::new(1024, 0), Vec::new());
            port.receive(&mut pools, &mut burst, 64);
            (port.poll_state(), port.counters().outages)
        });
        is_open.recv().expect("the port is open");
        network.ip("middle", "link delete port0");
        let left = network.namespace("left");
        let cable = format!("link add port0 type veth peer name eth0 netns {left}");
        network.ip("middle", &cable);
        network.ip("left", "link set eth0 up");
        network.ip("middle", "link set port0 up");
        made.send(()).expect("it waits");
        let told = looking.join().expect("no panic");
        assert_eq!(told, (Some(State::Up), 1), "{driver:?}");
    }
}

/// One that comes back with the number that it had is opened again, be it the same or made anew.
#[test]
fn an_interface_that_is_back_with_its_number_is_opened_again() {
    if !is_possible() {
        return;
    }
    let station = MacAddress([2, 0, 0, 0, 0, 7]);
    for (driver, is_made_anew) in [
        (Driver::AfPacket, false),
        (Driver::AfPacket, true),
        (Driver::AfXdp, false),
        (Driver::AfXdp, true),
    ] {
        let mut network = network();
        network.host("elsewhere");
        let (opened, is_open) = std::sync::mpsc::channel();
        let (back, is_back) = std::sync::mpsc::channel();
        let hearing = network.on("middle", move || {
            let mut port = port("port0", driver);
            opened.send(port.interface().index).expect("somebody waits");
            is_back.recv().expect("it comes back");
            (port.poll_state(), hears(&mut port, station))
        });
        let index = is_open.recv().expect("the port is open");
        match is_made_anew {
            true => make_anew(&network, index),
            false => move_there_and_back(&network),
        }
        network.ip("middle", "link set port0 up");
        back.send(()).expect("it waits");
        speak_until(&network, station, || hearing.is_finished());
        let told = hearing.join().expect("no panic");
        assert_eq!(told, (Some(State::Up), true), "{driver:?} {is_made_anew}");
    }
}

fn make_anew(network: &Network, index: u32) {
    network.ip("middle", "link delete port0");
    let left = network.namespace("left");
    let cable = format!("link add port0 index {index} type veth peer name eth0 netns {left}");
    network.ip("middle", &cable);
    network.ip("left", "link set eth0 up");
}

fn move_there_and_back(network: &Network) {
    let [elsewhere, middle] = ["elsewhere", "middle"].map(|host| network.namespace(host));
    network.ip("middle", &format!("link set port0 netns {elsewhere}"));
    network.ip("elsewhere", &format!("link set port0 netns {middle}"));
}

/// Ports of one process whose interfaces exchange their names do not take each other for another process.
#[test]
fn interfaces_that_exchange_their_names_are_no_other_processs() {
    if !is_possible() {
        return;
    }
    for driver in [Driver::AfPacket, Driver::AfXdp] {
        let network = network();
        let (opened, is_open) = std::sync::mpsc::channel();
        let (exchanged, are_exchanged) = std::sync::mpsc::channel();
        let looking = network.on("middle", move || {
            let alone = |device: &str| {
                let config = PortConfig {
                    device: device.to_owned(),
                    driver,
                    is_shared: false,
                };
                (config, Part::all_kept(1, &Arc::default()).remove(0))
            };
            let ports = Port::open_together(vec![alone("port0"), alone("port1")]);
            let mut ports = ports.expect("root may open them");
            opened.send(()).expect("somebody waits");
            are_exchanged.recv().expect("names change");
            // As often as a service looks: programs that other tests start have this process's sockets for a moment.
            for _ in 0..3 {
                ports.iter_mut().for_each(|port| _ = port.poll_state());
                std::thread::sleep(Duration::from_millis(100));
            }
            let notes: Vec<String> = ports.iter_mut().flat_map(Port::take_notes).collect();
            (notes, ports.iter().all(|port| port.state() == State::Up))
        });
        is_open.recv().expect("the ports are open");
        for [device, name] in [["port0", "other"], ["port1", "port0"], ["other", "port1"]] {
            network.ip("middle", &format!("link set {device} name {name}"));
        }
        exchanged.send(()).expect("it waits");
        let told = looking.join().expect("no panic");
        assert_eq!(told, (Vec::new(), true), "{driver:?}");
    }
}

/// Tells a port's state until it is up for the second time; whether that comes.
fn follows(port: &mut Port, tell: &dyn Fn(State) -> bool) -> bool {
    let (mut pools, mut burst) = (Pools::new(1024, 0), Vec::new());
    let end = Instant::now() + Duration::from_secs(10);
    let mut was_down = false;
    while Instant::now() < end && !(was_down && port.state() == State::Up) {
        tell(port.state());
        was_down |= port.state() == State::Down;
        wait(std::slice::from_ref(port), None, Duration::from_millis(10));
        port.receive(&mut pools, &mut burst, 64);
        burst.drain(..).for_each(|frame| pools.give(frame));
        port.poll_state();
    }
    was_down && port.state() == State::Up
}

/// How many ask an interface of this network for everything.
fn promiscuity(device: &str) -> u32 {
    let said = std::process::Command::new("ip")
        .args(["-details", "link", "show", device])
        .output()
        .expect("ip runs");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let mut words = said.split_whitespace();
    words.find(|word| *word == "promiscuity");
    words
        .next()
        .and_then(|count| count.parse().ok())
        .expect(&said)
}
