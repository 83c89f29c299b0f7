//! A trace as text.

use std::fmt::{self, Display, Formatter};
use twinpath_control::report::units;
use twinpath_core::DropReason;
use twinpath_node::trace::PacketTrace;
use twinpath_node::watch::{
    EntryLook, FunctionLook, Meeting, MessageLook, PacketLook, ProgramLook, Quantity, RuleLook,
    RulesRun, SlowLook, StageLook, StateRun, TableLookup, TraceStep, WordChange,
};

/// A trace, to be read by a person.
pub struct TraceText<'a>(pub &'a PacketTrace);

/// Bytes in a line, and lines of a packet: the headers and a little more.
const BYTES_A_LINE: usize = 32;
const LINES: usize = 4;

impl Display for TraceText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let trace = self.0;
        writeln!(f, "packet {}", units::count(trace.number))?;
        trace
            .steps
            .iter()
            .try_for_each(|step| told_step(f, step, trace))?;
        let end = &trace.end;
        let path = match end.was_on_slow_path {
            true => "by way of the slow path",
            false => "on the fast path alone",
        };
        writeln!(f, "\nend: {}, {path}", end.fate)
    }
}

fn told_step(f: &mut Formatter<'_>, step: &TraceStep, trace: &PacketTrace) -> fmt::Result {
    let port = |port: &u16| {
        let name = trace.ports.get(usize::from(*port));
        name.map_or_else(|| port.to_string(), Clone::clone)
    };
    let element = |element: &u8| {
        let functions = trace.elements.get(usize::from(*element));
        let functions = functions.map_or(String::new(), |functions| functions.join(", "));
        format!("element {element}: {functions}")
    };
    let name = step.name();
    match step {
        TraceStep::LookAhead {
            time_ns,
            port: ingress,
            direction,
            packet: arrived,
        } => {
            let direction = direction.unwrap_or("none, it enters no element");
            writeln!(
                f,
                "{name}: {} bytes, port {}, at {time_ns} ns",
                arrived.bytes,
                port(ingress)
            )?;
            packet(f, arrived)?;
            writeln!(f, "  direction: {direction}")
        }
        TraceStep::Meet(met) => {
            writeln!(f, "\n{name} {}", element(&met.element))?;
            meeting(f, met)
        }
        TraceStep::Hold { element: number } => {
            let names = element(number);
            writeln!(
                f,
                "{name}: until a rule of {names} is active, or the flow's state has come"
            )
        }
        TraceStep::Punt {
            worker, message, ..
        } => {
            write!(f, "{name}: to worker {worker}, as ")?;
            told_message(f, message)
        }
        TraceStep::Park { bytes } => {
            writeln!(
                f,
                "{name}: {bytes} bytes of payload wait, the header goes alone"
            )
        }
        TraceStep::Split { bytes } => writeln!(
            f,
            "{name}: {bytes} bytes of payload wait in remote memory, the header goes alone"
        ),
        TraceStep::Receive {
            element: number,
            slow_path,
        }
        | TraceStep::Release {
            element: number,
            slow_path,
        } => {
            writeln!(f, "{name} {}", element(number))?;
            match slow_path {
                SlowLook::Rules(run) => rules_run(f, run),
                SlowLook::State(run) => state_run(f, run),
                SlowLook::Dash(run) => stages(f, &run.stages),
            }
        }
        TraceStep::Gather { element: number } => writeln!(
            f,
            "{name}: no place in a datagram, or given up, in front of {}",
            element(number)
        ),
        TraceStep::Resume { element: number } => {
            writeln!(f, "{name}: rules are gone, {} met it", element(number))
        }
        TraceStep::Returned { message } => {
            write!(f, "{name}: ")?;
            told_message(f, message)
        }
        TraceStep::Pass { element: number } => writeln!(f, "{name}: passed element {number}"),
        TraceStep::GoOn { element: number } => writeln!(f, "{name}: behind element {number}"),
        TraceStep::HoldBack => writeln!(f, "{name}: for its payload, or packets before it"),
        TraceStep::PassParking { has_joined: true } => writeln!(f, "{name}: with its payload"),
        TraceStep::PassParking { has_joined: false } => writeln!(f, "{name}: its turn has come"),
        TraceStep::Merge { has_payload: true } => writeln!(f, "{name}: with its payload"),
        TraceStep::Merge { has_payload: false } => writeln!(f, "{name}: its turn has come"),
        TraceStep::Drop { reason } => {
            let meaning = DropReason::named(reason).map_or("", DropReason::meaning);
            writeln!(f, "{name}: {reason}: {meaning}")
        }
        TraceStep::PutOut {
            egress,
            packet: left,
            ..
        } => {
            write!(f, "\n{name}: {} bytes", left.bytes)?;
            match egress {
                Some(egress) => writeln!(f, ", egress port: {}", port(egress))?,
                None => writeln!(f)?,
            }
            packet(f, left)
        }
    }
}

