//! `bench agent-overhead`: CPU time of the agent per context switch and as a process. Its kernel programs are
//! compared with no program, with empty programs and with a common design that uses a hash map.

mod arms;
mod counting_proxy;
mod first_hint;
mod load;
mod many_cpus;
mod pods;
mod resident;

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use headroom_agent::kernel::probe::Runs;
use headroom_domain::estimate::Profile;
use headroom_testbed::{ping_pong::Round, thread::last_cpu};
use serde::Serialize;
use xtask::terminal::print;

use self::{
    arms::{Arm, COUNTED, ROUND, SEED, Turns},
    first_hint::FirstHint,
    load::Pace,
    many_cpus::ManyCpus,
    resident::{Cost, MeasuredCosts, MeasuredInterval},
};
use super::{
    declaration::{BenchResult, Report, Row, no_flags},
    target::FigureTarget,
};

pub static ROW: Row = Row {
    name: "agent-overhead",
    about: "Measures the agent on this kernel: nanoseconds per context switch, CPU share, memory, wake-ups and bytes sent. Needs root.",
    flags: no_flags,
    run: |_| BenchResult::new(&run()?),
};

/// Default length of a measurement of the process.
const MEASURED: Duration = Duration::from_secs(20);
/// Length of the measurement without load; contains four reports.
const AT_REST: Duration = Duration::from_secs(60);
/// Pods of an average node, and of the nodes with few and many pods.
const PODS: usize = 100;
const FEW_PODS: usize = 10;
const MANY_PODS: usize = 500;
/// More pods than any kubelet accepts.
const TOO_MANY_PODS: usize = 1_000;
/// Rates of context switches for which CPU shares are reported, in addition to the highest possible rate.
const SLOW: u32 = 10_000;
const FAST: u32 = 100_000;

/// `*_ns_per_switch_*` and `*_delta_*` are CPU time of two threads per switch; a delta is the difference of two arms
/// in the same turn. Shares are in percent of one CPU.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AgentOverheadReport {
    /// Description of load and set-up.
    pub workload: String,
    /// Turns behind all figures per switch.
    pub pairs: usize,
    /// Switches per second of wall time, with the programs attached.
    pub switches_per_s: f64,
    pub detached_ns_per_switch_p50: f64,
    /// With the programs as attached while CPUs are nearly full; one task in eight is sampled.
    pub attached_ns_per_switch_p50: f64,
    /// Programs without wake-up hooks, as attached on all other nodes, minus detached.
    pub switch_delta_calm_ns_p25: f64,
    pub switch_delta_calm_ns_p50: f64,
    pub switch_delta_calm_ns_p75: f64,
    pub switch_delta_ns_p25: f64,
    pub switch_delta_ns_p50: f64,
    pub switch_delta_ns_p75: f64,
    /// Attached with hardly any task sampled, minus detached.
    pub switch_delta_unsampled_ns_p50: f64,
    /// Attached with every task sampled, minus detached.
    pub switch_delta_all_sampled_ns_p50: f64,
    /// An empty program at `sched_switch`, minus detached.
    pub empty_delta_ns_p25: f64,
    pub empty_delta_ns_p50: f64,
    pub empty_delta_ns_p75: f64,
    /// An empty program at each hook of run-queue latency, minus detached: the cost of the calls alone.
    pub empty_hooks_delta_ns_p50: f64,
    /// Run-queue latency of all tasks with a hash map and `bpf_probe_read_kernel`, minus detached.
    pub hash_shape_delta_ns_p25: f64,
    pub hash_shape_delta_ns_p50: f64,
    pub hash_shape_delta_ns_p75: f64,
    /// The value of `switch_delta_ns_p50` divided by `hash_shape_delta_ns_p50`.
    pub switch_delta_per_hash_shape: f64,
    /// Detached minus detached: the noise.
    pub noise_delta_ns_p25: f64,
    pub noise_delta_ns_p50: f64,
    pub noise_delta_ns_p75: f64,
    /// The agent at 10,000 switches per second: the process, plus `switch_delta_calm_ns_p50` per switch.
    pub cpu_pct_10k: f64,
    pub cpu_pct_100k: f64,
    /// The agent at `switches_per_s_max`, with `switch_delta_ns_p50` per switch.
    pub cpu_pct_max: f64,
    /// Highest possible rate of context switches of the whole machine.
    pub switches_per_s_max: f64,
    /// The process without load of the bench and with 100 pods: polls, estimates, reports and admin port.
    pub process_cpu_pct: f64,
    pub process_cpu_pct_10_pods: f64,
    pub process_cpu_pct_500_pods: f64,
    /// With 500 pods and durations compressed 300-fold, so that all pods are read every second.
    pub process_cpu_pct_500_pods_demo: f64,
    /// With 100 pods at 10,000 switches per second.
    pub process_cpu_pct_10k: f64,
    pub process_cpu_pct_100k: f64,
    pub process_cpu_pct_max: f64,
    /// Time in the programs at 10,000 switches per second as counted by the kernel, including the counting itself.
    pub programs_cpu_pct_10k: f64,
    pub programs_cpu_pct_100k: f64,
    pub programs_cpu_pct_max: f64,
    /// Reading the counters of 256 nearly full CPUs: maps of that size, with a slot in each window.
    pub counters_cpu_pct_256_cpus: f64,
    /// Reading the counters of 256 CPUs on a calm node.
    pub counters_cpu_pct_256_cpus_calm: f64,
    /// Peak memory until the first measurement and the first report.
    pub rss_start_mib: f64,
    /// Memory one minute later, with 100 pods.
    pub rss_mib: f64,
    pub rss_mib_500_pods: f64,
    pub rss_mib_1000_pods: f64,
    /// Peak memory of the whole run.
    pub peak_rss_mib: f64,
    /// Milliseconds from the start of the process to its first report, with kernel programs.
    pub first_hint_full_ms_p50: f64,
    pub first_hint_full_ms_max: f64,
    /// Milliseconds from the start of the process to its first report, on procfs.
    pub first_hint_proc_ms_p50: f64,
    pub first_hint_proc_ms_max: f64,
    /// Wake-ups of all threads of the process per second.
    pub wakeups_per_s: f64,
    /// TCP payload to the hint server, with 100 pods.
    pub wire_up_bytes_per_s: f64,
    pub wire_down_bytes_per_s: f64,
    /// TCP payload of one report on 500 pods that are all trusted.
    pub wire_bytes_per_report_500_pods: f64,
    /// `prog_ns_*`: time of one run as counted by the kernel, including the counting itself; `prog_runs_*`: number of
    /// runs; `prog_jited_bytes_*`: size of the program's machine code.
    #[serde(flatten)]
    pub programs: BTreeMap<String, f64>,
}

