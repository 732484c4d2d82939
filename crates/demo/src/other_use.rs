//! Measures the CPU use of processes that are not the demo's, and waits until they leave a CPU idle.

use std::{
    collections::{HashMap, HashSet},
    fs, process, thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use rustix::param::clock_ticks_per_second;
use tokio::time::sleep;

use crate::view::View;

/// Shortest interval between two samples: a tick of `/proc` is 10 ms.
const INTERVAL: Duration = Duration::from_secs(1);
/// Longest wait for an idle CPU.
const WAIT_LIMIT: Duration = Duration::from_mins(1);
/// Share of a CPU that counts as an idle CPU, in milli-cores: a machine without other work still has daemons.
const IDLE_MILLI: u64 = 950;

/// CPU use of other processes over the last interval. Time that a hypervisor gives to other machines counts as used.
#[derive(Debug)]
pub(super) struct OtherUse {
    cpus: u64,
    before: Option<(Instant, Ticks)>,
    milli: u64,
}

/// CPU time since boot, in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    /// All processes, and stolen time.
    all: u64,
    /// This process and its descendants, with those that ended.
    own: u64,
}

/// A line of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProcessStat {
    parent: u32,
    ticks: u64,
}

impl OtherUse {
    pub(super) fn new() -> Result<Self> {
        let cpus = thread::available_parallelism().context("count the CPUs")?.get();
        Ok(Self {
            cpus: u64::try_from(cpus)?,
            before: None,
            milli: 0,
        })
    }

    /// Number of CPUs.
    pub(super) fn cpus(&self) -> u64 {
        self.cpus
    }

    /// Use over the last whole interval, in milli-cores.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub(super) fn milli(&mut self) -> Result<u64> {
        let now = Instant::now();
        match self.before {
            Some((at, _)) if now.duration_since(at) < INTERVAL => {}
            before => {
                let ticks = Ticks::read()?;
                if let Some((at, before)) = before {
                    self.milli = ticks.others_milli(before, now.duration_since(at));
                }
                self.before = Some((now, ticks));
            }
        }
        Ok(self.milli)
    }

    /// Waits until other processes leave a CPU idle, and prints that it waits. Returns after [`WAIT_LIMIT`] in any case.
    ///
    /// # Errors
    /// If `/proc` cannot be read, or the output is closed.
    pub(super) async fn wait_for_idle_cpu(&mut self, view: &mut View) -> Result<()> {
        let began = Instant::now();
        let mut has_waited = false;
        loop {
            self.milli()?;
            sleep(INTERVAL).await;
            let milli = self.milli()?;
            let used = used(milli, self.cpus);
            if milli + IDLE_MILLI <= self.cpus * 1000 {
                if has_waited {
                    view.print(&format!("after {} s: {used}", began.elapsed().as_secs()))?;
                }
                return Ok(());
            }
            if began.elapsed() >= WAIT_LIMIT {
                return view.print(&format!(
                    "no CPU was idle within {} s ({used}): the demo skips claims that this contradicts",
                    WAIT_LIMIT.as_secs()
                ));
            }
            if !has_waited {
                has_waited = true;
                view.print(&format!(
                    "waiting up to {} s for an idle CPU: {used}",
                    WAIT_LIMIT.as_secs()
                ))?;
            }
        }
    }
}

/// `N of M CPUs used by others`.
pub(super) fn used(milli: u64, cpus: u64) -> String {
    let tenths = milli / 100;
    format!("{}.{} of {cpus} CPUs used by others", tenths / 10, tenths % 10)
}

