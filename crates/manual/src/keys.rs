//! Keys of configuration as tables, from what their types say they look like.

use crate::module_docs::plain_links;
use crate::table::{code, table};
use serde_json::{Map, Value};
use twinpath_control::service::schema::written;

/// The keys of a table, then those of tables within it, each under a heading of this level.
pub fn tables(schema: &Value, level: usize) -> String {
    let mut text = String::new();
    let mut within = Vec::new();
    text += &of_table(schema, &mut within);
    for Within {
        name,
        is_list,
        schema,
    } in within
    {
        let heading = match is_list {
            true => format!("Each of `{name}`"),
            false => format!("Keys of `{name}`"),
        };
        text += &format!("\n{} {heading}\n", "#".repeat(level));
        text += &tables(&schema, level);
    }
    text
}

/// A table in a table.
struct Within {
    name: String,
    is_list: bool,
    schema: Value,
}

fn of_table(schema: &Value, within: &mut Vec<Within>) -> String {
    let head = ["kind", "key", "default", "value", "meaning"];
    match kinds(schema) {
        Some(kinds) => {
            let rows = kinds.iter().flat_map(|kind| of_kind(kind, within));
            table(&head, &rows.collect::<Vec<_>>())
        }
        None => table(&head, &rows(schema, "", within)),
    }
}

/// One row for what the kind is, and one for each further key.
fn of_kind(kind: &Value, within: &mut Vec<Within>) -> Vec<Vec<String>> {
    let Some((tag, name)) = tag(kind) else {
        return rows(kind, "", within);
    };
    let says = format!("{tag} = \"{name}\"");
    let first = vec![
        code(&says),
        String::new(),
        String::new(),
        String::new(),
        meaning(kind),
    ];
    let mut others = kind.clone();
    if let Some(keys) = others["properties"].as_object_mut() {
        keys.shift_remove(&tag);
    }
    let mut all = vec![first];
    all.extend(rows(&others, "", within));
    all
}

/// The kinds that a table may be of, told apart by the value of one key.
fn kinds(schema: &Value) -> Option<&Vec<Value>> {
    let kinds = schema["oneOf"].as_array()?;
    kinds
        .iter()
        .all(|kind| tag(kind).is_some())
        .then_some(kinds)
}

fn tag(kind: &Value) -> Option<(String, String)> {
    let keys = kind["properties"].as_object()?;
    keys.iter().find_map(|(key, value)| {
        let value = value["const"].as_str()?;
        Some((key.clone(), value.to_owned()))
    })
}

fn rows(schema: &Value, kind: &str, within: &mut Vec<Within>) -> Vec<Vec<String>> {
    let none = Map::new();
    let keys = schema["properties"].as_object().unwrap_or(&none);
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let row = |(key, said): (&String, &Value)| {
        let value = present(said);
        if let Some(table) = table_in(key, value) {
            within.push(table);
        }
        vec![
            kind.to_owned(),
            code(key),
            match required.iter().any(|required| required == key) {
                true => "required".into(),
                false => default(said),
            },
            what(value),
            meaning(said),
        ]
    };
    keys.iter().map(row).collect()
}

/// What a value is if it is there.
fn present(value: &Value) -> &Value {
    let is_null = |one: &&Value| one["type"] == "null";
    match value["anyOf"].as_array() {
        Some(all) if all.iter().any(|one| is_null(&one)) => all
            .iter()
            .find(|one| !is_null(one))
            .map_or(value, |one| one),
        _ => value,
    }
}

fn table_in(key: &str, value: &Value) -> Option<Within> {
    let is_list = value["items"].is_object();
    let schema = match is_list {
        true => &value["items"],
        false => value,
    };
    let is_table = schema["properties"].is_object() || kinds(schema).is_some();
    is_table.then(|| Within {
        name: key.to_owned(),
        is_list,
        schema: schema.clone(),
    })
}

/// What a value is, with its limits.
fn what(value: &Value) -> String {
    if let Some(title) = value["title"].as_str() {
        return title.to_owned();
    }
    if let Some(choices) = choices(value) {
        return choices.join(", ");
    }
    match type_of(value) {
        "boolean" => "true or false".into(),
        "integer" => format!("number{}", limits(value, "minimum", "maximum")),
        "number" => format!("decimal number{}", limits(value, "minimum", "maximum")),
        "array" => {
            let many = limits(value, "minItems", "maxItems");
            let many = many.strip_prefix(", ").map(|many| format!(" of {many}"));
            let many = many.unwrap_or_default();
            match type_of(&value["items"]) {
                "object" => format!("list{many}: tables"),
                _ => format!("list{many}: each {}", what(&value["items"])),
            }
        }
        "object" => "table".into(),
        "string" => match value["format"].as_str() {
            Some("ipv4") => "IPv4 address".into(),
            Some("ipv6") => "IPv6 address".into(),
            Some("ip") => "address".into(),
            _ => format!("text{}", limits(value, "minLength", "maxLength")),
        },
        _ if kinds(value).is_some() => "table".into(),
        _ => String::new(),
    }
}