/// Measures for about seven minutes. Needs root.
///
/// # Errors
/// If the kernel programs cannot be loaded, a thread cannot be pinned, or the agent cannot be started.
pub fn run() -> Result<AgentOverheadReport> {
    let program = resident::build()?;
    let cpu = last_cpu()?;
    let mut report = AgentOverheadReport {
        workload: format!(
            "Two threads on CPU {cpu} pass a byte through pipes, one wake-up per switch. Each turn has one round of {} ms for \
             each set of programs, in random order (seed {SEED:#x}). 1 task in {} is sampled. Program time is counted in {COUNTED} \
             other rounds of each, on all CPUs. The agent process has {PODS} pods and is measured for at least {} s.",
            ROUND.as_millis(),
            1 << headroom_agent::sample::ring::SAMPLING_SHIFT,
            MEASURED.as_secs(),
        ),
        ..AgentOverheadReport::default()
    };
    report.put_turns(&Turns::run(cpu)?);
    print("the kernel counts the run time of the programs");
    for (arm, name) in [
        (Arm::Attached, ""),
        (Arm::Calm, "calm_"),
        (Arm::EmptyHooks, "empty_"),
        (Arm::Hash, "hash_"),
    ] {
        report.put_programs(name, &arms::counted(cpu, arm)?);
    }
    report.put_many_cpus()?;
    report.put_first_hints(&program)?;
    report.put_process(&program)?;
    for target in report.targets() {
        print(target);
    }
    Ok(report)
}

impl Report for AgentOverheadReport {}

impl AgentOverheadReport {
    fn put_turns(&mut self, turns: &Turns) {
        let delta = |arm| turns.delta(arm, Arm::Detached);
        let (ours, empty, hash) = (delta(Arm::Attached), delta(Arm::Empty), delta(Arm::Hash));
        let (noise, calm) = (delta(Arm::DetachedAgain), delta(Arm::Calm));
        self.pairs = turns.count();
        self.switches_per_s = turns.median(Arm::Attached, Round::per_second);
        self.detached_ns_per_switch_p50 = turns.median(Arm::Detached, Round::switch_ns);
        self.attached_ns_per_switch_p50 = turns.median(Arm::Attached, Round::switch_ns);
        self.switch_delta_ns_p25 = ours.p25;
        self.switch_delta_ns_p50 = ours.p50;
        self.switch_delta_ns_p75 = ours.p75;
        self.switch_delta_calm_ns_p25 = calm.p25;
        self.switch_delta_calm_ns_p50 = calm.p50;
        self.switch_delta_calm_ns_p75 = calm.p75;
        self.switch_delta_unsampled_ns_p50 = delta(Arm::Unsampled).p50;
        self.switch_delta_all_sampled_ns_p50 = delta(Arm::AllSampled).p50;
        self.empty_delta_ns_p25 = empty.p25;
        self.empty_delta_ns_p50 = empty.p50;
        self.empty_delta_ns_p75 = empty.p75;
        self.empty_hooks_delta_ns_p50 = delta(Arm::EmptyHooks).p50;
        self.hash_shape_delta_ns_p25 = hash.p25;
        self.hash_shape_delta_ns_p50 = hash.p50;
        self.hash_shape_delta_ns_p75 = hash.p75;
        self.switch_delta_per_hash_shape = ours.p50 / hash.p50;
        self.noise_delta_ns_p25 = noise.p25;
        self.noise_delta_ns_p50 = noise.p50;
        self.noise_delta_ns_p75 = noise.p75;
    }

