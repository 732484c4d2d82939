//! `Procfs` reads node-wide counters from `/proc` and `/sys`. The parsers are pure: text in, numbers out.

use std::path::{Path, PathBuf};

use super::{
    SampleError,
    cpus::CpuSet,
    field::{FieldError, number},
    read_if_present, read_text,
};

/// The files of one machine.
#[derive(Clone, Debug)]
pub struct Procfs {
    proc: PathBuf,
    online: PathBuf,
    isolated: PathBuf,
    sched_ext: PathBuf,
    tick_ns: u64,
}

/// CPU time since boot, in nanoseconds with the kernel's tick as resolution (10 ms as a rule).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// User, nice, system, irq, softirq and steal: time unavailable to other tasks.
    pub busy_ns: u64,
    /// Part of it that the hypervisor gave to other guests.
    pub steal_ns: u64,
    /// Of that, interrupts, hard and soft.
    pub irq_ns: u64,
    /// Idle, waiting for I/O or not.
    pub idle_ns: u64,
}

/// CPU time of each CPU `/proc/stat` lists, by CPU number, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat(Vec<(u32, CpuTime)>);

impl Default for Procfs {
    fn default() -> Self {
        Self::at(Path::new("/proc"), Path::new("/sys"))
    }
}

impl Procfs {
    /// The files under other roots than `/proc` and `/sys`.
    pub fn at(proc: &Path, sys: &Path) -> Self {
        let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
        Self {
            proc: proc.to_owned(),
            online: sys.join("devices/system/cpu/online"),
            isolated: sys.join("devices/system/cpu/isolated"),
            sched_ext: sys.join("kernel/sched_ext/state"),
            tick_ns: 1_000_000_000 / ticks_per_second,
        }
    }

    /// Reads `/proc/stat`.
    ///
    /// # Errors
    /// If the file cannot be read or parsed.
    pub fn stat(&self) -> Result<Stat, SampleError> {
        self.parsed("stat", |text| Stat::parse(text, self.tick_ns))
    }

    /// Reads the set of CPUs that are online.
    ///
    /// # Errors
    /// If the file cannot be read or parsed.
    pub fn online(&self) -> Result<CpuSet, SampleError> {
        let text = read_text(&self.online)?;
        CpuSet::parse(&text).map_err(|fault| SampleError::field(&self.online, fault))
    }

    /// Reads the set of isolated CPUs (`isolcpus=`), which only tasks that name them use; empty on a kernel that does
    /// not report it.
    ///
    /// # Errors
    /// If the file is there but cannot be read or parsed.
    pub fn isolated(&self) -> Result<CpuSet, SampleError> {
        let Some(text) = read_if_present(&self.isolated)? else {
            return Ok(CpuSet::default());
        };
        if text.trim().is_empty() {
            return Ok(CpuSet::default());
        }
        CpuSet::parse(&text).map_err(|fault| SampleError::field(&self.isolated, fault))
    }

    /// File that [`Self::isolated`] reads.
    pub(crate) fn isolated_path(&self) -> &Path {
        &self.isolated
    }

    /// Does a scheduler of sched_ext run tasks, or may one be on its way in or out? The kernel keeps no books then of how
    /// long a task has run since it was picked.
    ///
    /// # Errors
    /// If the file is there but cannot be read.
    pub fn has_sched_ext(&self) -> Result<bool, SampleError> {
        let state = read_if_present(&self.sched_ext)?;
        Ok(state.is_some_and(|state| state.trim() != "disabled"))
    }

    /// Reads the random id this boot was given.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn boot_id(&self) -> Result<String, SampleError> {
        Ok(read_text(&self.proc.join("sys/kernel/random/boot_id"))?
            .trim()
            .to_owned())
    }

    /// Reads a file under `/proc` and parses it.
    pub(super) fn parsed<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, FieldError>,
    ) -> Result<T, SampleError> {
        let path = self.path(name);
        parse(&read_text(&path)?).map_err(|fault| SampleError::field(&path, fault))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.proc.join(name)
    }
}

