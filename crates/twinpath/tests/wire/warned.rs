//! What a run tells when it begins on interfaces that are not as they should be.

use super::middle::{Middle, cut_network, wait_for};
use super::programs::succeeds_soon;
use std::process::Output;
use std::time::Duration;
use twinpath_netns::{Network, has_program, is_possible};

const BUMP: &str = "[service]\nname = \"bump\"\nchain = [\"monitor\"]\nunparsed = \"forward\"\n\
    [ports]\ninside = { device = \"inside\", driver = \"af_packet\" }\n\
    outside = { device = \"outside\", driver = \"af_packet\" }\n";

/// What a run said when it is over.
fn told(middle: Middle) -> String {
    let said = middle.stopped();
    assert!(said.status.success(), "{said:?}");
    String::from_utf8_lossy(&said.stderr).into_owned()
}

/// What another process says that is to run a service here.
fn another(network: &Network, service: &str, driver: &str) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let text = service.replace("af_packet", driver);
    std::fs::write(folder.path().join("service.toml"), text).expect("a file");
    let mut command = network.command("middle", env!("CARGO_BIN_EXE_twinpath"));
    command.args(["run", "service.toml", "--for", "1s", "--no-report"]);
    command
        .current_dir(&folder)
        .output()
        .expect("it can be run")
}

#[test]
fn a_second_process_on_the_same_interfaces_is_refused() {
    if !is_possible() {
        return;
    }
    let network = cut_network();
    let middle = Middle::start(&network, BUMP);
    for driver in super::DRIVERS {
        let said = another(&network, BUMP, driver);
        let told = String::from_utf8_lossy(&said.stderr);
        assert_eq!(said.status.code(), Some(2), "{told}");
        let expected = "interface inside: cannot open it by ";
        assert!(told.contains(expected), "{told}");
        assert!(told.contains("another twinpath has it"), "{told}");
    }
    assert!(!self::told(middle).contains("warning"));
    let said = another(&network, BUMP, "af_packet");
    assert!(said.status.success(), "{said:?}");
}

