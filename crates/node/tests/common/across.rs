//! Captures as they would be if hosts inside had IPv6 alone, and reached others by a translation between IP
//! versions.
//!
//! What a host inside sends in a conversation that it begins is sent over IPv6, to an address behind a
//! prefix; what answers it comes over IPv4, to the address that the translation shows. All else stays as it
//! was captured: it passes the translation, which caches that.

use super::world::{Mishaps, World};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use twinpath_captures::networks::is_in;
use twinpath_captures::{Conversation, Evidence, Expectation, FunctionText, Lacking, Profile};
use twinpath_classify::Prefix;
use twinpath_control::service::{Paths, Service};
use twinpath_core::key::Role;
use twinpath_core::wire::translate::{MOST_GROWTH, translate};
use twinpath_core::wire::{Address, Endpoint, dissect, fields, protocol, rewrite};
use twinpath_core::{FlowKey, Steering};
use twinpath_io::Trace;

/// The function's name.
pub const NAME: &str = "nat64";
/// External addresses: so many that their ports suffice for any capture.
const EXTERNAL: Range<u128> = 1..5;
/// Subnets of the network of IPv6 that a capture does not use: of the hosts, and of what addresses of IPv4
/// are behind.
const HOSTS: u128 = 1 << 64;
const BEHIND: u128 = 2 << 64;
/// A frame that belongs to no conversation: ARP's type, and nothing.
const BLANK: [u8; 60] = {
    let mut frame = [0; 60];
    frame[12] = 8;
    frame[13] = 6;
    frame
};

/// A translation of the conversations that hosts inside begin over IPv4, which anyone may answer.
///
/// # Errors
/// A capture in which nothing of the kind leaves the networks inside.
pub fn nat64(profile: &Profile) -> Result<FunctionText, Lacking> {
    if crossing(profile).is_empty() {
        let what = "nothing over IPv4 that leaves the networks inside and has ports";
        return Err(Lacking(what));
    }
    let hosts = Prefix::covering(hosts(profile), 64);
    let prefix = Prefix::covering(behind(profile), 96);
    let external = EXTERNAL.map(|number| Address(profile.fresh.v4.network().0 | number));
    let external: Vec<String> = external.map(|address| address.to_string()).collect();
    // Hosts that leave checksums to their cards were captured with wrong ones.
    let verified = match profile.counts.broken {
        0 => "",
        _ => "verify_checksums = \"none\"\n",
    };
    let seen = |seen, at_least| Expectation {
        function: NAME,
        seen,
        at_least,
    };
    let exhausted = Evidence::Counted(&["ports_exhausted", "sessions_exhausted"]);
    Ok(FunctionText {
        function: NAME,
        variant: "",
        table: format!(
            "[nat64]\ninside = [\"{hosts}\"]\nexternal = {external:?}\nprefix = \"{prefix}\"\n\
             mtu = 9000\nlowest_mtu = 9000\nfiltering = \"endpoint_independent\"\n{verified}"
        ),
        files: Vec::new(),
        expectations: vec![
            seen(Evidence::Counted(&["translated_out"]), 1),
            seen(exhausted, 0),
            seen(Evidence::Addressed(profile.fresh.v4), 1),
        ],
    })
}

/// The packets of a capture as they come to such a translation.
pub fn crossed(service: &Service, profile: &Profile, trace: &Trace) -> Trace {
    let asked = with_questions(profile, trace);
    let mut world = World::new(service, Paths::Slow, Mishaps::default());
    world.run(&asked);
    // By whom a packet was captured from, and for whom: whom it came from outside.
    let mut shown: HashMap<(Endpoint, Endpoint, u8), Endpoint> = HashMap::new();
    let mut answered = Trace::new();
    let frames = trace.iter().zip(asked.iter());
    for (ordinal, (captured, frame)) in (0..).zip(frames) {
        let mut packet = frame.frame.to_vec();
        if let Some((source, destination, protocol)) = ends(captured.frame) {
            let left = world.left.get(&ordinal).and_then(|packet| ends(packet));
            let is_question = captured.frame != frame.frame;
            let asked_from = shown.get(&(destination, source, protocol)).copied();
            match (left, asked_from) {
                (Some((seen, ..)), _) if is_question => {
                    shown.insert((source, destination, protocol), seen);
                }
                (_, Some(seen)) if !is_question => set_destination(&mut packet, seen),
                _ => {}
            }
        }
        answered.push(frame.timestamp_ns, &packet);
    }
    answered
}

