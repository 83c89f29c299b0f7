//! One queue pair of a responder.

use super::region::{Access, Regions};
use super::{Config, Counters, Device, Request};
use std::collections::VecDeque;
use twinpath_core::wire::Address;
use twinpath_core::wire::roce::{
    Aeth, Header, MAX_NUMBER, Nak, Opcode, Path, Psn, Reth, Syndrome, pad_bytes,
};
use twinpath_core::{Frame, Pools};

/// READs that may be answered again.
const REPLAYED: usize = 64;

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nobody has restored it yet.
    #[default]
    Reset,
    Ready,
    /// It sent a NAK from which there is no way back.
    Error,
}

/// A READ that was accepted.
#[derive(Copy, Clone)]
struct Read {
    psn: Psn,
    reth: Reth,
}

impl Read {
    fn packets(&self, mtu: u32) -> u32 {
        self.reth.bytes.div_ceil(mtu).max(1)
    }
}

/// What waits to be sent.
#[derive(Copy, Clone)]
enum Answer {
    /// The rest of what a READ asked for.
    Read {
        rest: Read,
        has_begun: bool,
        is_replay: bool,
    },
    /// All up to there was executed.
    Acknowledge { psn: Psn },
    /// It was not.
    Refuse { psn: Psn, why: Nak },
}

/// A WRITE of several packets of which the last has not come.
#[derive(Copy, Clone)]
struct Writing {
    /// What is still to come.
    rest: Reth,
}

/// One queue pair.
#[derive(Default)]
pub struct QueuePair {
    state: State,
    qpn: u32,
    peer_qpn: u32,
    path: Option<Path>,
    expected: Psn,
    /// Messages that were finished, modulo 2^24.
    messages: u32,
    is_refused: bool,
    writing: Option<Writing>,
    /// The last READs, to be answered again.
    reads: VecDeque<Read>,
    answers: VecDeque<Answer>,
    /// Of them, READs that came for the first time.
    outstanding: usize,
    /// Of them, READs that came again.
    replayed: usize,
    is_active: bool,
}

impl QueuePair {
    pub fn is(&self, qpn: u32) -> bool {
        self.state != State::Reset && self.qpn == qpn
    }

    pub fn has_peer(&self, source: Address) -> bool {
        self.path.is_some_and(|path| path.destination == source)
    }

    pub fn is_in_error(&self) -> bool {
        self.state == State::Error
    }

    /// Whether there is something to send now, and was not before.
    pub fn becomes_active(&mut self) -> bool {
        let becomes = !self.is_active && !self.answers.is_empty();
        self.is_active |= becomes;
        becomes
    }

    /// Whether there is still something to send.
    pub fn stays_active(&mut self) -> bool {
        self.is_active = !self.answers.is_empty();
        self.is_active
    }

    pub fn restore(&mut self, qpn: u32, path: Path, peer_qpn: u32, psn: Psn) {
        *self = Self {
            state: State::Ready,
            qpn,
            peer_qpn,
            path: Some(path),
            expected: psn,
            // It may be in the list of those with something to send, and leaves that in its turn.
            is_active: self.is_active,
            ..Self::default()
        };
    }

    /// Takes a request of its peer. While too many answers wait it is lost, as on the way.
    pub fn request(&mut self, request: &Request<'_>, device: &mut Device<'_>) {
        // With each READ there may be a NAK and an acknowledgement.
        let most = 6 * usize::from(device.config.reads) + 16;
        if self.answers.len() >= most {
            device.counters.no_room += 1;
            return;
        }
        let psn = request.header.psn;
        match psn.since(self.expected) {
            0 => self.execute(request, device),
            1.. => self.too_early(device),
            _ => self.duplicate(request, device),
        }
    }

    fn execute(&mut self, request: &Request<'_>, device: &mut Device<'_>) {
        self.is_refused = false;
        let done = match request.header.opcode {
            Opcode::READ_REQUEST => self.read(request, device),
            Opcode::WRITE_FIRST | Opcode::WRITE_ONLY | Opcode::WRITE_ONLY_IMMEDIATE => {
                self.begin_write(request, device)
            }
            Opcode::WRITE_MIDDLE | Opcode::WRITE_LAST | Opcode::WRITE_LAST_IMMEDIATE => {
                self.go_on_writing(request, device)
            }
            _ => Err(Nak::InvalidRequest),
        };
        if let Err(why) = done {
            self.state = State::Error;
            self.refuse(request.header.psn, why, device);
        }
    }

    fn refuse(&mut self, psn: Psn, why: Nak, device: &mut Device<'_>) {
        device.count(why);
        self.answers.push_back(Answer::Refuse { psn, why });
    }

