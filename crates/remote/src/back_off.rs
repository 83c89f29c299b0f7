//! Which server takes a flow, by the load of the servers' links (Ribosome §3.1, "Exploiting spare
//! bandwidth").
//!
//! Servers are shared with others, so only what they leave is used: the octets of each link are read
//! every [`Config::interval`], and a server whose link carries more than a threshold gets fewer payloads,
//! or none. Its flows are spread over the other servers and come back when the link has room again;
//! flows of other servers stay where they are. Flows that no server takes travel whole.
//!
//! The paper stops a server at once ([`Mode::OnOff`]). [`Mode::Proportional`] is an addition: the share of
//! flows that a server takes follows the load, so that a link is shared in fine grain and does not
//! swing between nothing and all.
//!
//! What others put on the link is not among our own octets. It is seen by how long a READ takes: where even
//! the fastest one of an interval took longer than [`Config::latency`], something is in the way, on the
//! link or at the server, and the server is left alone as if its link were full. That is an addition, too. A
//! server that is read no more tells nothing: it is tried again, after twice as long each time that it was slow
//! again, so that it does not come and go.
//!
//! A flow that moves may have payloads under way at its former server: whoever rebuilds packets keeps
//! their order.

use std::time::Duration;
use twinpath_core::Instant;

/// How a server's share follows the load of its link.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All of it below the threshold, nothing above. One server always stays.
    OnOff,
    /// As much as the link has room for.
    Proportional,
}

/// When servers are left alone.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// A link that carries more is left alone.
    pub threshold_bps: u64,
    /// So much less must it carry to be used again.
    pub hysteresis_bps: u64,
    /// How often links are looked at: a second in the paper.
    pub interval: Duration,
    /// How.
    pub mode: Mode,
    /// A server whose fastest READ of an interval took longer is left alone; `None` if that does not
    /// matter.
    pub latency: Option<Duration>,
}

impl Config {
    /// As in the paper's published program: 95 Gb/s, 5 less, every second.
    pub const PAPER: Self = Self {
        threshold_bps: 95_000_000_000,
        hysteresis_bps: 5_000_000_000,
        interval: Duration::from_secs(1),
        mode: Mode::OnOff,
        latency: None,
    };
}

/// A whole share.
pub const WHOLE: u16 = 1024;
/// Flows are divided into as many parts.
const PARTS: usize = 1024;
/// The least share of a server that is up, in proportional mode: so that it is noticed that there is
/// room again.
const LEAST: u16 = WHOLE / 128;
/// What a share grows by when there is room.
const GROWTH: u16 = WHOLE / 16;

struct Link {
    /// Whether the server takes payloads at all.
    is_up: bool,
    /// Of the flows that would be its, 0 to [`WHOLE`].
    share: u16,
    /// How often it was cut.
    cuts: u64,
    /// Octets at the last look.
    octets: u64,
    /// Octets now.
    octets_now: u64,
    /// What it carried between the last two looks.
    rate_bps: u64,
    /// How long the fastest READ since the last look took, if there was one.
    fastest_read: Option<Duration>,
    /// For how many looks more it is left alone for being slow.
    pause: u16,
    /// For how many it is the next time.
    next_pause: u16,
}

/// The longest time that a slow server is not tried again, in looks.
const LONGEST_PAUSE: u16 = 64;

/// The shares of several servers.
pub struct BackOff {
    config: Config,
    links: Vec<Link>,
    /// The server that each part of the flows is given to while it takes it: all have as many, for a
    /// link that has a quarter more than others is full a quarter earlier.
    homes: Box<[u8; PARTS]>,
    /// The server of each part of the flows.
    parts: Box<[Option<u8>; PARTS]>,
    /// The server that stays though its link is full, if there is one.
    last: Option<usize>,
    looked: Instant,
    changes: u64,
}

/// The most servers.
pub const MAX_SERVERS: usize = 64;

