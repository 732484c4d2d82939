//! Reads CPU time, wake-ups and memory of a process, and context switches of the machine, from procfs.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Vitals {
    /// CPU time of all threads.
    pub(crate) cpu: Duration,
    /// Voluntary context switches of all threads.
    pub(crate) wakeups: u64,
    pub(crate) rss_mib: f64,
    /// Peak resident memory since the start.
    pub(crate) peak_rss_mib: f64,
}

impl Vitals {
    /// # Errors
    /// If the process does not exist.
    pub(crate) fn read(pid: u32) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))
            .context("cannot read the status of a process")?;
        let (mut cpu_ns, mut wakeups) = (0, 0);
        for thread in
            fs::read_dir(format!("/proc/{pid}/task")).context("cannot list the threads of a process")?
        {
            let thread = thread?.path();
            // A thread may end meanwhile.
            let read = |name| fs::read_to_string(thread.join(name)).unwrap_or_default();
            let schedstat = read("schedstat");
            let ran = schedstat.split(' ').next().unwrap_or_default();
            cpu_ns += ran.parse::<u64>().unwrap_or(0);
            wakeups += number(&read("status"), "voluntary_ctxt_switches").unwrap_or(0);
        }
        let mib = |name: &str| -> Result<f64> {
            let kib = number(&status, name).and_then(|kib| u32::try_from(kib).ok());
            Ok(f64::from(kib.with_context(|| format!("the status has no {name}"))?) / 1024.0)
        };
        Ok(Self {
            cpu: Duration::from_nanos(cpu_ns),
            wakeups,
            rss_mib: mib("VmRSS")?,
            peak_rss_mib: mib("VmHWM")?,
        })
    }
}

/// Context switches of the whole machine since boot.
///
/// # Errors
/// If procfs cannot be read.
pub(crate) fn switches() -> Result<u64> {
    let stat = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let line = stat.lines().find_map(|line| line.strip_prefix("ctxt "));
    line.and_then(|count| count.trim().parse().ok())
        .context("/proc/stat has no context switches")
}

/// The number after `name:` in a file with one entry per line.
fn number(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        process::{Command, Stdio},
    };

    use super::*;

    #[test]
    fn numbers_are_read_from_their_own_line() {
        let status = "VmHWM:\t    2048 kB\nVmRSS:\t    1536 kB\nRssAnon:\t 1 kB\nnonvoluntary_ctxt_switches:\t9\n\
                      voluntary_ctxt_switches:\t7\n";
        assert_eq!(number(status, "VmRSS"), Some(1536));
        assert_eq!(number(status, "voluntary_ctxt_switches"), Some(7));
        assert_eq!(number(status, "Rss"), None);
    }

    #[test]
    fn a_process_that_answers_is_woken_and_uses_cpu_time() {
        let mut cat = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut to, mut from) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
        let mut pass = || {
            to.write_all(b"x").unwrap();
            from.read_exact(&mut [0]).unwrap();
        };
        pass();
        let (before, switches_before) = (Vitals::read(cat.id()).unwrap(), switches().unwrap());
        // `cat` may find the next byte before it sleeps, but not every time.
        let mut woken = 0;
        for _ in 0..10_000 {
            pass();
            woken = Vitals::read(cat.id()).unwrap().wakeups - before.wakeups;
            if woken >= 10 {
                break;
            }
        }
        let (after, switches_after) = (Vitals::read(cat.id()).unwrap(), switches().unwrap());
        cat.kill().unwrap();
        cat.wait().unwrap();
        assert!(woken >= 10, "{before:?} {after:?}");
        assert!(switches_after >= switches_before + woken);
        assert!(after.cpu > before.cpu, "{before:?} {after:?}");
        assert!(after.rss_mib > 0.0 && after.peak_rss_mib >= after.rss_mib);
    }
}
