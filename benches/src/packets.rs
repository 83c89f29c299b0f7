//! Some million 64-byte packets in memory.

use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_xoshiro::Xoshiro256PlusPlus;
use twinpath_core::wire::layout::Transport;
use twinpath_core::wire::{Address, Endpoint, PacketBuilder, dissect, rewrite};
use twinpath_core::{Frame, Instant, Metadata, Pool};

/// How packets are spread over flows.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Spread {
    /// All flows alike.
    Uniform,
    /// Zipf with this exponent.
    Zipf(f64),
}

impl std::fmt::Display for Spread {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Uniform => formatter.write_str("uniform"),
            Self::Zipf(exponent) => write!(formatter, "Zipf {exponent}"),
        }
    }
}

/// When packets arrive at first.
pub const ARRIVAL: Instant = Instant(1_000_000_000);

/// The service that all packets go to.
pub const SERVICE: Endpoint = Endpoint {
    address: Address(0xffff_0aff_0001),
    port: 80,
};

/// The client end of a flow.
pub fn client(flow: u64) -> Endpoint {
    let address = Address(0xffff_0000_0000 | u128::from(0x0b00_0000 + (flow >> 4) as u32));
    Endpoint {
        address,
        port: 1024 + ((flow & 15) << 8 | (flow >> 8 & 0xff)) as u16,
    }
}

/// The service that packets over IPv6 go to.
const SERVICE_V6: Endpoint = Endpoint {
    address: Address(0x2001_0db8 << 96 | 1),
    port: 80,
};

/// The same client in a network of IPv6.
fn client_v6(flow: u64) -> Endpoint {
    let Endpoint { address, port } = client(flow);
    Endpoint {
        address: Address(0xfd00 << 112 | (address.0 & 0xffff_ffff)),
        port,
    }
}

/// Which headers packets have.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Headers {
    /// IPv6 in place of IPv4.
    pub is_v6: bool,
    /// Behind a VLAN tag.
    pub is_tagged: bool,
}

impl Headers {
    /// Of all kinds, the plainest first.
    pub const ALL: [Self; 4] = {
        const fn headers(is_v6: bool, is_tagged: bool) -> Headers {
            Headers { is_v6, is_tagged }
        }
        [
            headers(false, false),
            headers(false, true),
            headers(true, false),
            headers(true, true),
        ]
    };

    const PLAIN: Self = Self::ALL[0];

    fn client(self, flow: u64) -> Endpoint {
        match self.is_v6 {
            true => client_v6(flow),
            false => client(flow),
        }
    }
}

impl std::fmt::Display for Headers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(if self.is_v6 { "IPv6" } else { "IPv4" })?;
        formatter.write_str(if self.is_tagged { ", tagged" } else { "" })
    }
}

/// The acknowledgement bit, alone: an established connection's ordinary segment.
const ACK: u8 = 0x10;
/// A segment that no fast program handles.
const SYN: u8 = 0x02;

/// Which flow each packet belongs to, and which packets are complex.
pub struct Plan {
    flows: Vec<u32>,
    complex: Vec<bool>,
}

impl Plan {
    /// A plan of `packets` packets over `flows` flows with a share of complex ones.
    pub fn new(packets: usize, flows: u64, spread: Spread, complex_share: f64, seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let zipf = match spread {
            Spread::Uniform => None,
            Spread::Zipf(exponent) => Zipf::new(flows as f64, exponent).ok(),
        };
        let mut plan = Self {
            flows: Vec::with_capacity(packets),
            complex: Vec::with_capacity(packets),
        };
        for _ in 0..packets {
            let flow = match &zipf {
                Some(zipf) => zipf.sample(&mut random) as u64 - 1,
                None => random.next_u64() % flows,
            };
            plan.flows.push(flow as u32);
            plan.complex
                .push((random.next_u64() as f64 / u64::MAX as f64) < complex_share);
        }
        plan
    }

    /// One packet of each flow.
    pub fn each_flow(flows: u64) -> Self {
        Self {
            flows: (0..flows as u32).collect(),
            complex: vec![false; flows as usize],
        }
    }

    /// How many packets there are.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }
}

/// A frame for every packet of a plan, in the order they will be sent, which is the order they lie
/// in memory.
pub struct Trace {
    _pool: Pool,
    frames: Vec<Frame>,
    template: Vec<u8>,
    headers: Headers,
    /// When the packets arrive that are filled in next.
    pub arrival: Instant,
}

impl Trace {
    /// Frames for up to `packets` packets.
    pub fn new(packets: usize) -> Self {
        let trace = Self::with_payload(&[0; 6], packets);
        let bytes = trace.template.len();
        assert_eq!(bytes, 60, "64 bytes with the frame check sequence");
        trace
    }

    /// The same with packets that carry this.
    pub fn with_payload(payload: &[u8], packets: usize) -> Self {
        let template = PacketBuilder::tcp(client(0), SERVICE)
            .flags(ACK)
            .payload(payload);
        Self::of(&template, Headers::PLAIN, packets)
    }

    /// The same with UDP datagrams, which need no handshake; none of them is complex.
    pub fn of_datagrams(packets: usize) -> Self {
        Self::of_datagrams_with(Headers::PLAIN, packets)
    }

    /// The same with other headers. Those of IPv6 are longer, and so are the packets.
    pub fn of_datagrams_with(headers: Headers, packets: usize) -> Self {
        let service = if headers.is_v6 { SERVICE_V6 } else { SERVICE };
        let template = PacketBuilder::udp(headers.client(0), service).payload(&[0; 18]);
        let template = match headers.is_tagged {
            true => template.vlan(7),
            false => template,
        };
        Self::of(&template, headers, packets)
    }

    fn of(template: &PacketBuilder, headers: Headers, packets: usize) -> Self {
        let template = template.clone().to_vec().expect("a valid packet");
        let mut pool = Pool::new(packets, template.len().next_multiple_of(64));
        let frames = std::iter::from_fn(|| pool.take()).collect();
        Self {
            _pool: pool,
            frames,
            template,
            headers,
            arrival: ARRIVAL,
        }
    }

    /// Fills the frames with a plan's packets; the last written are the first evicted, so at the
    /// start of a long trace none is in the cache.
    pub fn fill(&mut self, plan: &Plan) {
        let layout = dissect(&self.template).expect("a valid packet");
        for (index, frame) in self.frames.iter_mut().enumerate().take(plan.len()) {
            frame.fill(&self.template);
            // It arrives anew.
            frame.set_metadata(Metadata::default());
            frame.set_timestamp(self.arrival);
            let flags = if plan.complex[index] { SYN } else { ACK };
            let bytes = frame.bytes_mut();
            let client = self.headers.client(u64::from(plan.flows[index]));
            rewrite::set_source(bytes, &layout, client).expect("both are of one version");
            if layout.transport == Transport::Tcp {
                rewrite::set_tcp_flags(bytes, &layout, flags).expect("it is TCP");
            }
        }
    }

    /// The frames, to send; put them back in order.
    pub fn frames(&mut self) -> &mut Vec<Frame> {
        &mut self.frames
    }
}