/// Found by an attacker: what a bridge took from its interfaces crossed it past the service, and nobody was told.
#[test]
fn an_interface_of_a_bridge_is_refused() {
    if !is_possible() {
        return;
    }
    let network = cut_network();
    network.ip("middle", "link add br0 type bridge");
    network.ip("middle", "link set outside master br0");
    for driver in super::DRIVERS {
        let said = another(&network, BUMP, driver);
        let told = String::from_utf8_lossy(&said.stderr);
        assert_eq!(said.status.code(), Some(2), "{told}");
        let expected =
            "outside belongs to the bridge br0, which takes what arrives there past this service";
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn a_port_that_is_down_is_told_at_both_ends_of_a_run() {
    if !is_possible() {
        return;
    }
    let network = cut_network();
    network.ip("middle", "link set outside down");
    let told = told(Middle::start(&network, BUMP));
    assert!(
        told.contains("warning: the port outside (outside) is down"),
        "{told}"
    );
    assert!(!told.contains("(inside) is down"), "{told}");
    let said = another(&network, BUMP, "af_packet");
    let told = String::from_utf8_lossy(&said.stdout);
    assert!(
        told.contains("outside (outside, af_packet, is down): in"),
        "{told}"
    );
}

/// The kernel has an address on one interface, which is the port's, too, and forwards from both.
#[test]
fn a_kernel_that_forwards_past_the_service_is_told() {
    if !is_possible() {
        return;
    }
    let network = cut_network();
    network.address("middle", "inside", "10.9.0.9/24");
    for (setting, is_told) in [("1", true), ("0", false)] {
        let setting = format!("net.ipv4.ip_forward={setting}");
        let set = network.run("middle", "sysctl", &["-w", &setting]);
        assert!(set.status.success(), "{set:?}");
        let claiming = "driver = \"af_packet\", addresses = [\"10.9.0.9/24\"]";
        let text = BUMP.replacen("driver = \"af_packet\"", claiming, 1);
        let told = told(Middle::start(&network, &text));
        // Found by an attacker: nothing was said of the one without addresses.
        for port in ["inside", "outside"] {
            let forwards = format!("the kernel forwards packets of {port}, too");
            assert_eq!(told.contains(&forwards), is_told, "{told}");
        }
        let claimed = "10.9.0.9 is the port inside's, and the kernel has it on inside, too";
        assert!(told.contains(claimed), "{told}");
    }
}

/// Found by an attacker: an interface that is made anew, or whoever sets it, has the kernel forward past a firewall
/// that runs already, and nobody was told.
#[test]
fn a_kernel_that_begins_to_forward_is_told() {
    if !is_possible() {
        return;
    }
    for driver in super::DRIVERS {
        let network = cut_network();
        let forward = |on: u8| {
            let setting = format!("net.ipv4.ip_forward={on}");
            let set = network.run("middle", "sysctl", &["-w", &setting]);
            assert!(set.status.success(), "{set:?}");
        };
        forward(0);
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let to = std::fs::File::create(&log).expect("a file").into();
        let guarded = BUMP.replace("monitor", "firewall") + "[firewall]\ndefault = \"allow\"\n";
        let text = guarded.replace("af_packet", driver);
        let middle = Middle::start_telling(&network, &text, &[], to);
        let expected = "the kernel forwards packets of outside past this service";
        let times = || {
            let said = std::fs::read_to_string(&log).expect("a log");
            said.matches(expected).count()
        };
        assert_eq!(times(), 0, "{driver}");
        for turn in 1..=2 {
            forward(1);
            assert!(wait_for(|| times() == turn), "{driver}: {turn}");
            forward(0);
            std::thread::sleep(Duration::from_secs(3));
        }
        assert_eq!(times(), 2, "{driver}");
        middle.stop();
    }
}

/// The file that is there to start from, between two hosts of one network.
#[test]
fn a_file_to_start_from_lets_hosts_find_each_other() {
    if !is_possible() || !has_program("ping", "iputils-ping") {
        return;
    }
    let network = cut_network();
    let binary = env!("CARGO_BIN_EXE_twinpath");
    let made = network.run("middle", binary, &["init", "inside", "outside"]);
    assert!(made.status.success(), "{made:?}");
    let middle = Middle::start(&network, &String::from_utf8_lossy(&made.stdout));
    for address in ["10.9.0.2", "fd09::2"] {
        let ping = ["-c1", "-W1", address];
        assert!(
            succeeds_soon(&network, "client", "ping", &ping),
            "ping {address}"
        );
    }
    let told = told(middle);
    assert!(!told.contains("warning"), "{told}");
}

/// Where the middle has addresses the file is one for a gateway, and the middle goes on being reached.
#[test]
fn a_file_to_start_from_does_not_cut_the_host_off() {
    if !is_possible() || !has_program("ping", "iputils-ping") {
        return;
    }
    let network = super::kernel::network();
    let binary = env!("CARGO_BIN_EXE_twinpath");
    let made = network.run("middle", binary, &["init", "lan", "wan"]);
    assert!(made.status.success(), "{made:?}");
    let why = String::from_utf8_lossy(&made.stderr);
    assert!(why.contains("192.168.1.1/24"), "{why}");
    let middle = Middle::start(&network, &String::from_utf8_lossy(&made.stdout));
    for (host, address) in [
        ("client", "192.168.1.1"),
        ("client", "198.51.100.1"),
        ("client", "2001:db8::1"),
        ("server", "198.51.100.2"),
    ] {
        let ping = ["-c1", "-W1", address];
        assert!(
            succeeds_soon(&network, host, "ping", &ping),
            "{host}: ping {address}"
        );
    }
    let told = told(middle);
    assert!(!told.contains("warning"), "{told}");
}

#[test]
fn a_host_that_a_service_cuts_off_is_told() {
    if !is_possible() {
        return;
    }
    let network = cut_network();
    network.address("middle", "inside", "10.9.0.9/24");
    let text = BUMP.replace("af_packet", "auto");
    let told = told(Middle::start(&network, &text));
    let expected = "inside has 10.9.0.9 of this host, and nothing in the chain gives packets for it to the host: it is cut off while the service runs";
    assert!(told.contains(expected), "{told}");
    assert!(!told.contains("outside has"), "{told}");
}
