//! A packet with everything blanked that may differ.

use crate::datagram::Datagram;
use crate::drawn::{self, Drawn};
use crate::flow::Flow;
use crate::ids;
use crate::names::{self, Names};
use crate::options::Options;
use crate::tunnels;
use std::collections::HashMap;
use twinpath_core::Steering;
use twinpath_core::wire::{Fragment, Layout, dissect};

/// Blanks packets of one capture, in their order.
pub(crate) struct Normaliser<'o> {
    options: &'o Options,
    steering: Steering,
    /// The port of a translated datagram, which only its first fragment has.
    ports: HashMap<Datagram, u16>,
    drawn: Drawn,
    bytes: Vec<u8>,
    /// Where the packet begins, behind the headers of tunnels.
    at: usize,
}

/// A packet without what may differ.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Normal<'b> {
    /// Its flow and direction.
    pub flow: Flow,
    /// Its headers; `None` if they are malformed.
    pub layout: Option<Layout>,
    /// The names that stood in it.
    pub names: Names,
    /// The packet, with names and the like blanked.
    pub bytes: &'b [u8],
    /// The headers of tunnels around it.
    pub outer: &'b [u8],
}

impl<'o> Normaliser<'o> {
    pub fn new(options: &'o Options) -> Self {
        Self {
            options,
            steering: Steering::new(0),
            ports: HashMap::new(),
            drawn: Drawn::default(),
            bytes: Vec::new(),
            at: 0,
        }
    }

    /// Blanks the next packet.
    pub fn normal(&mut self, frame: &[u8]) -> Normal<'_> {
        self.bytes.clear();
        self.bytes.extend_from_slice(frame);
        self.at = match &self.options.inner {
            Some(inner) => tunnels::open(inner, &mut self.bytes),
            None => 0,
        };
        let packet = self.bytes.get(self.at..).unwrap_or_default();
        let Ok(layout) = dissect(packet) else {
            let (outer, packet) = self.bytes.split_at(self.at);
            return Normal {
                flow: Flow::malformed(packet),
                layout: None,
                names: Names::default(),
                bytes: packet,
                outer,
            };
        };
        let datagram = Datagram::of(packet, &layout);
        let renaming = self.options.renaming.as_ref();
        let drawn = renaming.map(|renaming| drawn::Places::of(renaming, packet, &layout));
        let names = self.blank_names(&layout, datagram);
        let (outer, packet) = self.bytes.split_at_mut(self.at);
        if let Some(places) = drawn {
            self.drawn.replace(places, packet, &layout, datagram);
        }
        if self.options.ignore_ip_ids {
            ids::blank(packet, &layout);
        }
        let flow = Flow::of(&self.steering, packet, &layout, names.blanks());
        Normal {
            flow: match outer.is_empty() {
                true => flow,
                false => flow.between(packet),
            },
            layout: Some(layout),
            names,
            bytes: packet,
            outer,
        }
    }

    fn blank_names(&mut self, layout: &Layout, datagram: Option<Datagram>) -> Names {
        let Some(renaming) = self.options.renaming.as_ref().filter(|_| layout.is_ip()) else {
            return Names::default();
        };
        let packet = self.bytes.get_mut(self.at..).unwrap_or_default();
        let later_port = || self.ports.get(&datagram?).copied();
        let names = names::blank(renaming, packet, layout, later_port);
        let port = names.port();
        if let (Fragment::First, Some(datagram), Some(port)) = (layout.fragment, datagram, port) {
            self.ports.insert(datagram, port);
        }
        names
    }
}
