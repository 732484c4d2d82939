//! Memory of the node: use from /proc/meminfo, and the counters behind memory brakes (reclaim, swap, pressure, OOM kills,
//! limit events). The gather threads read them, and `decide` judges them.

mod kills;

use std::time::Duration;

use headroom_domain::estimate::MemoryPressure;

pub use self::kills::{KillCounts, KillJudge, Kills};
use super::{SampleError, cgroup::LimitEvents, procfs::Procfs, psi::Psi};
use crate::sample::field::{FieldError, keyed, number};

/// Bytes in the pages vmstat counts. Larger base pages (arm64 can have 64 KiB) are asked for at start.
pub(crate) fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// The fields of `/proc/meminfo` that are used, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meminfo {
    pub total: u64,
    /// Memory available without swapping; reclaimable caches and slab count as available.
    pub available: u64,
    /// File pages used more than once of late.
    pub active_file: u64,
    /// Reserved for huge pages, used or not.
    pub hugetlb: u64,
    /// Swapped out, and not also in memory.
    pub swapped: u64,
    /// Use as the kubelet computes it: anonymous pages and page cache, without its inactive part; `None` if the
    /// kernel does not report all parts.
    pub kubelet_used: Option<u64>,
}

/// Counters of `/proc/vmstat` since boot. Those a kernel does not have are 0 for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vmstat {
    /// Pages scanned for the whole machine, by kswapd and by tasks that needed memory at once. Reclaim at a cgroup's
    /// limit is not in it.
    pub scanned: u64,
    /// Times a task had to reclaim pages of the whole machine itself before an allocation. Every OOM kill for lack of
    /// machine memory follows one; reclaim at a cgroup's limit is not included, and neither is kswapd's.
    pub stalls: u64,
    /// Pages that were read again soon after they had been reclaimed.
    pub refaulted: u64,
    pub swapped_out: u64,
    /// Processes that the OOM killer killed, at any limit.
    pub oom_kills: u64,
}

/// All counters for memory brakes, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryCounters {
    /// Counters of the machine; `None` before they could be read.
    pub vm: Option<Vmstat>,
    /// Pressure of the machine, where the kernel keeps it.
    pub node: Option<Psi>,
    /// Pressure of kubepods (cgroup v2 only).
    pub kubepods: Option<Psi>,
    /// Number of times kubepods met its limit.
    pub limit: Option<LimitEvents>,
    /// Time of all tasks in direct reclaim of the whole machine, in nanoseconds; 0 without the kernel programs.
    pub direct_reclaim_ns: u64,
    /// OOM kills outside a pod's own limit, since the agent started.
    pub kills: Kills,
}

impl Meminfo {
    /// Parses `/proc/meminfo`.
    ///
    /// # Errors
    /// If a field is missing that every kernel since 3.14 has, or a field is malformed.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let field = |name: &str| {
            let Some(value) = text
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            else {
                return Ok(None);
            };
            // Pages of the huge page pools are counts, everything else is in units of 1024 bytes.
            let (digits, unit) = value
                .strip_suffix(" kB")
                .map_or((value, 1), |digits| (digits, 1_024));
            Ok(Some(number::<u64>(digits.trim(), name)?.saturating_mul(unit)))
        };
        let required = |name: &str| field(name)?.ok_or_else(|| FieldError::missing(name));
        let optional = |name: &str| Ok::<u64, FieldError>(field(name)?.unwrap_or(0));

        // `Hugetlb` sums up the pools of all sizes; before Linux 4.19 only the default size is reported.
        let default_pool = optional("HugePages_Total")?.saturating_mul(optional("Hugepagesize")?);
        let swapped = optional("SwapTotal")?
            .saturating_sub(optional("SwapFree")?)
            .saturating_sub(optional("SwapCached")?);
        let kept = |anon: u64, cached: u64, buffers: u64, inactive: u64| {
            let cache = cached.saturating_add(buffers).saturating_sub(inactive);
            anon.saturating_add(cache)
        };
        let kubelet_used = match (
            field("AnonPages")?,
            field("Cached")?,
            field("Buffers")?,
            field("Inactive(file)")?,
        ) {
            (Some(anon), Some(cached), Some(buffers), Some(inactive)) => {
                Some(kept(anon, cached, buffers, inactive))
            }
            (_, _, _, _) => None,
        };
        Ok(Self {
            total: required("MemTotal")?,
            available: required("MemAvailable")?,
            active_file: required("Active(file)")?,
            hugetlb: field("Hugetlb")?.unwrap_or(default_pool),
            swapped,
            kubelet_used,
        })
    }

    /// Memory available until the kernel is out of memory or the kubelet, which counts active page cache as used,
    /// evicts: the lesser of the two.
    pub fn available_to_pods(&self) -> u64 {
        let by_kubelet = self.kubelet_used.map(|used| self.total.saturating_sub(used));
        by_kubelet.map_or(self.available, |spare| spare.min(self.available))
    }

    /// C: memory pods can be given, without the huge page pools.
    pub const fn capacity(&self) -> u64 {
        self.total.saturating_sub(self.hugetlb)
    }

    /// Nn: memory in real use. Half of the active file pages counts as needed; the pools of huge pages do not count.
    pub const fn used(&self) -> u64 {
        let taken = self
            .total
            .saturating_sub(self.available)
            .saturating_add(self.active_file / 2);
        taken.saturating_sub(self.hugetlb).saturating_add(self.swapped)
    }

    /// U: use that reduces the schedulable memory, from kubepods' working set Wk (0 if there is none) and raw
    /// allocatable A: `max(Wk, Nn - (C - A))`.
    pub fn charged(&self, working_set: u64, raw_allocatable: u64) -> u64 {
        let reserved = self.capacity().saturating_sub(raw_allocatable);
        working_set.max(self.used().saturating_sub(reserved))
    }
}

