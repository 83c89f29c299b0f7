//! A UDP socket of the host as a node's port, so that clients can talk to a running service
//! without a network card or a capture.
//!
//! Each datagram becomes a whole frame: Ethernet, IPv4 or IPv6 by the peer's address, and UDP from
//! the peer to the socket. A frame that leaves is taken apart again and its payload sent to
//! the frame's destination. So this is a port for functions that answer, such as the key-value
//! store; a frame that would leave for the socket itself is counted and not sent, since it would
//! only come back.
//!
//! Bound to an unspecified address (`0.0.0.0`, `::`) the socket does not tell to which of the
//! host's addresses a datagram was sent: frames carry the unspecified one.

use crate::departure::Departure;
use crate::sink::Sink;
use crate::source::{Feed, FeedItem};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use twinpath_control::report::PortLosses;
use twinpath_core::wire::layout::{Fragment, Transport};
use twinpath_core::wire::{Endpoint, PacketBuilder, dissect, fields};
use twinpath_io::{CaptureError, Location};

/// The longest payload of a UDP datagram over IPv4; over IPv6 it is 20 bytes more.
const MAX_DATAGRAM_BYTES: usize = 65_527;

/// A bound socket.
#[derive(Debug)]
pub struct UdpPort {
    socket: Arc<UdpSocket>,
    local: SocketAddr,
}

impl UdpPort {
    /// Binds a socket; port 0 lets the system choose one.
    ///
    /// # Errors
    /// The address is taken, not the host's, or not permitted.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        let local = socket.local_addr()?;
        Ok(Self {
            socket: Arc::new(socket),
            local,
        })
    }

    /// The address that clients send to.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// The two directions.
    pub fn split(self) -> (UdpFeed, UdpSink) {
        let sink = UdpSink {
            socket: Arc::clone(&self.socket),
            local: self.local,
            counts: SinkCounters::default(),
        };
        (UdpFeed::new(self.socket, self.local), sink)
    }
}

/// Datagrams that arrive.
#[derive(Debug)]
pub struct UdpFeed {
    socket: Arc<UdpSocket>,
    local: SocketAddr,
    datagram: Vec<u8>,
    clock: MonotonicClock,
    datagrams: u64,
    bytes: u64,
}

impl UdpFeed {
    fn new(socket: Arc<UdpSocket>, local: SocketAddr) -> Self {
        let datagram = vec![0; MAX_DATAGRAM_BYTES];
        Self {
            socket,
            local,
            datagram,
            clock: MonotonicClock::start(),
            datagrams: 0,
            bytes: 0,
        }
    }

    fn failed(&self, source: io::Error) -> CaptureError {
        let place = Location {
            record: self.datagrams + 1,
            offset: self.bytes,
        };
        CaptureError::Read {
            path: format!("udp:{}", self.local).into(),
            place,
            source,
        }
    }
}

impl Feed for UdpFeed {
    fn next_into(&mut self, buffer: &mut [u8]) -> Result<FeedItem, CaptureError> {
        let (len, peer) = match self.socket.recv_from(&mut self.datagram) {
            Ok(received) => received,
            Err(error) if is_passing(&error) => return Ok(FeedItem::Nothing),
            Err(error) => return Err(self.failed(error)),
        };
        self.datagrams += 1;
        self.bytes += len as u64;
        let payload = self.datagram.get(..len).unwrap_or(&self.datagram);
        let frame =
            PacketBuilder::udp(peer.into(), local_endpoint(self.local, peer)).payload(payload);
        Ok(match frame.write(buffer) {
            Ok(len) => FeedItem::Packet {
                timestamp_ns: self.clock.now_ns(),
                len,
                ingress: 0,
            },
            Err(_) => FeedItem::TooLong,
        })
    }

    fn now(&mut self) -> Option<twinpath_core::Instant> {
        Some(twinpath_core::Instant(self.clock.now_ns()))
    }
}

/// Nothing there now, or an earlier datagram of ours found nobody: neither says anything of what
/// comes next.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock
            | ErrorKind::Interrupted
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
    )
}

