//! What the workers and the fast path say to one another about rules (the paper's CacheREQ,
//! SFCache §IV-B), as the body of a link frame without a packet. A body holds one or more
//! messages, one after the other. All numbers are big-endian.
//!
//! The frame bears the epoch of the slow path that speak, or are spoken to: rules belong to one life of
//! the workers. The fast path lets go of all rules when it hears of another life, and ignores what a
//! former one says; the workers answer what is told of a former life's rules with their own epoch.
//!
//! | code | message | direction | after the code (1 byte) |
//! |---|---|---|---|
//! | 1 | ADD | to the fast path | id 4, generation 4, first use 8, mask 48, value 48, action 64 |
//! | 2 | CLEAR | to the fast path | id 4, generation 4 |
//! | 3 | QUERY | to the fast path | id 4, generation 4 |
//! | 4 | MARKED | to the fast path | mark 4 |
//! | 16 | INSTALLED | to the slow path | id 4, generation 4 |
//! | 17 | GONE | to the slow path | id 4, generation 4, packets 8, bytes 8, last use 8, progress or none, reason 1 |
//! | 18 | USED | to the slow path | id 4, generation 4, packets 8, bytes 8, last use 8, progress or none |
//! | 19 | MARK | to the slow path | mark 4, id 4, generation 4 |
//! | 20 | FLOW MARK | to the slow path | mark 4, flow 48 |
//!
//! With 32 added to their code GONE and USED tell the [progress](TcpProgress) of the last TCP segment,
//! sequence number 4, acknowledgement number 4.
//!
//! Every request is answered, and asking again does no harm: ADD by INSTALLED or GONE, CLEAR by
//! GONE, QUERY by USED or GONE, MARK and FLOW MARK by MARKED, or MARK by CLEAR where the workers have no
//! such rule. Uses are counted from the rule's first, so that a lost or repeated report changes nothing.

use crate::action::{Action, ActionWords};
use crate::key::{MatchKey, WORDS};
use crate::progress::TcpProgress;
use thiserror::Error;
use twinpath_core::Instant;

/// A rule's number: its place in the table.
pub type RuleId = u32;

/// A rule's number and which of the rules that had it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleName {
    /// The place in the table.
    pub id: RuleId,
    /// Counts the rules at this place, from 1.
    pub generation: u32,
}

/// How a rule was used since it was made.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Packets.
    pub packets: u64,
    /// Bytes of their frames.
    pub bytes: u64,
    /// When the last of them arrived; of the packet that made the rule if there was none.
    pub last: Instant,
    /// What the last of them said, if it was a TCP segment and the rule
    /// [tells](Action::tells_progress).
    pub progress: Option<TcpProgress>,
}

/// A rule on its way to the fast path.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NewRule {
    /// The bits that are compared.
    pub mask: MatchKey,
    /// What they must be.
    pub value: MatchKey,
    /// What is done.
    pub action: Action,
    /// The first use.
    pub used: Instant,
}

/// Why a rule is not on the fast path.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Gone {
    /// It was cleared.
    Cleared = 0,
    /// It was not used for longer than its idle time-out.
    Idle = 1,
    /// More packets arrived while it was being made active than may be held.
    HoldFull = 2,
    /// There was no room for it.
    NoRoom = 3,
    /// There is no such number in the table.
    NoSuchId = 4,
}

