//! The client, alone and against the store over a bad network.

use super::super::client::{Answer, Client, ClientError, Completion, Ignored, Operation, Settings};
use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::time::Duration;

const KEY: [u8; 16] = [3; 16];

fn settings() -> Settings {
    Settings {
        timeout: Duration::from_millis(10),
        attempts: 3,
        in_flight: 2,
        first_sequence: u32::MAX,
    }
}

fn sent(client: &mut Client, now: Instant) -> Option<Vec<u8>> {
    let mut out = [0; MAX_MESSAGE_BYTES];
    client
        .transmit(now, &mut out)
        .map(|length| out[..length].to_vec())
}

fn answer(request: &[u8], status: KvStatus, value: &[u8]) -> Vec<u8> {
    let view = KvView::new(request).expect("a valid request");
    let mut out = [0; MAX_MESSAGE_BYTES];
    let length = KvRepr::parse(&view)
        .answered(status, value)
        .emit(&mut out)
        .expect("room");
    out[..length].to_vec()
}

fn millis(millis: u64) -> Instant {
    Instant(millis * 1_000_000)
}

#[test]
fn a_reply_completes_its_request_once() {
    let mut client = Client::new(settings());
    let get = client.request(KEY, Operation::Get).expect("taken");
    let put = client.request(KEY, Operation::Put(b"new")).expect("taken");
    assert_eq!((get, put), (u32::MAX, 0), "numbers wrap");
    assert_eq!(
        client.request(KEY, Operation::Delete),
        Err(ClientError::TooManyInFlight(2))
    );
    let (first, second) = (
        sent(&mut client, millis(0)).expect("waits"),
        sent(&mut client, millis(1)).expect("waits"),
    );
    assert_eq!(sent(&mut client, millis(1)), None);
    let done = client.receive(millis(3), &answer(&second, KvStatus::Ok, b""));
    let expected = Completion {
        sequence: put,
        key: KEY,
        operation: KvOp::Put,
        answer: Answer::Done,
        attempts: 1,
        elapsed: Duration::from_millis(2),
    };
    assert_eq!(done, Ok(expected));
    assert_eq!(
        client.receive(millis(3), &answer(&second, KvStatus::Ok, b"")),
        Err(Ignored::Unexpected)
    );
    let got = client
        .receive(millis(4), &answer(&first, KvStatus::Ok, b"old"))
        .expect("completes");
    assert!(matches!(got.answer, Answer::Value(value) if value.as_bytes() == b"old"));
    assert_eq!((client.in_flight(), client.deadline()), (0, None));
}

#[test]
fn requests_are_repeated_with_patience_and_given_up() {
    let mut client = Client::new(settings());
    client.request(KEY, Operation::Get).expect("taken");
    let first = sent(&mut client, millis(0)).expect("waits");
    for (deadline, now) in [(10, 10), (30, 30)] {
        assert_eq!(client.deadline(), Some(millis(deadline)));
        assert_eq!(client.expire(Instant(millis(deadline).0 - 1)), None);
        assert_eq!(sent(&mut client, millis(now)), None);
        assert_eq!(client.expire(millis(now)), None);
        assert_eq!(
            sent(&mut client, millis(now)),
            Some(first.clone()),
            "the same again"
        );
    }
    assert_eq!(client.deadline(), Some(millis(70)));
    let given_up = client.expire(millis(70)).expect("three attempts are all");
    assert_eq!(
        (given_up.answer, given_up.attempts, given_up.elapsed),
        (Answer::TimedOut, 3, Duration::from_millis(70))
    );
    assert_eq!(
        (
            client.expire(millis(70)),
            client.in_flight(),
            client.repeated()
        ),
        (None, 0, 2)
    );
}

#[test]
fn a_late_reply_stops_the_repetition() {
    let mut client = Client::new(settings());
    client.request(KEY, Operation::Delete).expect("taken");
    let first = sent(&mut client, millis(0)).expect("waits");
    assert_eq!(client.expire(millis(10)), None);
    let done = client
        .receive(millis(10), &answer(&first, KvStatus::NotFound, b""))
        .expect("completes");
    assert_eq!(done.answer, Answer::NotFound);
    assert_eq!(
        (sent(&mut client, millis(10)), client.deadline()),
        (None, None)
    );
}

