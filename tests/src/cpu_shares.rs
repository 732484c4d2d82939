//! CPU time of some processes, and of everything else on the machine, including the hypervisor.

use std::{fs, time::Instant};

use headroom_agent::sample::procfs::Procfs;
use rustix::param::clock_ticks_per_second;

/// Counters of the machine and of some processes at one time.
#[derive(Debug)]
pub struct CpuShares {
    began: Instant,
    busy_ns: u64,
    processes: Vec<(u32, u64)>,
}

impl CpuShares {
    /// Starts to count for these processes, which must outlive the counter.
    pub fn start(pids: &[u32]) -> Self {
        Self {
            began: Instant::now(),
            busy_ns: busy_ns(),
            processes: pids.iter().map(|&pid| (pid, used_ns(pid))).collect(),
        }
    }

    /// Use of each process since the start, in the given order, and use of everything else, in milli-cores.
    pub fn milli(&self) -> (Vec<u64>, u64) {
        let length = self.began.elapsed().as_nanos().max(1);
        let milli = |ns: u64| u64::try_from(u128::from(ns) * 1000 / length).expect("fewer CPUs than that");
        let used = |&(pid, before): &(u32, u64)| used_ns(pid).saturating_sub(before);
        let each: Vec<u64> = self.processes.iter().map(used).collect();
        let all = busy_ns().saturating_sub(self.busy_ns);
        let others = all.saturating_sub(each.iter().sum());
        (each.into_iter().map(milli).collect(), milli(others))
    }
}

/// CPU time since boot in which the machine's CPUs were busy or stolen.
fn busy_ns() -> u64 {
    let files = Procfs::default();
    let online = files.online().expect("online CPUs");
    files.stat().expect("CPU times").total(&online).busy_ns
}

/// CPU time of all threads of a process, including ended ones: fields 14 and 15 of proc_pid_stat(5).
fn used_ns(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process is there");
    let (_, after_name) = text.rsplit_once(')').expect("a name in parentheses");
    let fields = after_name.split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.map(|field| field.parse::<u64>().expect("ticks")).sum();
    ticks * (1_000_000_000 / clock_ticks_per_second())
}
