//! Packets that came by another shard's queue, handed over.
//!
//! Whichever queue a packet comes by, its [partition](CurrentPartition) says to which shard it belongs. Between any two
//! shards there are three rings of one writer and one reader: one for packets that have arrived, or
//! [go on](Handoff::goes_across) in the other between hosts inside of both, one for
//! packets that leave by a port of which only the other has a queue, and one for what memory servers
//! have sent, which tells by itself [for whom](Receiver::of) it is and waits behind no packet. All keep the order of what goes
//! through them, and neither waits: what finds a ring full is dropped and counted, so that a shard which
//! is behind keeps no other from its work. For the same reason a packet that has arrived is copied into
//! the new owner's memory: however long it stays there, the shard that received it has its buffer back.
//!
//! A shard that rests is woken when there is something for it.

use super::CurrentPartition;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use twinpath_control::report::ShardFigures;
use twinpath_core::adjacency::shard_of;
use twinpath_core::{Frame, Metadata, Pools};
use twinpath_link::ring::{RingReceiver, RingSender, ring};
use twinpath_remote::requester::Receiver;

/// Frames about neighbours of which others get copies, between two times that they are woken: whoever
/// floods a cable with them fills no rings.
const MOST_TOLD: usize = 16;

/// The rings to another shard, and those from it.
struct Other {
    arrived: RingSender,
    leaves: RingSender,
    heard: RingSender,
    arrived_there: RingReceiver,
    leaves_here: RingReceiver,
    heard_there: RingReceiver,
    /// Something was sent since it was woken last.
    is_to_wake: bool,
}

/// What wakes a shard.
struct Waker {
    rests: AtomicBool,
    socket: UnixStream,
}

/// One shard's end of it.
pub struct Handoff {
    own: u16,
    partition: CurrentPartition,
    /// By number; none for the shard itself.
    others: Vec<Option<Other>>,
    wakers: Arc<[Waker]>,
    /// Becomes readable when this shard is woken.
    woken: UnixStream,
    /// Shards whose run is not over.
    under_way: Arc<AtomicUsize>,
    /// Shards that still receive.
    receiving: Arc<AtomicUsize>,
    /// Whether this one does not.
    has_closed: bool,
    /// The other shard that is asked first, in turn.
    next: usize,
    frames: Vec<Frame>,
    /// Frames about neighbours that others have been told of since they were woken.
    told: usize,
    figures: ShardFigures,
}

impl Handoff {
    /// The ends of all shards of a service, with rings of so many frames.
    ///
    /// # Errors
    /// What the system says.
    pub fn all(
        partition: &CurrentPartition,
        shards: u16,
        ring_frames: usize,
    ) -> io::Result<Vec<Self>> {
        let pairs = (0..shards).map(|_| {
            let (socket, woken) = UnixStream::pair()?;
            socket.set_nonblocking(true)?;
            woken.set_nonblocking(true)?;
            let rests = AtomicBool::new(false);
            Ok((Waker { rests, socket }, woken))
        });
        let (wakers, woken): (Vec<_>, Vec<_>) =
            pairs.collect::<io::Result<Vec<_>>>()?.into_iter().unzip();
        let wakers: Arc<[Waker]> = wakers.into();
        let others = all_rings(shards, ring_frames);
        let [under_way, receiving] = [(); 2].map(|()| Arc::new(AtomicUsize::new(shards.into())));
        let ends = (0..shards).zip(others).zip(woken);
        let ends = ends.map(|((own, others), woken)| Self {
            own,
            partition: partition.clone(),
            others,
            wakers: Arc::clone(&wakers),
            woken,
            under_way: Arc::clone(&under_way),
            receiving: Arc::clone(&receiving),
            has_closed: false,
            next: 0,
            frames: Vec::new(),
            told: 0,
            figures: ShardFigures::default(),
        });
        Ok(ends.collect())
    }

    /// What went over.
    pub const fn figures(&self) -> ShardFigures {
        self.figures
    }

    /// This shard's number.
    pub const fn own(&self) -> u16 {
        self.own
    }

    /// Of the frames of a burst behind the first so many, those of other shards are handed over.
    pub fn divide(&mut self, first: usize, burst: &mut Vec<Frame>, pools: &mut Pools) {
        self.figures.received_packets += (burst.len() - first) as u64;
        let mut frames = std::mem::take(&mut self.frames);
        frames.extend(burst.drain(first..));
        for frame in frames.drain(..) {
            match self.partition.get().shard(frame.bytes()) {
                shard if shard == self.own => burst.push(frame),
                shard => self.hand_over(shard.into(), frame, pools),
            }
        }
        self.frames = frames;
    }

