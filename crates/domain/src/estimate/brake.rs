//! [`Brakes`]: evaluates the pressure of each brake period, sets a level per resource, and keeps it for its release
//! time.

use std::time::Duration;

use super::{Reason, Timing, Visibility};
use crate::{
    hint::Brake,
    resource::{PerResource, Resource},
};

/// Contention on the shared CPUs in one period. [`Visibility`] states which numbers were measured; the others are
/// zero and no rule reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuPressure {
    /// Share of 8.39 ms windows without an idle CPU, in ppm.
    pub sigma8_ppm: u32,
    /// 99th percentile of run-queue latency, weighted by waiting time, in microseconds.
    pub runq_p99_us: u64,
    /// Share of time in which some task waited for a CPU, in ppm; tasks throttled by their CPU quota count too.
    pub some_ppm: u32,
    /// Mean use over capacity, in ppm.
    pub busy_ppm: u32,
}

/// Memory pressure in one period. A signal that this machine lacks stays zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryPressure {
    /// PSI `some`: the larger of root and kubepods, in ppm.
    pub some_ppm: u32,
    /// PSI `full`: the larger of root and kubepods, in ppm.
    pub full_ppm: u32,
    /// Time in global direct reclaim, in milliseconds.
    pub direct_reclaim_ms: u64,
    /// Refaults of reclaimed pages, in MB/s.
    pub refault_mb_s: u64,
    /// Pages swapped out, in MB/s.
    pub swap_out_mb_s: u64,
    /// Number of times kubepods reached its memory limit.
    pub limit_hits: u64,
    /// OOM kills at the memory limit of kubepods.
    pub limit_ooms: u64,
    /// Global OOM kills on the node.
    pub node_ooms: u64,
    /// True if pages were reclaimed globally.
    pub has_global_reclaim: bool,
    /// Available memory above the kubelet's hard eviction threshold, see [`spare_ppm`]; `None` if it is not known.
    pub spare_ppm: Option<u32>,
    /// True while the Node's condition `MemoryPressure` is true.
    pub has_pressure_condition: bool,
}

/// Available memory above the kubelet's hard eviction threshold, as a share of raw allocatable (A), in ppm. Arguments
/// are in bytes. 0 at or below the threshold, `None` if A is 0.
pub fn spare_ppm(available: u64, threshold: u64, raw: u64) -> Option<u32> {
    let spare = u128::from(available.saturating_sub(threshold)) * 1_000_000;
    let ppm = spare.checked_div(u128::from(raw))?;
    Some(u32::try_from(ppm).unwrap_or(u32::MAX))
}

/// Measurements of one brake period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pressure {
    /// Kinds of measurement that this period had.
    pub visibility: Visibility,
    /// Contention on the shared CPUs.
    pub cpu: CpuPressure,
    /// Memory pressure of the node.
    pub memory: MemoryPressure,
}

/// A level and the signal that called for it; `None` without a brake.
type Call = (Brake, Option<Reason>);

/// Brakes of both resources, with their release times. See docs/estimator.md#brakes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brakes {
    /// Release times of L1, L2 and L3, and of L3 after an OOM kill.
    release: [Duration; 3],
    release_oom: Duration,
    state: PerResource<BrakeState>,
    /// Consecutive periods that called for L2 or more of the CPU, and for L3 of the CPU.
    contended_periods: u32,
    saturated_periods: u32,
    /// Latest end of an evaluated period, in monotonic time.
    judged: Option<Duration>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct BrakeState {
    /// Ends of L1, L2 and L3, in monotonic time.
    until: [Duration; 3],
    level: Brake,
    reason: Option<Reason>,
    /// True if the last period called for L3.
    has_stopped: bool,
}

impl Brakes {
    /// Consecutive periods before L3 of the CPU takes effect.
    const STOP_PERIODS: u32 = 3;
    /// Consecutive periods before L2 of the CPU takes effect if waits of tasks are not measured.
    const BLIND_SHED_PERIODS: u32 = 2;

    /// No brakes, with the release times of this timing.
    pub fn new(timing: &Timing) -> Self {
        Self {
            release: timing.brake_release,
            release_oom: timing.brake_release_oom,
            state: PerResource::default(),
            contended_periods: 0,
            saturated_periods: 0,
            judged: None,
        }
    }

    /// Evaluates one period; `now` is monotonic time at its end. Late or duplicate periods neither extend nor re-arm
    /// brakes, and do not count towards the CPU's three consecutive periods.
    pub fn end_period(&mut self, pressure: &Pressure, now: Duration) {
        let is_news = self.judged.is_none_or(|judged| judged < now);
        let latest = self.judged.map_or(now, |judged| judged.max(now));
        self.judged = Some(latest);
        let memory = memory_call(&pressure.memory);
        let cpu = self.settled(cpu_call(pressure), is_news);
        let mut release = self.release;
        self.state.cpu.extend(cpu, now, latest, &release);
        if pressure.memory.node_ooms > 0 || pressure.memory.limit_ooms > 0 {
            let [_, _, stop] = &mut release;
            *stop = self.release_oom;
        }
        self.state.memory.extend(memory, now, latest, &release);
    }

