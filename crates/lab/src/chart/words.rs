//! What names of parameters and columns are in words, with their units, and how long lines are broken.

/// Last parts of names, and the units that they stand for.
const UNITS: [(&str, &str); 20] = [
    ("_m_per_s", "millions a second"),
    ("_per_minute", "a minute"),
    ("_per_s", "a second"),
    ("_gbps", "Gb/s"),
    ("_mpps", "millions a second"),
    ("_percent", "%"),
    ("_bytes", "bytes"),
    ("_packets", "packets"),
    ("_cycles", "cycles"),
    ("_us", "us"),
    ("_ms", "ms"),
    ("_ns", "ns"),
    ("_kb", "kB"),
    ("_mb", "MB"),
    ("_m", "millions"),
    ("_bits", "bits"),
    ("_ports", "ports"),
    ("_share", "share"),
    ("_s", "s"),
    ("_w", "W"),
];

/// Parts of names that are written otherwise.
const WRITTEN: [(&str, &str); 19] = [
    ("p99", "99th percentile"),
    ("p50", "median"),
    ("max", "maximum"),
    ("min", "minimum"),
    ("rx", "received"),
    ("tx", "sent"),
    ("nf", "function"),
    ("kv", "key-value"),
    ("churn", "new flows"),
    ("gbps", "rate"),
    ("dpus", "DPUs"),
    ("enis", "ENIs"),
    ("acl", "ACL"),
    ("alu", "ALU"),
    ("rdma", "RDMA"),
    ("sram", "SRAM"),
    ("tcam", "TCAM"),
    ("sfcache", "SFCache"),
    ("p4sfc", "P4SFC"),
];

/// Names that are a unit and nothing else, in words.
const BARE: [(&str, &str, &str); 1] = [("gbps_per_w", "throughput", "Gb/s per W")];

/// A name in words, without the unit that it ends with, and that unit.
pub(crate) fn words(name: &str) -> (String, Option<&'static str>) {
    if let Some((_, words, unit)) = BARE.iter().find(|(bare, ..)| *bare == name) {
        return ((*words).to_owned(), Some(unit));
    }
    let ending = UNITS.iter().find(|(ending, _)| name.ends_with(ending));
    let (stem, unit) = match ending {
        Some((ending, unit)) => (&name[..name.len() - ending.len()], Some(*unit)),
        None => (name, None),
    };
    let word = |part: &str| {
        let written = WRITTEN.iter().find(|(short, _)| *short == part);
        written.map_or(part, |(_, long)| long).to_owned()
    };
    let words: Vec<String> = stem.split(['_', '.']).map(word).collect();
    (words.join(" "), unit)
}

/// What stands beside an axis.
pub(crate) fn axis(words: &str, unit: Option<&str>) -> String {
    match unit.filter(|unit| !unit.is_empty()) {
        Some(unit) if words.is_empty() => unit.to_owned(),
        Some(unit) => format!("{words}, {unit}"),
        None => words.to_owned(),
    }
}

/// A text in lines of at most so many letters; a word that is longer is a line of its own.
pub(crate) fn wrapped(text: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= letters => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_with_their_units() {
        for (name, expected) in [
            ("input_gbps", "input, Gb/s"),
            ("latency_p99_us", "latency 99th percentile, us"),
            ("complex_share", "complex, share"),
            ("entries_per_s", "entries, a second"),
            ("agent.entries_per_s", "agent entries, a second"),
            ("churn_per_minute", "new flows, a minute"),
            ("gbps_per_w", "throughput, Gb/s per W"),
            ("connections_m_per_s", "connections, millions a second"),
            ("policy_mb", "policy, MB"),
            ("nf_bits", "function, bits"),
            ("queue_max_kb", "queue maximum, kB"),
            ("dpus", "DPUs"),
            ("flows", "flows"),
            ("gap_cycles", "gap, cycles"),
        ] {
            let (words, unit) = words(name);
            assert_eq!(axis(&words, unit), expected);
        }
    }

    #[test]
    fn lines_are_as_long_as_they_may_be() {
        assert_eq!(
            wrapped("paper: 64.6 % with all", 10),
            ["paper:", "64.6 %", "with all"]
        );
        assert_eq!(wrapped("a-very-long-word b", 5), ["a-very-long-word", "b"]);
        assert_eq!(wrapped("", 5), Vec::<String>::new());
    }
}
