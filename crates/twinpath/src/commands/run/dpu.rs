//! What a DPU's run shows that went otherwise than anybody wants.

use twinpath_control::report::Report;
use twinpath_control::service::Service;
use twinpath_nf::dash::Config;

/// What is told where no packet was for the DPU: mostly a capture of another one's.
pub fn for_another(service: &Service, report: &Report) -> Option<String> {
    let missed = report.drops.get("dash_vip_miss").copied().unwrap_or(0);
    if missed == 0 || missed < report.totals.packets_in {
        return None;
    }
    let mut configs = service.chain.iter();
    let config = configs.find_map(|instance| instance.config.of::<Config>())?;
    let snapshot = config.store().snapshot();
    let own = match snapshot.configuration.appliance() {
        Some(appliance) => format!("its appliance's sip is {}", appliance.sip),
        None => "it has no appliance".into(),
    };
    Some(format!(
        "no packet was for this DPU (dash_vip_miss): {own}; `twinpath trace` tells for whom they were"
    ))
}
