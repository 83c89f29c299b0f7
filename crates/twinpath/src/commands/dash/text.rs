//! Findings as text.

use super::findings::{Cause, EniObjects, Findings, LeavingObject, Memory, WaitingObject};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use twinpath_control::report::units;

/// How many objects are named that wait for the same one.
const NAMED: usize = 3;

/// Findings, but for errors and warnings.
pub(super) struct FindingsText<'a>(pub &'a Findings);

impl Display for FindingsText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let all = self.0;
        waiting(f, &all.waiting)?;
        for leaving in &all.leaving {
            let LeavingObject {
                file, line, object, ..
            } = leaving;
            let more = if leaving.and_more { " and more" } else { "" };
            let by = leaving.referred_to_by.join(", ") + more;
            writeln!(
                f,
                "{file}:{line}: {object}: deleted, but still in force: referred to by {by}"
            )?;
        }
        self.bounds(f)?;
        verdict(f, all)?;
        tables(f, all)?;
        enis(f, &all.enis)?;
        memory(f, &all.memory)
    }
}

impl FindingsText<'_> {
    /// What was too much to tell or to keep.
    fn bounds(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let all = self.0;
        for (more, what) in [(all.more_errors, "error"), (all.more_warnings, "warning")] {
            if more > 0 {
                writeln!(f, "{} more", counted(more, what))?;
            }
        }
        if all.dropped > 0 {
            let dropped = units::count(all.dropped as u64);
            writeln!(
                f,
                "{dropped} objects more wait than are kept: they were dropped"
            )?;
        }
        Ok(())
    }
}

/// What waits, by what it waits for.
fn waiting(f: &mut Formatter<'_>, waiting: &[WaitingObject]) -> fmt::Result {
    let mut by_cause: BTreeMap<&str, Vec<(&WaitingObject, &Cause)>> = BTreeMap::new();
    for object in waiting {
        for cause in object.causes() {
            let told = by_cause.entry(&cause.because_of).or_default();
            told.push((object, cause));
        }
    }
    for (cause, objects) in by_cause {
        for (waiting, Cause { message, .. }) in objects.iter().take(NAMED) {
            let WaitingObject {
                file, line, object, ..
            } = waiting;
            writeln!(f, "{file}:{line}: {object}: {message}")?;
        }
        if let Some(more) = objects.len().checked_sub(NAMED + 1) {
            let more = units::count(more as u64 + 1);
            writeln!(f, "{more} objects more because of {cause}")?;
        }
    }
    Ok(())
}

fn verdict(f: &mut Formatter<'_>, all: &Findings) -> fmt::Result {
    let in_force: usize = all.tables.iter().map(|table| table.objects).sum();
    let mut parts = vec![
        counted(all.files, "file"),
        format!("{} in force", counted(in_force, "object")),
    ];
    let refused = all.waiting.iter().filter(|object| object.is_refused);
    let refused = refused.count();
    for (count, what) in [
        (all.waiting.len() - refused, "waiting"),
        (refused, "refused"),
        (all.leaving.len(), "to be deleted and referred to"),
    ] {
        if count > 0 {
            parts.push(format!("{} {what}", units::count(count as u64)));
        }
    }
    // What waits or is refused is no success.
    match all.errors.len() + all.more_errors {
        0 if all.is_complete => parts.push("no error".into()),
        0 => {}
        errors => parts.push(counted(errors, "error")),
    }
    if !all.warnings.is_empty() {
        let warnings = all.warnings.len() + all.more_warnings;
        parts.push(counted(warnings, "warning"));
    }
    writeln!(f, "{}", parts.join(", "))
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", units::count(count as u64))
}

fn tables(f: &mut Formatter<'_>, all: &Findings) -> fmt::Result {
    if all.tables.is_empty() {
        return Ok(());
    }
    writeln!(f, "\n{:<36} {:>11}", "table", "objects")?;
    for table in &all.tables {
        let objects = units::count(table.objects as u64);
        writeln!(f, "{:<36} {objects:>11}", table.table)?;
    }
    Ok(())
}

fn enis(f: &mut Formatter<'_>, enis: &[EniObjects]) -> fmt::Result {
    if enis.is_empty() {
        return Ok(());
    }
    let width = |text: fn(&EniObjects) -> &str, least: usize| {
        let widths = enis.iter().map(|eni| text(eni).chars().count());
        widths.max().unwrap_or(0).max(least)
    };
    let (eni_width, vnet_width) = (width(|eni| &eni.eni, 3), width(|eni| &eni.vnet, 4));
    writeln!(
        f,
        "\n{:<eni_width$}  {:<vnet_width$}  {:<17}  {:<8}  {:>9}  {:>9}  {:>6}  {:>7}  {:>9}  {:>13}",
        "ENI",
        "VNET",
        "MAC address",
        "state",
        "routes",
        "mappings",
        "ACL in",
        "ACL out",
        "ACL rules",
        "inbound rules",
    )?;
    for eni in enis {
        let state = if eni.is_enabled {
            "enabled"
        } else {
            "disabled"
        };
        let routes = match eni.route_group {
            Some(_) => units::count(eni.routes as u64),
            None => "none".into(),
        };
        writeln!(
            f,
            "{:<eni_width$}  {:<vnet_width$}  {:<17}  {state:<8}  {routes:>9}  {:>9}  {:>6}  {:>7}  {:>9}  {:>13}",
            eni.eni,
            eni.vnet,
            eni.mac_address,
            units::count(eni.mappings as u64),
            eni.acl_groups_in,
            eni.acl_groups_out,
            units::count(eni.acl_rules as u64),
            units::count(eni.route_rules as u64),
        )?;
    }
    Ok(())
}

/// Of how many it is told how many more would fit.
const ENOUGH_TO_TELL: usize = 1000;

fn memory(f: &mut Formatter<'_>, memory: &Memory) -> fmt::Result {
    let would_hold = format!("{} would hold", units::bytes(memory.of_bytes));
    writeln!(
        f,
        "\n{:<22} {:>11}  {:>13}  {:>12}  {:>10}  {would_hold:>20}",
        "memory", "number", "as configured", "for packets", "bytes each",
    )?;
    for cost in &memory.costs {
        let (Some(each), Some(fit)) = (cost.bytes_each, cost.would_fit) else {
            continue;
        };
        let number = units::count(cost.number as u64);
        let bytes = [cost.configured_bytes, cost.compiled_bytes].map(|bytes| match bytes {
            0 => String::new(),
            bytes => units::bytes(bytes as u64),
        });
        let [configured, compiled] = bytes;
        // Of a few the most is what a table costs that is empty.
        let fit = match cost.number < ENOUGH_TO_TELL {
            true => "too few to tell".into(),
            false => units::short_count(fit),
        };
        let what = cost.what;
        writeln!(
            f,
            "{what:<22} {number:>11}  {configured:>13}  {compiled:>12}  {each:>10.1}  {fit:>20}"
        )?;
    }
    let all = units::bytes(memory.bytes as u64);
    writeln!(f, "all but flows, and what each ENI has for itself: {all}")
}