impl BackOff {
    /// Up to [`MAX_SERVERS`] servers, none of which is up yet.
    #[must_use]
    pub fn new(config: Config, servers: usize, now: Instant) -> Self {
        let link = || Link {
            is_up: false,
            share: WHOLE,
            cuts: 0,
            octets: 0,
            octets_now: 0,
            rate_bps: 0,
            fastest_read: None,
            pause: 0,
            next_pause: 1,
        };
        let servers = servers.min(MAX_SERVERS);
        let links = std::iter::repeat_with(link).take(servers);
        Self {
            config,
            links: links.collect(),
            homes: homes(servers),
            parts: Box::new([None; PARTS]),
            last: None,
            looked: now,
            changes: 0,
        }
    }

    /// The server that takes payloads of a flow with this hash; `None` if its packets travel whole.
    #[must_use]
    #[inline]
    pub fn server(&self, hash: u64) -> Option<usize> {
        self.parts[hash as usize % PARTS].map(usize::from)
    }

    /// A server takes payloads from now on, or takes none.
    pub fn set_up(&mut self, server: usize, is_up: bool) {
        let Some(link) = self.links.get_mut(server) else {
            return;
        };
        if link.is_up != is_up {
            link.is_up = is_up;
            self.divide();
        }
    }

    /// How many octets a server's link has carried, in the direction that is the fuller, whoever sent
    /// them.
    pub fn carried(&mut self, server: usize, octets: u64) {
        if let Some(link) = self.links.get_mut(server) {
            link.octets_now = octets;
        }
    }

    /// How long the fastest READ of a server since the last look took; `None` if there was none.
    pub fn took(&mut self, server: usize, fastest_read: Option<Duration>) {
        if let Some(link) = self.links.get_mut(server) {
            link.fastest_read = fastest_read;
        }
    }

    /// When [`Self::look`] is to be called, behind [`Self::carried`] for all servers.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.looked + self.config.interval
    }

    /// Divides the flows by what the links have carried since the last time, if that is long ago.
    pub fn update(&mut self, now: Instant) {
        if now < self.deadline() {
            return;
        }
        let nanoseconds = now.since(self.looked).as_nanos().max(1);
        self.looked = now;
        let before: Vec<u16> = (0..self.links.len())
            .map(|server| self.share(server))
            .collect();
        let mut has_changed = false;
        for link in &mut self.links {
            let octets = link.octets_now.saturating_sub(link.octets);
            link.octets = link.octets_now;
            let bits = 8 * u128::from(octets) * 1_000_000_000;
            link.rate_bps = u64::try_from(bits / nanoseconds).unwrap_or(u64::MAX);
            let share = next_share(link, &self.config);
            has_changed |= share != link.share;
            link.share = share;
        }
        if has_changed {
            self.divide();
            for (server, before) in before.into_iter().enumerate() {
                let is_cut = self.share(server) < before;
                self.links[server].cuts += u64::from(is_cut);
            }
        }
    }

    /// A server's share of the flows that would be its, of [`WHOLE`].
    #[must_use]
    pub fn share(&self, server: usize) -> u16 {
        match self.last == Some(server) {
            true => WHOLE,
            false => self.links.get(server).map_or(0, |link| link.share),
        }
    }

    /// How often a server's share was cut.
    #[must_use]
    pub fn cuts(&self, server: usize) -> u64 {
        self.links.get(server).map_or(0, |link| link.cuts)
    }

    /// What a server's link carried when it was last looked at.
    #[must_use]
    pub fn rate_bps(&self, server: usize) -> u64 {
        self.links.get(server).map_or(0, |link| link.rate_bps)
    }

    /// How often parts of the flows have moved.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// Gives each part to its home, or else to the first of a list of its own that takes it.
    fn divide(&mut self) {
        let last = self.last_one();
        self.last = last;
        let before = self.parts.clone();
        for (part, server) in self.parts.iter_mut().enumerate() {
            let takes = |server: usize, link: &Link| {
                let drawn = (draw(part, server) % u64::from(WHOLE)) as u16;
                link.is_up && (drawn < link.share || Some(server) == last)
            };
            let home = usize::from(self.homes[part]);
            let links = self.links.iter().enumerate();
            let takers = links.filter(|&(server, link)| takes(server, link));
            let worth = |server| (server == home, draw(part, server) >> 10);
            let first = takers.max_by_key(|&(server, _)| worth(server));
            *server = first.map(|(server, _)| server as u8);
        }
        let moved = before.iter().zip(self.parts.iter()).filter(|(a, b)| a != b);
        self.changes += moved.count() as u64;
    }

    /// The server that stays whatever its link carries, if all are above the threshold: the one whose
    /// link carries least.
    fn last_one(&self) -> Option<usize> {
        let is_used = |link: &Link| link.is_up && link.share > 0;
        if self.config.mode == Mode::Proportional || self.links.iter().any(is_used) {
            return None;
        }
        let links = self.links.iter().enumerate();
        let up = links.filter(|(_, link)| link.is_up);
        up.min_by_key(|(_, link)| link.rate_bps)
            .map(|(server, _)| server)
    }
}

