//! Why no ENI of a DPU can send generated packets.

use super::MOST_PEERS;
use std::fmt::{self, Display, Formatter};
use twinpath_control::report::units;
use twinpath_dash::config::{Configuration, EniTable};
use twinpath_dash::objects::Table;

/// What keeps an ENI's machine from talking, what is looked for first being first.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NoMachine {
    /// It is disabled, or no machine's.
    NotPlain,
    /// It has no host in the underlay, or one of the other IP version than the DPU's address.
    Host,
    /// No mapping of its network has its MAC address.
    OwnMapping,
    /// It has no group of routes.
    RouteGroup,
    /// None of its routes leads to a network with a mapping of somebody else.
    Peers,
}

/// What a DPU's configuration lacks for any of its ENIs to send.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// The DPU's address.
    Sip,
    /// The VNI of machines.
    VmVni,
    /// ENIs.
    Enis,
    /// Something of the first ENI.
    Eni {
        eni: String,
        vnet: String,
        mac: String,
        why: NoMachine,
        /// Whether there are more mappings than are looked at.
        has_many: bool,
        /// How many other ENIs there are.
        others: usize,
    },
}

impl Lack {
    /// What ENIs lack of which none can send, where `why` tells of one ENI and IP version (IPv4 if it is
    /// true).
    pub fn of_enis(
        configuration: &Configuration,
        why: impl Fn(&EniTable, bool) -> Option<NoMachine>,
    ) -> Self {
        // What is told is of the ENI that lacks least.
        let nearest = configuration.enis.iter().filter_map(|(id, table)| {
            let versions = [true, false].into_iter();
            let why = versions.filter_map(|is_v4| why(table, is_v4)).max()?;
            Some((why, id, table))
        });
        let nearest = nearest.reduce(|best, one| if one.0 > best.0 { one } else { best });
        let Some((why, id, table)) = nearest else {
            return Self::Enis;
        };
        let own = configuration.vnets.get(&table.eni.vnet);
        Self::Eni {
            eni: id.to_string(),
            vnet: table.eni.vnet.to_string(),
            mac: table.eni.mac_address.to_string(),
            why,
            has_many: own.is_some_and(|vnet| {
                let (v4, v6) = vnet.len_by_version();
                v4 + v6 > MOST_PEERS
            }),
            others: configuration.count(Table::Eni).saturating_sub(1),
        }
    }
}

impl Display for Lack {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sip => f.write_str("DASH_APPLIANCE_TABLE says no sip"),
            Self::VmVni => f.write_str("DASH_APPLIANCE_TABLE says no vm_vni"),
            Self::Enis => f.write_str("there is none"),
            Self::Eni {
                eni,
                vnet,
                mac,
                why,
                has_many,
                others,
            } => {
                write!(f, "{eni} ")?;
                match why {
                    NoMachine::NotPlain => f.write_str("is not an enabled ENI of a machine"),
                    NoMachine::Host => f.write_str(
                        "has no underlay_ip of the same IP version as the appliance's sip",
                    ),
                    NoMachine::OwnMapping if *has_many => write!(
                        f,
                        "has its MAC address {mac} in none of the first {} mappings of its network {vnet}",
                        units::count(MOST_PEERS as u64)
                    ),
                    NoMachine::OwnMapping => write!(
                        f,
                        "has its MAC address {mac} in no mapping of its network {vnet}"
                    ),
                    NoMachine::RouteGroup => f.write_str("has no group of routes"),
                    NoMachine::Peers => {
                        f.write_str("has no route to a network with mappings of others")
                    }
                }?;
                match others {
                    0 => Ok(()),
                    others => {
                        let all = units::count(*others as u64 + 1);
                        write!(f, " (of {all} ENIs it is the one that lacks least)")
                    }
                }
            }
        }
    }
}
