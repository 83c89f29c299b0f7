//! That a setting of an interface is not as it was, for as long as that is so: written to a file, so that a process
//! that comes after one which was killed knows what to put back.
//!
//! The file is in the folder that a service manager keeps for the service (`STATE_DIRECTORY`), else root's in
//! `/run/twinpath`; whoever has neither leaves no word. It holds for one interface until the system is started
//! again, when settings are what they are by then. What is written of interfaces that are gone goes when the next
//! one is written; nobody knows whether those of other network namespaces are there.

use crate::interface::Interface;
use crate::sys;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where it is written that a setting of an interface was changed.
#[derive(Debug)]
pub struct ChangedSetting {
    file: PathBuf,
    /// What the names of files of this setting begin with, in this network namespace: their interface's number follows.
    prefix: String,
    /// What the file has to say to be about this interface.
    text: String,
}

/// Where root's is.
const FOLDER: &str = "/run/twinpath";

impl ChangedSetting {
    /// Of an interface; nothing where there is no place for it.
    pub fn of(interface: &Interface, setting: &str) -> Option<Self> {
        let managed = std::env::var("STATE_DIRECTORY").ok();
        let managed = managed.as_deref().and_then(|list| list.split(':').next());
        Self::in_folder(Path::new(managed.unwrap_or(FOLDER)), interface, setting)
    }

    pub(crate) fn in_folder(folder: &Path, interface: &Interface, setting: &str) -> Option<Self> {
        let start = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let Interface {
            name, index, mac, ..
        } = interface;
        let network = sys::network()?;
        let prefix = format!("{setting}-{network}-");
        Some(Self {
            file: folder.join(format!("{prefix}{index}")),
            prefix,
            text: format!("{} {name} {mac:02x?}\n", start.trim()),
        })
    }

    /// Whether somebody has written it, of this interface.
    pub fn is_written(&self) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|text| text == self.text)
    }

    /// Writes it.
    ///
    /// # Errors
    /// There is no such folder, or not for us.
    pub fn write(&self) -> io::Result<()> {
        if let Some(folder) = self.file.parent().filter(|folder| !folder.exists()) {
            fs::create_dir(folder)?;
        }
        self.forget_gone();
        fs::write(&self.file, &self.text)
    }

    /// Removes what is written of interfaces of this network namespace that are not there any more.
    fn forget_gone(&self) {
        let folder = self.file.parent().map(fs::read_dir);
        for entry in folder.into_iter().flatten().flatten().flatten() {
            let name = entry.file_name();
            let index = name
                .to_str()
                .and_then(|name| name.strip_prefix(&self.prefix));
            let index = index.and_then(|index| index.parse().ok());
            if index.is_some_and(|index| !sys::has_interface(index)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// The setting is as it was.
    pub fn remove(&self) {
        let _ = fs::remove_file(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by an attacker: what was written of an interface that was deleted stayed for ever.
    #[test]
    fn what_is_written_of_interfaces_that_are_gone_goes() {
        let folder = std::env::temp_dir().join(format!("twinpath-gone-{}", std::process::id()));
        let there = Interface::of("lo").expect("every host has one");
        let gone = Interface {
            index: u32::MAX >> 1,
            ..there.clone()
        };
        let of = |interface| ChangedSetting::in_folder(&folder, interface, "a-setting");
        let (Some(there), Some(gone)) = (of(&there), of(&gone)) else {
            return;
        };
        gone.write().expect("it is this process's folder");
        let elsewhere = folder.join("a-setting-1-7");
        fs::write(&elsewhere, "").expect("as above");
        assert!(gone.is_written());
        there.write().expect("as above");
        assert!(there.is_written() && !gone.is_written());
        assert!(elsewhere.exists(), "nobody knows of other networks");
        fs::remove_dir_all(&folder).expect("as above");
    }
}
