//! A module's documentation as a page: headings one level lower, links to code as plain text, and
//! without what is for readers of the code.

use crate::root;
use std::io;
use twinpath_nf::catalogue;

/// Sections from this heading on are for readers of the code.
const FOR_CODE: &str = "# In the code";

/// Paragraphs that begin so, in a module's documentation, give way to tables of keys.
const KEYS: &str = "The keys are ";

/// A module's documentation as Markdown.
///
/// # Errors
/// The file cannot be read.
pub fn text(source: &str) -> io::Result<String> {
    let file = std::fs::read_to_string(root().join(source))
        .map_err(|error| io::Error::new(error.kind(), format!("{source}: {error}")))?;
    Ok(of_file(&file))
}

/// The same, with `keys` where the module points to them.
///
/// # Errors
/// The file cannot be read, or has no place for the keys.
pub fn page(source: &str, keys: &str) -> io::Result<String> {
    with_keys(&text(source)?, keys).ok_or_else(|| {
        let wanted = format!("{source}: expected a paragraph \"{KEYS}...\" in its documentation");
        io::Error::new(io::ErrorKind::InvalidData, wanted)
    })
}

fn of_file(file: &str) -> String {
    let lines = file.lines().map_while(|line| line.strip_prefix("//!"));
    let lines: Vec<&str> = lines
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .take_while(|line| *line != FOR_CODE)
        .collect();
    let text = lines.join("\n");
    plain_links(&lower_headings(text.trim_end())) + "\n"
}

fn with_keys(text: &str, keys: &str) -> Option<String> {
    let start = text.find(&format!("\n{KEYS}"))? + 1;
    let end = text[start..]
        .find("\n\n")
        .map_or(text.len(), |end| start + end);
    let (before, after) = (&text[..start], &text[end..]);
    Some(format!("{before}{}{}\n", keys.trim_end(), after.trim_end()))
}

fn lower_headings(text: &str) -> String {
    let mut is_code = false;
    let lower = |line: &str| {
        is_code ^= line.starts_with("```");
        match line.starts_with('#') && !is_code {
            true => format!("#{line}"),
            false => line.to_owned(),
        }
    };
    let lines: Vec<String> = text.lines().map(lower).collect();
    lines.join("\n")
}

/// Links to items of code become their text, those to functions become links to their pages.
pub fn plain_links(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some(start) = rest.find('[') {
        let (before, link) = rest.split_at(start);
        plain += before;
        let (shown, length) = resolved(link).unwrap_or_else(|| ("[".into(), 1));
        plain += &shown;
        rest = &link[length..];
    }
    plain + rest
}

/// What a link at the beginning of a text becomes, and how long it is; `None` if it stays.
fn resolved(text: &str) -> Option<(String, usize)> {
    let end = text.find(']')?;
    let shown = &text[1..end];
    let target = text[end + 1..]
        .strip_prefix('(')
        .and_then(|target| target.split_once(')'));
    let Some((target, _)) = target else {
        let is_item = shown.starts_with('`') && shown.ends_with('`') && shown.len() > 2;
        return is_item.then(|| (shown.to_owned(), end + 1));
    };
    let is_page = target.contains("://") || target.contains(".md") || target.starts_with('#');
    if is_page {
        return None;
    }
    let item = target.rsplit("::").next().unwrap_or_default();
    let page = match (item, catalogue::function(item)) {
        ("catalogue", _) => Some("README"),
        (_, function) => function.map(|function| function.name),
    };
    let shown = match page {
        Some(page) => format!("[{shown}]({page}.md)"),
        None => shown.to_owned(),
    };
    Some((shown, end + 3 + target.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documentation_becomes_a_page() {
        let file = "//! A [list](crate::acl) of [`Rule`]s.\n//!\n//! # Configuration\n//! The keys are those of\n//! [`Config`].\n//!\n//! ```toml\n//! # a comment\n//! ```\n//!\n//! # In the code\n//! See [`Rule`].\n\nmod rule;\n";
        let expected = "A [list](acl.md) of `Rule`s.\n\n## Configuration\n| key |\n\n```toml\n# a comment\n```\n";
        let text = of_file(file);
        assert_eq!(with_keys(&text, "| key |\n").as_deref(), Some(expected));
        assert_eq!(with_keys("No keys.\n", ""), None);
    }

    #[test]
    fn links_to_pages_and_brackets_stay() {
        for text in [
            "[a](https://a.b)",
            "[b](c.md)",
            "`[x]` [y",
            "rules = [1, 2]",
            "[c](#d)",
        ] {
            assert_eq!(plain_links(text), text);
        }
        assert_eq!(plain_links("[x](super::y) and [`Z`]"), "x and `Z`");
    }
}
