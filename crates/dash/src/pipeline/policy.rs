//! What judging a packet needs, and what its stages have in common.

use twinpath_core::wire::{Address, MacAddress};

use super::action::Layer;
use super::arrival::Arrival;
use super::{Note, Notes};
use crate::headers::{Direction, Headers};
use crate::objects::{AclAction, EniMode, MeterBits};
use crate::reason::Reason;
use crate::settings::Settings;
use crate::tables::{EniEntry, Tables};
use twinpath_core::wire::tunnel::Encapsulation;

/// What judging a packet needs.
#[derive(Copy, Clone)]
pub struct Policies<'a> {
    /// Everything that packets meet.
    pub tables: &'a Tables,
    /// What operators want otherwise.
    pub settings: &'a Settings,
    /// Whose packet it is.
    pub eni: &'a EniEntry,
    /// Where stages say what they do, if somebody wants to know.
    pub notes: Option<&'a Notes>,
}

impl Policies<'_> {
    /// A stage says what it does.
    #[inline]
    pub(super) fn note(&self, note: impl FnOnce() -> Note) {
        if let Some(notes) = self.notes {
            notes.add(note());
        }
    }

    /// Whether a packet may come with its VNI. Where neither the appliance nor the ENI lists any, all
    /// may; the VNI that machines send with is always among them.
    #[must_use]
    pub fn is_trusted(&self, arrival: &Arrival) -> bool {
        let is_ours = arrival.direction == Direction::Outbound;
        self.lists_none() || is_ours || self.lists(arrival.key)
    }

    /// Whether neither the appliance nor the ENI lists any VNI.
    pub(super) fn lists_none(&self) -> bool {
        self.tables.appliance().trusted.is_empty() && self.eni.trusted.is_empty()
    }

    /// Whether one of them lists a VNI.
    pub(super) fn lists(&self, key: u32) -> bool {
        self.tables.appliance().trusted.contains(key) || self.eni.trusted.contains(key)
    }

    /// Whether a packet of a known flow, whose action has these VNIs, may come with its own.
    #[must_use]
    #[inline]
    pub fn accepts(&self, direction: Direction, key: u32, listed: &[Option<u32>; 2]) -> bool {
        direction == Direction::Outbound
            || listed.contains(&Some(key))
            || self.tables.vni(self.eni.vnet) == Some(key)
            || self.lists(key) && !self.tables.is_network(key)
    }

    /// Asks the access lists. Within one the first rule that matches counts, and a packet that none
    /// matches is refused; a rule that does not end the search may be overruled by the next list.
    pub(super) fn permit(&self, direction: Direction, headers: &Headers) -> Result<(), Reason> {
        let refused = match direction {
            Direction::Outbound => Reason::AclOutbound,
            Direction::Inbound => Reason::AclInbound,
        };
        let mut action = AclAction::Permit;
        let stages = self.eni.stages(direction, headers.is_v4()).iter();
        if self.notes.is_some() && stages.clone().all(Option::is_none) {
            let version = if headers.is_v4() { "IPv4" } else { "IPv6" };
            let way = match direction {
                Direction::Outbound => "outbound",
                Direction::Inbound => "inbound",
            };
            let entry = format!("none is bound for {way} {version}");
            self.note(|| Note::new("access list", entry, word(AclAction::Permit)));
        }
        for (number, list) in (1..).zip(stages) {
            let Some(list) = list else { continue };
            if list.is_empty() && !self.settings.empty_acl_denies {
                continue;
            }
            let found = list.lookup(headers);
            self.note(|| match found {
                Some(found) => {
                    let name = list.name(found.place).map_or("?", |name| name.as_str());
                    let ends = if found.terminating {
                        ", ends here"
                    } else {
                        ", goes on"
                    };
                    let action = format!("{}{ends}", word(found.action));
                    let entry = format!("stage {number}, rule {name} of group {}", list.id());
                    Note::new("access list", entry, action)
                }
                None => {
                    let entry = format!("stage {number}, no rule of group {}", list.id());
                    Note::new("access list", entry, word(AclAction::Deny))
                }
            });
            let found = found.ok_or(refused)?;
            action = found.action;
            if found.terminating {
                break;
            }
        }
        match action {
            AclAction::Permit => Ok(()),
            AclAction::Deny => Err(refused),
        }
    }

    /// The class that a packet's bytes are counted for: that of routes and mappings, or else that of
    /// the ENI's meter policy for the other end.
    #[must_use]
    pub fn meter_class(&self, bits: MeterBits, far_end: Address) -> u32 {
        let class = match bits.or & bits.and {
            0 => {
                let policy = self.eni.meter(far_end.is_v4());
                policy.map_or(0, |policy| policy.class(far_end))
            }
            class => class,
        };
        self.note(|| {
            let by = match bits.or & bits.and {
                0 => self.tables.meter_rule_in_words(self.eni, far_end),
                _ => "routes and mappings".to_owned(),
            };
            Note::new("metering", by, format!("class {class}"))
        });
        class
    }

    /// The appliance's address.
    pub(super) fn own_address(&self) -> Result<Address, Reason> {
        self.tables.appliance().sip.ok_or(Reason::VipMiss)
    }

    /// The header of packets to the ENI's machine.
    pub(super) fn layer_to_machine(&self) -> Result<Layer, Reason> {
        let (host, key) = (self.eni.underlay_ip, self.tables.appliance().vm_vni);
        self.checked(Layer {
            encapsulation: Encapsulation::Vxlan,
            key: key.ok_or_else(|| self.unsupported(|| "the appliance has no vm_vni".into()))?,
            source: self.own_address()?,
            destination: host
                .ok_or_else(|| self.unsupported(|| "the ENI has no underlay_ip".into()))?,
        })
    }

    /// The header of answers that go back by the tunnel that a packet came by.
    pub(super) fn layer_to_sender(&self, arrival: &Arrival) -> Result<Layer, Reason> {
        self.checked(Layer {
            encapsulation: arrival.encapsulation,
            key: arrival.key,
            source: self.own_address()?,
            destination: arrival.outer_source,
        })
    }

    /// A header whose ends are of one IP version.
    pub(super) fn checked(&self, layer: Layer) -> Result<Layer, Reason> {
        let Layer {
            source,
            destination,
            ..
        } = layer;
        let why = || format!("a tunnel from {source} to {destination}, of two IP versions");
        match source.is_v4() == destination.is_v4() {
            true => Ok(layer),
            false => Err(self.unsupported(why)),
        }
    }

    /// No packet can be made of what is configured; says why.
    #[cold]
    pub(super) fn unsupported(&self, why: impl FnOnce() -> String) -> Reason {
        self.note(|| Note::new("unsupported action", why(), "dropped"));
        Reason::Unsupported
    }

    /// The source MAC address of what the ENI sends: a floating NIC's own.
    pub(super) fn source_mac(&self) -> Option<MacAddress> {
        (self.eni.mode == EniMode::FloatingNic).then_some(self.eni.mac)
    }
}

/// What configurations call it.
const fn word(action: AclAction) -> &'static str {
    match action {
        AclAction::Permit => "allow",
        AclAction::Deny => "deny",
    }
}

/// What two entries on a packet's way do to its metering class.
pub(super) const fn joined(one: MeterBits, other: MeterBits) -> MeterBits {
    MeterBits {
        or: one.or | other.or,
        and: one.and & other.and,
    }
}
