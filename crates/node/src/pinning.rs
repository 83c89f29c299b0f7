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
fn in_turn(cpus: Cpus, before: usize, threads: usize) -> Vec<u16> {
    let all = cpus.list();
    let turns = all.iter().copied().cycle();
    turns
        .skip(before % all.len().max(1))
        .take(threads)
        .collect()
}

/// The processors of a shard's threads, its fast path's first, where each shard has so many workers.
pub fn of_shard(cpus: Cpus, shard: u16, workers: usize) -> Vec<u16> {
    let threads = 1 + workers;
    in_turn(cpus, usize::from(shard) * threads, threads)
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

/// Does something on a processor, and goes back to where the calling thread was allowed before.
pub fn while_on<T>(cpu: Option<u16>, run: impl FnOnce() -> T) -> T {
    let before = sched_getaffinity(None);
    stay_on(cpu.as_ref());
    let done = run();
    if let Ok(before) = before {
        let _ = sched_setaffinity(None, &before);
    }
    done
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
        assert_eq!(of_shard(cpus(&[6, 4, 5]), 1, 1), [6, 4]);
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

    #[test]
    fn what_is_done_elsewhere_moves_nobody() {
        let allowed = || sched_getaffinity(None).expect("Linux tells");
        let before = allowed();
        let mut numbers = (0..CpuSet::MAX_CPU).filter(|cpu| before.is_set(*cpu));
        let last = numbers.next_back().expect("somewhere it runs");
        let inside = while_on(Some(last as u16), allowed);
        assert_eq!((inside.count(), inside.is_set(last)), (1, true));
        assert_eq!(allowed(), before);
        assert_eq!(while_on(None, allowed), before);
    }
}
