//! A small HTTP server for figures: GET and HEAD, one answer for each connection, within bounds of
//! number, length and time, whoever connects. Whoever connects and says nothing keeps nobody out.

use crate::client_slots::{ClientSlots, Entered};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant as WallClock};

/// Connections that are served at the same time. Of others the one that has been silent for longest
/// makes room for a new one; where all have asked, the new one is closed.
const MOST_CLIENTS: usize = 16;

/// Longest request, its headers included.
const MOST_BYTES: usize = 8192;

/// Most headers of a request.
const MOST_HEADERS: usize = 64;

/// How long a client may take to ask, and to take the answer.
const TIME: Duration = Duration::from_secs(5);

/// How soon the end of the run is seen.
const INTERVAL: Duration = Duration::from_millis(100);

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Such as 200.
    pub status: u16,
    /// What the body is.
    pub content_type: &'static str,
    /// The body.
    pub body: String,
}

impl Response {
    /// Plain text.
    pub fn text(status: u16, body: impl Into<String>) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: body.into(),
        }
    }

    fn reason(&self) -> &'static str {
        match self.status {
            200 => "OK",
            400 => "Bad Request",
            404 => "Not Found",
            405 => "Method Not Allowed",
            503 => "Service Unavailable",
            _ => "Internal Server Error",
        }
    }

    fn head(&self) -> String {
        format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n",
            self.status,
            self.reason(),
            self.content_type,
            self.body.len()
        )
    }
}

/// What answers a path.
pub type Handler = dyn Fn(&str) -> Response + Send + Sync;

/// A server; it ends when dropped.
pub struct Server {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at an address.
    ///
    /// # Errors
    /// It cannot be had.
    pub fn listen(address: SocketAddr, answers: Arc<Handler>) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let is_over = Arc::<AtomicBool>::default();
        let over = Arc::clone(&is_over);
        let serve = move || serve(&listener, &answers, &over);
        let thread = Builder::new().name("metrics".into()).spawn(serve)?;
        Ok(Self {
            address,
            is_over,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        let ended = self.thread.take().map(JoinHandle::join);
        drop(ended);
    }
}

/// A client's place, which is free when this is dropped.
struct ClientPlace {
    all: Arc<ClientSlots<TcpStream>>,
    number: u64,
}

impl ClientPlace {
    /// Nothing if there is none.
    fn take(all: &Arc<ClientSlots<TcpStream>>, number: u64, client: &TcpStream) -> Option<Self> {
        match all.enter(number, client.try_clone().ok()?) {
            Entered::WithRoom => {}
            Entered::InPlaceOf(silent) => {
                // Its thread ends when it hears that nothing comes.
                let _ = silent.shutdown(Shutdown::Both);
            }
            Entered::Full => return None,
        }
        let all = Arc::clone(all);
        Some(Self { all, number })
    }

    /// The client has said what it wants; an error if it was sent away meanwhile.
    fn has_asked(&self) -> io::Result<()> {
        let is_there = self.all.has_asked(self.number);
        is_there
            .then_some(())
            .ok_or(io::ErrorKind::NotConnected.into())
    }
}

impl Drop for ClientPlace {
    fn drop(&mut self) {
        self.all.leave(self.number);
    }
}

fn serve(listener: &TcpListener, answers: &Arc<Handler>, is_over: &AtomicBool) {
    let all = Arc::new(ClientSlots::new(MOST_CLIENTS));
    let mut number = 0;
    while !is_over.load(Ordering::Acquire) {
        let Ok((client, _)) = listener.accept() else {
            wait(listener);
            continue;
        };
        number += 1;
        let Some(place) = ClientPlace::take(&all, number, &client) else {
            continue;
        };
        let answers = Arc::clone(answers);
        let serve = move || {
            // Whoever goes away, or says nothing, is nobody's trouble.
            let _ = serve_one(client, &*answers, &place);
        };
        let _ = Builder::new().name("metrics".into()).spawn(serve);
    }
}

/// Until somebody connects, or a while. After an error, such as too many open files, a while too.
fn wait(listener: &TcpListener) {
    let time = Timespec {
        tv_sec: 0,
        tv_nsec: INTERVAL.as_nanos() as i64,
    };
    let mut descriptors = [PollFd::new(listener, PollFlags::IN)];
    let polled = poll(&mut descriptors, Some(&time));
    if polled.is_err() || descriptors[0].revents().contains(PollFlags::ERR) {
        std::thread::sleep(INTERVAL);
    }
}

fn serve_one(mut client: TcpStream, answers: &Handler, place: &ClientPlace) -> io::Result<()> {
    client.set_nonblocking(false)?;
    let until = WallClock::now() + TIME;
    let mut request = Vec::new();
    let asked = loop {
        match asked(&request) {
            Asked::More if request.len() < MOST_BYTES => {}
            Asked::More => break Asked::Wrong,
            asked => break asked,
        }
        client.set_read_timeout(left(until)?)?;
        let mut some = [0; 1024];
        match client.read(&mut some)? {
            0 => return Ok(()),
            count => request.extend_from_slice(&some[..count]),
        }
    };
    place.has_asked()?;
    let (answer, has_body) = match asked {
        Asked::Get(path) => (answers(&path), true),
        Asked::Head(path) => (answers(&path), false),
        Asked::Other => (Response::text(405, "expected GET\n"), true),
        Asked::More | Asked::Wrong => (Response::text(400, "expected HTTP/1.1\n"), true),
    };
    let mut text = answer.head();
    if has_body {
        text.push_str(&answer.body);
    }
    write(&mut client, text.as_bytes())
}

/// However slowly it is taken, it is over after a time.
fn write(client: &mut TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    let until = WallClock::now() + TIME;
    while !bytes.is_empty() {
        client.set_write_timeout(left(until)?)?;
        let count = client.write(bytes)?;
        bytes = &bytes[count..];
    }
    Ok(())
}

fn left(until: WallClock) -> io::Result<Option<Duration>> {
    let left = until.saturating_duration_since(WallClock::now());
    match left.is_zero() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(Some(left)),
    }
}

