//! The command.
//!
//! `twinpath run` runs a service, `rules` shows what it has cached meanwhile, `flows`, `bindings`,
//! `backends` and `counters` what it knows, `top` all of its figures, `drops` and `capture` its
//! packets, `apply` makes it what
//! a file says and `change` changes one thing of it, `validate` tells what is wrong with a file and
//! `explain` what of it runs where and why, `trace` follows one packet through it,
//! `generate` makes captures to run it on, `compare` tells whether two hold the same packets,
//! `check` searches the protocol between the paths for an error, `lab` redoes the papers' figures
//! under virtual time, `dash` looks at the configuration of a DPU, `kv` is a client of the key-value store, and
//! `memory-server` keeps payloads of a switch. `init` writes a service file to
//! start from, `schema` says what such files look like, `completions` and `man` are for shells and
//! readers. Each is a file of [`commands`]
//! with its arguments, its help and its one function.
//!
//! Results go to standard output; progress, warnings and errors to standard error. The exit code
//! is 0 if all is well, 1 if the answer is a negative one (the check found a violation, captures
//! differ, the key is not there), 2 if there is no answer (wrong usage, a wrong file, no
//! permission, no server).
#![forbid(unsafe_code)]

mod checks;
mod commands;
mod error;
mod flags;
mod follow;
mod group;
mod hex;
mod log;
mod look;
mod output;
mod paths;
mod stop;
mod traffic;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{CommandFactory, Parser, Subcommand};
use commands::{
    apply, backends, bindings, capture, change, check, compare, completions, counters, dash, drops,
    explain, flows, generate, init, kv, lab, man, memory_server, rules, run, schema, top, trace,
    validate,
};
use std::process::ExitCode;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Runs stateful network functions on two paths at once: a fast, constrained one and a slow,
/// general one that share flow state and are never wrong.
#[derive(Parser)]
#[command(
    version,
    styles = STYLES,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = output::examples!(
        "twinpath run examples/edge.toml        # generated traffic, live table, report",
        "twinpath explain examples/edge.toml    # what runs where, and why",
        "twinpath check coherence               # search the protocol for an error",
    )
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Arguments),
    Rules(rules::Arguments),
    Flows(flows::Arguments),
    Bindings(bindings::Arguments),
    Backends(backends::Arguments),
    Counters(counters::Arguments),
    Drops(drops::Arguments),
    Capture(capture::Arguments),
    Top(top::Arguments),
    Apply(apply::Arguments),
    Change(change::Arguments),
    Explain(explain::Arguments),
    Validate(validate::Arguments),
    Trace(trace::Arguments),
    Generate(generate::Arguments),
    Compare(compare::Arguments),
    Check(check::Arguments),
    Lab(lab::Arguments),
    Dash(dash::Arguments),
    Kv(kv::Arguments),
    MemoryServer(memory_server::Arguments),
    Init(init::Arguments),
    Schema(schema::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

/// How a command ended that could do its work.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Outcome {
    /// All is well.
    Good,
    /// The answer is a negative one; it has been told.
    Bad,
}

/// What can be given to the command, with all help.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Does what the process was told to.
pub fn run() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Run(arguments) => run::execute(&arguments),
        Command::Rules(arguments) => rules::execute(&arguments),
        Command::Flows(arguments) => flows::execute(&arguments),
        Command::Bindings(arguments) => bindings::execute(&arguments),
        Command::Backends(arguments) => backends::execute(&arguments),
        Command::Counters(arguments) => counters::execute(&arguments),
        Command::Drops(arguments) => drops::execute(&arguments),
        Command::Capture(arguments) => capture::execute(&arguments),
        Command::Top(arguments) => top::execute(&arguments),
        Command::Apply(arguments) => apply::execute(&arguments),
        Command::Change(arguments) => change::execute(&arguments),
        Command::Explain(arguments) => explain::execute(&arguments),
        Command::Validate(arguments) => validate::execute(&arguments),
        Command::Trace(arguments) => trace::execute(&arguments),
        Command::Generate(arguments) => generate::execute(&arguments),
        Command::Compare(arguments) => compare::execute(&arguments),
        Command::Check(arguments) => check::execute(&arguments),
        Command::Lab(arguments) => lab::execute(&arguments),
        Command::Dash(arguments) => dash::execute(&arguments),
        Command::Kv(arguments) => kv::execute(&arguments),
        Command::MemoryServer(arguments) => memory_server::execute(&arguments),
        Command::Init(arguments) => init::execute(&arguments),
        Command::Schema(arguments) => schema::execute(&arguments),
        Command::Completions(arguments) => completions::execute(&arguments),
        Command::Man(arguments) => man::execute(&arguments),
    };
    let code = match outcome {
        Ok(Outcome::Good) => ExitCode::SUCCESS,
        Ok(Outcome::Bad) => ExitCode::from(1),
        Err(error) => {
            output::error(&error);
            ExitCode::from(2)
        }
    };
    log::end();
    code
}
