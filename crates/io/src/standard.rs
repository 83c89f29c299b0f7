//! Standard input and output in place of a file.

use std::ffi::OsStr;
use std::path::Path;

/// Whether a path stands for standard input or output: `-`, also with what names of captures end in,
/// such as `-.pcapng`.
pub fn is_standard(path: &Path) -> bool {
    let text = path.as_os_str();
    let is_named_so = |name: &str| text == OsStr::new(name);
    is_named_so("-")
        || ["-.pcap", "-.pcapng", "-.pcap.gz", "-.pcapng.gz"]
            .into_iter()
            .any(is_named_so)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_that_name_has_a_folder() {
        for name in ["-", "-.pcap", "-.pcapng", "-.pcapng.gz"] {
            assert!(is_standard(Path::new(name)), "{name}");
            assert!(!is_standard(&Path::new(".").join(name)), "./{name}");
        }
        assert!(!is_standard(Path::new("--")) && !is_standard(Path::new("-.txt")));
    }
}
