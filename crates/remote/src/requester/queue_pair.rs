//! One queue pair of a requester: what is under way, in order, and what is done when it does not arrive.

use super::{Config, Context, INDEX_BITS, SERVER_BITS, read_header};
use crate::handle::{Sequence, front_bytes, header_info, stored_bytes};
use crate::payloads::{DownReason, Event, Lost, QueuePairStatus, Returned};
use crate::ring::StoredPayload;
use crate::server::Draws;
use std::collections::VecDeque;
use std::time::Duration;
use twinpath_core::wire::roce::{Header, Nak, Opcode, Psn, Reth, RocePacket, Syndrome};
use twinpath_core::{Frame, Instant, Pools, Ticket};

/// A payload that was asked for.
#[derive(Copy, Clone, Debug)]
pub struct Read {
    /// Whose ring it lies in.
    pub ring: u16,
    /// Which payload of it.
    pub sequence: Sequence,
    /// Whose header waits.
    pub header: Ticket,
    /// When it is too late.
    pub deadline: Instant,
    /// When it was asked for first.
    pub sent: Option<Instant>,
}

/// What a number of the sequence stands for.
#[derive(Copy, Clone, Debug)]
enum Request {
    Write(Sequence),
    Read(Read),
    /// A READ that was answered.
    Answered,
    /// An empty WRITE.
    Empty,
    /// A READ that nobody waits for any more: the server may be about to answer it, or an empty WRITE is in
    /// its place.
    GivenUp,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum State {
    /// It has no life, and the next one is asked for at this time.
    Down {
        ask_at: Instant,
        wait: Duration,
        since: Instant,
    },
    /// It takes requests.
    Ready,
}

const FIRST_WAIT: Duration = Duration::from_millis(1);
/// The paper's control loop looks for queue pairs in error so often.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Most requests that are sent again in one go.
const MOST_AGAIN: usize = 64;
/// As many requests are kept free for empty WRITEs.
const RESERVED: usize = 2;

/// One queue pair.
pub struct QueuePair {
    /// Which of the requester's.
    index: u16,
    /// Which of the server's.
    number: u16,
    state: State,
    /// Which life it is, or will be next.
    epoch: u16,
    /// Whether the server has taken or given a payload in this life.
    has_served: bool,
    /// How long the next life waits if the server serves nothing in this one either.
    vain_wait: Duration,
    /// Whether the first number of the next life is drawn.
    has_psn: bool,
    qpn: u32,
    peer_qpn: u32,
    /// The number of the first request that is under way.
    first: Psn,
    /// Requests under way, by number.
    window: VecDeque<Request>,
    /// All before this one are known to be executed.
    executed: Psn,
    /// From here on READs and empty WRITEs are to be sent again.
    resend: Option<Psn>,
    /// How many of them in one go.
    burst: usize,
    /// The next ones go when all before this one are known to be executed: what loses or reorders them again
    /// would have all of them sent once more.
    awaited: Psn,
    /// Where something was missing that has been sent again, so that it is not at each answer.
    mended: Option<Psn>,
    /// READs that wait to be asked.
    waiting: VecDeque<Read>,
    /// READs that the server may be about to answer.
    outstanding: usize,
    /// When something last went on.
    since: Instant,
    /// How often nothing came in time since.
    attempts: u32,
    /// When that was last so.
    attempted: Instant,
    /// Nothing is sent earlier.
    not_before: Instant,
    /// WRITEs since an acknowledgement was last asked for.
    unacknowledged: u32,
    /// What was counted of it alone.
    figures: QueuePairStatus,
    /// How long the fastest READ took, since somebody has asked.
    fastest_read: Option<Duration>,
    /// How long answers take.
    answers: AnswerTime,
}

/// How long answers take, smoothed, and how much that varies (as RFC 6298 has it).
#[derive(Copy, Clone, Debug, Default)]
struct AnswerTime {
    smoothed: Duration,
    variation: Duration,
}

impl AnswerTime {
    /// One has taken so long from when it was first asked for.
    fn took(&mut self, time: Duration) {
        match self.smoothed.is_zero() {
            true => (self.smoothed, self.variation) = (time, time / 2),
            false => {
                let off = self.smoothed.abs_diff(time);
                self.variation = (3 * self.variation + off) / 4;
                self.smoothed = (7 * self.smoothed + time) / 8;
            }
        }
    }

