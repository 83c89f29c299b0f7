//! Numbers as a person reads them: three digits, a prefix, a unit.

pub use twinpath_core::counted::{counted, grouped as count};

/// Prefixes in steps of a thousand.
const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
const SECOND_NS: u64 = 1_000_000_000;

/// A number in three digits: `12.3 M`; below a thousand as it is.
pub fn short_count(value: u64) -> String {
    scaled(value as f64, "")
}

/// Packets per second: `12.3 Mpps`.
pub fn packet_rate(packets_per_second: f64) -> String {
    scaled(packets_per_second, "pps")
}

/// Bits per second: `9.87 Gbps`.
pub fn bit_rate(bits_per_second: f64) -> String {
    scaled(bits_per_second, "bps")
}

/// Bytes, in powers of a thousand: `9.87 GB`.
pub fn bytes(value: u64) -> String {
    scaled(value as f64, "B")
}

/// A span of time: `41 ns`, `1.20 µs`, `3.40 s`, `2 min 5 s`, `3 h 20 min`.
pub fn duration(value_ns: u64) -> String {
    let seconds = value_ns / SECOND_NS;
    if seconds >= 7200 {
        return format!("{} h {} min", count(seconds / 3600), seconds % 3600 / 60);
    }
    if seconds >= 120 {
        return format!("{} min {} s", seconds / 60, seconds % 60);
    }
    let units = ["ns", "µs", "ms", "s"];
    let (number, step) = three_digits(value_ns as f64, units.len() - 1);
    format!("{number} {}", units[step])
}

/// A share of one as a percentage: `84.1 %`. What is not quite nothing or not
/// quite everything never reads as `0.0 %` or `100.0 %`.
pub fn percent(fraction: f64) -> String {
    let value = fraction * 100.0;
    match value {
        v if !v.is_finite() => "n/a".to_owned(),
        v if v > 0.0 && v < 0.05 => "< 0.1 %".to_owned(),
        v if (99.95..100.0).contains(&v) => "> 99.9 %".to_owned(),
        v => format!("{v:.1} %"),
    }
}

/// `part` of `whole` as a fraction; 0 when there is no whole.
pub fn fraction(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

fn scaled(value: f64, unit: &str) -> String {
    if !value.is_finite() {
        return "n/a".to_owned();
    }
    let (number, step) = three_digits(value, PREFIXES.len() - 1);
    format!("{number} {}{unit}", PREFIXES[step])
        .trim_end()
        .to_owned()
}

/// The value divided by a thousand until it has three digits before the point,
/// and how often that was. Rounding never leaves `1000 k`.
fn three_digits(value: f64, max_step: usize) -> (String, usize) {
    let (mut rest, mut step) = (value, 0);
    while rest.abs() >= 999.5 && step < max_step {
        rest /= 1000.0;
        step += 1;
    }
    let decimals = match rest.abs() {
        r if step == 0 && r.fract() == 0.0 => 0,
        r if r < 9.995 => 2,
        r if r < 99.95 => 1,
        _ => 0,
    };
    (format!("{rest:.decimals$}"), step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped() {
        let texts: Vec<_> = [0, 12, 999, 1000, 1_234_567].map(count).into();
        assert_eq!(texts, ["0", "12", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn rates_have_three_digits() {
        assert_eq!(packet_rate(12_345_678.0), "12.3 Mpps");
        assert_eq!(packet_rate(7.0), "7 pps");
        assert_eq!(packet_rate(7.25), "7.25 pps");
        assert_eq!(bit_rate(9.871e9), "9.87 Gbps");
        assert_eq!(bytes(1_500), "1.50 kB");
        assert_eq!(short_count(999_999), "1.00 M");
        assert_eq!(short_count(99_960), "100 k");
        assert_eq!(short_count(42), "42");
        assert_eq!(packet_rate(f64::NAN), "n/a");
    }

    #[test]
    fn durations_change_unit() {
        let texts: Vec<_> = [0, 41, 1_200, 999_999, 3_400_000_000].map(duration).into();
        assert_eq!(texts, ["0 ns", "41 ns", "1.20 µs", "1.00 ms", "3.40 s"]);
        assert_eq!(duration(125 * SECOND_NS), "2 min 5 s");
        assert_eq!(duration(12_000 * SECOND_NS), "3 h 20 min");
        assert_eq!(duration(u64::MAX), "5,124,095 h 34 min");
    }

    #[test]
    fn percentages_do_not_round_to_all_or_nothing() {
        assert_eq!(percent(0.0), "0.0 %");
        assert_eq!(percent(0.8412), "84.1 %");
        assert_eq!(percent(0.0001), "< 0.1 %");
        assert_eq!(percent(0.9999), "> 99.9 %");
        assert_eq!(percent(1.0), "100.0 %");
        assert_eq!(percent(f64::INFINITY), "n/a");
        assert_eq!(fraction(1, 0), 0.0);
    }
}
