//! Settings that differ between figures that name the same devices: what a reader must know before
//! values of two figures are compared.

use crate::plan::Plan;
use crate::results::shown;
use crate::run::Outcome;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Plans by the value that they give a setting.
type Values<'a> = BTreeMap<String, Vec<&'a str>>;

pub(super) fn write(text: &mut String, outcomes: &[Outcome]) {
    let mut by_devices: BTreeMap<Vec<String>, Vec<&Plan>> = BTreeMap::new();
    for outcome in outcomes {
        let testbeds = outcome.plan.testbeds();
        if !testbeds.is_empty() {
            by_devices.entry(testbeds).or_default().push(&outcome.plan);
        }
    }
    if by_devices.is_empty() {
        return;
    }
    text.push_str(
        "\n## Settings that differ between figures\n\n\
         Of plans that name the same devices. A plan that does not give a setting has its default.\n",
    );
    for (testbeds, plans) in by_devices {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "\n### Plans of `{}`\n\n| setting | value | plans |\n|---|---|---|",
            testbeds.join("`, `")
        );
        for (name, values) in differing(&plans) {
            for (value, plans) in values {
                let _ = writeln!(text, "| {name} | {value} | {} |", plans.join(", "));
            }
        }
    }
}

fn differing<'a>(plans: &[&'a Plan]) -> Vec<(String, Values<'a>)> {
    let names: BTreeSet<String> = plans
        .iter()
        .flat_map(|plan| plan.parameters(false))
        .collect();
    let each = names.into_iter().map(|name| {
        let mut values = Values::new();
        for plan in plans {
            let value = told(plan, &name);
            values.entry(value).or_default().push(&plan.name);
        }
        (name, values)
    });
    each.filter(|(name, values)| values.len() > 1 && name != "testbed")
        .collect()
}

/// What a plan gives a setting.
fn told(plan: &Plan, name: &str) -> String {
    let values: Vec<String> = plan.values(name).iter().map(shown).collect();
    match values.is_empty() {
        true => "default".into(),
        false => values.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn what_differs_is_told_and_what_does_not_is_not() {
        let plan = |name: &str, parameters: &str| {
            let text = format!(
                "[plan]\ntitle = \"t\"\nfigure = \"f\"\nmodel = \"sfc_pipeline\"\n[parameters]\n{parameters}"
            );
            Plan::parse(&text, Path::new(name)).expect("a plan")
        };
        let plans = [
            plan("a.toml", "functions = [1, 2]\nmodule_stages = 6"),
            plan("b.toml", "functions = 3\nmodule_stages = 6"),
            plan("c.toml", "module_stages = 6"),
        ];
        let found = differing(&plans.iter().collect::<Vec<_>>());
        assert_eq!(found.len(), 1);
        let (name, values) = &found[0];
        assert_eq!(name, "functions");
        let told: Vec<_> = values
            .iter()
            .map(|(v, plans)| (v.as_str(), plans.as_slice()))
            .collect();
        assert_eq!(
            told,
            [("1, 2", &["a"][..]), ("3", &["b"]), ("default", &["c"])]
        );
    }
}