    /// After so long there may be none.
    fn timeout(self) -> Duration {
        self.smoothed + 4 * self.variation
    }
}

impl QueuePair {
    /// One whose first life has this number.
    pub fn new(index: u16, number: u16, epoch: u16) -> Self {
        let ask_at = Instant::ZERO;
        Self {
            index,
            number,
            state: State::Down {
                ask_at,
                wait: FIRST_WAIT,
                since: Instant::NEVER,
            },
            epoch,
            has_served: false,
            vain_wait: FIRST_WAIT,
            has_psn: false,
            qpn: 0,
            peer_qpn: 0,
            first: Psn::default(),
            window: VecDeque::new(),
            executed: Psn::default(),
            resend: None,
            burst: 1,
            awaited: Psn::default(),
            mended: None,
            waiting: VecDeque::new(),
            outstanding: 0,
            since: ask_at,
            attempts: 0,
            attempted: ask_at,
            not_before: ask_at,
            unacknowledged: 0,
            figures: QueuePairStatus::default(),
            fastest_read: None,
            answers: AnswerTime::default(),
        }
    }

    /// Which of the server's it is.
    pub const fn number(&self) -> u16 {
        self.number
    }

    /// What is known of it.
    pub fn figures(&self) -> QueuePairStatus {
        QueuePairStatus {
            number: self.number,
            is_ready: self.is_ready(),
            ..self.figures
        }
    }

    /// How long the fastest READ took from when it was wanted, since this was asked last.
    pub fn take_fastest_read(&mut self) -> Option<Duration> {
        self.fastest_read.take()
    }

    pub fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// Whether an answer is to this life.
    pub fn is(&self, qpn: u32) -> bool {
        self.is_ready() && self.qpn == qpn
    }

    /// The number that answers go to.
    #[cfg(test)]
    pub fn own_number(&self) -> u32 {
        self.qpn
    }

    // Lives.

    pub fn is_to_be_asked(&self, now: Instant) -> bool {
        matches!(self.state, State::Down { ask_at, .. } if ask_at <= now)
    }

    /// What is to be asked for: epoch, own number, first number of the sequence. The same again until
    /// it is answered.
    pub fn ask(
        &mut self,
        config: &Config,
        draws: &mut Draws,
        now: Instant,
    ) -> Option<(u16, u32, Psn)> {
        let State::Down { wait, since, .. } = self.state else {
            return None;
        };
        if !self.has_psn {
            self.first = Psn::new(draws.next() as u32);
            self.has_psn = true;
        }
        // Numbers 0 and 1 are for management, so epochs count from 1 here.
        let epoch = u32::from(self.epoch % 255) + 1;
        let server = u32::from(config.server) & ((1 << SERVER_BITS) - 1);
        self.qpn = (epoch << SERVER_BITS | server) << INDEX_BITS | u32::from(self.number);
        self.state = State::Down {
            ask_at: now + wait,
            wait: (2 * wait).min(LONGEST_WAIT),
            since,
        };
        Some((self.epoch, self.qpn, self.first))
    }

    /// The server has begun a life: whether it is the one that was asked for.
    pub fn begin(&mut self, epoch: u16, peer_qpn: u32, now: Instant) -> bool {
        let begins = !self.is_ready() && self.has_psn && self.epoch == epoch;
        if begins {
            self.figures.lives += 1;
            self.has_served = false;
            self.state = State::Ready;
            self.peer_qpn = peer_qpn;
            self.executed = self.first;
            (self.resend, self.mended) = (None, None);
            self.goes_on(now);
            self.not_before = now;
            self.unacknowledged = 0;
        }
        begins
    }

