//! How long a thread has a processor at a time where others want it too.

/// The shortest that Linux grants, in nanoseconds.
const SHORTEST_NS: u64 = 100_000;

/// The calling thread has processors for shorter times than others, and is let in sooner instead: as soon
/// as it wakes, where others have longer slices (Linux 6.12 and later; elsewhere nothing changes). Its
/// share stays as it is.
///
/// A thread that takes packets from a ring is to be let in before the ring runs over. In the usual slices
/// of milliseconds it would carry one ring full of them for each. A thread under a real-time policy stays
/// as it is.
pub fn shorten() {
    let Some(mut attributes) = attributes() else {
        return;
    };
    let is_shared_fairly =
        [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&(attributes.sched_policy as i32));
    if is_shared_fairly {
        attributes.sched_runtime = SHORTEST_NS;
        // SAFETY: the kernel reads as many bytes as `size` says, all of which are there.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
}

/// What the kernel knows of the calling thread, if it tells.
fn attributes() -> Option<libc::sched_attr> {
    // SAFETY: numbers alone, for all of which zero is one.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let (place, bytes) = (&raw mut attributes, size_of::<libc::sched_attr>());
    // SAFETY: the kernel writes no more bytes than it is told.
    let told = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, place, bytes, 0) };
    (told == 0).then_some(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_policy_and_its_share() {
        let told = std::thread::spawn(|| {
            let before = attributes().expect("Linux tells");
            shorten();
            (before, attributes().expect("Linux tells"))
        });
        let (before, after) = told.join().expect("no panic");
        assert_eq!(after.sched_policy, before.sched_policy);
        assert_eq!(after.sched_nice, before.sched_nice);
        // A kernel that knows of slices tells what they are.
        assert!([0, SHORTEST_NS].contains(&after.sched_runtime) || before.sched_policy != 0);
    }
}
