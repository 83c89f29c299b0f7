//! The services of a DPU: the configurations of SONiC's public tests, and the packets that they expect.

mod bench;
mod connections;
mod counting;
mod floating_nic;
mod hostile;
mod icmp_errors;
mod identifications;
mod limits;
mod load_balancer;
mod nat_gateway;
mod private_link;
mod story;
mod tunnels;
mod virtual_ip;
mod vnet;
mod waiting;
