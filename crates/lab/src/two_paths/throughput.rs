//! One run, or several until the highest rate is found.

use super::parameters::{RateName, Setting};
use super::world::{self, Outcome};
use crate::model::ParameterError;

/// Halvings of the last step between a rate that is too high and one that is not.
const HALVINGS: u32 = 3;
/// A rate that is too high is followed by this share of it.
const STEP: f64 = 0.8;
/// So many steps down, at most.
const MOST_STEPS: u32 = 24;

/// The columns of a run as the plan has it.
pub(super) fn run(setting: &Setting) -> Result<Vec<f64>, ParameterError> {
    match setting.parameters.rate {
        RateName::Given => Ok(world::run(setting, 1.0)?.row),
        RateName::Highest => highest(setting),
    }
}

/// The run at the highest rate at which no more than the plan allows is lost (RFC 2544 §26.1). The
/// search begins at what is carried of the plan's rate: nothing more will be without loss.
fn highest(setting: &Setting) -> Result<Vec<f64>, ParameterError> {
    let is_good = |run: &Outcome| run.lost_share <= setting.parameters.loss_share;
    let whole = world::run(setting, 1.0)?;
    let (mut rate, mut bad) = (whole.carried_share.max(1e-3), 1.0);
    let mut best = whole;
    for _ in 0..MOST_STEPS {
        if is_good(&best) {
            break;
        }
        best = world::run(setting, rate)?;
        if !is_good(&best) {
            (bad, rate) = (rate, rate * STEP);
        }
    }
    let mut good = rate;
    for _ in 0..HALVINGS {
        if bad / good < 1.01 || good >= 1.0 {
            break;
        }
        let middle = (good * bad).sqrt();
        let found = world::run(setting, middle)?;
        match is_good(&found) {
            true => (best, good) = (found, middle),
            false => bad = middle,
        }
    }
    Ok(best.row)
}