impl Stat {
    /// Parses `/proc/stat`, with `tick_ns` nanoseconds to a tick.
    ///
    /// # Errors
    /// If a CPU's line is malformed or there is none at all.
    pub fn parse(text: &str, tick_ns: u64) -> Result<Self, FieldError> {
        let mut cpus = Vec::new();
        for line in text.lines() {
            let Some((name, fields)) = line.strip_prefix("cpu").and_then(|rest| rest.split_once(' ')) else {
                // CPUs come first; the interrupt line that follows is long.
                break;
            };
            if name.is_empty() {
                continue;
            }
            let cpu = number(name, "cpu")?;
            let mut fields = fields.split_ascii_whitespace();
            let mut next = |field: &str| {
                let text = fields
                    .next()
                    .ok_or_else(|| FieldError::missing(&format!("cpu{cpu} {field}")))?;
                Ok(number::<u64>(text, &format!("cpu{cpu} {field}"))?.saturating_mul(tick_ns))
            };
            let (user, nice, system) = (next("user")?, next("nice")?, next("system")?);
            let (idle, iowait) = (next("idle")?, next("iowait")?);
            let (irq, softirq, steal) = (next("irq")?, next("softirq")?, next("steal")?);
            let busy_ns = [user, nice, system, irq, softirq, steal]
                .into_iter()
                .fold(0, u64::saturating_add);
            cpus.push((
                cpu,
                CpuTime {
                    busy_ns,
                    steal_ns: steal,
                    irq_ns: irq.saturating_add(softirq),
                    idle_ns: idle.saturating_add(iowait),
                },
            ));
        }
        if cpus.is_empty() {
            return Err(FieldError::missing("cpu0"));
        }
        cpus.sort_unstable_by_key(|(cpu, _)| *cpu);
        Ok(Self(cpus))
    }

    /// Time of one CPU, if it is listed.
    pub fn cpu(&self, cpu: u32) -> Option<CpuTime> {
        let index = self.0.binary_search_by_key(&cpu, |(listed, _)| *listed).ok()?;
        self.0.get(index).map(|(_, time)| *time)
    }

    /// Difference to an earlier reading, for each CPU in both. Counters that decreased count as unchanged: idle time
    /// does so on some kernels, and all do when a CPU comes online again.
    pub fn since(&self, earlier: &Self) -> Self {
        let passed = |(cpu, now): &(u32, CpuTime)| {
            let then = earlier.cpu(*cpu)?;
            let time = CpuTime {
                busy_ns: now.busy_ns.saturating_sub(then.busy_ns),
                steal_ns: now.steal_ns.saturating_sub(then.steal_ns),
                irq_ns: now.irq_ns.saturating_sub(then.irq_ns),
                idle_ns: now.idle_ns.saturating_sub(then.idle_ns),
            };
            Some((*cpu, time))
        };
        Self(self.0.iter().filter_map(passed).collect())
    }