fn told_message(f: &mut Formatter<'_>, message: &MessageLook) -> fmt::Result {
    write!(f, "{}", message.message)?;
    if message.generation != 0 {
        write!(f, ", generation {}", message.generation)?;
    }
    if message.epoch != 0 {
        write!(f, ", epoch {}", message.epoch)?;
    }
    match message.parked_bytes {
        0 => writeln!(f)?,
        bytes => writeln!(f, ", a header without {bytes} bytes of payload")?,
    }
    words(f, &message.words)
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

fn meeting(f: &mut Formatter<'_>, met: &Meeting) -> fmt::Result {
    writeln!(f, "  flow: {}", met.flow)?;
    write!(f, "  fast path: ")?;
    match &met.found {
        TableLookup::Nothing => writeln!(f, "nothing, the element is on the slow path alone")?,
        TableLookup::NotPlain => writeln!(f, "no rule is looked up for such a packet")?,
        TableLookup::NoRule => writeln!(f, "no rule matches")?,
        TableLookup::Rule(found) => {
            writeln!(f, "rule {} matches", found.id)?;
            found.rule.iter().try_for_each(|found| rule(f, found))?;
        }
        TableLookup::NoSlot => writeln!(f, "the flow has no slot")?,
        TableLookup::Dash(found) => {
            writeln!(f, "a DPU")?;
            stages(f, found)?;
        }
        TableLookup::Slot(slot) => {
            writeln!(f, "a slot, {} -> {}", slot.state, slot.state_after)?;
            words(f, &slot.words)?;
            programs(f, &slot.programs)?;
            slot.rule
                .iter()
                .try_for_each(|rule| writeln!(f, "    by {}", entry(rule)))?;
        }
    }
    writeln!(f, "  decision: {}", met.decision)?;
    met.packet
        .iter()
        .try_for_each(|changed| writeln!(f, "  now {}", changed.headers.join("; ")))
}

fn rules_run(f: &mut Formatter<'_>, run: &RulesRun) -> fmt::Result {
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
    let texts: Vec<String> = entries.iter().map(entry).collect();
    texts.join(", ")
}

/// An entry as its function says what it is, and where that is written.
pub fn entry(one: &EntryLook) -> String {
    let idle = one.idle.as_ref();
    let idle = idle.map_or(String::new(), |idle| format!(" (ends after {idle} idle)"));
    let line = one
        .line
        .map_or(String::new(), |line| format!(" (line {line})"));
    let function = &one.function;
    match (one.rule, &one.text) {
        (Some(number), Some(text)) => format!("{function} rule {number}: {text}{line}{idle}"),
        (None, Some(text)) => format!("{function}: {text}{line}{idle}"),
        (_, None) => format!("{function} entry {}{idle}", one.entry),
    }
}

/// A DPU's stages: which table, which entry, which action.
fn stages(f: &mut Formatter<'_>, stages: &[StageLook]) -> fmt::Result {
    for StageLook {
        stage,
        entry,
        action,
    } in stages
    {
        writeln!(f, "    {stage}: {entry}: {action}")?;
    }
    Ok(())
}

fn state_run(f: &mut Formatter<'_>, run: &StateRun) -> fmt::Result {
    words(f, &run.words)?;
    writeln!(f, "    outcome: {}", run.outcome)?;
    match (&run.rule, &run.function) {
        (Some(rule), Some(_)) => writeln!(f, "    by {}", entry(rule))?,
        (Some(rule), None) => writeln!(f, "    opened by {}", entry(rule))?,
        (None, Some(function)) => writeln!(f, "    by {function}")?,
        (None, None) => {}
    }
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
        if let Some(choice) = &word.choice {
            writeln!(f, "    {}: {choice}", word.function)?;
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
