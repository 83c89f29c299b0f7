//! Requests as a service reads them, whoever sent them: what is kept of one is not much more than what
//! came.
//!
//! What kind a request is of is read first, wherever it says so, and all else skipped. Those that have
//! files are then read field by field, and what is none of their fields is skipped, too. All others are
//! short.

use super::{Request, SentFiles, line_of};
use serde::de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::io::{self, BufReader, Error, ErrorKind, Read};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;

/// Longest request in bytes: a service file and all that it names, of which files of routes are the
/// longest. All routes of the Internet take 40 MB.
pub const MOST_REQUEST_BYTES: u64 = 64 << 20;

/// Longest request in bytes that has no files.
const MOST_SHORT_BYTES: usize = 64 << 10;

/// Most files of a request.
const MOST_FILES: usize = 16_384;

/// Longest reason in characters why a request cannot be read: it may quote what came.
const LONGEST_REASON: usize = 400;

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// It does not come, is too long, or is none.
    pub fn read(from: &mut dyn Read) -> io::Result<Self> {
        let line = line_of(&mut BufReader::new(from), MOST_REQUEST_BYTES)?;
        match parse::<Kind>(&line)?.request {
            Name::Apply => parse::<Apply>(&line).map(Self::from),
            Name::DashApply => parse::<DashApply>(&line).map(Self::from),
            Name::Short if line.len() > MOST_SHORT_BYTES => Err(Error::new(
                ErrorKind::FileTooLarge,
                format!("it is longer than {MOST_SHORT_BYTES} bytes, and has no files"),
            )),
            Name::Short => parse(&line),
        }
    }
}

fn parse<'de, T: Deserialize<'de>>(line: &'de [u8]) -> io::Result<T> {
    serde_json::from_slice(line).map_err(|error| {
        let mut reason = error.to_string();
        if let Some((end, _)) = reason.char_indices().nth(LONGEST_REASON) {
            reason.truncate(end);
            reason.push_str("...");
        }
        Error::new(ErrorKind::InvalidData, reason)
    })
}

/// Of a request, what it is.
#[derive(Deserialize)]
struct Kind {
    request: Name,
}

/// The kinds that have files, and all others.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Name {
    Apply,
    DashApply,
    #[serde(other)]
    Short,
}

#[derive(Deserialize)]
struct Apply {
    text: String,
    path: PathBuf,
    #[serde(deserialize_with = "files")]
    files: SentFiles,
}

impl From<Apply> for Request {
    fn from(Apply { text, path, files }: Apply) -> Self {
        Self::Apply { text, path, files }
    }
}

#[derive(Deserialize)]
struct DashApply {
    #[serde(deserialize_with = "files")]
    files: Vec<(PathBuf, Arc<str>)>,
}

impl From<DashApply> for Request {
    fn from(DashApply { files }: DashApply) -> Self {
        Self::DashApply { files }
    }
}

/// As many files as there may be.
fn files<'de, D: Deserializer<'de>, T>(deserializer: D) -> Result<T, D::Error>
where
    Files<T>: Visitor<'de, Value = T>,
{
    deserializer.deserialize_any(Files(PhantomData))
}

struct Files<T>(PhantomData<T>);

fn expecting(formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(formatter, "at most {MOST_FILES} files")
}

impl<'de> Visitor<'de> for Files<SentFiles> {
    type Value = SentFiles;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        expecting(formatter)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SentFiles, A::Error> {
        let mut files = SentFiles::new();
        while files.len() < MOST_FILES {
            let Some((path, text)) = map.next_entry()? else {
                return Ok(files);
            };
            files.insert(path, text);
        }
        match map.next_key::<IgnoredAny>()? {
            None => Ok(files),
            Some(_) => Err(A::Error::invalid_length(MOST_FILES + 1, &self)),
        }
    }
}

