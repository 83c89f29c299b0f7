//! Which IP versions met, outside and inside of tunnels.

use super::interpreter::Packet;

/// Packets by the IP versions of their outer and inner headers.
#[derive(Copy, Clone, Debug, Default)]
pub struct ByVersions([[u64; 2]; 2]);

impl ByVersions {
    /// Counts a packet as it came, so many times.
    pub fn count(&mut self, packet: &Packet, times: u64) {
        let [outer, inner] = [packet.outer_source, packet.overlay.source].map(|end| end.is_v4());
        self.0[usize::from(outer)][usize::from(inner)] += times;
    }

    pub fn add(&mut self, other: &Self) {
        let all = self.0.iter_mut().flatten();
        all.zip(other.all()).for_each(|(all, count)| *all += count);
    }

    /// The four counts, always in the same order.
    pub fn all(&self) -> impl Iterator<Item = u64> {
        self.0.into_iter().flatten()
    }

    /// The count of the versions that met least often.
    pub fn least(&self) -> u64 {
        self.all().min().unwrap_or(0)
    }
}
