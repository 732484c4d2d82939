//! Tests of the memory parsers on recorded text, and of the rules for memory pressure of the node.

use super::*;

const MEMINFO: &str = "MemTotal:       24684096 kB\nMemFree:        19151732 kB\nMemAvailable:   23467352 kB\n\
    Buffers:           35356 kB\nSwapCached:          100 kB\nActive:          1365960 kB\n\
    Active(file):    1364380 kB\nSwapTotal:       1000 kB\nSwapFree:           300 kB\n\
    HugePages_Total:       4\nHugepagesize:       2048 kB\nHugetlb:         1056768 kB\n";
const VMSTAT: &str = "workingset_refault_anon 10\nworkingset_refault_file 2160338\npswpin 0\npswpout 7\n\
    pgscan_kswapd 5\nallocstall_dma 0\nallocstall_normal 3\nallocstall_movable 4\npgscan_direct 6\npgscan_direct_throttle 99\noom_kill 2\n";

const KIB: u64 = 1_024;
const PERIOD: Duration = Duration::from_secs(10);

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
    assert_eq!(Meminfo::parse(&missing), Err(FieldError::missing("MemAvailable")));
    let broken = MEMINFO.replace("24684096 kB", "plenty kB");
    assert_eq!(
        Meminfo::parse(&broken),
        Err(FieldError {
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
        stalls: 7,
        refaulted: 2_160_348,
        swapped_out: 7,
        oom_kills: 2,
    };
    assert_eq!(Vmstat::parse(VMSTAT), Ok(expected));
    assert!(
        Vmstat::parse("\n").is_err(),
        "not a machine on which nothing happened"
    );
    assert_eq!(
        Vmstat::parse("allocstall 9\n").unwrap().stalls,
        9,
        "before Linux 4.10"
    );
    assert_eq!(
        Vmstat::parse("nothing 1\n"),
        Ok(Vmstat::default()),
        "a signal the kernel lacks stays at zero"
    );
    let fault = Vmstat::parse("oom_kill many\n").unwrap_err();
    assert_eq!(
        fault,
        FieldError {
            field: "oom_kill".into(),
            found: "many".into()
        }
    );
}

#[test]
fn kills_are_as_they_were_judged() {
    let with = |node, limit| MemoryCounters {
        kills: Kills { node, limit },
        ..MemoryCounters::default()
    };
    let pressure = with(3, 5).since(&with(1, 4), PERIOD);
    assert_eq!((pressure.node_ooms, pressure.limit_ooms), (2, 1));
}

#[test]
fn pressure_is_the_larger_of_node_and_of_kubepods_at_its_limit() {
    let psi = |some_us, full_us| Some(Psi { some_us, full_us });
    let limit = |hits| Some(LimitEvents { hits, ooms: None });
    let before = MemoryCounters {
        node: psi(0, 0),
        kubepods: psi(0, 0),
        limit: limit(3),
        ..MemoryCounters::default()
    };
    let after = MemoryCounters {
        node: psi(100_000, 50_000),
        kubepods: psi(300_000, 10_000),
        limit: limit(4),
        ..before
    };
    let pressure = after.since(&before, PERIOD);
    assert_eq!((pressure.some_ppm, pressure.full_ppm), (30_000, 5_000));
    let without = MemoryCounters {
        kubepods: None,
        ..after
    };
    assert_eq!(without.since(&before, PERIOD).some_ppm, 10_000);
    let within = MemoryCounters {
        limit: limit(3),
        ..after
    };
    let pressure = within.since(&before, PERIOD);
    let by_pods = "pods at limits of their own";
    assert_eq!(
        (pressure.some_ppm, pressure.full_ppm),
        (10_000, 5_000),
        "{by_pods}"
    );
}

#[test]
fn kswapd_tells_of_a_shortage_only_where_what_it_took_is_wanted_again() {
    let before = MemoryCounters {
        vm: Some(Vmstat::default()),
        ..MemoryCounters::default()
    };
    let has_global_reclaim = |vm| {
        let vm = Some(vm);
        MemoryCounters { vm, ..before }
            .since(&before, PERIOD)
            .has_global_reclaim
    };
    let scanned = Vmstat {
        scanned: 100_000,
        ..Vmstat::default()
    };
    assert!(!has_global_reclaim(scanned));
    let pages = 20_000_000 / page_bytes();
    for shortage in [
        Vmstat { stalls: 1, ..scanned },
        Vmstat {
            refaulted: pages,
            ..scanned
        },
        Vmstat {
            swapped_out: pages,
            ..scanned
        },
    ] {
        assert!(has_global_reclaim(shortage), "{shortage:?}");
    }
    let in_a_pod = Vmstat {
        refaulted: pages,
        ..Vmstat::default()
    };
    assert!(
        !has_global_reclaim(in_a_pod),
        "reclaimed at its limit, and nowhere else"
    );
}

#[test]
fn tasks_that_reclaimed_for_less_time_than_any_pressure_brakes_tell_of_no_shortage() {
    let before = MemoryCounters {
        vm: Some(Vmstat::default()),
        ..MemoryCounters::default()
    };
    let after = |direct_reclaim_ns| MemoryCounters {
        vm: Some(Vmstat {
            stalls: 1,
            ..Vmstat::default()
        }),
        direct_reclaim_ns,
        ..before
    };
    let pressure = |reclaim_ns| after(reclaim_ns).since(&before, PERIOD);
    let hundredth = u64::try_from(PERIOD.as_nanos()).unwrap() / 100;
    assert!(pressure(hundredth).has_global_reclaim);
    let little = pressure(hundredth - 1);
    assert!(!little.has_global_reclaim, "the rest is pods at their own limits");
    assert!(little.direct_reclaim_ms > 0, "a row of its own");
    assert!(
        pressure(0).has_global_reclaim,
        "without the programs any is believed"
    );
}

#[test]
fn rates_are_megabytes_per_second() {
    let before = MemoryCounters {
        vm: Some(Vmstat::default()),
        ..MemoryCounters::default()
    };
    let pages = 2_000_000_000 / page_bytes();
    let vm = Some(Vmstat {
        refaulted: pages,
        swapped_out: pages / 2,
        ..Vmstat::default()
    });
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
    files.vmstat().unwrap();
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
