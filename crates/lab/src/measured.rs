//! What was measured on the code itself, by a bench that writes its results to a file.
//!
//! Such a plan measures nothing: it shows a kept file's rows beside what a paper measured on its own
//! code, with the same verdicts as all other plans. The file says by its name which command writes it; see
//! `plans/measured/README.md`.

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
    count: Option<u64>,
}

const COLUMNS: [Column; 2] = [
    Column {
        name: "throughput_change_percent",
        meaning: "packets a second with what is looked at, against without it",
    },
    Column {
        name: "p99_change_percent",
        meaning: "99th percentile of the time for a packet, the same way",
    },
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
}

/// The row of the file that is named `row`, or `row-count`.
fn row(parameters: &Table, folder: &Path) -> Result<Vec<f64>, ParameterError> {
    let Parameters { file, row, count } = parameters.clone().try_into()?;
    let file =
        file.ok_or_else(|| ParameterError::new("file", "missing: what a bench has written"))?;
    let name =
        row.ok_or_else(|| ParameterError::new("row", "missing: the name of a row of the file"))?;
    let name = count.map_or(name.clone(), |count| format!("{name}-{count}"));
    let path = folder.join(file);
    let wrong =
        |error: csv::Error| ParameterError::new("file", format!("{}: {error}", path.display()));
    let mut reader = csv::Reader::from_path(&path).map_err(wrong)?;
    let headers = reader.headers().map_err(wrong)?.clone();
    let expected = COLUMNS.iter().map(|column| column.name);
    if !headers.iter().skip(1).eq(expected) {
        let message = format!(
            "{}: expected the columns what, throughput_change_percent, p99_change_percent",
            path.display()
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
        let text = "what,throughput_change_percent,p99_change_percent\nn-1,-2.5,3\nn-2,0,1\n";
        assert_eq!(
            run(text, "file = 'a.csv'\nrow = 'n'\ncount = 1"),
            Ok(vec![-2.5, 3.0])
        );
        assert_eq!(run(text, "file = 'a.csv'\nrow = 'n-2'"), Ok(vec![0.0, 1.0]));
        for (text, parameters, field) in [
            (text, "row = 'n-1'", "file"),
            (text, "file = 'a.csv'", "row"),
            (text, "file = 'b.csv'\nrow = 'n-1'", "file"),
            (text, "file = 'a.csv'\nrow = 'n-3'", "row"),
            ("what,x\nn-1,1\n", "file = 'a.csv'\nrow = 'n-1'", "file"),
            (
                &text.replace("-2.5", "x"),
                "file = 'a.csv'\nrow = 'n-1'",
                "file",
            ),
        ] {
            assert_eq!(
                run(text, parameters).expect_err(parameters).field.as_deref(),
                Some(field)
            );
        }
    }
}
