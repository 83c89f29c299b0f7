//! The functions of a chain, each under a name of its own, and the tables that configure them.

use super::faults::Faults;
use super::{Misplaced, SETTINGS};
use std::collections::HashSet;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use twinpath_nf::catalogue;
use twinpath_nf::descriptor::{Descriptor, Form, FunctionConfig, SectionContext};
use twinpath_nf::similar::did_you_mean;

/// Most functions in a chain.
pub const MAX_CHAIN: usize = 16;

/// Longest name of a function of a chain.
pub const MAX_NAME: usize = 32;

/// A function of a chain. A chain may have several of a kind, under different names.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Its name, which is also its table's in the service file.
    pub name: Arc<str>,
    /// How it is configured, and so what function it is.
    pub config: Arc<dyn FunctionConfig>,
}

impl PartialEq for Instance {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && *self.config == *other.config
    }
}

impl Instance {
    /// What its decisions depend on.
    pub fn form(&self) -> Form {
        self.config.descriptor().form
    }

    /// Whether packets change state of flows that both paths share.
    pub fn shares_state(&self) -> bool {
        self.config.shares_state()
    }

    /// Whether its decisions are cached as rules.
    pub fn makes_rules(&self) -> bool {
        self.config.makes_rules()
    }

    /// Whether packets meet it last, whichever way they go.
    pub fn decides_last(&self) -> bool {
        self.config.decides_last()
    }

    /// Whether this is the other one, configured anew perhaps: what one knows, the other may.
    pub fn is_heir_of(&self, former: &Self) -> bool {
        self.name == former.name && self.config.descriptor().name == former.config.descriptor().name
    }
}

/// A name in the file.
type Name = Spanned<String>;

/// A chain as it is written: names.
pub(super) type Names = Spanned<Vec<Name>>;

/// Makes functions of a chain's names and tables; nothing if any is wrong. Tables that are called like
/// functions may be there without being used, so that a function can be taken out of a chain and put
/// back.
pub(super) fn read(
    names: &Names,
    mut sections: DeTable<'_>,
    context: SectionContext<'_>,
    faults: &mut Faults,
) -> Option<Vec<Instance>> {
    check(names, faults);
    let known: HashSet<String> = sections
        .keys()
        .map(|name| name.get_ref().to_string())
        .collect();
    let mut chain = Vec::new();
    let mut are_all_right = true;
    for name in names.get_ref() {
        let config = match sections.remove_entry(name.get_ref().as_str()) {
            Some((_, section)) => of_section(name, section, context, faults),
            None => without_section(name, &sections, context, faults),
        };
        let name = name.get_ref().as_str().into();
        match config {
            Some(config) => chain.push(Instance { name, config }),
            None => are_all_right = false,
        }
    }
    if are_all_right {
        faults.take(check_order(names.get_ref(), &chain));
        faults.take(check_dash(names.get_ref(), &chain));
    }
    // A function that the chain has by another name has been told.
    let lacks_table = !are_all_right && names.get_ref().iter().any(|name| is_unknown(name, &known));
    for (name, section) in sections {
        if catalogue::function(name.get_ref()).is_none()
            && !(lacks_table && is_of_function(&section))
        {
            faults.push(for_nothing(&name, names));
            continue;
        }
        let name = Spanned::new(name.span(), name.into_inner().into_owned());
        of_section(&name, section, context, faults);
    }
    are_all_right.then_some(chain)
}

/// Whether nothing says what function a name is of.
fn is_unknown(name: &Name, tables: &HashSet<String>) -> bool {
    catalogue::function(name.get_ref()).is_none() && !tables.contains(name.get_ref())
}

/// Whether a table says what function it is of.
fn is_of_function(section: &Spanned<DeValue<'_>>) -> bool {
    let table = section.get_ref().as_table();
    table.is_some_and(|table| table.contains_key("function"))
}

fn check(names: &Names, faults: &mut Faults) {
    let each = names.get_ref();
    if each.is_empty() || each.len() > MAX_CHAIN {
        let have = each.len();
        let message = format!("a chain has 1 to {MAX_CHAIN} functions, this one has {have}");
        faults.push((names.span(), message));
    }
    for (place, name) in each.iter().enumerate() {
        faults.take(check_name(name).map_err(|message| (name.span(), message)));
        let is_same = |other: &Name| other.get_ref() == name.get_ref();
        if each[..place].iter().any(is_same) {
            let name_text = name.get_ref();
            let message = format!(
                "{name_text} is in the chain twice: expected a name of its own for each function, such as {name_text}-2, with a table [{name_text}-2] that says function = \"...\""
            );
            faults.push((name.span(), message));
        }
    }
}