/// What must be seen of answers, if there are any among packets that come to the translation.
pub fn answers(profile: &Profile, met: &Trace) -> Option<Expectation> {
    let external = profile.fresh.v4;
    let is_answer = |packet: &[u8]| {
        ends(packet).is_some_and(|(_, destination, _)| external.includes(destination.address))
    };
    let are_there = met.iter().any(|frame| is_answer(frame.frame));
    are_there.then_some(Expectation {
        function: NAME,
        seen: Evidence::Counted(&["translated_in"]),
        at_least: 1,
    })
}

/// Packets that the fast path could settle: by rules, of those that the translation lets pass.
pub fn settleable(profile: &Profile, trace: &Trace) -> u64 {
    let crossing = crossing(profile);
    let mut others = Trace::new();
    for frame in trace.iter() {
        let crosses = key_of(frame.frame).is_some_and(|key| crossing.contains(&key));
        let packet = if crosses { &BLANK[..] } else { frame.frame };
        others.push(frame.timestamp_ns, packet);
    }
    Profile::of(&others).settleable.by_rules
}

/// The conversations whose hosts inside have IPv6.
fn crossing(profile: &Profile) -> HashSet<FlowKey> {
    let conversations = profile.conversations.iter();
    let crossing = conversations.filter(|conversation| crosses(profile, conversation));
    crossing.map(|conversation| conversation.key).collect()
}

/// Whether a host inside sends to one outside first.
fn crosses(profile: &Profile, conversation: &Conversation) -> bool {
    let is_translated = matches!(
        conversation.protocol(),
        protocol::TCP | protocol::UDP | protocol::ICMP
    );
    let (source, destination) = (
        conversation.source.address,
        conversation.destination.address,
    );
    let is_one_host = conversation.is_v4() && matches!(destination.octets4()[0], 1..224);
    // With a time to live that lets it be forwarded.
    let is_forwarded = || {
        let mut forwarded_to = profile.destinations.iter();
        forwarded_to.any(|(address, _)| *address == destination)
    };
    is_translated
        && is_one_host
        && is_forwarded()
        && is_in(&profile.inside, source)
        && !is_in(&profile.inside, destination)
}

/// The same packets, but what hosts inside send in these conversations goes over IPv6.
fn with_questions(profile: &Profile, trace: &Trace) -> Trace {
    let crossing = crossing(profile);
    let mut asked = Trace::new();
    for frame in trace.iter() {
        let is_crossing = key_of(frame.frame).is_some_and(|key| crossing.contains(&key));
        let question = match is_crossing {
            true => question(profile, frame.frame),
            false => None,
        };
        asked.push(
            frame.timestamp_ns,
            question.as_deref().unwrap_or(frame.frame),
        );
    }
    asked
}

/// A packet of a host inside over IPv6; `None` if it is another's, or has no counterpart.
fn question(profile: &Profile, packet: &[u8]) -> Option<Vec<u8>> {
    let layout = dissect(packet).ok()?;
    let source = fields::source_address(packet, &layout);
    let destination = fields::destination_address(packet, &layout);
    if !is_in(&profile.inside, source) {
        return None;
    }
    let mut buffer = vec![0; MOST_GROWTH];
    buffer.extend_from_slice(packet);
    let of = |network: Address, host: Address| Address(network.0 | u128::from(host.word(3)));
    let (source, destination) = (of(hosts(profile), source), of(behind(profile), destination));
    let start = translate(&mut buffer, MOST_GROWTH, &layout, source, destination).ok()?;
    Some(buffer.split_off(start))
}

/// The network of the hosts inside.
fn hosts(profile: &Profile) -> Address {
    Address(profile.fresh.v6.network().0 | HOSTS)
}

/// The network of IPv4.
fn behind(profile: &Profile) -> Address {
    Address(profile.fresh.v6.network().0 | BEHIND)
}

/// The conversation of a whole packet.
fn key_of(packet: &[u8]) -> Option<FlowKey> {
    let layout = dissect(packet).ok()?;
    let keyed = Steering::new(0).key(packet, &layout)?;
    (keyed.role == Role::Member).then_some(keyed.key)
}

fn ends(packet: &[u8]) -> Option<(Endpoint, Endpoint, u8)> {
    let layout = dissect(packet).ok().filter(|layout| layout.is_ip())?;
    let source = fields::source(packet, &layout);
    let destination = fields::destination(packet, &layout);
    Some((source, destination, layout.protocol))
}

fn set_destination(packet: &mut [u8], destination: Endpoint) {
    let layout = dissect(packet).expect("it has ends");
    let set = rewrite::set_destination(packet, &layout, destination);
    set.expect("ends of one IP version");
}