    pub fn total(&self, cpus: &CpuSet) -> CpuTime {
        cpus.iter()
            .filter_map(|cpu| self.cpu(cpu))
            .fold(CpuTime::default(), |sum, time| CpuTime {
                busy_ns: sum.busy_ns.saturating_add(time.busy_ns),
                steal_ns: sum.steal_ns.saturating_add(time.steal_ns),
                irq_ns: sum.irq_ns.saturating_add(time.irq_ns),
                idle_ns: sum.idle_ns.saturating_add(time.idle_ns),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  270332 14378 67559 222542 3095 0 940 7325 0 0\n\
                        cpu0 134541 6994 33079 113918 857 0 57 3655 0 0\n\
                        cpu1 135791 7383 34480 108623 2238 0 883 3670 7 9\n\
                        intr 3851709 0 0 0\nctxt 100\ncpu9 1 2\n";

    #[test]
    fn busy_is_all_that_is_not_idle_and_includes_steal() {
        let stat = Stat::parse(STAT, 10).unwrap();
        let cpu1 = CpuTime {
            busy_ns: (135_791 + 7_383 + 34_480 + 883 + 3_670) * 10,
            steal_ns: 36_700,
            irq_ns: 8_830,
            idle_ns: (108_623 + 2_238) * 10,
        };
        assert_eq!(stat.cpu(1), Some(cpu1));
        assert_eq!(stat.cpu(2), None);
    }

    #[test]
    fn delta_covers_the_cpus_in_both_readings_and_never_underflows() {
        let earlier = Stat::parse("cpu0 10 0 0 100 0 0 0 2\ncpu1 50 0 0 100 0 0 0 0\n", 1).unwrap();
        let later = Stat::parse("cpu0 40 0 0 90 0 0 0 3\ncpu2 50 0 0 100 0 0 0 0\n", 1).unwrap();
        let delta = later.since(&earlier);
        assert_eq!(
            delta.cpu(0),
            Some(CpuTime {
                busy_ns: 31,
                steal_ns: 1,
                irq_ns: 0,
                idle_ns: 0
            })
        );
        assert_eq!((delta.cpu(1), delta.cpu(2)), (None, None));
        assert_eq!(delta.total(&CpuSet::parse("0-2").unwrap()).busy_ns, 31);
    }

    #[test]
    fn malformed_stat_names_the_field() {
        let fault = Stat::parse("cpu0 1 2 three 4 5 6 7 8\n", 1).unwrap_err();
        assert_eq!(
            fault,
            FieldError {
                field: "cpu0 system".into(),
                found: "three".into()
            }
        );
        assert_eq!(Stat::parse("cpu0 1 2 3\n", 1).unwrap_err().field, "cpu0 idle");
        assert_eq!(Stat::parse("cpux 1 2 3 4 5 6 7 8\n", 1).unwrap_err().found, "x");
        assert_eq!(Stat::parse("", 1).unwrap_err().field, "cpu0");
        assert_eq!(Stat::parse("\u{0}binary", 1).unwrap_err().field, "cpu0");
    }

    #[test]
    fn running_machine_is_readable() {
        let files = Procfs::default();
        let (stat, online) = (files.stat().unwrap(), files.online().unwrap());
        assert!(online.count() >= 1);
        assert!(online.iter().all(|cpu| stat.cpu(cpu).is_some()));
        assert_eq!(files.boot_id().unwrap().len(), 36);
        assert!(files.isolated().unwrap().without(&online).is_empty());
    }

    #[test]
    fn a_scheduler_of_sched_ext_is_there_unless_the_kernel_says_that_none_is() {
        let root = tempfile::tempdir().unwrap();
        let files = Procfs::at(root.path(), root.path());
        assert!(!files.has_sched_ext().unwrap(), "a kernel without sched_ext");
        let file = root.path().join("kernel/sched_ext/state");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        for (state, expected) in [
            ("disabled\n", false),
            ("enabled\n", true),
            ("enabling\n", true),
            ("", true),
        ] {
            std::fs::write(&file, state).unwrap();
            assert_eq!(files.has_sched_ext().unwrap(), expected, "{state}");
        }
    }

    #[test]
    fn isolated_cpus_are_none_where_the_kernel_names_none() {
        let root = tempfile::tempdir().unwrap();
        let files = Procfs::at(root.path(), root.path());
        assert!(files.isolated().unwrap().is_empty());
        let file = root.path().join("devices/system/cpu/isolated");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let with = |text: &str| {
            std::fs::write(&file, text).unwrap();
            files.isolated()
        };
        assert!(with("\n").unwrap().is_empty());
        assert_eq!(with("12-15\n").unwrap().count(), 4);
        assert!(
            with("all\n")
                .unwrap_err()
                .to_string()
                .contains("cpu/isolated: `cpu list` is")
        );
    }
}
