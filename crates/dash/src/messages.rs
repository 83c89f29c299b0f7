//! What the two paths of a node tell each other: what policies are asked about a packet, and what they
//! say.
//!
//! Numbers are in the network's order. Addresses are 16 bytes, IPv4 ones as they are within IPv6.

use std::ops::Deref;

use twinpath_core::DashReason;
use twinpath_core::wire::tunnel::Encapsulation;
use twinpath_core::wire::{Address, Endpoint, MacAddress};

use crate::headers::{Direction, Headers};
use crate::objects::PortRange;
use crate::pipeline::{Action, Arrival, Layer, Origin, PolicyDecision};

/// What is asked, in words of a link header.
pub const ARRIVAL_WORDS: usize = 23;

/// Writes what policies are asked.
#[must_use]
pub fn arrival_words(arrival: &Arrival) -> [u32; ARRIVAL_WORDS] {
    let mut bytes = MessageBytes::default();
    bytes.u8(arrival.direction as u8);
    bytes.u8(arrival.way as u8);
    bytes.encapsulation(arrival.encapsulation);
    bytes.u16(arrival.eni);
    bytes.u32(arrival.key);
    bytes.address(arrival.outer_source);
    bytes.mac(arrival.source_mac);
    bytes.headers(&arrival.headers);
    bytes.u32(arrival.entropy);
    bytes.option(arrival.backend, MessageBytes::endpoint);
    let (words, _) = bytes.bytes.as_chunks();
    std::array::from_fn(|at| words.get(at).copied().map_or(0, u32::from_be_bytes))
}

/// Reads what policies are asked; `None` if it is something else.
#[must_use]
pub fn read_arrival(words: &[u32]) -> Option<Arrival> {
    let mut all = [0; 4 * ARRIVAL_WORDS];
    let words = words.get(..ARRIVAL_WORDS).unwrap_or(words);
    for (bytes, word) in all.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    let mut bytes = Reader(&all[..4 * words.len()]);
    Some(Arrival {
        direction: bytes.direction()?,
        way: bytes.direction()?,
        encapsulation: bytes.encapsulation()?,
        eni: bytes.u16()?,
        key: bytes.u32()?,
        outer_source: bytes.address()?,
        source_mac: bytes.mac()?,
        headers: bytes.headers()?,
        entropy: bytes.u32()?,
        backend: bytes.option(Reader::endpoint)?,
    })
}

/// Writes what policies say, who know of no detours.
#[must_use]
pub fn answer_bytes(answer: &Result<PolicyDecision, DashReason>) -> MessageBytes {
    let mut bytes = MessageBytes::default();
    match answer {
        Err(reason) => {
            bytes.u8(1);
            bytes.u8(*reason as u8);
        }
        Ok(decision) => {
            bytes.u8(0);
            bytes.action(&decision.forward);
            bytes.action(&decision.reverse);
            bytes.headers(&decision.answers);
            bytes.u32(decision.meter_class);
            bytes.option(decision.mapping_epoch, MessageBytes::u16);
            bytes.option(decision.source_ports, MessageBytes::range);
        }
    }
    bytes
}

/// Reads what policies say; `None` if it is something else.
#[must_use]
pub fn read_answer(bytes: &[u8]) -> Option<Result<PolicyDecision, DashReason>> {
    let mut bytes = Reader(bytes);
    match bytes.u8()? {
        1 => {
            let number = usize::from(bytes.u8()?);
            Some(Err(*DashReason::ALL.get(number)?))
        }
        0 => Some(Ok(PolicyDecision {
            forward: bytes.action()?,
            reverse: bytes.action()?,
            answers: bytes.headers()?,
            meter_class: bytes.u32()?,
            mapping_epoch: bytes.option(Reader::u16)?,
            source_ports: bytes.option(Reader::range)?,
        })),
        _ => None,
    }
}

/// Most bytes of a message: those of an answer with all that there can be in it.
const MOST_BYTES: usize = 387;

/// What is written of a message.
pub struct MessageBytes {
    bytes: [u8; MOST_BYTES],
    len: usize,
}

impl Default for MessageBytes {
    fn default() -> Self {
        Self {
            bytes: [0; MOST_BYTES],
            len: 0,
        }
    }
}

