//! A virtual machine with a kernel that has drivers which this machine's may lack: Debian's. Its disk is this
//! machine's, not to be written to, so that a program which was built here runs there as it is. Its processor
//! is emulated, some ten times as slow: a machine that is virtual itself may start none otherwise.

use super::{root, succeeds, target_folder};
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What starts it, and what its kernel and its first files are made with.
pub const PACKAGES: [&str; 5] = [
    "qemu-system-x86",
    "busybox-static",
    "cpio",
    "kmod",
    "iproute2",
];

/// Modules without which there is no disk.
const DISK: [&str; 3] = ["virtio_pci", "9pnet_virtio", "9p"];

/// How long a program may take there, in seconds.
const LONGEST_RUN: &str = "900";

/// What the last line begins with that a program's script prints.
const ENDED: &str = "the program has ended with ";

/// A machine that can be started.
pub struct VirtualMachine {
    /// Where its kernel is unpacked.
    folder: PathBuf,
    kernel: PathBuf,
}

impl VirtualMachine {
    /// Gets what it consists of.
    pub fn prepare() -> io::Result<Self> {
        let machine = Self::unpacked()?;
        machine.make_first_files()?;
        Ok(machine)
    }

    fn folder() -> PathBuf {
        target_folder(&root()).join("virtual-machine")
    }

    /// Debian's kernel, which is got once.
    fn unpacked() -> io::Result<Self> {
        let folder = Self::folder();
        let got = kernel_in(&folder).map(|kernel| Self { folder, kernel });
        if let Some(machine) = got.filter(|machine| machine.dependencies().exists()) {
            return Ok(machine);
        }
        let folder = Self::folder();
        fs::create_dir_all(&folder)?;
        let file = download(&folder)?;
        let mut unpack = Command::new("dpkg-deb");
        let is_unpacked = succeeds(unpack.arg("-x").args([&file, &folder]));
        let kernel = kernel_in(&folder).filter(|_| is_unpacked);
        let kernel = kernel.ok_or_else(|| other("the package has no kernel"))?;
        let machine = Self { folder, kernel };
        let mut depend = Command::new("depmod");
        depend.arg("-b").arg(&machine.folder);
        match succeeds(depend.arg(version_of(&machine.kernel))) {
            true => Ok(machine),
            false => Err(other("depmod fails")),
        }
    }

    fn modules(&self) -> PathBuf {
        let version = version_of(&self.kernel);
        self.folder.join("lib/modules").join(version)
    }

    /// Which module needs which others.
    fn dependencies(&self) -> PathBuf {
        self.modules().join("modules.dep")
    }

    /// What the kernel starts with, as an archive: busybox, the disk's modules in the order in which they are
    /// loaded, and `init.sh`.
    fn make_first_files(&self) -> io::Result<()> {
        let first = self.folder.join("first");
        if first.exists() {
            fs::remove_dir_all(&first)?;
        }
        for folder in ["bin", "modules", "disk"] {
            fs::create_dir_all(first.join(folder))?;
        }
        fs::copy("/bin/busybox", first.join("bin/busybox"))?;
        let dependencies = fs::read_to_string(self.dependencies())?;
        for (number, module) in in_order(&dependencies, &DISK).iter().enumerate() {
            let name = format!("modules/{number:02}.ko");
            fs::copy(self.modules().join(module), first.join(name))?;
        }
        let script = self.script().to_string_lossy().into_owned();
        fs::write(first.join("script"), script)?;
        write_program(&first.join("init"), include_str!("virtual_machine/init.sh"))?;
        let archive = fs::File::create(self.folder.join("first.cpio"))?;
        let mut pack = Command::new("sh");
        pack.args(["-c", "find . | cpio --quiet --create --format newc"]);
        match pack.current_dir(&first).stdout(archive).status()?.success() {
            true => Ok(()),
            false => Err(other("cpio fails")),
        }
    }

    fn script(&self) -> PathBuf {
        self.folder.join("run.sh")
    }

    /// Runs a program there, in the folder that we are in, after modules were loaded, and prints all that it
    /// prints. Whether it succeeded.
    pub fn run(&self, modules: &[&str], program: &[String]) -> io::Result<bool> {
        let here = std::env::current_dir()?;
        fs::write(self.script(), self.script_of(modules, &here, program))?;
        let mut machine = self.command().stdout(Stdio::piped()).spawn()?;
        let mut has_succeeded = false;
        let lines = machine.stdout.take().map(BufReader::new);
        for line in lines.into_iter().flat_map(|lines| lines.split(b'\n')) {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            println!("{}", line.trim_end());
            has_succeeded |= line.trim_end().ends_with(&format!("{ENDED}0"));
        }
        machine.wait()?;
        Ok(has_succeeded)
    }