impl<'de> Visitor<'de> for Files<Vec<(PathBuf, Arc<str>)>> {
    type Value = Vec<(PathBuf, Arc<str>)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        expecting(formatter)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut files = Vec::new();
        while files.len() < MOST_FILES {
            let Some(file) = list.next_element()? else {
                return Ok(files);
            };
            files.push(file);
        }
        match list.next_element::<IgnoredAny>()? {
            None => Ok(files),
            Some(_) => Err(A::Error::invalid_length(MOST_FILES + 1, &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Filter;
    use super::*;
    use crate::look::{CapturePoint, Look, Query, Stream};
    use serde_json::{Value, json};
    use std::fmt::Write;
    use twinpath_nf::edit::{Edit, Object};

    fn read(line: &str) -> Result<Request, String> {
        Request::read(&mut line.as_bytes()).map_err(|error| error.to_string())
    }

    fn requests() -> [Request; 9] {
        let function = Some("acl".to_owned());
        [
            Request::Apply {
                text: "[service]\nchain = [\"acl\"]\n".into(),
                path: "edge.toml".into(),
                files: SentFiles::from([("a.routes".into(), "10.0.0.0/8 up\n".into())]),
            },
            Request::DashApply {
                files: vec![("a.json".into(), "[]".into())],
            },
            Request::Rules(Filter::default()),
            Request::Change {
                function: function.clone(),
                change: Edit::DeleteRule { rule: "1".into() },
            },
            Request::EndBinding {
                function: None,
                endpoint: "10.0.0.1:1".into(),
                protocol: None,
            },
            Request::Look(Look::Flows(Query::default())),
            Request::Stream(Stream::Capture {
                at: CapturePoint::Ports,
                bytes: 96,
            }),
            Request::Stream(Stream::Packets {
                at: CapturePoint::Function("acl".into()),
            }),
            Request::List {
                function,
                object: Object::Rule,
            },
        ]
    }

    #[test]
    fn requests_are_read_as_they_were_written() {
        for request in requests() {
            let mut value = serde_json::to_value(&request).expect("a request");
            assert_eq!(read(&format!("{value}\n")), Ok(request.clone()));
            // They may say more, and what they are in front of it or behind.
            for more in ["a", "z"] {
                value[more] = json!([1, { "b": [2] }]);
            }
            assert_eq!(read(&format!("{value}\n")), Ok(request));
        }
        for wrong in ["{\"request\":\"sing\"}\n", "{\"text\":\"\"}\n", "7\n", ""] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_has_no_files_is_short() {
        let long = "x".repeat(MOST_SHORT_BYTES);
        for request in &requests()[2..] {
            let mut value = serde_json::to_value(request).expect("a request");
            value["a"] = Value::from(long.as_str());
            let told = read(&value.to_string()).expect_err("it is too long");
            assert_eq!(told, "it is longer than 65536 bytes, and has no files");
        }
        let quoted = json!({ "request": "apply", "text": "", "path": "", "files": long });
        let told = read(&quoted.to_string()).expect_err("no files");
        assert!(told.len() < 500 && told.ends_with("..."), "{told}");
    }

    #[test]
    fn files_are_bounded() {
        let all = |count: usize, brackets: [&str; 2], file: &dyn Fn(usize) -> String| {
            let files: Vec<String> = (0..count).map(file).collect();
            [brackets[0], &files.join(","), brackets[1]].concat()
        };
        let named = |number: usize| format!("\"{number}\":\"\"");
        let listed = |number: usize| format!("[\"{number}\",\"\"]");
        for (count, is_read) in [(MOST_FILES, true), (MOST_FILES + 1, false)] {
            let mut apply = "{\"request\":\"apply\",\"text\":\"\",\"path\":\"\",".to_owned();
            let files = all(count, ["{", "}"], &named);
            writeln!(apply, "\"files\":{files}}}").expect("memory");
            let files = all(count, ["[", "]"], &listed);
            let dash = format!("{{\"request\":\"dash_apply\",\"files\":{files}}}\n");
            for request in [apply, dash] {
                let read = read(&request);
                assert_eq!(read.is_ok(), is_read);
                let told = read.err().unwrap_or_default();
                assert!(is_read || told.contains("at most 16384 files"), "{told}");
            }
        }
    }

    /// Text without an end.
    struct Endless(u64);

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            buffer.fill(b'x');
            self.0 += buffer.len() as u64;
            Ok(buffer.len())
        }
    }

    #[test]
    fn a_line_is_read_to_a_bound_and_no_further() {
        let mut endless = Endless(0);
        let error = Request::read(&mut endless).expect_err("it does not end");
        assert_eq!(error.to_string(), "it is longer than 67108864 bytes");
        assert!(endless.0 < MOST_REQUEST_BYTES + (1 << 20));
    }
}
