//! Those who ask: each is served on a thread of its own, within bounds of time, length and number.

use super::socket::Socket;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant as WallClock};
use twinpath_control::look::Stream;
use twinpath_control::operator::{Answer, Request, read_line, write_line};
use twinpath_control::report::ControlCounters;

/// Clients that are served at the same time.
pub(super) const MOST_CLIENTS: usize = 32;

/// Bytes of requests that are read at the same time, of all clients together.
const MOST_BYTES: usize = 512 << 20;

/// How long a client may take to say what it wants.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// How long a client may take to hear the answer.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// What answers requests, several at the same time.
pub(super) trait Service: Send + Sync {
    /// The answer to a request, or why there is none.
    fn answer(&self, request: Request) -> Result<Answer, String>;

    /// What is told from now on, or why nothing is.
    fn open(&self, stream: &Stream) -> Result<Box<dyn Streaming>, String> {
        Err(format!("{stream:?} is not told here"))
    }
}

/// What is told for as long as a client listens.
pub(super) trait Streaming {
    /// Appends what has happened since the last call.
    fn next(&mut self, out: &mut Vec<u8>);
}

/// The clients of a service.
pub(super) struct Clients<S> {
    service: Arc<S>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    counts: Counts,
    /// Those that are being served, by a number of their own.
    present: Mutex<BTreeMap<u64, Present>>,
    /// Bytes of their requests.
    bytes: AtomicUsize,
}

/// A client that is being served.
struct Present {
    stream: UnixStream,
    /// It has said what it wants.
    has_asked: bool,
}

#[derive(Default)]
struct Counts {
    accepted: AtomicU64,
    answered: AtomicU64,
    refused: AtomicU64,
    not_permitted: AtomicU64,
    too_many: AtomicU64,
    shed: AtomicU64,
    unreadable: AtomicU64,
    too_slow: AtomicU64,
    panics: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl<S: Service + 'static> Clients<S> {
    /// Nobody yet.
    pub fn new(service: Arc<S>) -> Self {
        Self {
            service,
            shared: Arc::default(),
        }
    }

    /// Serves a client that has connected to a socket, if it may ask and there is room for it.
    pub fn serve(&self, client: UnixStream, socket: &Socket) {
        let counts = &self.shared.counts;
        count(&counts.accepted);
        if !socket.admits(&client) {
            count(&counts.not_permitted);
            return refuse(
                client,
                "expected the user that the service runs as, root, or a member of the group that was given",
            );
        }
        let number = counts.accepted.load(Ordering::Relaxed);
        if !self.shared.enter(number, &client) {
            count(&counts.too_many);
            return refuse(client, "too many clients are being served, try again");
        }
        let (service, shared) = (Arc::clone(&self.service), Arc::clone(&self.shared));
        let serve = move || {
            shared.serve(&*service, &client, number);
            shared.leave(number);
        };
        if Builder::new().name("operator".into()).spawn(serve).is_err() {
            count(&counts.too_many);
            self.shared.leave(number);
        }
    }

    /// Whoever has not said what it wants is sent away, and the others are waited for, a while.
    pub fn end(&self, longest: Duration) -> ControlCounters {
        for client in self.shared.present().values() {
            let _ = client.stream.shutdown(Shutdown::Read);
        }
        let until = WallClock::now() + longest;
        while !self.shared.present().is_empty() && WallClock::now() < until {
            std::thread::sleep(super::INTERVAL);
        }
        self.shared.counts.read()
    }
}

/// How often what has happened is told.
const STREAM_INTERVAL: Duration = Duration::from_millis(20);

