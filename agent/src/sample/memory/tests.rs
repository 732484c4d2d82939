//! Parsers on recorded text, and what counts as pressure of the node.

use super::*;

const MEMINFO: &str = "MemTotal:       24684096 kB\nMemFree:        19151732 kB\nMemAvailable:   23467352 kB\n\
    Buffers:           35356 kB\nSwapCached:          100 kB\nActive:          1365960 kB\n\
    Active(file):    1364380 kB\nSwapTotal:       1000 kB\nSwapFree:           300 kB\n\
    HugePages_Total:       4\nHugepagesize:       2048 kB\nHugetlb:         1056768 kB\n";
const VMSTAT: &str = "workingset_refault_anon 10\nworkingset_refault_file 2160338\npswpin 0\npswpout 7\n\
    pgscan_kswapd 5\npgscan_direct 6\npgscan_direct_throttle 99\noom_kill 2\n";

const KIB: u64 = 1_024;
const PERIOD: Duration = Duration::from_secs(10);

fn counters(scanned: u64, oom_kills: u64) -> MemoryCounters {
    MemoryCounters {
        vm: Vmstat {
            scanned,
            oom_kills,
            ..Vmstat::default()
        },
        ..MemoryCounters::default()
    }
}

#[test]
fn real_use_leaves_out_cache_and_huge_pages_and_adds_swap() {
    let meminfo = Meminfo::parse(MEMINFO).unwrap();
    assert_eq!(meminfo.hugetlb, 1_056_768 * KIB);
    assert_eq!(meminfo.capacity(), (24_684_096 - 1_056_768) * KIB);
    let used = (24_684_096 - 23_467_352) + 1_364_380 / 2 - 1_056_768 + (1_000 - 300 - 100);
    assert_eq!(meminfo.used(), used * KIB);
}

#[test]
fn the_kubelet_counts_active_page_cache_as_used() {
    let told = format!("{MEMINFO}AnonPages: 2000000 kB\nCached: 9000000 kB\nInactive(file): 7000000 kB\n");
    let meminfo = Meminfo::parse(&told).unwrap();
    assert_eq!(
        meminfo.kubelet_used,
        Some((2_000_000 + 9_000_000 + 35_356 - 7_000_000) * KIB)
    );
    let by_kubelet = 24_684_096 - 4_035_356;
    assert_eq!(
        meminfo.available_to_pods(),
        by_kubelet * KIB,
        "less than MemAvailable"
    );
    let plenty = Meminfo {
        kubelet_used: Some(0),
        ..meminfo
    };
    assert_eq!(plenty.available_to_pods(), 23_467_352 * KIB);
    let older = Meminfo::parse(MEMINFO).unwrap();
    assert_eq!(
        (older.kubelet_used, older.available_to_pods()),
        (None, 23_467_352 * KIB)
    );
}

#[test]
fn kernel_that_does_not_sum_up_huge_pages_has_its_default_pool_counted() {
    let old = MEMINFO.replace("Hugetlb:", "Hugetlb_not_yet:");
    assert_eq!(Meminfo::parse(&old).unwrap().hugetlb, 4 * 2_048 * KIB);
}

#[test]
fn use_of_the_system_counts_beyond_what_is_reserved_for_it() {
    let meminfo = Meminfo {
        total: 1_000,
        available: 400,
        ..Meminfo::default()
    };
    assert_eq!(meminfo.charged(100, 900), 500, "600 used, 100 reserved");
    assert_eq!(meminfo.charged(550, 900), 550, "pods use more than that");
    assert_eq!(meminfo.charged(0, 100), 0, "more is reserved than used");
}

#[test]
fn malformed_meminfo_names_the_field() {
    let missing = MEMINFO.replace("MemAvailable", "MemObtainable");
    assert_eq!(Meminfo::parse(&missing), Err(Fault::missing("MemAvailable")));
    let broken = MEMINFO.replace("24684096 kB", "plenty kB");
    assert_eq!(
        Meminfo::parse(&broken),
        Err(Fault {
            field: "MemTotal".into(),
            found: "plenty".into()
        })
    );
    assert!(Meminfo::parse("").is_err());
}

#[test]
fn vmstat_sums_what_belongs_together() {
    let expected = Vmstat {
        scanned: 11,
        refaulted: 2_160_348,
        swapped_out: 7,
        oom_kills: 2,
    };
    assert_eq!(Vmstat::parse(VMSTAT), Ok(expected));
    assert_eq!(
        Vmstat::parse("nothing 1\n"),
        Ok(Vmstat::default()),
        "a signal the kernel lacks stays at zero"
    );
    let fault = Vmstat::parse("oom_kill many\n").unwrap_err();
    assert_eq!(
        fault,
        Fault {
            field: "oom_kill".into(),
            found: "many".into()
        }
    );
}

