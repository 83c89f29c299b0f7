//! What was measured on the code itself, by a command that writes its results to a file.
//!
//! Such a plan measures nothing: it shows a kept file's rows beside what a paper measured on its own
//! code, with the same verdicts as all other plans. Which command writes it is in
//! `plans/measured/README.md`; the file beside it with the ending `machine.txt` says on what machine.

use crate::model::{Column, Model, ParameterError};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use toml::Table;

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Measured;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    file: Option<PathBuf>,
    row: Option<String>,
    load_percent: Option<u64>,
    asked_per_s: Option<u64>,
}

const fn column(name: &'static str, meaning: &'static str) -> Column {
    Column { name, meaning }
}

const COLUMNS: [Column; 7] = [
    column(
        "throughput_change_percent",
        "packets a second with what is looked at, against without it",
    ),
    column(
        "p99_change_percent",
        "99th percentile of the time for a packet, the same way",
    ),
    column(
        "packet_ns_without",
        "mean time of a packet without what is looked at",
    ),
    column("packet_ns_with", "the same with it"),
    column(
        "p99_ns_without",
        "99th percentile of the time from when a packet is due to when it is handled, without it",
    ),
    column("p99_ns_with", "the same with it"),
    column("requests_per_s", "rules asked for a second, with it"),
];

impl Model for Measured {
    fn name(&self) -> &'static str {
        "measured"
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn check(&self, parameters: &Table, folder: &Path) -> Result<(), ParameterError> {
        row(parameters, folder).map(drop)
    }

    fn run(&self, parameters: &Table, folder: &Path) -> Result<Vec<f64>, ParameterError> {
        row(parameters, folder)
    }

    fn remarks(&self, parameters: &Table, folder: &Path) -> Vec<String> {
        let file = parameters.get("file").and_then(toml::Value::as_str);
        let machine = file.map(|file| folder.join(file).with_extension("machine.txt"));
        let told = machine.and_then(|path| std::fs::read_to_string(path).ok());
        let told = told.map(|machine| format!("Measured on {}.", machine.trim()));
        told.into_iter().collect()
    }
}

/// The row of the file that is named `row`, with the numbers that are swept behind it.
fn row(parameters: &Table, folder: &Path) -> Result<Vec<f64>, ParameterError> {
    let Parameters {
        file,
        row,
        load_percent,
        asked_per_s,
    } = parameters.clone().try_into()?;
    let file =
        file.ok_or_else(|| ParameterError::new("file", "missing: what a bench has written"))?;
    let name =
        row.ok_or_else(|| ParameterError::new("row", "missing: the name of a row of the file"))?;
    let swept = load_percent.or(asked_per_s);
    let name = swept.map_or(name.clone(), |swept| format!("{name}-{swept}"));
    let path = folder.join(file);
    let wrong =
        |error: csv::Error| ParameterError::new("file", format!("{}: {error}", path.display()));
    let mut reader = csv::Reader::from_path(&path).map_err(wrong)?;
    let headers = reader.headers().map_err(wrong)?.clone();
    let expected = COLUMNS.iter().map(|column| column.name);
    if !headers.iter().skip(1).eq(expected) {
        let message = format!(
            "{}: expected the columns what, {}",
            path.display(),
            COLUMNS.map(|column| column.name).join(", ")
        );
        return Err(ParameterError::new("file", message));
    }
    for record in reader.records() {
        let record = record.map_err(wrong)?;
        if record.get(0) == Some(name.as_str()) {
            let numbers = record.iter().skip(1).map(|text| text.parse().ok());
            let numbers: Option<Vec<f64>> = numbers.collect();
            return numbers
                .ok_or_else(|| ParameterError::new("file", format!("{name}: expected numbers")));
        }
    }
    Err(ParameterError::new(
        "row",
        format!("there is no {name} in {}", path.display()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str, parameters: &str) -> Result<Vec<f64>, ParameterError> {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.csv"), text).expect("room");
        Measured.run(&toml::from_str(parameters).expect("a table"), folder.path())
    }

    #[test]
    fn rows_are_found_by_name_and_what_is_missing_is_named() {
        let head = format!("what,{}", COLUMNS.map(|column| column.name).join(","));
        let text = format!("{head}\nn-1,-2.5,3,1,1,1,1,0\nn-2,0,1,1,1,1,1,0\n");
        assert_eq!(
            run(&text, "file = 'a.csv'\nrow = 'n'\nload_percent = 1"),
            Ok(vec![-2.5, 3.0, 1.0, 1.0, 1.0, 1.0, 0.0])
        );
        let second = run(&text, "file = 'a.csv'\nrow = 'n-2'").expect("a row");
        assert_eq!(second[..2], [0.0, 1.0]);
        let spoilt = text.replace("-2.5", "x");
        for (text, parameters, field) in [
            (text.as_str(), "row = 'n-1'", "file"),
            (&text, "file = 'a.csv'", "row"),
            (&text, "file = 'b.csv'\nrow = 'n-1'", "file"),
            (&text, "file = 'a.csv'\nrow = 'n-3'", "row"),
            ("what,x\nn-1,1\n", "file = 'a.csv'\nrow = 'n-1'", "file"),
            (&spoilt, "file = 'a.csv'\nrow = 'n-1'", "file"),
        ] {
            let error = run(text, parameters).expect_err(parameters);
            assert_eq!(error.field.as_deref(), Some(field));
        }
    }
}
