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

/// The same as a file.
pub fn service_file_text() -> String {
    format!("{:#}\n", service_file())
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

/// A value as a service file has it.
pub fn written(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Number(number) => grouped(&number.to_string()),
        Value::Array(all) => {
            let all: Vec<String> = all.iter().map(written).collect();
            format!("[{}]", all.join(", "))
        }
        Value::Object(keys) => {
            let keys: Vec<String> = keys
                .iter()
                .map(|(key, value)| format!("{key} = {}", written(value)))
                .collect();
            format!("{{ {} }}", keys.join(", "))
        }
        other => other.to_string(),
    }
}

/// Long numbers in groups of three digits.
fn grouped(number: &str) -> String {
    let number = number.trim_end_matches(".0");
    if number.len() < 5 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return number.replace("e+", "e");
    }
    let first = number.len() % 3;
    let (head, groups) = number.split_at(first);
    let groups = groups.as_bytes().chunks(3).map(String::from_utf8_lossy);
    let head = (!head.is_empty()).then(|| head.into());
    head.into_iter().chain(groups).collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_in_a_service_file() {
        for (value, expected) in [
            (json!("a \"b\""), r#""a \"b\"""#),
            (json!(1234), "1234"),
            (json!(65_536), "65_536"),
            (json!(1_000_000), "1_000_000"),
            (json!(0.5), "0.5"),
            (json!(1.0), "1"),
            (json!(1e18), "1e18"),
            (json!([80, "x"]), r#"[80, "x"]"#),
            (json!({ "a": true, "b": [] }), "{ a = true, b = [] }"),
        ] {
            assert_eq!(written(&value), expected);
        }
    }
}