    /// Prolongs the brakes that were active `unseen` before `now` by that time, in which nothing was measured.
    pub fn prolong(&mut self, unseen: Duration, now: Duration) {
        let before = now.saturating_sub(unseen);
        let latest = now.saturating_add(self.release_oom);
        for resource in Resource::ALL {
            for until in &mut self.state.get_mut(resource).until {
                if *until > before {
                    *until = until.saturating_add(unseen).min(latest);
                }
            }
        }
    }

    /// Brake that takes effect after a call of the CPU. L3 only sheds until enough consecutive periods have called
    /// for it. L2 that is based on windows alone only holds until then.
    fn settled(&mut self, call: CpuCall, is_news: bool) -> Call {
        let CpuCall {
            call: (brake, reason),
            shed_periods,
        } = call;
        if is_news {
            let count = |periods: &mut u32, is_called: bool| {
                *periods = if is_called { periods.saturating_add(1) } else { 0 };
            };
            count(&mut self.contended_periods, brake >= Brake::Shed);
            count(&mut self.saturated_periods, brake >= Brake::Stop);
        }
        let most = if self.saturated_periods >= Self::STOP_PERIODS {
            Brake::Stop
        } else if self.contended_periods.max(1) >= shed_periods {
            Brake::Shed
        } else {
            Brake::Hold
        };
        (brake.min(most), reason)
    }

    /// End of each level of each resource, in monotonic time.
    pub(super) fn until(&self) -> PerResource<[Duration; 3]> {
        self.state.map(|_, state| state.until)
    }

    /// Resumes the brakes from before a restart. `now` is monotonic time. None stays longer than the longest release
    /// time.
    pub(super) fn resume(&mut self, until: &PerResource<[Duration; 3]>, now: Duration) {
        let latest = now.saturating_add(self.release_oom);
        for resource in Resource::ALL {
            let state = self.state.get_mut(resource);
            state.until = until.get(resource).map(|until| until.min(latest));
            state.extend((Brake::Off, None), now, now, &self.release);
            state.reason = (state.level > Brake::Off).then_some(Reason::BrakeResumed);
        }
    }

    /// Active level. Reclaim uses CPU time: while memory is stopped, CPU is at least held.
    pub fn level(&self, resource: Resource) -> Brake {
        let own = self.state.get(resource).level;
        match resource {
            Resource::Cpu if self.state.memory.level == Brake::Stop => own.max(Brake::Hold),
            Resource::Cpu | Resource::Memory => own,
        }
    }

    /// Signal behind the active level.
    pub fn reason(&self, resource: Resource) -> Option<Reason> {
        match resource {
            Resource::Cpu if self.state.cpu.level < self.level(resource) => self.state.memory.reason,
            Resource::Cpu | Resource::Memory => self.state.get(resource).reason,
        }
    }

    /// Returns true if the last period called for L3 of this resource.
    pub fn has_stopped(&self, resource: Resource) -> bool {
        self.state.get(resource).has_stopped
    }
}

impl BrakeState {
    /// Applies the call of the period that ended `at`; the active level is computed for `now`.
    fn extend(&mut self, (called, reason): Call, at: Duration, now: Duration, release: &[Duration; 3]) {
        self.has_stopped = called == Brake::Stop;
        let levels = [Brake::Hold, Brake::Shed, Brake::Stop];
        for ((level, until), release) in levels.into_iter().zip(&mut self.until).zip(release) {
            if level <= called {
                *until = at.saturating_add(*release).max(*until);
            }
        }
        let before = self.level;
        let in_force = levels.into_iter().zip(self.until);
        self.level = in_force
            .filter(|(_, until)| now < *until)
            .map(|(level, _)| level)
            .max()
            .unwrap_or_default();
        if self.level == Brake::Off {
            self.reason = None;
        } else if called > Brake::Off
            && (called >= self.level || self.level != before || self.reason.is_none())
        {
            self.reason = reason;
        }
    }
}

/// Strongest level among the matching rows; the last of equals.
fn strongest(rows: &[(bool, Brake, Reason)]) -> Call {
    let called = rows
        .iter()
        .filter(|(is_met, _, _)| *is_met)
        .max_by_key(|(_, brake, _)| *brake);
    called.map_or((Brake::Off, None), |&(_, brake, reason)| (brake, Some(reason)))
}

/// Call for a brake of the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CpuCall {
    call: Call,
    /// Consecutive periods before an L2 takes effect.
    shed_periods: u32,
}

