//! Numbers in a plan.

use toml::Value;

/// A parameter's value as a number, if it is one.
pub(crate) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(integer) => Some(*integer as f64),
        Value::Float(float) => Some(*float),
        _ => None,
    }
}