impl Deref for MessageBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl MessageBytes {
    #[inline]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.len..self.len + N].copy_from_slice(&bytes);
        self.len += N;
    }

    fn u8(&mut self, number: u8) {
        self.put([number]);
    }

    fn u16(&mut self, number: u16) {
        self.put(number.to_be_bytes());
    }

    fn u32(&mut self, number: u32) {
        self.put(number.to_be_bytes());
    }

    fn address(&mut self, address: Address) {
        self.put(address.0.to_be_bytes());
    }

    fn mac(&mut self, mac: MacAddress) {
        self.put(mac.0);
    }

    fn encapsulation(&mut self, encapsulation: Encapsulation) {
        self.u8(match encapsulation {
            Encapsulation::Vxlan => 0,
            Encapsulation::Nvgre => 1,
        });
    }

    fn option<T>(&mut self, value: Option<T>, write: impl Fn(&mut Self, T)) {
        self.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn ports(&mut self, ports: [u16; 2]) {
        ports.into_iter().for_each(|port| self.u16(port));
    }

    fn range(&mut self, range: PortRange) {
        self.ports([range.first(), range.last()]);
    }

    fn endpoint(&mut self, endpoint: Endpoint) {
        self.address(endpoint.address);
        self.u16(endpoint.port);
    }

    fn addresses(&mut self, addresses: [Address; 2]) {
        let each = addresses.into_iter();
        each.for_each(|address| self.address(address));
    }

    fn headers(&mut self, headers: &Headers) {
        self.addresses([headers.source, headers.destination]);
        self.u8(headers.protocol);
        self.option(headers.ports, Self::ports);
    }

    fn layer(&mut self, layer: Layer) {
        self.encapsulation(layer.encapsulation);
        self.u32(layer.key);
        self.addresses([layer.source, layer.destination]);
    }

    fn action(&mut self, action: &Action) {
        self.option(action.addresses, Self::addresses);
        self.option(action.source_port, Self::u16);
        self.option(action.destination_port, Self::u16);
        self.option(action.source_mac, Self::mac);
        self.option(action.destination_mac, Self::mac);
        for layer in action.layers {
            self.option(layer, Self::layer);
        }
        for vni in action.accepts {
            self.option(vni, Self::u32);
        }
        self.option(action.origin, Self::origin);
    }

    fn origin(&mut self, origin: Origin) {
        self.u8(origin.direction as u8);
        self.encapsulation(origin.encapsulation);
        self.u32(origin.key);
        self.address(origin.outer_source);
        self.mac(origin.source_mac);
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(|[number]| number)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn address(&mut self) -> Option<Address> {
        self.take().map(u128::from_be_bytes).map(Address)
    }

    fn mac(&mut self) -> Option<MacAddress> {
        self.take().map(MacAddress)
    }

    fn direction(&mut self) -> Option<Direction> {
        match self.u8()? {
            0 => Some(Direction::Outbound),
            1 => Some(Direction::Inbound),
            _ => None,
        }
    }

    fn encapsulation(&mut self) -> Option<Encapsulation> {
        match self.u8()? {
            0 => Some(Encapsulation::Vxlan),
            1 => Some(Encapsulation::Nvgre),
            _ => None,
        }
    }

    /// Outside, whether there are bytes; inside, what they say.
    fn option<T>(&mut self, read: impl Fn(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.u8()? {
            0 => Some(None),
            1 => read(self).map(Some),
            _ => None,
        }
    }

    fn ports(&mut self) -> Option<[u16; 2]> {
        Some([self.u16()?, self.u16()?])
    }

    fn range(&mut self) -> Option<PortRange> {
        PortRange::new(self.u16()?, self.u16()?)
    }

    fn endpoint(&mut self) -> Option<Endpoint> {
        Some(Endpoint::new(self.address()?, self.u16()?))
    }

    fn addresses(&mut self) -> Option<[Address; 2]> {
        Some([self.address()?, self.address()?])
    }

    fn headers(&mut self) -> Option<Headers> {
        let [source, destination] = self.addresses()?;
        Some(Headers {
            source,
            destination,
            protocol: self.u8()?,
            ports: self.option(Self::ports)?,
        })
    }

    fn layer(&mut self) -> Option<Layer> {
        let (encapsulation, key) = (self.encapsulation()?, self.u32()?);
        let [source, destination] = self.addresses()?;
        Some(Layer {
            encapsulation,
            key,
            source,
            destination,
        })
    }

    fn action(&mut self) -> Option<Action> {
        Some(Action {
            addresses: self.option(Self::addresses)?,
            source_port: self.option(Self::u16)?,
            destination_port: self.option(Self::u16)?,
            source_mac: self.option(Self::mac)?,
            destination_mac: self.option(Self::mac)?,
            layers: [self.option(Self::layer)?, self.option(Self::layer)?],
            accepts: [self.option(Self::u32)?, self.option(Self::u32)?],
            origin: self.option(Self::origin)?,
            detour: None,
        })
    }

    fn origin(&mut self) -> Option<Origin> {
        Some(Origin {
            direction: self.direction()?,
            encapsulation: self.encapsulation()?,
            key: self.u32()?,
            outer_source: self.address()?,
            source_mac: self.mac()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn an_address() -> impl Strategy<Value = Address> {
        any::<u128>().prop_map(Address)
    }

    fn a_direction() -> impl Strategy<Value = Direction> {
        any::<bool>().prop_map(|is_inbound| match is_inbound {
            true => Direction::Inbound,
            false => Direction::Outbound,
        })
    }

    fn an_encapsulation() -> impl Strategy<Value = Encapsulation> {
        any::<bool>().prop_map(|is_nvgre| match is_nvgre {
            true => Encapsulation::Nvgre,
            false => Encapsulation::Vxlan,
        })
    }

    prop_compose! {
        fn headers()(source in an_address(), destination in an_address(),
            ports in any::<Option<[u16; 2]>>(), protocol in any::<u8>()) -> Headers {
            Headers { source, destination, ports, protocol }
        }
    }

    prop_compose! {
        fn layer()(encapsulation in an_encapsulation(), key in any::<u32>(),
            source in an_address(), destination in an_address()) -> Layer {
            Layer { encapsulation, key, source, destination }
        }
    }

    prop_compose! {
        fn origin()(direction in a_direction(), encapsulation in an_encapsulation(), key in any::<u32>(),
            outer_source in an_address(), mac in any::<[u8; 6]>()) -> Origin {
            Origin { direction, encapsulation, key, outer_source, source_mac: MacAddress(mac) }
        }
    }

    prop_compose! {
        fn action()(
            addresses in prop::option::of([an_address(), an_address()]),
            source_port in any::<Option<u16>>(), destination_port in any::<Option<u16>>(),
            macs in any::<[Option<[u8; 6]>; 2]>(),
            layers in [prop::option::of(layer()), prop::option::of(layer())],
            accepts in any::<[Option<u32>; 2]>(), origin in prop::option::of(origin()),
        ) -> Action {
            let [source_mac, destination_mac] = macs.map(|mac| mac.map(MacAddress));
            Action {
                addresses, source_port, destination_port, source_mac, destination_mac, layers, accepts,
                origin, detour: None,
            }
        }
    }

    #[test]
    fn the_longest_fits() {
        let (address, mac) = (Address(u128::MAX), MacAddress([0xff; 6]));
        let (ports, encapsulation, key) = (Some([u16::MAX; 2]), Encapsulation::Nvgre, u32::MAX);
        let layer = Layer {
            encapsulation,
            key,
            source: address,
            destination: address,
        };
        let origin = Origin {
            direction: Direction::Inbound,
            encapsulation,
            key,
            outer_source: address,
            source_mac: mac,
        };
        let action = Action {
            addresses: Some([address; 2]),
            source_port: Some(1),
            destination_port: Some(1),
            source_mac: Some(mac),
            destination_mac: Some(mac),
            layers: [Some(layer); 2],
            accepts: [Some(1); 2],
            origin: Some(origin),
            detour: None,
        };
        let answers = Headers {
            source: address,
            destination: address,
            protocol: 6,
            ports,
        };
        let decision = PolicyDecision {
            forward: action,
            reverse: action,
            answers,
            meter_class: 1,
            mapping_epoch: Some(1),
            source_ports: PortRange::new(1, 2),
        };
        let bytes = answer_bytes(&Ok(decision));
        assert_eq!(bytes.len(), MOST_BYTES);
        assert_eq!(read_answer(&bytes), Some(Ok(decision)));
    }

    proptest! {
        #[test]
        fn a_question_arrives_as_it_was(
            direction in a_direction(), way in a_direction(), eni in any::<u16>(), key in any::<u32>(),
            encapsulation in an_encapsulation(), outer_source in an_address(),
            mac in any::<[u8; 6]>(), headers in headers(), entropy in any::<u32>(),
            backend in prop::option::of((an_address(), any::<u16>())),
        ) {
            let source_mac = MacAddress(mac);
            let backend = backend.map(|(address, port)| Endpoint::new(address, port));
            let arrival = Arrival {
                direction, way, eni, encapsulation, key, outer_source, source_mac, headers, entropy,
                backend,
            };
            prop_assert_eq!(read_arrival(&arrival_words(&arrival)), Some(arrival));
        }

        #[test]
        fn an_answer_arrives_as_it_was(
            forward in action(), reverse in action(), answers in headers(),
            meter_class in any::<u32>(), mapping_epoch in any::<Option<u16>>(),
            ports in any::<Option<[u16; 2]>>(),
        ) {
            let source_ports = ports.and_then(|[one, other]| PortRange::new(one.min(other), one.max(other)));
            let decision = PolicyDecision {
                forward, reverse, answers, meter_class, mapping_epoch, source_ports,
            };
            let bytes = answer_bytes(&Ok(decision));
            prop_assert_eq!(read_answer(&bytes), Some(Ok(decision)));
            for cut in 0..bytes.len() {
                prop_assert_eq!(read_answer(&bytes[..cut]), None);
            }
        }

        #[test]
        fn anything_else_is_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let words: Vec<u32> = bytes.iter().map(|&byte| byte.into()).collect();
            let _ = (read_answer(&bytes), read_arrival(&words));
        }
    }

    #[test]
    fn so_does_a_refusal() {
        for reason in DashReason::ALL {
            assert_eq!(
                read_answer(&answer_bytes(&Err(*reason))),
                Some(Err(*reason))
            );
        }
    }
}
