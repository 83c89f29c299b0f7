//! The flow's state words, by name.

use super::segment::ahead;
use twinpath_core::Direction;

/// Bits for both directions, see [`tracked`], [`finished`] and [`INCOMPLETE`].
pub(super) const FLAGS: usize = 0;
/// Next expected sequence number of the opener; the other end's is in the word after it.
pub(super) const NEXT: usize = 1;
/// When the connection's last packet came, in ticks.
pub(super) const LAST_SEEN: usize = 3;
/// How many words there are.
pub(super) const WORDS: usize = 4;

/// Segments are held on the slow path.
pub(super) const HOLDING: u32 = 1 << 6;
/// The connection has ended: both FINs or a RST have been delivered. What its packets were is
/// remembered for a while, so that those that come late are known.
pub(super) const CLOSED: u32 = 1 << 7;
/// Both ends were heard, and one has acknowledged what the other had sent.
pub(super) const CONFIRMED: u32 = 1 << 8;
/// Bit of the original direction in which bytes before the next one may not have been delivered.
const INCOMPLETE: u32 = 1 << 4;
/// Where the prints of the two SYNs stand in the flags word.
const PRINT_SHIFT: [u32; 2] = [9, 19];
const PRINT_MASK: u32 = 0x3ff;
/// Bit of the original direction whose end has sent a SYN that its receiver need not have taken: an
/// answer may say that it has.
const ASKED_ANEW: u32 = 1 << 29;
/// Of one direction it is known where it begins from the answer to its SYN alone.
const ASSUMED: u32 = 1 << 31;

/// The bit that says that a direction's next sequence number is known.
pub(super) const fn tracked(way: Direction) -> u32 {
    1 << way.index()
}

/// The bit that says that a direction's FIN has been delivered.
pub(super) const fn finished(way: Direction) -> u32 {
    4 << way.index()
}

/// Ten bits by which a SYN is recognised when it comes again; never 0, which means that none
/// was seen.
const fn print(initial_sequence: u32) -> u32 {
    let halves = initial_sequence ^ initial_sequence >> 20;
    let folded = (halves ^ halves >> 10) & PRINT_MASK;
    if folded == 0 { PRINT_MASK } else { folded }
}

/// How far behind the last byte of the other end an acknowledgement may be that shows that both ends
/// take part: a guess hits that once in 65,536 times.
const HEARD_BYTES: i32 = 65_535;

/// The words of one flow.
pub(super) struct State<'a>(pub &'a mut [u32]);

