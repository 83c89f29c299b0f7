//! One run, or several until the highest rate is found.

use super::parameters::{RateName, Setting};
use super::world;
use crate::model::Misfit;

/// Halvings of the range of rates: 1/64 of its logarithm is left.
const HALVINGS: u32 = 6;
/// The range begins at this share of the plan's rate.
const LEAST: f64 = 1.0 / 64.0;

/// The columns of a run as the plan has it.
pub(super) fn run(setting: &Setting) -> Result<Vec<f64>, Misfit> {
    match setting.parameters.rate {
        RateName::Given => Ok(world::run(setting, 1.0)?.row),
        RateName::Highest => highest(setting),
    }
}

/// The run at the highest rate at which no more than the plan allows is lost: by halving the range of
/// its logarithm (RFC 2544 §26.1 by bisection).
fn highest(setting: &Setting) -> Result<Vec<f64>, Misfit> {
    let most = setting.parameters.loss_share;
    let whole = world::run(setting, 1.0)?;
    if whole.lost_share <= most {
        return Ok(whole.row);
    }
    let mut best = world::run(setting, LEAST)?;
    let (mut good, mut bad) = (LEAST, 1.0);
    for _ in 0..HALVINGS {
        let middle = (good * bad).sqrt();
        let found = world::run(setting, middle)?;
        match found.lost_share <= most {
            true => (best, good) = (found, middle),
            false => bad = middle,
        }
    }
    Ok(best.row)
}
