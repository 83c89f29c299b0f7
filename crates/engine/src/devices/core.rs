//! Cores: service times, and a queue for each.

use super::{Lost, Server, Through};
use crate::time::Time;
use twinpath_traffic::random::{Random, RandomSource};

/// How long one packet takes a core.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Service {
    /// Always the same.
    Constant(Time),
    /// Exponentially distributed, with this mean.
    Exponential(Time),
    /// A constant part and one for each byte.
    PerByte {
        /// The constant part.
        base: Time,
        /// For each byte.
        byte: Time,
    },
}

impl Service {
    /// The time for a packet of so many bytes.
    pub fn draw(self, bytes: u32, random: &mut Random) -> Time {
        match self {
            Self::Constant(time) => time,
            Self::Exponential(mean) => Time(random.exponential(mean.0 as f64) as u64),
            Self::PerByte { base, byte } => base + Time(byte.0 * u64::from(bytes)),
        }
    }
}

/// Some cores of one kind; flows are spread over them by their hash.
#[derive(Clone, Debug)]
pub struct Cores {
    cores: Vec<Server>,
    service: Service,
    longest_wait: Time,
    random: Random,
    served: u64,
    lost: u64,
}

impl Cores {
    /// So many cores. A packet that would wait longer than `longest_wait` is dropped: that is a
    /// queue's limit in time, which is what it is in packets where packets take the same.
    pub fn new(count: usize, service: Service, longest_wait: Time, random: Random) -> Self {
        Self {
            cores: vec![Server::default(); count.max(1)],
            service,
            longest_wait,
            random,
            served: 0,
            lost: 0,
        }
    }

    /// When the core of this flow is done with a packet that arrives now.
    ///
    /// # Errors
    /// Its queue is full.
    pub fn process(&mut self, now: Time, flow_hash: u64, bytes: u32) -> Through {
        let index = (u128::from(flow_hash) * self.cores.len() as u128) >> 64;
        let core = self.cores.get_mut(index as usize).ok_or(Lost::NoPort)?;
        if core.wait(now) > self.longest_wait {
            self.lost += 1;
            return Err(Lost::QueueFull);
        }
        self.served += 1;
        Ok(core.serve(now, self.service.draw(bytes, &mut self.random)))
    }

    /// Packets processed.
    pub fn served(&self) -> u64 {
        self.served
    }

    /// Packets dropped.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The share of the time up to `now` that the cores were busy, of one.
    pub fn utilisation(&self, now: Time) -> f64 {
        let busy: f64 = self.cores.iter().map(|core| core.busy().s_f64()).sum();
        busy / (now.s_f64() * self.cores.len() as f64).max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_have_their_core_and_its_queue() {
        let service = Service::PerByte {
            base: Time(100),
            byte: Time(2),
        };
        let random = Random::stream(1, 0);
        let mut cores = Cores::new(2, service, Time(250), random);
        assert_eq!(cores.process(Time(0), 0, 50), Ok(Time(200)));
        assert_eq!(cores.process(Time(0), u64::MAX, 50), Ok(Time(200)));
        assert_eq!(cores.process(Time(0), 0, 50), Ok(Time(400)));
        assert_eq!(cores.process(Time(0), 0, 50), Err(Lost::QueueFull));
        assert_eq!((cores.served(), cores.lost()), (3, 1));
        assert_eq!(cores.utilisation(Time(600)), 0.5);
    }
}
