//! Tests of the tables in docs/estimator.md#brakes: every row at its thresholds, and the time that each level stays.

use rstest::rstest;

use super::*;
use crate::estimate::Profile;

fn windows(sigma8_ppm: u32, runq_p99_us: u64) -> Pressure {
    Pressure {
        visibility: Visibility::ALL,
        cpu: CpuPressure {
            sigma8_ppm,
            runq_p99_us,
            // From pods at a CPU quota; no rule may read it while waits are measured.
            some_ppm: ALL,
            busy_ppm: ALL,
        },
        memory: MemoryPressure::default(),
    }
}

fn psi(some_ppm: u32, busy_ppm: u32) -> Pressure {
    Pressure {
        visibility: Visibility::PROCFS,
        cpu: CpuPressure {
            some_ppm,
            busy_ppm,
            ..CpuPressure::default()
        },
        memory: MemoryPressure::default(),
    }
}

/// From kernel programs without wait measurements, on a machine with pressure (PSI).
fn without_waits(sigma8_ppm: u32, some_ppm: u32, busy_ppm: u32) -> Pressure {
    Pressure {
        visibility: Visibility {
            waits: false,
            ..Visibility::ALL
        },
        cpu: CpuPressure {
            sigma8_ppm,
            some_ppm,
            busy_ppm,
            ..CpuPressure::default()
        },
        memory: MemoryPressure::default(),
    }
}

/// Like [`without_waits`], on a machine without pressure (PSI).
fn windows_alone(sigma8_ppm: u32) -> Pressure {
    let pressure = without_waits(sigma8_ppm, 0, 0);
    Pressure {
        visibility: Visibility {
            cpu_pressure: false,
            memory_pressure: false,
            ..pressure.visibility
        },
        ..pressure
    }
}

fn scarce(memory: MemoryPressure) -> Pressure {
    Pressure {
        memory,
        ..windows(0, 0)
    }
}

const MOST: u64 = u64::MAX;
const ALL: u32 = 1_000_000;

/// Every row for the CPU, from the kernel programs and from procfs, at and just below each threshold.
#[rstest]
#[case::no_idle_below(windows(19_999, MOST), Brake::Off)]
#[case::no_idle(windows(20_000, 0), Brake::Hold)]
#[case::contended_below(windows(99_999, MOST), Brake::Hold)]
#[case::contended_without_waits(windows(100_000, 9999), Brake::Hold)]
#[case::contended(windows(100_000, 10_000), Brake::Shed)]
#[case::saturated_below(windows(299_999, MOST), Brake::Shed)]
#[case::saturated_with_short_waits(windows(300_000, 24_999), Brake::Shed)]
#[case::saturated(windows(300_000, 25_000), Brake::Stop)]
#[case::waits_alone(windows(0, MOST), Brake::Off)]
#[case::psi_below_hold(psi(99_999, ALL), Brake::Off)]
#[case::psi_hold_while_not_busy(psi(100_000, 849_999), Brake::Off)]
#[case::psi_hold(psi(100_000, 850_000), Brake::Hold)]
#[case::psi_below_shed(psi(249_999, ALL), Brake::Hold)]
#[case::psi_shed_while_less_busy(psi(250_000, 899_999), Brake::Hold)]
#[case::psi_shed(psi(250_000, 900_000), Brake::Shed)]
#[case::psi_below_stop(psi(499_999, ALL), Brake::Shed)]
#[case::psi_stop_while_less_busy(psi(500_000, 949_999), Brake::Shed)]
#[case::psi_stop(psi(500_000, 950_000), Brake::Stop)]
#[case::psi_of_throttled_pods(psi(ALL, 849_999), Brake::Off)]
#[case::no_idle_and_few_waits(without_waits(ALL, 249_999, 849_999), Brake::Hold)]
#[case::some_windows_and_many_wait(without_waits(99_999, ALL, 0), Brake::Hold)]
#[case::windows_and_some_wait(without_waits(100_000, 250_000, 0), Brake::Shed)]
#[case::windows_and_most_wait(without_waits(300_000, 500_000, 0), Brake::Stop)]
#[case::throttled_pods_on_an_idle_node(without_waits(19_999, ALL, 849_999), Brake::Off)]
#[case::interrupts_that_windows_do_not_see(without_waits(0, 500_000, 950_000), Brake::Stop)]
fn cpu_rows_call_for_their_levels(#[case] pressure: Pressure, #[case] expected: Brake) {
    assert_eq!(cpu_call(&pressure).call.0, expected);
    // A single period sheds at most.
    let mut brakes = Brakes::new(&Profile::Production.timing());
    brakes.end_period(&pressure, Duration::from_secs(10));
    assert_eq!(brakes.level(Resource::Cpu), expected.min(Brake::Shed));
    assert_eq!(brakes.level(Resource::Memory), Brake::Off);
}