    fn too_early(&mut self, device: &mut Device<'_>) {
        if self.is_refused {
            device.counters.out_of_order += 1;
            return;
        }
        self.is_refused = true;
        self.refuse(self.expected, Nak::Sequence, device);
    }

    fn read(&mut self, request: &Request<'_>, device: &mut Device<'_>) -> Result<(), Nak> {
        let reth = request.header.reth.ok_or(Nak::InvalidRequest)?;
        let is_sound = request.payload.is_empty()
            && request.pad_bytes == 0
            && self.writing.is_none()
            && reth.bytes <= device.config.message_bytes
            && self.outstanding < usize::from(device.config.reads);
        if !is_sound {
            return Err(Nak::InvalidRequest);
        }
        if !device.regions.allow(&reth, Access::Read) {
            return Err(Nak::RemoteAccess);
        }
        if device.is_failing {
            return Err(Nak::RemoteOperation);
        }
        let read = Read {
            psn: self.expected,
            reth,
        };
        device.counters.reads += 1;
        self.expected = self.expected.plus(read.packets(device.config.mtu.into()));
        self.finished_message();
        if self.reads.len() == REPLAYED {
            self.reads.pop_front();
        }
        self.reads.push_back(read);
        self.outstanding += 1;
        self.answers.push_back(Answer::Read {
            rest: read,
            has_begun: false,
            is_replay: false,
        });
        Ok(())
    }

    fn begin_write(&mut self, request: &Request<'_>, device: &mut Device<'_>) -> Result<(), Nak> {
        let reth = request.header.reth.ok_or(Nak::InvalidRequest)?;
        if self.writing.is_some() || reth.bytes > device.config.message_bytes {
            return Err(Nak::InvalidRequest);
        }
        if !device.regions.allow(&reth, Access::Write) {
            return Err(Nak::RemoteAccess);
        }
        self.writing = Some(Writing { rest: reth });
        self.go_on_writing(request, device)
    }

    /// Writes a packet's payload where the WRITE is, whose part it must be in length, too.
    fn go_on_writing(&mut self, request: &Request<'_>, device: &mut Device<'_>) -> Result<(), Nak> {
        let rest = self.writing.ok_or(Nak::InvalidRequest)?.rest;
        let (bytes, mtu) = (request.payload.len() as u32, u32::from(device.config.mtu));
        let is_last = is_last(request.header.opcode);
        let has_length = match is_last {
            true => bytes == rest.bytes && bytes <= mtu,
            false => bytes == mtu && rest.bytes > mtu,
        };
        // A WRITE of no bytes is one packet; its last one has some, so nothing is left out here.
        if !has_length || request.pad_bytes != pad_bytes(request.payload.len()) {
            return Err(Nak::InvalidRequest);
        }
        if device.is_failing {
            return Err(Nak::RemoteOperation);
        }
        let part = Reth { bytes, ..rest };
        let place = device.regions.bytes_mut(&part).ok_or(Nak::RemoteAccess)?;
        place.copy_from_slice(request.payload);
        device.counters.written_bytes += u64::from(bytes);
        self.writing = (!is_last).then_some(Writing {
            rest: rest_behind(rest, bytes),
        });
        self.expected = self.expected.plus(1);
        if is_last {
            device.counters.writes += 1;
            self.finished_message();
        }
        if request.header.ack_request {
            self.acknowledge();
        }
        Ok(())
    }

    fn finished_message(&mut self) {
        self.messages = (self.messages + 1) & MAX_NUMBER;
    }

    /// All that was executed is acknowledged behind the answers that wait; two acknowledgements in a
    /// row are one.
    fn acknowledge(&mut self) {
        let psn = self.expected.previous();
        match self.answers.back_mut() {
            Some(Answer::Acknowledge { psn: last }) => *last = psn,
            _ => self.answers.push_back(Answer::Acknowledge { psn }),
        }
    }

    fn duplicate(&mut self, request: &Request<'_>, device: &mut Device<'_>) {
        device.counters.duplicates += 1;
        if request.header.opcode != Opcode::READ_REQUEST {
            self.acknowledge();
            return;
        }
        let psn = request.header.psn;
        let mtu = u32::from(device.config.mtu);
        let is_same = |known: &Read| is_rest_of(known, psn, request.header.reth, mtu);
        let is_known = self.reads.iter().any(is_same);
        let has_room = self.replayed < usize::from(device.config.reads);
        match request.header.reth {
            Some(reth) if is_known && has_room => {
                device.counters.replays += 1;
                self.replayed += 1;
                self.answers.push_back(Answer::Read {
                    rest: Read { psn, reth },
                    has_begun: false,
                    is_replay: true,
                });
            }
            _ => device.counters.replays_refused += 1,
        }
    }

