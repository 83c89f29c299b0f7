//! Things that are counted, as people read them.

/// A count and what is counted, in the singular if it is one: `1 packet`, `2 packets`, `1,000 packets`. The
/// name is the singular's, and the plural ends in `s`; `-y` behind a consonant becomes `-ies`, and what ends
/// in `s` or `x` gets `-es`.
///
/// ```
/// use twinpath_core::counted;
/// assert_eq!(counted(1, "packet"), "1 packet");
/// assert_eq!(counted(12_000, "entry"), "12,000 entries");
/// ```
pub fn counted(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{} {}", grouped(count), plural(what)),
    }
}

fn plural(what: &str) -> String {
    let ends_in = |endings: &[&str]| endings.iter().any(|ending| what.ends_with(ending));
    match what.strip_suffix('y') {
        Some(stem) if !ends_in(&["ay", "ey", "oy", "uy"]) => format!("{stem}ies"),
        _ if ends_in(&["s", "x", "ch", "sh"]) => format!("{what}es"),
        _ => format!("{what}s"),
    }
}

/// A whole number with thousands set apart: `1,234,567`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_told_in_the_singular() {
        for (count, what, told) in [
            (0, "packet", "0 packets"),
            (1, "packet", "1 packet"),
            (2, "copy", "2 copies"),
            (2, "way", "2 ways"),
            (2, "address", "2 addresses"),
            (2, "index", "2 indexes"),
            (1_234_567, "rule", "1,234,567 rules"),
            (100, "ENI", "100 ENIs"),
        ] {
            assert_eq!(counted(count, what), told);
        }
    }
}
