//! What the words mean that `twinpath trace` begins its lines with.

use crate::module_docs::plain_links;
use crate::root;
use crate::table::{code, table};
use std::io;

const SOURCE: &str = "crates/node/src/watch.rs";
const HEAD: &str = "pub enum Step {";

/// The section about them, for the command's page.
///
/// # Errors
/// The source cannot be read, or has no such steps.
pub fn section() -> io::Result<String> {
    let file = std::fs::read_to_string(root().join(SOURCE))?;
    let rows = variants(&file);
    if rows.is_empty() {
        let wanted = format!("{SOURCE}: expected {HEAD:?} with variants");
        return Err(io::Error::new(io::ErrorKind::InvalidData, wanted));
    }
    Ok(format!(
        "\n## Steps\n\nWhat a packet does, in order; each line begins with its name.\n\n{}",
        table(&["step", "meaning"], &rows)
    ))
}

/// The enum's variants, as they are told, with their documentation.
fn variants(file: &str) -> Vec<Vec<String>> {
    let body = file.split_once(HEAD).map_or("", |(_, behind)| behind);
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
                rows.push(vec![code(&snake(&name)), plain_links(&told.join(" "))]);
                told.clear();
            }
        }
    }
    rows
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
        let file = "pub enum Step {\n    /// One.\n    /// Two.\n    GoOn {\n        /// Not this.\n        \
            element: u8,\n    },\n    /// Three.\n    Meet(Box<Meeting>),\n}\n/// Other.\n";
        let row = |name: &str, told: &str| vec![code(name), told.to_owned()];
        assert_eq!(
            variants(file),
            [row("go_on", "One. Two."), row("meet", "Three.")]
        );
    }
}
