//! What a person reads: results on standard output, all else on standard error.

use crate::error::CommandError;
use crate::log;
use std::error::Error;
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use twinpath_control::service::{Fault, Service, ServiceError, warnings};

/// The examples at the end of a command's help, one a line.
macro_rules! examples {
    ($($line:literal),+ $(,)?) => {
        concat!("\u{1b}[1m\u{1b}[32mExamples:\u{1b}[0m", $("\n  ", $line),+)
    };
}
pub(crate) use examples;

/// Writes to standard output. A reader that has gone away, as `head` does, is no error.
pub fn print(text: &str) -> Result<(), CommandError> {
    print_on(text).map(|_| ())
}

/// As [`print`]; whether somebody still reads.
pub fn print_on(text: &str) -> Result<bool, CommandError> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes());
    match written.and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(CommandError::Output(error)),
    }
}

/// Something that the run went on in spite of.
pub fn warning(text: impl Display) {
    if log::has_begun() {
        return log::warning(text);
    }
    note("\u{1b}[1m\u{1b}[33mwarning:\u{1b}[0m ", text);
}

/// What is sound in a service file and yet probably not meant so.
pub fn warnings_about(service: &Service) {
    warnings(service).iter().for_each(warning);
}

/// Something to know.
pub fn notice(text: impl Display) {
    if log::has_begun() {
        return log::notice(text);
    }
    note("", text);
}

/// Why there is no answer, with its causes as far as they are not told yet.
pub fn error(error: &CommandError) {
    match error {
        CommandError::File(ServiceError::Wrong(faults)) => faults.iter().for_each(mistake),
        _ => bad(with_causes(error)),
    }
}

/// One of several things that are wrong with a file.
pub fn mistake(fault: &Fault) {
    bad(fault);
}

/// One of several things that are wrong with what is no service file.
pub fn wrong(what: impl Display) {
    bad(what);
}

fn bad(text: impl Display) {
    match log::has_begun() {
        true => log::error(text),
        false => note(ERROR, text),
    }
}

/// What stands before an error.
const ERROR: &str = "\u{1b}[1m\u{1b}[31merror:\u{1b}[0m ";

/// A standard error that is closed is no reason to stop.
fn note(label: &str, text: impl Display) {
    if log::is_in_background() {
        let line = format!("{label}{text}\n");
        return log::write(anstream::adapter::strip_str(&line).to_string().as_bytes());
    }
    let _ = writeln!(anstream::stderr(), "{label}{text}");
}

fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let told = error.to_string();
        if !text.contains(&told) {
            text.push_str(": ");
            text.push_str(&told);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Outer {
        #[error("outer")]
        Silent(#[source] std::fmt::Error),
        #[error("outer: {0}")]
        Telling(#[source] std::fmt::Error),
    }

    #[test]
    fn causes_are_told_once() {
        let cause = std::fmt::Error;
        let expected = format!("outer: {cause}");
        assert_eq!(with_causes(&Outer::Silent(cause)), expected);
        assert_eq!(with_causes(&Outer::Telling(cause)), expected);
    }

    #[test]
    fn examples_are_lines_under_a_heading() {
        let text = examples!("one", "two");
        assert!(text.contains("Examples:") && text.ends_with("\n  one\n  two"));
    }
}