    fn end(&mut self, now: Instant, ask_at: Instant) {
        self.window.clear();
        self.outstanding = 0;
        self.resend = None;
        let since = match self.state {
            State::Down { since, .. } => since.min(now),
            State::Ready => now,
        };
        self.epoch = self.epoch.wrapping_add(1);
        self.has_psn = false;
        self.state = State::Down {
            ask_at,
            wait: FIRST_WAIT,
            since,
        };
    }

    /// Whether it has had no life for so long that whoever waits for a payload waits in vain.
    pub fn is_dead(&self, now: Instant, config: &Config) -> bool {
        match self.state {
            State::Down { since, .. } => since + config.read_timeout <= now,
            State::Ready => false,
        }
    }

    /// How long the next life is not asked for. Each costs what is sent until its end, so those of a server
    /// that gives them but serves nothing become ever rarer.
    fn wait_for_life(&mut self) -> Duration {
        if self.has_served {
            self.vain_wait = FIRST_WAIT;
            return Duration::ZERO;
        }
        let wait = self.vain_wait;
        self.vain_wait = (2 * wait).min(LONGEST_WAIT);
        wait
    }

    /// The server has nothing any more: whose headers wait in vain.
    pub fn forget(&mut self, now: Instant) -> impl Iterator<Item = Ticket> + use<> {
        let under_way = self.window.iter().filter_map(|request| match request {
            Request::Read(read) => Some(*read),
            _ => None,
        });
        let lost: Vec<_> = under_way.chain(self.waiting.drain(..)).collect();
        self.vain_wait = FIRST_WAIT;
        self.end(now, now);
        lost.into_iter().map(|read| read.header)
    }

    /// An error from which only another life helps. What the server has is still there then.
    fn disable(&mut self, why: DownReason, context: &mut Context<'_>) {
        context.counters.disabled += 1;
        self.figures.errors += 1;
        self.figures.last_error = Some(why);
        context.output.events.push(Event::Down(self.number, why));
        self.give_up_from(self.executed, context);
        // What was asked for and is there is asked for again, in front of what waits.
        for request in self.window.iter().rev() {
            if let Request::Read(read) = request {
                self.waiting.push_front(*read);
            }
        }
        let ask_at = context.now + self.wait_for_life();
        self.end(context.now, ask_at);
    }

    // The window.

    fn next(&self) -> Psn {
        self.first.plus(self.window.len() as u32)
    }

    /// Where in the window a number is.
    fn position(&self, psn: Psn) -> Option<usize> {
        let position = usize::try_from(psn.since(self.first)).ok()?;
        (position < self.window.len()).then_some(position)
    }

    /// Whether another payload may be written: one that could not be read in time is better not written. Of
    /// READs the server answers so many in the time that an answer takes.
    pub fn may_write(&self, config: &Config, reads: u8, now: Instant) -> bool {
        let rounds = self.waiting.len() as u32 / u32::from(reads.max(1));
        let wait = self.answers.smoothed.saturating_mul(rounds);
        wait <= config.read_timeout / 4 && self.has_room(config, now)
    }

    /// Whether another request may be sent.
    fn has_room(&self, config: &Config, now: Instant) -> bool {
        self.resend.is_none()
            && now >= self.not_before
            && self.window.len() + RESERVED < config.window
    }

    fn push(&mut self, request: Request, now: Instant) {
        if self.window.is_empty() {
            self.goes_on(now);
        }
        self.window.push_back(request);
    }

    /// All before a number was executed.
    fn executed_before(&mut self, psn: Psn, context: &mut Context<'_>) {
        let from = self.executed.since(self.first).max(0) as usize;
        let to = psn.since(self.first).max(0) as usize;
        for request in self.window.range(from.min(to)..to) {
            if let Request::Write(sequence) = request {
                context.rings[usize::from(self.index)].written(*sequence);
                self.has_served = true;
            }
        }
        if psn.since(self.executed) > 0 {
            self.executed = psn;
            self.goes_on(context.now);
        }
        self.retire();
    }

