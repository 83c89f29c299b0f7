//! Bytes that really occur in a capture, rare ones, for an inspector to look for.
//!
//! An inspector's fast path sees the first 64 bytes of a payload, so that is where signatures are
//! taken from. They are told apart by where they first occur: those that ban a flow only after
//! those that raise an alert, so that no flow is banned before its alert.

use super::payloads::Payload;
use std::collections::{HashMap, HashSet};
use twinpath_core::FlowKey;

/// How much of a payload the fast path sees.
const WINDOW_BYTES: usize = 64;
/// Signatures have so many bytes, one length after the other.
const LENGTHS: [usize; 4] = [8, 6, 10, 12];
/// What occurrences are found by.
const HEAD_BYTES: usize = 6;
/// Payloads, evenly spread over the capture, that signatures are taken from.
const MOST_PLACES: usize = 48;
/// Of each kind.
const MOST_SIGNATURES: usize = 2;
/// A window that ends within a literal must show at least so much of it.
const TAIL_BYTES: usize = 6;

/// What an inspector can find in a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signatures {
    /// In one packet's window, each in another flow if there are several; they pass.
    pub alerts: Vec<Vec<u8>>,
    /// Across the border of two segments of a stream; they pass.
    pub spanning: Vec<Spanning>,
    /// In one packet's window, nowhere before the last of the alerts.
    pub bans: Vec<Vec<u8>>,
    /// In one packet, its first bytes in the window, the last ones perhaps behind it; nowhere
    /// before the last of the alerts.
    pub deep_bans: Vec<Deep>,
}

/// Bytes on either side of a border between two segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spanning {
    /// In the window of the first segment.
    pub before: Vec<u8>,
    /// At the start of the second.
    pub after: Vec<u8>,
    /// Whether nothing lies between them.
    pub adjoin: bool,
}

/// Bytes in the window, and the last ones of the same payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deep {
    /// In the window.
    pub head: Vec<u8>,
    /// Behind them.
    pub tail: Vec<u8>,
}

/// Bytes that may become part of a signature.
struct Candidate<'a> {
    bytes: &'a [u8],
    /// The payload that they were taken from, and where in it.
    payload: usize,
    offset: usize,
    /// The first payload in which they occur, and how many have them.
    first: usize,
    payloads: usize,
    flows: HashSet<FlowKey>,
}

impl Candidate<'_> {
    fn rarity(&self) -> (usize, usize) {
        (self.flows.len(), self.payloads)
    }
}

impl Signatures {
    pub(super) fn of(payloads: &[Payload<'_>]) -> Self {
        let mut windows = in_windows(payloads);
        let mut tails = tails(payloads);
        count(&mut windows, payloads);
        count(&mut tails, payloads);
        windows.sort_by_key(Candidate::rarity);
        tails.sort_by_key(Candidate::rarity);
        let half = payloads.len().div_ceil(2);
        let early = windows.iter().filter(|candidate| candidate.payload < half);
        let alerts = of_several_flows(early, MOST_SIGNATURES);
        let borders = tails.iter().filter(|candidate| candidate.payload < half);
        let borders: Vec<_> = borders.take(1).collect();
        let seen_at = alerts.iter().map(|candidate| candidate.payload);
        let spanned_at = borders.iter().filter_map(|tail| behind(tail, payloads));
        let last_alert = seen_at.chain(spanned_at).max();
        let late = windows
            .iter()
            .filter(|candidate| Some(candidate.first) > last_alert);
        let bans = of_several_flows(late, 2 * MOST_SIGNATURES);
        let deep = bans.iter().skip(1).step_by(2);
        Self {
            alerts: alerts
                .iter()
                .map(|candidate| candidate.bytes.to_vec())
                .collect(),
            spanning: borders
                .iter()
                .map(|tail| spanning(tail, payloads))
                .collect(),
            deep_bans: deep.filter_map(|head| deep_of(head, payloads)).collect(),
            bans: bans
                .iter()
                .step_by(2)
                .map(|candidate| candidate.bytes.to_vec())
                .collect(),
        }
    }

    /// Whether there is nothing to look for.
    pub fn are_none(&self) -> bool {
        self.alerts.is_empty() && self.bans.is_empty()
    }
}

/// So many indexes below a length, evenly spread.
fn spread(length: usize, most: usize) -> impl Iterator<Item = usize> {
    let count = length.min(most);
    (0..count).map(move |number| number * length / count.max(1))
}

fn in_windows<'a>(payloads: &[Payload<'a>]) -> Vec<Candidate<'a>> {
    let mut candidates = Vec::new();
    for payload in spread(payloads.len(), MOST_PLACES) {
        let window = &payloads[payload].bytes;
        let window = &window[..window.len().min(WINDOW_BYTES)];
        for (number, length) in LENGTHS.into_iter().enumerate() {
            let Some(room) = window.len().checked_sub(length) else {
                continue;
            };
            let offset = room * (2 * number + 1) / (2 * LENGTHS.len());
            let bytes = &window[offset..offset + length];
            candidates.extend(candidate(bytes, payload, offset));
        }
    }
    candidates
}