/// Whether a client that says nothing more has gone away, or was sent away.
fn has_gone(mut client: &UnixStream) -> bool {
    let looked = client.set_nonblocking(true);
    let read = looked.and_then(|()| client.read(&mut [0]));
    let _ = client.set_nonblocking(false);
    match read {
        Ok(count) => count == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

/// Without waiting: whoever does not listen hears nothing.
fn refuse(mut client: UnixStream, why: &str) {
    let message = why.to_owned();
    let is_told = client.set_nonblocking(true);
    let _ = is_told.and_then(|()| write_line(&mut client, &Answer::Refused { message }));
}

impl Shared {
    fn present(&self) -> MutexGuard<'_, BTreeMap<u64, Present>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where there is no room for a client, the one that has been silent for longest makes it.
    fn enter(&self, number: u64, client: &UnixStream) -> bool {
        let mut present = self.present();
        let Ok(stream) = client.try_clone() else {
            return false;
        };
        if present.len() >= MOST_CLIENTS && !self.shed_one(&mut present) {
            return false;
        }
        let has_asked = false;
        present.insert(number, Present { stream, has_asked });
        true
    }

    /// Sends away whoever came first of those that have not said what they want; false if all have.
    fn shed_one(&self, present: &mut BTreeMap<u64, Present>) -> bool {
        let mut silent = present.iter().filter(|(_, client)| !client.has_asked);
        let oldest = silent.next().map(|(number, _)| *number);
        let Some(client) = oldest.and_then(|number| present.remove(&number)) else {
            return false;
        };
        count(&self.counts.shed);
        // Its thread ends when it hears that nothing comes.
        let _ = client.stream.shutdown(Shutdown::Read);
        refuse(
            client.stream,
            "too many clients are being served, and this one had not said what it wants",
        );
        true
    }

    /// A client has said what it wants; false if it has been sent away meanwhile.
    fn has_asked(&self, number: u64) -> bool {
        let mut present = self.present();
        let client = present.get_mut(&number);
        client.map(|client| client.has_asked = true).is_some()
    }

    fn leave(&self, number: u64) {
        self.present().remove(&number);
    }

    fn serve(&self, service: &impl Service, client: &UnixStream, number: u64) {
        let request = self.request(client);
        if !self.has_asked(number) {
            return;
        }
        let request = match request {
            Ok(Some(request)) => Ok(request),
            Ok(None) => return,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                count(&self.counts.too_slow);
                Err(format!("the request did not come: {error}"))
            }
            Err(error) => {
                count(&self.counts.unreadable);
                Err(format!("the request cannot be read: {error}"))
            }
        };
        let answer = match request {
            Ok(Request::Stream(stream)) => match service.open(&stream) {
                Ok(streaming) => return self.stream(streaming, client),
                Err(why) => Err(why),
            },
            request => request.and_then(|request| self.answer(service, request)),
        };
        let answered = match &answer {
            Ok(_) => &self.counts.answered,
            Err(_) => &self.counts.refused,
        };
        count(answered);
        let answer = answer.unwrap_or_else(|message| Answer::Refused { message });
        let mut timed = Timed::new(client, ANSWER_TIME);
        if let Err(error) = write_line(&mut timed, &answer)
            && error.kind() == io::ErrorKind::TimedOut
        {
            count(&self.counts.too_slow);
        }
    }

    /// Tells a client what happens until it goes away, or the run is over.
    fn stream(&self, mut streaming: Box<dyn Streaming>, client: &UnixStream) {
        count(&self.counts.answered);
        let mut out = Vec::new();
        let mut told = write_line(&mut out, &Answer::Follows);
        while told.is_ok() && !has_gone(client) {
            if out.is_empty() {
                std::thread::sleep(STREAM_INTERVAL);
            }
            streaming.next(&mut out);
            told = Timed::new(client, ANSWER_TIME).write_all(&out);
            out.clear();
        }
    }

    /// What a client wants; nothing if it goes away without a word.
    fn request(&self, client: &UnixStream) -> io::Result<Option<Request>> {
        client.set_nonblocking(false)?;
        let mut metered = Metered {
            stream: Timed::new(client, REQUEST_TIME),
            all: &self.bytes,
            taken: 0,
        };
        match read_line(&mut metered) {
            Err(_) if metered.taken == 0 && !metered.stream.is_late() => Ok(None),
            request => request.map(Some),
        }
    }

    /// A panic ends this request alone.
    fn answer(&self, service: &impl Service, request: Request) -> Result<Answer, String> {
        let answer = catch_unwind(AssertUnwindSafe(|| service.answer(request)));
        answer.unwrap_or_else(|_| {
            count(&self.counts.panics);
            Err(super::defect())
        })
    }
}

impl Counts {
    fn read(&self) -> ControlCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ControlCounters {
            clients: read(&self.accepted),
            answered: read(&self.answered),
            refused: read(&self.refused),
            not_permitted: read(&self.not_permitted),
            too_many: read(&self.too_many),
            shed: read(&self.shed),
            unreadable: read(&self.unreadable),
            too_slow: read(&self.too_slow),
            panics: read(&self.panics),
        }
    }
}

/// A stream that is over at a time, however it is read or written until then.
struct Timed<'a> {
    stream: &'a UnixStream,
    until: WallClock,
}

impl<'a> Timed<'a> {
    fn new(stream: &'a UnixStream, time: Duration) -> Self {
        let until = WallClock::now() + time;
        Self { stream, until }
    }

    fn is_late(&self) -> bool {
        WallClock::now() >= self.until
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(WallClock::now());
        match left.is_zero() {
            true => Err(too_slow()),
            false => Ok(Some(left)),
        }
    }
}

fn too_slow() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the time for it is over")
}

/// What the system says when a stream's own time-out is over.
fn in_time<T>(result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => too_slow(),
        _ => error,
    })
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        in_time(self.stream.read(buffer))
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        in_time(self.stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A stream whose bytes count with those of all others while it is there.
struct Metered<'a> {
    stream: Timed<'a>,
    all: &'a AtomicUsize,
    taken: usize,
}

