//! What somebody may have meant who wrote something else.

/// The most similar of known names, if one is similar enough to be what was meant.
pub fn similar<'n>(written: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    const LEAST: f64 = 0.6;
    const SHORTEST: usize = 3;
    let written = written.to_lowercase();
    let likeness = |name: &str| {
        let name = name.to_lowercase();
        let likeness = strsim::normalized_damerau_levenshtein(&written, &name);
        // Somebody may have cut it short.
        match written.len() >= SHORTEST && name.starts_with(&written) {
            true => likeness.max(LEAST),
            false => likeness,
        }
    };
    let known = known.into_iter().map(|name| (likeness(name), name));
    let best = known.filter(|(likeness, _)| *likeness >= LEAST);
    best.max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name)
}

/// The same as the end of a message; nothing if nothing is similar.
pub fn did_you_mean<'n>(written: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    let meant = similar(written, known);
    meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let known = ["acl", "firewall", "load_balancer", "router"];
        for (written, meant) in [
            ("firewal", Some("firewall")),
            ("load-balancer", Some("load_balancer")),
            ("Router", Some("router")),
            ("rotuer", Some("router")),
            ("fire", Some("firewall")),
            ("nat46", None),
            ("", None),
        ] {
            assert_eq!(similar(written, known), meant, "{written}");
        }
        assert_eq!(did_you_mean("rooter", known), "; did you mean router?");
        assert_eq!(did_you_mean("rooter", []), "");
    }
}
