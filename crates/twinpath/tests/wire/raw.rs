//! Frames that are put on a cable as they are.

use std::time::{Duration, Instant};
use twinpath_core::Pools;
use twinpath_ports::{Driver, Port, PortConfig};

/// Takes the frames that arrive at an interface of the host that the thread is on.
pub struct Listener {
    port: Port,
    pools: Pools,
}

impl Listener {
    pub fn open(device: &str) -> Self {
        let Injector { port, .. } = Injector::open(device);
        let pools = Pools::new(4 * BURST as usize, 4);
        Self { port, pools }
    }

    /// Calls `take` with each frame that has arrived.
    pub fn take(&mut self, mut take: impl FnMut(&[u8])) {
        let mut burst = Vec::new();
        self.port.receive(&mut self.pools, &mut burst, 64);
        for frame in burst {
            take(frame.bytes());
            self.pools.give(frame);
        }
    }
}

/// Frames that are sent in one go.
const BURST: u64 = 64;

/// Sends frames by an interface of the host that the thread is on.
pub struct Injector {
    port: Port,
    pools: Pools,
}

impl Injector {
    pub fn open(device: &str) -> Self {
        let config = PortConfig {
            device: device.to_owned(),
            driver: Driver::AfPacket,
            is_shared: true,
        };
        let port = Port::open(config).expect("the interface is there");
        // What arrives is not taken, and the port keeps no buffers.
        let pools = Pools::new(4 * BURST as usize, 0);
        Self { port, pools }
    }

    /// Sends frames in one go, no more than a burst.
    pub fn send_together(&mut self, frames: impl Iterator<Item = Vec<u8>>) {
        for bytes in frames {
            let frame = self
                .pools
                .take_filled(&bytes)
                .expect("no more than a burst");
            self.port.transmit(frame, &mut self.pools);
        }
        self.port.flush(&mut self.pools);
    }

    /// Sends so many frames a second until a time has come. Tells how many there were.
    pub fn send_at(&mut self, rate: u64, end: Instant, mut frame: impl FnMut() -> Vec<u8>) -> u64 {
        let (began, mut sent) = (Instant::now(), 0);
        while Instant::now() < end {
            let due = (u128::from(rate) * began.elapsed().as_micros() / 1_000_000) as u64;
            for _ in 0..due.saturating_sub(sent).min(BURST) {
                let bytes = frame();
                let frame = self
                    .pools
                    .take_filled(&bytes)
                    .expect("the last burst is gone");
                self.port.transmit(frame, &mut self.pools);
                sent += 1;
            }
            self.port.flush(&mut self.pools);
            std::thread::sleep(Duration::from_micros(500));
        }
        sent
    }
}