/// Replies pass a chain in reverse; what decides last does so either way, and so it is written.
fn check_order(names: &[Name], chain: &[Instance]) -> Result<(), Misplaced> {
    let mut pairs = names.iter().zip(chain).zip(chain.iter().skip(1));
    let early = pairs.find(|((_, one), next)| one.decides_last() && !next.decides_last());
    let Some(((name, function), next)) = early else {
        return Ok(());
    };
    let (function, next, last) = (&function.name, &next.name, &chain[chain.len() - 1].name);
    let message = format!(
        "{function} decides by the addresses that packets leave with, in both directions, so all functions come before it: expected {function} behind {last}, not before {next}"
    );
    Err((name.span(), message))
}

/// What comes out of a DPU has other headers than what came in, also where other functions look.
fn check_dash(names: &[Name], chain: &[Instance]) -> Result<(), Misplaced> {
    let mut pairs = names.iter().zip(chain);
    match pairs.find(|(_, one)| one.form() == Form::Dash && chain.len() > 1) {
        Some((name, dash)) => Err((
            name.span(),
            format!(
                "{} is a DPU, which is a chain of its own: expected no other function beside it",
                dash.name
            ),
        )),
        None => Ok(()),
    }
}

fn check_name(name: &Name) -> Result<(), String> {
    let text = name.get_ref();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if text.is_empty() || text.len() > MAX_NAME || !text.bytes().all(is_plain) {
        return Err(format!(
            "a name in a chain has 1 to {MAX_NAME} letters, digits, _ and -"
        ));
    }
    match SETTINGS.contains(&text.as_str()) {
        true => Err(format!(
            "[{text}] has settings of the node: expected another name for a function"
        )),
        false => Ok(()),
    }
}

/// A function that is configured by its own name may leave out what it is.
fn of_section(
    name: &Name,
    mut section: Spanned<DeValue<'_>>,
    context: SectionContext<'_>,
    faults: &mut Faults,
) -> Option<Arc<dyn FunctionConfig>> {
    let (span, name_text) = (section.span(), name.get_ref());
    let DeValue::Table(table) = section.get_mut() else {
        faults.push((span, format!("expected a table [{name_text}]")));
        return None;
    };
    let function = match table.remove("function") {
        Some(function) => named(name_text, &function),
        None => catalogue::function(name_text).ok_or_else(|| {
            let functions = catalogue::names();
            let message = format!(
                "[{name_text}] does not say what it is: expected function = one of {functions}"
            );
            (span, message)
        }),
    };
    let function = faults.take(function)?;
    faults.read(section, |section| (function.read)(section, context))
}

/// The function that a table says it is of.
fn named(table: &str, function: &Spanned<DeValue<'_>>) -> Result<&'static Descriptor, Misplaced> {
    let functions = catalogue::names();
    let wrong = |message| (function.span(), message);
    let DeValue::String(text) = function.get_ref() else {
        return Err(wrong(format!("expected one of {functions}, in quotes")));
    };
    let descriptor = catalogue::function(text).ok_or_else(|| {
        let meant = did_you_mean(text, catalogue::all_names());
        wrong(format!(
            "no such function: expected one of {functions}{meant}"
        ))
    })?;
    match catalogue::function(table) {
        Some(other) if other.name != descriptor.name => Err(wrong(format!(
            "[{table}] is a {table}: expected another name for a function of another kind"
        ))),
        _ => Ok(descriptor),
    }
}

/// A function without a table; `sections` are those that no name has taken.
fn without_section(
    name: &Name,
    sections: &DeTable<'_>,
    context: SectionContext<'_>,
    faults: &mut Faults,
) -> Option<Arc<dyn FunctionConfig>> {
    let (span, name) = (name.span(), name.get_ref());
    let Some(function) = catalogue::function(name) else {
        let functions = catalogue::names();
        let mut known: Vec<&str> = catalogue::all_names().collect();
        known.extend(sections.keys().map(|table| table.get_ref().as_ref()));
        let meant = did_you_mean(name, known);
        let message = format!(
            "no function is called {name}: expected one of {functions}, or a table [{name}] that says which of them it is: function = \"...\"{meant}"
        );
        faults.push((span, message));
        return None;
    };
    if function.needs_section {
        let message = format!(
            "the chain has {name}, so the file needs a table [{name}] with its configuration"
        );
        faults.push((span, message));
        return None;
    }
    let empty = Spanned::new(span, DeValue::Table(DeTable::new()));
    faults.read(empty, |section| (function.read)(section, context))
}

fn for_nothing(name: &Spanned<toml::de::DeString<'_>>, names: &Names) -> Misplaced {
    let each = names.get_ref().iter();
    let chain: Vec<&str> = each.map(|name| name.get_ref().as_str()).collect();
    let mut known: Vec<&str> = catalogue::all_names().chain(SETTINGS).collect();
    known.extend(&chain);
    let meant = did_you_mean(name.get_ref(), known);
    let (chain, settings) = (chain.join(", "), SETTINGS.join(", "));
    let message = format!(
        "this table is for nothing: expected a name that the chain has ({chain}), a function, or one of {settings}{meant}"
    );
    (name.span(), message)
}
