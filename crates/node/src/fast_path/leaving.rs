//! By which port packets leave that have passed the chain, and what becomes of those that cannot.
//!
//! A router fragments packets that are too long for the link that they leave by, if they may be
//! fragmented; that is done where packets leave, as it needs buffers. Of others the sender is told:
//! the frame becomes the ICMP error, which enters the chain where an answer to the packet would. So it
//! is the same on whichever path the packet came, and what translations have done to the packet they
//! undo in the error and in what it quotes. So it is with packets that have left, and whose next hop did not
//! answer who it is.

use super::{Departure, FastOutput, FastPath, Io};
use crate::egress::Egress;
use crate::mtu::{Fit, Mtus};
use crate::watch::TraceStep;
use twinpath_coherence::Clock;
use twinpath_core::adjacency::{BACK, shard_of};
use twinpath_core::pool::Metadata;
use twinpath_core::wire::{Layout, dissect, fields};
use twinpath_core::{DropReason, Frame, Instant, Pools};
use twinpath_nf::undelivered::Undelivered;
use twinpath_ports::offload::keep_first_segment;

/// Stands for no port.
const NO_PORT: u16 = u16::MAX;

/// Who knows which packets are too long, and tells senders of what cannot be delivered.
pub struct EgressCheck {
    /// What the service says.
    said: Mtus,
    /// What counts.
    mtus: Mtus,
    /// How long packets may be on the links themselves, as far as that was told.
    link_mtus: Vec<usize>,
    router: Undelivered,
}

impl EgressCheck {
    /// The router tells senders of packets that are too long for the port that they leave by, or that nobody
    /// takes there.
    pub fn new(mtus: Mtus, router: Undelivered) -> Self {
        Self {
            said: mtus.clone(),
            mtus,
            link_mtus: Vec::new(),
            router,
        }
    }

    /// Whether a packet may leave by its port. A function must have chosen that.
    fn fit(&self, departure: &Departure) -> Fit {
        let chosen = departure.frame.metadata().egress;
        let is_routed = !departure.is_reply
            && shard_of(chosen).is_none()
            && chosen.is_some_and(|egress| egress != BACK);
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

    /// Somebody, or nobody, tells senders of packets that cannot be delivered.
    pub fn set_egress_check(&mut self, egress_check: Option<EgressCheck>) {
        self.egress_check = egress_check.map(Box::new);
    }

    /// Links of ports carry packets of so many bytes.
    pub fn set_link_mtus(&mut self, mtus: &[usize]) {
        if let Some(egress_check) = self.egress_check.as_mut().filter(|it| it.link_mtus != mtus) {
            egress_check.mtus = egress_check.said.within(mtus);
            egress_check.link_mtus = mtus.to_vec();
        }
    }

    /// Tells packets by which port they leave. Returns whether all may leave as they are; if not,
    /// [`Self::keep_back`] is to be called.
    #[inline]
    pub(crate) fn choose_ports(&mut self, departures: &mut [Departure]) -> bool {
        // What departs has the first port until it is told another.
        if self.egress.is_single() && self.egress_check.is_none() {
            return true;
        }
        let mut all_may = true;
        for departure in departures {
            departure.port = self.port_of(departure);
            let is_short =
                |egress_check: &EgressCheck| egress_check.mtus.let_pass(&departure.frame);
            all_may &=
                departure.port != NO_PORT && self.egress_check.as_deref().is_none_or(is_short);
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
        let (mut egress_check, mut departing) = (
            self.egress_check.take(),
            std::mem::take(&mut self.departing),
        );
        std::mem::swap(&mut departing, &mut io.out.departures);
        for departure in departing.drain(..) {
            match &mut egress_check {
                Some(egress_check) if departure.port != NO_PORT => {
                    self.fit(departure, egress_check, watermark, io);
                }
                _ => self.leave(departure, io),
            }
        }
        (self.egress_check, self.departing) = (egress_check, departing);
    }

    /// Tells senders of packets that have left, and whose next hops do not answer; each has the port that it
    /// was to leave by. What goes back to them arrives behind all packets before `watermark`.
    pub(crate) fn undelivered(
        &mut self,
        frames: &mut Vec<Frame>,
        watermark: u64,
        clock: Clock,
        pools: &mut Pools,
        out: &mut FastOutput,
    ) {
        let io = &mut Io { clock, pools, out };
        let mut egress_check = self.egress_check.take();
        for mut frame in frames.drain(..) {
            match (&mut egress_check, dissect(frame.bytes())) {
                (Some(egress_check), Ok(layout)) if layout.is_ip() => {
                    frame.set_timestamp(clock.packet);
                    let turn = TurnedBack {
                        layout,
                        why: Why::Unreachable,
                        port: frame.port(),
                        ordinal: watermark,
                    };
                    self.turn_back(frame, &mut egress_check.router, &turn, io);
                }
                _ => io.pools.give(frame),
            }
        }
        self.egress_check = egress_check;
    }

    /// Whether all packets leave by the same port.
    pub(crate) const fn has_one_port(&self) -> bool {
        self.egress.is_single()
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
        egress_check: &mut EgressCheck,
        watermark: u64,
        io: &mut Io<'_>,
    ) {
        match egress_check.fit(&departure) {
            Fit::TooLong { layout, room } => {
                let (ordinal, port) = (watermark, departure.port);
                let turn = TurnedBack {
                    layout,
                    why: Why::TooLong { room },
                    port,
                    ordinal,
                };
                return self.turn_back(departure.frame, &mut egress_check.router, &turn, io);
            }
            Fit::Cut { room } => departure.room = room,
            Fit::Whole => {}
        }
        io.out.departures.push(departure);
    }

    /// A frame becomes the error about its packet and goes back, if that may be told.
    fn turn_back(
        &mut self,
        mut frame: Frame,
        router: &mut Undelivered,
        turn: &TurnedBack,
        io: &mut Io<'_>,
    ) {
        keep_first_segment(&mut frame);
        let destination = fields::destination_address(frame.bytes(), &turn.layout);
        let Some(error) = turn.error(&frame, router, io.clock.packet) else {
            return match turn.drop_reason() {
                Some(reason) => self.drop(frame, reason, io),
                None => io.pools.give(frame),
            };
        };
        if let Some(reason) = turn.drop_reason() {
            self.drops.count(reason);
            self.tell(&frame, |_| TraceStep::drop(reason));
        }
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

/// Why a packet turns back.
#[derive(Copy, Clone)]
enum Why {
    TooLong {
        /// How long it may be.
        room: u16,
    },
    /// Its next hop does not answer. It has left, and is counted there.
    Unreachable,
}

/// What a packet that turns back is to know.
struct TurnedBack {
    layout: Layout,
    why: Why,
    /// The port that it was to leave by.
    port: u16,
    /// The least number that it gets.
    ordinal: u64,
}

impl TurnedBack {
    /// The error about a packet.
    fn error<'r>(
        &self,
        frame: &Frame,
        router: &'r mut Undelivered,
        now: Instant,
    ) -> Option<&'r [u8]> {
        let (bytes, layout) = (frame.bytes(), &self.layout);
        match self.why {
            Why::TooLong { room } => router.too_long(bytes, layout, room, now),
            Why::Unreachable => router.unreachable(bytes, layout, now),
        }
    }

    /// What the packet is dropped for here.
    fn drop_reason(&self) -> Option<DropReason> {
        match self.why {
            Why::TooLong { .. } => Some(DropReason::TooLong),
            Why::Unreachable => None,
        }
    }
}