#[test]
fn windows_alone_hold_then_shed_then_stop() {
    let levels = |periods: &[Pressure]| {
        let mut brakes = Brakes::new(&Profile::Production.timing());
        let level = |(period, pressure): (u64, &Pressure)| {
            brakes.end_period(pressure, Duration::from_secs(10 * period));
            brakes.level(Resource::Cpu)
        };
        (1..).zip(periods).map(level).collect::<Vec<_>>()
    };
    let (hold, shed, stop) = (Brake::Hold, Brake::Shed, Brake::Stop);
    assert_eq!(levels(&[windows_alone(300_000); 4]), [hold, shed, stop, stop]);
    assert_eq!(levels(&[windows_alone(299_999); 4]), [hold, shed, shed, shed]);
    assert_eq!(levels(&[windows_alone(99_999); 4]), [hold; 4]);
    assert_eq!(levels(&[windows_alone(19_999); 4]), [Brake::Off; 4]);
    let calm = windows_alone(0);
    let one = windows_alone(ALL);
    assert_eq!(
        levels(&[one, calm, one, calm]),
        [hold; 4],
        "bursts of ten seconds"
    );
}

/// The machine was suspended for an hour: nothing was measured in that time.
#[test]
fn unmeasured_time_releases_no_brake() {
    let at = Duration::from_secs;
    let level_after = |unseen: u64, clean: u64| {
        let mut brakes = Brakes::new(&Profile::Production.timing());
        brakes.end_period(&windows(100_000, 10_000), at(10));
        brakes.prolong(at(unseen), at(10 + unseen));
        brakes.end_period(&windows(0, 0), at(10 + unseen + clean));
        brakes.level(Resource::Cpu)
    };
    assert_eq!(level_after(3600, 599), Brake::Shed);
    assert_eq!(level_after(3600, 600), Brake::Off);
    let mut released = Brakes::new(&Profile::Production.timing());
    released.end_period(&windows(100_000, 10_000), at(10));
    released.prolong(at(60), at(1000));
    released.end_period(&windows(0, 0), at(1001));
    assert_eq!(
        released.level(Resource::Cpu),
        Brake::Off,
        "it was released before"
    );
}

/// A tenant whose tasks switch so fast that waits are no longer measured gains nothing by it, with pressure or
/// without.
#[rstest]
#[case::with_pressure(without_waits(ALL, ALL, ALL))]
#[case::without_pressure(windows_alone(ALL))]
fn losing_waits_during_saturation_does_not_delay_the_stop(#[case] later: Pressure) {
    let mut brakes = Brakes::new(&Profile::Production.timing());
    let periods = [windows(ALL, 90_000), later, later];
    let levels = (1..).zip(periods).map(|(period, pressure)| {
        brakes.end_period(&pressure, Duration::from_secs(10 * period));
        brakes.level(Resource::Cpu)
    });
    assert_eq!(
        levels.collect::<Vec<_>>(),
        [Brake::Shed, Brake::Shed, Brake::Stop]
    );
}

#[test]
fn procfs_without_pressure_calls_for_nothing_and_is_not_amplified_for_it() {
    let blind = Pressure {
        visibility: Visibility {
            cpu_pressure: false,
            ..Visibility::PROCFS
        },
        ..psi(ALL, ALL)
    };
    assert_eq!(cpu_call(&blind).call, (Brake::Off, None));
    assert!(!blind.visibility.can_brake(Resource::Cpu));
}

