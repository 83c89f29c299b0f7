//! Flows in words.

use crate::flow::raw_ether_type;
use crate::names::has_ports;
use crate::protocol::Protocol;
use twinpath_core::wire::{Endpoint, Fragment, Layout, dissect, fields, layout, protocol};

/// The flow and direction of a packet, in words.
pub(crate) fn flow(frame: &[u8]) -> String {
    match dissect(frame) {
        Ok(layout) if layout.is_ip() => ip_flow(frame, &layout),
        Ok(layout) => format!(
            "frames of EtherType {}",
            ether_type(layout::ether_type(frame, &layout))
        ),
        Err(why) => {
            let number = raw_ether_type(frame);
            format!(
                "malformed frames of EtherType {} ({why})",
                ether_type(number)
            )
        }
    }
}

fn ether_type(number: u16) -> String {
    let name = match number {
        protocol::ETHER_IPV4 => " (IPv4)",
        protocol::ETHER_IPV6 => " (IPv6)",
        protocol::ETHER_ARP => " (ARP)",
        protocol::ETHER_MPLS | protocol::ETHER_MPLS_UPSTREAM => " (MPLS)",
        protocol::ETHER_PPPOE_DISCOVERY | protocol::ETHER_PPPOE_SESSION => " (PPPoE)",
        _ => "",
    };
    format!("{number:#06x}{name}")
}

fn ip_flow(frame: &[u8], layout: &Layout) -> String {
    let (source, destination) = (
        fields::source(frame, layout),
        fields::destination(frame, layout),
    );
    if layout.fragment != Fragment::Whole {
        let ends = plain_ends(layout.protocol, false, source, destination);
        return format!("fragments of {ends}");
    }
    let quoted = (
        fields::inner_source(frame, layout),
        fields::inner_destination(frame, layout),
    );
    if let (Some(inner), (Some(source), Some(destination))) = (layout.inner, quoted) {
        let has_ports = source.port != 0 || destination.port != 0;
        let ends = plain_ends(inner.protocol, has_ports, source, destination);
        return format!("ICMP errors about {ends}");
    }
    plain_ends(
        layout.protocol,
        has_ports(frame, layout),
        source,
        destination,
    )
}

fn plain_ends(protocol: u8, has_ports: bool, source: Endpoint, destination: Endpoint) -> String {
    let name = Protocol(protocol);
    match (has_ports, protocol) {
        (false, _) => format!("{name} {} > {}", source.address, destination.address),
        (true, protocol::ICMP | protocol::ICMP6) => format!(
            "{name} {} > {} identifier {}",
            source.address, destination.address, source.port
        ),
        (true, _) => format!("{name} {source} > {destination}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::wire::icmp::IcmpError;
    use twinpath_core::wire::{Address, PacketBuilder};

    fn ends() -> (Endpoint, Endpoint) {
        (
            Endpoint::v4([10, 0, 0, 1], 5000),
            Endpoint::v4([192, 0, 2, 1], 53),
        )
    }

    #[test]
    fn flows_have_the_names_that_people_give_them() {
        let (here, there) = ends();
        let udp = PacketBuilder::udp(here, there);
        let offending = udp.to_vec().unwrap();
        let v6: Address = "2001:db8::1".parse().unwrap();
        let cases = [
            (udp, "udp 10.0.0.1:5000 > 192.0.2.1:53"),
            (
                PacketBuilder::tcp(there, here),
                "tcp 192.0.2.1:53 > 10.0.0.1:5000",
            ),
            (
                udp.fragment(0, true),
                "fragments of udp 10.0.0.1 > 192.0.2.1",
            ),
            (
                udp.fragment(8, true).payload_len(8),
                "fragments of udp 10.0.0.1 > 192.0.2.1",
            ),
            (
                PacketBuilder::icmp_echo(here, there),
                "icmp 10.0.0.1 > 192.0.2.1 identifier 5000",
            ),
            (
                PacketBuilder::raw(47, v6, v6),
                "gre 2001:db8::1 > 2001:db8::1",
            ),
            (
                PacketBuilder::raw(99, v6, v6),
                "protocol 99 2001:db8::1 > 2001:db8::1",
            ),
            (
                PacketBuilder::icmp_error(IcmpError::TimeExceeded { code: 0 }, &offending),
                "ICMP errors about udp 10.0.0.1:5000 > 192.0.2.1:53",
            ),
        ];
        for (packet, expected) in cases {
            assert_eq!(flow(&packet.to_vec().unwrap()), expected);
        }
    }

    #[test]
    fn what_is_no_ip_goes_by_its_ether_type() {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&[8, 6]);
        assert_eq!(flow(&frame), "frames of EtherType 0x0806 (ARP)");
        frame[13] = 0;
        assert!(flow(&frame).starts_with("malformed frames of EtherType 0x0800 (IPv4) ("));
        assert!(flow(&[]).starts_with("malformed frames of EtherType 0x0000 ("));
    }
}