    fn goes_on(&mut self, now: Instant) {
        (self.since, self.attempts, self.attempted) = (now, 0, now);
    }

    /// Forgets what is done at the window's start.
    fn retire(&mut self) {
        while let Some(request) = self.window.front() {
            let is_executed = self.executed.since(self.first) > 0;
            let is_done = match request {
                Request::Write(_) | Request::Empty | Request::GivenUp => is_executed,
                Request::Answered => true,
                Request::Read(_) => false,
            };
            if !is_done {
                return;
            }
            self.outstanding -= usize::from(matches!(request, Request::GivenUp));
            self.window.pop_front();
            self.first = self.first.plus(1);
        }
    }

    /// Requests from a number on did not reach the server, or may not have: the payloads among them
    /// are lost, and READs of those.
    fn give_up_from(&mut self, psn: Psn, context: &mut Context<'_>) {
        let from = psn.since(self.first).max(0) as usize;
        for request in self.window.range_mut(from.min(self.window.len())..) {
            match *request {
                Request::Write(sequence) => {
                    context.counters.writes_lost += 1;
                    context.rings[usize::from(self.index)].free(sequence);
                    *request = Request::Empty;
                }
                Request::Read(read) if place(context, &read).is_none() => {
                    context.lose(read.header, Lost::Write);
                    *request = Request::GivenUp;
                }
                _ => {}
            }
        }
    }

    /// What waits for an answer is sent again, once for each place where something is missing.
    fn mend(&mut self, at: Psn) {
        if self.mended != Some(at) {
            self.mended = Some(at);
            self.begin_again();
        }
    }

    fn may_send_again(&self) -> bool {
        self.executed.since(self.awaited) >= 0
    }

    fn begin_again(&mut self) {
        self.resend = Some(self.first);
        (self.burst, self.awaited) = (1, self.first);
    }

    // Requests.

    /// The header of the next WRITE.
    pub fn write_header(&self, address: u64, rkey: u32, bytes: u32, config: &Config) -> Header {
        let is_half_full = self.window.len() == config.window / 2;
        let reth = Reth {
            address,
            rkey,
            bytes,
        };
        Header {
            ack_request: self.unacknowledged + 1 >= config.ack_every || is_half_full,
            reth: Some(reth),
            ..Header::new(Opcode::WRITE_ONLY, self.peer_qpn, self.next())
        }
    }

    /// It is under way.
    pub fn wrote(&mut self, sequence: Sequence, now: Instant, is_acknowledged: bool) {
        self.figures.writes += 1;
        self.unacknowledged = match is_acknowledged {
            true => 0,
            false => self.unacknowledged + 1,
        };
        self.push(Request::Write(sequence), now);
    }

    /// Whether another READ may wait.
    pub fn may_wait(&self, config: &Config) -> bool {
        self.waiting.len() < config.waiting.max(1)
    }

    /// Asks for a payload, now or when there is room.
    pub fn read(&mut self, read: Read, context: &mut Context<'_>, pools: &mut Pools) {
        self.figures.reads += 1;
        self.waiting.push_back(read);
        self.ask_for_waiting(context, pools);
    }

    fn ask_for_waiting(&mut self, context: &mut Context<'_>, pools: &mut Pools) {
        while let Some(&read) = self.waiting.front() {
            let Some(place) = place(context, &read) else {
                self.waiting.pop_front();
                context.lose(read.header, Lost::Write);
                continue;
            };
            let is_early = read.ring != self.index && !place.is_written;
            let has_room = self.is_ready()
                && self.outstanding < usize::from(context.peer.memory.reads)
                && self.has_room(context.config, context.now);
            let psn = self.next();
            if is_early || !has_room || !self.send_read(psn, &place, context, pools) {
                return;
            }
            self.waiting.pop_front();
            self.outstanding += 1;
            let sent = read.sent.or(Some(context.now));
            self.push(Request::Read(Read { sent, ..read }), context.now);
        }
    }