#[rstest]
#[case::from_windows(windows(300_000, 25_000), windows(300_000, 24_999))]
#[case::from_psi(psi(500_000, 950_000), psi(500_000, 949_999))]
fn the_cpu_stops_after_three_periods_in_a_row(#[case] saturated: Pressure, #[case] less: Pressure) {
    let mut brakes = Brakes::new(&Profile::Production.timing());
    let periods = [saturated, saturated, less, saturated, saturated, saturated];
    let levels = (1..).zip(periods).map(|(period, pressure)| {
        brakes.end_period(&pressure, Duration::from_secs(10 * period));
        (brakes.level(Resource::Cpu), brakes.has_stopped(Resource::Cpu))
    });
    let (shed, stop) = ((Brake::Shed, false), (Brake::Stop, true));
    assert_eq!(levels.collect::<Vec<_>>(), [shed, shed, shed, shed, shed, stop]);
}

/// Row of the table for memory.
struct MemoryRow {
    reason: Reason,
    set: fn(&mut MemoryPressure, u32),
    /// True if it counts only with global reclaim or when kubepods reached its limit.
    is_gated: bool,
    /// Least values that call for L1, L2 and L3.
    from: [Option<u32>; 3],
}

const fn row(
    reason: Reason,
    is_gated: bool,
    from: [Option<u32>; 3],
    set: fn(&mut MemoryPressure, u32),
) -> MemoryRow {
    MemoryRow {
        reason,
        set,
        is_gated,
        from,
    }
}

/// All rows with rising values; the others have tests of their own.
const MEMORY_ROWS: [MemoryRow; 8] = [
    row(
        Reason::MemoryPsiSome,
        true,
        [Some(10_000), Some(50_000), None],
        |memory, ppm| memory.some_ppm = ppm,
    ),
    row(
        Reason::MemoryPsiFull,
        true,
        [None, Some(10_000), Some(50_000)],
        |memory, ppm| memory.full_ppm = ppm,
    ),
    row(
        Reason::DirectReclaim,
        false,
        [Some(1), Some(100), Some(1000)],
        |memory, ms| {
            memory.direct_reclaim_ms = ms.into();
        },
    ),
    row(
        Reason::Refaults,
        true,
        [Some(50), Some(200), None],
        |memory, mb_s| {
            memory.refault_mb_s = mb_s.into();
        },
    ),
    row(
        Reason::SwapOut,
        true,
        [Some(10), Some(100), None],
        |memory, mb_s| {
            memory.swap_out_mb_s = mb_s.into();
        },
    ),
    row(
        Reason::KubepodsLimit,
        false,
        [Some(1), None, None],
        |memory, hits| {
            memory.limit_hits = hits.into();
        },
    ),
    row(
        Reason::KubepodsOom,
        false,
        [None, None, Some(1)],
        |memory, kills| {
            memory.limit_ooms = kills.into();
        },
    ),
    row(Reason::Oom, false, [None, None, Some(1)], |memory, kills| {
        memory.node_ooms = kills.into();
    }),
];

impl MemoryRow {
    /// Level in the table, and its reason.
    fn expected(&self, value: u32) -> Call {
        let levels = [Brake::Hold, Brake::Shed, Brake::Stop];
        let mut rows = levels.into_iter().zip(self.from);
        let level = rows.rfind(|(_, from)| from.is_some_and(|from| value >= from));
        level.map_or((Brake::Off, None), |(level, _)| (level, Some(self.reason)))
    }

    /// Values at and around each threshold, and the extremes.
    fn values(&self) -> impl Iterator<Item = u32> {
        let around = self
            .from
            .into_iter()
            .flatten()
            .flat_map(|from| [from - 1, from, from + 1]);
        around.chain([0, u32::MAX])
    }

    fn call(&self, value: u32, base: MemoryPressure) -> Call {
        let mut memory = base;
        (self.set)(&mut memory, value);
        memory_call(&memory)
    }
}

#[test]
fn memory_rows_call_for_their_levels_at_their_thresholds() {
    let reclaiming = MemoryPressure {
        has_global_reclaim: true,
        ..MemoryPressure::default()
    };
    for row in &MEMORY_ROWS {
        for value in row.values() {
            assert_eq!(
                row.call(value, reclaiming),
                row.expected(value),
                "{:?} of {value}",
                row.reason
            );
        }
    }
}

