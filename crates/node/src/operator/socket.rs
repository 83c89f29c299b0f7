//! The operator's socket in the file system: whose it is, and who may connect.

use rustix::fs::{FlockOperation, Mode, fchmod, flock};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use rustix::process::geteuid;
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, lchown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use twinpath_ports::peer_groups;

/// Clients that may wait to be heard.
const BACKLOG: i32 = 64;

/// How often another service that starts in the same folder is waited for, and how long each time.
const ATTEMPTS: usize = 200;
const INTERVAL: Duration = Duration::from_millis(10);

/// A socket that the service's user, the superuser and perhaps a group may connect to; removed when
/// dropped.
pub(super) struct Socket {
    pub listener: UnixListener,
    path: PathBuf,
    /// The file that was made: its device and number.
    file: (u64, u64),
    group: Option<u32>,
}

impl Socket {
    /// Makes a socket that listens, in place of one that is left over from a service that was killed.
    ///
    /// # Errors
    /// Somebody listens there, the file is somebody's, or it cannot be made.
    pub fn listen(path: &Path, group: Option<u32>) -> io::Result<Self> {
        // Nobody else looks at what is left over and puts its own there meanwhile.
        let _lock = lock_folder(path)?;
        let draft = path.with_file_name(format!(".{}", std::process::id()));
        // One of a service that was killed and had the same number.
        let _ = std::fs::remove_file(&draft);
        let listener = made(&draft)?;
        let named = give_to(&draft, group).and_then(|()| name(&draft, path));
        let _ = std::fs::remove_file(&draft);
        let file = named?;
        Ok(Self {
            listener,
            path: path.into(),
            file: (file.dev(), file.ino()),
            group,
        })
    }

    /// Whether whoever is connected may ask anything: the service's user, the superuser, and members
    /// of the group.
    pub fn admits(&self, client: &UnixStream) -> bool {
        let Ok(peer) = socket_peercred(client) else {
            return false;
        };
        let of_group = |group: u32| peer.gid.as_raw() == group || is_in(client, group);
        peer.uid.is_root() || peer.uid == geteuid() || self.group.is_some_and(of_group)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let file = std::fs::symlink_metadata(&self.path);
        if file.is_ok_and(|file| (file.dev(), file.ino()) == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// What the file may be is said before it is there.
fn made(path: &Path) -> io::Result<UnixListener> {
    let socket = stream_socket()?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Says who may connect, whatever the umask is.
fn give_to(socket: &Path, group: Option<u32>) -> io::Result<()> {
    if let Some(group) = group {
        lchown(socket, None, Some(group))?;
    }
    let mode = if group.is_some() { 0o660 } else { 0o600 };
    std::fs::set_permissions(socket, Permissions::from_mode(mode))
}

/// Gives a socket that listens its name, under which whoever sees it may connect; one that is left over
/// has it no more.
fn name(draft: &Path, path: &Path) -> io::Result<Metadata> {
    if let Err(error) = std::fs::hard_link(draft, path) {
        if error.kind() != io::ErrorKind::AlreadyExists {
            return Err(error);
        }
        remove_left_over(path)?;
        std::fs::hard_link(draft, path)?;
    }
    std::fs::symlink_metadata(draft)
}

fn stream_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        flags,
        None,
    )?)
}

/// Removes a socket at which nobody listens any more.
fn remove_left_over(path: &Path) -> io::Result<()> {
    let in_use = |why| Err(io::Error::new(io::ErrorKind::AddrInUse, why));
    if !std::fs::symlink_metadata(path)?.file_type().is_socket() {
        return in_use("there is a file that is no socket: expected a path where nothing is");
    }
    let asked = || connect(&stream_socket()?, &SocketAddrUnix::new(path)?).map_err(io::Error::from);
    let is_refused =
        |error: io::Error| error.raw_os_error() == Some(Errno::CONNREFUSED.raw_os_error());
    match asked().is_err_and(is_refused) {
        true => std::fs::remove_file(path),
        false => in_use(
            "another service answers there: expected a socket of its own, or that the other ends first",
        ),
    }
}

/// Held by one service at a time that starts in a folder.
fn lock_folder(path: &Path) -> io::Result<File> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = File::open(folder.unwrap_or(Path::new(".")))?;
    for _ in 0..ATTEMPTS {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => std::thread::sleep(INTERVAL),
            locked => return locked.map(|()| folder).map_err(io::Error::from),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::ResourceBusy,
        "somebody else has locked its folder",
    ))
}

