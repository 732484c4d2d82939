//! Test fixtures: polls and samples of a made-up machine with four CPUs and 8 GiB, for the tests of `decide`.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use headroom_agent_ebpf::ring::WINDOW_NS;

use crate::{
    gather::{MemoryUse, Sample},
    sample::{
        Counts, Origin, Poll, Window, Windows,
        cgroup::{Driver, KubepodsPlace},
        clock::Clocks,
        memory::{Meminfo, MemoryCounters, Vmstat},
        psi::Psi,
    },
};

pub(crate) const POLL: Duration = Duration::from_millis(250);
pub(crate) const QUARTER: u64 = 250_000_000;
pub(crate) const CPUS: u32 = 4;
/// Memory of the machine, in bytes.
pub(crate) const MEMORY: u64 = 8 << 30;

/// A poll at the end of that quarter of a second since boot, over which this much was busy.
pub(crate) fn poll(quarter: u64, busy_milli: u64) -> Poll {
    let now = quarter * QUARTER;
    let window = Window {
        busy_ns: WINDOW_NS * busy_milli / 1000,
        shared_busy_ns: WINDOW_NS * busy_milli / 1000,
        wait_ns: 0,
    };
    let first = (now - QUARTER).div_ceil(WINDOW_NS);
    Poll {
        at: Clocks {
            monotonic_ns: now,
            boottime_ns: now,
        },
        origin: Origin::Ebpf,
        online: CPUS,
        cpus: CPUS,
        shared_cpus: CPUS,
        counts: Counts {
            from_ns: now - QUARTER,
            until_ns: now,
            busy_ns: QUARTER * busy_milli / 1000,
            shared_busy_ns: QUARTER * busy_milli / 1000,
            windows: Windows {
                first,
                windows: vec![window; usize::try_from(now.div_ceil(WINDOW_NS) - first).unwrap()],
            },
            switches: 250,
            ..Counts::default()
        },
        stat: None,
    }
}

/// The pods' cgroups of a kubelet with systemd, next to these trees.
pub(crate) fn kubepods(leftovers: &[&str]) -> KubepodsPlace {
    KubepodsPlace {
        path: "/sys/fs/cgroup/kubepods.slice".into(),
        driver: Driver::Systemd,
        leftovers: leftovers.iter().map(Into::into).collect(),
    }
}

/// A sample at that time: as [`poll`], with a quarter of memory in use and no pressure.
pub(crate) fn sample(quarter: u64, busy_milli: u64) -> Sample {
    let poll = poll(quarter, busy_milli);
    let node = Meminfo {
        total: MEMORY,
        available: MEMORY / 4 * 3,
        ..Meminfo::default()
    };
    Sample {
        at: poll.at,
        poll: Some(poll),
        probe_state: None,
        event_counters: None,
        cpu_pressure: Some(Psi::default()),
        memory_pressure: MemoryCounters {
            vm: Some(Vmstat::default()),
            ..MemoryCounters::default()
        },
        meminfo: Some(node),
        memory: Some(MemoryUse {
            node,
            working_set: Some(0),
        }),
        pods: None,
        pinned_use: None,
        runs: None,
        plain: None,
        failing: BTreeSet::new(),
        empty_pods: None,
        kubepods: Some(Arc::new(kubepods(&[]))),
        knows_shared_cpus: true,
    }
}