#[test]
fn pod_level_signals_count_only_with_global_reclaim_or_a_limit_event() {
    let calm = MemoryPressure::default();
    let at_limit = MemoryPressure {
        limit_hits: 1,
        ..calm
    };
    for row in &MEMORY_ROWS {
        for value in row.values() {
            let expected = row.expected(value);
            let alone = if row.is_gated {
                (Brake::Off, None)
            } else {
                expected
            };
            assert_eq!(
                row.call(value, calm),
                alone,
                "{:?} of {value}, by itself",
                row.reason
            );
            if row.reason != Reason::KubepodsLimit {
                // The event is a row of its own, and holds.
                let level = expected.0.max(Brake::Hold);
                assert_eq!(
                    row.call(value, at_limit).0,
                    level,
                    "{:?} of {value}, at a limit",
                    row.reason
                );
            }
        }
    }
}

#[test]
fn the_strongest_row_counts() {
    let many = MemoryPressure {
        some_ppm: 10_000,
        refault_mb_s: 200,
        limit_hits: 3,
        spare_ppm: Some(9_999),
        has_global_reclaim: true,
        ..MemoryPressure::default()
    };
    assert_eq!(memory_call(&many), (Brake::Stop, Some(Reason::MemoryAvailable)));
    let spare_ppm = Some(50_000);
    assert_eq!(
        memory_call(&MemoryPressure { spare_ppm, ..many }),
        (Brake::Shed, Some(Reason::Refaults))
    );
}

/// Calls of each resource that reach each level; L3 of the CPU takes three such periods.
fn callers() -> [(Resource, Brake, Pressure); 8] {
    let memory = |direct_reclaim_ms, node_ooms, limit_ooms| {
        scarce(MemoryPressure {
            direct_reclaim_ms,
            limit_ooms,
            node_ooms,
            ..MemoryPressure::default()
        })
    };
    [
        (Resource::Cpu, Brake::Hold, windows(20_000, 0)),
        (Resource::Cpu, Brake::Shed, windows(100_000, 10_000)),
        (Resource::Cpu, Brake::Stop, windows(300_000, 25_000)),
        (Resource::Memory, Brake::Hold, memory(1, 0, 0)),
        (Resource::Memory, Brake::Shed, memory(100, 0, 0)),
        (Resource::Memory, Brake::Stop, memory(1000, 0, 0)),
        (Resource::Memory, Brake::Stop, memory(0, 1, 0)),
        (Resource::Memory, Brake::Stop, memory(0, 0, 1)),
    ]
}

/// Seconds that L1, L2, L3, and L3 after an OOM kill stay.
#[rstest]
#[case(Profile::Production, (300, 600, 1800, 3600))]
#[case(Profile::Demo, (2, 4, 6, 12))]
fn each_level_stays_for_its_time(
    #[case] profile: Profile,
    #[case] (hold, shed, stop, oom): (u64, u64, u64, u64),
) {
    let calm = windows(0, 0);
    for (resource, level, pressure) in callers() {
        let MemoryPressure {
            node_ooms,
            limit_ooms,
            ..
        } = pressure.memory;
        let seconds = match level {
            Brake::Off => 0,
            Brake::Hold => hold,
            Brake::Shed => shed,
            Brake::Stop if node_ooms + limit_ooms > 0 => oom,
            Brake::Stop => stop,
        };
        let mut brakes = Brakes::new(&profile.timing());
        let mut level_at = |at, pressure| {
            brakes.end_period(pressure, at);
            brakes.level(resource)
        };
        for second in [1, 2, 3] {
            level_at(Duration::from_secs(second), &pressure);
        }
        let released = Duration::from_secs(3 + seconds);
        let just_before = level_at(released.saturating_sub(Duration::from_nanos(1)), &calm);
        assert_eq!(
            (just_before, level_at(released, &calm)),
            (level, Brake::Off),
            "{pressure:?}"
        );
    }
}

