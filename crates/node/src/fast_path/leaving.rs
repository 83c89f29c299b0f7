//! By which port packets leave that have passed the chain, and what becomes of those that cannot.
//!
//! A router fragments packets that are too long for the link that they leave by, if they may be
//! fragmented; that is done where packets leave, as it needs buffers. Of others the sender is told:
//! the frame becomes the ICMP error, which enters the chain where an answer to the packet would. So it
//! is the same on whichever path the packet came, and what translations have done to the packet they
//! undo in the error and in what it quotes.

use super::{Departure, FastOutput, FastPath, Io};
use crate::egress::Egress;
use crate::mtu::{Fit, Mtus};
use crate::watch::Step;
use twinpath_coherence::Clock;
use twinpath_core::adjacency::BACK;
use twinpath_core::pool::Metadata;
use twinpath_core::wire::{Layout, fields};
use twinpath_core::{DropReason, Frame, Pools};
use twinpath_nf::too_long::TooLong;
use twinpath_ports::offload::keep_first_segment;

/// Stands for no port.
const NO_PORT: u16 = u16::MAX;

/// Who knows which packets are too long, and tells their senders.
pub struct LongPackets {
    /// What the service says.
    said: Mtus,
    /// What counts.
    mtus: Mtus,
    /// How long packets may be on the links themselves, as far as that was told.
    links: Vec<usize>,
    router: TooLong,
}

impl LongPackets {
    /// The router tells senders of packets that are too long for the port that they leave by.
    pub fn new(mtus: Mtus, router: TooLong) -> Self {
        Self {
            said: mtus.clone(),
            mtus,
            links: Vec::new(),
            router,
        }
    }

    /// Whether a packet may leave by its port. A function must have chosen that.
    fn fit(&self, departure: &Departure) -> Fit {
        let chosen = departure.frame.metadata().egress;
        let is_routed = !departure.is_reply && chosen.is_some_and(|egress| egress != BACK);
        match is_routed && !self.mtus.let_pass(&departure.frame) {
            true => self.mtus.fit(&departure.frame, departure.port),
            false => Fit::Whole,
        }
    }
}

impl FastPath {
    /// Packets leave by these ports.
    #[must_use]
    pub fn with_egress(self, egress: Egress) -> Self {
        Self { egress, ..self }
    }

    /// Somebody, or nobody, tells senders of long packets.
    pub fn set_long_packets(&mut self, long: Option<LongPackets>) {
        self.long = long.map(Box::new);
    }

    /// Links of ports carry packets of so many bytes.
    pub fn set_links(&mut self, mtus: &[usize]) {
        if let Some(long) = self.long.as_mut().filter(|long| long.links != mtus) {
            long.mtus = long.said.within(mtus);
            long.links = mtus.to_vec();
        }
    }

    /// Tells packets by which port they leave. Returns whether all may leave as they are; if not,
    /// [`Self::keep_back`] is to be called.
    #[inline]
    pub(crate) fn choose_ports(&mut self, departures: &mut [Departure]) -> bool {
        let mut all_may = true;
        for departure in departures {
            departure.port = self.port_of(departure);
            let is_short = |long: &LongPackets| long.mtus.let_pass(&departure.frame);
            all_may &= departure.port != NO_PORT && self.long.as_deref().is_none_or(is_short);
        }
        all_may
    }

    /// Of packets that are to leave, those without a port are dropped, and of those that are too long
    /// the senders are told. What goes back to them has arrived, as it were, behind all packets before
    /// `watermark`.
    #[cold]
    pub(crate) fn keep_back(
        &mut self,
        watermark: u64,
        clock: Clock,
        pools: &mut Pools,
        out: &mut FastOutput,
    ) {
        let io = &mut Io { clock, pools, out };
        let (mut long, mut departing) = (self.long.take(), std::mem::take(&mut self.departing));
        std::mem::swap(&mut departing, &mut io.out.departures);
        for departure in departing.drain(..) {
            match &mut long {
                Some(long) if departure.port != NO_PORT => {
                    self.fit(departure, long, watermark, io);
                }
                _ => self.leave(departure, io),
            }
        }
        (self.long, self.departing) = (long, departing);
    }

    fn port_of(&mut self, departure: &Departure) -> u16 {
        self.egress.of(departure).unwrap_or(NO_PORT)
    }

    /// A packet leaves, unless it has no port.
    fn leave(&mut self, departure: Departure, io: &mut Io<'_>) {
        match departure.port {
            NO_PORT => self.drop(departure.frame, DropReason::NoEgress, io),
            _ => io.out.departures.push(departure),
        }
    }

    fn fit(
        &mut self,
        mut departure: Departure,
        long: &mut LongPackets,
        watermark: u64,
        io: &mut Io<'_>,
    ) {
        match long.fit(&departure) {
            Fit::TooLong { layout, room } => {
                let (ordinal, port) = (watermark, departure.port);
                let turn = Turn {
                    layout,
                    room,
                    port,
                    ordinal,
                };
                return self.turn_back(departure.frame, &mut long.router, &turn, io);
            }
            Fit::Cut { room } => departure.room = room,
            Fit::Whole => {}
        }
        io.out.departures.push(departure);
    }

    /// A frame becomes the error about its packet and goes back, if that may be told.
    fn turn_back(&mut self, mut frame: Frame, router: &mut TooLong, turn: &Turn, io: &mut Io<'_>) {
        keep_first_segment(&mut frame);
        let destination = fields::destination_address(frame.bytes(), &turn.layout);
        let error = router.error_about(frame.bytes(), &turn.layout, turn.room, io.clock.packet);
        let Some(error) = error else {
            return self.drop(frame, DropReason::TooLong, io);
        };
        self.drops.count(DropReason::TooLong);
        self.tell(&frame, |_| Step::drop(DropReason::TooLong));
        frame.fill(error);
        frame.set_port(turn.port);
        let ordinal = frame.ordinal().max(turn.ordinal);
        frame.set_ordinal(ordinal);
        let direction = self.admission.sides().direction(destination, turn.port);
        // It is counted as the packet that it was.
        let was_on_slow_path = frame.metadata().was_on_slow_path;
        frame.set_metadata(Metadata {
            direction,
            was_on_slow_path,
            ..Metadata::default()
        });
        let (first, others) = (self.order.first(direction), io.out.departures.len());
        self.walk_alone(frame, Some(first), io);
        // It may have passed the chain already.
        if io.out.departures.len() > others
            && let Some(mut departure) = io.out.departures.pop()
        {
            departure.port = self.port_of(&departure);
            self.leave(departure, io);
        }
    }
}

/// What a packet that turns back is to know.
struct Turn {
    layout: Layout,
    /// How long it may be.
    room: u16,
    /// The port that it was to leave by.
    port: u16,
    /// The least number that it gets.
    ordinal: u64,
}