    fn send_read(
        &self,
        psn: Psn,
        place: &StoredPayload,
        context: &mut Context<'_>,
        pools: &mut Pools,
    ) -> bool {
        let reth = Reth {
            address: place.address,
            rkey: context.peer.memory.rkey,
            bytes: stored_bytes(place.bytes.into()) as u32,
        };
        let header = read_header(self.peer_qpn, psn, reth);
        context.request(self.number, &header, pools)
    }

    fn send_empty(&self, psn: Psn, context: &mut Context<'_>, pools: &mut Pools) -> bool {
        let reth = Reth {
            address: context.peer.memory.address,
            rkey: context.peer.memory.rkey,
            bytes: 0,
        };
        let header = Header {
            ack_request: true,
            reth: Some(reth),
            ..Header::new(Opcode::WRITE_ONLY, self.peer_qpn, psn)
        };
        context.request(self.number, &header, pools)
    }

    /// Sends again what is to be sent again, as far as there are buffers: one request first, and twice as
    /// many each time that they were executed.
    fn send_again(&mut self, context: &mut Context<'_>, pools: &mut Pools) {
        let Some(from) = self.resend.filter(|_| self.may_send_again()) else {
            return;
        };
        self.resend = None;
        let mut left = self.burst;
        let start = from.since(self.first).max(0) as usize;
        for position in start..self.window.len() {
            let psn = self.first.plus(position as u32);
            if left == 0 {
                (self.resend, self.awaited) = (Some(psn), psn);
                self.burst = (2 * self.burst).min(MOST_AGAIN);
                return;
            }
            let is_sent = match self.window[position] {
                Request::Read(read) => match place(context, &read) {
                    Some(place) => {
                        left -= 1;
                        context.counters.reads_repeated += 1;
                        self.send_read(psn, &place, context, pools)
                    }
                    None => true,
                },
                Request::Empty | Request::GivenUp if psn.since(self.executed) >= 0 => {
                    left -= 1;
                    context.counters.empty_writes += 1;
                    self.send_empty(psn, context, pools)
                }
                _ => true,
            };
            if !is_sent {
                (self.resend, self.awaited) = (Some(psn), self.first);
                return;
            }
        }
    }

    // Answers.

    pub fn answer(
        &mut self,
        frame: Frame,
        packet: &RocePacket,
        context: &mut Context<'_>,
        pools: &mut Pools,
    ) {
        let psn = packet.header.psn;
        match (packet.header.opcode, packet.header.aeth) {
            (Opcode::READ_RESPONSE_ONLY, Some(_)) => {
                self.response(frame, packet, context, pools);
            }
            (Opcode::ACKNOWLEDGE, Some(aeth)) => {
                pools.give(frame);
                self.acknowledgement(psn, aeth.syndrome, context);
            }
            _ => {
                context.counters.stale += 1;
                pools.give(frame);
            }
        }
        self.send(context, pools);
    }

    fn acknowledgement(&mut self, psn: Psn, syndrome: Syndrome, context: &mut Context<'_>) {
        // A NAK "sequence" may name the next number, of which there is no request yet.
        let is_known = self.position(psn).is_some()
            || psn == self.next() && syndrome == Syndrome::Nak(Nak::Sequence);
        if !is_known {
            context.counters.stale += 1;
            return;
        }
        match syndrome {
            Syndrome::Ack(_) => {
                self.executed_before(psn.plus(1), context);
                self.look_for_gap(context);
            }
            Syndrome::Nak(Nak::Sequence) => {
                self.executed_before(psn, context);
                self.refused_from(psn, context);
                context.counters.naks_sequence += 1;
            }
            Syndrome::NotReady(timer) => {
                self.executed_before(psn, context);
                self.refused_from(psn, context);
                // No longer than a payload may take: what says so may be forged.
                let pause = not_ready_time(timer).min(context.config.read_timeout);
                self.not_before = context.now + pause;
                // Until then nothing is waited for.
                (self.since, self.attempted) = (self.not_before, self.not_before);
                context.counters.naks_not_ready += 1;
            }
            Syndrome::Nak(why) => {
                self.executed_before(psn, context);
                let counters = &mut *context.counters;
                let (count, why) = match why {
                    Nak::RemoteAccess => (&mut counters.naks_access, DownReason::RemoteAccess),
                    Nak::RemoteOperation => {
                        (&mut counters.naks_operation, DownReason::RemoteOperation)
                    }
                    _ => (&mut counters.naks_invalid, DownReason::InvalidRequest),
                };
                *count += 1;
                self.disable(why, context);
            }
            Syndrome::Reserved(_) => context.counters.stale += 1,
        }
    }

