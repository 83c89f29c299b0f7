//! What configuration looks like, as JSON Schema: the manual's tables of keys are made of it, and
//! editors check service files by it.
//!
//! Types of configuration derive `JsonSchema`. A key's meaning is the doc comment of its field, its
//! default comes from the code that reads it, and a value's `title` says in a few words what it is
//! ("time", "prefix") where its type alone does not.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};

/// Describes types in the edition of JSON Schema that editors of TOML know, each where it is used.
pub fn generator() -> SchemaGenerator {
    let settings = SchemaSettings::draft07().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    settings.into_generator()
}

/// What a type of configuration looks like.
pub fn of<C: JsonSchema>() -> Schema {
    generator().into_root_schema_for::<C>()
}

/// What is written as a string or as a number.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it only says what other types look like")]
pub(crate) enum TextOr<N> {
    Text(String),
    Number(N),
}
