//! What a file of Rust uses of its own crate, as far as its text tells.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The segments of a module's path, or of an item's, from the root of its crate.
pub type Segments = Vec<String>;

/// What is known of a module.
#[derive(Debug, Default)]
pub struct Module {
    /// Paths of its own crate that it uses outside of tests.
    pub paths: BTreeSet<Segments>,
    /// Where the names come from that it has by `use`.
    pub names: BTreeMap<String, Segments>,
}

/// All modules of a crate that are no tests, by their paths; its root is there in any case.
pub fn modules(source: &Path) -> BTreeMap<Segments, Module> {
    let mut texts = BTreeMap::new();
    collect(source, &mut Vec::new(), &mut texts);
    let mut of_tests = BTreeSet::new();
    let mut tokens = BTreeMap::new();
    for (module, text) in &texts {
        let (rest, tests) = without_tests(&tokens_of(text));
        of_tests.extend(tests.into_iter().map(|name| inside(module, &name)));
        tokens.insert(module.clone(), rest);
    }
    let is_test =
        |module: &Segments| (1..=module.len()).any(|length| of_tests.contains(&module[..length]));
    tokens.retain(|module, _| !is_test(module));
    let known: BTreeSet<Segments> = tokens.keys().cloned().collect();
    let mut modules: BTreeMap<Segments, Module> = tokens
        .into_iter()
        .map(|(module, tokens)| {
            let read = Reader::new(&module, &known).read(&tokens);
            (module, read)
        })
        .collect();
    modules.entry(Vec::new()).or_default();
    modules
}

fn inside(module: &[String], name: &str) -> Segments {
    let name = std::iter::once(name.to_owned());
    module.iter().cloned().chain(name).collect()
}

/// The texts of a folder's files, by the modules that they are.
fn collect(folder: &Path, module: &mut Segments, texts: &mut BTreeMap<Segments, String>) {
    for path in crate::files_in(folder) {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let is_own = ["lib", "main", "mod"].contains(&&*stem);
        if !is_own {
            module.push(stem.into_owned());
        }
        if path.is_dir() {
            collect(&path, module, texts);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            texts.entry(module.clone()).or_default().push_str(&text);
        }
        if !is_own {
            module.pop();
        }
    }
}

/// Words, `::`, and single marks; no comments, strings and characters.
fn tokens_of(text: &str) -> Vec<&str> {
    let (mut tokens, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let length = skipped(rest).unwrap_or_else(|| {
            let length = token_length(rest, first);
            if !first.is_whitespace() {
                tokens.push(&rest[..length]);
            }
            length
        });
        rest = &rest[length..];
    }
    tokens
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn token_length(text: &str, first: char) -> usize {
    match first {
        _ if is_of_word(first) => text.find(|next| !is_of_word(next)).unwrap_or(text.len()),
        ':' if text.starts_with("::") => 2,
        _ => first.len_utf8(),
    }
}

/// The length of what a text begins with, if that is a comment, a string or a character.
fn skipped(text: &str) -> Option<usize> {
    let until = |end: &str, from: usize| {
        let found = text[from..].find(end);
        found.map_or(text.len(), |at| from + at + end.len())
    };
    if text.starts_with("//") {
        return Some(until("\n", 2));
    }
    if text.starts_with("/*") {
        return Some(until("*/", 2));
    }
    if let Some(raw) = text.strip_prefix('r') {
        let marks = raw.len() - raw.trim_start_matches('#').len();
        if raw[marks..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(marks));
            return Some(until(&end, marks + 2));
        }
    }
    if text.starts_with('"') {
        return Some(closed(text, '"'));
    }
    let mut letters = text.strip_prefix('\'')?.chars();
    let (first, second) = (letters.next()?, letters.next()?);
    (first == '\\' || second == '\'').then(|| closed(text, '\''))
}

/// The length up to the mark that closes what a text begins with.
fn closed(text: &str, mark: char) -> usize {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if letter == mark => return at + letter.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

const OF_TESTS: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];

