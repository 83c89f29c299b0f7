//! The models that a plan can name.

use crate::measured::Measured;
use crate::model::Model;
use crate::pisa::Pisa;
use crate::ribosome::Ribosome;
use crate::sfc_pipeline::SfcPipeline;
use crate::shards::Shards;
use crate::smart_switch::SmartSwitch;
use crate::turboswitch::TurboSwitch;
use crate::two_paths::TwoPaths;

/// All models.
pub const MODELS: [&dyn Model; 8] = [
    &TwoPaths,
    &TurboSwitch,
    &Ribosome,
    &Pisa,
    &SfcPipeline,
    &SmartSwitch,
    &Shards,
    &Measured,
];

/// The model of this name.
pub fn find(name: &str) -> Option<&'static dyn Model> {
    MODELS.into_iter().find(|model| model.name() == name)
}