#[test]
fn a_released_level_leaves_later_weaker_levels_active() {
    let mut brakes = Brakes::new(&Profile::Production.timing());
    let mut level_at = |second, pressure| {
        brakes.end_period(pressure, Duration::from_secs(second));
        brakes.level(Resource::Cpu)
    };
    let (hold, shed, calm) = (windows(20_000, 0), windows(100_000, 10_000), windows(0, 0));
    assert_eq!(level_at(10, &shed), Brake::Shed);
    assert_eq!(level_at(500, &hold), Brake::Shed);
    assert_eq!(level_at(609, &calm), Brake::Shed);
    assert_eq!(level_at(610, &calm), Brake::Hold);
    assert_eq!(level_at(800, &calm), Brake::Off);
}

#[test]
fn an_oom_kill_prolongs_the_stop_of_memory_only() {
    let mut brakes = Brakes::new(&Profile::Production.timing());
    let (saturated, calm) = (windows(300_000, 25_000), windows(0, 0));
    let killed = Pressure {
        memory: MemoryPressure {
            node_ooms: 1,
            ..MemoryPressure::default()
        },
        ..saturated
    };
    for (second, pressure) in [(1, &saturated), (2, &saturated), (3, &killed)] {
        brakes.end_period(pressure, Duration::from_secs(second));
    }
    let mut levels_at = |second| {
        brakes.end_period(&calm, Duration::from_secs(second));
        [brakes.level(Resource::Cpu), brakes.level(Resource::Memory)]
    };
    assert_eq!(levels_at(1802), [Brake::Stop, Brake::Stop]);
    assert_eq!(
        levels_at(1803),
        [Brake::Hold, Brake::Stop],
        "held by the stop of memory"
    );
    assert_eq!(levels_at(3603), [Brake::Off, Brake::Off]);
}

#[test]
fn a_duplicate_or_late_period_extends_nothing() {
    let mut brakes = Brakes::new(&Profile::Production.timing());
    let killed = scarce(MemoryPressure {
        node_ooms: 1,
        ..MemoryPressure::default()
    });
    let (saturated, calm) = (windows(300_000, 25_000), windows(0, 0));
    let at = Duration::from_secs;
    brakes.end_period(
        &Pressure {
            cpu: saturated.cpu,
            ..killed
        },
        at(100),
    );
    let (until, levels) = (
        brakes.until(),
        Resource::ALL.map(|resource| brakes.level(resource)),
    );
    assert_eq!(levels, [Brake::Shed, Brake::Stop]);
    for late in [100, 100, 99, 10, 0] {
        brakes.end_period(
            &Pressure {
                cpu: saturated.cpu,
                ..killed
            },
            at(late),
        );
        assert_eq!(brakes.until(), until, "told again for {late}");
        assert_eq!(
            Resource::ALL.map(|resource| brakes.level(resource)),
            levels,
            "{late}"
        );
    }
    // All brakes are released; a late period from before does not reactivate any.
    brakes.end_period(&calm, at(4000));
    for late in [100, 4000] {
        brakes.end_period(&calm, at(late));
        assert_eq!(
            Resource::ALL.map(|resource| brakes.level(resource)),
            [Brake::Off; 2],
            "{late}"
        );
    }
    brakes.end_period(&killed, at(200));
    assert_eq!(brakes.level(Resource::Memory), Brake::Off, "its hour is over");
    brakes.end_period(&killed, at(500));
    assert_eq!(
        brakes.level(Resource::Memory),
        Brake::Stop,
        "99 seconds of its hour are left"
    );
}

#[test]
fn the_cpu_stops_in_the_third_period_and_is_released_after_its_time() {
    let mut brakes = Brakes::new(&Profile::Demo.timing());
    let mut level_at = |second, pressure| {
        brakes.end_period(&pressure, Duration::from_secs(second));
        brakes.level(Resource::Cpu)
    };
    let saturated = windows(900_000, 90_000);
    let levels = [1, 2, 3].map(|second| level_at(second, saturated));
    assert_eq!(levels, [Brake::Shed, Brake::Shed, Brake::Stop]);
    assert_eq!(level_at(8, windows(0, 0)), Brake::Stop);
    assert_eq!(level_at(9, windows(0, 0)), Brake::Off);
}