impl Gone {
    /// Every reason, in the order of its number.
    pub const ALL: [Self; 5] = [
        Self::Cleared,
        Self::Idle,
        Self::HoldFull,
        Self::NoRoom,
        Self::NoSuchId,
    ];
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheMessage {
    /// Cache this rule.
    Add(RuleName, Box<NewRule>),
    /// Take this rule out.
    Clear(RuleName),
    /// How was this rule used?
    Query(RuleName),
    /// Everything that reached the workers before this mark and that it is about has been sent out.
    Marked(u32),
    /// The rule has arrived.
    Installed(RuleName),
    /// The rule is not, or no longer, there; these were all its uses.
    Gone(RuleName, Uses, Gone),
    /// The rule's uses so far.
    Used(RuleName, Uses),
    /// Say when everything before this has been sent out of flows whose packets may meet this rule.
    Mark(u32, RuleName),
    /// The same of the flow and direction of packets that show this.
    FlowMark(u32, MatchKey),
}

/// Why bytes are no message.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// It ends too early.
    #[error("truncated rule message: {have} bytes, it needs {need}")]
    Truncated {
        /// Bytes there are.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// A code that is none.
    #[error("unknown rule message {0}")]
    Code(u8),
    /// A reason that is none.
    #[error("unknown reason {0} for a rule to be gone")]
    Reason(u8),
    /// A verdict that is none.
    #[error("a rule with an unknown verdict")]
    Verdict,
    /// A value with bits outside its mask, or a mask without those that every rule has.
    #[error("a rule whose mask and value do not go together")]
    Mask,
}

const ADD: u8 = 1;
const CLEAR: u8 = 2;
const QUERY: u8 = 3;
const MARKED: u8 = 4;
const INSTALLED: u8 = 16;
const GONE: u8 = 17;
const USED: u8 = 18;
const MARK: u8 = 19;
const FLOW_MARK: u8 = 20;
/// Added to the code of a message that tells of progress.
const PROGRESS: u8 = 32;
const PROGRESS_BYTES: usize = 8;
const GONE_TELLING: u8 = GONE + PROGRESS;
const USED_TELLING: u8 = USED + PROGRESS;

/// Longest message, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 1 + 8 + 8 + 2 * 8 * WORDS + 64;

impl Uses {
    const fn progress_code(&self) -> u8 {
        match self.progress {
            Some(_) => PROGRESS,
            None => 0,
        }
    }

    const fn progress_bytes(&self) -> usize {
        match self.progress {
            Some(_) => PROGRESS_BYTES,
            None => 0,
        }
    }
}

impl CacheMessage {
    const fn code(&self) -> u8 {
        match self {
            Self::Add(..) => ADD,
            Self::Clear(_) => CLEAR,
            Self::Query(_) => QUERY,
            Self::Marked(_) => MARKED,
            Self::Installed(_) => INSTALLED,
            Self::Gone(_, uses, _) => GONE + uses.progress_code(),
            Self::Used(_, uses) => USED + uses.progress_code(),
            Self::Mark(..) => MARK,
            Self::FlowMark(..) => FLOW_MARK,
        }
    }

    /// Bytes that the message takes.
    pub const fn bytes(&self) -> usize {
        match self {
            Self::Add(..) => MAX_MESSAGE_BYTES,
            Self::Marked(_) => 5,
            Self::Mark(..) => 13,
            Self::FlowMark(..) => 5 + 8 * WORDS,
            Self::Clear(_) | Self::Query(_) | Self::Installed(_) => 9,
            Self::Used(_, uses) => 33 + uses.progress_bytes(),
            Self::Gone(_, uses, _) => 34 + uses.progress_bytes(),
        }
    }

    /// Writes the message to the start of `out`; returns how many bytes it took, or `None` if
    /// there is no room.
    pub fn write(&self, out: &mut [u8]) -> Option<usize> {
        let bytes = self.bytes();
        let mut writer = Writer(out.get_mut(..bytes)?);
        writer.put([self.code()]);
        match self {
            Self::Add(name, rule) => {
                writer.name(name);
                writer.put(rule.used.0.to_be_bytes());
                let words = rule.mask.0.into_iter().chain(rule.value.0);
                words
                    .chain(rule.action.pack())
                    .for_each(|word| writer.put(word.to_be_bytes()));
            }
            Self::Clear(name) | Self::Query(name) | Self::Installed(name) => writer.name(name),
            Self::Used(name, uses) => writer.uses(name, uses),
            Self::Gone(name, uses, why) => {
                writer.uses(name, uses);
                writer.put([*why as u8]);
            }
            Self::Marked(mark) => writer.put(mark.to_be_bytes()),
            Self::Mark(mark, name) => {
                writer.put(mark.to_be_bytes());
                writer.name(name);
            }
            Self::FlowMark(mark, flow) => {
                writer.put(mark.to_be_bytes());
                flow.0
                    .iter()
                    .for_each(|word| writer.put(word.to_be_bytes()));
            }
        }
        Some(bytes)
    }

