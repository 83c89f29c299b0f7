//! A program behind the sockets of AF_PACKET and in front of the network stack: what a socket has got for
//! the node ends there. Else the kernel would look for a way for each copy, and drop it, or forward it.

use super::assembler::{Assembler, When, Width};
use super::{HostPrefix, LINK_CREATE, Prefixes, Way, load_for, program, replace, words};
use crate::descriptor_store::DescriptorStore;
use crate::sys;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const PROGRAM_CLASSIFIER: u32 = 3;
const ATTACH_INGRESS: u32 = 46;
const DROP: i32 = 2;
/// Whatever else is there decides.
pub(super) const NEXT: i32 = -1;

/// Offsets in the program's context.
pub(super) const FRAME_AT: [i16; 2] = [76, 80];
const HAS_TAG: i16 = 20;
const TAG: i16 = 24;
/// The bits of a tag that name a VLAN.
const VLAN: i32 = 0xfff;

/// A program on an interface, for as long as this is there.
pub struct Ingress {
    prefixes: Option<Prefixes>,
    _link: OwnedFd,
}

impl Ingress {
    /// Puts the program on an interface, in place of one that a former process has left. Where this host
    /// shares the interface, packets of its own go on; so do, in any case, those of a VLAN, which an
    /// interface of the kernel's may be for.
    ///
    /// # Errors
    /// It is not permitted (CAP_NET_ADMIN, CAP_BPF), or the kernel has no such place (before Linux 6.6).
    pub fn attach(interface: u32, is_shared: bool, store: &DescriptorStore) -> io::Result<Self> {
        let prefixes = is_shared.then(Prefixes::new).transpose()?;
        let (code, count) = program(Way::Copied, prefixes.as_ref());
        let program = load_for(&code, count, PROGRAM_CLASSIFIER, None)?;
        let name = link_name(interface);
        let taken = store.take(&name);
        let link = match taken.filter(|link| replace(link, &program).is_ok()) {
            Some(link) => link,
            None => {
                store.forget(&name);
                let program = program.as_raw_fd() as u32;
                let attributes = words(&[program, interface, ATTACH_INGRESS, 0]);
                let link = sys::bpf_descriptor(LINK_CREATE, &attributes)?;
                store.keep(&name, &link);
                link
            }
        };
        Ok(Self {
            prefixes,
            _link: link,
        })
    }

    /// Nobody keeps what is on an interface any more.
    pub fn forget(interface: u32, store: &DescriptorStore) {
        store.forget(&link_name(interface));
    }

    /// Packets to these prefixes are this host's, or not.
    ///
    /// # Errors
    /// There are too many.
    pub fn set_prefixes(&mut self, wanted: &BTreeSet<HostPrefix>) -> io::Result<()> {
        match &mut self.prefixes {
            Some(prefixes) => prefixes.set(wanted),
            None => Ok(()),
        }
    }
}

fn link_name(interface: u32) -> String {
    format!("ingress-{interface}-link")
}

/// A packet of a VLAN is left alone. One whose tag has a priority alone is no VLAN's: the kernel takes it
/// for one without a tag, whatever tags of this kind are behind the first.
pub(super) fn pass_tags(code: &mut Assembler) {
    code.load(Width::Word, 2, 6, HAS_TAG);
    code.jump_if(2, When::Equal, 0, "of no VLAN");
    code.load(Width::Word, 2, 6, TAG);
    code.and(2, VLAN);
    code.jump_if(2, When::NotEqual, 0, "kernel");
    code.label("of no VLAN");
}

/// The kernel has no packet any more, the socket has its copy.
pub(super) fn drop_copy(code: &mut Assembler) {
    code.set(0, DROP);
    code.exit();
}
