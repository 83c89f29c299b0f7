//! A trace as text.

use std::fmt::{self, Display, Formatter};
use twinpath_control::report::units;
use twinpath_node::trace::{
    CoresLook, EntryLook, Found, FunctionLook, PacketLook, ProgramLook, Quantity, RuleLook,
    RulesRun, Stage, StateRun, Trace, WordChange,
};

/// A trace, to be read by a person.
pub struct Told<'a>(pub &'a Trace);

/// Bytes in a line, and lines of a packet: the headers and a little more.
const BYTES_A_LINE: usize = 32;
const LINES: usize = 4;

impl Display for Told<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let trace = self.0;
        let number = units::count(trace.packets_before + 1);
        writeln!(f, "packet {number}, {} bytes", trace.arrived.bytes)?;
        packet(f, &trace.arrived)?;
        if let Some(direction) = trace.direction {
            writeln!(f, "  direction: {direction}")?;
        }
        for stage in &trace.stages {
            writeln!(f)?;
            told_stage(f, stage)?;
        }
        let end = &trace.end;
        let path = match end.was_on_cores {
            true => "by way of the cores",
            false => "on the fast path alone",
        };
        writeln!(f, "\nend: {}, {path}", end.fate)?;
        if let Some(port) = end.egress {
            writeln!(f, "  egress port: {port}")?;
        }
        match &end.packet {
            Some(look) => packet(f, look),
            None => Ok(()),
        }
    }
}

fn packet(f: &mut Formatter<'_>, look: &PacketLook) -> fmt::Result {
    for header in &look.headers {
        writeln!(f, "  {header}")?;
    }
    let digits: Vec<char> = look.hex.chars().collect();
    for line in digits.chunks(2 * BYTES_A_LINE).take(LINES) {
        let pairs = line.chunks(2).map(|pair| pair.iter().collect::<String>());
        writeln!(f, "    {}", pairs.collect::<Vec<_>>().join(" "))?;
    }
    match look.bytes.saturating_sub(LINES * BYTES_A_LINE) {
        0 => Ok(()),
        more => writeln!(f, "    and {} more bytes", units::count(more as u64)),
    }
}

fn told_stage(f: &mut Formatter<'_>, stage: &Stage) -> fmt::Result {
    let functions = stage.functions.join(", ");
    writeln!(f, "element {}: {functions}", stage.element)?;
    writeln!(f, "  flow: {}", stage.flow)?;
    write!(f, "  fast path: ")?;
    match &stage.fast.found {
        Found::Nothing => writeln!(f, "nothing, the element is on the cores alone")?,
        Found::NotPlain => writeln!(f, "no rule is looked up for such a packet")?,
        Found::NoRule => writeln!(f, "no rule matches")?,
        Found::Rule(found) => {
            writeln!(f, "a rule matches")?;
            rule(f, found)?;
        }
        Found::NoSlot => writeln!(f, "the flow has no slot")?,
        Found::Slot(slot) => {
            writeln!(f, "a slot, {} -> {}", slot.state, slot.state_after)?;
            words(f, &slot.words)?;
            programs(f, &slot.programs)?;
        }
    }
    writeln!(f, "  decision: {}", stage.fast.decision)?;
    match &stage.cores {
        None => Ok(()),
        Some(CoresLook::Rules(run)) => rules_run(f, run),
        Some(CoresLook::State(run)) => state_run(f, run),
    }
}

fn rules_run(f: &mut Formatter<'_>, run: &RulesRun) -> fmt::Result {
    writeln!(f, "  cores")?;
    run.functions
        .iter()
        .try_for_each(|function| told_function(f, function))?;
    writeln!(f, "    outcome: {}", run.outcome)?;
    replies(f, &run.replies)?;
    if let Some(no_rule) = &run.no_rule {
        writeln!(f, "    no rule: {} ({})", no_rule.name, no_rule.meaning)?;
    }
    match &run.rule {
        None => Ok(()),
        Some(made) => {
            writeln!(f, "    rule")?;
            rule(f, made)?;
            writeln!(f, "      {}", run.selection)
        }
    }
}

