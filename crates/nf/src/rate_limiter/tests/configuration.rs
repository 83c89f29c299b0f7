use super::config;
use crate::rate_limiter::Config;
use crate::rate_limiter::config::RawConfig;
use crate::rate_limiter::meter::Rate;
use crate::rate_limiter::program::program;
use twinpath_fastpath::Budget;

#[test]
fn bursts_follow_from_rates() {
    let cases = [
        ("rate_bps = 8000", 65_536),
        ("rate_bps = 1_000_000_000", 1_250_000),
        ("rate_bps = 8000\nburst_bytes = 1500", 1500),
    ];
    for (text, burst) in cases {
        let rate = config(text).rate;
        assert!(
            matches!(rate, Rate::Bits { burst_bytes, .. } if burst_bytes == burst),
            "{rate:?}"
        );
    }
    let packets = config("rate_pps = 100_000").rate;
    let expected = Rate::Packets {
        per_second: 100_000,
        burst: 1000,
    };
    assert_eq!(packets, expected);
}

#[test]
fn what_is_wrong_is_told_at_its_key() {
    let cases = [
        ("", "rate_bps", "expected one of rate_bps and rate_pps"),
        (
            "rate_bps = 5000\nrate_pps = 5",
            "rate_pps",
            "expected one of rate_bps and rate_pps",
        ),
        (
            "rate_bps = 999",
            "rate_bps",
            "rate_bps = 999: expected 1000 to 100000000000",
        ),
        (
            "rate_pps = 0",
            "rate_pps",
            "rate_pps = 0: expected 1 to 100000000",
        ),
        (
            "rate_pps = 5\nburst_bytes = 99",
            "burst_bytes",
            "burst_bytes goes with rate_bps",
        ),
        (
            "rate_bps = 5000\nburst_packets = 9",
            "burst_packets",
            "burst_packets goes with rate_pps",
        ),
        (
            "rate_bps = 5000\nburst_bytes = 63",
            "burst_bytes",
            "burst_bytes = 63: expected 64",
        ),
        (
            "rate_pps = 5\nlongest_delay = \"11s\"",
            "longest_delay",
            "more than 0, up to 10s",
        ),
        (
            "rate_pps = 5\nmost_packets = -1",
            "most_packets",
            "most_packets = -1: expected 1 to",
        ),
        (
            "rate_bps = 1000",
            "idle_timeout",
            "idle_timeout = \"5m\": expected more than the 1048.643108864s",
        ),
    ];
    for (text, key, message) in cases {
        let raw = toml::from_str::<RawConfig>(text).expect(text);
        let error = Config::try_from(raw).expect_err(text);
        assert_eq!(error.key, key, "{text}");
        assert!(error.to_string().contains(message), "{text}: {error}");
    }
}

/// The least time-out that is taken is the one that is told to be missing.
#[test]
fn an_idle_timeout_that_is_longer_than_told_is_taken() {
    for (timeout, is_taken) in [("1048643ms", false), ("1048644ms", true)] {
        let text = format!("rate_bps = 1000\nidle_timeout = \"{timeout}\"");
        let raw = toml::from_str::<RawConfig>(&text).expect("sound");
        assert_eq!(Config::try_from(raw).is_ok(), is_taken, "{timeout}");
    }
}

/// A switch has no product, so it limits packets and not bytes.
#[test]
fn a_switch_asic_limits_packets() {
    for (text, fits) in [("rate_pps = 1000", true), ("rate_bps = 10_000_000", false)] {
        let config = config(text);
        let placed = Budget::asic().place(&[program(&config, &config.meter())], 32_768);
        assert_eq!(placed.is_ok(), fits, "{placed:?}");
    }
}
