//! How long frames are, and how much a flow carries.

use crate::cdf::Cdf;
use crate::config::{FlowSize, MixEntry, PacketSize, SizeUnit};
use crate::error::TrafficError;
use crate::random::RandomSource;

/// Draws frame lengths in bytes.
#[derive(Debug, Clone)]
pub(crate) enum FrameSizes {
    Fixed(u16),
    Mix(Mix),
    Cdf(Cdf),
}

impl FrameSizes {
    pub(crate) fn new(sizes: &PacketSize) -> Result<Self, TrafficError> {
        Ok(match sizes {
            PacketSize::Fixed { frame_bytes } => Self::Fixed(*frame_bytes),
            PacketSize::Imix {} => Self::Mix(Mix::new(&IMIX)),
            PacketSize::Mix { entries } => Self::Mix(Mix::new(entries)),
            PacketSize::Cdf { file, partial } => {
                Self::Cdf(Cdf::read(file, SizeUnit::Bytes, *partial)?)
            }
        })
    }

    pub(crate) fn draw(&self, random: &mut impl RandomSource) -> u16 {
        match self {
            Self::Fixed(frame_bytes) => *frame_bytes,
            Self::Mix(mix) => mix.draw(random),
            Self::Cdf(cdf) => u16::try_from(cdf.sample(random)).unwrap_or(u16::MAX),
        }
    }
}

const IMIX: [MixEntry; 3] = [
    MixEntry {
        frame_bytes: 64,
        weight: 7,
    },
    MixEntry {
        frame_bytes: 594,
        weight: 4,
    },
    MixEntry {
        frame_bytes: 1514,
        weight: 1,
    },
];

/// A weighted list, each entry with the sum of the weights up to it.
#[derive(Debug, Clone)]
pub(crate) struct Mix {
    entries: Vec<(u64, u16)>,
    total: u64,
}

impl Mix {
    fn new(entries: &[MixEntry]) -> Self {
        let mut total = 0;
        let entries = entries
            .iter()
            .map(|entry| {
                total += u64::from(entry.weight);
                (total, entry.frame_bytes)
            })
            .collect();
        Self { entries, total }
    }

    fn draw(&self, random: &mut impl RandomSource) -> u16 {
        let point = random.below(self.total);
        let index = self.entries.partition_point(|(sum, _)| *sum <= point);
        self.entries
            .get(index)
            .map_or(0, |(_, frame_bytes)| *frame_bytes)
    }
}

/// Draws how much a flow carries, and counts it down.
#[derive(Debug, Clone)]
pub(crate) struct FlowSizes {
    unit: SizeUnit,
    sizes: Sizes,
}

#[derive(Debug, Clone)]
enum Sizes {
    Endless,
    Fixed(u64),
    Cdf(Cdf),
}

/// What is left of a flow that only churn ends.
const ENDLESS: u64 = u64::MAX;

impl FlowSizes {
    pub(crate) fn new(flow_size: &FlowSize) -> Result<Self, TrafficError> {
        Ok(match flow_size {
            FlowSize::Endless {} => Self {
                unit: SizeUnit::Packets,
                sizes: Sizes::Endless,
            },
            FlowSize::Fixed { size, unit } => Self {
                unit: *unit,
                sizes: Sizes::Fixed(*size),
            },
            FlowSize::Cdf {
                file,
                unit,
                between,
                partial,
            } => {
                let cdf = Cdf::read(file, *unit, *partial)?.with(*between);
                Self {
                    unit: *unit,
                    sizes: Sizes::Cdf(cdf),
                }
            }
        })
    }

    /// The size of a new flow, in this table's unit.
    pub(crate) fn draw(&self, random: &mut impl RandomSource) -> u64 {
        match &self.sizes {
            Sizes::Endless => ENDLESS,
            Sizes::Fixed(size) => *size,
            Sizes::Cdf(cdf) => cdf.sample(random),
        }
    }

    /// Takes a packet of up to `payload_bytes` off what `remaining` says is
    /// left of a flow, and answers how long the packet can be.
    pub(crate) fn take(&self, remaining: &mut u64, payload_bytes: u16) -> u16 {
        if *remaining == ENDLESS {
            return payload_bytes;
        }
        if self.unit == SizeUnit::Packets {
            *remaining = remaining.saturating_sub(1);
            return payload_bytes;
        }
        let taken = u16::try_from(*remaining)
            .unwrap_or(u16::MAX)
            .min(payload_bytes);
        *remaining -= u64::from(taken);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use twinpath_captures::shared;

    #[test]
    fn imix_has_its_weights() {
        let sizes = FrameSizes::new(&PacketSize::Imix {}).unwrap();
        let mut random = Random::stream(41, 0);
        let mut counts = [0u32; 3];
        for _ in 0..120_000 {
            let frame_bytes = sizes.draw(&mut random);
            let index = IMIX
                .iter()
                .position(|entry| entry.frame_bytes == frame_bytes)
                .unwrap();
            counts[index] += 1;
        }
        for (count, expected) in counts.iter().zip([70_000u32, 40_000, 10_000]) {
            assert!(count.abs_diff(expected) < 1_000, "{counts:?}");
        }
    }

    #[test]
    fn bytes_run_out_with_a_short_last_packet() {
        let sizes = FlowSizes::new(&FlowSize::Fixed {
            size: 250,
            unit: SizeUnit::Bytes,
        })
        .unwrap();
        let mut remaining = sizes.draw(&mut Random::stream(1, 0));
        let taken: Vec<u16> = (0..3).map(|_| sizes.take(&mut remaining, 100)).collect();
        assert_eq!((taken, remaining), (vec![100, 100, 50], 0));
    }

    #[test]
    fn packets_run_out_whatever_their_length() {
        let fixed = FlowSize::Fixed {
            size: 2,
            unit: SizeUnit::Packets,
        };
        let sizes = FlowSizes::new(&fixed).unwrap();
        let mut remaining = sizes.draw(&mut Random::stream(1, 0));
        assert_eq!(sizes.take(&mut remaining, 1000), 1000);
        assert_eq!((sizes.take(&mut remaining, 7), remaining), (7, 0));
    }

    #[test]
    fn endless_flows_never_run_out() {
        let sizes = FlowSizes::new(&FlowSize::Endless {}).unwrap();
        let mut remaining = sizes.draw(&mut Random::stream(1, 0));
        assert_eq!((sizes.take(&mut remaining, 9), remaining), (9, u64::MAX));
    }

    #[test]
    fn packet_lengths_come_from_a_file_too() {
        let Some(folder) = shared("cdf") else {
            return;
        };
        let file = folder.join("hpcc_GoogleRPC2008_subset.txt");
        let sizes = FrameSizes::new(&PacketSize::Cdf {
            file,
            partial: false,
        })
        .unwrap();
        let mut random = Random::stream(42, 0);
        let short = (0..100_000)
            .filter(|_| sizes.draw(&mut random) <= 256)
            .count();
        assert!((49_000..50_600).contains(&short), "{short}");
    }
}