/// Evaluates windows and waits if both are measured. Without waits, CPU pressure shows whether tasks wait, both in
/// saturated windows and by procfs. Without pressure too, windows alone count, as if all tasks waited long. If the
/// shared CPUs are unknown, windows may hide waits, so pressure is evaluated in addition.
fn cpu_call(pressure: &Pressure) -> CpuCall {
    let CpuPressure {
        sigma8_ppm,
        runq_p99_us,
        some_ppm,
        busy_ppm,
    } = pressure.cpu;
    let saturation = |is_contended: bool, is_starved: bool| {
        strongest(&[
            (
                sigma8_ppm >= 300_000 && is_starved,
                Brake::Stop,
                Reason::CpuSaturated,
            ),
            (
                sigma8_ppm >= 100_000 && is_contended,
                Brake::Shed,
                Reason::CpuContended,
            ),
            (sigma8_ppm >= 20_000, Brake::Hold, Reason::CpuNoIdle),
        ])
    };
    let psi = || psi_call(some_ppm, busy_ppm);
    let Visibility {
        windows,
        waits,
        cpu_pressure,
        shared_cpus,
        ..
    } = pressure.visibility;
    let (call, shed_periods) = match (windows, waits, cpu_pressure) {
        (true, true, true) if !shared_cpus => (
            stronger(saturation(runq_p99_us >= 10_000, runq_p99_us >= 25_000), psi()),
            1,
        ),
        (true, true, _) => (saturation(runq_p99_us >= 10_000, runq_p99_us >= 25_000), 1),
        (true, false, true) => (
            stronger(saturation(some_ppm >= 250_000, some_ppm >= 500_000), psi()),
            1,
        ),
        (true, false, false) => (saturation(true, true), Brakes::BLIND_SHED_PERIODS),
        (false, _, true) => (psi(), 1),
        (false, _, false) => ((Brake::Off, None), 1),
    };
    CpuCall { call, shed_periods }
}

/// Evaluates CPU pressure together with CPU use, because quotas raise pressure on idle CPUs too.
fn psi_call(some_ppm: u32, busy_ppm: u32) -> Call {
    strongest(&[
        (
            some_ppm >= 500_000 && busy_ppm >= 950_000,
            Brake::Stop,
            Reason::CpuPsi,
        ),
        (
            some_ppm >= 250_000 && busy_ppm >= 900_000,
            Brake::Shed,
            Reason::CpuPsi,
        ),
        (
            some_ppm >= 100_000 && busy_ppm >= 850_000,
            Brake::Hold,
            Reason::CpuPsi,
        ),
    ])
}

/// Stronger of two calls; the first one if both are equal.
fn stronger(one: Call, other: Call) -> Call {
    if other.0 > one.0 { other } else { one }
}

fn memory_call(pressure: &MemoryPressure) -> Call {
    let MemoryPressure {
        some_ppm,
        full_ppm,
        direct_reclaim_ms,
        refault_mb_s,
        swap_out_mb_s,
        limit_hits,
        limit_ooms,
        node_ooms,
        has_global_reclaim,
        spare_ppm,
        has_pressure_condition,
    } = *pressure;
    // A pod at its own limit must not brake the node.
    let is_of_node = has_global_reclaim || limit_hits > 0;
    let is_spare_below = |ppm| spare_ppm.is_some_and(|spare| spare < ppm);
    strongest(&[
        (node_ooms > 0, Brake::Stop, Reason::Oom),
        (limit_ooms > 0, Brake::Stop, Reason::KubepodsOom),
        (
            is_of_node && full_ppm >= 50_000,
            Brake::Stop,
            Reason::MemoryPsiFull,
        ),
        (direct_reclaim_ms >= 1000, Brake::Stop, Reason::DirectReclaim),
        (has_pressure_condition, Brake::Stop, Reason::MemoryPressure),
        (is_spare_below(10_000), Brake::Stop, Reason::MemoryAvailable),
        (
            is_of_node && full_ppm >= 10_000,
            Brake::Shed,
            Reason::MemoryPsiFull,
        ),
        (
            is_of_node && some_ppm >= 50_000,
            Brake::Shed,
            Reason::MemoryPsiSome,
        ),
        (direct_reclaim_ms >= 100, Brake::Shed, Reason::DirectReclaim),
        (is_of_node && refault_mb_s >= 200, Brake::Shed, Reason::Refaults),
        (is_of_node && swap_out_mb_s >= 100, Brake::Shed, Reason::SwapOut),
        (is_spare_below(30_000), Brake::Shed, Reason::MemoryAvailable),
        (
            is_of_node && some_ppm >= 10_000,
            Brake::Hold,
            Reason::MemoryPsiSome,
        ),
        (direct_reclaim_ms > 0, Brake::Hold, Reason::DirectReclaim),
        (is_of_node && refault_mb_s >= 50, Brake::Hold, Reason::Refaults),
        (is_of_node && swap_out_mb_s >= 10, Brake::Hold, Reason::SwapOut),
        (limit_hits > 0, Brake::Hold, Reason::KubepodsLimit),
        (is_spare_below(50_000), Brake::Hold, Reason::MemoryAvailable),
    ])
}

#[cfg(test)]
mod tests;
