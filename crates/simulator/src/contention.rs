//! Simulates the pressure that a node's brakes measure in a frame: CPU demand by the second, waiting work, memory.
//!
//! The demand of a frame is a mean and the spread of independent pods, as for its peak F (`node`). Here its seconds are
//! drawn from the same normal distribution, independently of each other. Demand that a second cannot serve waits for
//! the next one, up to as much as all CPUs do in a second; the agent's own account of demand ends there too. A second
//! without room, and the part of a second in which older work is served, has no idle CPU. The longest wait of a period
//! is the waiting work divided by the CPUs. Nothing is drawn within a second: a node is saturated for whole seconds or
//! not at all. Nothing waits from one frame to the next.
//!
//! Memory has one period in a frame that counts, the one with its peak: its available memory, and an OOM kill beyond
//! capacity.

use std::time::Duration;

use headroom_domain::{
    estimate::{CpuPressure, FRAME_SECONDS, MemoryPressure, Pressure, Visibility, spare_ppm},
    resource::Resource,
};
use rand::Rng as _;
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use super::{
    convert::{real, whole},
    node::Spread,
    source::Machine,
};

const FRAME_S: u32 = FRAME_SECONDS;
/// Seconds in a brake period.
const PERIOD_S: u32 = 10;
/// Share of capacity from which on a window of 8.39 ms has no idle CPU.
const NO_IDLE: f64 = 0.98;
/// Seconds further above the mean than this many standard deviations are ignored: one in 30,000.
const FURTHEST: f64 = 4.0;
/// Default eviction threshold of a kubelet: 100 MiB available.
const EVICTION: u64 = 100 << 20;

/// End of a brake period within the frame, and its pressure.
pub(super) type Period = (Duration, Pressure);

pub(super) const CALM: Pressure = Pressure {
    visibility: Visibility::ALL,
    cpu: CALM_CPU,
    memory: CALM_MEMORY,
};

const CALM_CPU: CpuPressure = CpuPressure {
    sigma8_ppm: 0,
    runq_p99_us: 0,
    some_ppm: 0,
    busy_ppm: 0,
};

const CALM_MEMORY: MemoryPressure = MemoryPressure {
    some_ppm: 0,
    full_ppm: 0,
    direct_reclaim_ms: 0,
    refault_mb_s: 0,
    swap_out_mb_s: 0,
    limit_hits: 0,
    limit_ooms: 0,
    node_ooms: 0,
    has_global_reclaim: false,
    spare_ppm: None,
    has_pressure_condition: false,
};

/// The brake periods of a frame; empty if nothing is scarce in it.
pub(super) fn periods(
    resource: Resource,
    machine: Machine,
    spread: Spread,
    random: ChaCha8Rng,
) -> Vec<Period> {
    match resource {
        Resource::Cpu => of_cpu(machine, spread, random),
        Resource::Memory => of_memory(machine, spread).into_iter().collect(),
    }
}

fn of_cpu(machine: Machine, spread: Spread, mut random: ChaCha8Rng) -> Vec<Period> {
    let capacity = real(machine.capacity);
    let Spread { mean, deviation, .. } = spread;
    if mean + FURTHEST * deviation < NO_IDLE * capacity {
        return Vec::new();
    }
    let mut waiting = 0.0_f64;
    let period = |number: u32| {
        let (mut saturated, mut longest) = (0.0, 0.0_f64);
        for _ in 0..PERIOD_S {
            let drawn: f64 = random.sample(StandardNormal);
            let demand = (mean + deviation * drawn).max(0.0);
            saturated += if demand >= NO_IDLE * capacity {
                1.0
            } else {
                (waiting / (capacity - demand)).min(1.0)
            };
            waiting = (waiting + demand - capacity).clamp(0.0, capacity);
            longest = longest.max(waiting / capacity);
        }
        let cpu = CpuPressure {
            sigma8_ppm: u32::try_from(whole(saturated * 1e6 / f64::from(PERIOD_S))).unwrap_or(u32::MAX),
            runq_p99_us: whole(longest * 1e6),
            ..CALM_CPU
        };
        let end = Duration::from_secs(u64::from(PERIOD_S * number));
        (end, Pressure { cpu, ..CALM })
    };
    (1..=FRAME_S / PERIOD_S).map(period).collect()
}

fn of_memory(machine: Machine, spread: Spread) -> Option<Period> {
    let available = machine.capacity.saturating_sub(spread.peak);
    let memory = MemoryPressure {
        spare_ppm: spare_ppm(available, EVICTION, machine.raw),
        node_ooms: u64::from(spread.peak > machine.capacity),
        ..CALM_MEMORY
    };
    let end = Duration::from_secs(FRAME_S.into());
    // The weakest brake starts at a twentieth of raw allocatable.
    (available < EVICTION + machine.raw / 20).then_some((end, Pressure { memory, ..CALM }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    fn of_mean(mean: f64, deviation: f64) -> Vec<CpuPressure> {
        let spread = Spread {
            mean,
            deviation,
            peak: 0,
        };
        let random = Stream::Seconds { node: 0, frame: 0 }.generator(1);
        let periods = periods(
            Resource::Cpu,
            Machine::for_resource(Resource::Cpu),
            spread,
            random,
        );
        periods.into_iter().map(|(_, pressure)| pressure.cpu).collect()
    }

    #[test]
    fn a_frame_far_below_capacity_has_no_pressure() {
        assert_eq!(of_mean(25_000.0, 1000.0), []);
    }

    #[test]
    fn a_frame_above_capacity_is_saturated_and_its_work_waits() {
        // Demand of 33/32 of capacity: 1/32 s of wait accumulates per second, up to 1 s.
        let all = of_mean(33_000.0, 0.0);
        let saturated = |runq_p99_us| CpuPressure {
            sigma8_ppm: 1_000_000,
            runq_p99_us,
            ..CALM_CPU
        };
        assert_eq!(all.len(), 30);
        assert_eq!(
            (all[0], all[1], all[29]),
            (saturated(312_500), saturated(625_000), saturated(1_000_000))
        );
    }

    #[test]
    fn near_capacity_single_seconds_are_saturated() {
        // F equals capacity: one second in a hundred exceeds it.
        let all = of_mean(32_000.0 - 2330.0, 1000.0);
        let calm = |cpu: &&CpuPressure| cpu.sigma8_ppm == 0;
        let calm = all.iter().filter(calm).count();
        assert!((10..30).contains(&calm), "{calm} of 30");
    }

    #[test]
    fn memory_is_short_at_its_peak_only() {
        let machine = Machine::for_resource(Resource::Memory);
        let of_peak = |peak| {
            let spread = Spread {
                mean: 0.0,
                deviation: 0.0,
                peak,
            };
            of_memory(machine, spread).map(|(_, pressure)| pressure.memory)
        };
        assert_eq!(of_peak(machine.capacity / 2), None);
        let beyond = of_peak(machine.capacity + 1).unwrap();
        assert_eq!((beyond.node_ooms, beyond.spare_ppm), (1, Some(0)));
        let close = of_peak(machine.capacity - EVICTION - machine.raw / 50).unwrap();
        assert_eq!((close.node_ooms, close.spare_ppm), (0, Some(19_999)));
    }
}