#[test]
fn what_is_no_fitting_reply_is_ignored() {
    let mut client = Client::new(settings());
    client.request(KEY, Operation::Get).expect("taken");
    let unsent = answer(&message(KvOp::Get, 3, b""), KvStatus::Ok, b"");
    assert_eq!(client.receive(millis(0), &unsent), Err(Ignored::Unexpected));
    let request = sent(&mut client, millis(0)).expect("waits");
    assert_eq!(client.receive(millis(1), &request), Err(Ignored::Request));
    assert!(matches!(
        client.receive(millis(1), &request[..20]),
        Err(Ignored::Malformed(_))
    ));
    let mut other_key = answer(&request, KvStatus::Ok, b"");
    other_key[20] ^= 1;
    assert_eq!(
        client.receive(millis(1), &other_key),
        Err(Ignored::Mismatched)
    );
    let refused = client
        .receive(millis(2), &answer(&request, KvStatus::Full, b""))
        .expect("completes");
    assert_eq!(refused.answer, Answer::Refused(KvStatus::Full));
    let too_long = client.request(KEY, Operation::Put(&[0; 129]));
    assert_eq!(too_long, Err(ClientError::ValueTooLong(129)));
}

/// A network that loses, repeats and delays datagrams by what `weather` says.
struct Network<'a> {
    store: Path<KvStore>,
    weather: std::slice::Iter<'a, u8>,
    towards_client: Vec<Vec<u8>>,
}

impl Network<'_> {
    fn carry(&mut self, payload: &[u8]) {
        let weather = self.weather.next().copied().unwrap_or(0);
        if weather & 3 == 3 {
            return;
        }
        for _ in 0..=weather >> 7 {
            let frame = datagram(endpoint("198.51.100.7:4000"), server(), payload);
            let fate = self.store.process(&frame, Instant(1));
            let reply = &fate.replies[0];
            let layout = dissect(reply).expect("valid");
            if weather & 12 != 12 {
                self.towards_client
                    .push(fields::payload(reply, &layout).to_vec());
            }
        }
    }

    /// What arrives now; some of it stays for later.
    fn arrivals(&mut self) -> Vec<Vec<u8>> {
        let late = self.weather.next().is_some_and(|weather| weather & 16 != 0);
        if late {
            Vec::new()
        } else {
            std::mem::take(&mut self.towards_client)
        }
    }
}

/// Runs one request to its end.
fn run(client: &mut Client, network: &mut Network<'_>, now: &mut Instant) -> Completion {
    loop {
        while let Some(request) = sent(client, *now) {
            network.carry(&request);
        }
        for reply in network.arrivals() {
            if let Ok(completion) = client.receive(*now, &reply) {
                return completion;
            }
        }
        *now = client.deadline().expect("a request waits");
        if let Some(completion) = client.expire(*now) {
            return completion;
        }
    }
}

proptest! {
    /// One request at a time: what completed is what the store's state explains.
    #[test]
    fn answers_are_true_over_a_bad_network(
        operations in prop::collection::vec((0u8..3, 0u8..3, any::<u8>()), 1..60),
        weather in prop::collection::vec(any::<u8>(), 200),
    ) {
        let mut client = Client::new(settings());
        let store = Path::both(KvStore::new(&Config::default()), Instant::ZERO);
        let mut network = Network { store, weather: weather.iter(), towards_client: Vec::new() };
        // The values that a key may have: several after a request of unknown outcome.
        let mut possible: HashMap<u8, Vec<Option<u8>>> = HashMap::new();
        let mut now = millis(1);
        for (op, key, byte) in operations {
            let bytes = [byte];
            let (operation, new) = [(Operation::Get, None), (Operation::Put(&bytes), Some(byte)), (Operation::Delete, None)][usize::from(op)];
            client.request([key; 16], operation).expect("one at a time");
            let completion = run(&mut client, &mut network, &mut now);
            let known = possible.entry(key).or_insert_with(|| vec![None]);
            match (completion.answer, op) {
                (Answer::Value(value), 0) => {
                    prop_assert!(known.contains(&value.as_bytes().first().copied()));
                    *known = vec![value.as_bytes().first().copied()];
                }
                (Answer::NotFound, 0) => {
                    prop_assert!(known.contains(&None));
                    *known = vec![None];
                }
                (Answer::NotFound, 2) => {
                    prop_assert!(completion.attempts > 1 || known.contains(&None));
                    *known = vec![None];
                }
                (Answer::Done, 1 | 2) => *known = vec![new],
                (Answer::TimedOut, 0) => {}
                (Answer::TimedOut, _) => known.push(new),
                other => prop_assert!(false, "{:?}", other),
            }
            prop_assert!(completion.attempts <= 3);
        }
    }
}
