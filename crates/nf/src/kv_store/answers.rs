//! Requests that the fast path answers alone.

use twinpath_core::wire::{dissect, fields};
use twinpath_wire::kv::{KvOp, KvStatus, KvView};

/// Counts them by the answers that leave. The store's own counters are those of the slow path, which
/// hears nothing of these requests.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    gets: u64,
    hits: u64,
    puts: u64,
    deletes: u64,
}

impl Answers {
    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Self) {
        self.gets += other.gets;
        self.hits += other.hits;
        self.puts += other.puts;
        self.deletes += other.deletes;
    }

    /// A frame leaves as an answer.
    pub fn count(&mut self, frame: &[u8]) {
        let Ok(layout) = dissect(frame) else { return };
        let Ok(answer) = KvView::new(fields::payload(frame, &layout)) else {
            return;
        };
        match answer.op() {
            KvOp::Get => {
                self.gets += 1;
                self.hits += u64::from(answer.status() == KvStatus::Ok);
            }
            KvOp::Put => self.puts += 1,
            KvOp::Delete => self.deletes += 1,
        }
    }

    /// Each count, by the name of the store's own counter of the same.
    pub fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("gets", self.gets);
        each("hits", self.hits);
        each("puts", self.puts);
        each("deletes", self.deletes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::wire::PacketBuilder;
    use twinpath_wire::kv::KvRepr;

    fn answer(op: KvOp, status: KvStatus, value: &[u8]) -> Vec<u8> {
        let reply = KvRepr::request(op, 7, [1; 16], &[]).answered(status, value);
        let mut payload = [0; 256];
        let len = reply.emit(&mut payload).expect("fits");
        let ends = ["10.0.0.1:19286", "10.0.0.2:5000"].map(|end| end.parse().expect("an end"));
        let packet = PacketBuilder::udp(ends[0], ends[1]).payload(&payload[..len]);
        packet.to_vec().expect("fits")
    }

    #[test]
    fn answers_are_counted_by_what_they_answer() {
        let mut answers = Answers::default();
        for (op, status, value) in [
            (KvOp::Get, KvStatus::Ok, &b"value"[..]),
            (KvOp::Get, KvStatus::NotFound, b""),
            (KvOp::Put, KvStatus::Ok, b""),
            (KvOp::Delete, KvStatus::Ok, b""),
        ] {
            answers.count(&answer(op, status, value));
        }
        answers.count(b"no packet");
        let mut counted = Vec::new();
        answers.counters(&mut |name, count| counted.push((name, count)));
        assert_eq!(
            counted,
            [("gets", 2), ("hits", 1), ("puts", 1), ("deletes", 1)]
        );
    }
}
