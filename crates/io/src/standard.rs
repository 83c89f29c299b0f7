//! Standard input and output in place of a file, and what else is a pipe.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::FileTypeExt;
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

/// Whether who reads a capture at this path waits for somebody who writes it: at standard input, at a
/// named pipe, which even opens only then, and at a device such as a terminal.
pub fn is_piped(path: &Path) -> bool {
    let kind = || Some(fs::metadata(path).ok()?.file_type());
    is_standard(path) || kind().is_some_and(|kind| kind.is_fifo() || kind.is_char_device())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_nobody_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let [file, missing] = ["a.pcap", "b.pcap"].map(|name| folder.path().join(name));
        fs::write(&file, b"").unwrap();
        for path in [folder.path(), &file, &missing] {
            assert!(!is_piped(path), "{}", path.display());
        }
        for path in ["-", "-.pcapng", "/dev/null"] {
            assert!(is_piped(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn a_file_of_that_name_has_a_folder() {
        for name in ["-", "-.pcap", "-.pcapng", "-.pcapng.gz"] {
            assert!(is_standard(Path::new(name)), "{name}");
            assert!(!is_standard(&Path::new(".").join(name)), "./{name}");
        }
        assert!(!is_standard(Path::new("--")) && !is_standard(Path::new("-.txt")));
    }
}
