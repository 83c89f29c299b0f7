//! How many packets each rule decided about.

use super::rule::Rule;

/// Packets that rules decided about on one worker: those that opened a connection or were denied. What
/// belongs to a connection that is known is not asked of rules.
#[derive(Debug)]
pub(super) struct Decided {
    /// As they are written, in order.
    rules: Box<[Rule]>,
    packets: Box<[u64]>,
    pub by_default: u64,
}

impl Decided {
    /// No packet so far.
    pub fn new(rules: &[Rule]) -> Self {
        Self {
            rules: rules.into(),
            packets: vec![0; rules.len()].into(),
            by_default: 0,
        }
    }

    /// One more.
    pub fn count(&mut self, place: u32) {
        if let Some(packets) = self.packets.get_mut(place as usize) {
            *packets = packets.saturating_add(1);
        }
    }

    /// Packets of the rule at a place, counted from 0, or of the default behind the last.
    pub fn packets(&self, place: usize) -> u64 {
        self.packets.get(place).copied().unwrap_or(self.by_default)
    }

    /// Rules that were there before go on with what they had: those in front of the first that differs,
    /// and those behind the last. The default does in any case.
    pub fn take_over(&mut self, before: &Self) {
        let all = before.rules.len().min(self.rules.len());
        let front = self.rules.iter().zip(&before.rules);
        let front = front.take_while(|(new, old)| new == old).count();
        let back = self.rules.iter().rev().zip(before.rules.iter().rev());
        let back = back.take_while(|(new, old)| new == old).count();
        let back = back.min(all - front);
        self.packets[..front].copy_from_slice(&before.packets[..front]);
        let (new, old) = (self.packets.len() - back, before.packets.len() - back);
        self.packets[new..].copy_from_slice(&before.packets[old..]);
        self.by_default = before.by_default;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(ports: &[u16]) -> Vec<Rule> {
        let text = |port: &u16| format!("action = \"allow\"\nprotocol = \"tcp\"\nto_port = {port}");
        let rule = |port| toml::from_str(&text(port)).expect("a rule");
        ports.iter().map(rule).collect()
    }

    #[test]
    fn rules_keep_their_counts_through_changes_elsewhere() {
        for (ports, expected) in [
            (vec![1, 2, 3], vec![1, 2, 3]),
            (vec![1, 9, 2, 3], vec![1, 0, 2, 3]),
            (vec![1, 3], vec![1, 3]),
            (vec![9, 2, 8], vec![0, 0, 0]),
            (vec![1, 2, 3, 3], vec![1, 2, 3, 0]),
            (vec![], vec![]),
        ] {
            let mut before = Decided::new(&rules(&[1, 2, 3]));
            for place in 0..3 {
                (0..=place).for_each(|_| before.count(place));
            }
            before.by_default = 7;
            let mut after = Decided::new(&rules(&ports));
            after.take_over(&before);
            let counts: Vec<u64> = (0..ports.len()).map(|place| after.packets(place)).collect();
            assert_eq!(counts, expected, "{ports:?}");
            assert_eq!(after.packets(ports.len()), 7);
        }
    }
}
