//! `twinpath schema`: what a service file looks like, for editors.

use crate::error::CommandError;
use crate::{Outcome, output};
use twinpath_control::service::schema::service_file_text;

/// Prints the JSON Schema of service files, for editors
///
/// An editor that knows it offers keys, shows what they mean and marks what is wrong. Editors with
/// Taplo (VS Code's Even Better TOML, Helix, Neovim) find it by a first line `#:schema PATH`. It is in
/// the repository too: docs/service-file.schema.json.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath schema > service-file.schema.json    # and in edge.toml: #:schema ./service-file.schema.json",
))]
pub struct Arguments {}

/// Prints it.
pub fn execute(_: &Arguments) -> Result<Outcome, CommandError> {
    output::print(&service_file_text())?;
    Ok(Outcome::Good)
}
