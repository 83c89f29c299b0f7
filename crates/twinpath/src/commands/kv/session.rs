//! A socket and a clock for the client.

use crate::error::KvError;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant as WallClock, SystemTime, UNIX_EPOCH};
use twinpath_control::report::units;
use twinpath_core::Instant;
use twinpath_nf::kv_store::client::{Client, Completion, Key, Operation, Settings};
use twinpath_wire::kv::MAX_MESSAGE_BYTES;

/// How long a wait for datagrams lasts at most: how late a time-out may be noticed.
const MOST_WAIT: Duration = Duration::from_millis(5);

/// Datagrams taken in a row before requests are sent again.
const MOST_RECEIVED: usize = 64;

/// A conversation with one store.
pub struct Session {
    client: Client,
    socket: UdpSocket,
    server: SocketAddr,
    began: WallClock,
    was_refused: bool,
}

impl Session {
    /// Opens a socket to the first address that the server's name has.
    pub fn connect(server: &str, settings: Settings) -> Result<Self, KvError> {
        let unknown = |source| KvError::Unknown {
            server: server.to_owned(),
            source,
        };
        let address = server.to_socket_addrs().map_err(unknown)?.next();
        let server = address.ok_or_else(|| unknown(ErrorKind::NotFound.into()))?;
        let socket = open(server).map_err(|source| KvError::Socket { server, source })?;
        let client = Client::new(Settings {
            first_sequence: first_sequence(),
            ..settings
        });
        Ok(Self {
            client,
            socket,
            server,
            began: WallClock::now(),
            was_refused: false,
        })
    }

    /// Takes a request; [`Self::exchange`] sends it.
    pub fn request(&mut self, key: Key, operation: Operation<'_>) -> Result<u32, KvError> {
        Ok(self.client.request(key, operation)?)
    }

    /// Requests that have not ended.
    pub fn in_flight(&self) -> usize {
        self.client.in_flight()
    }

    /// How often requests were sent again.
    pub fn repeated(&self) -> u64 {
        self.client.repeated()
    }

    /// Sends what is to be sent, waits a little for datagrams, and appends the requests that ended.
    pub fn exchange(&mut self, ended: &mut Vec<Completion>) -> Result<(), KvError> {
        while let Some(completion) = self.client.expire(self.now()) {
            ended.push(completion);
        }
        self.send()?;
        let mut datagram = [0; MAX_MESSAGE_BYTES + 1];
        for _ in 0..self.client.in_flight().min(MOST_RECEIVED) {
            let Some(length) = self.receive(&mut datagram)? else {
                break;
            };
            // What answers nothing is a late answer to an attempt that was given up.
            ended.extend(
                self.client
                    .receive(self.now(), datagram.get(..length).unwrap_or(&[])),
            );
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), KvError> {
        let mut datagram = [0; MAX_MESSAGE_BYTES];
        while let Some(length) = self.client.transmit(self.now(), &mut datagram) {
            match self.socket.send(datagram.get(..length).unwrap_or(&[])) {
                Ok(_) => {}
                Err(error) => self.pass_over(error)?,
            }
        }
        Ok(())
    }

    fn receive(&mut self, datagram: &mut [u8]) -> Result<Option<usize>, KvError> {
        match self.socket.recv(datagram) {
            Ok(length) => Ok(Some(length)),
            Err(error) => self.pass_over(error).map(|()| None),
        }
    }

    /// Silence, and a host that says that nobody listens yet, are for the client's time-outs.
    fn pass_over(&mut self, error: io::Error) -> Result<(), KvError> {
        match error.kind() {
            ErrorKind::ConnectionRefused => {
                self.was_refused = true;
                std::thread::sleep(MOST_WAIT);
                Ok(())
            }
            ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(()),
            _ => Err(KvError::Socket {
                server: self.server,
                source: error,
            }),
        }
    }

    /// What the end of all attempts means.
    pub fn silence(&self, attempts: u32, waited: Duration) -> KvError {
        let server = self.server;
        if self.was_refused {
            return KvError::NobodyThere { server };
        }
        KvError::NoAnswer {
            server,
            attempts,
            waited: units::duration(waited.as_nanos() as u64),
        }
    }

    fn now(&self) -> Instant {
        Instant(self.began.elapsed().as_nanos() as u64)
    }
}

fn open(server: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => ([0; 4], 0).into(),
        SocketAddr::V6(_) => ([0; 16], 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(MOST_WAIT))?;
    Ok(socket)
}

/// Another one each time, so that a late answer to an earlier command is no answer to this one.
fn first_sequence() -> u32 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    (now.as_nanos() as u64 ^ u64::from(std::process::id()) << 20) as u32
}
