//! Pages that somebody wrote and that include files: a line `<!-- file: NAME -->`, and a block of
//! code behind it that is a copy of the file beside the page.

use crate::Pages;
use std::io;
use std::path::{Path, PathBuf};

const MARK: &str = "<!-- file: ";

/// The pages that include something, with what the files say now.
///
/// # Errors
/// A page or a file cannot be read, or a mark has no block of code behind it.
pub fn pages(docs: &Path) -> io::Result<Pages> {
    let mut pages = Pages::new();
    for path in markdown(docs)? {
        let text = std::fs::read_to_string(&path)?;
        if text.contains(MARK) {
            let name = path.strip_prefix(docs).unwrap_or(&path);
            let folder = path.parent().unwrap_or(docs);
            let wrong = |error: io::Error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            };
            let text = with_files(&text, folder).map_err(wrong)?;
            pages.insert(name.to_string_lossy().into_owned(), text);
        }
    }
    Ok(pages)
}

/// The pages below a folder.
pub fn markdown(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(markdown(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn with_files(text: &str, folder: &Path) -> io::Result<String> {
    let mut parts = text.split(MARK);
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, block, rest) = block(part).ok_or_else(|| {
            let wanted = format!("expected a block of code behind `{MARK}NAME -->`");
            io::Error::new(io::ErrorKind::InvalidData, wanted)
        })?;
        let file = std::fs::read_to_string(folder.join(name))
            .map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?;
        whole += &format!(
            "{MARK}{name} -->\n```{block}\n{}\n```{rest}",
            file.trim_end()
        );
    }
    Ok(whole)
}

/// A mark's file, the language of the block behind it, and what follows the block.
fn block(text: &str) -> Option<(&str, &str, &str)> {
    let (name, text) = text.split_once(" -->\n```")?;
    let (language, text) = text.split_once('\n')?;
    let end = match text.starts_with("```") {
        true => 0,
        false => text.find("\n```")? + 1,
    };
    Some((name, language, &text[end + 3..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_becomes_its_file() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.toml"), "a = 1\n").expect("written");
        for old in ["", "b = 2\nc = 3\n"] {
            let text = format!("Text\n<!-- file: a.toml -->\n```toml\n{old}```\nmore\n");
            let expected = "Text\n<!-- file: a.toml -->\n```toml\na = 1\n```\nmore\n";
            let found = with_files(&text, folder.path()).expect("included");
            assert_eq!(found, expected);
        }
        assert!(with_files("<!-- file: b.toml -->\n```toml\n```\n", folder.path()).is_err());
        assert!(with_files("<!-- file: a.toml -->\nno block", folder.path()).is_err());
    }
}