    /// Skips programs that did not run, as those at hooks of rare events.
    fn put_programs(&mut self, of: &str, runs: &[Runs]) {
        for runs in runs.iter().filter(|runs| runs.count > 0) {
            let mut put = |figure: &str, value| {
                let key = format!("prog_{figure}_{of}{}", runs.hook.tracepoint());
                self.programs.insert(key, value);
            };
            let count = as_float(runs.count);
            put("ns", runs.time.as_secs_f64() * 1e9 / count);
            put("runs", count);
            put("jited_bytes", f64::from(runs.jited_bytes));
        }
    }

    fn put_many_cpus(&mut self) -> Result<()> {
        print("the agent's sampler reads maps of 256 CPUs");
        let ManyCpus { close_pct, calm_pct } = ManyCpus::measure()?;
        (
            self.counters_cpu_pct_256_cpus,
            self.counters_cpu_pct_256_cpus_calm,
        ) = (close_pct, calm_pct);
        Ok(())
    }

    fn put_first_hints(&mut self, program: &Path) -> Result<()> {
        print("time from start to the first report of the agent");
        let (full, proc) = (
            FirstHint::measure(program, "ebpf")?,
            FirstHint::measure(program, "procfs")?,
        );
        (self.first_hint_full_ms_p50, self.first_hint_full_ms_max) = (full.p50_ms, full.max_ms);
        (self.first_hint_proc_ms_p50, self.first_hint_proc_ms_max) = (proc.p50_ms, proc.max_ms);
        Ok(())
    }

    fn put_process(&mut self, program: &Path) -> Result<()> {
        let rest = |length| MeasuredInterval { pace: None, length };
        let under = |pace| MeasuredInterval {
            pace: Some(pace),
            length: MEASURED,
        };
        let production =
            |pods, intervals: &[MeasuredInterval]| measure(program, Profile::Production, pods, intervals);

        let few = production(FEW_PODS, &[rest(MEASURED)])?.last()?;
        let intervals = [
            rest(AT_REST),
            under(Pace::PerSecond(SLOW)),
            under(Pace::PerSecond(FAST)),
            under(Pace::Unbounded),
        ];
        let usual = production(PODS, &intervals)?;
        let many = production(MANY_PODS, &[rest(MEASURED)])?.last()?;
        let too_many = production(TOO_MANY_PODS, &[rest(MEASURED)])?.last()?;
        let compressed = measure(program, Profile::Demo, MANY_PODS, &[rest(MEASURED)])?.last()?;
        let [at_rest, slow, fast, max] = usual.costs.as_slice() else {
            anyhow::bail!("expected {} measured intervals of the agent", intervals.len());
        };

        let with_programs =
            |cost: &Cost, switch_ns: f64, rate: f64| cost.process_cpu_pct + switch_ns * rate / 1e9 * 100.0;
        let calm_ns = self.switch_delta_calm_ns_p50;
        self.cpu_pct_10k = with_programs(slow, calm_ns, f64::from(SLOW));
        self.cpu_pct_100k = with_programs(fast, calm_ns, f64::from(FAST));
        self.cpu_pct_max = with_programs(max, self.switch_delta_ns_p50, max.switches_per_s);
        self.switches_per_s_max = max.switches_per_s;
        self.process_cpu_pct = at_rest.process_cpu_pct;
        self.process_cpu_pct_10_pods = few.process_cpu_pct;
        self.process_cpu_pct_500_pods = many.process_cpu_pct;
        self.process_cpu_pct_500_pods_demo = compressed.process_cpu_pct;
        self.process_cpu_pct_10k = slow.process_cpu_pct;
        self.process_cpu_pct_100k = fast.process_cpu_pct;
        self.process_cpu_pct_max = max.process_cpu_pct;
        self.programs_cpu_pct_10k = slow.programs_cpu_pct;
        self.programs_cpu_pct_100k = fast.programs_cpu_pct;
        self.programs_cpu_pct_max = max.programs_cpu_pct;
        self.rss_start_mib = usual.rss_start_mib;
        self.rss_mib = at_rest.rss_mib;
        self.rss_mib_500_pods = many.rss_mib;
        self.rss_mib_1000_pods = too_many.rss_mib;
        self.peak_rss_mib = max.peak_rss_mib;
        self.wakeups_per_s = at_rest.wakeups_per_s;
        self.wire_up_bytes_per_s = at_rest.up_bytes_per_s;
        self.wire_down_bytes_per_s = at_rest.down_bytes_per_s;
        self.wire_bytes_per_report_500_pods = compressed.up_bytes_per_report;
        Ok(())
    }

