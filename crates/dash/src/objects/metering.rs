//! Metering: which class a packet's bytes are counted for.

use twinpath_classify::Prefix;

use super::names::MeterPolicyId;
use super::values::IpVersion;

/// A list of meter rules for one IP version. ENIs may share one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterPolicy {
    /// Of which packets its rules speak.
    pub ip_version: IpVersion,
}

/// A class for packets to a prefix. It counts where neither route nor mapping gives a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterRule {
    /// The lower, the earlier.
    pub priority: u32,
    /// Inner destinations of outbound packets, inner sources of inbound ones.
    pub prefix: Prefix,
    /// The class.
    pub metering_class: u32,
}

impl MeterRule {
    /// Of which packets it speaks.
    #[must_use]
    pub const fn version(&self) -> IpVersion {
        IpVersion::of(self.prefix.network())
    }
}

/// Which rule of which policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MeterRuleKey {
    /// The policy.
    pub policy: MeterPolicyId,
    /// Its number in the policy.
    pub rule: u32,
}
