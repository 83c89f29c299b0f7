//! Threads that stay on processors.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use twinpath_control::service::Cpus;

/// The first processor of a list that this process may not run on.
pub fn forbidden(cpus: Cpus) -> Option<u16> {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    let is_forbidden =
        |cpu: &u16| usize::from(*cpu) >= CpuSet::MAX_CPU || !allowed.is_set(usize::from(*cpu));
    cpus.list().into_iter().find(is_forbidden)
}

/// The processors of so many threads, behind those of threads before them: none if there are none.
pub fn in_turn(cpus: Cpus, before: usize, threads: usize) -> Vec<u16> {
    let all = cpus.list();
    let turns = all.iter().copied().cycle();
    turns
        .skip(before % all.len().max(1))
        .take(threads)
        .collect()
}

/// The calling thread stays there from now on. What has become of the processor since it was allowed
/// is nothing to end a run for.
pub fn stay_on(cpu: Option<&u16>) {
    if let Some(cpu) = cpu {
        let mut only = CpuSet::new();
        only.set(usize::from(*cpu));
        let _ = sched_setaffinity(None, &only);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(numbers: &[u16]) -> Cpus {
        numbers.to_vec().try_into().expect("small")
    }

    #[test]
    fn threads_take_turns() {
        assert_eq!(in_turn(cpus(&[6, 4, 5]), 0, 4), [4, 5, 6, 4]);
        assert_eq!(in_turn(cpus(&[6, 4, 5]), 4, 2), [5, 6]);
        assert!(in_turn(cpus(&[]), 2, 3).is_empty());
    }

    #[test]
    fn a_thread_stays_where_it_may() {
        let allowed = sched_getaffinity(None).expect("Linux tells");
        let mut numbers = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        let last = numbers.next_back().expect("somewhere it runs") as u16;
        assert_eq!(forbidden(cpus(&[last])), None);
        let stays = std::thread::spawn(move || {
            stay_on(Some(&last));
            sched_getaffinity(None).map(|now| (now.count(), now.is_set(last.into())))
        });
        assert_eq!(stays.join().expect("no panic"), Ok((1, true)));
        if let Some(other) = (0..1024).find(|cpu| !allowed.is_set(*cpu)) {
            assert_eq!(forbidden(cpus(&[last, other as u16])), Some(other as u16));
        }
    }
}
