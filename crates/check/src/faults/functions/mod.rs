//! The network functions of a run that share flow state, and how they are configured.

mod account;
mod blank;
mod configuration;
mod ledger;

pub use account::Account;
pub use blank::Blank;
pub use configuration::{
    BEHIND_V6, BINDING_IDLE, CLIENTS_V6, DpuFiles, EXTERNAL, EXTERNAL_V6, FORBIDDEN, INSPECTOR,
    SERVER_V6, inspector_rules, section,
};
pub use ledger::{Ledger, MOST_HELD, Note, Notes, take_notes};

/// Which network functions run.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Functions {
    /// The [ledger]: the only one of which the simulation knows every value.
    Ledger,
    /// The firewall, alone.
    Firewall,
    /// The reassembler, alone: it holds segments and lets them out in another order.
    Reassembler,
    /// The load balancer, alone: it rewrites both directions.
    LoadBalancer,
    /// First the reassembler, then the firewall.
    ReassemblerAndFirewall,
    /// First the firewall, then the load balancer.
    FirewallAndLoadBalancer,
    /// The inspector, behind the reassembler that it needs.
    ReassemblerAndInspector,
    /// The key-value store, alone: it answers on both paths.
    KvStore,
    /// The rate limiter, alone: it delays what comes too fast.
    RateLimiter,
    /// The reframer, alone: it holds every packet for a while.
    Reframer,
    /// Telemetry, behind a firewall.
    FirewallAndTelemetry,
    /// A DPU.
    Dpu,
    /// Functions that users run, in several elements and beside some that make rules.
    Mixed,
    /// None: all functions make rules.
    None,
}

impl Functions {
    /// The functions that users run, alone and in chains.
    pub const REAL: [Self; 10] = [
        Self::Firewall,
        Self::Reassembler,
        Self::LoadBalancer,
        Self::ReassemblerAndFirewall,
        Self::FirewallAndLoadBalancer,
        Self::ReassemblerAndInspector,
        Self::KvStore,
        Self::RateLimiter,
        Self::Reframer,
        Self::FirewallAndTelemetry,
    ];

    /// Those of production, in the order of the original direction, unless elements say so.
    pub(crate) const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Ledger | Self::Mixed | Self::None | Self::Dpu => &[],
            Self::Firewall => &["firewall"],
            Self::Reassembler => &["reassembler"],
            Self::LoadBalancer => &["load_balancer"],
            Self::ReassemblerAndFirewall => &["reassembler", "firewall"],
            Self::FirewallAndLoadBalancer => &["firewall", "load_balancer"],
            Self::ReassemblerAndInspector => &["reassembler", "inspector"],
            Self::KvStore => &["kv_store"],
            Self::RateLimiter => &["rate_limiter"],
            Self::Reframer => &["reframer"],
            Self::FirewallAndTelemetry => &["firewall", "telemetry"],
        }
    }

    /// Whether it is known which packets they keep for a while.
    pub(crate) const fn tell_what_they_hold(self) -> bool {
        matches!(self, Self::Ledger | Self::None | Self::Dpu)
    }

    /// Whether every value is known.
    pub(crate) const fn is_ledger(self) -> bool {
        matches!(self, Self::Ledger)
    }
}