impl State<'_> {
    /// Whether any direction is tracked.
    pub fn is_known(&self) -> bool {
        self.0[FLAGS] != 0
    }

    pub fn is_tracked(&self, way: Direction) -> bool {
        self.0[FLAGS] & tracked(way) != 0
    }

    /// Whether both FINs have been delivered.
    pub fn is_finished(&self) -> bool {
        let both = finished(Direction::Original) | finished(Direction::Reply);
        self.0[FLAGS] & both == both
    }

    pub fn is_closed(&self) -> bool {
        self.0[FLAGS] & CLOSED != 0
    }

    /// Whether both ends were heard; else the flow is half-open.
    pub fn is_confirmed(&self) -> bool {
        self.0[FLAGS] & CONFIRMED != 0
    }

    pub fn close(&mut self) {
        self.0[FLAGS] |= CLOSED;
    }

    /// Both ends take part once one of them acknowledges what the other has sent: of a direction whose
    /// SYN was not seen nobody knows how much that is.
    pub fn confirm(&mut self, asked: Direction, acknowledged: u32) {
        let behind = ahead(self.next(asked), acknowledged);
        let is_heard = !self.is_opened(asked) || (0..=HEARD_BYTES).contains(&behind);
        if self.is_tracked(asked) && is_heard {
            self.set_confirmed();
        }
    }

    /// With the handshake's end it is known which SYNs were taken.
    fn set_confirmed(&mut self) {
        if !self.is_confirmed() {
            self.0[FLAGS] &= !(ASKED_ANEW | ASKED_ANEW << 1);
            self.0[FLAGS] |= CONFIRMED;
        }
    }

    /// The first of its segments that an end is known to have sent tells where the other one begins, if
    /// the answer to its SYN that was seen was not the one that it has taken.
    pub fn confirm_another(&mut self, asked: Direction, acknowledged: u32) {
        let is_taken = self.0[FLAGS] & (CONFIRMED | HOLDING) != 0;
        if self.is_opened(asked) && !is_taken {
            self.set_next(asked, acknowledged);
            self.set_confirmed();
        }
    }

    /// A direction's end has sent a SYN that its receiver may take, and begin anew, or not.
    pub fn ask_anew(&mut self, way: Direction) {
        self.0[FLAGS] |= ASKED_ANEW << way.index();
    }

    /// The answer to a SYN that was not seen has said where its direction begins.
    pub fn assume(&mut self) {
        self.0[FLAGS] |= ASSUMED;
    }

    /// Whether a SYN with ACK may begin a connection where one is known: as the answer to a SYN that
    /// came on it, or where its other end was never heard.
    pub fn may_be_answered_anew(&self, asked: Direction) -> bool {
        let is_assumed = self.0[FLAGS] & (ASSUMED | CONFIRMED) == ASSUMED;
        is_assumed || self.0[FLAGS] & ASKED_ANEW << asked.index() != 0
    }

    /// Whether a direction's SYN was seen, so that its numbers are known for sure.
    pub fn is_opened(&self, way: Direction) -> bool {
        self.0[FLAGS] >> PRINT_SHIFT[way.index()] & PRINT_MASK != 0
    }

    /// Whether bytes behind the next one may never have been delivered.
    pub fn is_incomplete(&self, way: Direction) -> bool {
        self.0[FLAGS] & INCOMPLETE << way.index() != 0
    }

    pub fn next(&self, way: Direction) -> u32 {
        self.0[NEXT + way.index()]
    }

    pub fn set_next(&mut self, way: Direction, next: u32) {
        self.0[NEXT + way.index()] = next;
    }

    pub fn set_last_seen(&mut self, ticks: u32) {
        self.0[LAST_SEEN] = ticks;
    }

    pub fn set_finished(&mut self, way: Direction) {
        self.0[FLAGS] |= finished(way);
    }

    /// The number of a direction's last FIN, if it has been delivered and nothing behind it.
    pub fn fin(&self, way: Direction) -> Option<u32> {
        let is_finished = self.0[FLAGS] & finished(way) != 0;
        is_finished.then(|| self.next(way).wrapping_sub(1))
    }

    /// There is data in the place of a direction's FIN or behind it: it was none.
    pub fn take_back_fin(&mut self, way: Direction) {
        self.set_next(way, self.next(way).wrapping_sub(1));
        self.0[FLAGS] &= !finished(way);
    }

    pub fn set_incomplete(&mut self, way: Direction) {
        self.0[FLAGS] |= INCOMPLETE << way.index();
    }

    pub fn set_holding(&mut self, holding: bool) {
        self.0[FLAGS] = self.0[FLAGS] & !HOLDING | if holding { HOLDING } else { 0 };
    }

    /// Starts a direction at its SYN.
    pub fn open(&mut self, way: Direction, initial_sequence: u32, next: u32) {
        self.start(way, next);
        self.0[FLAGS] |= print(initial_sequence) << PRINT_SHIFT[way.index()];
    }

    /// Starts a direction in the middle.
    pub fn pick_up(&mut self, way: Direction, next: u32) {
        self.start(way, next);
        self.set_incomplete(way);
    }

    fn start(&mut self, way: Direction, next: u32) {
        let old = tracked(way)
            | finished(way)
            | INCOMPLETE << way.index()
            | PRINT_MASK << PRINT_SHIFT[way.index()];
        self.0[FLAGS] = self.0[FLAGS] & !old | tracked(way);
        self.set_next(way, next);
    }

    /// Whether a SYN is the one that opened this direction. If that one was not seen, one just
    /// behind the next byte is taken for a late one.
    pub fn was_opened_by(&self, way: Direction, initial_sequence: u32, window_bytes: u32) -> bool {
        let known = self.0[FLAGS] >> PRINT_SHIFT[way.index()] & PRINT_MASK;
        if known != 0 {
            return known == print(initial_sequence);
        }
        let behind = ahead(self.next(way), initial_sequence);
        behind > 0 && behind as u32 <= window_bytes
    }

    /// Makes the flow unknown.
    pub fn clear(&mut self) {
        self.0.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_do_not_disturb_each_other() {
        let mut words = [0; WORDS];
        let mut state = State(&mut words);
        state.open(Direction::Original, 7, 8);
        state.pick_up(Direction::Reply, 900);
        state.set_finished(Direction::Reply);
        assert!(
            state.is_tracked(Direction::Original)
                && !state.is_incomplete(Direction::Original)
                && !state.is_finished()
        );
        assert!(state.is_tracked(Direction::Reply) && state.is_incomplete(Direction::Reply));
        state.open(Direction::Reply, 0, 1);
        assert!(!state.is_incomplete(Direction::Reply));
        assert_eq!(
            (
                state.next(Direction::Original),
                state.next(Direction::Reply)
            ),
            (8, 1)
        );
        state.set_finished(Direction::Original);
        assert!(!state.is_finished(), "starting over takes the FIN back");
        assert!(
            state.was_opened_by(Direction::Original, 7, 1)
                && state.was_opened_by(Direction::Reply, 0, 1)
        );
        assert!(!state.was_opened_by(Direction::Original, 8, 1));
    }

    #[test]
    fn a_late_syn_is_recognised_by_its_place() {
        let mut words = [0; WORDS];
        let mut state = State(&mut words);
        state.pick_up(Direction::Original, 5);
        assert!(state.was_opened_by(Direction::Original, 4, 100));
        assert!(state.was_opened_by(Direction::Original, 5u32.wrapping_sub(100), 100));
        assert!(!state.was_opened_by(Direction::Original, 5u32.wrapping_sub(101), 100));
        assert!(!state.was_opened_by(Direction::Original, 5, 100));
    }
}
