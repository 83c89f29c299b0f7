//! Captures whose clocks stand still or go back.

use std::time::Duration;
use twinpath_io::Trace;

/// Between packets of a capture with a fine clock.
const FINE: Duration = Duration::from_micros(1);
/// Between those of one whose clock does not tell most of them apart: longer than workers take to
/// answer.
const COARSE: Duration = Duration::from_micros(20);

/// The same packets, each some time after the one before: what is seen once must be able to become
/// hot, also where a capture has no times, coarse ones, or several that were put together.
pub fn ticking(trace: &Trace) -> Trace {
    let least_ns = least_gap(trace).as_nanos() as u64;
    let mut ticking = Trace::new();
    let mut last: Option<(u64, u64)> = None;
    for frame in trace.iter() {
        let captured_ns = frame.timestamp_ns;
        let now_ns = last.map_or(captured_ns, |(before_ns, now_ns)| {
            now_ns + captured_ns.saturating_sub(before_ns).max(least_ns)
        });
        last = Some((captured_ns, now_ns));
        ticking.push(now_ns, frame.frame);
    }
    ticking
}

fn least_gap(trace: &Trace) -> Duration {
    let pairs = trace.iter().zip(trace.iter().skip(1));
    let apart = pairs.filter(|(before, after)| before.timestamp_ns < after.timestamp_ns);
    if 2 * apart.count() > trace.len() {
        FINE
    } else {
        COARSE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times_of(captured: &[u64]) -> Vec<u64> {
        let mut trace = Trace::new();
        for at_ns in captured {
            trace.push(*at_ns, &[1; 60]);
        }
        let ticking = ticking(&trace);
        let mut pairs = ticking.iter().zip(trace.iter());
        assert!(pairs.all(|(one, other)| one.frame == other.frame));
        ticking.iter().map(|frame| frame.timestamp_ns).collect()
    }

    #[test]
    fn time_passes_and_never_goes_back() {
        let times = times_of(&[7, 7, 5007, 100, 2100, 4100, 6100]);
        assert_eq!(times, [7, 1007, 6007, 7007, 9007, 11_007, 13_007]);
    }

    #[test]
    fn coarse_times_are_spread() {
        assert_eq!(times_of(&[5, 5, 5]), [5, 20_005, 40_005]);
    }
}
