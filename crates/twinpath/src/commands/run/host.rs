//! What the host does beside a service, for as long as that runs: an interface that is made anew begins with the
//! kernel's own settings, and anybody may change them.

use crate::checks::host_doubts;
use crate::output;
use crate::stop::Stop;
use std::collections::BTreeSet;
use std::thread::Builder;
use std::time::Duration;
use twinpath_control::service::Service;

/// How often it is looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// Tells of the host now, and from now on of what was not so before.
///
/// It has a thread of its own, as the kernel may let whoever asks it about interfaces wait.
///
/// # Errors
/// There can be no more threads.
pub fn watch(service: &Service, stop: &Stop) -> std::io::Result<()> {
    let mut watched = Watched {
        service: service.clone(),
        told: BTreeSet::new(),
    };
    watched.look();
    let stop = stop.clone();
    let look = move || {
        while !stop.is_requested() {
            std::thread::sleep(INTERVAL);
            watched.look();
        }
    };
    Builder::new().name("host".into()).spawn(look).map(|_| ())
}

struct Watched {
    service: Service,
    /// What was so when it was looked at last.
    told: BTreeSet<String>,
}

impl Watched {
    fn look(&mut self) {
        let doubts = host_doubts(&self.service).into_iter();
        let doubts: BTreeSet<String> = doubts.map(|doubt| doubt.to_string()).collect();
        for doubt in doubts.difference(&self.told) {
            output::warning(doubt);
        }
        self.told = doubts;
    }
}
