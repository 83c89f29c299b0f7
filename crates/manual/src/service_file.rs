//! The page of service files.

use crate::{keys, module_docs, origin};
use serde_json::Value;
use std::io;
use twinpath_control::service::schema;

const SOURCE: &str = "crates/control/src/service/mod.rs";

/// The page.
///
/// # Errors
/// The module's documentation cannot be read.
pub fn page() -> io::Result<String> {
    let settings = schema::settings().to_value();
    let text = module_docs::page(SOURCE, &tables(&settings))?;
    let text = text
        .replace("](", "](functions/")
        .replace("](functions/#", "](#");
    let (title, text) = text.split_once('\n').unwrap_or((&text, ""));
    let title = title.trim_end_matches('.');
    let origin = origin(&format!(
        "{SOURCE} and the types of configuration beside it"
    ));
    Ok(format!("{origin}# {title}\n{text}"))
}

/// Each table under a heading of its own.
fn tables(settings: &Value) -> String {
    let mut text = String::new();
    for (name, table) in settings["properties"].as_object().into_iter().flatten() {
        let first = |table: &Value| table["anyOf"][0].clone();
        let keys = match table["anyOf"].is_array() {
            true => first(table),
            false => table.clone(),
        };
        let about = table["description"].as_str().unwrap_or_default();
        text += &format!("### `[{name}]`\n\n{}\n\n", module_docs::plain_links(about));
        // A table of tables, whose keys are names.
        let named = &keys["additionalProperties"];
        text += &match named["properties"].is_object() {
            true => format!(
                "Each key is a name, and its value a table:\n\n{}",
                keys::tables(named, 4)
            ),
            false => keys::tables(&keys, 4),
        };
        text += "\n";
    }
    text
}
