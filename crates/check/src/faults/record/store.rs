//! What a key-value store was asked, and what it has answered.

use std::collections::HashMap;
use twinpath_core::wire::kv::{KEY_BYTES, KvOp, KvStatus, KvView};
use twinpath_core::wire::{dissect, fields};

/// A key of the store.
type Key = [u8; KEY_BYTES];

/// A value that somebody has sent to be written.
struct Written {
    value: Vec<u8>,
    /// The request.
    sequence: u32,
    asked: u64,
    /// When it was known to be done.
    answered: Option<u64>,
}

/// What the store was asked.
#[derive(Default)]
pub struct Store {
    written: HashMap<Key, Vec<Written>>,
    /// When each request came.
    asked: HashMap<u32, u64>,
}

/// What a packet says to the store, or the store to others.
fn message(bytes: &[u8], read: impl FnOnce(KvView<'_>)) {
    let Ok(layout) = dissect(bytes) else { return };
    if let Ok(view) = KvView::new(fields::payload(bytes, &layout)) {
        read(view);
    }
}

impl Store {
    /// A packet arrives in this turn, which may be a request.
    pub fn ask(&mut self, bytes: &[u8], turn: u64) {
        message(bytes, |request| {
            let sequence = request.sequence();
            self.asked.insert(sequence, turn);
            if request.op() == KvOp::Put {
                self.written
                    .entry(request.key())
                    .or_default()
                    .push(Written {
                        value: request.value().to_vec(),
                        sequence,
                        asked: turn,
                        answered: None,
                    });
            }
        });
    }

    /// A packet leaves in this turn, which may be an answer. `may_forget` if workers have crashed: with
    /// them values are lost, and older ones come back from the fast path.
    ///
    /// # Errors
    /// What is answered is not what was written.
    pub fn answer(&mut self, bytes: &[u8], turn: u64, may_forget: bool) -> Result<(), String> {
        let mut judged = Ok(());
        message(bytes, |answer| {
            if answer.is_reply() {
                judged = self.judge(&answer, turn, may_forget);
            }
        });
        judged
    }

    fn judge(&mut self, answer: &KvView<'_>, turn: u64, may_forget: bool) -> Result<(), String> {
        let sequence = answer.sequence();
        let Some(&asked) = self.asked.get(&sequence) else {
            return Err(format!("{sequence} is answered, and nobody has asked that"));
        };
        let written = self.written.entry(answer.key()).or_default();
        match (answer.op(), answer.status()) {
            (KvOp::Put, KvStatus::Ok) => {
                let own = written.iter_mut().filter(|one| one.sequence == sequence);
                own.for_each(|one| one.answered = Some(turn));
                Ok(())
            }
            (KvOp::Get, KvStatus::Ok) => may_be_read(written, answer.value(), (asked, may_forget)),
            (KvOp::Get, KvStatus::NotFound) => match latest_before(written, asked) {
                Some(one) if !may_forget => Err(format!(
                    "nothing is read, and {:02x?} was written",
                    one.value
                )),
                _ => Ok(()),
            },
            (op, status) => Err(format!("{op:?} is answered with {status:?}")),
        }
    }
}

/// Whether this value is one that who asked then may read.
fn may_be_read(
    written: &[Written],
    value: &[u8],
    (asked, may_forget): (u64, bool),
) -> Result<(), String> {
    let latest = latest_before(written, asked).map_or(0, |one| one.asked);
    let is_over = |one: &Written| !may_forget && one.answered.is_some_and(|done| done < latest);
    let mut same = written.iter().filter(|one| one.value == value).peekable();
    if same.peek().is_none() {
        return Err(format!("{value:02x?} is read, which nobody has written"));
    }
    match same.all(is_over) {
        true => Err(format!("{value:02x?} is read, which was written over")),
        false => Ok(()),
    }
}

/// Of the writes that were known to be done before a time, the one that was asked for last.
fn latest_before(written: &[Written], turn: u64) -> Option<&Written> {
    let done = written
        .iter()
        .filter(|one| one.answered.is_some_and(|done| done < turn));
    done.max_by_key(|one| one.asked)
}