#[test]
fn a_pod_at_its_own_limit_does_not_brake_the_node() {
    let pod_at_limit = MemoryPressure {
        some_ppm: 900_000,
        refault_mb_s: 999,
        ..MemoryPressure::default()
    };
    assert_eq!(memory_call(&pod_at_limit).0, Brake::Off);
    let of_node = MemoryPressure {
        has_global_reclaim: true,
        ..pod_at_limit
    };
    assert_eq!(memory_call(&of_node).0, Brake::Shed);
}

#[rstest]
// A of 100,000 and a threshold of 1,000.
#[case(6_000, Brake::Off, None)]
#[case(5_999, Brake::Hold, Some(Reason::MemoryAvailable))]
#[case(4_000, Brake::Hold, Some(Reason::MemoryAvailable))]
#[case(3_999, Brake::Shed, Some(Reason::MemoryAvailable))]
#[case(2_000, Brake::Shed, Some(Reason::MemoryAvailable))]
#[case(1_999, Brake::Stop, Some(Reason::MemoryAvailable))]
#[case(999, Brake::Stop, Some(Reason::MemoryAvailable))]
fn memory_brakes_before_the_kubelet_evicts(
    #[case] available: u64,
    #[case] expected: Brake,
    #[case] reason: Option<Reason>,
) {
    let scarce = MemoryPressure {
        spare_ppm: spare_ppm(available, 1_000, 100_000),
        ..MemoryPressure::default()
    };
    assert_eq!(memory_call(&scarce), (expected, reason));
}

#[test]
fn the_memory_pressure_condition_stops_memory_whatever_is_measured() {
    let told = MemoryPressure {
        spare_ppm: Some(1_000_000),
        has_pressure_condition: true,
        ..MemoryPressure::default()
    };
    assert_eq!(memory_call(&told), (Brake::Stop, Some(Reason::MemoryPressure)));
}

#[rstest]
#[case::plenty(u64::MAX, 0, 1, Some(u32::MAX))]
#[case::cut_off(1, 0, 3, Some(333_333))]
#[case::below(99, 100, 1_000, Some(0))]
#[case::without_allocatable(5, 0, 0, None)]
fn spare_memory_is_a_share_of_allocatable(
    #[case] available: u64,
    #[case] threshold: u64,
    #[case] raw: u64,
    #[case] expected: Option<u32>,
) {
    assert_eq!(spare_ppm(available, threshold, raw), expected);
}

#[test]
fn a_memory_stop_holds_the_cpu() {
    let mut brakes = Brakes::new(&Profile::Production.timing());
    let memory = MemoryPressure {
        node_ooms: 1,
        ..MemoryPressure::default()
    };
    brakes.end_period(
        &Pressure {
            memory,
            ..windows(0, 0)
        },
        Duration::from_secs(1),
    );
    assert_eq!(
        (brakes.level(Resource::Memory), brakes.level(Resource::Cpu)),
        (Brake::Stop, Brake::Hold)
    );
    assert_eq!(brakes.reason(Resource::Cpu), Some(Reason::Oom));
}

#[test]
fn the_last_signal_behind_the_level_in_force_is_its_reason() {
    let mut brakes = Brakes::new(&Profile::Production.timing());
    let mut reason_after = |at_s: u64, memory: MemoryPressure| {
        brakes.end_period(&scarce(memory), Duration::from_secs(at_s));
        brakes.reason(Resource::Memory)
    };
    let none = MemoryPressure::default();
    let oom = MemoryPressure { node_ooms: 1, ..none };
    let kubepods_oom = MemoryPressure {
        limit_ooms: 1,
        ..none
    };
    let limit = MemoryPressure {
        limit_hits: 1,
        ..none
    };
    assert_eq!(reason_after(1, oom), Some(Reason::Oom));
    assert_eq!(reason_after(2, kubepods_oom), Some(Reason::KubepodsOom));
    assert_eq!(
        reason_after(3, limit),
        Some(Reason::KubepodsOom),
        "a lower level is not active"
    );
    assert_eq!(reason_after(4, none), Some(Reason::KubepodsOom));
}
