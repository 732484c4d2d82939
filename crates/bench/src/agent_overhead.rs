//! `bench agent-overhead`: the agent's cost for a machine, at every context switch and as a process. Its kernel
//! programs are compared with no program, with empty programs and with a common design that uses a hash.

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
    resident::{Cost, ResidentWatch, Watched},
};
use super::{
    declaration::{BenchResult, Row, no_flags},
    target::FigureTarget,
};

/// The bench.
pub static ROW: Row = Row {
    name: "agent-overhead",
    about: "The agent on this kernel: nanoseconds per context switch, percent of a CPU, memory, wake-ups, bytes. Needs root.",
    flags: no_flags,
    run: |_| BenchResult::new(&run()?, Vec::new()),
};

/// How long the process is watched, unless more is said.
const WATCHED: Duration = Duration::from_secs(20);
/// How long at rest: four reports.
const AT_REST: Duration = Duration::from_secs(60);
/// Pods of a node that is neither small nor full, and of the others beside it.
const PODS: usize = 100;
const FEW_PODS: usize = 10;
const MANY_PODS: usize = 500;
/// More than any kubelet takes.
const TOO_MANY_PODS: usize = 1_000;
/// Rates of switches that the share of a CPU is given for, beside as many as the machine can do.
const SLOW: u32 = 10_000;
const FAST: u32 = 100_000;

