//! What stands for [native code](crate) on processors for which we make none.

use crate::compile::{Compiled, Opcode};
use twinpath_core::Direction;
use twinpath_core::program::{EndpointRow, Exit, Field};

/// There is none of it.
pub(crate) enum Native {}

pub(crate) struct Input<'a> {
    pub direction: Direction,
    pub tcp: &'a [u8; 20],
    pub now_ticks: u32,
    pub alias_row: u32,
    pub payload_length: u32,
}

/// What code answered.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Answer;

impl Answer {
    pub const fn is_forward(self) -> bool {
        true
    }
}

/// A rewrite; there are none.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Planned;

impl Planned {
    pub const fn is_nothing(&self) -> bool {
        true
    }

    pub const fn is(&self, _: Opcode) -> bool {
        false
    }

    pub const fn row(&self) -> u32 {
        0
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

    pub fn run(&mut self, _: &Input<'_>, _: &mut [u32]) -> Answer {
        match *self {}
    }

    pub fn exit(&self, _: Answer) -> Exit {
        match *self {}
    }

    pub fn planned(&self) -> &[Planned] {
        match *self {}
    }

    pub fn only_planned(&self) -> Option<Planned> {
        match *self {}
    }
}
