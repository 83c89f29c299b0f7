//! What is told of the kernel that is followed.

use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use twinpath_control::report::KernelFigures;

/// Figures that one thread writes and others read.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<KernelFigures>>);

impl Shared {
    /// What they are now.
    pub fn get(&self) -> KernelFigures {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// They change.
    pub fn change(&self, change: impl FnOnce(&mut KernelFigures)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Interfaces whose packets the kernel forwards, too, in words: each packet would arrive twice.
pub fn forwarding_warnings<'d>(devices: impl Iterator<Item = &'d str>) -> Vec<String> {
    let mut warnings = Vec::new();
    for device in devices {
        for version in ["ipv4", "ipv6"] {
            let path = format!("/proc/sys/net/{version}/conf/{device}/forwarding");
            let is_on = fs::read_to_string(path).is_ok_and(|text| text.trim() == "1");
            if is_on {
                warnings.push(format!(
                    "the kernel forwards packets of {device}, too, so each arrives twice: expected net.{version}.conf.{device}.forwarding = 0 (sysctl), or a rule of nftables that drops what it would forward; with driver = \"af_xdp\" it does not see them"
                ));
            }
        }
    }
    warnings
}
