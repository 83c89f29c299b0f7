//! Routes whose prefixes are written without a length.

use super::fields::shown_object;
use super::problem::{Problem, Wrong};

/// Those of a file: one remark tells of all, as there may be as many as there are routes.
#[derive(Default)]
pub(super) struct BareRoutes {
    /// Line and name of the first.
    first: Option<(u32, Box<str>)>,
    second: Option<Box<str>>,
    count: usize,
}

impl BareRoutes {
    /// Notes a route.
    pub fn note(&mut self, line: u32, written: &str) {
        self.count += 1;
        match self.count {
            1 => self.first = Some((line, shown_object(written))),
            2 => self.second = Some(shown_object(written)),
            _ => {}
        }
    }

    /// What is told of them.
    pub fn remark(self) -> Option<Problem> {
        let (line, object) = self.first?;
        let others = match (self.second, self.count) {
            (None, _) => String::new(),
            (Some(second), 2) => format!("; so is {second}"),
            (Some(second), count) => format!("; so are {} more, {second} first", count - 1),
        };
        let why = format!("has no length: taken for a route to that address alone{others}");
        Some(Problem {
            line,
            object: Some(object),
            field: Some("key".into()),
            wrong: Wrong::Remark(why),
        })
    }
}
