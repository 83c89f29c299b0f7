//! A network namespace between two others, by cables.

use crate::succeeds;
use std::process::{Command, Stdio};

/// The namespace in the middle, where what is tried runs.
pub const MIDDLE: &str = "twinpath-middle";
/// Whose host is asked from.
const LEFT: &str = "twinpath-left";
/// Whose host answers.
const RIGHT: &str = "twinpath-right";

/// Which address hosts of either side have.
const ADDRESSES: [&str; 2] = ["10.9.0.1/24", "10.9.0.200/24"];
/// Who answers.
const ANSWERS: &str = "10.9.0.200";

/// Three namespaces; they are gone when this is dropped.
pub struct Cables(());

impl Cables {
    /// Makes them: `eth1` of the middle is one cable's end, `eth2` the other's.
    pub fn lay() -> Option<Self> {
        let cables = Self(());
        remove();
        let are_there = [MIDDLE, LEFT, RIGHT].into_iter().all(|name| {
            ip(&["netns", "add", name]) && ip(&["-n", name, "link", "set", "lo", "up"])
        });
        let sides = [(LEFT, "eth1"), (RIGHT, "eth2")];
        let mut sides = sides.into_iter().zip(ADDRESSES);
        let are_laid = sides.all(|((side, device), address)| {
            let peer = ["peer", "name", "eth0", "netns", side];
            let cable = ["link", "add", device, "netns", MIDDLE, "type", "veth"];
            ip(&[&cable[..], &peer].concat())
                && ip(&["-n", side, "address", "add", address, "dev", "eth0"])
                && ip(&["-n", side, "link", "set", "eth0", "up"])
                && ip(&["-n", MIDDLE, "link", "set", device, "up"])
        });
        (are_there && are_laid).then_some(cables)
    }

    /// Asks from the left as often as said, and tells how many answers there were from the right.
    pub fn answers(&self, questions: u32) -> u32 {
        let mut ping = Command::new("ip");
        ping.args(["netns", "exec", LEFT, "ping", "-i", "0.05", "-W", "5", "-c"]);
        let said = ping.arg(questions.to_string()).arg(ANSWERS).output();
        let said = said.map(|said| said.stdout).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).into_owned();
        let count = said
            .split(", ")
            .find_map(|part| part.strip_suffix(" received"));
        count.and_then(|count| count.parse().ok()).unwrap_or(0)
    }
}

impl Drop for Cables {
    fn drop(&mut self) {
        remove();
    }
}

fn remove() {
    for name in [MIDDLE, LEFT, RIGHT] {
        let mut remove = Command::new("ip");
        let _ = remove
            .args(["netns", "delete", name])
            .stderr(Stdio::null())
            .status();
    }
}

fn ip(words: &[&str]) -> bool {
    succeeds(Command::new("ip").args(words))
}
