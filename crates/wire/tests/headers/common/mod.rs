//! Random packets: a description that can be changed and built again, so that a rewritten frame
//! can be compared with one that was built that way from the start.
#![allow(dead_code)] // Every test file uses another part.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::Config;
use twinpath_wire::build::Extension;
use twinpath_wire::icmp::IcmpError;
use twinpath_wire::tcp::TcpOption;
use twinpath_wire::{Address, Endpoint, PacketBuilder};

/// How often a property is tried. Failures print the packet; no file keeps them.
pub fn cases(cases: u32) -> Config {
    Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    }
}

/// Everything about a packet that is not an ICMP error.
#[derive(Clone, Debug)]
pub struct Packet {
    pub source: Endpoint,
    pub destination: Endpoint,
    pub kind: Kind,
    pub vlans: Vec<u16>,
    pub ttl: u8,
    pub dscp: u8,
    pub identification: u32,
    pub ipv4_options: Vec<u8>,
    pub extensions: Vec<(Extension, u8)>,
    pub fragment: Option<(u32, bool)>,
    pub payload: Vec<u8>,
    pub padded: bool,
}

#[derive(Clone, Debug)]
pub enum Kind {
    Tcp {
        seq: u32,
        ack: u32,
        flags: u8,
        window: u16,
        options: Vec<TcpOption<'static>>,
    },
    Udp,
    Echo {
        reply: bool,
        seq: u16,
    },
    Raw(u8),
}

impl Packet {
    pub fn is_v4(&self) -> bool {
        self.source.address.is_v4()
    }

    pub fn is_later_fragment(&self) -> bool {
        self.fragment.is_some_and(|(offset, _)| offset > 0)
    }

    pub fn frame(&self) -> Vec<u8> {
        self.builder()
            .to_vec()
            .unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    pub fn builder(&self) -> PacketBuilder<'_> {
        let mut builder = self
            .message()
            .ttl(self.ttl)
            .dscp(self.dscp)
            .identification(self.identification)
            .ipv4_options(&self.ipv4_options)
            .payload(&self.payload);
        for &id in &self.vlans {
            builder = builder.vlan(id);
        }
        for &(kind, units) in &self.extensions {
            builder = builder.ipv6_extension(kind, units);
        }
        if let Some((offset_bytes, more)) = self.fragment {
            builder = builder.fragment(offset_bytes, more);
        }
        if self.padded {
            builder.padded()
        } else {
            builder
        }
    }

    fn message(&self) -> PacketBuilder<'_> {
        let (source, destination) = (self.source, self.destination);
        match &self.kind {
            Kind::Tcp {
                seq,
                ack,
                flags,
                window,
                options,
            } => PacketBuilder::tcp(source, destination)
                .seq(*seq)
                .ack(*ack)
                .flags(*flags)
                .window(*window)
                .tcp_options(options),
            Kind::Udp => PacketBuilder::udp(source, destination),
            Kind::Echo { reply, seq } => {
                let echo = PacketBuilder::icmp_echo(source, destination).seq(u32::from(*seq));
                if *reply { echo.echo_reply() } else { echo }
            }
            Kind::Raw(number) => PacketBuilder::raw(*number, source.address, destination.address),
        }
    }
}

/// Any packet that the builder can make, fragments and up to three VLAN tags included.
pub fn packet() -> impl Strategy<Value = Packet> {
    any::<bool>().prop_flat_map(packet_of)
}

pub fn packet_of(v4: bool) -> impl Strategy<Value = Packet> {
    let link = (vec(0..4096u16, 0..4), any::<bool>());
    let ip = (
        any::<u8>(),
        0..64u8,
        any::<u32>(),
        option::weighted(0.2, fragment()),
    );
    let more = if v4 {
        (ipv4_options().boxed(), Just(Vec::new()).boxed())
    } else {
        (Just(Vec::new()).boxed(), extensions().boxed())
    };
    (
        endpoint(v4),
        endpoint(v4),
        kind(),
        link,
        ip,
        more,
        vec(any::<u8>(), 0..80),
    )
        .prop_map(
            |(source, destination, kind, link, ip, more, payload)| Packet {
                source,
                destination,
                kind,
                vlans: link.0,
                padded: link.1,
                ttl: ip.0,
                dscp: ip.1,
                identification: ip.2,
                fragment: ip.3,
                ipv4_options: more.0,
                extensions: more.1,
                payload,
            },
        )
}

