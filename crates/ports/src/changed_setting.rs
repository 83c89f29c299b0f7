//! That a setting of an interface is not as it was, for as long as that is so: written to a file, so that a process
//! that comes after one which was killed knows what to put back.
//!
//! The file is in the folder that a service manager keeps for the service (`STATE_DIRECTORY`), else root's in
//! `/run/twinpath`; whoever has neither leaves no word. It holds for one interface until the system is started
//! again, when settings are what they are by then.

use crate::interface::Interface;
use crate::sys;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where it is written that a setting of an interface was changed.
#[derive(Debug)]
pub struct ChangedSetting {
    file: PathBuf,
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
        Some(Self {
            file: folder.join(format!("{setting}-{network}-{index}")),
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
        fs::write(&self.file, &self.text)
    }

    /// The setting is as it was.
    pub fn remove(&self) {
        let _ = fs::remove_file(&self.file);
    }
}
