//! How much of the machine's CPU time some processes use, and how much all others take, the hypervisor among them.

use std::{fs, time::Instant};

use headroom_agent::sample::procfs::Procfs;
use rustix::param::clock_ticks_per_second;

/// Accounts of the machine and of some processes, as they were at one moment.
#[derive(Debug)]
pub struct CpuShares {
    began: Instant,
    busy_ns: u64,
    processes: Vec<(u32, u64)>,
}

impl CpuShares {
    /// Begins to count for these processes, all of which must outlive it.
    pub fn start(pids: &[u32]) -> Self {
        Self {
            began: Instant::now(),
            busy_ns: busy_ns(),
            processes: pids.iter().map(|&pid| (pid, used_ns(pid))).collect(),
        }
    }

    /// What each process used since the start, in the order given then, and what all others took, in milli-cores.
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

/// CPU time that the machine's CPUs were not idle or were somebody else's, since boot.
fn busy_ns() -> u64 {
    let files = Procfs::default();
    let online = files.online().expect("online CPUs");
    files.stat().expect("CPU times").total(&online).busy_ns
}

/// CPU time that all threads of a process have used, the ended ones, too: fields 14 and 15 of proc_pid_stat(5).
fn used_ns(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process is there");
    let (_, after_name) = text.rsplit_once(')').expect("a name in parentheses");
    let fields = after_name.split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.map(|field| field.parse::<u64>().expect("ticks")).sum();
    ticks * (1_000_000_000 / clock_ticks_per_second())
}