fn told_function(f: &mut Formatter<'_>, function: &FunctionLook) -> fmt::Result {
    writeln!(f, "    {}: {}", function.name, function.verdict)?;
    let examined = quantities(&function.examined, "nothing new");
    writeln!(f, "      examined {examined}")?;
    for change in &function.written {
        let (field, old, new) = (change.field, &change.old, &change.new);
        writeln!(f, "      wrote {field} {old} -> {new}")?;
    }
    match function.entries.as_slice() {
        [] => Ok(()),
        used => writeln!(f, "      used {}", entries(used)),
    }
}

fn rule(f: &mut Formatter<'_>, rule: &RuleLook) -> fmt::Result {
    let matches = quantities(&rule.matches, "any packet");
    writeln!(f, "      matches {matches}")?;
    writeln!(f, "      mask    {}", rule.mask)?;
    writeln!(f, "      value   {}", rule.value)?;
    let rewrites = match rule.rewrites.is_empty() {
        true => "nothing".to_owned(),
        false => rule.rewrites.join(", "),
    };
    writeln!(f, "      writes {rewrites}; {}", rule.fate)?;
    if let Some(least) = rule.least_time_to_live {
        writeln!(f, "      only with a time to live of {least} or more")?;
    }
    if let Some(idle) = &rule.idle {
        writeln!(f, "      ends after {idle} without use")?;
    }
    match rule.entries.as_slice() {
        [] => Ok(()),
        causes => writeln!(f, "      depends on {}", entries(causes)),
    }
}

fn quantities(quantities: &[Quantity], none: &str) -> String {
    let text = |one: &Quantity| format!("{} ({} bits)", one.what, one.bits);
    match quantities {
        [] => none.to_owned(),
        some => some.iter().map(text).collect::<Vec<_>>().join(", "),
    }
}

fn entries(entries: &[EntryLook]) -> String {
    let text = |one: &EntryLook| {
        let idle = one.idle.as_ref();
        let idle = idle.map_or(String::new(), |idle| format!(" (ends after {idle} idle)"));
        format!("{} entry {}{idle}", one.function, one.entry)
    };
    entries.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn state_run(f: &mut Formatter<'_>, run: &StateRun) -> fmt::Result {
    writeln!(f, "  cores, told {}", run.message)?;
    words(f, &run.words)?;
    let answer = run
        .answer
        .map_or(String::new(), |answer| format!(", as {answer}"));
    writeln!(f, "    outcome: {}{answer}", run.outcome)?;
    replies(f, &run.replies)
}

fn words(f: &mut Formatter<'_>, words: &[WordChange]) -> fmt::Result {
    for word in words {
        let value = |value: Option<u32>| value.map_or("none".into(), |value| format!("{value:#x}"));
        let (before, after) = (value(word.before), value(word.after));
        let name = format!("{}.{}", word.function, word.name);
        match before == after {
            true => writeln!(f, "    {name} {before}")?,
            false => writeln!(f, "    {name} {before} -> {after}")?,
        }
    }
    Ok(())
}

fn programs(f: &mut Formatter<'_>, programs: &[ProgramLook]) -> fmt::Result {
    for ProgramLook {
        function,
        step,
        exit,
    } in programs
    {
        match step {
            Some(step) => writeln!(f, "    {function}: step \"{step}\", {exit}")?,
            None => writeln!(f, "    {function}: no step is for it, {exit}")?,
        }
    }
    Ok(())
}

fn replies(f: &mut Formatter<'_>, replies: &[PacketLook]) -> fmt::Result {
    for reply in replies {
        writeln!(
            f,
            "    answer, {} bytes: {}",
            reply.bytes,
            reply.headers.join("; ")
        )?;
    }
    Ok(())
}