/// The socket's address in the peer's IP version: a socket bound to `::` also serves IPv4 peers.
fn local_endpoint(local: SocketAddr, peer: SocketAddr) -> Endpoint {
    let peer = Endpoint::from(peer).address;
    let address = match local.ip() {
        IpAddr::V6(any) if any.is_unspecified() && peer.is_v4() => Ipv4Addr::UNSPECIFIED.into(),
        address => address,
    };
    Endpoint::new(address.into(), local.port())
}

/// Nanoseconds since 1970 that never run backwards.
#[derive(Copy, Clone, Debug)]
struct MonotonicClock {
    began: Instant,
    began_ns: u64,
}

impl MonotonicClock {
    fn start() -> Self {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            began: Instant::now(),
            began_ns: since_epoch.as_nanos() as u64,
        }
    }

    fn now_ns(&self) -> u64 {
        self.began_ns + self.began.elapsed().as_nanos() as u64
    }
}

/// What became of frames that left.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SinkCounters {
    /// Sent as datagrams.
    pub sent: u64,
    /// No UDP, or for the socket itself: nothing that this port can send.
    pub unsendable: u64,
    /// Refused by the system: its buffers are full, or it knows no way to the peer.
    pub refused: u64,
}

/// Datagrams that leave.
#[derive(Debug)]
pub struct UdpSink {
    socket: Arc<UdpSocket>,
    local: SocketAddr,
    counts: SinkCounters,
}

impl UdpSink {
    /// What became of frames that left.
    pub fn counters(&self) -> SinkCounters {
        self.counts
    }

    fn send(&mut self, frame: &[u8]) {
        let Some((to, payload)) =
            datagram(frame).filter(|&(to, _)| to.port != 0 && !self.is_own(to))
        else {
            self.counts.unsendable += 1;
            return;
        };
        match self.socket.send_to(payload, self.reachable(to)) {
            Ok(_) => self.counts.sent += 1,
            Err(_) => self.counts.refused += 1,
        }
    }

    fn is_own(&self, to: Endpoint) -> bool {
        to == self.local.into()
            || to.port == self.local.port() && to.address.to_ip().is_unspecified()
    }

    /// An address of the socket's own IP version.
    fn reachable(&self, to: Endpoint) -> SocketAddr {
        let address = match (self.local.ip(), to.address.to_ip()) {
            (IpAddr::V6(_), IpAddr::V4(v4)) => v4.to_ipv6_mapped().into(),
            (_, address) => address,
        };
        SocketAddr::new(address, to.port)
    }
}

impl Sink for UdpSink {
    fn packet(&mut self, departure: &Departure) -> Result<(), CaptureError> {
        self.send(departure.frame.bytes());
        Ok(())
    }

    fn losses(&self) -> PortLosses {
        PortLosses {
            transmit_refused: self.counts.refused,
            ..PortLosses::default()
        }
    }
}