    /// Reads the message at the start of `body` and moves `body` behind it.
    ///
    /// # Errors
    /// Anything that is no message; `body` is then used up no further than its start.
    pub fn read(body: &mut &[u8]) -> Result<Self, MessageError> {
        let mut reader = Reader {
            rest: body,
            have: body.len(),
        };
        let [code] = reader.take()?;
        let message = match code {
            ADD => Self::Add(reader.name()?, Box::new(reader.rule()?)),
            CLEAR => Self::Clear(reader.name()?),
            QUERY => Self::Query(reader.name()?),
            MARKED => Self::Marked(reader.u32()?),
            INSTALLED => Self::Installed(reader.name()?),
            GONE => Self::Gone(reader.name()?, reader.uses()?, reader.reason()?),
            GONE_TELLING => Self::Gone(reader.name()?, reader.telling()?, reader.reason()?),
            USED => Self::Used(reader.name()?, reader.uses()?),
            USED_TELLING => Self::Used(reader.name()?, reader.telling()?),
            MARK => Self::Mark(reader.u32()?, reader.name()?),
            FLOW_MARK => Self::FlowMark(reader.u32()?, MatchKey(reader.words()?)),
            other => return Err(MessageError::Code(other)),
        };
        *body = reader.rest;
        Ok(message)
    }
}

/// The messages of a body; ends after the first error.
pub fn messages(body: &[u8]) -> impl Iterator<Item = Result<CacheMessage, MessageError>> + '_ {
    let mut rest = body;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let message = CacheMessage::read(&mut rest);
        if message.is_err() {
            rest = &[];
        }
        Some(message)
    })
}

struct Writer<'a>(&'a mut [u8]);

