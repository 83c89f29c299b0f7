//! A packet with everything blanked that may differ.

use crate::datagram::Datagram;
use crate::drawn::{self, Drawn};
use crate::flow::Flow;
use crate::ids;
use crate::names::{self, Names};
use crate::options::Options;
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
    /// The frame, with names and the like blanked.
    pub bytes: &'b [u8],
}

impl<'o> Normaliser<'o> {
    pub fn new(options: &'o Options) -> Self {
        Self {
            options,
            steering: Steering::new(0),
            ports: HashMap::new(),
            drawn: Drawn::default(),
            bytes: Vec::new(),
        }
    }

    /// Blanks the next packet.
    pub fn normal(&mut self, frame: &[u8]) -> Normal<'_> {
        self.bytes.clear();
        self.bytes.extend_from_slice(frame);
        let Ok(layout) = dissect(frame) else {
            return Normal {
                flow: Flow::malformed(frame),
                layout: None,
                names: Names::default(),
                bytes: &self.bytes,
            };
        };
        let datagram = Datagram::of(&self.bytes, &layout);
        let renaming = self.options.renaming.as_ref();
        let drawn = renaming.map(|renaming| drawn::Places::of(renaming, &self.bytes, &layout));
        let names = self.blank_names(&layout, datagram);
        if let Some(places) = drawn {
            let bytes = &mut self.bytes;
            self.drawn.replace(places, bytes, &layout, datagram);
        }
        if self.options.ignore_ip_ids {
            ids::blank(&mut self.bytes, &layout);
        }
        Normal {
            flow: Flow::of(&self.steering, &self.bytes, &layout, names.blanks()),
            layout: Some(layout),
            names,
            bytes: &self.bytes,
        }
    }

    fn blank_names(&mut self, layout: &Layout, datagram: Option<Datagram>) -> Names {
        let Some(renaming) = self.options.renaming.as_ref().filter(|_| layout.is_ip()) else {
            return Names::default();
        };
        let later_port = || self.ports.get(&datagram?).copied();
        let names = names::blank(renaming, &mut self.bytes, layout, later_port);
        let port = names.port();
        if let (Fragment::First, Some(datagram), Some(port)) = (layout.fragment, datagram, port) {
            self.ports.insert(datagram, port);
        }
        names
    }
}
