//! Named pipes, which open only when somebody is at the other end.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How soon it is seen that nobody waits any more.
const INTERVAL: Duration = Duration::from_millis(50);

/// Whether there is a named pipe at this path.
pub fn is_named_pipe(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

/// Opens a named pipe to write to it, once somebody reads it; nothing if `is_stopped` becomes true before.
///
/// # Errors
/// What the system says.
pub fn open_once_read(path: &Path, is_stopped: &AtomicBool) -> io::Result<Option<File>> {
    let (sender, opened) = channel();
    let to = path.to_owned();
    // On a thread, which may wait for as long as the process lives.
    thread::spawn(move || sender.send(OpenOptions::new().write(true).open(to)));
    while !is_stopped.load(Ordering::Relaxed) {
        match opened.recv_timeout(INTERVAL) {
            Ok(pipe) => return pipe.map(Some),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(io::ErrorKind::Other.into()),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::Command;

    #[test]
    fn a_pipe_opens_when_it_is_read_or_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        // Who has given up still waits as this process does, so that it has a pipe of its own.
        let [path, unread] = ["pipe", "unread"].map(|name| folder.path().join(name));
        assert!(!is_named_pipe(&path));
        let made = Command::new("mkfifo").args([&path, &unread]).status();
        assert!(made.is_ok_and(|status| status.success()), "named pipes");
        assert!(is_named_pipe(&path) && !is_named_pipe(folder.path()));
        let given_up = open_once_read(&unread, &AtomicBool::new(true));
        assert!(given_up.is_ok_and(|pipe| pipe.is_none()));
        let reader = thread::spawn(move || {
            let mut text = String::new();
            let mut pipe = File::open(path).unwrap();
            pipe.read_to_string(&mut text).unwrap();
            text
        });
        let pipe = open_once_read(&folder.path().join("pipe"), &AtomicBool::new(false));
        pipe.unwrap().unwrap().write_all(b"some").unwrap();
        assert_eq!(reader.join().unwrap(), "some");
        let missing = open_once_read(&folder.path().join("no"), &AtomicBool::new(false));
        assert!(missing.is_err());
    }
}
