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
//! A folder stands for all files in it that end with `.json`, by name, as on the command line.
//!
//! The files are [SONiC's JSON](../dash-configuration.md): what is wrong in one is told with its line,
//! object and field, and nothing runs. What refers to something that is not there waits, and is
//! told as a warning; so is what cannot be together with another object. How each stage behaves, and
//! where the public sources disagree, is on a [page of its own](../dash-conformance.md).
//!
//! A DPU is a chain of its own: there is no other function in it.
//!
//! # Services
//! | service | where it is configured | what it does to packets |
//! |---|---|---|
//! | VNET, with peering | route `vnet` or `vnet_direct`, mapping `vnet_encap` | a tunnel to the host behind the mapping, with the VNI of the ENI's network or the other one |
//! | Private Link | mapping `privatelink`, port map, ENI's `pl_sip_encoding` | IPv4 becomes IPv6, with addresses that tell whose it is; NVGRE or VXLAN, a second tunnel by way of a security group's appliance |
//! | load balancer | [`DASH_LOAD_BALANCER_TABLE`](../dash-configuration.md#dash_load_balancer_table) | a virtual address becomes that of a backend, which the connection keeps; redirects of a balancer in the network move it |
//! | NAT gateway | [`DASH_NAT_POOL_TABLE`, `DASH_ENI_NAT_TABLE`](../dash-configuration.md#dash_nat_pool_table) | on direct routes the source becomes an external address, with a port of the ENI's block |
//! | service tunnel (ExpressRoute) | route `servicetunnel` | IPv4 becomes IPv6 as the route says, and a tunnel to the service |
//!
//! Load balancers and NAT gateways decide where the flow is made: it keeps its backend, and its port, for as
//! long as it lives. An echo's identifier is translated like a port (RFC 5508); protocols without either
//! are dropped there (`nat_protocol`). Datagrams over IPv4 that leave behind an external address get another
//! identification, unless they are atomic (RFC 6864): tenants have the address together. ICMP errors
//! about packets that were changed are changed back, with the packet that they quote, if they are
//! whole, for the one who sent that, and of a type in use; those about packets of which the IP
//! version was changed are dropped (`icmp_error`). Whether a quoted segment is under way is not looked at.
//!
//! `twinpath trace` tells of one packet which tables it meets, which entries, and what follows.
//!
//! # The two paths
//! The fast path has the flows: tables to find whose a packet is, an entry for each direction of
//! a connection, counters and limits of each ENI. A packet of a known flow leaves there. One of no
//! known flow, or of a flow that was decided before a change of policy, goes to the slow path, which has
//! the policies; later ones of its flow wait for it on the fast path. Its answer makes the flow.
//! With `--paths slow` flows and policies are both on the slow path: the oracle.
//!
//! # Shards
//! With `[run] shards = N` all packets of an ENI are one shard's: they name it by a MAC address inside. So
//! its limits, counters, meters and ports are as exact as on one; identifications that are drawn are no other
//! shard's. Tables are shared, the number of flows is divided. Packets of no ENI are the first shard's, or
//! whose their MAC address would be. An ENI whose MAC address changes may come to another shard, where its
//! connections begin anew.
//!
//! # Generated traffic
//! Without a capture or interfaces packets are those of `[traffic]`, put into tunnels: each flow is one
//! between an ENI's machine and an address that the ENI's routes and mappings lead to, of its IP version.
//! Where no ENI can send over one of the versions, all are of the other one; where none can send at all, packets
//! come in no tunnel and are dropped. Either is told. An ENI can send that is enabled and has an
//! `underlay_ip`, its MAC address in a mapping of its network, and a route to a network with other mappings.
//! One in four is opened from outside. So `[traffic.hosts]` says ports and shares, and no addresses.
//!
//! # Changes
//! The files may say something else when the service is applied again, and single changes come with
//! `twinpath dash apply`. What is in force then is compiled beside what packets meet, and takes
//! its place between two packets. Flows stay: one whose ENI or mapping was touched is judged anew
//! with its next packet. Other keys cannot change while packets flow.
//!
//! # Counters
//! Those of all ENIs together; each one's are shown by `twinpath dash counters`.
//!
//! | counter | meaning |
//! |---|---|
//! | `flows` | at the moment |
//! | `flows_created` | opened |
//! | `flows_removed` | policies no longer allow them |
//! | `flows_closed` | their connections ended with a RST or the FINs of both ends; they stay a while for what is under way |
//! | `flows_aged` | ended by time alone |
//! | `flows_resimulated` | resimulated: judged anew after a change of policy |
//! | `flow_hits`, `flow_misses` | packets of known flows, and of none |
//! | `dropped` | packets, for any reason; those of no ENI too |
//!
//! # Drops
//! Reasons are those of the [drop reasons](../drop-reasons.md) that begin with `dash_`; for each ENI
//! they are counted without that prefix, and shown by `twinpath dash counters` and in the report.

mod config;
mod descriptor;

pub use config::{Config, ConfigError, MAX_FLOWS};
pub use descriptor::FUNCTION;

/// The function's name.
pub const NAME: &str = "dash";
