//! A DPU: the network interfaces of virtual machines (ENIs), each with tables of its own, as a cloud
//! configures them with DASH and SONiC writes it down.
//!
//! Packets come in tunnels, VXLAN or NVGRE. The VNI tells whether one comes from a machine or is for
//! one, a MAC address inside whose it is. Access lists, routes, mappings, port maps, inbound rules and
//! meters of that ENI decide about the first packet of a connection; what they decide is done to all
//! packets of it, in both directions: other addresses inside, another IP version, one or two tunnels
//! around.
//!
//! # Configuration
//! The keys are the fields of [`Config`].
//!
//! ```toml
//! [dash]
//! config = ["dpu.json", "dpu-v6.json"]
//! ```
//!
//! The files are [SONiC's JSON](../dash-configuration.md): what is wrong in one is told with its line,
//! object and field, and nothing runs. What refers to something that is not there waits, and is
//! told as a warning; so is what cannot be together with another object. How each stage behaves, and
//! where the public sources disagree, is on a [page of its own](../dash-conformance.md).
//!
//! A DPU is a chain of its own: there is no other function in it.
//!
//! # The two paths
//! The fast path has the flows: tables to find whose a packet is, an entry for each direction of
//! a connection, counters and limits of each ENI. A packet of a known flow leaves there. One of no
//! known flow, or of a flow that was decided before a change of policy, goes to the slow path, which has
//! the policies; later ones of its flow wait for it on the fast path. Its answer makes the flow.
//! With `--paths slow` flows and policies are both on the slow path: the oracle.
//!
//! # Generated traffic
//! Without a capture or interfaces packets are those of `[traffic]`, put into tunnels: each flow is one
//! between an ENI's machine and an address that the ENI's routes and mappings lead to, of its IP version.
//! One in four is opened from outside. So `[traffic.hosts]` says ports and shares, and no addresses.
//!
//! # Changes
//! The files may say something else when the service is applied again, and single changes come with
//! `twinpath dash apply`. What is in force then is compiled beside what packets meet, and takes
//! its place between two packets. Flows stay: one whose ENI or mapping was touched is judged anew
//! with its next packet. Other keys cannot change while packets flow.
//!
//! # Drops
//! Reasons are those of the [drop reasons](../drop-reasons.md) that begin with `dash_`; for each ENI
//! they are counted without that prefix, and shown by `twinpath dash counters` and in the report.

mod config;
mod descriptor;

pub use config::{Config, ConfigError};
pub use descriptor::FUNCTION;

/// The function's name.
pub const NAME: &str = "dash";