impl Writer<'_> {
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        let place = std::mem::take(&mut self.0);
        if let Some((place, rest)) = place.split_first_chunk_mut() {
            *place = bytes;
            self.0 = rest;
        }
    }

    fn name(&mut self, name: &RuleName) {
        self.put(name.id.to_be_bytes());
        self.put(name.generation.to_be_bytes());
    }

    fn uses(&mut self, name: &RuleName, uses: &Uses) {
        self.name(name);
        for number in [uses.packets, uses.bytes, uses.last.0] {
            self.put(number.to_be_bytes());
        }
        if let Some(progress) = uses.progress {
            self.put(progress.word().to_be_bytes());
        }
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    have: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], MessageError> {
        let Some((bytes, rest)) = self.rest.split_first_chunk() else {
            let (have, read) = (self.have, self.have - self.rest.len());
            return Err(MessageError::Truncated {
                have,
                need: read + N,
            });
        };
        self.rest = rest;
        Ok(*bytes)
    }

    fn u32(&mut self) -> Result<u32, MessageError> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, MessageError> {
        self.take().map(u64::from_be_bytes)
    }

    fn words<const N: usize>(&mut self) -> Result<[u64; N], MessageError> {
        let mut words = [0; N];
        for word in &mut words {
            *word = self.u64()?;
        }
        Ok(words)
    }

    fn name(&mut self) -> Result<RuleName, MessageError> {
        let (id, generation) = (self.u32()?, self.u32()?);
        Ok(RuleName { id, generation })
    }

    fn uses(&mut self) -> Result<Uses, MessageError> {
        let [packets, bytes, last] = self.words()?;
        let last = Instant(last);
        Ok(Uses {
            packets,
            bytes,
            last,
            progress: None,
        })
    }

    /// The same with the progress behind it.
    fn telling(&mut self) -> Result<Uses, MessageError> {
        let uses = self.uses()?;
        let progress = Some(TcpProgress::from_word(self.u64()?));
        Ok(Uses { progress, ..uses })
    }

    fn reason(&mut self) -> Result<Gone, MessageError> {
        let [number] = self.take()?;
        let reason = Gone::ALL.get(usize::from(number));
        reason.copied().ok_or(MessageError::Reason(number))
    }

    fn rule(&mut self) -> Result<NewRule, MessageError> {
        let used = Instant(self.u64()?);
        let (mask, value) = (MatchKey(self.words()?), MatchKey(self.words()?));
        let action: ActionWords = self.words()?;
        let always = mask.and(&MatchKey::ALWAYS) == MatchKey::ALWAYS;
        if !always || !value.without(&mask).is_none() {
            return Err(MessageError::Mask);
        }
        Ok(NewRule {
            mask,
            value,
            action: Action::unpack(&action).ok_or(MessageError::Verdict)?,
            used,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use twinpath_core::DropReason;

    fn message() -> impl Strategy<Value = CacheMessage> {
        let name = any::<(u32, u32)>().prop_map(|(id, generation)| RuleName { id, generation });
        let uses = any::<(u64, u64, u64, Option<u64>)>();
        let uses = uses.prop_map(|(packets, bytes, last, progress)| Uses {
            packets,
            bytes,
            last: Instant(last),
            progress: progress.map(TcpProgress::from_word),
        });
        let words = any::<([u64; 6], [u64; 6], [u64; 8], u64)>();
        (0u8..9, name, uses, words, 0usize..5).prop_map(|(kind, name, uses, words, why)| {
            let (mask, value, mut action, used) = words;
            action[5] = (action[5] & !0xff) | (action[5] % (1 + DropReason::COUNT as u64));
            let mask = MatchKey(mask).or(&MatchKey::ALWAYS);
            match kind {
                0 => CacheMessage::Add(
                    name,
                    Box::new(NewRule {
                        mask,
                        value: MatchKey(value).and(&mask),
                        action: Action::unpack(&action).expect("a verdict there is"),
                        used: Instant(used),
                    }),
                ),
                1 => CacheMessage::Clear(name),
                2 => CacheMessage::Query(name),
                3 => CacheMessage::Marked(name.id),
                4 => CacheMessage::Installed(name),
                5 => CacheMessage::Gone(name, uses, Gone::ALL[why]),
                6 => CacheMessage::Used(name, uses),
                7 => CacheMessage::Mark(used as u32, name),
                _ => CacheMessage::FlowMark(name.id, MatchKey(value)),
            }
        })
    }

    proptest! {
        #[test]
        fn messages_survive_the_link(sent in prop::collection::vec(message(), 1..10)) {
            let mut body = vec![0; MAX_MESSAGE_BYTES * 10];
            let mut end = 0;
            for message in &sent {
                end += message.write(&mut body[end..]).expect("room");
            }
            let received: Result<Vec<_>, _> = messages(&body[..end]).collect();
            prop_assert_eq!(received.expect("as written"), sent);
        }

        #[test]
        fn a_message_cut_short_is_refused(message in message(), cut in 1usize..200) {
            let mut body = [0; MAX_MESSAGE_BYTES];
            let bytes = message.write(&mut body).expect("room");
            let left = bytes.saturating_sub(cut);
            let refused = matches!(
                CacheMessage::read(&mut &body[..left]),
                Err(MessageError::Truncated { have, need }) if have == left && need > left
            );
            prop_assert!(refused);
            prop_assert_eq!(message.write(&mut body[..left]), None);
        }

        #[test]
        fn nonsense_never_panics(body in prop::collection::vec(any::<u8>(), 0..400)) {
            for message in messages(&body).flatten() {
                let mut again = [0; MAX_MESSAGE_BYTES];
                let bytes = message.write(&mut again).expect("room");
                prop_assert_eq!(CacheMessage::read(&mut &again[..bytes]), Ok(message));
            }
        }
    }
}