    /// What is done there: it ends with switching the machine off.
    fn script_of(&self, modules: &[&str], here: &Path, program: &[String]) -> String {
        let words: Vec<String> = program.iter().map(|word| quoted(word)).collect();
        format!(
            "export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp CI=true\n\
             for module in {}; do modprobe -d {} $module; done\n\
             ip link set lo up\nmkdir -p /run/netns\ncd {}\n{}\n\
             echo \"{ENDED}$?\"\necho o > /proc/sysrq-trigger\nsleep 60\n",
            modules.join(" "),
            quoted(&self.folder.to_string_lossy()),
            quoted(&here.to_string_lossy()),
            words.join(" ")
        )
    }

    fn command(&self) -> Command {
        let mut command = Command::new("timeout");
        command.args([LONGEST_RUN, "qemu-system-x86_64", "-m", "2G", "-smp", "2"]);
        command.args(["-accel", "tcg,thread=multi", "-cpu", "max"]);
        command.arg("-kernel").arg(&self.kernel);
        command.arg("-initrd").arg(self.folder.join("first.cpio"));
        command.args(["-append", "console=ttyS0 quiet panic=-1", "-no-reboot"]);
        command.args(["-display", "none", "-monitor", "none", "-serial", "stdio"]);
        command.args(["-net", "none", "-virtfs"]);
        command.arg("local,path=/,mount_tag=disk,security_model=none,readonly=on,multidevs=remap");
        command.stdin(Stdio::null());
        command
    }
}

fn other(text: &str) -> io::Error {
    io::Error::other(text.to_owned())
}

/// Downloads the package of the newest kernel.
fn download(folder: &Path) -> io::Result<PathBuf> {
    let is_known = succeeds(Command::new("apt-get").args(["update", "-qq"]));
    let package = kernel_package().filter(|_| is_known);
    let package = package.ok_or_else(|| other("no package with a kernel is known"))?;
    let mut download = Command::new("apt-get");
    download.args(["download", "-qq", &package]);
    let is_there = succeeds(download.current_dir(folder));
    let mut files = super::files_in(folder).into_iter().filter(|_| is_there);
    let file = files.find(|file| file.extension().is_some_and(|end| end == "deb"));
    file.ok_or_else(|| other(&format!("{package} cannot be downloaded")))
}

/// The package of the newest kernel.
fn kernel_package() -> Option<String> {
    let asked = Command::new("apt-cache")
        .args(["depends", "linux-image-amd64"])
        .output();
    let said = String::from_utf8(asked.ok()?.stdout).ok()?;
    let mut lines = said
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "));
    lines
        .find(|name| name.starts_with("linux-image-"))
        .map(str::to_owned)
}

fn kernel_in(folder: &Path) -> Option<PathBuf> {
    let files = super::files_in(&folder.join("boot"));
    let is_kernel = |file: &PathBuf| {
        file.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
    };
    files.into_iter().find(is_kernel)
}

/// `6.1.0-57-amd64` of `vmlinuz-6.1.0-57-amd64`.
fn version_of(kernel: &Path) -> String {
    let name = kernel.file_name().unwrap_or_default().to_string_lossy();
    name.trim_start_matches("vmlinuz-").to_owned()
}

/// The files of modules and of all that they need, each behind what it needs, as `modules.dep` tells.
fn in_order(dependencies: &str, modules: &[&str]) -> Vec<String> {
    let lines = dependencies.lines().filter_map(|line| line.split_once(':'));
    let known: Vec<(&str, &str)> = lines.collect();
    let mut files: Vec<String> = Vec::new();
    for module in modules {
        let name = format!("/{module}.ko");
        let Some((file, needed)) = known.iter().find(|(file, _)| file.ends_with(&name)) else {
            continue;
        };
        // What is needed last stands first.
        let needed = needed.split_whitespace().rev();
        for file in needed.chain([*file]).map(str::to_owned) {
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    files
}

fn write_program(path: &Path, text: &str) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = fs::OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o755);
    options.open(path)?.write_all(text.as_bytes())
}

/// A word as a shell takes it for one.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_behind_what_they_need() {
        let dependencies = "kernel/a.ko:\nkernel/b.ko: kernel/c.ko kernel/a.ko\nkernel/c.ko: kernel/a.ko\n\
                            kernel/d.ko: kernel/c.ko kernel/a.ko\n";
        let files = in_order(dependencies, &["b", "none", "d"]);
        assert_eq!(
            files,
            ["kernel/a.ko", "kernel/c.ko", "kernel/b.ko", "kernel/d.ko"]
        );
    }

    #[test]
    fn words_stay_words() {
        assert_eq!(quoted("it's one"), "'it'\\''s one'");
    }
}
