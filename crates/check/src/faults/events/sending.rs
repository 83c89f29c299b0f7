//! Frames are sent, unless they are tampered with.

use super::link::{lose, transmit};
use super::run::Run;
use super::tampering::tamper_on_sending;
use crate::faults::invariant::Invariant;
use crate::faults::world::{Contents, LineId};
use twinpath_core::Frame;

/// Sends a frame.
pub fn send(run: &mut Run, line: LineId, mut frame: Frame) {
    let Some(contents) = Contents::of(&frame) else {
        let what = format!("{line}: a frame without a header");
        return run.record.step.fault(Invariant::LinkChecked, what);
    };
    if tamper_on_sending(run, line, &contents, &mut frame) {
        drop(frame);
        return lose(&run.world, &mut run.record, (line, 0), &contents);
    }
    transmit(&mut run.world, &mut run.record, line, (&contents, frame));
}
