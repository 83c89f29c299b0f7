//! Those who ask: each is served on a thread of its own, within bounds of time, length and number.

use super::socket::Socket;
use crate::client_slots::{ClientSlots, Entered};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant as WallClock};
use twinpath_control::look::Stream;
use twinpath_control::operator::{Answer, MOST_REQUEST_BYTES, Request, write_line};
use twinpath_control::report::ControlCounters;

/// Clients that are served at the same time.
pub(super) const MOST_CLIENTS: usize = 32;

/// Bytes of requests that are read, and wait for their answers, at the same time, of all clients together.
const MOST_BYTES: usize = 2 * MOST_REQUEST_BYTES as usize;

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

struct Shared {
    counts: Counts,
    /// Those that are being served.
    places: ClientSlots<UnixStream>,
    /// Bytes of their requests.
    bytes: AtomicUsize,
}

/// A client's place, which is free when this is dropped, whatever became of the client.
struct ClientPlace {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for ClientPlace {
    fn drop(&mut self) {
        self.shared.places.leave(self.number);
    }
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
        let shared = Shared {
            counts: Counts::default(),
            places: ClientSlots::new(MOST_CLIENTS),
            bytes: AtomicUsize::new(0),
        };
        Self {
            service,
            shared: Arc::new(shared),
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
        let service = Arc::clone(&self.service);
        let shared = Arc::clone(&self.shared);
        let place = ClientPlace { shared, number };
        let serve = move || place.shared.serve(&*service, &client, number);
        if Builder::new().name("operator".into()).spawn(serve).is_err() {
            count(&counts.too_many);
        }
    }

