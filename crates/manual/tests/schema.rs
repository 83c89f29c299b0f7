//! That service files are what their schema says, and that it says no more than what is read.

use serde_json::Value;
use std::path::{Path, PathBuf};
use twinpath_control::service::Service;
use twinpath_control::service::schema::service_file;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Service files that a user starts from.
fn files() -> Vec<PathBuf> {
    let folders = ["examples", "docs/recipes"].map(|folder| root().join(folder));
    let entries = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).expect("a folder"));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "toml")
    });
    files.sort();
    assert!(files.len() > 10, "{files:?}");
    files
}

fn data(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).expect("a file");
    let table: toml::Table = toml::from_str(&text).expect("TOML");
    serde_json::to_value(table).expect("JSON")
}

fn reads(path: &Path, data: &Value) -> Result<Service, String> {
    let table: toml::Table = serde_json::from_value(data.clone()).expect("a table");
    let text = toml::to_string(&table).expect("TOML");
    Service::parse(&text, path).map_err(|error| error.to_string())
}

#[test]
fn files_are_what_the_schema_says() {
    let schema = jsonschema::validator_for(&service_file()).expect("a schema");
    for path in files() {
        let wrong: Vec<String> = schema
            .iter_errors(&data(&path))
            .map(|error| format!("{}: {error}", error.instance_path))
            .collect();
        assert!(wrong.is_empty(), "{}: {wrong:#?}", path.display());
    }
}

#[test]
fn the_schema_refuses_what_is_wrong() {
    let schema = jsonschema::validator_for(&service_file()).expect("a schema");
    let refuses = |text: &str| {
        let text = format!("{text}\n[service]\nchain = [\"acl\", \"edge\"]\n");
        let table: toml::Table = toml::from_str(&text).expect(&text);
        !schema.is_valid(&serde_json::to_value(table).expect("JSON"))
    };
    assert!(!refuses(""));
    assert!(!refuses("[edge]\nfunction = \"acl\"\ndefault = \"allow\""));
    for wrong in [
        "[fast_path]\nslot = 1",
        "[fast_path]\nslots = 0",
        "[acl]\ndefault = \"maybe\"",
        "[firewall]\ntimeouts = { icmp = 30 }",
        "[firewall]\ntimeouts = { icmp = \"30 parsecs\" }",
        "[acl]\nrules = [{ from = \"10.0.0.0/8\" }]",
        "[edge]\ndefault = \"allow\"",
        "[edge]\nfunction = \"acl\"\nby = \"hosts\"",
        "[edge]\nfunction = \"bridge\"",
    ] {
        assert!(refuses(wrong), "{wrong}");
    }
}

/// A place in a service file, and a value that its limits do not allow.
struct Beyond {
    pointer: String,
    value: Value,
}

/// One less than the least and one more than the most of every number that is there or could be.
fn beyond(schema: &Value, data: &Value, pointer: &str, found: &mut Vec<Beyond>) {
    for (key, value) in schema["properties"].as_object().into_iter().flatten() {
        let pointer = format!("{pointer}/{key}");
        let inner = match value["anyOf"].is_array() {
            true => &value["anyOf"][0],
            false => value,
        };
        let limit = |name: &str| inner[name].as_i64();
        let numbers = [
            limit("minimum").map(|least| least - 1),
            limit("maximum").and_then(|most| most.checked_add(1)),
        ];
        found.extend(numbers.into_iter().flatten().map(|number| Beyond {
            pointer: pointer.clone(),
            value: number.into(),
        }));
        if inner["properties"].is_object() {
            beyond(inner, &data[key], &pointer, found);
        }
        if inner["items"]["properties"].is_object() && data[key][0].is_object() {
            beyond(
                &inner["items"],
                &data[key][0],
                &format!("{pointer}/0"),
                found,
            );
        }
    }
}

/// Puts a value where a pointer says; tables on the way are made.
fn put(data: &mut Value, pointer: &str, value: &Value) {
    let mut place = data;
    for key in pointer.split('/').skip(1) {
        place = match key.parse::<usize>() {
            Ok(number) => &mut place[number],
            Err(_) => &mut place[key],
        };
    }
    *place = value.clone();
}

#[test]
fn what_the_schema_does_not_allow_is_not_read() {
    let schema = service_file();
    let mut tried = 0;
    for path in files() {
        let sound = data(&path);
        assert!(reads(&path, &sound).is_ok(), "{}", path.display());
        let mut wrong = Vec::new();
        beyond(&schema, &sound, "", &mut wrong);
        for name in sound.as_object().expect("a table").keys() {
            let function = sound[name]["function"].as_str().unwrap_or(name);
            let table = &schema["definitions"][function];
            beyond(table, &sound[name], &format!("/{name}"), &mut wrong);
        }
        for Beyond { pointer, value } in wrong {
            let mut data = sound.clone();
            put(&mut data, &pointer, &value);
            assert!(
                reads(&path, &data).is_err(),
                "{}: {pointer} = {value} is read",
                path.display()
            );
            tried += 1;
        }
    }
    assert!(tried > 500, "{tried}");
}