impl Vmstat {
    /// Parses `/proc/vmstat`.
    ///
    /// # Errors
    /// If a field is malformed, or there is none at all.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        if text.trim().is_empty() {
            return Err(FieldError::missing("oom_kill"));
        }
        let sum = |names: &[&str]| {
            names.iter().try_fold(0_u64, |sum, name| {
                Ok(sum.saturating_add(keyed(text, name)?.unwrap_or(0)))
            })
        };
        Ok(Self {
            scanned: sum(&["pgscan_kswapd", "pgscan_direct"])?,
            stalls: stalls(text)?,
            // One counter before Linux 5.9, then one for each kind.
            refaulted: sum(&[
                "workingset_refault",
                "workingset_refault_anon",
                "workingset_refault_file",
            ])?,
            swapped_out: sum(&["pswpout"])?,
            oom_kills: sum(&["oom_kill"])?,
        })
    }
}

impl MemoryCounters {
    /// Difference to an earlier reading, `elapsed` ago.
    ///
    /// Pressure of kubepods counts while it meets its limit: otherwise it is the machine's, which is counted too, or
    /// that of pods at their own limits. The same holds for reclaim: kswapd's is a shortage only if the reclaimed
    /// pages are read again, and that of tasks only if it took a hundredth of their time, if the programs measure
    /// that: this equals the lowest pressure that brakes, and the rest is pods' own waiting.
    pub fn since(&self, earlier: &Self, elapsed: Duration) -> MemoryPressure {
        let Self {
            vm,
            node,
            kubepods,
            limit,
            direct_reclaim_ns,
            kills,
        } = self;
        let shares = |now: &Option<Psi>, then: &Option<Psi>| match (now, then) {
            (Some(now), Some(then)) => now.shares_ppm(then, elapsed),
            (None, _) | (_, None) => (0, 0),
        };
        let (node_some, node_full) = shares(node, &earlier.node);
        let limit = match (limit, &earlier.limit) {
            (Some(now), Some(then)) => now.since(then),
            (None, _) | (_, None) => LimitEvents::default(),
        };
        let (pods_some, pods_full) = if limit.hits > 0 {
            shares(kubepods, &earlier.kubepods)
        } else {
            (0, 0)
        };
        let (vm, vm_then) = vm.zip(earlier.vm).unwrap_or_default();
        let grown = |now: u64, then: u64| now.saturating_sub(then);
        let refault_mb_s = megabytes_per_second(grown(vm.refaulted, vm_then.refaulted), elapsed);
        let swap_out_mb_s = megabytes_per_second(grown(vm.swapped_out, vm_then.swapped_out), elapsed);
        let reclaim_ns = grown(*direct_reclaim_ns, earlier.direct_reclaim_ns);
        let is_short = reclaim_ns == 0 || u128::from(reclaim_ns) * 100 >= elapsed.as_nanos();
        let is_stalled = vm.stalls > vm_then.stalls && is_short;
        let is_missed = vm.scanned > vm_then.scanned && (refault_mb_s > 0 || swap_out_mb_s > 0);
        MemoryPressure {
            some_ppm: node_some.max(pods_some),
            full_ppm: node_full.max(pods_full),
            // Rounded up: any at all is a reason to hold.
            direct_reclaim_ms: reclaim_ns.div_ceil(1_000_000),
            refault_mb_s,
            swap_out_mb_s,
            limit_hits: limit.hits,
            limit_ooms: grown(kills.limit, earlier.kills.limit),
            node_ooms: grown(kills.node, earlier.kills.node),
            has_global_reclaim: is_stalled || is_missed,
            ..MemoryPressure::default()
        }
    }
}

impl Procfs {
    /// Reads `/proc/meminfo`.
    ///
    /// # Errors
    /// If the file cannot be read or parsed.
    pub fn meminfo(&self) -> Result<Meminfo, SampleError> {
        self.parsed("meminfo", Meminfo::parse)
    }

    /// Reads `/proc/vmstat`.
    ///
    /// # Errors
    /// If the file cannot be read or parsed.
    pub fn vmstat(&self) -> Result<Vmstat, SampleError> {
        self.parsed("vmstat", Vmstat::parse)
    }
}

/// The sum of the counters of stalls: one for each zone since Linux 4.10, one before.
fn stalls(text: &str) -> Result<u64, FieldError> {
    let counters = text.lines().filter(|line| line.starts_with("allocstall"));
    let counts = counters.filter_map(|line| line.split_once(' '));
    let mut sum = 0_u64;
    for (name, count) in counts {
        sum = sum.saturating_add(number(count, name)?);
    }
    Ok(sum)
}

fn megabytes_per_second(pages: u64, elapsed: Duration) -> u64 {
    let bytes = u128::from(pages) * u128::from(page_bytes());
    // Bytes per microsecond are megabytes per second.
    u64::try_from(bytes.checked_div(elapsed.as_micros()).unwrap_or(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