/// The figures. `*_ns_per_switch_*` and `*_delta_*` are CPU time of two threads per switch; deltas are taken turn by
/// turn. Shares are in percent of one CPU.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AgentOverheadReport {
    /// What was measured and how.
    pub workload: String,
    /// Turns behind all figures per switch.
    pub pairs: usize,
    /// Switches per second on the wall, programs attached.
    pub switches_per_s: f64,
    /// Without our programs.
    pub detached_ns_per_switch_p50: f64,
    /// With them as while CPUs are nearly full, one task in eight sampled.
    pub attached_ns_per_switch_p50: f64,
    /// As on all other nodes, without wake-ups, less detached.
    pub switch_delta_calm_ns_p25: f64,
    /// Without wake-ups less detached.
    pub switch_delta_calm_ns_p50: f64,
    /// Without wake-ups less detached.
    pub switch_delta_calm_ns_p75: f64,
    /// Attached less detached.
    pub switch_delta_ns_p25: f64,
    /// Attached less detached.
    pub switch_delta_ns_p50: f64,
    /// Attached less detached.
    pub switch_delta_ns_p75: f64,
    /// The same with hardly any task sampled.
    pub switch_delta_unsampled_ns_p50: f64,
    /// The same with every task sampled.
    pub switch_delta_all_sampled_ns_p50: f64,
    /// An empty program at `sched_switch` less detached.
    pub empty_delta_ns_p25: f64,
    /// An empty program less detached.
    pub empty_delta_ns_p50: f64,
    /// An empty program less detached.
    pub empty_delta_ns_p75: f64,
    /// An empty program at each hook of run-queue latency less detached: what it costs to be called.
    pub empty_hooks_delta_ns_p50: f64,
    /// Run-queue latency of all tasks with a hash and `bpf_probe_read_kernel` less detached.
    pub hash_shape_delta_ns_p25: f64,
    /// The hash less detached.
    pub hash_shape_delta_ns_p50: f64,
    /// The hash less detached.
    pub hash_shape_delta_ns_p75: f64,
    /// `switch_delta_ns_p50` in terms of `hash_shape_delta_ns_p50`.
    pub switch_delta_per_hash_shape: f64,
    /// Detached less detached: what is noise.
    pub noise_delta_ns_p25: f64,
    /// Detached less detached.
    pub noise_delta_ns_p50: f64,
    /// Detached less detached.
    pub noise_delta_ns_p75: f64,
    /// The agent at 10,000 switches per second: the process, and `switch_delta_calm_ns_p50` at each switch.
    pub cpu_pct_10k: f64,
    /// At 100,000.
    pub cpu_pct_100k: f64,
    /// At `switches_per_s_max`, with `switch_delta_ns_p50` at each switch.
    pub cpu_pct_max: f64,
    /// Switches per second of the machine when each CPU does as many as it can.
    pub switches_per_s_max: f64,
    /// The process alone, polls, estimates, reports and its admin port, with 100 pods and no load of ours.
    pub process_cpu_pct: f64,
    /// With 10 pods.
    pub process_cpu_pct_10_pods: f64,
    /// With 500 pods.
    pub process_cpu_pct_500_pods: f64,
    /// With 500 pods and durations compressed 300-fold: all pods are read every second.
    pub process_cpu_pct_500_pods_demo: f64,
    /// With 100 pods at 10,000 switches per second.
    pub process_cpu_pct_10k: f64,
    /// At 100,000.
    pub process_cpu_pct_100k: f64,
    /// At `switches_per_s_max`.
    pub process_cpu_pct_max: f64,
    /// Time in the programs at 10,000 switches per second as the kernel counts it, its own counting included.
    pub programs_cpu_pct_10k: f64,
    /// At 100,000.
    pub programs_cpu_pct_100k: f64,
    /// At `switches_per_s_max`.
    pub programs_cpu_pct_max: f64,
    /// What reading the counters of 256 CPUs takes while they are nearly full: maps of that size, with a slot in each window.
    pub counters_cpu_pct_256_cpus: f64,
    /// The same on a calm node.
    pub counters_cpu_pct_256_cpus_calm: f64,
    /// The most memory of the process until it has measured and reported for the first time.
    pub rss_start_mib: f64,
    /// Its memory a minute later, with 100 pods.
    pub rss_mib: f64,
    /// With 500 pods.
    pub rss_mib_500_pods: f64,
    /// With 1,000 pods.
    pub rss_mib_1000_pods: f64,
    /// The most it ever had.
    pub peak_rss_mib: f64,
    /// Milliseconds from the start of the process to its first report, with its kernel programs.
    pub first_hint_full_ms_p50: f64,
    /// The longest of fifteen starts.
    pub first_hint_full_ms_max: f64,
    /// The same by procfs alone.
    pub first_hint_proc_ms_p50: f64,
    /// The longest of fifteen starts.
    pub first_hint_proc_ms_max: f64,
    /// Times per second that one of its threads is woken.
    pub wakeups_per_s: f64,
    /// What TCP carries to a hint server, with 100 pods.
    pub wire_up_bytes_per_s: f64,
    /// What TCP carries back.
    pub wire_down_bytes_per_s: f64,
    /// What TCP carries for one report on 500 pods that are all trusted.
    pub wire_bytes_per_report_500_pods: f64,
    /// `prog_ns_*`, time of a run as the kernel counts it, its own counting included; `prog_runs_*`, the runs behind
    /// it; `prog_jited_bytes_*`, the program's machine code.
    #[serde(flatten)]
    pub programs: BTreeMap<String, f64>,
}

