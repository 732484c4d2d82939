//! One run of the emulated machine: starts it, prints its console, counts the tests in it, and ends it.

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader},
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use super::{super::tally::Tally, boot::Boot, disk::Disk, folder, kernel::Kernel};
use crate::{
    launch::BUILT,
    process::{Process, tail},
    setup::emulator::QEMU,
    terminal::print,
    workspace,
};

/// Time limit of a guest.
const TIME_LIMIT: Duration = Duration::from_secs(60 * 60);
/// Interval of reading the console.
const POLL: Duration = Duration::from_millis(100);
/// Kernel arguments of every boot.
const BOOT: &str = "console=ttyS0 loglevel=1 panic=-1 root=/dev/nvme0n1 rw init=/init maxcpus=1";
/// Last line of init, without the status of the tests.
const END: &str = "guest: tests ended with ";

#[derive(Debug)]
pub(super) struct Guest<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) boot: Boot,
}

impl Guest<'_> {
    pub(super) fn name(&self) -> String {
        format!("{}, {}", self.kernel.release, self.boot.name())
    }

    /// Boots the kernel and runs the tests on the disk. A guest that ends early or times out adds one failed test.
    ///
    /// # Errors
    /// If the emulator cannot be started or its console cannot be read.
    pub(super) fn run(&self, disk: &Disk, filter: Option<&str>) -> Result<Tally> {
        let name = self.name();
        print(format!("\n== kernel tests on Linux {name}"));
        let log = folder().join(format!(
            "console-{}.log",
            name.replace(", ", "-").replace(' ', "-")
        ));
        fs::write(&log, "").with_context(|| format!("write {}", log.display()))?;
        let mut tally = Tally::default();
        for (test, why) in self.boot.skipped() {
            print(format!("skipped  {test}: {why}"));
            tally.skipped += 1;
        }
        let command = self.emulator(&disk.path(), filter);
        let mut process = Process::spawn(QEMU, &command, &log, Duration::ZERO)?;
        let mut console = Console::open(&log)?;
        let deadline = Instant::now() + TIME_LIMIT;
        let why = loop {
            // Checked before the console is read, so that its last lines are not missed.
            let has_ended = process.status().context("check the emulator")?.is_some();
            while let Some(line) = console.line().context("read the console")? {
                print(&line);
                tally += Tally::parse(&line).unwrap_or_default();
                if let Some(status) = line.strip_prefix(END) {
                    return Ok(with_crash(tally, status));
                }
            }
            if has_ended {
                break "the machine ended before its tests".to_owned();
            }
            if Instant::now() >= deadline {
                break format!("the tests did not end within {TIME_LIMIT:?}");
            }
            thread::sleep(POLL);
        };
        print(format!("{why}: counted as one failure; {}", tail(&log, 20)));
        tally.failed += 1;
        Ok(tally)
    }

    /// The guest's clock advances by 2 ns for each executed instruction, and follows the host's clock only while the guest is
    /// idle. A second of the guest therefore always has the same amount of work, regardless of the speed of the emulation and
    /// the load of the host, and tests of shares of time are exact.
    ///
    /// One thread emulates all CPUs: kernels patch code that other CPUs execute, which QEMU before 8.1 gets wrong with one
    /// thread for each CPU. With that clock, Linux 6.1 does not find the second CPU during boot, so init brings it online
    /// later.
    fn emulator(&self, disk: &Path, filter: Option<&str>) -> Command {
        // The kernel passes unknown `NAME=value` arguments to init as environment variables, and arguments after `--` as
        // arguments, which init passes to each test program. Programs have the same paths as on this machine.
        let boot = format!(
            "{BOOT} {BUILT}=1 CARGO_TARGET_DIR={} {} -- {}",
            workspace::target().display(),
            self.boot.kernel_arguments(),
            self.boot.test_arguments(filter).join(" ")
        );
        let mut command = Command::new(QEMU);
        command
            .args(["-nodefaults", "-no-user-config", "-no-reboot"])
            .args(["-display", "none", "-serial", "stdio"])
            .args(["-accel", "tcg,thread=single", "-icount", "shift=1,sleep=on"])
            .args(["-cpu", "max", "-m", "2G"])
            .args(["-smp", &self.boot.cpus().to_string()])
            .arg("-drive")
            .arg(format!("file={},format=raw,if=none,id=disk", disk.display()))
            .args(["-device", "nvme,drive=disk,serial=disk"])
            .arg("-kernel")
            .arg(&self.kernel.image)
            .args(["-append", &boot]);
        command
    }
}

/// Adds a failure if a test program crashed: it reports no failed test then.
fn with_crash(mut tally: Tally, status: &str) -> Tally {
    if status != "0" && tally.failed == 0 {
        print("a test program crashed and reported no failed test: counted as one failure");
        tally.failed = 1;
    }
    tally
}

/// Reads lines of a growing file.
struct Console {
    file: BufReader<File>,
    /// The last line, while it is incomplete.
    partial: Vec<u8>,
}

impl Console {
    fn open(log: &Path) -> Result<Self> {
        let file = File::open(log).with_context(|| format!("read {}", log.display()))?;
        Ok(Self {
            file: BufReader::new(file),
            partial: Vec::new(),
        })
    }

    /// The next complete line, if there is one.
    fn line(&mut self) -> io::Result<Option<String>> {
        self.file.read_until(b'\n', &mut self.partial)?;
        if self.partial.last() != Some(&b'\n') {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&self.partial).trim_end().to_owned();
        self.partial.clear();
        Ok(Some(line))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn console_returns_only_complete_lines() {
        let folder = tempfile::tempdir().expect("folder");
        let log = folder.path().join("log");
        let mut file = File::create(&log).expect("create");
        let mut console = Console::open(&log).expect("open");
        assert_eq!(console.line().expect("read"), None);
        write!(file, "guest: tests en").expect("write");
        assert_eq!(console.line().expect("read"), None);
        write!(file, "ded with 0\r\nnext").expect("write");
        let line = console.line().expect("read");
        assert_eq!(line.as_deref(), Some("guest: tests ended with 0"));
        assert_eq!(console.line().expect("read"), None);
    }

    #[test]
    fn crashed_test_program_counts_as_one_failure() {
        let passed = Tally {
            passed: 2,
            ..Tally::default()
        };
        assert_eq!(with_crash(passed, "0"), passed);
        assert_eq!(with_crash(passed, "139").failed, 1);
        let failed = Tally { failed: 3, ..passed };
        assert_eq!(with_crash(failed, "101"), failed);
    }

    #[test]
    fn test_arguments_follow_the_kernel_arguments() {
        let kernel = Kernel {
            release: "6.1".to_owned(),
            image: "kernel".into(),
        };
        for &boot in Boot::value_variants() {
            let guest = Guest {
                kernel: &kernel,
                boot,
            };
            let command = guest.emulator(Path::new("disk"), Some("busy"));
            let arguments = command.get_args().last().expect("arguments");
            let arguments = arguments.to_string_lossy().into_owned();
            let (kernel, init) = arguments.split_once(" -- ").expect("both");
            assert!(kernel.starts_with(BOOT) && kernel.contains(BUILT));
            assert!(kernel.ends_with(&boot.kernel_arguments()), "{kernel}");
            assert_eq!(init, boot.test_arguments(Some("busy")).join(" "));
        }
    }
}