    fn hand_over(&mut self, shard: usize, frame: Frame, pools: &mut Pools) {
        let Some(Some(other)) = self.others.get_mut(shard) else {
            return pools.give(frame);
        };
        match other.arrived.send(frame) {
            Ok(()) => {
                other.is_to_wake = true;
                self.figures.handed_over += 1;
            }
            Err(frame) => {
                self.figures.ring_full += 1;
                pools.give(frame);
            }
        }
    }

    /// Of the frames from memory servers behind the first so many, those for other shards are handed
    /// over; what is for all stays, too.
    pub fn divide_heard(&mut self, first: usize, frames: &mut Vec<Frame>, pools: &mut Pools) {
        let shards = self.others.len() as u16;
        let mut heard = std::mem::take(&mut self.frames);
        heard.extend(frames.drain(first..));
        for frame in heard.drain(..) {
            match Receiver::of(frame.bytes(), shards) {
                Receiver::Shard(shard) if shard != self.own => {
                    self.tell(shard.into(), frame, pools);
                }
                Receiver::All => {
                    self.tell_others(&frame, pools);
                    frames.push(frame);
                }
                Receiver::Shard(_) | Receiver::Any => frames.push(frame),
            }
        }
        self.frames = heard;
    }

    /// Another shard hears a frame of a memory server.
    fn tell(&mut self, shard: usize, frame: Frame, pools: &mut Pools) {
        let Some(Some(other)) = self.others.get_mut(shard) else {
            return pools.give(frame);
        };
        match other.heard.send(frame) {
            Ok(()) => {
                other.is_to_wake = true;
                self.figures.server_frames_handed_over += 1;
            }
            Err(frame) => {
                self.figures.server_frames_lost += 1;
                pools.give(frame);
            }
        }
    }

    /// All others do. Servers say again what is for all.
    fn tell_others(&mut self, frame: &Frame, pools: &mut Pools) {
        for shard in 0..self.others.len() {
            if shard != usize::from(self.own)
                && let Some(copy) = copied(frame, pools)
            {
                self.tell(shard, copy, pools);
            }
        }
    }

    /// All other shards get a copy of a frame: it is about neighbours, of whom each keeps a list.
    pub fn tell_all(&mut self, frame: &Frame, pools: &mut Pools) {
        if self.told == MOST_TOLD {
            return;
        }
        self.told += 1;
        for other in self.others.iter_mut().flatten() {
            let Some(mut copy) = pools.take_filled(frame.bytes()) else {
                return;
            };
            copy.set_port(frame.port());
            match other.arrived.send(copy) {
                Ok(()) => other.is_to_wake = true,
                // Whoever asks a neighbour asks again.
                Err(copy) => pools.give(copy),
            }
        }
    }

    /// A packet goes on in another shard, which its egress names.
    pub fn goes_across(&mut self, shard: u16, frame: Frame, pools: &mut Pools) {
        let Some(Some(other)) = self.others.get_mut(usize::from(shard)) else {
            return pools.give(frame);
        };
        match other.arrived.send(frame) {
            Ok(()) => {
                other.is_to_wake = true;
                self.figures.crossed += 1;
            }
            Err(frame) => {
                self.figures.ring_full += 1;
                pools.give(frame);
            }
        }
    }

    /// A frame leaves by a queue of another shard.
    pub fn leaves_by(&mut self, shard: u16, frame: Frame, pools: &mut Pools) {
        let Some(Some(other)) = self.others.get_mut(usize::from(shard)) else {
            return pools.give(frame);
        };
        match other.leaves.send(frame) {
            Ok(()) => {
                other.is_to_wake = true;
                self.figures.left_elsewhere += 1;
            }
            Err(frame) => {
                self.figures.ring_full += 1;
                pools.give(frame);
            }
        }
    }

    /// Appends up to `most` frames that others have received, in memory of this shard.
    pub fn take_arrived(&mut self, most: usize, pools: &mut Pools, burst: &mut Vec<Frame>) {
        let (mut left, others) = (most, self.others.len());
        for turn in 0..others {
            let Some(other) = &mut self.others[(self.next + turn) % others] else {
                continue;
            };
            left -= other.arrived_there.receive(&mut self.frames, left);
        }
        self.next = (self.next + 1) % others.max(1);
        self.figures.no_buffer += self.move_in(pools, burst);
    }

