//! Translation of IPv6 network prefixes (RFC 6296): hosts inside keep their addresses while the
//! network's prefix is another outside.
//!
//! The translation keeps no state. Each address inside has one outside, and the other way round, so
//! that connections may begin at either end. A new address differs from the old one in its prefix
//! and in one further word, which makes up for the difference: checksums of whatever is carried
//! hold as they are, and nothing but addresses has to be understood.
//!
//! # Configuration
//! The keys are the fields of [`Config`].
//!
//! ```toml
//! [nptv6]
//! prefixes = [{ inside = "fd00:1::/48", external = "2001:db8:1::/48" }]
//! ```
//!
//! # What is translated
//! Of packets that come from inside, the source; of packets to an external prefix, the destination;
//! of packets from inside to an external prefix, both (RFC 6296 §4.3). So it is in the packet that
//! an ICMPv6 error quotes; errors that are not [believed](crate::icmp_errors), or of whose quote no addresses
//! can be read, are dropped, and so are redirects. All others pass untouched. Of packets between hosts inside
//! by external addresses functions in front of the translation see those, and functions behind it whom they
//! are for: an [`acl`](crate::acl) behind it decides who inside is reached so, and a
//! [firewall](crate::firewall) in front of it does not. With prefixes of up to 48 bits the subnet's number makes up for the difference,
//! and a subnet `ffff` cannot be translated; with longer ones it is the first word of the interface
//! identifier that is not `ffff`, and an identifier of zeros, or of ones, cannot be (§3.4, §3.5).
//! Such packets are dropped (`untranslatable_address`), silently.
//!
//! # What is cached
//! Every decision about whole TCP and UDP packets and echoes: a rule for each address inside, or
//! outside, and what the other end is not.
//!
//! # Changes
//! Other prefixes may come while packets flow; that concerns all cached rules.
//!
//! # Counters
//! | counter | meaning |
//! |---|---|
//! | `past` | packets that passed untouched, as far as rules have reported, as for all |
//! | `translated_out`, `translated_in` | packets whose source, or destination, was translated |
//! | `hairpinned` | packets with both |
//! | `untranslatable` | packets dropped because their address cannot be translated |
//! | `icmp_redirects_refused`, `icmp_errors_of_refused_type`, `icmp_errors_with_bad_checksum`, `icmp_errors_for_another`, `icmp_errors_with_bad_quote`, `icmp_errors_out_of_window` | ICMPv6 errors that were [not believed](crate::icmp_errors); the last is 0, for no connections are known here |

mod config;
mod descriptor;
mod function;
mod mapping;
#[cfg(test)]
mod tests;

pub use config::{Config, ConfigError, MAX_PREFIXES};
pub use descriptor::FUNCTION;
pub use function::{NewPrefixes, Nptv6};

/// The function's name.
pub const NAME: &str = "nptv6";