/// Where a frame's datagram goes, and what it carries.
fn datagram(frame: &[u8]) -> Option<(Endpoint, &[u8])> {
    let layout = dissect(frame).ok()?;
    let is_datagram = layout.transport == Transport::Udp && layout.fragment == Fragment::Whole;
    is_datagram.then(|| {
        (
            fields::destination(frame, &layout),
            fields::payload(frame, &layout),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::departure::Via;
    use std::time::Duration;
    use twinpath_core::Pools;

    fn client(local: SocketAddr) -> UdpSocket {
        let any: SocketAddr = if local.is_ipv4() {
            "127.0.0.1:0"
        } else {
            "[::1]:0"
        }
        .parse()
        .expect("an address");
        let socket = UdpSocket::bind(any).expect("loopback");
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .expect("a time-out");
        socket.connect(local).expect("loopback");
        socket
    }

    fn port(address: &str) -> (UdpFeed, UdpSink, SocketAddr) {
        let port = UdpPort::bind(address.parse().expect("an address")).expect("loopback");
        let local = port.local_address();
        let (feed, sink) = port.split();
        (feed, sink, local)
    }

    fn wait_for_packet(feed: &mut UdpFeed, buffer: &mut [u8]) -> (u64, usize) {
        for _ in 0..5000 {
            match feed.next_into(buffer).expect("a sound socket") {
                FeedItem::Packet {
                    timestamp_ns, len, ..
                } => return (timestamp_ns, len),
                FeedItem::Nothing => std::thread::sleep(Duration::from_millis(1)),
                other => panic!("{other:?}"),
            }
        }
        panic!("nothing came");
    }

    fn leave(sink: &mut UdpSink, frame: &[u8]) {
        let frame = Pools::new(1, 1).take_filled(frame).expect("a buffer");
        sink.packet(&Departure::new(frame, Via::Fast, true))
            .expect("never fails");
    }

    #[test]
    fn a_datagram_becomes_a_frame_and_its_answer_a_datagram() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (mut feed, mut sink, local) = port(address);
            let client = client(local);
            let mut buffer = [0; 2048];
            assert_eq!(
                feed.next_into(&mut buffer).expect("a sound socket"),
                FeedItem::Nothing
            );
            client.send(b"question").expect("sent");
            let (first_ns, len) = wait_for_packet(&mut feed, &mut buffer);
            let layout = dissect(&buffer[..len]).expect("a sound frame");
            let (from, to) = (
                fields::source(&buffer, &layout),
                fields::destination(&buffer, &layout),
            );
            assert_eq!(from, client.local_addr().expect("bound").into());
            assert_eq!(to, local.into());
            assert_eq!(fields::payload(&buffer[..len], &layout), b"question");

            leave(
                &mut sink,
                &PacketBuilder::udp(to, from)
                    .payload(b"answer")
                    .to_vec()
                    .expect("a frame"),
            );
            let mut answer = [0; 64];
            let len = client.recv(&mut answer).expect("an answer");
            assert_eq!(&answer[..len], b"answer");
            client.send(b"").expect("sent");
            assert!(wait_for_packet(&mut feed, &mut buffer).0 > first_ns);
        }
    }

    #[test]
    fn a_socket_for_both_ip_versions_answers_both() {
        let (mut feed, mut sink, local) = port("[::]:0");
        let client = client(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), local.port()));
        client.send(b"over IPv4").expect("sent");
        let mut buffer = [0; 256];
        let (_, len) = wait_for_packet(&mut feed, &mut buffer);
        let layout = dissect(&buffer[..len]).expect("a sound frame");
        let (from, to) = (
            fields::source(&buffer, &layout),
            fields::destination(&buffer, &layout),
        );
        assert!(from.address.is_v4() && to.address.is_v4());
        leave(
            &mut sink,
            &PacketBuilder::udp(to, from)
                .payload(b"answer")
                .to_vec()
                .expect("a frame"),
        );
        let mut answer = [0; 64];
        assert_eq!(client.recv(&mut answer).expect("an answer"), 6);
    }

    #[test]
    fn what_is_no_answer_is_counted_and_not_sent() {
        let (mut feed, mut sink, local) = port("127.0.0.1:0");
        let (own, peer): (Endpoint, Endpoint) =
            (local.into(), "127.0.0.1:9".parse().expect("an endpoint"));
        let to_itself = PacketBuilder::udp(peer, own)
            .payload(b"again")
            .to_vec()
            .expect("a frame");
        let no_datagram = PacketBuilder::tcp(own, peer).to_vec().expect("a frame");
        leave(&mut sink, &to_itself);
        leave(&mut sink, &no_datagram);
        assert_eq!(
            sink.counters(),
            SinkCounters {
                unsendable: 2,
                ..SinkCounters::default()
            }
        );
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(
            feed.next_into(&mut [0; 256]).expect("a sound socket"),
            FeedItem::Nothing
        );
    }

    #[test]
    fn a_datagram_longer_than_the_buffer_is_skipped() {
        let (mut feed, _sink, local) = port("127.0.0.1:0");
        client(local).send(&[7; 100]).expect("sent");
        let mut item = FeedItem::Nothing;
        for _ in 0..5000 {
            item = feed.next_into(&mut [0; 64]).expect("a sound socket");
            if item != FeedItem::Nothing {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(item, FeedItem::TooLong);
    }
}