/// Whether a server may be used as far as its READs tell.
fn has_pause(link: &mut Link, config: &Config) -> bool {
    let (Some(most), Some(fastest)) = (config.latency, link.fastest_read) else {
        // Without READs nobody knows.
        link.pause = link.pause.saturating_sub(1);
        return link.pause > 0;
    };
    match fastest > most {
        true => {
            link.pause = link.next_pause;
            link.next_pause = (2 * link.next_pause).min(LONGEST_PAUSE);
        }
        false => (link.pause, link.next_pause) = (0, 1),
    }
    fastest > most
}

fn next_share(link: &mut Link, config: &Config) -> u16 {
    let is_above = link.rate_bps > config.threshold_bps;
    let is_below = link.rate_bps < config.threshold_bps.saturating_sub(config.hysteresis_bps);
    let is_slow = has_pause(link, config);
    match (config.mode, is_above || is_slow, is_below) {
        (Mode::OnOff, true, _) => 0,
        (Mode::OnOff, _, true) => WHOLE,
        (Mode::Proportional, true, _) => {
            let has_room_for = match is_above {
                true => scaled(link, config.threshold_bps),
                false => link.share / 2,
            };
            has_room_for.max(link.share / 4).max(LEAST)
        }
        (Mode::Proportional, _, true) => (link.share + GROWTH).min(WHOLE),
        _ => link.share,
    }
}

/// The share with which a link would carry as much as it may.
fn scaled(link: &Link, threshold_bps: u64) -> u16 {
    let scaled = u128::from(link.share) * u128::from(threshold_bps);
    (scaled / u128::from(link.rate_bps.max(1))) as u16
}

/// A server for each part: the one that it is worth most to, of those that have not got their number yet.
fn homes(servers: usize) -> Box<[u8; PARTS]> {
    let number = |server| PARTS / servers + usize::from(server < PARTS % servers);
    let mut left: Vec<usize> = (0..servers).map(number).collect();
    let mut homes = Box::new([0; PARTS]);
    for (part, home) in homes.iter_mut().enumerate() {
        let open = (0..servers).filter(|&server| left[server] > 0);
        let Some(first) = open.max_by_key(|&server| draw(part, server) >> 10) else {
            break;
        };
        left[first] -= 1;
        *home = first as u8;
    }
    homes
}

