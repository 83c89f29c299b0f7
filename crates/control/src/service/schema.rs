//! What a service file looks like, as JSON Schema.

use super::File;
use schemars::Schema;
use serde_json::{Map, Value, json};
use twinpath_nf::catalogue::FUNCTIONS;
use twinpath_nf::descriptor::Descriptor;
use twinpath_nf::schema;

/// The tables that configure no function: a property each.
pub fn settings() -> Schema {
    schema::of::<File>()
}

/// A whole service file, with the tables of functions: under their own names, and under others that
/// say what function they are of.
pub fn service_file() -> Value {
    let mut file = settings().to_value();
    let tables: Map<String, Value> = FUNCTIONS
        .into_iter()
        .map(|function| (function.name.to_owned(), table_of(function)))
        .collect();
    let place = |name: &String| json!({ "$ref": format!("#/definitions/{name}") });
    let by_function = tables.keys().map(|name| {
        json!({
            "if": { "properties": { "function": { "const": name } } },
            "then": place(name),
        })
    });
    file["additionalProperties"] = json!({
        "type": "object",
        "description": "A function of the chain under a name of its own.",
        "required": ["function"],
        "properties": { "function": { "enum": tables.keys().collect::<Vec<_>>() } },
        "allOf": by_function.collect::<Vec<_>>(),
    });
    for name in tables.keys() {
        file["properties"][name] = place(name);
    }
    file["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    file["title"] = "Twinpath service file".into();
    file["definitions"] = tables.into();
    file
}

/// A function's table, which may say what function it is of.
fn table_of(function: &Descriptor) -> Value {
    let mut table = (function.schema)().to_value();
    table["properties"]["function"] = json!({
        "const": function.name,
        "description": "What function the table is of.",
    });
    table
}