/// Tokens without items of tests, and the names of modules in files of their own that are tests.
fn without_tests<'a>(tokens: &[&'a str]) -> (Vec<&'a str>, Vec<String>) {
    let (mut kept, mut modules, mut at) = (Vec::new(), Vec::new(), 0);
    while at < tokens.len() {
        if !tokens[at..].starts_with(&OF_TESTS) {
            kept.push(tokens[at]);
            at += 1;
            continue;
        }
        let item = &tokens[at + OF_TESTS.len()..];
        let length = item_length(item);
        let mut words = item[..length].iter().skip_while(|word| **word != "mod");
        if let (Some(_), Some(name), Some(&";")) = (words.next(), words.next(), words.next()) {
            modules.push((*name).to_owned());
        }
        at += OF_TESTS.len() + length;
    }
    (kept, modules)
}

/// The tokens of an item: up to a semicolon or the end of a block, outside of brackets.
fn item_length(item: &[&str]) -> usize {
    let mut depth = 0;
    for (at, token) in item.iter().enumerate() {
        match *token {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 && matches!(*token, ";" | "}") {
            return at + 1;
        }
    }
    item.len()
}

/// Reads the paths of a module.
struct Reader<'a> {
    module: &'a [String],
    known: &'a BTreeSet<Segments>,
    found: Module,
}

impl<'a> Reader<'a> {
    fn new(module: &'a [String], known: &'a BTreeSet<Segments>) -> Self {
        let found = Module::default();
        Self {
            module,
            known,
            found,
        }
    }

    fn read(mut self, tokens: &[&str]) -> Module {
        let mut at = 0;
        while at < tokens.len() {
            at += match tokens[at] {
                "use" => 1 + self.tree(&tokens[at + 1..], &mut Vec::new()),
                "crate" | "super" | "self" if at == 0 || tokens[at - 1] != "::" => {
                    self.path(&tokens[at..])
                }
                _ => 1,
            };
        }
        self.found
    }

    /// A path in the middle of code. Returns its tokens.
    fn path(&mut self, tokens: &[&str]) -> usize {
        let mut segments = vec![tokens[0].to_owned()];
        let mut rest = &tokens[1..];
        while let [mark, name, after @ ..] = rest
            && *mark == "::"
            && name.starts_with(is_of_word)
        {
            segments.push((*name).to_owned());
            rest = after;
        }
        if segments.len() > 1
            && let Some(path) = self.absolute(&segments)
        {
            self.found.paths.insert(path);
        }
        tokens.len() - rest.len()
    }

    /// What stands behind `use`, or in its braces; up to what ends it. Returns its tokens.
    fn tree(&mut self, tokens: &[&str], before: &mut Segments) -> usize {
        let (first, mut at) = (before.len(), 0);
        while let Some(&token) = tokens.get(at) {
            match token {
                ";" | "," | "}" => break,
                "::" => {}
                "as" => {
                    self.used(before, tokens.get(at + 1).copied());
                    before.truncate(first);
                    return at + 2;
                }
                "{" => {
                    at += 1;
                    while let Some(&next) = tokens.get(at)
                        && next != "}"
                    {
                        // A comma alone ends a tree before it begins.
                        at += self.tree(&tokens[at..], before).max(1);
                    }
                    before.truncate(first);
                    return at + 1;
                }
                name => before.push(name.to_owned()),
            }
            at += 1;
        }
        if before.len() > first {
            self.used(before, None);
        }
        before.truncate(first);
        at
    }

    /// One path of a `use`, under another name if it has one.
    fn used(&mut self, segments: &[String], name: Option<&str>) {
        let Some(mut path) = self.absolute(segments) else {
            return;
        };
        if path
            .last()
            .is_some_and(|last| last == "self" || last == "*")
        {
            path.pop();
        }
        let name = name.or(path.last().map(String::as_str));
        if let Some(name) = name.map(str::to_owned) {
            self.found.names.insert(name, path.clone());
        }
        self.found.paths.insert(path);
    }

    /// A path from the root of the crate, if it is one of this crate.
    fn absolute(&self, segments: &[String]) -> Option<Segments> {
        let supers = segments.iter().take_while(|name| *name == "super").count();
        let (from, rest) = match segments.first()?.as_str() {
            "crate" => (Vec::new(), &segments[1..]),
            "self" => (self.module.to_vec(), &segments[1..]),
            "super" => {
                let kept = self.module.len().checked_sub(supers)?;
                (self.module[..kept].to_vec(), &segments[supers..])
            }
            child if self.known.contains(&inside(self.module, child)) => {
                (self.module.to_vec(), segments)
            }
            _ => return None,
        };
        Some(from.into_iter().chain(rest.iter().cloned()).collect())
    }
}