    /// Whoever has not said what it wants is sent away, and the others are waited for, a while.
    pub fn end(&self, longest: Duration) -> ControlCounters {
        let places = &self.shared.places;
        places.each(|client, _| drop(client.shutdown(Shutdown::Read)));
        let until = WallClock::now() + longest;
        while !places.is_empty() && WallClock::now() < until {
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
    /// Where there is no room for a client, the one that has been silent for longest makes it; false if
    /// none has.
    fn enter(&self, number: u64, client: &UnixStream) -> bool {
        let Ok(stream) = client.try_clone() else {
            return false;
        };
        match self.places.enter(number, stream) {
            Entered::WithRoom => true,
            Entered::InPlaceOf(silent) => {
                self.send_away(silent);
                true
            }
            Entered::Full => false,
        }
    }

    fn send_away(&self, silent: UnixStream) {
        count(&self.counts.shed);
        // Its thread ends when it hears that nothing comes.
        let _ = silent.shutdown(Shutdown::Read);
        refuse(
            silent,
            "too many clients are being served, and this one had not said what it wants",
        );
    }

    fn serve(&self, service: &impl Service, client: &UnixStream, number: u64) {
        let mut taken = Taken {
            all: &self.bytes,
            count: 0,
        };
        let request = request(client, &mut taken);
        if !self.places.has_asked(number) {
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
            Ok(Request::Stream(stream)) => match self.tried(|| service.open(&stream)) {
                Ok(streaming) => return self.stream(streaming, client),
                Err(why) => Err(why),
            },
            request => request.and_then(|request| self.tried(|| service.answer(request))),
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

    /// Tells a client what happens until it goes away, the run is over, or the service fails at it.
    fn stream(&self, mut streaming: Box<dyn Streaming>, client: &UnixStream) {
        count(&self.counts.answered);
        let mut out = Vec::new();
        let mut told = write_line(&mut out, &Answer::Follows);
        while told.is_ok() && !has_gone(client) {
            if out.is_empty() {
                std::thread::sleep(STREAM_INTERVAL);
            }
            let next = || {
                streaming.next(&mut out);
                Ok(())
            };
            if self.tried(next).is_err() {
                return;
            }
            told = Timed::new(client, ANSWER_TIME).write_all(&out);
            out.clear();
        }
    }

    /// A panic ends this request alone.
    fn tried<T>(&self, step: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        let tried = catch_unwind(AssertUnwindSafe(step));
        tried.unwrap_or_else(|_| {
            count(&self.counts.panics);
            Err(super::defect())
        })
    }
}

/// What a client wants; nothing if it goes away without a word.
fn request(client: &UnixStream, taken: &mut Taken<'_>) -> io::Result<Option<Request>> {
    client.set_nonblocking(false)?;
    let stream = Timed::new(client, REQUEST_TIME);
    let mut metered = Metered { stream, taken };
    match Request::read(&mut metered) {
        Err(_) if metered.taken.count == 0 && !metered.stream.is_late() => Ok(None),
        request => request.map(Some),
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

/// Bytes of a request, which count with those of all others while this is there.
struct Taken<'a> {
    all: &'a AtomicUsize,
    count: usize,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(self.count, Ordering::Relaxed);
    }
}

/// A stream whose bytes are counted.
struct Metered<'a, 't> {
    stream: Timed<'a>,
    taken: &'a mut Taken<'t>,
}

impl Read for Metered<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        self.taken.count += count;
        let before = self.taken.all.fetch_add(count, Ordering::Relaxed);
        match before + count > MOST_BYTES {
            true => Err(io::Error::new(
                io::ErrorKind::QuotaExceeded,
                format!("the requests of all clients are longer than {MOST_BYTES} bytes"),
            )),
            false => Ok(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use twinpath_control::look::CapturePoint;
    use twinpath_control::operator::{Filter, read_answer};

    /// Panics at one kind of request, waits at another; fails at streams sooner or later.
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

        fn open(&self, stream: &Stream) -> Result<Box<dyn Streaming>, String> {
            match stream {
                Stream::Drops => panic!("as a defect would"),
                Stream::Capture { .. } | Stream::Packets { .. } => {
                    Ok(Box::new(Odd(Mutex::new(()))))
                }
            }
        }
    }

    impl Streaming for Odd {
        fn next(&mut self, _: &mut Vec<u8>) {
            panic!("as a defect would");
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
        refusal(client)
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
    fn a_stream_that_fails_gives_its_place_back() {
        let served = Served::new();
        for _ in 0..MOST_CLIENTS {
            let drops = Request::Stream(Stream::Drops);
            assert!(asked(served.connect(), &drops).contains("a defect of the service"));
            let at = CapturePoint::Ports;
            let capture = Request::Stream(Stream::Capture { at, bytes: 1 });
            let mut client = served.connect();
            write_line(&mut client, &capture).expect("it listens");
            let mut told = Vec::new();
            client.read_to_end(&mut told).expect("its end");
            assert!(told.is_empty(), "nothing is told");
        }
        assert_eq!(asked(served.connect(), &list()), "it came");
        let counters = served.counters();
        assert!(served.clients.shared.places.is_empty());
        assert_eq!(counters.panics, 2 * MOST_CLIENTS as u64);
        assert_eq!(counters.too_many, 0);
    }

    /// Writes so many bytes of a request that has no end.
    fn write_much(client: &mut UnixStream, bytes: usize) -> io::Result<()> {
        let some = vec![b'x'; 1 << 20];
        (0..bytes / some.len()).try_for_each(|_| client.write_all(&some))
    }

    fn refusal(client: UnixStream) -> String {
        match read_answer(client).expect("an answer") {
            Answer::Refused { message } => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn requests_are_bounded_each_and_together() {
        let served = Served::new();
        let most = MOST_REQUEST_BYTES as usize;
        let mut client = served.connect();
        // Nobody reads what is beyond.
        let _ = write_much(&mut client, most + (2 << 20));
        let expected = format!("the request cannot be read: it is longer than {most} bytes");
        assert_eq!(refusal(client), expected);
        let mut clients = [(); 3].map(|()| served.connect());
        for client in &mut clients {
            let _ = write_much(client, most * 3 / 4);
        }
        let [.., last] = clients;
        let told = refusal(last);
        let expected = format!("the requests of all clients are longer than {MOST_BYTES} bytes");
        assert!(told.ends_with(&expected), "{told}");
        let counters = served.counters();
        assert!(counters.unreadable >= 2, "{counters:?}");
        assert_eq!(served.clients.shared.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn who_says_nothing_keeps_nobody_out() {
        let served = Served::new();
        let mut silent: Vec<_> = (0..2 * MOST_CLIENTS).map(|_| served.connect()).collect();
        for _ in 0..3 {
            assert_eq!(asked(served.connect(), &list()), "it came");
        }
        // The oldest made room, and was told so.
        assert!(refusal(silent.remove(0)).contains("too many"));
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
            let mut all = true;
            let places = &served.clients.shared.places;
            places.each(|_, has_asked| all &= has_asked);
            all
        };
        while !all_asked() {
            std::thread::yield_now();
        }
        let refused = asked(served.connect(), &list());
        assert!(refused.contains("too many clients"), "{refused}");
        drop(waits);
        for client in asking {
            assert_eq!(refusal(client), "it came");
        }
        let counters = served.counters();
        assert_eq!((counters.too_many, counters.shed), (1, 0));
    }

    #[test]
    fn requests_that_are_no_requests_are_refused_and_counted() {
        let served = Served::new();
        let mut client = served.connect();
        client.write_all(b"sing\n").expect("it listens");
        assert!(refusal(client).contains("cannot be read"));
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
