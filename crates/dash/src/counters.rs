//! What is counted, for each ENI.

use crate::headers::Direction;
use crate::reason::Reason;

/// Most metering classes that an ENI's bytes are counted for, as in SONiC; one of them is
/// [`OTHER_CLASSES`] if there are more.
pub const MAX_METER_CLASSES: usize = 4095;
/// Stands for all classes that come when there is no room for them; flows that are not metered have none.
pub const OTHER_CLASSES: u32 = 0;

/// Packets and bytes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes of inner frames, with their Ethernet headers.
    pub bytes: u64,
}

impl Count {
    #[inline]
    fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

/// Dropped packets, by reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drops([u64; Reason::COUNT]);

impl Default for Drops {
    fn default() -> Self {
        Self([0; Reason::COUNT])
    }
}

impl Drops {
    /// One more.
    pub fn count(&mut self, reason: Reason) {
        self.0[reason as usize] += 1;
    }

    /// How many for a reason.
    #[must_use]
    pub const fn of(&self, reason: Reason) -> u64 {
        self.0[reason as usize]
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Reasons that occurred, with their counts.
    pub fn nonzero(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        let all = Reason::ALL.iter().copied().zip(self.0);
        all.filter(|&(_, count)| count > 0)
    }
}

/// What is counted of an ENI's packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EniCounters {
    /// Came, by direction: outbound first.
    pub received: [Count; 2],
    /// Left, by direction.
    pub sent: [Count; 2],
    /// Packets of known flows.
    pub flow_hits: u64,
    /// Packets of none.
    pub flow_misses: u64,
    /// Flows that were opened.
    pub flows_created: u64,
    /// Flows that policies no longer allow.
    pub flows_removed: u64,
    /// Flows whose connections ended with a RST or the FINs of both ends. They stay a while for what is
    /// under way, and are counted nowhere else when they are gone.
    pub flows_closed: u64,
    /// Flows that ended by time alone.
    pub flows_aged: u64,
    /// Flows that were judged anew after a change of policy.
    pub flows_resimulated: u64,
    /// Redirects of load balancers that came.
    pub redirects: u64,
    /// Flows that they moved.
    pub flows_redirected: u64,
    /// Those that were about no flow.
    pub redirects_of_none: u64,
    /// Packets that did not wait for what policies say about another of their flow: so many of the ENI's
    /// wait already as may. They are dropped by who holds packets.
    pub not_held: u64,
    /// Dropped packets.
    pub drops: Drops,
    /// Bytes by metering class.
    pub meters: Meters,
}

impl EniCounters {
    #[inline]
    pub(crate) fn receive(&mut self, direction: Direction, bytes: usize) {
        self.received[direction as usize].add(bytes);
    }

    #[inline]
    pub(crate) fn send(&mut self, direction: Direction, bytes: usize) {
        self.sent[direction as usize].add(bytes);
    }
}

/// Bytes by metering class and direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meters {
    /// Numbers by class, in order.
    numbers: Vec<(u32, u16)>,
    /// A class and its bytes, outbound first.
    buckets: Vec<(u32, [u64; 2])>,
}

impl Meters {
    /// The number of a class, from 1; 0 for none. All that are more than there may be have the last one.
    pub(crate) fn number(&mut self, class: u32) -> u16 {
        if class == 0 {
            return 0;
        }
        match self.place(class) {
            Ok(place) => self.numbers[place].1,
            Err(_) if self.buckets.len() >= MAX_METER_CLASSES - 1 => self.number_of_others(),
            Err(place) => {
                self.buckets.push((class, [0; 2]));
                let number = self.buckets.len() as u16;
                self.numbers.insert(place, (class, number));
                number
            }
        }
    }

    fn number_of_others(&mut self) -> u16 {
        if self.buckets.len() < MAX_METER_CLASSES {
            self.buckets.push((OTHER_CLASSES, [0; 2]));
        }
        MAX_METER_CLASSES as u16
    }

    /// Where a class is among the numbers, or would be.
    fn place(&self, class: u32) -> Result<usize, usize> {
        self.numbers
            .binary_search_by_key(&class, |(class, _)| *class)
    }

    #[inline]
    pub(crate) fn count(&mut self, number: u16, direction: Direction, bytes: usize) {
        if let Some((_, counts)) = self.buckets.get_mut(usize::from(number).wrapping_sub(1)) {
            counts[direction as usize] += bytes as u64;
        }
    }

    /// The bytes of a class, outbound and inbound.
    #[must_use]
    pub fn of(&self, class: u32) -> [u64; 2] {
        let number = self.place(class).ok().map(|place| self.numbers[place].1);
        let bucket = number.and_then(|number| self.buckets.get(usize::from(number) - 1));
        bucket.map_or([0; 2], |(_, bytes)| *bytes)
    }

    /// Classes and their bytes, outbound and inbound.
    pub fn iter(&self) -> impl Iterator<Item = (u32, [u64; 2])> + '_ {
        self.buckets.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_a_bound() {
        let mut meters = Meters::default();
        assert_eq!(meters.number(0), 0);
        for class in 1..MAX_METER_CLASSES as u32 {
            assert_eq!(usize::from(meters.number(class * 3)), class as usize);
        }
        for other in [1, 2, 1 << 31] {
            assert_eq!(usize::from(meters.number(other)), MAX_METER_CLASSES);
        }
        assert_eq!(meters.number(3), 1);
        meters.count(1, Direction::Inbound, 80);
        meters.count(MAX_METER_CLASSES as u16, Direction::Outbound, 90);
        meters.count(0, Direction::Inbound, 80);
        assert_eq!(meters.of(3), [0, 80]);
        assert_eq!(meters.iter().last(), Some((OTHER_CLASSES, [90, 0])));
        assert_eq!(meters.iter().count(), MAX_METER_CLASSES);
        assert_eq!(meters.of(1), [0, 0]);
    }
}