    fn targets(&self) -> [FigureTarget; 10] {
        let at_most = FigureTarget::at_most;
        [
            at_most("switch_delta_calm_ns_p50", self.switch_delta_calm_ns_p50, 35.0),
            FigureTarget {
                stretch: Some(40.0),
                ..at_most("switch_delta_ns_p50", self.switch_delta_ns_p50, 80.0)
            },
            at_most(
                "switch_delta_per_hash_shape",
                self.switch_delta_per_hash_shape,
                1.0 / 3.0,
            ),
            at_most("cpu_pct_100k", self.cpu_pct_100k, 0.5),
            at_most("counters_cpu_pct_256_cpus", self.counters_cpu_pct_256_cpus, 0.5),
            at_most("rss_mib", self.rss_mib, 12.0),
            at_most("rss_mib_1000_pods", self.rss_mib_1000_pods, 20.0),
            at_most("rss_start_mib", self.rss_start_mib, 20.0),
            at_most("first_hint_full_ms_max", self.first_hint_full_ms_max, 2_000.0),
            at_most("first_hint_proc_ms_max", self.first_hint_proc_ms_max, 1_000.0),
        ]
    }
}

impl MeasuredCosts {
    fn last(&self) -> Result<Cost> {
        self.costs
            .last()
            .copied()
            .context("the agent has no measured interval")
    }
}

fn measure(
    program: &Path,
    timing: Profile,
    pods: usize,
    intervals: &[MeasuredInterval],
) -> Result<MeasuredCosts> {
    print(format!(
        "agent process with {pods} pods and {timing} timing, {} measured intervals",
        intervals.len()
    ));
    resident::measure(program, timing, pods, intervals)
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52 runs")]
fn as_float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use headroom_agent::kernel::probe::Hook;

    use super::*;

    /// Keys that release notes and the journal compare between releases.
    const KEYS: [&str; 27] = [
        "attached_ns_per_switch_p50",
        "cpu_pct_100k",
        "cpu_pct_10k",
        "cpu_pct_max",
        "detached_ns_per_switch_p50",
        "empty_delta_ns_p50",
        "first_hint_full_ms_p50",
        "first_hint_proc_ms_p50",
        "hash_shape_delta_ns_p50",
        "noise_delta_ns_p25",
        "noise_delta_ns_p50",
        "noise_delta_ns_p75",
        "pairs",
        "peak_rss_mib",
        "process_cpu_pct",
        "prog_ns_sched_switch",
        "prog_ns_sched_wakeup",
        "prog_runs_sched_switch",
        "rss_mib",
        "rss_start_mib",
        "switch_delta_all_sampled_ns_p50",
        "switch_delta_calm_ns_p50",
        "switch_delta_ns_p25",
        "switch_delta_ns_p50",
        "switch_delta_ns_p75",
        "switch_delta_unsampled_ns_p50",
        "switches_per_s",
    ];

    fn runs(hook: Hook, count: u64) -> Runs {
        Runs {
            hook,
            id: 1,
            count,
            time: Duration::from_nanos(50 * count),
            translated_bytes: 800,
            jited_bytes: 500,
        }
    }

    #[test]
    fn the_object_is_flat_and_has_the_keys_that_are_followed() {
        let mut report = AgentOverheadReport::default();
        report.put_programs("", &[runs(Hook::SchedSwitch, 10), runs(Hook::SchedWakeup, 20)]);
        let object = serde_json::to_value(&report).unwrap();
        let object = object.as_object().unwrap();
        let missing: Vec<_> = KEYS.iter().filter(|key| !object.contains_key(**key)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert!(
            object
                .iter()
                .all(|(key, value)| value.is_number() || key == "workload"),
            "{object:?}"
        );
    }

    #[test]
    fn programs_that_did_not_run_have_no_figures() {
        let mut report = AgentOverheadReport::default();
        report.put_programs(
            "hash_",
            &[runs(Hook::SchedSwitch, 10), runs(Hook::SchedWakeupNew, 0)],
        );
        let found: Vec<_> = report
            .programs
            .iter()
            .map(|(key, value)| (key.as_str(), *value))
            .collect();
        let right = [
            ("prog_jited_bytes_hash_sched_switch", 500.0),
            ("prog_ns_hash_sched_switch", 50.0),
            ("prog_runs_hash_sched_switch", 10.0),
        ];
        assert_eq!(found, right);
    }
}
