//! Names by which objects refer to each other: one type for each kind, so that none is taken for
//! another.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

macro_rules! names {
    ($($(#[$doc:meta])* $Name:ident,)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $Name(Arc<str>);

        impl $Name {
            /// The name as it was written.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $Name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<Arc<str>> for $Name {
            fn from(text: Arc<str>) -> Self {
                Self(text)
            }
        }

        impl Borrow<str> for $Name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    )*};
}

names! {
    /// An appliance: the DPU itself.
    ApplianceId,
    /// A virtual network.
    VnetName,
    /// A profile of limits.
    QosName,
    /// An elastic network interface; a word of the controller's own, not its MAC address.
    EniId,
    /// A group of outbound routes.
    RouteGroupId,
    /// A group of access control rules.
    AclGroupId,
    /// A rule of a group: a number for the documents, any word for the public tests.
    AclRuleId,
    /// A named list of prefixes.
    TagName,
    /// A tunnel with one endpoint or several.
    TunnelName,
    /// A list of destination ports with what happens to them.
    PortMapId,
    /// A list of prefixes with metering classes.
    MeterPolicyId,
    /// External addresses and ports.
    NatPoolId,
    /// A DPU, in this switch or another.
    DpuId,
    /// A virtual DPU: what ENIs are placed on.
    VdpuId,
    /// A virtual network of a switch, not of its DPUs.
    SwitchVnetName,
    /// A tunnel of a switch, not of its DPUs.
    SwitchTunnelName,
    /// DPUs that stand in for each other.
    HaSetId,
    /// What changes roles together.
    HaScopeId,
}
