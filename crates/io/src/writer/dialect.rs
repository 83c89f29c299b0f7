//! The two formats of a file that is written, and what stands at its front.

use std::path::Path;

use super::stream::has_gzip_name;
use super::{pcap, pcapng};
use crate::MAX_INTERFACES;
use crate::error::{CaptureError, NameProblem};

/// The format of the file.
#[derive(Clone, Copy)]
pub(super) enum Dialect {
    Pcap,
    /// With so many interfaces.
    Pcapng {
        interfaces: u32,
    },
}

impl Dialect {
    pub(super) fn of_name(path: &Path, interfaces: usize) -> Self {
        let is_gzip = has_gzip_name(path);
        let name = path.file_name().map(Path::new);
        let name = if is_gzip {
            name.and_then(Path::file_stem).map(Path::new)
        } else {
            name
        };
        match name.and_then(Path::extension) {
            Some(extension) if extension.eq_ignore_ascii_case("pcapng") => Self::Pcapng {
                interfaces: interfaces as u32,
            },
            _ => Self::Pcap,
        }
    }

    pub(super) fn file_header(self, names: &[Option<&str>]) -> Vec<u8> {
        match self {
            Self::Pcap => pcap::file_header().to_vec(),
            Self::Pcapng { .. } => {
                let mut header = pcapng::section_header().to_vec();
                header.extend(
                    names
                        .iter()
                        .flat_map(|name| pcapng::interface_description(*name)),
                );
                header
            }
        }
    }
}

/// Whether interfaces of these names can be written.
pub(super) fn check_names(path: &Path, names: &[Option<&str>]) -> Result<(), CaptureError> {
    if names.len() > MAX_INTERFACES {
        return Err(CaptureError::TooManyInterfaces {
            path: path.to_owned(),
            interfaces: names.len(),
        });
    }
    let is_too_long = |name: &&&str| name.len() > usize::from(u16::MAX);
    match names.iter().flatten().find(is_too_long) {
        Some(name) => Err(CaptureError::InterfaceName {
            path: path.to_owned(),
            name: name.chars().take(40).collect(),
            problem: NameProblem::TooLong,
        }),
        None => Ok(()),
    }
}