fn type_of(value: &Value) -> &str {
    let types = &value["type"];
    let not_null = types.as_array().into_iter().flatten();
    let mut not_null = not_null
        .filter_map(Value::as_str)
        .filter(|one| *one != "null");
    let several = not_null.next();
    match types.as_str().or(several) {
        Some(one) => one,
        None if kinds(value).is_some() => "object",
        None => "",
    }
}

/// The values that a value may be, as they are written.
fn choices(value: &Value) -> Option<Vec<String>> {
    let shown = |one: &Value| (!one.is_null()).then(|| code(&written(one)));
    if let Some(all) = value["enum"].as_array() {
        return Some(all.iter().filter_map(shown).collect());
    }
    let all = value["oneOf"].as_array()?;
    all.iter().map(|one| shown(&one["const"])).collect()
}

fn limits(value: &Value, least: &str, most: &str) -> String {
    let is_zero = |number: &&Value| number.as_f64() != Some(0.0);
    match (value.get(least), value.get(most)) {
        (Some(least), Some(most)) => format!(", {} to {}", written(least), written(most)),
        (Some(least), None) if is_zero(&least) => format!(", at least {}", written(least)),
        (None, Some(most)) => format!(", at most {}", written(most)),
        _ => String::new(),
    }
}

fn default(value: &Value) -> String {
    match &value["default"] {
        Value::Null => "none".into(),
        Value::Object(_) => String::new(),
        Value::Array(all) if all.is_empty() => "none".into(),
        value => code(&written(value)),
    }
}

/// What a key means; where it has choices, what each of them means.
fn meaning(value: &Value) -> String {
    let described = |value: &Value| plain_links(value["description"].as_str().unwrap_or_default());
    let mut text = described(value);
    for one in present(value)["oneOf"].as_array().into_iter().flatten() {
        let meaning = described(one);
        if let (Some(choice), false) = (one.get("const"), meaning.is_empty()) {
            text += &format!("<br>{}: {meaning}", code(&written(choice)));
        }
    }
    text
}

/// Every key of a table and of those within it, with what it means.
pub fn all(schema: &Value, path: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let one_kind = vec![schema.clone()];
    for kind in kinds(schema).unwrap_or(&one_kind) {
        for (key, said) in kind["properties"].as_object().into_iter().flatten() {
            let (key, value) = (format!("{path}.{key}"), present(said));
            if value.get("const").is_none() {
                found.push((key.clone(), meaning(said)));
            }
            if let Some(within) = table_in(&key, value) {
                found.extend(all(&within.schema, &key));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_table_has_keys_defaults_limits_and_meanings() {
        let schema = json!({
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": { "type": "string", "description": "What [it](super) is\ncalled." },
                "flows": { "type": "integer", "minimum": 1, "maximum": 1_000_000, "default": 65536 },
                "kind": {
                    "oneOf": [{ "const": "a", "description": "One." }, { "const": "b" }],
                    "default": "a",
                },
                "within": { "anyOf": [
                    { "type": "object", "properties": { "on": { "type": "boolean", "default": true } } },
                    { "type": "null" },
                ] },
            },
        });
        let expected = "\
| key | default | value | meaning |
|---|---|---|---|
| `name` | required | text | What it is called. |
| `flows` | `65_536` | number, 1 to 1_000_000 |  |
| `kind` | `\"a\"` | `\"a\"`, `\"b\"` | <br>`\"a\"`: One. |
| `within` | none | table |  |

### Keys of `within`
| key | default | value |
|---|---|---|
| `on` | `true` | true or false |
";
        assert_eq!(tables(&schema, 3), expected);
    }

    #[test]
    fn kinds_of_a_table_are_told_apart() {
        let schema = json!({
            "oneOf": [
                { "type": "object", "description": "None.", "properties": { "kind": { "const": "no" } } },
                {
                    "type": "object",
                    "description": "Some.",
                    "properties": { "kind": { "const": "some" }, "many": { "type": "number" } },
                    "required": ["kind", "many"],
                },
            ],
        });
        let text = tables(&schema, 3);
        assert!(text.contains("| `kind = \"some\"` |  |  |  | Some. |\n|  | `many` | required | decimal number |  |"), "{text}");
        assert_eq!(all(&schema, "x").len(), 1);
    }
}
