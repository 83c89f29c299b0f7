//! Whether a plan can be run: what is wrong is told with its place.

use super::{Expectation, Figure, MAX_POINTS, Plan, Ratio, Values, listed};
use crate::error::Misplaced;
use crate::model::{Model, ParameterError};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use toml::{Spanned, Table, Value};

/// Each value of each parameter alone: so the one at fault is known.
pub(super) fn each(
    model: &dyn Model,
    parameters: &BTreeMap<String, Spanned<Value>>,
    folder: &Path,
) -> Result<(), Misplaced> {
    for (name, value) in parameters {
        let values = listed(value.get_ref());
        if values.is_empty() {
            return Err((value.span(), format!("{name}: a sweep over nothing")));
        }
        for each in values {
            let alone = Table::from_iter([(name.clone(), each)]);
            let checked = model.check(&alone, folder);
            // Others may be needed to make it right; then the whole point is checked below.
            if let Err(error) = checked
                && error.field.as_deref().is_none_or(|field| field == name)
            {
                return Err((value.span(), format!("{name}: {error}")));
            }
        }
    }
    Ok(())
}

pub(super) fn points(
    plan: &Plan,
    quick: bool,
    tables: &[&BTreeMap<String, Spanned<Value>>],
) -> Result<(), Misplaced> {
    let sizes = plan.axes(quick).into_values().map(|values| values.len());
    let points = sizes.fold(1usize, usize::saturating_mul);
    if points > MAX_POINTS {
        let message = format!("a sweep of {points} points; {MAX_POINTS} are the most");
        return Err((0..0, message));
    }
    for point in plan.points(quick) {
        if let Err(error) = plan.model.check(&point, &plan.folder) {
            return Err(misplaced(&plan.text, tables, &error));
        }
    }
    Ok(())
}

/// Where a plan has the parameter that is wrong; what it does not have is missing among its parameters.
pub(super) fn misplaced(
    text: &str,
    tables: &[&BTreeMap<String, Spanned<Value>>],
    error: &ParameterError,
) -> Misplaced {
    let Some(field) = error.field.as_deref() else {
        return (parameters_place(text), error.to_string());
    };
    let span = tables.iter().find_map(|table| table.get(field));
    let span = span.map_or_else(|| parameters_place(text), Spanned::span);
    (span, format!("{field}: {error}"))
}

/// Where a plan's parameters begin.
fn parameters_place(text: &str) -> Range<usize> {
    let start = text.find("[parameters]").unwrap_or(0);
    start..start
}

/// Combinations that are left out are of the plan's parameters.
pub(super) fn without(plan: &Plan, without: &Spanned<Table>) -> Result<(), Misplaced> {
    let found = without.get_ref();
    let at = |message: String| (without.span(), message);
    for name in found.keys() {
        parameter(plan, name).map_err(|e| at(format!("without: {e}")))?;
    }
    match found.is_empty() {
        true => Err(at("without: expected parameters and values".into())),
        false => Ok(()),
    }
}

pub(super) fn ratio(plan: &Plan, ratio: &Spanned<Ratio>) -> Result<(), Misplaced> {
    let found = ratio.get_ref();
    let at = |message: String| (ratio.span(), message);
    let measures = plan.model.columns().iter().map(|column| column.name);
    let ratios = plan.ratios.iter().map(|r| r.name.as_str());
    let mut taken = measures
        .chain(ratios)
        .chain(plan.parameters.keys().map(String::as_str));
    if taken.by_ref().filter(|name| *name == found.name).count() != 1 {
        return Err(at(format!("name: there is another {}", found.name)));
    }
    measured(plan, &found.of).map_err(|e| at(format!("of: {e}")))?;
    for (name, value) in &found.to {
        parameter(plan, name).map_err(|e| at(format!("to: {e}")))?;
        let values = plan.parameters.get(name);
        if !values.is_some_and(|values| values.contains(value)) {
            return Err(at(format!("to: {name} is nowhere {value}")));
        }
    }
    match found.to.is_empty() {
        true => Err(at("to: expected a parameter and its value".into())),
        false => Ok(()),
    }
}

pub(super) fn figure(plan: &Plan, figure: &Spanned<Figure>) -> Result<(), Misplaced> {
    let found = figure.get_ref();
    let at = |message: String| (figure.span(), message);
    parameter(plan, &found.x).map_err(|e| at(format!("x: {e}")))?;
    for y in &found.y {
        column(plan, y).map_err(|e| at(format!("y: {e}")))?;
    }
    for name in found.only.keys() {
        parameter(plan, name).map_err(|e| at(format!("where: {e}")))?;
    }
    match found
        .name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-')
    {
        true => Ok(()),
        false => Err(at("name: letters, digits and - only".into())),
    }
}

pub(super) fn expectation(plan: &Plan, expect: &Spanned<Expectation>) -> Result<(), Misplaced> {
    let found = expect.get_ref();
    let at = |message: String| (expect.span(), message);
    column(plan, &found.of).map_err(|e| at(format!("of: {e}")))?;
    match (&found.values, &found.along) {
        (Values::Column(name), _) => column(plan, name).map_err(|e| at(format!("values: {e}")))?,
        (Values::Along(_), None) => return Err(at("along: a list of values needs it".into())),
        (Values::Along(_), Some(along)) => {
            parameter(plan, along).map_err(|e| at(format!("along: {e}")))?;
        }
        (Values::Number(_), _) => (),
    }
    for name in found.only.keys() {
        parameter(plan, name).map_err(|e| at(format!("where: {e}")))?;
    }
    if !found.tested_by.is_empty() && found.cause.is_empty() {
        return Err(at("tested_by: there is no cause".into()));
    }
    if !(found.times.is_finite() && found.times > 0.0) {
        return Err(at("times: expected a number above 0".into()));
    }
    let tolerances = [found.within, found.within_absolute];
    match tolerances.iter().all(|t| t.is_finite() && *t >= 0.0) {
        true => Ok(()),
        false => Err(at("within: a tolerance is not negative".into())),
    }
}

fn parameter(plan: &Plan, name: &str) -> Result<(), String> {
    match plan.parameters.contains_key(name) {
        true => Ok(()),
        false => Err(format!("{name} is not among the plan's parameters")),
    }
}

fn column(plan: &Plan, name: &str) -> Result<(), String> {
    match plan.ratios.iter().any(|ratio| ratio.name == name) {
        true => Ok(()),
        false => measured(plan, name),
    }
}

fn measured(plan: &Plan, name: &str) -> Result<(), String> {
    let mut names = plan.model.columns().iter().map(|column| column.name);
    match names.any(|column| column == name) {
        true => Ok(()),
        false => Err(format!("{} does not measure {name}", plan.model.name())),
    }
}
