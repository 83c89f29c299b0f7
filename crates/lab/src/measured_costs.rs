//! Times that a bench has measured on the code itself, as a table of names and nanoseconds.

use crate::model::ParameterError;
use std::collections::BTreeMap;
use std::path::Path;

/// Nanoseconds by name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MeasuredCosts {
    file: String,
    rows: BTreeMap<String, f64>,
    machine: Option<String>,
}

/// The columns of a table.
const HEADER: [&str; 2] = ["what", "ns"];

impl MeasuredCosts {
    /// Reads a table; `field` is the parameter that names it.
    pub(crate) fn read(path: &Path, field: &'static str) -> Result<Self, ParameterError> {
        let wrong =
            |message: String| ParameterError::new(field, format!("{}: {message}", path.display()));
        let unreadable = |error: csv::Error| wrong(error.to_string());
        let mut reader = csv::Reader::from_path(path).map_err(unreadable)?;
        if !reader.headers().map_err(unreadable)?.iter().eq(HEADER) {
            return Err(wrong(format!("expected the columns {}", HEADER.join(", "))));
        }
        let mut rows = BTreeMap::new();
        for record in reader.records() {
            let record = record.map_err(unreadable)?;
            let line = record.position().map_or(0, csv::Position::line);
            let ns = record.get(1).and_then(|text| text.parse::<f64>().ok());
            let ns = ns.filter(|ns| ns.is_finite() && *ns > 0.0);
            let ns =
                ns.ok_or_else(|| wrong(format!("line {line}: expected nanoseconds above 0")))?;
            rows.insert(record.get(0).unwrap_or_default().to_owned(), ns);
        }
        let machine = std::fs::read_to_string(path.with_extension("machine.txt")).ok();
        let file = path.file_name().unwrap_or_default();
        Ok(Self {
            file: file.to_string_lossy().into_owned(),
            rows,
            machine,
        })
    }

    /// What something takes.
    pub(crate) fn ns(&self, what: &str) -> Result<f64, String> {
        let found = self.rows.get(what).copied();
        found.ok_or_else(|| {
            let names: Vec<&str> = self.rows.keys().map(String::as_str).collect();
            format!(
                "there is no {what} in {}; there are: {}",
                self.file,
                names.join(", ")
            )
        })
    }

    /// Where they were measured, in a sentence.
    pub(crate) fn told(&self) -> String {
        let machine = self
            .machine
            .as_deref()
            .unwrap_or("a machine that nobody wrote down");
        format!(
            "Costs of {} were measured on {}.",
            self.file,
            machine.trim()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_and_what_is_wrong_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.csv");
        let read = |text: &str| {
            std::fs::write(&path, text).expect("room");
            MeasuredCosts::read(&path, "costs")
        };
        let costs = read("what,ns\nhit-1,20.5\n").expect("a table");
        assert_eq!(costs.ns("hit-1"), Ok(20.5));
        assert!(
            costs
                .ns("hit-2")
                .expect_err("absent")
                .contains("there are: hit-1")
        );
        assert!(costs.told().contains("nobody"));
        std::fs::write(folder.path().join("a.machine.txt"), "a box\n").expect("room");
        assert!(
            read("what,ns\n")
                .expect("a table")
                .told()
                .ends_with("on a box.")
        );
        for (text, told) in [
            ("what,us\n", "columns what, ns"),
            ("what,ns\na,x\n", "line 2: expected nanoseconds"),
            ("what,ns\na,-1\n", "line 2: expected nanoseconds"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.field.as_deref() == Some("costs") && error.message.contains(told));
        }
    }
}