    /// The next frame that is to be sent: `None` if there is no buffer for it, `Some(None)` if there is
    /// nothing.
    pub fn answer(
        &mut self,
        config: &Config,
        regions: &Regions,
        counters: &mut Counters,
        pools: &mut Pools,
    ) -> Option<Option<Frame>> {
        let (Some(mut answer), Some(path)) = (self.answers.pop_front(), self.path) else {
            return Some(None);
        };
        let mut payload: &[u8] = &[];
        if let Answer::Read { rest, .. } = answer {
            let bytes = rest.reth.bytes.min(config.mtu.into());
            match regions.bytes(&Reth { bytes, ..rest.reth }) {
                Some(part) => payload = part,
                None => answer = self.withdrawn(rest.psn, counters),
            }
        }
        let header = self.header(&answer, config.mtu.into());
        let Some(frame) = written(&path, &header, payload, pools) else {
            self.answers.push_front(answer);
            return None;
        };
        counters.read_bytes += payload.len() as u64;
        match answer {
            Answer::Read {
                rest, is_replay, ..
            } => self.go_on_reading(rest, is_replay, payload.len() as u32),
            Answer::Acknowledge { .. } => counters.acknowledgements += 1,
            Answer::Refuse { .. } => {}
        }
        Some(Some(frame))
    }

    /// The memory that a READ was allowed is registered no more.
    fn withdrawn(&mut self, psn: Psn, counters: &mut Counters) -> Answer {
        self.state = State::Error;
        self.answers.clear();
        (self.outstanding, self.replayed) = (0, 0);
        counters.naks_access += 1;
        let why = Nak::RemoteAccess;
        Answer::Refuse { psn, why }
    }

    fn header(&self, answer: &Answer, mtu: u32) -> Header {
        let aeth = |syndrome| {
            Some(Aeth {
                syndrome,
                messages: self.messages,
            })
        };
        let (opcode, psn, syndrome) = match *answer {
            Answer::Read {
                rest, has_begun, ..
            } => {
                let is_last = rest.reth.bytes <= mtu;
                let opcode = match (has_begun, is_last) {
                    (false, true) => Opcode::READ_RESPONSE_ONLY,
                    (false, false) => Opcode::READ_RESPONSE_FIRST,
                    (true, false) => Opcode::READ_RESPONSE_MIDDLE,
                    (true, true) => Opcode::READ_RESPONSE_LAST,
                };
                (opcode, rest.psn, Syndrome::ACK)
            }
            Answer::Acknowledge { psn } => (Opcode::ACKNOWLEDGE, psn, Syndrome::ACK),
            Answer::Refuse { psn, why } => (Opcode::ACKNOWLEDGE, psn, Syndrome::Nak(why)),
        };
        Header {
            aeth: aeth(syndrome).filter(|_| opcode.has_aeth()),
            ..Header::new(opcode, self.peer_qpn, psn)
        }
    }

    fn go_on_reading(&mut self, rest: Read, is_replay: bool, sent: u32) {
        if sent == rest.reth.bytes {
            match is_replay {
                true => self.replayed -= 1,
                false => self.outstanding -= 1,
            }
            return;
        }
        let rest = Read {
            psn: rest.psn.plus(1),
            reth: rest_behind(rest.reth, sent),
        };
        self.answers.push_front(Answer::Read {
            rest,
            has_begun: true,
            is_replay,
        });
    }
}

fn rest_behind(reth: Reth, bytes: u32) -> Reth {
    Reth {
        address: reth.address.wrapping_add(bytes.into()),
        bytes: reth.bytes - bytes,
        ..reth
    }
}

const fn is_last(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::WRITE_LAST
            | Opcode::WRITE_LAST_IMMEDIATE
            | Opcode::WRITE_ONLY
            | Opcode::WRITE_ONLY_IMMEDIATE
    )
}

/// Whether a request is for all of a READ, or for all of it from one of its packets on.
fn is_rest_of(known: &Read, psn: Psn, reth: Option<Reth>, mtu: u32) -> bool {
    let packets = u32::try_from(psn.since(known.psn)).ok();
    let packets = packets.filter(|&packets| packets < known.packets(mtu));
    packets.is_some_and(|packets| reth == Some(rest_behind(known.reth, packets * mtu)))
}

fn written(path: &Path, header: &Header, payload: &[u8], pools: &mut Pools) -> Option<Frame> {
    let length = path.frame_bytes(header, payload.len());
    let mut frame = pools.take(length)?;
    if !frame.set_len(length) {
        pools.give(frame);
        return None;
    }
    let front = path.front_bytes(header);
    frame.bytes_mut()[front..front + payload.len()].copy_from_slice(payload);
    let emitted = path.emit(header, payload.len(), frame.bytes_mut());
    debug_assert!(emitted.is_ok(), "{emitted:?}");
    Some(frame)
}