impl Read for Metered<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        self.taken += count;
        let before = self.all.fetch_add(count, Ordering::Relaxed);
        match before + count > MOST_BYTES {
            true => Err(io::Error::new(
                io::ErrorKind::QuotaExceeded,
                format!("the requests of all clients are longer than {MOST_BYTES} bytes"),
            )),
            false => Ok(count),
        }
    }
}

impl Drop for Metered<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_control::operator::Filter;

    /// Panics at one kind of request, waits at another.
    struct Odd(Mutex<()>);

    impl Service for Odd {
        fn answer(&self, request: Request) -> Result<Answer, String> {
            match request {
                Request::Rules(_) => panic!("as a defect would"),
                Request::List { .. } => {
                    let _waits = self.0.lock();
                    Err("it came".into())
                }
                _ => Err("no".into()),
            }
        }
    }

    struct Served {
        clients: Clients<Odd>,
        socket: Socket,
        folder: tempfile::TempDir,
    }

    impl Served {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let socket = Socket::listen(&folder.path().join("s"), None).expect("nobody listens");
            socket.listener.set_nonblocking(false).expect("possible");
            let clients = Clients::new(Arc::new(Odd(Mutex::new(()))));
            Self {
                clients,
                socket,
                folder,
            }
        }

        fn connect(&self) -> UnixStream {
            let client = UnixStream::connect(self.folder.path().join("s")).expect("it listens");
            let (stream, _) = self.socket.listener.accept().expect("a client");
            self.clients.serve(stream, &self.socket);
            client
        }

        fn counters(&self) -> ControlCounters {
            self.clients.end(Duration::from_secs(20))
        }
    }

    fn asked(mut client: UnixStream, request: &Request) -> String {
        // Whoever is refused may be told so, and sent away, before it has said anything.
        let _ = write_line(&mut client, request);
        match read_line(client).expect("an answer") {
            Answer::Refused { message } => message,
            other => panic!("{other:?}"),
        }
    }

    fn list() -> Request {
        let (function, object) = (None, twinpath_nf::edit::Object::Rule);
        Request::List { function, object }
    }

    #[test]
    fn a_panic_ends_no_service() {
        let served = Served::new();
        let rules = Request::Rules(Filter::default());
        assert!(asked(served.connect(), &rules).contains("a defect of the service"));
        assert_eq!(asked(served.connect(), &list()), "it came");
        let counters = served.counters();
        assert_eq!((counters.panics, counters.clients), (1, 2));
    }

    #[test]
    fn who_says_nothing_keeps_nobody_out() {
        let served = Served::new();
        let mut silent: Vec<_> = (0..2 * MOST_CLIENTS).map(|_| served.connect()).collect();
        for _ in 0..3 {
            assert_eq!(asked(served.connect(), &list()), "it came");
        }
        // The oldest made room, and was told so.
        let told: Answer = read_line(silent.remove(0)).expect("it is told");
        assert!(matches!(told, Answer::Refused { message } if message.contains("too many")));
        drop(silent);
        let counters = served.counters();
        assert!(counters.shed > MOST_CLIENTS as u64, "{counters:?}");
        assert_eq!((counters.too_many, counters.unreadable), (0, 0));
    }

    /// Whoever waits for an answer is not sent away.
    #[test]
    fn where_all_have_asked_more_are_refused() {
        let served = Served::new();
        let waits = served.clients.service.0.lock().expect("nobody holds it");
        let mut asking: Vec<_> = (0..MOST_CLIENTS).map(|_| served.connect()).collect();
        for client in &mut asking {
            write_line(client, &list()).expect("it listens");
        }
        let all_asked = || {
            let present = served.clients.shared.present();
            present.values().all(|client| client.has_asked)
        };
        while !all_asked() {
            std::thread::yield_now();
        }
        let refused = asked(served.connect(), &list());
        assert!(refused.contains("too many clients"), "{refused}");
        drop(waits);
        for client in asking {
            let answer: Answer = read_line(client).expect("an answer");
            assert!(matches!(answer, Answer::Refused { message } if message == "it came"));
        }
        let counters = served.counters();
        assert_eq!((counters.too_many, counters.shed), (1, 0));
    }

    #[test]
    fn requests_that_are_no_requests_are_refused_and_counted() {
        let served = Served::new();
        let mut client = served.connect();
        client.write_all(b"sing\n").expect("it listens");
        let answer: Answer = read_line(client).expect("an answer");
        assert!(
            matches!(answer, Answer::Refused { message } if message.contains("cannot be read"))
        );
        assert_eq!(served.counters().unreadable, 1);
    }

    #[test]
    fn a_stream_is_over_at_its_time_however_slowly_it_comes() {
        let (mut one, other) = UnixStream::pair().expect("a pair");
        let mut timed = Timed::new(&other, Duration::from_millis(60));
        let error = loop {
            one.write_all(b"x").expect("it listens");
            match timed.read_exact(&mut [0]) {
                Ok(()) => std::thread::sleep(Duration::from_millis(5)),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
