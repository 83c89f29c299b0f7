//! One process at a time has an interface: two on the same would each give every packet once.
//!
//! Its sign is a fan-out group of packet sockets (packet(7)) that has room for one, and a number that
//! follows from the interface's. Making one takes the right to open packet sockets, as opening the
//! interface does: who may do neither cannot keep a service from it. Groups are of one network namespace,
//! as interfaces are, and end with their process, however it ends. Nothing arrives at these sockets.

use crate::filter::let_nothing_in;
use crate::interface::Interface;
use crate::sys;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// That an interface is this process's, for as long as this is kept.
#[derive(Debug)]
pub struct Claim {
    groups: Vec<OwnedFd>,
}

/// A group's number has 16 bits, and other programs choose theirs as they like: a claim is so many groups, at the
/// first of these numbers that are not other programs'. Who comes later finds one of them before it has as many.
const GROUPS: usize = 3;
const NUMBERS: u32 = 16;

impl Claim {
    /// Of an interface that nobody else has.
    ///
    /// # Errors
    /// Another process has it (`ResourceBusy`), or may this one open no packet sockets.
    pub fn of(interface: &Interface) -> io::Result<Self> {
        let groups = (0..NUMBERS).map(|number| group(interface.index, number));
        let groups = groups.filter_map(io::Result::transpose);
        Ok(Self {
            groups: groups.take(GROUPS).collect::<io::Result<_>>()?,
        })
    }

    /// Whether others are kept from the interface: Linux before 5.11 has no groups with room for one.
    pub fn keeps_others_out(&self) -> bool {
        !self.groups.is_empty()
    }
}

/// Most members of a group.
const ONE: u32 = 1;

/// Packets are dealt in turn (`PACKET_FANOUT_LB`), of which there are none.
const IN_TURN: u32 = 1;

/// The group of an interface at one of its numbers; nothing if that is another program's.
fn group(index: u32, number: u32) -> io::Result<Option<OwnedFd>> {
    let socket = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
    let_nothing_in(&socket)?;
    let (group, protocol) = name(index, number);
    sys::bind(&socket, address(protocol))?;
    let wanted = [u32::from(group) | IN_TURN << 16, ONE];
    match sys::set_option(&socket, libc::SOL_PACKET, libc::PACKET_FANOUT, wanted) {
        Ok(()) => Ok(Some(socket)),
        Err(error) => match error.raw_os_error() {
            Some(libc::EINVAL) => Ok(None),
            Some(libc::ENOSPC) => Err(is_anothers()),
            _ => Err(error),
        },
    }
}

fn is_anothers() -> io::Error {
    io::Error::new(
        io::ErrorKind::ResourceBusy,
        "another twinpath has it, and each packet would leave twice: expected an interface of its own, or that the other ends first",
    )
}

/// What a group is called: its number, and the protocol of its packets, without which none joins it. Protocols are such
/// that no frame has, as numbers up to 1,535 are lengths.
const fn name(index: u32, number: u32) -> (u16, u16) {
    const FIRST: u16 = 0x105;
    const STEP: u16 = 0x10;
    const PROTOCOLS: u16 = 0x40;
    let mixed = (index as u64 * NUMBERS as u64 + number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (group, rest) = ((mixed >> 48) as u16, (mixed >> 32) as u16);
    (group, FIRST + STEP * (rest % PROTOCOLS))
}

fn address(protocol: u16) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: protocol.to_be(),
        sll_ifindex: 0,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

/// How long an interface is waited for that somebody else still has, and how often it is tried.
const LEAVING: Duration = Duration::from_secs(2);
const TRY_INTERVAL: Duration = Duration::from_millis(20);

/// Of a process that was killed the kernel takes programs and sockets off the interface a moment after
/// its end: whoever starts in its place waits for that.
pub(crate) fn once_it_is_free<T>(open: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let end = Instant::now() + LEAVING;
    loop {
        match open() {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < end => {
                std::thread::sleep(TRY_INTERVAL);
            }
            opened => return opened,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_netns::{Network, is_possible};

    /// Interfaces by number alone.
    fn numbered(index: u32) -> Interface {
        Interface {
            index,
            ..Interface::of("lo").expect("every host has one")
        }
    }

    /// What is done in a network namespace of its own.
    fn apart(act: impl FnOnce() + Send + 'static) {
        if !is_possible() {
            return;
        }
        let mut network = Network::new();
        network.host("middle");
        network.on("middle", act).join().expect("no panic");
    }

    #[test]
    fn one_has_it_at_a_time() {
        apart(|| {
            let [one, other] = [7, 8].map(numbered);
            let first = Claim::of(&one).expect("it is nobody's");
            assert!(first.keeps_others_out());
            let error = Claim::of(&one).expect_err("it is the first one's");
            assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
            assert!(error.to_string().starts_with("another twinpath has it"));
            let second = Claim::of(&other).expect("it is nobody's");
            drop(first);
            Claim::of(&one).expect("the first one has let go of it");
            drop(second);
        });
    }

    /// Whoever is no more than a user of the host keeps no service from starting.
    #[test]
    fn a_user_without_rights_has_none() {
        apart(|| {
            const NOBODY: libc::c_long = 65534;
            // SAFETY: no memory is handed in. It is this thread alone that becomes another user's.
            let result = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
            assert_eq!(result, 0, "root may");
            let error = Claim::of(&numbered(7)).expect_err("it takes CAP_NET_RAW");
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        });
    }

    #[test]
    fn interfaces_do_not_keep_each_other_out() {
        apart(|| {
            // Those of a host, and such as differ in the highest bits alone.
            let all = (1..200).chain((1..200).map(|number| number << 16 | 1));
            let claims = all.map(|index| Claim::of(&numbered(index)).expect("nobody's"));
            let claims: Vec<_> = claims.collect();
            assert!(claims.iter().all(|claim| claim.groups.len() == GROUPS));
        });
    }

    /// Groups of other programs have some of the numbers, before or after.
    #[test]
    fn other_programs_numbers_change_nothing() {
        apart(|| {
            let interface = numbered(9);
            let theirs = |number| {
                let socket = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0).expect("root may");
                sys::bind(&socket, address(libc::ETH_P_ALL as u16)).expect("root may");
                let (group, _) = name(9, number);
                let (level, wanted) = (libc::SOL_PACKET, u32::from(group));
                sys::set_option(&socket, level, libc::PACKET_FANOUT, wanted).map(|()| socket)
            };
            let before = [0, 2].map(|number| theirs(number).expect("nobody has it"));
            let claim = Claim::of(&interface).expect("nobody's");
            assert_eq!(claim.groups.len(), GROUPS);
            assert!(Claim::of(&interface).is_err());
            drop(before);
            assert!(Claim::of(&interface).is_err(), "of the others it has some");
            drop(claim);
            let claim = Claim::of(&interface).expect("nobody's");
            assert!((0..GROUPS as u32).all(|number| theirs(number).is_err()));
            drop(claim);
        });
    }
}
