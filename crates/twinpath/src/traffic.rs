//! Descriptions of traffic: read, and how much traffic they mean.

use crate::error::{CommandError, NoTraffic};
use std::path::Path;
use twinpath_control::service::{Service, ServiceError};
use twinpath_traffic::TrafficConfig;
use twinpath_traffic::config::Arrivals;

/// Reads a file that describes nothing but traffic; paths in it start from its folder.
pub fn load(path: &Path) -> Result<TrafficConfig, CommandError> {
    let text = std::fs::read_to_string(path).map_err(|source| ServiceError::File {
        path: path.into(),
        source,
    })?;
    if toml::from_str::<toml::Table>(&text).is_ok_and(|table| table.contains_key("service")) {
        return Err(NoTraffic::IsService(path.into()).into());
    }
    let mut config: TrafficConfig =
        toml::from_str(&text).map_err(|error| ServiceError::of_toml(&error, &text, path))?;
    config.resolve_paths(path.parent().unwrap_or(Path::new(".")));
    config.validate().map_err(|source| NoTraffic::Invalid {
        path: path.into(),
        source,
    })?;
    Ok(config)
}

/// Traffic to generate.
pub struct Description {
    /// What it is like.
    pub config: TrafficConfig,
    /// Of all that is drawn at random.
    pub seed: u64,
    /// The service that it is for, with the ports that it comes in by.
    pub service: Option<Service>,
}

/// The traffic of a service file, with the service's seed and ports.
pub fn load_service(path: &Path) -> Result<Description, CommandError> {
    let service = Service::load(path)?;
    let traffic = service.traffic.clone();
    Ok(Description {
        config: traffic.ok_or(NoTraffic::NotDescribed(path.into()))?,
        seed: service.seed,
        service: Some(service),
    })
}

/// How many packets will come, where that can be told: exactly by their number, about by their
/// rate and time.
pub fn expected_packets(config: &TrafficConfig) -> Option<u64> {
    let rate_pps = match config.arrivals {
        Arrivals::Constant { rate_pps }
        | Arrivals::Poisson { rate_pps }
        | Arrivals::OnOff { rate_pps, .. } => rate_pps,
    };
    let in_time = config
        .duration_ns
        .map(|length_ns| (length_ns as f64 / 1e9 * rate_pps) as u64);
    match (config.packets, in_time) {
        (Some(packets), Some(in_time)) => Some(packets.min(in_time)),
        (packets, in_time) => packets.or(in_time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(packets: Option<u64>, duration_ns: Option<u64>) -> TrafficConfig {
        let arrivals = Arrivals::Constant { rate_pps: 1000.0 };
        TrafficConfig {
            packets,
            duration_ns,
            arrivals,
            ..TrafficConfig::default()
        }
    }

    #[test]
    fn the_nearer_limit_ends_the_traffic() {
        let two_seconds = Some(2_000_000_000);
        assert_eq!(expected_packets(&config(None, None)), None);
        assert_eq!(expected_packets(&config(Some(7), None)), Some(7));
        assert_eq!(expected_packets(&config(None, two_seconds)), Some(2000));
        assert_eq!(
            expected_packets(&config(Some(3000), two_seconds)),
            Some(2000)
        );
        assert_eq!(
            expected_packets(&config(Some(1999), two_seconds)),
            Some(1999)
        );
    }
}
