//! Names of files that belong to a port each.

use std::path::{Path, PathBuf, is_separator};

use crate::error::{CaptureError, NameProblem};

/// Where the port's name goes.
const PLACE: &str = "{port}";

/// The name of a file for each port, such as `out-{port}.pcap`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortPattern(String);

impl PortPattern {
    /// The pattern that a path is; none if it has no `{port}` and names one file.
    pub fn of(path: impl AsRef<Path>) -> Option<Self> {
        let text = path.as_ref().to_str()?;
        text.contains(PLACE).then(|| Self(text.to_owned()))
    }

    /// A word in braces in a path that is no place for anything, such as `{prot}`.
    pub fn unknown_place(path: &Path) -> Option<String> {
        let text = path.to_str()?;
        let words = text.split('{').skip(1);
        let words = words.filter_map(|rest| rest.split_once('}').map(|(word, _)| word));
        let is_word = |word: &&str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-. ".contains(&byte);
            word.bytes().all(is_plain)
        };
        let places = words.filter(is_word).map(|word| format!("{{{word}}}"));
        places.into_iter().find(|place| place != PLACE)
    }

    /// The pattern itself, as a path.
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }

    /// The paths of the files of these ports, in their order.
    ///
    /// # Errors
    /// [`CaptureError::InterfaceName`] for a port whose name cannot stand in the name of a file,
    /// or that is there twice.
    pub fn paths(&self, ports: &[impl AsRef<str>]) -> Result<Vec<PathBuf>, CaptureError> {
        let mut paths = Vec::with_capacity(ports.len());
        for port in ports {
            let path = self.path(port.as_ref())?;
            if paths.contains(&path) {
                return Err(self.refuse(port.as_ref(), NameProblem::Twice));
            }
            paths.push(path);
        }
        Ok(paths)
    }

    fn path(&self, port: &str) -> Result<PathBuf, CaptureError> {
        let leads_elsewhere = |character| is_separator(character) || character == '\0';
        if matches!(port, "" | "." | "..") || port.contains(leads_elsewhere) {
            return Err(self.refuse(port, NameProblem::FileName));
        }
        Ok(PathBuf::from(self.0.replace(PLACE, port)))
    }

    fn refuse(&self, port: &str, problem: NameProblem) -> CaptureError {
        CaptureError::InterfaceName {
            path: self.as_path().to_owned(),
            name: port.to_owned(),
            problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_place_is_one_file() {
        assert_eq!(PortPattern::of("out.pcap"), None);
        assert_eq!(PortPattern::of("out-{ports}.pcap"), None);
    }

    #[test]
    fn words_in_braces_that_stand_for_nothing_are_found() {
        let unknown = |path: &str| PortPattern::unknown_place(Path::new(path));
        assert_eq!(unknown("out-{port}.pcap"), None);
        assert_eq!(unknown("out-{ports}.pcap"), Some("{ports}".into()));
        assert_eq!(unknown("{port}/{prot}.pcap"), Some("{prot}".into()));
        assert_eq!(unknown("{}.pcap"), Some("{}".into()));
        assert_eq!(unknown("a{b/c}d{.pcap}"), Some("{.pcap}".into()));
        assert_eq!(unknown("a}b{c.pcap"), None);
    }

    #[test]
    fn every_place_takes_the_name_of_the_port() {
        let pattern = PortPattern::of("{port}/out-{port}.pcap.gz").unwrap();
        assert_eq!(
            pattern.paths(&["inside", "eth0.7"]).unwrap(),
            [
                Path::new("inside/out-inside.pcap.gz"),
                Path::new("eth0.7/out-eth0.7.pcap.gz")
            ]
        );
    }

    #[test]
    fn a_port_named_like_a_place_is_taken_as_it_is() {
        let pattern = PortPattern::of("out-{port}.pcap").unwrap();
        let paths = pattern.paths(&["{port}"]).unwrap();
        assert_eq!(paths, [Path::new("out-{port}.pcap")]);
    }

    #[test]
    fn names_that_would_lead_elsewhere_and_doubled_ones_are_refused() {
        let pattern = PortPattern::of("{port}").unwrap();
        let refused = |ports: &[&str]| match pattern.paths(ports) {
            Err(CaptureError::InterfaceName { name, problem, .. }) => (name, problem),
            other => panic!("{other:?}"),
        };
        for name in ["", ".", "..", "a/b", "/", "a\0"] {
            let expected = (name.to_owned(), NameProblem::FileName);
            assert_eq!(refused(&["a", name]), expected);
        }
        let twice = refused(&["a", "b", "a"]);
        assert_eq!(twice, ("a".to_owned(), NameProblem::Twice));
        assert_eq!(
            pattern.paths(&["a", "a"]).unwrap_err().to_string(),
            "{port}: the interface name \"a\" is given twice"
        );
    }
}