/// What a part and a server are worth to each other: 64 bits without a pattern.
fn draw(part: usize, server: usize) -> u64 {
    crate::server::Draws((part as u64) << 32 | server as u64).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GBPS: u64 = 1_000_000_000;

    /// Servers whose links carry what a test says.
    struct Rack {
        back_off: BackOff,
        octets: Vec<u64>,
        now: Instant,
    }

    impl Rack {
        fn new(servers: usize, mode: Mode) -> Self {
            let config = Config {
                mode,
                ..Config::PAPER
            };
            let mut back_off = BackOff::new(config, servers, Instant::ZERO);
            (0..servers).for_each(|server| back_off.set_up(server, true));
            Self {
                back_off,
                octets: vec![0; servers],
                now: Instant::ZERO,
            }
        }

        /// A second passes in which the links carry so many gigabits.
        fn second(&mut self, carried: &[u64]) {
            self.now = self.now + Duration::from_secs(1);
            for (server, gigabits) in carried.iter().enumerate() {
                self.octets[server] += gigabits * GBPS / 8;
                self.back_off.carried(server, self.octets[server]);
            }
            self.back_off.update(self.now);
        }

        /// How many parts of the flows each server has.
        fn parts(&self) -> Vec<usize> {
            let of = |server| {
                let flows = 0..PARTS as u64;
                let is_its = |flow: &u64| self.back_off.server(*flow) == Some(server);
                flows.filter(is_its).count()
            };
            (0..self.octets.len()).map(of).collect()
        }
    }

    #[test]
    fn servers_have_as_many_parts_each() {
        for servers in [1, 3, 4, 22, MAX_SERVERS] {
            let parts = Rack::new(servers, Mode::OnOff).parts();
            let (least, most) = (parts.iter().min().unwrap(), parts.iter().max().unwrap());
            assert!(most - least <= 1, "{servers}: {parts:?}");
        }
        assert_eq!(Rack::new(0, Mode::OnOff).back_off.server(7), None);
    }

    #[test]
    fn a_busy_server_gives_way_and_comes_back_below_the_hysteresis() {
        let mut rack = Rack::new(4, Mode::OnOff);
        let before = rack.back_off.parts.clone();
        rack.second(&[96, 50, 50, 50]);
        assert_eq!(rack.parts()[0], 0);
        // Others' flows stayed, and its own are spread over all of them.
        let stayed = |at: usize| before[at] == Some(0) || before[at] == rack.back_off.parts[at];
        assert!((0..PARTS).all(stayed));
        let taken = |server: usize| {
            let parts = before.iter().zip(rack.back_off.parts.iter());
            let is_taken = |(was, is): &(&Option<u8>, &Option<u8>)| {
                **was == Some(0) && **is == Some(server as u8)
            };
            parts.filter(is_taken).count()
        };
        assert!((1..4).all(|server| taken(server) > PARTS / 32));
        rack.second(&[92, 50, 50, 50]);
        assert_eq!(rack.parts()[0], 0, "between both bounds nothing changes");
        rack.second(&[89, 50, 50, 50]);
        assert_eq!(rack.back_off.parts, before);
        rack.second(&[92, 50, 50, 50]);
        assert_eq!(rack.back_off.parts, before);
    }

    #[test]
    fn one_server_always_stays() {
        let mut rack = Rack::new(3, Mode::OnOff);
        rack.second(&[99, 97, 98]);
        assert_eq!(rack.parts(), [0, PARTS, 0]);
        rack.back_off.set_up(1, false);
        assert_eq!(rack.parts(), [0, 0, PARTS]);
        rack.back_off.set_up(0, false);
        rack.back_off.set_up(2, false);
        assert_eq!(rack.parts(), [0, 0, 0]);
    }

    #[test]
    fn flows_are_divided_evenly() {
        let rack = Rack::new(4, Mode::OnOff);
        let parts = rack.parts();
        assert!(
            parts.iter().all(|parts| (200..312).contains(parts)),
            "{parts:?}"
        );
    }

    #[test]
    fn a_proportional_share_settles_where_the_link_is_full() {
        let mut rack = Rack::new(1, Mode::Proportional);
        let mut seen = Vec::new();
        for _ in 0..40 {
            // Others send 40 Gb/s, and all flows together would be 100.
            let own = 100 * rack.parts()[0] as u64 / PARTS as u64;
            rack.second(&[40 + own]);
            seen.push(40 + own);
        }
        let settled = &seen[20..];
        assert!(
            settled.iter().all(|rate| (80..=97).contains(rate)),
            "{settled:?}"
        );
        // When the others are gone all flows come back.
        for _ in 0..20 {
            let own = 80 * rack.parts()[0] as u64 / PARTS as u64;
            rack.second(&[own]);
        }
        assert_eq!(rack.parts(), [PARTS]);
    }

    /// A rack of two servers that are left alone beyond a hundred microseconds.
    fn impatient(mode: Mode) -> Rack {
        let mut rack = Rack::new(2, mode);
        rack.back_off.config.latency = Some(Duration::from_micros(100));
        rack
    }

    impl Rack {
        /// A second in which little is carried, and READs take so many microseconds.
        fn second_with_reads(&mut self, micros: [Option<u64>; 2]) {
            for (server, micros) in micros.into_iter().enumerate() {
                self.back_off
                    .took(server, micros.map(Duration::from_micros));
            }
            self.second(&[1, 1]);
        }
    }

    /// Others fill the cable of the second one, which our own octets do not tell.
    #[test]
    fn a_server_whose_reads_take_long_gives_way() {
        let mut rack = impatient(Mode::OnOff);
        rack.second_with_reads([Some(20), Some(101)]);
        assert_eq!(rack.parts(), [PARTS, 0]);
        // Nothing is read there any more, so it is tried again.
        rack.second_with_reads([Some(20), None]);
        assert!(rack.parts()[1] > 0);
        rack.second_with_reads([Some(20), Some(100)]);
        assert!(rack.parts()[1] > 0);
    }

    /// One that stays slow is tried ever more rarely, and at once again after it was fast.
    #[test]
    fn a_slow_server_does_not_come_and_go() {
        let mut rack = impatient(Mode::OnOff);
        let mut trials = Vec::new();
        let second_of = |rack: &mut Rack, micros| {
            let reads = (rack.parts()[1] > 0).then_some(micros);
            rack.second_with_reads([Some(20), reads]);
            reads.is_some()
        };
        for second in 0..40 {
            if second_of(&mut rack, 300) {
                trials.push(second);
            }
        }
        assert_eq!(trials, [0, 2, 5, 10, 19, 36]);
        // The pause of 32 looks ends, and it is fast.
        while !second_of(&mut rack, 30) {}
        assert!(second_of(&mut rack, 30) && second_of(&mut rack, 300));
        assert!(!second_of(&mut rack, 300) && second_of(&mut rack, 300));
    }

    /// Found by an attack: all shares were told as none while one server took all flows.
    #[test]
    fn the_share_of_the_one_that_stays_is_told() {
        let mut rack = Rack::new(3, Mode::OnOff);
        rack.second(&[99, 97, 98]);
        let shares = [0, 1, 2].map(|server| rack.back_off.share(server));
        assert_eq!(shares, [0, WHOLE, 0]);
        let cuts = [0, 1, 2].map(|server| rack.back_off.cuts(server));
        assert_eq!(cuts, [1, 0, 1], "what stays was not cut");
    }

    #[test]
    fn a_proportional_share_halves_while_reads_take_long() {
        let mut rack = impatient(Mode::Proportional);
        let before = rack.parts();
        let mut shares = Vec::new();
        for _ in 0..12 {
            rack.second_with_reads([Some(20), Some(300)]);
            shares.push(rack.back_off.share(1));
        }
        assert_eq!(shares[..3], [WHOLE / 2, WHOLE / 4, WHOLE / 8]);
        assert_eq!((shares[11], rack.back_off.share(0)), (LEAST, WHOLE));
        for _ in 0..16 {
            rack.second_with_reads([Some(20), Some(90)]);
        }
        assert_eq!(rack.parts(), before);
    }

    #[test]
    fn nothing_changes_before_its_time() {
        let mut rack = Rack::new(2, Mode::OnOff);
        rack.back_off.carried(0, u64::MAX);
        rack.back_off.update(rack.now + Duration::from_millis(999));
        assert_eq!(rack.back_off.share(0), WHOLE);
        rack.back_off.update(rack.now + Duration::from_millis(1000));
        assert_eq!((rack.back_off.share(1), rack.back_off.share(9)), (WHOLE, 0));
        assert_eq!(rack.back_off.share(0), 0);
        assert!(rack.back_off.rate_bps(0) > 95 * GBPS && rack.back_off.changes() > 0);
    }
}
