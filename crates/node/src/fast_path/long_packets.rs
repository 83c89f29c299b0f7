//! Packets that have passed the chain and are too long for the link that they are to leave by.
//!
//! A router fragments what may be fragmented; that is done where packets leave, as it needs buffers.
//! Of others the sender is told: the frame becomes the ICMP error, which enters the chain where an
//! answer to the packet would. So it is the same on whichever path the packet came, and what
//! translations have done to the packet they undo in the error and in what it quotes.

use super::{Departure, FastOutput, FastPath, Io};
use crate::mtu::Fit;
use crate::sink::Egress;
use crate::watch::Step;
use twinpath_coherence::Clock;
use twinpath_core::pool::Metadata;
use twinpath_core::wire::{Layout, fields};
use twinpath_core::{DropReason, Frame, Pools};
use twinpath_nf::router::TooLong;
use twinpath_ports::offload::keep_first_segment;

/// Who knows which packets are too long, and tells their senders.
pub struct LongPackets {
    egress: Egress,
    router: TooLong,
    /// Packets that leave; empty between calls.
    departing: Vec<Departure>,
}

impl LongPackets {
    /// The router tells senders of packets that are too long for their egress.
    pub fn new(egress: Egress, router: TooLong) -> Self {
        Self {
            egress,
            router,
            departing: Vec::new(),
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
}

impl FastPath {
    /// Somebody, or nobody, tells senders of long packets.
    pub fn set_long_packets(&mut self, long: Option<LongPackets>) {
        self.long = long.map(Box::new);
    }

    /// Links of ports carry packets of so many bytes.
    pub fn set_links(&mut self, mtus: &[usize]) {
        if let Some(long) = &mut self.long {
            long.egress.set_links(mtus);
        }
    }

    /// Whether some of the packets that leave may be too long.
    #[inline]
    pub(crate) fn has_long(&self, departures: &[Departure]) -> bool {
        let is_long = |long: &LongPackets| !departures.iter().all(|one| long.egress.let_pass(one));
        self.long.as_ref().is_some_and(|long| is_long(long))
    }

    /// Of packets that leave, those that are too long do not: their senders are told. What goes back
    /// has arrived, as it were, behind all packets before `watermark`.
    #[cold]
    pub(crate) fn turn_long_back(
        &mut self,
        watermark: u64,
        clock: Clock,
        pools: &mut Pools,
        out: &mut FastOutput,
    ) {
        let io = &mut Io { clock, pools, out };
        let Some(mut long) = self.long.take() else {
            return;
        };
        std::mem::swap(&mut long.departing, &mut io.out.departures);
        let mut departing = std::mem::take(&mut long.departing);
        for departure in departing.drain(..) {
            let fit = long.egress.fit(&departure);
            match (fit, long.egress.of(&departure)) {
                (Fit::TooLong { layout, room }, Some(port)) => {
                    let turn = Turn { layout, room, port };
                    self.turn(departure.frame, &mut long.router, &turn, watermark, io);
                }
                _ => io.out.departures.push(departure),
            }
        }
        long.departing = departing;
        self.long = Some(long);
    }

    /// A frame becomes the error about its packet and goes back, if that may be told.
    fn turn(
        &mut self,
        mut frame: Frame,
        router: &mut TooLong,
        turn: &Turn,
        watermark: u64,
        io: &mut Io<'_>,
    ) {
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
        let ordinal = frame.ordinal().max(watermark);
        frame.set_ordinal(ordinal);
        let direction = self.admission.sides().direction(destination, turn.port);
        // It is counted as the packet that it was.
        let was_on_slow_path = frame.metadata().was_on_slow_path;
        frame.set_metadata(Metadata {
            direction,
            was_on_slow_path,
            ..Metadata::default()
        });
        let first = self.order.first(direction);
        self.walk_alone(frame, Some(first), io);
    }
}
