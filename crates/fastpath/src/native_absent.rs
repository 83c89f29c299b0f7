//! What stands for [native code](crate) on processors for which we make none.

use crate::compile::{Compiled, Opcode};
use crate::interpreter::Outcome;
use twinpath_core::Direction;
use twinpath_core::program::{EndpointRow, Field};

/// There is none of it.
pub(crate) enum Native {}

pub(crate) struct Input<'a> {
    pub direction: Direction,
    pub tcp: &'a [u8; 20],
    pub now_ticks: u32,
    pub alias_row: u32,
    pub payload_length: u32,
}

pub(crate) enum Planned {}

impl Planned {
    pub fn is(&self, _: Opcode) -> bool {
        match *self {}
    }

    pub fn table(&self) -> u8 {
        match *self {}
    }

    pub fn row(&self) -> u32 {
        match *self {}
    }
}

impl Native {
    pub fn new(_: &Compiled, _: &[Vec<EndpointRow>]) -> Option<Self> {
        None
    }

    pub fn set_field(&mut self, _: Field, _: u32) {
        match *self {}
    }

    pub fn needs_more(&self) -> bool {
        match *self {}
    }

    pub fn set_elapsed(&mut self, _: u64) {
        match *self {}
    }

    pub fn run(&mut self, _: &Input<'_>, _: &mut [u32]) -> Outcome {
        match *self {}
    }

    pub fn planned(&self) -> &[Planned] {
        match *self {}
    }
}
