//! Who was told what.

/// The values that the packets of each flow were told.
#[derive(Debug)]
pub(crate) struct ReadValues {
    /// For each flow, values with the packets' numbers.
    flows: Vec<Vec<(u64, u64)>>,
    count: u64,
}

impl ReadValues {
    pub(crate) fn new(flows: u32) -> Self {
        Self {
            flows: vec![Vec::new(); flows as usize],
            count: 0,
        }
    }

    pub(crate) fn tell(&mut self, flow: u32, number: u64, value: u64) {
        self.flows[flow as usize].push((value, number));
        self.count += 1;
    }

    /// How many packets have been told something.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Values told twice, and packets that came after one with a higher value.
    pub(crate) fn violations(mut self) -> (u64, u64) {
        let (mut doubled, mut overtaken) = (0, 0);
        for told in &mut self.flows {
            told.sort_unstable();
            doubled += told
                .windows(2)
                .filter(|pair| pair[0].0 == pair[1].0)
                .count();
            let mut first_after = u64::MAX;
            for (_, number) in told.iter().rev() {
                overtaken += usize::from(*number > first_after);
                first_after = first_after.min(*number);
            }
        }
        (doubled as u64, overtaken as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(told: &[(u64, u64)]) -> (u64, u64) {
        let mut all = ReadValues::new(1);
        told.iter()
            .for_each(|(value, number)| all.tell(0, *number, *value));
        all.violations()
    }

    #[test]
    fn what_should_be_and_what_should_not() {
        assert_eq!(violations(&[(1, 10), (2, 11), (3, 12)]), (0, 0));
        assert_eq!(violations(&[(1, 10), (2, 11), (2, 12)]), (1, 0));
        // Two packets went past packet 10.
        assert_eq!(violations(&[(1, 11), (2, 12), (3, 10)]), (0, 2));
    }
}