    fn refused_from(&mut self, psn: Psn, context: &mut Context<'_>) {
        if self.mended != Some(psn) {
            self.give_up_from(psn, context);
            self.mend(psn);
        }
    }

    /// A READ that was executed and stands at the window's start has lost its answer.
    fn look_for_gap(&mut self, context: &mut Context<'_>) {
        let is_gap = self.executed.since(self.first) > 0 && !self.window.is_empty();
        if is_gap && self.mended != Some(self.first) {
            context.counters.gaps += 1;
            self.mend(self.first);
        }
    }

    fn response(
        &mut self,
        frame: Frame,
        packet: &RocePacket,
        context: &mut Context<'_>,
        pools: &mut Pools,
    ) {
        let psn = packet.header.psn;
        let position = self.position(psn);
        let is_read = |request: &Request| matches!(request, Request::Read(_));
        match position.map(|position| (position, self.window[position])) {
            Some((position, Request::Read(read))) => {
                if self.window.range(..position).any(is_read) {
                    self.executed_before(psn.plus(1), context);
                    self.look_for_gap(context);
                    pools.give(frame);
                    return;
                }
                self.window[position] = Request::Answered;
                self.outstanding -= 1;
                self.came(&read, frame, packet, context, pools);
                self.goes_on(context.now);
                self.executed_before(psn.plus(1), context);
            }
            Some((_, Request::Empty | Request::GivenUp)) => {
                pools.give(frame);
                self.executed_before(psn.plus(1), context);
            }
            _ => {
                context.counters.stale += 1;
                pools.give(frame);
            }
        }
    }

    /// A payload came, if it is one.
    fn came(
        &mut self,
        read: &Read,
        mut frame: Frame,
        packet: &RocePacket,
        context: &mut Context<'_>,
        pools: &mut Pools,
    ) {
        let place = place(context, read);
        context.rings[usize::from(read.ring)].free(read.sequence);
        let is_as_written = place.is_some_and(|place| {
            let stored = packet.payload(frame.bytes());
            let front = front_bytes(place.bytes.into());
            stored.len() == stored_bytes(place.bytes.into())
                && stored.starts_with(&header_info(read.sequence, place.bytes))
                && context.tags.of(&stored[front..]) == place.tag
        });
        let Some(place) = place.filter(|_| is_as_written) else {
            pools.give(frame);
            context.lose(read.header, Lost::Mismatch);
            return;
        };
        let bytes = usize::from(place.bytes);
        let is_cut =
            frame.pull_front(packet.payload_at + front_bytes(bytes)) && frame.set_len(bytes);
        debug_assert!(is_cut);
        self.answers
            .took(context.now.since(read.sent.unwrap_or(context.now)));
        let wanted = read.deadline - context.config.read_timeout;
        let took = context.now.since(wanted);
        self.fastest_read = Some(self.fastest_read.map_or(took, |fastest| fastest.min(took)));
        context.counters.payloads += 1;
        self.figures.payloads += 1;
        self.has_served = true;
        context.output.payloads.push(Returned {
            header: read.header,
            payload: Ok(frame),
        });
    }