    /// Appends up to `most` frames of each other shard that memory servers have sent to this one, in
    /// memory of this shard.
    pub fn take_heard(&mut self, most: usize, pools: &mut Pools, frames: &mut Vec<Frame>) {
        for other in self.others.iter_mut().flatten() {
            other.heard_there.receive(&mut self.frames, most);
        }
        self.figures.server_frames_lost += self.move_in(pools, frames);
    }

    /// Takes what others have handed over into memory of this shard; for how many frames there was
    /// none.
    fn move_in(&mut self, pools: &mut Pools, burst: &mut Vec<Frame>) -> u64 {
        let mut lost = 0;
        for theirs in self.frames.drain(..) {
            match copied(&theirs, pools) {
                Some(frame) => burst.push(frame),
                None => lost += 1,
            }
            pools.give(theirs);
        }
        lost
    }

    /// The next frames that others want to leave by this shard's queues.
    pub fn take_leaving(&mut self, into: &mut Vec<Frame>) {
        for other in self.others.iter_mut().flatten() {
            other.leaves_here.receive(into, usize::MAX);
        }
    }

    /// This shard has received its last burst. Whether no shard receives any more, and all that was handed
    /// over to this one has been taken.
    pub fn close(&mut self) -> bool {
        if !std::mem::replace(&mut self.has_closed, true) {
            self.receiving.fetch_sub(1, Ordering::AcqRel);
        }
        let others = self.others.iter().flatten();
        // In this order: what was sent before the last one closed is seen.
        self.receiving.load(Ordering::Acquire) == 0
            && others
                .map(|other| &other.arrived_there)
                .all(RingReceiver::is_empty)
    }