impl Ticks {
    fn read() -> Result<Self> {
        let stat = fs::read_to_string("/proc/stat").context("read /proc/stat")?;
        let all = busy_ticks(&stat).context("/proc/stat has no total of all CPUs")?;
        let mut processes = HashMap::new();
        for entry in fs::read_dir("/proc").context("read /proc")?.flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            // A process may end before its file is read.
            let stat = pid.and_then(|_: u32| fs::read_to_string(entry.path().join("stat")).ok());
            if let (Some(pid), Some(stat)) = (pid, stat.as_deref().and_then(ProcessStat::parse)) {
                processes.insert(pid, stat);
            }
        }
        let own = own_ticks(&processes, process::id());
        Ok(Self { all, own })
    }

    fn others_milli(self, before: Self, interval: Duration) -> u64 {
        let others =
            (self.all.saturating_sub(before.all)).saturating_sub(self.own.saturating_sub(before.own));
        let milliseconds = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX).max(1);
        others * 1_000_000 / clock_ticks_per_second().max(1) / milliseconds
    }
}

/// Busy and stolen ticks of all CPUs: the fields of proc_stat(5) except idle, iowait, guest and guest_nice. The two last are
/// part of user and nice.
fn busy_ticks(stat: &str) -> Option<u64> {
    let fields: Vec<u64> = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    let &[user, nice, system, _idle, _iowait, interrupts, soft, stolen, ..] = fields.as_slice() else {
        return None;
    };
    Some(user + nice + system + interrupts + soft + stolen)
}

impl ProcessStat {
    /// Parses the parent, and user and system time of the process and of its ended children: fields 4 and 14 to 17 of
    /// proc_pid_stat(5).
    fn parse(stat: &str) -> Option<Self> {
        // The name is field 2 and may contain spaces and brackets.
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            ticks: fields
                .get(11..15)?
                .iter()
                .filter_map(|field| field.parse::<u64>().ok())
                .sum(),
        })
    }
}

/// Ticks of a process and its descendants.
fn own_ticks(processes: &HashMap<u32, ProcessStat>, own: u32) -> u64 {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for (pid, stat) in processes {
        children.entry(stat.parent).or_default().push(*pid);
    }
    let (mut seen, mut rest, mut ticks) = (HashSet::new(), vec![own], 0);
    while let Some(pid) = rest.pop() {
        if seen.insert(pid) {
            ticks += processes.get(&pid).map_or(0, |stat| stat.ticks);
            rest.extend(children.get(&pid).into_iter().flatten());
        }
    }
    ticks
}

#[cfg(test)]
mod tests {
    use std::hint::spin_loop;

    use super::*;

    #[test]
    fn own_time_includes_descendants_only() {
        let text = |pid: u32, parent: u32, ticks: u64| {
            let stat = format!("{pid} (a b) c) S {parent} 1 1 0 -1 4 0 0 0 0 {ticks} 1 2 3 20 0 1 0");
            (pid, ProcessStat::parse(&stat).unwrap())
        };
        let processes = HashMap::from([
            text(1, 0, 500),
            text(10, 1, 10),
            text(11, 10, 20),
            text(12, 11, 30),
            text(13, 1, 999),
        ]);
        assert_eq!(own_ticks(&processes, 10), 60 + 3 * 6);
    }

    #[test]
    fn idle_time_and_guest_time_are_not_counted() {
        let stat = "cpu  1 2 4 1000 1000 8 16 32 1000 1000\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(busy_ticks(stat), Some(63));
        assert_eq!(busy_ticks("cpu  1 2\n"), None);
    }

    #[test]
    fn use_of_this_process_is_not_others_use() {
        let before = Ticks::read().unwrap();
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(500) {
            spin_loop();
        }
        let after = Ticks::read().unwrap();
        let own = after.own - before.own;
        assert!(
            own > 0 && after.all - before.all >= own / 2,
            "{before:?} {after:?}"
        );
        let without_own = Ticks {
            all: before.all + own,
            own: after.own,
        };
        assert_eq!(without_own.others_milli(before, Duration::from_secs(1)), 0);
    }

    #[test]
    fn text_states_tenths_of_cpus() {
        assert_eq!(used(1_790, 2), "1.7 of 2 CPUs used by others");
    }
}
