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

/// How long a guest may take from its start to its last line.
const ENDS_WITHIN: Duration = Duration::from_secs(60 * 60);
/// How often its console is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How the kernel boots.
const BOOT: &str = "console=ttyS0 loglevel=1 panic=-1 root=/dev/nvme0n1 rw init=/init maxcpus=1";
/// What init says last, before the status of the tests.
const END: &str = "guest: tests ended with ";

/// One run of the machine.
#[derive(Debug)]
pub(super) struct Guest<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) boot: Boot,
}

impl Guest<'_> {
    /// What it is called in the summary.
    pub(super) fn name(&self) -> String {
        format!("{}, {}", self.kernel.release, self.boot.name())
    }

    /// Boots the kernel and runs the tests on the disk. A guest that does not come to its end is one failed test more.
    ///
    /// # Errors
    /// If the emulator cannot be started or its console not be read.
    pub(super) fn run(&self, disk: &Disk, filter: Option<&str>) -> Result<Tally> {
        let name = self.name();
        print(format!("\n== kernel tests on Linux {name}"));
        let log = folder().join(format!(
            "console-{}.log",
            name.replace(", ", "-").replace(' ', "-")
        ));
        fs::write(&log, "").with_context(|| format!("write {}", log.display()))?;
        let mut tally = Tally::default();
        for (test, why) in self.boot.left_out() {
            print(format!("left out  {test}: {why}"));
            tally.skipped += 1;
        }
        let command = self.emulator(&disk.path(), filter);
        let mut process = Process::spawn(QEMU, &command, &log, Duration::ZERO)?;
        let mut console = Console::open(&log)?;
        let deadline = Instant::now() + ENDS_WITHIN;
        let why = loop {
            // Asked before the console is read, so that its last lines are not missed.
            let has_ended = process.status().context("ask for the emulator")?.is_some();
            while let Some(line) = console.line().context("read the console")? {
                print(&line);
                tally += Tally::parse(&line).unwrap_or_default();
                if let Some(status) = line.strip_prefix(END) {
                    return Ok(judged(tally, status));
                }
            }
            if has_ended {
                break "the machine ended before its tests did".to_owned();
            }
            if Instant::now() >= deadline {
                break format!("its tests did not end in {ENDS_WITHIN:?}");
            }
            thread::sleep(LOOK_EVERY);
        };
        print(format!("{why}: counted as one failure; {}", tail(&log, 20)));
        tally.failed += 1;
        Ok(tally)
    }

    /// The guest's clock is driven by the instructions it runs, 2 ns each, and by the time here only while it idles. So a
    /// second holds as much work as on a slow machine of its own, however slowly it is emulated and whatever else this
    /// machine does, and what tests say about shares of time holds.
    ///
    /// One thread emulates all CPUs: kernels patch their code while other CPUs run it, which QEMU before 8.1 gets wrong
    /// with a thread for each. With that clock, Linux 6.1 never finds the second CPU while it boots, so init brings it up
    /// later.
    fn emulator(&self, disk: &Path, filter: Option<&str>) -> Command {
        // What the kernel does not know is environment of init. Everything is there where it is here, and built. What
        // follows two dashes are arguments of init, and those of each test program.
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

/// A test program that dies reports no failed test.
fn judged(mut tally: Tally, status: &str) -> Tally {
    if status != "0" && tally.failed == 0 {
        print("a test program ended badly and reported no failed test: counted as one failure");
        tally.failed = 1;
    }
    tally
}

/// Lines of a file that grows.
struct Console {
    file: BufReader<File>,
    /// The line so far.
    begun: Vec<u8>,
}

impl Console {
    fn open(log: &Path) -> Result<Self> {
        let file = File::open(log).with_context(|| format!("read {}", log.display()))?;
        Ok(Self {
            file: BufReader::new(file),
            begun: Vec::new(),
        })
    }

    /// The next whole line, if it is there.
    fn line(&mut self) -> io::Result<Option<String>> {
        self.file.read_until(b'\n', &mut self.begun)?;
        if self.begun.last() != Some(&b'\n') {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&self.begun).trim_end().to_owned();
        self.begun.clear();
        Ok(Some(line))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn lines_are_read_when_they_are_whole() {
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
    fn a_test_program_that_dies_silently_is_a_failure() {
        let passed = Tally {
            passed: 2,
            ..Tally::default()
        };
        assert_eq!(judged(passed, "0"), passed);
        assert_eq!(judged(passed, "139").failed, 1);
        let failed = Tally { failed: 3, ..passed };
        assert_eq!(judged(failed, "101"), failed);
    }

    #[test]
    fn what_init_is_told_stands_behind_what_the_kernel_is_told() {
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
