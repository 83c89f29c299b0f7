//! Tables of results: a point's number, its parameters, and what was measured there.

use crate::error::ExperimentError;
use crate::plan::Plan;
use std::collections::BTreeMap;
use std::path::Path;
use toml::{Table, Value};

/// The results of a plan, or of a part of it.
pub(crate) struct Results {
    pub(crate) quick: bool,
    pub(crate) points: Vec<Table>,
    pub(crate) rows: BTreeMap<usize, Vec<f64>>,
}

/// A parameter's value as a table shows it.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// Four significant digits or so.
pub(crate) fn short(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-3 {
        return format!("{value:.1e}");
    }
    let digits = match value.abs() {
        large if large >= 1000.0 => 0,
        middle if middle >= 10.0 => 1,
        small if small >= 0.1 || small == 0.0 => 3,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

impl Results {
    /// What was measured at a point, or a ratio of that to another point.
    pub(crate) fn value(&self, plan: &Plan, column: &str, point: usize) -> Option<f64> {
        let Some(ratio) = plan.ratios.iter().find(|ratio| ratio.name == column) else {
            return self.measured(plan, column, point);
        };
        let here = self.measured(plan, &ratio.of, point)?;
        let mut other = self.points[point].clone();
        other.extend(ratio.to.clone());
        let other = self.points.iter().position(|point| *point == other)?;
        let there = self.measured(plan, &ratio.of, other)?;
        Some(match ratio.inverse {
            false => here / there,
            true => there / here,
        })
    }

    fn measured(&self, plan: &Plan, column: &str, point: usize) -> Option<f64> {
        let columns = plan.model.columns();
        let index = columns.iter().position(|c| c.name == column)?;
        self.rows.get(&point)?.get(index).copied()
    }

    /// Whether every point of the sweep is there.
    pub(crate) fn is_complete(&self) -> bool {
        self.rows.len() == self.points.len()
    }

    /// Writes the ratios.
    pub(crate) fn write_ratios(&self, plan: &Plan, path: &Path) -> Result<(), ExperimentError> {
        let at = ExperimentError::table(path);
        let mut writer = csv::Writer::from_path(path).map_err(&at)?;
        let names = plan.ratios.iter().map(|ratio| ratio.name.clone());
        let parameters = plan.parameters(self.quick);
        let header = std::iter::once("point".to_owned())
            .chain(parameters)
            .chain(names);
        writer.write_record(header).map_err(&at)?;
        for number in self.rows.keys() {
            let mut record = identity(plan, self.quick, *number, &self.points[*number]);
            let values = plan
                .ratios
                .iter()
                .map(|ratio| self.value(plan, &ratio.name, *number));
            record.extend(values.map(|value| value.map_or_else(String::new, |v| v.to_string())));
            writer.write_record(record).map_err(&at)?;
        }
        writer.flush().map_err(ExperimentError::file(path))
    }

    /// The rows as a table.
    pub(crate) fn text(&self, plan: &Plan) -> Result<String, ExperimentError> {
        let place = plan.folder.join(&plan.name);
        let at = ExperimentError::table(&place);
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(header(plan, self.quick)).map_err(&at)?;
        for (number, row) in &self.rows {
            writer
                .write_record(self.record(plan, *number, row))
                .map_err(&at)?;
        }
        let bytes = writer.into_inner().unwrap_or_default();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// What the plan draws or expects, at each point, for people: swept parameters and columns, with a
    /// line of names first.
    pub(crate) fn told(&self, plan: &Plan) -> Vec<Vec<String>> {
        let swept = plan.swept(self.quick);
        let drawn = plan.figures.iter().flat_map(|figure| &figure.y);
        let expected = plan.expectations.iter().map(|expectation| &expectation.of);
        let mut columns: Vec<&String> = Vec::new();
        for column in drawn.chain(expected) {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        let names = swept
            .iter()
            .chain(columns.iter().copied())
            .cloned()
            .collect();
        let line = |point: &usize| {
            let parameters = swept.iter().map(|name| shown(&self.points[*point][name]));
            let values = columns.iter().map(|column| {
                let value = self.value(plan, column, *point);
                value.map_or_else(String::new, short)
            });
            parameters.chain(values).collect()
        };
        std::iter::once(names)
            .chain(self.rows.keys().map(line))
            .collect()
    }

    fn record(&self, plan: &Plan, number: usize, row: &[f64]) -> Vec<String> {
        let mut record = identity(plan, self.quick, number, &self.points[number]);
        // Rust's shortest form reads back as the same number.
        record.extend(row.iter().map(ToString::to_string));
        record
    }

    /// Reads rows back, of a full or a quick run, whichever they are of.
    pub(crate) fn read(plan: &Plan, path: &Path) -> Result<Self, ExperimentError> {
        let at = ExperimentError::table(path);
        let mut reader = csv::Reader::from_path(path).map_err(&at)?;
        let headers = reader.headers().map_err(&at)?.clone();
        let records: Vec<_> = reader.records().collect::<Result<_, _>>().map_err(&at)?;
        let parse = |quick| Self::of_records(plan, quick, &headers, &records);
        parse(false)
            .or_else(|_| parse(true))
            .map_err(|row| ExperimentError::ForeignRow {
                path: path.into(),
                row,
            })
    }

    /// The row that does not belong there is the error.
    fn of_records(
        plan: &Plan,
        quick: bool,
        headers: &csv::StringRecord,
        records: &[csv::StringRecord],
    ) -> Result<Self, usize> {
        if headers.iter().ne(header(plan, quick).iter()) {
            return Err(1);
        }
        let points = plan.points(quick);
        let mut rows = BTreeMap::new();
        for (index, record) in records.iter().enumerate() {
            let (number, row) = read_row(plan, quick, &points, record).ok_or(index + 1)?;
            rows.insert(number, row);
        }
        Ok(Self {
            quick,
            points,
            rows,
        })
    }
}

fn header(plan: &Plan, quick: bool) -> Vec<String> {
    let columns = plan.model.columns().iter().map(|c| c.name.to_owned());
    let parameters = plan.parameters(quick);
    std::iter::once("point".to_owned())
        .chain(parameters)
        .chain(columns)
        .collect()
}

fn identity(plan: &Plan, quick: bool, number: usize, point: &Table) -> Vec<String> {
    let parameters = plan.parameters(quick);
    let values = parameters.iter().map(|name| shown(&point[name]));
    std::iter::once(number.to_string()).chain(values).collect()
}

fn read_row(
    plan: &Plan,
    quick: bool,
    points: &[Table],
    record: &csv::StringRecord,
) -> Option<(usize, Vec<f64>)> {
    let number: usize = record.get(0)?.parse().ok()?;
    let identity = identity(plan, quick, number, points.get(number)?);
    if !identity.iter().eq(record.iter().take(identity.len())) {
        return None;
    }
    let rest = record.iter().skip(identity.len());
    let row = rest.map(|text| text.parse().ok());
    Some((number, row.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.111, "0.111"),
            (0.0123, "0.0123"),
            (0.0000134, "1.3e-5"),
            (9.0, "9"),
            (1.0004, "1"),
            (1.016, "1.016"),
            (20.04, "20"),
            (333.26, "333.3"),
            (13_281.4, "13281"),
            (-2.5, "-2.5"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
