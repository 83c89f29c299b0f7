//! What devices draw.

/// One device's power.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Draw {
    /// Whatever it does, in watts.
    pub idle_w: f64,
    /// More at full load, in watts.
    pub load_w: f64,
    /// For each port in use, in watts.
    pub port_w: f64,
}

/// The power of several devices.
#[derive(Clone, Debug, Default)]
pub struct Power {
    total_w: f64,
}

impl Power {
    /// Adds `count` devices with so many ports in use and a load between 0 and 1.
    #[must_use]
    pub fn with(mut self, count: u32, draw: Draw, ports: u32, load: f64) -> Self {
        let each_w =
            draw.idle_w + draw.load_w * load.clamp(0.0, 1.0) + draw.port_w * f64::from(ports);
        self.total_w += f64::from(count) * each_w;
        self
    }

    /// All together, in watts.
    pub fn total_w(&self) -> f64 {
        self.total_w
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_add_up() {
        let draw = Draw {
            idle_w: 50.0,
            load_w: 20.0,
            port_w: 2.5,
        };
        let power = Power::default().with(2, draw, 4, 0.5);
        assert_eq!(power.total_w(), 140.0);
    }
}