/// Measures. Needs root, and takes some seven minutes.
///
/// # Errors
/// If the kernel programs cannot be had, the threads not be pinned, or the agent not be started.
pub fn run() -> Result<AgentOverheadReport> {
    let program = resident::build()?;
    let cpu = last_cpu()?;
    let mut report = AgentOverheadReport {
        workload: format!(
            "two threads on cpu {cpu} pass a byte through pipes, one wake-up per switch; rounds of {} ms in an order \
             drawn for each turn (seed {SEED:#x}); 1 task in {} sampled; program time over {COUNTED} other rounds of \
             each and all CPUs; an agent process with {PODS} pods, watched for {} s and more",
            ROUND.as_millis(),
            1 << headroom_agent::sample::ring::SAMPLING_SHIFT,
            WATCHED.as_secs(),
        ),
        ..AgentOverheadReport::default()
    };
    report.put_turns(&Turns::run(cpu)?);
    print("rounds in which the kernel counts the programs' time");
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

    /// Figures of the programs that ran; those at hooks of rare events did not.
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
        print("maps of 256 CPUs, read as by an agent");
        let ManyCpus { close_pct, calm_pct } = ManyCpus::measure()?;
        (
            self.counters_cpu_pct_256_cpus,
            self.counters_cpu_pct_256_cpus_calm,
        ) = (close_pct, calm_pct);
        Ok(())
    }

    fn put_first_hints(&mut self, program: &Path) -> Result<()> {
        print("first reports of agents that were just started");
        let (full, proc) = (
            FirstHint::measure(program, "ebpf")?,
            FirstHint::measure(program, "procfs")?,
        );
        (self.first_hint_full_ms_p50, self.first_hint_full_ms_max) = (full.p50_ms, full.max_ms);
        (self.first_hint_proc_ms_p50, self.first_hint_proc_ms_max) = (proc.p50_ms, proc.max_ms);
        Ok(())
    }

    fn put_process(&mut self, program: &Path) -> Result<()> {
        let rest = |length| ResidentWatch { pace: None, length };
        let under = |pace| ResidentWatch {
            pace: Some(pace),
            length: WATCHED,
        };
        let production =
            |pods, stretches: &[ResidentWatch]| watch(program, Profile::Production, pods, stretches);

        let few = production(FEW_PODS, &[rest(WATCHED)])?.last()?;
        let stretches = [
            rest(AT_REST),
            under(Pace::PerSecond(SLOW)),
            under(Pace::PerSecond(FAST)),
            under(Pace::Unbounded),
        ];
        let usual = production(PODS, &stretches)?;
        let many = production(MANY_PODS, &[rest(WATCHED)])?.last()?;
        let too_many = production(TOO_MANY_PODS, &[rest(WATCHED)])?.last()?;
        let compressed = watch(program, Profile::Demo, MANY_PODS, &[rest(WATCHED)])?.last()?;
        let [at_rest, slow, fast, max] = usual.costs.as_slice() else {
            anyhow::bail!("the agent was not watched in {} stretches", stretches.len());
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

    /// What the figures should be.
    fn targets(&self) -> [FigureTarget; 10] {
        let target = |figure, measured, must, stretch| FigureTarget {
            figure,
            measured,
            must,
            stretch,
        };
        [
            target(
                "switch_delta_calm_ns_p50",
                self.switch_delta_calm_ns_p50,
                35.0,
                None,
            ),
            target("switch_delta_ns_p50", self.switch_delta_ns_p50, 80.0, Some(40.0)),
            target(
                "switch_delta_per_hash_shape",
                self.switch_delta_per_hash_shape,
                1.0 / 3.0,
                None,
            ),
            target("cpu_pct_100k", self.cpu_pct_100k, 0.5, None),
            target(
                "counters_cpu_pct_256_cpus",
                self.counters_cpu_pct_256_cpus,
                0.5,
                None,
            ),
            target("rss_mib", self.rss_mib, 12.0, None),
            target("rss_mib_1000_pods", self.rss_mib_1000_pods, 20.0, None),
            target("rss_start_mib", self.rss_start_mib, 20.0, None),
            target(
                "first_hint_full_ms_max",
                self.first_hint_full_ms_max,
                2_000.0,
                None,
            ),
            target(
                "first_hint_proc_ms_max",
                self.first_hint_proc_ms_max,
                1_000.0,
                None,
            ),
        ]
    }
}

impl Watched {
    /// The cost of the last stretch.
    fn last(&self) -> Result<Cost> {
        self.costs
            .last()
            .copied()
            .context("an agent that was not watched")
    }
}

fn watch(program: &Path, timing: Profile, pods: usize, stretches: &[ResidentWatch]) -> Result<Watched> {
    print(format!(
        "an agent process with {pods} pods and {timing} timing, watched {} times",
        stretches.len()
    ));
    resident::watch(program, timing, pods, stretches)
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52 runs")]
fn as_float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use headroom_agent::kernel::probe::Hook;

    use super::*;

    /// What is read by those who follow the figures from release to release.
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
