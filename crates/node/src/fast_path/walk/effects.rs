//! What the rules of an element want done: messages to those who make rules, and packets that have
//! waited go on.

use crate::fast_path::rules::{RULES_HASH, RuleStage};
use crate::fast_path::{FastElement, FastPath, Io};
use crate::position::Position;
use twinpath_core::{Decision, DropReason, Frame, Keyed};
use twinpath_link::{Header, Message};
use twinpath_rulecache::message::{MAX_MESSAGE_BYTES, messages};
use twinpath_rulecache::{CacheMessage, Effect, Held};

/// Bytes of messages that travel in one frame.
const BODY_BYTES: usize = 1400;

/// Messages on their way to the slow path, until there are enough for a frame.
struct Body {
    bytes: [u8; BODY_BYTES],
    len: usize,
}

impl Body {
    const EMPTY: Self = Self {
        bytes: [0; BODY_BYTES],
        len: 0,
    };

    fn has_room(&self) -> bool {
        self.len + MAX_MESSAGE_BYTES <= BODY_BYTES
    }

    fn put(&mut self, message: &CacheMessage) {
        self.len += message.write(&mut self.bytes[self.len..]).unwrap_or(0);
    }
}

impl FastPath {
    pub(super) fn rules(&mut self, element: u8) -> Option<&mut RuleStage> {
        match self.elements.get_mut(usize::from(element))? {
            FastElement::Rules(stage) => Some(stage),
            _ => None,
        }
    }

    pub(super) fn hold_for_rule(&mut self, held: Held, element: u8, io: &mut Io<'_>) {
        let Some(stage) = self.rules(element) else {
            return self.drop(held.frame, DropReason::BadLinkFrame, io);
        };
        let (ordinal, at) = (held.frame.ordinal(), held.frame.timestamp());
        stage.table.hold(held, &mut stage.effects);
        self.under_way.open(ordinal, at);
        if self
            .rules(element)
            .is_some_and(|stage| !stage.effects.is_empty())
        {
            self.settle(element, io);
        }
    }

    /// Does what the table wants done, in order. Released packets only ever meet later elements,
    /// so this ends.
    fn settle(&mut self, element: u8, io: &mut Io<'_>) {
        let Some(stage) = self.rules(element) else {
            return;
        };
        let mut effects = std::mem::take(&mut stage.effects);
        let mut body = Body::EMPTY;
        for effect in effects.drain(..) {
            match effect {
                Effect::Send(message) => {
                    if !body.has_room() {
                        self.send_body(&mut body, element, io);
                    }
                    body.put(&message);
                }
                Effect::Release(held, decision) => {
                    // A mark must stay behind the packets that went before it, and no other.
                    self.send_body(&mut body, element, io);
                    self.released(held, decision, element, io);
                }
            }
        }
        self.send_body(&mut body, element, io);
        if let Some(stage) = self.rules(element) {
            stage.effects = effects;
        }
    }

    fn released(&mut self, held: Held, decision: Decision, element: u8, io: &mut Io<'_>) {
        self.under_way.close(held.frame.ordinal());
        let direction = held.frame.metadata().direction;
        let position = Position { element, direction };
        self.stop(decision, held.frame, &held.layout, position, io);
    }

    /// Without a buffer the messages are lost; whoever waits for them asks again.
    fn send_body(&mut self, body: &mut Body, element: u8, io: &mut Io<'_>) {
        if body.len == 0 {
            return;
        }
        let bytes = &body.bytes[..std::mem::take(&mut body.len)];
        let Some(frame) = io.pools.take_filled(bytes) else {
            self.counts.no_own_buffer += 1;
            return;
        };
        let mut header = Header::new(Message::RuleReport, Keyed::default().key);
        (header.chain, header.element) = (self.chain, element);
        header.timestamp = io.clock.packet;
        header.epoch = self.epochs[self.worker(RULES_HASH)];
        self.send(frame, &header, RULES_HASH, io);
    }

    /// What the workers want done with rules.
    pub(in crate::fast_path) fn rule_request(
        &mut self,
        element: u8,
        frame: &Frame,
        io: &mut Io<'_>,
    ) {
        for message in messages(frame.bytes()) {
            let Ok(message) = message else {
                self.drops.count(DropReason::BadLinkFrame);
                continue;
            };
            let Some(stage) = self.rules(element) else {
                break;
            };
            stage.table.message(&message, &mut stage.effects);
            if !stage.effects.is_empty() {
                self.settle(element, io);
            }
        }
    }

    /// Whoever made the rules knows of none any more: all are gone.
    pub(in crate::fast_path) fn forget_rules(&mut self, io: &mut Io<'_>) {
        for element in 0..self.elements.len() as u8 {
            if let Some(stage) = self.rules(element) {
                stage.table.forget_all(&mut stage.effects);
                self.settle(element, io);
            }
        }
    }

    /// Lets time pass for the rules: marks, reports.
    pub(in crate::fast_path) fn tick_rules(&mut self, io: &mut Io<'_>) {
        for element in 0..self.elements.len() as u8 {
            let Some(stage) = self.rules(element) else {
                continue;
            };
            let clock = io.clock;
            stage
                .table
                .tick(clock.packet, clock.link, &mut stage.effects);
            if !stage.effects.is_empty() {
                self.settle(element, io);
            }
        }
    }

    /// Reports the last uses of all rules, as at the end of a run. Returns whether there was
    /// nothing to report, and no packet waits for a rule.
    pub(in crate::fast_path) fn report_rules(&mut self, io: &mut Io<'_>) -> bool {
        let mut is_quiet = true;
        for element in 0..self.elements.len() as u8 {
            if let Some(stage) = self.rules(element) {
                stage.table.report_all(&mut stage.effects);
                is_quiet &= stage.effects.is_empty() && stage.table.held() == 0;
                self.settle(element, io);
            }
        }
        is_quiet
    }
}
