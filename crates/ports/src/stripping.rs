//! Whether an interface takes VLAN tags off frames that arrive.
//!
//! AF_XDP sees frames as the card has written them, so a port has the card leave tags where they are,
//! and as it was when the port is closed. A process that is killed cannot do that: it has
//! [written down](ChangedSetting) what it has changed, for the next one that opens the interface.

use crate::changed_setting::ChangedSetting;
use crate::interface::{Interface, set_strips_tags, strips_tags};

/// What an interface does with tags while a port has it.
#[derive(Debug)]
pub struct Stripping {
    name: String,
    /// It took tags off before, and does not any more.
    is_to_be_put_back: bool,
    is_on: bool,
    changed: Option<ChangedSetting>,
}

impl Stripping {
    /// Has an interface leave tags in frames, if it can, and `is_kept` if it stays so when this is gone.
    pub fn off(interface: &Interface, is_kept: bool) -> Self {
        Self::off_by(interface, is_kept, changed(interface))
    }

    fn off_by(interface: &Interface, is_kept: bool, changed: Option<ChangedSetting>) -> Self {
        let name = &interface.name;
        let is_on = || strips_tags(name).unwrap_or(false);
        let was_on = is_on();
        let was_on_before = changed.as_ref().is_some_and(ChangedSetting::is_written);
        if let Some(changed) = changed.as_ref().filter(|_| was_on) {
            // Whoever finds no word leaves the setting as it is.
            let _ = changed.write();
        }
        let is_off = !was_on || set_strips_tags(name, false).is_ok();
        Self {
            name: name.clone(),
            is_to_be_put_back: is_off && (was_on || was_on_before) && !is_kept,
            is_on: is_on(),
            changed,
        }
    }

    /// Has an interface do what it did before a process that was killed, or whose sockets somebody has kept, had
    /// it leave tags.
    pub fn as_before(interface: &Interface) {
        if let Some(changed) = changed(interface).filter(ChangedSetting::is_written) {
            put_back(&interface.name, Some(&changed));
        }
    }

    /// Whether it takes tags off all the same.
    pub const fn is_on(&self) -> bool {
        self.is_on
    }
}

impl Drop for Stripping {
    fn drop(&mut self) {
        if self.is_to_be_put_back {
            put_back(&self.name, self.changed.as_ref());
        }
    }
}

fn changed(interface: &Interface) -> Option<ChangedSetting> {
    ChangedSetting::of(interface, "rx-vlan-offload")
}

fn put_back(name: &str, changed: Option<&ChangedSetting>) {
    // An interface that is gone has nothing to be put back.
    let _ = set_strips_tags(name, true);
    changed.inspect(|changed| changed.remove());
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_netns::{Network, is_possible};

    /// What a process has left that was killed is put back by the next one, or the one after that.
    #[test]
    fn what_a_killed_process_has_changed_is_put_back() {
        if !is_possible() {
            return;
        }
        let mut network = Network::new();
        network.cable("middle port0", "left eth0");
        let middle = network.on("middle", || {
            let folder = std::env::temp_dir().join(format!("twinpath-{}", std::process::id()));
            let interface = Interface::of("port0").expect("it is there");
            let strips = || strips_tags("port0").expect("it is there");
            for before in [true, false] {
                set_strips_tags("port0", before).expect("root may");
                let off = || {
                    let setting = "rx-vlan-offload";
                    let changed = ChangedSetting::in_folder(&folder, &interface, setting);
                    assert!(changed.is_some());
                    Stripping::off_by(&interface, false, changed)
                };
                for _ in 0..2 {
                    std::mem::forget(off());
                    assert!(!strips());
                }
                drop(off());
                assert_eq!(strips(), before);
                set_strips_tags("port0", false).expect("root may");
                drop(off());
                assert!(!strips(), "what somebody else has said since stays");
            }
            std::fs::remove_dir(&folder).expect("it is empty");
        });
        middle.join().expect("no panic");
    }
}
