//! What the paper proves of recirculation, as functions: TurboSwitch §III-A.
//!
//! All are statements about fluids: a few packets of slack belong to each.

/// Fact 1: how often a payload recirculates on average. A port that is kept busy carries the
/// input once and every recirculation once more, so the rates alone decide.
pub fn recirculations(input_bps: f64, loopback_bps: f64) -> f64 {
    (loopback_bps - input_bps) / input_bps
}

/// Fact 2: the least mean queue in bytes. `switch_ns` is the switch's own latency for one pass, without the
/// queue. A switch so slow that no queue is needed gives zero.
pub fn least_queue_bytes(
    input_bps: f64,
    loopback_bps: f64,
    slow_path_latency_ns: f64,
    switch_ns: f64,
) -> f64 {
    let bits_ns = slow_path_latency_ns * input_bps - switch_ns * (loopback_bps - input_bps);
    (bits_ns / 8e9).max(0.0)
}

/// Theorem 1: the queue stays below what the port sends in twice the workers' latency, in bytes.
pub fn most_queue_bytes(loopback_bps: f64, slow_path_latency_ns: f64) -> f64 {
    2.0 * slow_path_latency_ns * loopback_bps / 8e9
}

/// Corollary 1: no packet takes longer than this, in nanoseconds.
pub fn most_latency_ns(slow_path_latency_ns: f64) -> f64 {
    3.0 * slow_path_latency_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's own examples.
    #[test]
    fn the_examples_of_the_paper() {
        assert_eq!(recirculations(25e9, 100e9), 3.0);
        assert_eq!(most_queue_bytes(100e9, 20e3), 500e3);
        assert_eq!(most_queue_bytes(1.6e12, 20e3), 8000.0 * 1000.0);
        assert_eq!(most_latency_ns(20e3), 60e3);
    }

    #[test]
    fn a_slow_switch_needs_no_queue() {
        // 20 us x 25 Gb/s = 62.5 kB, less 75 Gb/s x w.
        assert_eq!(least_queue_bytes(25e9, 100e9, 20e3, 0.0), 62_500.0);
        assert_eq!(least_queue_bytes(25e9, 100e9, 20e3, 7e3), 0.0);
    }
}