/// Whether whoever is connected is in a group beside its first one. The system tells by the connection: a
/// service may see no other processes.
fn is_in(client: &UnixStream, group: u32) -> bool {
    peer_groups(client.as_fd()).is_ok_and(|groups| groups.contains(&group))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> tempfile::TempDir {
        let folder = tempfile::Builder::new().prefix(name).tempdir();
        folder.expect("a folder")
    }

    #[test]
    fn only_sockets_that_are_left_over_are_replaced() {
        let folder = folder("left-over");
        let (file, path) = (folder.path().join("file"), folder.path().join("socket"));
        std::fs::write(&file, "precious").expect("a file");
        let told = |path: &Path| match Socket::listen(path, None) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        assert!(told(&file).starts_with("there is a file that is no socket"));
        assert_eq!(std::fs::read(&file).expect("still there"), b"precious");
        let first = Socket::listen(&path, None).expect("nobody is there");
        assert!(told(&path).starts_with("another service answers there"));
        // As after a kill: the file stays, and nobody listens.
        let left_over = folder.path().join("left-over");
        drop(UnixListener::bind(&left_over).expect("a socket"));
        let second = Socket::listen(&left_over, None).expect("nobody listens any more");
        drop(second);
        assert!(!left_over.exists() && path.exists());
        drop(first);
        assert!(!path.exists(), "it is removed");
    }

    #[test]
    fn another_services_socket_is_not_removed() {
        let folder = folder("another");
        let path = folder.path().join("socket");
        let first = Socket::listen(&path, None).expect("nobody is there");
        std::fs::remove_file(&path).expect("by hand");
        let second = Socket::listen(&path, None).expect("nobody is there");
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn the_user_alone_may_connect_unless_a_group_is_named() {
        let folder = folder("mode");
        let path = folder.path().join("socket");
        let mode = |path: &Path| path.metadata().expect("a file").mode() & 0o777;
        let socket = Socket::listen(&path, None).expect("nobody is there");
        assert_eq!(mode(&path), 0o600);
        let client = UnixStream::connect(&path).expect("the user");
        assert!(socket.admits(&client));
        drop(socket);
        let own = rustix::process::getegid().as_raw();
        let socket = Socket::listen(&path, Some(own)).expect("nobody is there");
        assert_eq!(mode(&path), 0o660);
        assert_eq!(path.metadata().expect("a file").gid(), own);
        drop(socket);
    }

    #[test]
    fn whoever_sees_it_may_connect() {
        let folder = folder("seen");
        let path = folder.path().join("socket");
        for _ in 0..100 {
            let seen = std::thread::scope(|scope| {
                let seen = scope.spawn(|| {
                    while !path.exists() {
                        std::hint::spin_loop();
                    }
                    let mode = path.metadata().expect("a file").mode() & 0o777;
                    (mode, UnixStream::connect(&path).map(|_| ()))
                });
                let socket = Socket::listen(&path, None).expect("nobody is there");
                let seen = seen.join().expect("no panic");
                drop(socket);
                seen
            });
            assert!(matches!(seen, (0o600, Ok(()))), "{seen:?}");
        }
        let files = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(files, 0, "nothing else is left");
    }

    #[test]
    fn who_starts_at_the_same_time_waits_for_its_turn() {
        let folder = folder("together");
        let path = folder.path().join("socket");
        drop(UnixListener::bind(&path).expect("a socket"));
        let start = || Socket::listen(&path, None);
        let started: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
            let sockets = threads.into_iter().map(|thread| thread.join());
            sockets.map(|socket| socket.expect("no panic")).collect()
        });
        assert_eq!(started.iter().filter(|one| one.is_ok()).count(), 1);
        assert!(UnixStream::connect(&path).is_ok(), "the one that listens");
    }
}