/// What a client wants.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    /// It has not said all.
    More,
    Get(String),
    Head(String),
    /// Another method.
    Other,
    Wrong,
}

fn asked(bytes: &[u8]) -> Asked {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => return Asked::More,
        Err(_) => return Asked::Wrong,
        Ok(httparse::Status::Complete(_)) => {}
    }
    let path = request.path.unwrap_or_default();
    let path = path.split(['?', '#']).next().unwrap_or_default().to_owned();
    match request.method {
        Some("GET") => Asked::Get(path),
        Some("HEAD") => Asked::Head(path),
        _ => Asked::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let answers = |path: &str| match path {
            "/metrics" => Response::text(200, "all is well\n"),
            _ => Response::text(404, "no\n"),
        };
        Server::listen(any, Arc::new(answers)).expect("a port is free")
    }

    fn said(server: &Server, request: &[u8]) -> String {
        let mut client = TcpStream::connect(server.address()).expect("it listens");
        client.write_all(request).expect("it reads");
        let mut said = Vec::new();
        // What is refused may be cut off behind the answer.
        let _ = client.read_to_end(&mut said);
        String::from_utf8(said).expect("text")
    }

    #[test]
    fn paths_are_answered() {
        let server = server();
        let good = said(&server, b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(good.starts_with("HTTP/1.1 200 OK\r\n"), "{good}");
        assert!(good.ends_with("\r\n\r\nall is well\n"), "{good}");
        let head = said(&server, b"HEAD /metrics HTTP/1.0\r\n\r\n");
        assert!(head.contains("Content-Length: 12\r\n") && head.ends_with("\r\n\r\n"));
        let other = said(&server, b"GET /secrets HTTP/1.1\r\n\r\n");
        assert!(other.starts_with("HTTP/1.1 404 "), "{other}");
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let server = server();
        let post = said(&server, b"POST /metrics HTTP/1.1\r\n\r\n");
        assert!(post.starts_with("HTTP/1.1 405 "), "{post}");
        for wrong in [&b"\x16\x03\x01\x00"[..], b"GET\r\n\r\n", &[b'a'; 9000]] {
            let said = said(&server, wrong);
            assert!(
                said.is_empty() || said.starts_with("HTTP/1.1 400 "),
                "{said}"
            );
        }
    }

    #[test]
    fn who_says_nothing_keeps_nobody_out() {
        let server = server();
        let ask = b"GET /metrics HTTP/1.1\r\n\r\n";
        let silent = |_| {
            let mut client = TcpStream::connect(server.address()).expect("it listens");
            // Half a request is none.
            client.write_all(&ask[..12]).expect("it reads");
            client
        };
        let mut all: Vec<_> = (0..3 * MOST_CLIENTS).map(silent).collect();
        for _ in 0..3 {
            assert!(said(&server, ask).contains("all is well"));
        }
        // The first of them was sent away long before its time was over.
        let mut rest = Vec::new();
        let first = all.swap_remove(0);
        first.set_read_timeout(Some(TIME / 2)).expect("possible");
        let read = (&first).read_to_end(&mut rest);
        assert!(
            read.is_ok() || read.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
        );
    }
}
