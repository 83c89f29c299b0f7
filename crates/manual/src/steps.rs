//! What the words mean of which a story by `twinpath trace` is made: its steps, and what crosses the link.

use crate::module_docs::plain_links;
use crate::root;
use crate::table::{code, table};
use std::io;

/// An enum whose variants are told, with its file.
struct DocumentedEnum {
    source: &'static str,
    head: &'static str,
}

const STEPS: DocumentedEnum = DocumentedEnum {
    source: "crates/node/src/watch.rs",
    head: "pub enum TraceStep {",
};
const MESSAGES: DocumentedEnum = DocumentedEnum {
    source: "crates/link/src/header.rs",
    head: "pub enum Message {",
};

/// The sections about them, for the command's page.
///
/// # Errors
/// A source cannot be read, or has no such variants.
pub fn sections() -> io::Result<String> {
    Ok(format!(
        "\n## Steps\n\nWhat a packet does, in order; each line begins with its name.\n\n{}\n\
         ## Messages\n\nWhat crosses the link between the paths, with a packet or alone. A *generation* numbers \
         what belongs together: a pull or a write-back, and its answer. An *epoch* numbers the lives of a worker.\n\n{}",
        STEPS.table("step")?,
        MESSAGES.table("message")?
    ))
}

impl DocumentedEnum {
    fn table(&self, head: &str) -> io::Result<String> {
        let file = std::fs::read_to_string(root().join(self.source))?;
        let rows = variants(&file, self.head);
        if rows.is_empty() {
            let wanted = format!("{}: expected {:?} with variants", self.source, self.head);
            return Err(io::Error::new(io::ErrorKind::InvalidData, wanted));
        }
        Ok(table(&[head, "meaning"], &rows))
    }
}

/// The enum's variants, as they are told, with their documentation.
fn variants(file: &str, head: &str) -> Vec<Vec<String>> {
    let body = file.split_once(head).map_or("", |(_, behind)| behind);
    let (mut rows, mut told) = (Vec::new(), Vec::new());
    for line in body.lines().take_while(|line| *line != "}") {
        let Some(own) = line
            .strip_prefix("    ")
            .filter(|line| !line.starts_with([' ', '}']))
        else {
            continue;
        };
        match own.strip_prefix("/// ") {
            Some(words) => told.push(words),
            None => {
                let name: String = own
                    .chars()
                    .take_while(char::is_ascii_alphanumeric)
                    .collect();
                rows.push(vec![
                    code(&name_of(body, &name)),
                    plain_links(&told.join(" ")),
                ]);
                told.clear();
            }
        }
    }
    rows
}

/// What a variant is called where the file has a name for it, else its own in snake case.
fn name_of(file: &str, variant: &str) -> String {
    let given = file.split_once(&format!("Self::{variant} => \""));
    let given = given.and_then(|(_, behind)| behind.split_once('"'));
    given.map_or_else(|| snake(variant), |(name, _)| name.to_owned())
}

/// `go_on` of `GoOn`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for (place, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && place > 0 {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_told_as_they_are_documented() {
        let file = "pub enum TraceStep {\n    /// One.\n    /// Two.\n    GoOn {\n        /// Not this.\n        \
            element: u8,\n    },\n    /// Three.\n    Meet(Box<Meeting>),\n}\n\
            /// Other.\nSelf::Meet => \"MET\",\n";
        let row = |name: &str, told: &str| vec![code(name), told.to_owned()];
        assert_eq!(
            variants(file, "pub enum TraceStep {"),
            [row("go_on", "One. Two."), row("MET", "Three.")]
        );
    }
}