    /// This shard's run is over: nobody takes what others have handed over.
    pub fn end(&mut self) {
        self.under_way.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether the runs of all shards are over: none has anything more to leave by another's queue.
    pub fn have_all_ended(&self) -> bool {
        self.under_way.load(Ordering::Acquire) == 0
    }

    /// What others have handed over is lost, when all are over, and so is what has crossed and not entered.
    pub fn leave_behind(&mut self, across: &mut Vec<Frame>, pools: &mut Pools) {
        self.figures.left_behind += across.len() as u64;
        across.drain(..).for_each(|frame| pools.give(frame));
        for other in self.others.iter_mut().flatten() {
            let count = other.arrived_there.receive(&mut self.frames, usize::MAX);
            self.figures.left_behind += count as u64;
            // Nobody waits for these any more.
            other.heard_there.receive(&mut self.frames, usize::MAX);
        }
        self.frames.drain(..).for_each(|frame| pools.give(frame));
    }

    /// Wakes the shards for which there is something new.
    pub fn wake(&mut self) {
        self.told = 0;
        for (other, waker) in self.others.iter_mut().zip(self.wakers.iter()) {
            let Some(other) = other else { continue };
            if !std::mem::take(&mut other.is_to_wake) {
                continue;
            }
            // Either the other sees what is in its ring, or it is seen here that it rests.
            fence(Ordering::SeqCst);
            if waker.rests.load(Ordering::Relaxed) && waker.rests.swap(false, Ordering::AcqRel) {
                // Where it is full, somebody has been woken already.
                let _ = (&waker.socket).write(&[1]);
            }
        }
    }

    /// Calls `wait` with what becomes readable when there is something for this shard, unless there is
    /// already.
    pub fn rest(&mut self, wait: impl FnOnce(BorrowedFd<'_>)) {
        let waker = &self.wakers[usize::from(self.own)];
        waker.rests.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !self.has_something() {
            wait(self.woken.as_fd());
        }
        waker.rests.store(false, Ordering::Relaxed);
        let mut bytes = [0; 64];
        while matches!((&self.woken).read(&mut bytes), Ok(len) if len == bytes.len()) {}
    }

    fn has_something(&self) -> bool {
        let has = |other: &Other| {
            let all = [&other.arrived_there, &other.leaves_here, &other.heard_there];
            !all.into_iter().all(RingReceiver::is_empty)
        };
        self.others.iter().flatten().any(has)
    }
}

/// A copy in other memory; what there is of metadata is what a port says, and of a packet that goes on in
/// another shard that.
fn copied(frame: &Frame, pools: &mut Pools) -> Option<Frame> {
    let mut copy = pools.take_filled(frame.bytes())?;
    copy.set_port(frame.port());
    copy.set_segment_bytes(frame.segment_bytes());
    let metadata = frame.metadata();
    if shard_of(metadata.egress).is_some() {
        copy.set_metadata(Metadata {
            egress: metadata.egress,
            was_on_slow_path: metadata.was_on_slow_path,
            ..Metadata::default()
        });
    }
    Some(copy)
}

/// The ends of the rings between so many shards, by shard and by the other.
fn all_rings(shards: u16, ring_frames: usize) -> Vec<Vec<Option<Other>>> {
    let mut receiving: Vec<Vec<_>> = (0..shards).map(|_| Vec::new()).collect();
    let mut sending = Vec::new();
    for _ in 0..shards {
        let mut own = Vec::new();
        for receiving in &mut receiving {
            let (arrived, arrived_there) = ring(ring_frames);
            let (leaves, leaves_here) = ring(ring_frames);
            let (heard, heard_there) = ring(ring_frames);
            own.push((arrived, leaves, heard));
            receiving.push((arrived_there, leaves_here, heard_there));
        }
        sending.push(own);
    }
    let both = (0..shards).zip(sending.into_iter().zip(receiving));
    let ends = both.map(|(own, (sending, receiving))| {
        let others = (0..shards).zip(sending.into_iter().zip(receiving));
        let others = others.map(|(other, (sending, receiving))| {
            let (arrived, leaves, heard) = sending;
            let (arrived_there, leaves_here, heard_there) = receiving;
            // None to itself.
            (other != own).then_some(Other {
                arrived,
                leaves,
                heard,
                arrived_there,
                leaves_here,
                heard_there,
                is_to_wake: false,
            })
        });
        others.collect()
    });
    ends.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::time::{Duration, Instant};
    use twinpath_control::service::Service;
    use twinpath_core::wire::PacketBuilder;

    const RING: usize = 1000;

    fn ends(shards: u16) -> Vec<Handoff> {
        let text = "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n";
        let service = Service::parse(text, Path::new("test.toml")).expect("sound");
        let partition = CurrentPartition::of(&service, shards).expect("no files");
        Handoff::all(&partition, shards, RING).expect("sockets")
    }

    fn packet(host: u16, number: u16) -> Vec<u8> {
        let from = format!("10.0.{}.{}:{number}", host >> 8, host & 255);
        let (from, to) = (
            from.parse().expect("one"),
            "192.0.2.1:7".parse().expect("one"),
        );
        PacketBuilder::udp(from, to).to_vec().expect("short")
    }

    /// Hosts and numbers of packets, in their order.
    fn told(frames: &[Frame]) -> BTreeMap<Vec<u8>, Vec<u16>> {
        let mut told: BTreeMap<Vec<u8>, Vec<u16>> = BTreeMap::new();
        for frame in frames {
            let bytes = frame.bytes();
            let number = u16::from_be_bytes([bytes[34], bytes[35]]);
            told.entry(bytes[26..30].to_vec()).or_default().push(number);
        }
        told
    }

    #[test]
    fn all_packets_come_to_their_shards_in_order() {
        let mut ends = ends(3);
        let mut pools: Vec<_> = (0..3).map(|_| Pools::new(4096, 1)).collect();
        let (mut number, mut at_home) = (0, Vec::new());
        for _ in 0..20 {
            for (end, pools) in ends.iter_mut().zip(&mut pools) {
                let mut burst = Vec::new();
                for host in 0..40 {
                    // Each host's packets come by one queue.
                    if host % 3 != end.own {
                        continue;
                    }
                    number += 1;
                    burst.extend(pools.take_filled(&packet(host, number)));
                }
                end.divide(0, &mut burst, pools);
                at_home.push((end.own, burst));
            }
        }
        let mut seen = 0;
        for (end, pools) in ends.iter_mut().zip(&mut pools) {
            let mut all = Vec::new();
            end.take_arrived(usize::MAX, pools, &mut all);
            assert!(!all.is_empty(), "{} is handed some", end.own);
            for (shard, burst) in &mut at_home {
                if *shard == end.own {
                    all.append(burst);
                }
            }
            for frame in &all {
                assert_eq!(end.partition.get().shard(frame.bytes()), end.own);
            }
            for numbers in told(&all).values() {
                assert!(numbers.is_sorted() && numbers.len() == 20, "{numbers:?}");
            }
            seen += all.len();
        }
        assert_eq!(seen, 800);
    }

    /// Whoever closes first still takes what others receive until they close.
    #[test]
    fn nothing_is_left_behind_by_shards_that_close_one_after_the_other() {
        let mut ends = ends(2);
        let mut pools = Pools::new(4096, 1);
        let mut of_others = |end: &mut Handoff| {
            let mut burst: Vec<_> = (0..64)
                .filter_map(|host| pools.take_filled(&packet(host, 1)))
                .collect();
            end.divide(0, &mut burst, &mut pools);
            burst.drain(..).for_each(|frame| pools.give(frame));
        };
        assert!(!ends[0].close());
        of_others(&mut ends[1]);
        assert!(ends[1].close(), "nothing came to it");
        assert!(!ends[0].close(), "something did");
        let (mut own, mut taken) = (Pools::new(64, 1), Vec::new());
        ends[0].take_arrived(usize::MAX, &mut own, &mut taken);
        assert!(!taken.is_empty() && ends[0].close());
    }

    /// What a shard does not take is lost there, and costs the other no buffer.
    #[test]
    fn a_shard_that_is_behind_costs_others_nothing() {
        let mut ends = ends(2);
        let mut pools = Pools::new(RING + 10, 1);
        for round in 0..3 * RING {
            let mut burst = Vec::new();
            burst.extend(pools.take_filled(&packet(round as u16, 1)));
            assert_eq!(burst.len(), 1, "there is always a buffer");
            ends[0].divide(0, &mut burst, &mut pools);
            burst.drain(..).for_each(|frame| pools.give(frame));
        }
        let figures = ends[0].figures();
        assert_eq!(figures.handed_over, RING as u64);
        assert!(figures.ring_full > 0, "{figures:?}");
        // The other has no buffers.
        let mut none = Pools::new(1, 1);
        let mut taken = Vec::new();
        ends[1].take_arrived(10, &mut none, &mut taken);
        assert_eq!((taken.len(), ends[1].figures().no_buffer), (1, 9));
    }

    fn blocks_until_woken(waker: BorrowedFd<'_>) {
        let waker = UnixStream::from(waker.try_clone_to_owned().expect("a descriptor"));
        waker.set_nonblocking(false).expect("a socket");
        let _ = waker.set_read_timeout(Some(Duration::from_secs(60)));
        let _ = (&waker).read(&mut [0]);
        waker.set_nonblocking(true).expect("a socket");
    }

    #[test]
    fn a_flood_of_questions_fills_no_rings() {
        let mut ends = ends(3);
        let mut pools = Pools::new(64, 1);
        let frame = pools.take_filled(&[7; 60]).expect("room");
        for _ in 0..100 {
            ends[0].tell_all(&frame, &mut pools);
        }
        let mut heard = Vec::new();
        ends[2].take_arrived(RING, &mut pools, &mut heard);
        assert_eq!(heard.len(), MOST_TOLD);
        assert!(heard.iter().all(|copy| copy.bytes() == frame.bytes()));
        ends[0].wake();
        ends[0].tell_all(&frame, &mut pools);
        ends[1].take_arrived(RING, &mut pools, &mut heard);
        assert_eq!(heard.len(), 2 * MOST_TOLD + 1);
    }

    /// A frame of a memory server to a queue pair; announcements are for all.
    fn of_server(pools: &mut Pools, queue_pair: Option<u32>) -> Frame {
        use twinpath_core::wire::roce::{Header, Opcode, Path, Psn};
        use twinpath_core::wire::{Address, MacAddress};
        use twinpath_remote::registration::{MAX_FRAME_BYTES, Memory, Message};
        let (mac, ip) = (MacAddress([2; 6]), Address::from_v4([10, 9, 0, 2]));
        let Some(queue_pair) = queue_pair else {
            let memory = Memory {
                server: 1,
                incarnation: 1,
                address: 0,
                bytes: 1 << 20,
                rkey: 7,
                mtu: 1024,
                queue_pairs: 8,
                reads: 16,
                mac,
                ip,
            };
            let mut bytes = [0; MAX_FRAME_BYTES];
            let length = Message::Memory(memory).write(mac, mac, &mut bytes);
            return pools.take_filled(&bytes[..length]).expect("room");
        };
        let path = Path {
            source_mac: mac,
            destination_mac: mac,
            source: ip,
            destination: ip,
            source_port: 0xc000,
        };
        let header = Header {
            reth: Some(twinpath_core::wire::roce::Reth {
                address: 0,
                rkey: 7,
                bytes: 8,
            }),
            ..Header::new(Opcode::WRITE_ONLY, 5 << 10 | queue_pair, Psn::new(1))
        };
        let mut frame = pools.take(200).expect("room");
        assert!(frame.set_len(path.frame_bytes(&header, 8)));
        path.emit(&header, 8, frame.bytes_mut()).expect("it fits");
        frame
    }

    /// Whichever queue they come by, what servers send comes to the shard whose queue pair it is for, and
    /// announcements come to all; packets wait behind none of it.
    #[test]
    fn what_servers_send_comes_to_whose_queue_pair_it_is_for() {
        let mut ends = ends(3);
        let mut pools = Pools::new(4096, 1);
        let mut frames: Vec<_> = (0..30)
            .map(|queue_pair| of_server(&mut pools, Some(queue_pair)))
            .collect();
        frames.push(of_server(&mut pools, None));
        ends[1].divide_heard(0, &mut frames, &mut pools);
        assert_eq!(frames.len(), 11, "its own, and the announcement");
        assert_eq!(ends[1].figures().server_frames_handed_over, 22);
        frames.drain(..).for_each(|frame| pools.give(frame));
        for number in [0, 2] {
            let mut burst = Vec::new();
            ends[number].take_arrived(usize::MAX, &mut pools, &mut burst);
            assert!(burst.is_empty() && ends[number].has_something());
            ends[number].take_heard(RING, &mut pools, &mut frames);
            for frame in frames.drain(..) {
                let receiver = Receiver::of(frame.bytes(), 3);
                let is_own = receiver == Receiver::Shard(number as u16);
                assert!(is_own || receiver == Receiver::All, "{receiver:?}");
                pools.give(frame);
            }
            assert!(!ends[number].has_something());
        }
        // Who is behind loses them, and that is counted by itself.
        for _ in 0..2 * RING {
            let mut frames = vec![of_server(&mut pools, Some(0))];
            ends[1].divide_heard(0, &mut frames, &mut pools);
        }
        let figures = ends[1].figures();
        assert_eq!(
            (figures.server_frames_lost, figures.lost()),
            (RING as u64, 0)
        );
    }

    /// A packet that goes on in another shard comes there as such, whatever it looks like.
    #[test]
    fn what_crosses_is_told_from_what_arrived() {
        let mut ends = ends(2);
        let mut pools = Pools::new(64, 1);
        let mut frame = pools.take_filled(&packet(1, 1)).expect("room");
        frame.set_metadata(Metadata {
            egress: Some(twinpath_core::adjacency::in_shard(1)),
            was_on_slow_path: true,
            ..Metadata::default()
        });
        frame.set_port(3);
        ends[0].goes_across(1, frame, &mut pools);
        assert_eq!(ends[0].figures().crossed, 1);
        let mut taken = Vec::new();
        ends[1].take_arrived(RING, &mut pools, &mut taken);
        let metadata = taken[0].metadata();
        assert_eq!((shard_of(metadata.egress), taken[0].port()), (Some(1), 3));
        assert!(metadata.was_on_slow_path);
        ends[1].leave_behind(&mut taken, &mut pools);
        assert_eq!(ends[1].figures().left_behind, 1);
    }

    #[test]
    fn whoever_rests_is_woken() {
        let mut ends = ends(2);
        let mut two = ends.pop().expect("two");
        let mut one = ends.pop().expect("two");
        let mut pools = Pools::new(4096, 1);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut taken = Vec::new();
                let mut pools = Pools::new(4096, 1);
                let began = Instant::now();
                while taken.len() < 1000 {
                    two.rest(blocks_until_woken);
                    two.take_arrived(64, &mut pools, &mut taken);
                }
                assert!(began.elapsed() < Duration::from_secs(60));
            });
            let mut sent = 0;
            for host in 0..u16::MAX {
                let mut burst = Vec::new();
                burst.extend(pools.take_filled(&packet(host, 1)));
                one.divide(0, &mut burst, &mut pools);
                sent += usize::from(burst.is_empty());
                burst.drain(..).for_each(|frame| pools.give(frame));
                one.wake();
                if sent == 1000 {
                    break;
                }
                std::thread::yield_now();
            }
        });
    }
}
