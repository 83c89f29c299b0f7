//! Which bytes of streams their receivers say they have.
//!
//! Servers of generated traffic answer in their own time, so that an answer may meet a function before
//! its question. Bytes that a receiver has do no harm any more, whatever they are.

use twinpath_core::wire::layout::Transport;
use twinpath_core::wire::tcp::flags;
use twinpath_core::wire::{Endpoint, dissect, fields};

/// No stream is as long.
const MOST_BYTES: u32 = 1 << 24;

/// An acknowledgement.
struct Heard {
    from: Endpoint,
    to: Endpoint,
    number: u32,
}

/// All acknowledgements so far.
#[derive(Default)]
pub struct Acknowledged(Vec<Heard>);

impl Acknowledged {
    /// A packet arrives.
    pub fn hear(&mut self, bytes: &[u8]) {
        let Ok(layout) = dissect(bytes) else { return };
        let is_segment = layout.transport == Transport::Tcp;
        if is_segment && fields::tcp_flags(bytes, &layout) & flags::ACK != 0 {
            self.0.push(Heard {
                from: fields::source(bytes, &layout),
                to: fields::destination(bytes, &layout),
                number: fields::tcp_ack(bytes, &layout),
            });
        }
    }

    /// Whether the receiver of a packet says that it has bytes of it. Of the two ends one may be
    /// translated.
    pub fn has(&self, bytes: &[u8]) -> bool {
        let Ok(layout) = dissect(bytes) else {
            return false;
        };
        if layout.transport != Transport::Tcp {
            return false;
        }
        let (from, to) = (
            fields::source(bytes, &layout),
            fields::destination(bytes, &layout),
        );
        let first = fields::tcp_seq(bytes, &layout);
        self.0.iter().any(|heard| {
            let is_answer = heard.from == to || heard.to == from;
            is_answer && (1..MOST_BYTES).contains(&heard.number.wrapping_sub(first))
        })
    }
}