/// A packet that is no fragment.
pub fn whole_packet() -> impl Strategy<Value = Packet> {
    packet().prop_map(|packet| Packet {
        fragment: None,
        ..packet
    })
}

pub fn address(v4: bool) -> BoxedStrategy<Address> {
    match v4 {
        true => any::<[u8; 4]>().prop_map(Address::from_v4).boxed(),
        false => any::<u128>()
            .prop_map(Address)
            .prop_filter("v4-mapped", |address| !address.is_v4())
            .boxed(),
    }
}

pub fn endpoint(v4: bool) -> impl Strategy<Value = Endpoint> {
    (address(v4), any::<u16>()).prop_map(|(address, port)| Endpoint::new(address, port))
}

pub fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        4 => tcp(),
        3 => Just(Kind::Udp),
        2 => (any::<bool>(), any::<u16>()).prop_map(|(reply, seq)| Kind::Echo { reply, seq }),
        1 => prop::sample::select(vec![4u8, 47, 50, 89, 132, 252]).prop_map(Kind::Raw),
    ]
}

pub fn tcp() -> impl Strategy<Value = Kind> {
    let numbers = (any::<u32>(), any::<u32>(), any::<u8>(), any::<u16>());
    (numbers, vec(tcp_option(), 0..4)).prop_map(|((seq, ack, flags, window), options)| Kind::Tcp {
        seq,
        ack,
        flags,
        window,
        options,
    })
}

fn tcp_option() -> impl Strategy<Value = TcpOption<'static>> {
    prop_oneof![
        Just(TcpOption::NoOperation),
        any::<u16>().prop_map(TcpOption::MaximumSegmentSize),
        any::<u8>().prop_map(TcpOption::WindowScale),
        Just(TcpOption::SackPermitted),
        any::<(u32, u32)>().prop_map(|(value, echo)| TcpOption::Timestamps { value, echo }),
        Just(TcpOption::Sack(&[1, 2, 3, 4, 5, 6, 7, 8])),
    ]
}

fn ipv4_options() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => Just(Vec::new()),
        1 => (0..=40usize).prop_map(|length| vec![1; length]),
        1 => Just(vec![148, 4, 0, 0]),
        1 => Just(vec![1, 7, 11, 4, 1, 2, 3, 4, 5, 6, 7, 8, 0]),
    ]
}

fn extensions() -> impl Strategy<Value = Vec<(Extension, u8)>> {
    let later = prop::sample::select(vec![
        Extension::Destination,
        Extension::Routing,
        Extension::Authentication,
    ]);
    let first = option::weighted(0.2, (Just(Extension::HopByHop), 1..4u8));
    (first, vec((later, 2..4u8), 0..4)).prop_map(|(first, later)| {
        let all = first.into_iter().chain(later);
        all.collect()
    })
}

fn fragment() -> impl Strategy<Value = (u32, bool)> {
    prop_oneof![
        Just((0, true)),
        (1..8000u32, any::<bool>()).prop_map(|(unit, more)| (unit * 8, more))
    ]
}

/// An ICMP error that the IP version has.
pub fn icmp_error(v4: bool) -> impl Strategy<Value = IcmpError> {
    let of_both = vec![
        IcmpError::Unreachable { code: 1 },
        IcmpError::PacketTooBig { mtu: 1280 },
        IcmpError::TimeExceeded { code: 0 },
        IcmpError::ParameterProblem {
            code: 0,
            pointer: 9,
        },
    ];
    let of_v4 = vec![
        IcmpError::SourceQuench,
        IcmpError::Redirect {
            code: 0,
            gateway: Address::from_v4([10, 9, 8, 7]),
        },
    ];
    let all = if v4 {
        [of_both, of_v4].concat()
    } else {
        of_both
    };
    prop::sample::select(all)
}