    // Time.

    pub fn poll(&mut self, context: &mut Context<'_>, pools: &mut Pools) {
        self.end_late_reads(context);
        let is_due = context.now >= self.due(context.config);
        if self.is_ready() && !self.window.is_empty() && is_due {
            self.nothing_came(context);
        }
        self.send(context, pools);
    }

    fn send(&mut self, context: &mut Context<'_>, pools: &mut Pools) {
        if self.is_ready() && context.now >= self.not_before {
            self.send_again(context, pools);
        }
        self.ask_for_waiting(context, pools);
    }

    /// When something is to be done about nothing coming: each time in a row after twice the time of the one
    /// before. A server in software may rest for as long as its machine has other things to do, and has
    /// lost nothing then.
    fn due(&self, config: &Config) -> Instant {
        let first = config.timeout.max(self.answers.timeout());
        let wait = first.saturating_mul(1 << self.attempts.min(16));
        (self.attempted + wait).min(self.since + config.read_timeout)
    }

    fn nothing_came(&mut self, context: &mut Context<'_>) {
        context.counters.timeouts += 1;
        self.attempts += 1;
        self.attempted = context.now;
        self.mended = None;
        if context.now.since(self.since) >= context.config.read_timeout {
            self.disable(DownReason::NoAnswer, context);
            return;
        }
        let is_asked =
            |request: &Request| !matches!(request, Request::Write(_) | Request::Answered);
        if !self.window.iter().any(is_asked) {
            self.window.push_back(Request::Empty);
        }
        self.begin_again();
    }

    /// READs that take too long are given up. An empty WRITE keeps their place, and they count among those
    /// that the server answers until it is known to be beyond them: more than it allows are an error to it.
    fn end_late_reads(&mut self, context: &mut Context<'_>) {
        for request in &mut self.window {
            let Request::Read(read) = *request else {
                continue;
            };
            if context.now < read.deadline {
                break;
            }
            *request = Request::GivenUp;
            context.rings[usize::from(read.ring)].free(read.sequence);
            context.lose(read.header, Lost::Timeout);
        }
        let is_dead = self.is_dead(context.now, context.config);
        while let Some(read) = self.waiting.front().copied() {
            if context.now < read.deadline && !is_dead {
                break;
            }
            self.waiting.pop_front();
            context.rings[usize::from(read.ring)].free(read.sequence);
            context.lose(read.header, Lost::Timeout);
        }
        self.retire();
    }

    /// When it is to be polled.
    pub fn deadline(&self, config: &Config) -> Instant {
        let first_read = self.window.iter().find_map(|request| match request {
            Request::Read(read) => Some(read.deadline),
            _ => None,
        });
        let waiting = self.waiting.front().map(|read| read.deadline);
        let reads = first_read.into_iter().chain(waiting).min();
        let own = match self.state {
            State::Down { ask_at, .. } => ask_at,
            State::Ready if self.window.is_empty() => Instant::NEVER,
            // It waits for a buffer, or a time.
            State::Ready if self.resend.is_some() && self.may_send_again() => {
                self.not_before.max(self.attempted)
            }
            State::Ready => self.due(config),
        };
        reads.map_or(own, |reads| reads.min(own))
    }
}

/// Where what is asked for lies, unless it was given up.
fn place(context: &Context<'_>, read: &Read) -> Option<StoredPayload> {
    context.rings[usize::from(read.ring)].place(read.sequence)
}

/// The time that a NAK "receiver not ready" asks for, by its five bits (InfiniBand Architecture
/// Specification, table 45).
fn not_ready_time(timer: u8) -> Duration {
    const TENS_OF_MICROSECONDS: [u64; 32] = [
        65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
        1536, 2048, 3072, 4096, 6144, 8192, 12_288, 16_384, 24_576, 32_768, 49_152,
    ];
    Duration::from_micros(10 * TENS_OF_MICROSECONDS[usize::from(timer & 0x1f)])
}