/// What stands in front of a border: the end of a payload as long as the window at most, else the
/// end of the window.
fn tails<'a>(payloads: &[Payload<'a>]) -> Vec<Candidate<'a>> {
    let goes_on = |payload: &Payload<'_>| payload.bytes.len() >= TAIL_BYTES;
    let borders: Vec<usize> = payloads
        .iter()
        .filter(|payload| goes_on(payload))
        .filter_map(|payload| payload.continues)
        .collect();
    let tail = |border: usize| {
        let payload = borders[border];
        let window = payloads[payload].bytes.len().min(WINDOW_BYTES);
        let offset = window.checked_sub(TAIL_BYTES)?;
        candidate(&payloads[payload].bytes[offset..window], payload, offset)
    };
    spread(borders.len(), MOST_PLACES)
        .filter_map(tail)
        .collect()
}

/// The candidate, unless all of its bytes are the same.
fn candidate(bytes: &[u8], payload: usize, offset: usize) -> Option<Candidate<'_>> {
    let is_flat = bytes.iter().all(|byte| *byte == bytes[0]);
    (!is_flat).then(|| Candidate {
        bytes,
        payload,
        offset,
        first: payload,
        payloads: 0,
        flows: HashSet::new(),
    })
}

/// Finds all payloads in which candidates occur.
fn count(candidates: &mut [Candidate<'_>], payloads: &[Payload<'_>]) {
    let mut by_head = HashMap::<&[u8], Vec<usize>>::new();
    let mut begins = vec![false; 1 << 16];
    for (number, candidate) in candidates.iter().enumerate() {
        by_head
            .entry(&candidate.bytes[..HEAD_BYTES])
            .or_default()
            .push(number);
        begins[pair(candidate.bytes)] = true;
    }
    for (index, payload) in payloads.iter().enumerate() {
        let mut seen = HashSet::<usize>::new();
        for place in 0..(payload.bytes.len() + 1).saturating_sub(HEAD_BYTES) {
            let rest = &payload.bytes[place..];
            if !begins[pair(rest)] {
                continue;
            }
            let numbers = by_head.get(&rest[..HEAD_BYTES]).into_iter().flatten();
            seen.extend(numbers.filter(|&&number| rest.starts_with(candidates[number].bytes)));
        }
        for number in seen {
            let candidate: &mut Candidate<'_> = &mut candidates[number];
            candidate.first = candidate.first.min(index);
            candidate.payloads += 1;
            candidate.flows.insert(payload.flow);
        }
    }
}

fn pair(bytes: &[u8]) -> usize {
    usize::from(bytes[0]) << 8 | usize::from(bytes[1])
}

/// The first ones, each of a flow that the others are not of; of the same flows only if there are
/// no more.
fn of_several_flows<'c, 'a>(
    candidates: impl Iterator<Item = &'c Candidate<'a>>,
    most: usize,
) -> Vec<&'c Candidate<'a>> {
    let mut flows = HashSet::new();
    let (mut chosen, others): (Vec<_>, Vec<_>) =
        candidates.partition(|candidate| candidate.flows.iter().all(|flow| flows.insert(*flow)));
    chosen.truncate(most);
    let missing = most - chosen.len();
    chosen.extend(others.into_iter().take(missing));
    chosen
}

/// The payload that goes on where the one in front of a border ends.
fn behind(tail: &Candidate<'_>, payloads: &[Payload<'_>]) -> Option<usize> {
    payloads
        .iter()
        .position(|payload| payload.continues == Some(tail.payload))
}

fn spanning(tail: &Candidate<'_>, payloads: &[Payload<'_>]) -> Spanning {
    let next = behind(tail, payloads);
    let after = next.map_or(&[][..], |next| &payloads[next].bytes[..TAIL_BYTES]);
    Spanning {
        before: tail.bytes.to_vec(),
        after: after.to_vec(),
        adjoin: tail.offset + TAIL_BYTES == payloads[tail.payload].bytes.len(),
    }
}

/// The bytes, and the last ones of their payload if these lie behind them.
fn deep_of(head: &Candidate<'_>, payloads: &[Payload<'_>]) -> Option<Deep> {
    let rest = &payloads[head.payload].bytes[head.offset + head.bytes.len()..];
    let tail = rest.len().checked_sub(HEAD_BYTES)?;
    Some(Deep {
        head: head.bytes.to_vec(),
        tail: rest[tail..].to_vec(),
    })
}