#[test]
fn oom_kill_is_the_nodes_own_only_with_global_reclaim_and_no_limit_hit() {
    let calm = counters(5, 1);
    assert_eq!(
        counters(5, 2).since(&calm, PERIOD).node_ooms,
        0,
        "a pod at its limit, nothing reclaimed"
    );
    assert_eq!(counters(9, 2).since(&calm, PERIOD).node_ooms, 1);

    let limit = |with_below| {
        let ooms = Ooms { own: 0, with_below };
        Some(LimitEvents {
            hits: 0,
            ooms: Some(ooms),
        })
    };
    let at_limit = |with_below| MemoryCounters {
        limit: limit(with_below),
        ..counters(9, 2)
    };
    let before = MemoryCounters {
        limit: limit(0),
        ..calm
    };
    assert_eq!(at_limit(1).since(&before, PERIOD).node_ooms, 0);
    assert_eq!(at_limit(0).since(&before, PERIOD).node_ooms, 1);
}

#[test]
fn kill_where_no_limit_has_a_count_is_kubepods_own_while_it_is_at_its_limit() {
    let version_1 = |hits, scanned, oom_kills| MemoryCounters {
        limit: Some(LimitEvents { hits, ooms: None }),
        ..counters(scanned, oom_kills)
    };
    let calm = version_1(7, 5, 1);
    let ooms = |after: MemoryCounters| {
        let pressure = after.since(&calm, PERIOD);
        (pressure.limit_ooms, pressure.node_ooms)
    };
    assert_eq!(ooms(version_1(7, 5, 2)), (0, 0), "a pod at its limit");
    assert_eq!(ooms(version_1(9, 5, 3)), (2, 0));
    assert_eq!(ooms(version_1(9, 6, 3)), (2, 0), "not counted twice");
    assert_eq!(ooms(version_1(9, 6, 1)), (0, 0));
    assert_eq!(ooms(version_1(7, 6, 2)), (0, 1));
}

#[test]
fn pressure_is_the_larger_of_node_and_kubepods() {
    let psi = |some_us, full_us| Some(Psi { some_us, full_us });
    let before = MemoryCounters {
        node: psi(0, 0),
        kubepods: psi(0, 0),
        ..MemoryCounters::default()
    };
    let after = MemoryCounters {
        node: psi(100_000, 50_000),
        kubepods: psi(300_000, 10_000),
        ..before
    };
    let pressure = after.since(&before, PERIOD);
    assert_eq!((pressure.some_ppm, pressure.full_ppm), (30_000, 5_000));
    let without = MemoryCounters {
        kubepods: None,
        ..after
    };
    assert_eq!(without.since(&before, PERIOD).some_ppm, 10_000);
}

#[test]
fn rates_are_megabytes_per_second() {
    let before = MemoryCounters::default();
    let pages = 2_000_000_000 / page_bytes();
    let vm = Vmstat {
        refaulted: pages,
        swapped_out: pages / 2,
        ..Vmstat::default()
    };
    let pressure = MemoryCounters { vm, ..before }.since(&before, PERIOD);
    assert_eq!(
        (pressure.refault_mb_s, pressure.swap_out_mb_s),
        (199, 99),
        "rounded down"
    );
}

#[test]
fn running_machine_is_readable() {
    let files = Procfs::default();
    let meminfo = files.meminfo().unwrap();
    assert!(
        meminfo.used() > 0 && meminfo.used() < meminfo.total,
        "{meminfo:?}"
    );
    MemoryCounters::read(&files).unwrap();
}

#[test]
fn any_direct_reclaim_counts_as_a_millisecond_at_least() {
    let at = |direct_reclaim_ns: u64| MemoryCounters {
        direct_reclaim_ns,
        ..MemoryCounters::default()
    };
    let stall = |ns: u64| {
        at(5 + ns)
            .since(&at(5), Duration::from_secs(10))
            .direct_reclaim_ms
    };
    assert_eq!([stall(0), stall(1), stall(1_000_001)], [0, 1, 2]);
}

#[test]
fn a_victim_that_was_ending_anyway_is_an_oom_kill_of_the_node() {
    let counters = |scanned, victims| MemoryCounters {
        vm: Vmstat {
            scanned,
            ..Vmstat::default()
        },
        victims,
        ..MemoryCounters::default()
    };
    let ooms = |now: &MemoryCounters| now.since(&counters(0, 3), Duration::from_secs(1)).node_ooms;
    assert_eq!(ooms(&counters(10, 4)), 1);
    assert_eq!(
        ooms(&counters(0, 4)),
        0,
        "within a limit: the machine reclaimed nothing"
    );
}
