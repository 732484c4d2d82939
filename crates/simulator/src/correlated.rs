//! Tests of the bound on bad outcomes under correlated incidents: all pods of a node surge for hours, with brakes.

use headroom_domain::{estimate::MARGIN_PPM, policy::Bounds, ratio::Cents, resource::Resource};
use rand::Rng as _;
use rstest::rstest;

use super::{
    closed::Run,
    contention::{self, Period},
    node::Node,
    policy::{MeasuredSlack, Settings},
    random::Stream,
    source::{DAY, HOUR, Machine, Source, Workload},
};

const FRAMES: usize = 60 * DAY;
/// Incidents allowed in addition to one in fifty outcomes.
const SLACK: u64 = 20;

/// Pods that request two CPUs and use a third of them, or all of them during a surge that all pods share.
struct Storms {
    seed: u64,
    /// Index: frame; true during a surge.
    surges: Vec<bool>,
}

impl Storms {
    /// Surges of five minutes to three hours, about `apart` hours from each other.
    fn new(seed: u64, apart: f64) -> Self {
        let mut random = Stream::Class { group: 0, class: 0 }.generator(seed);
        let mut surges = vec![false; FRAMES];
        let mut at = 4 * DAY;
        while at < FRAMES {
            let length = random.random_range(1..=3 * HOUR);
            surges
                .iter_mut()
                .skip(at)
                .take(length)
                .for_each(|surge| *surge = true);
            let hours = random.random_range(0.2 * apart..1.8 * apart);
            at += length + usize::try_from(crate::convert::whole(hours * 12.0)).unwrap();
        }
        Self { seed, surges }
    }
}

impl Source for Storms {
    fn seed(&self) -> u64 {
        self.seed
    }

    fn request(&self, _node: u32, _number: u32) -> u64 {
        2000
    }

    fn workload(&self, _node: u32, number: u32, start: usize) -> Workload {
        let life = 3 * DAY + usize::try_from(number % 7).unwrap() * DAY;
        let lived = self.surges.iter().skip(start).take(life);
        Workload {
            limit: 2000,
            usage: lived.map(|&surge| if surge { 2000 } else { 660 }).collect(),
        }
    }
}

/// Incidents and outcomes of one node.
#[derive(Debug, Default)]
struct IncidentCounts {
    /// Frames above capacity or with a call for L3. Frames less than an hour apart count as one incident; a long
    /// incident counts again once the decisions that it overlapped are a day old.
    incidents: u64,
    began: Option<usize>,
    last: Option<usize>,
    bad: u64,
    hours_in_use: u64,
    accumulated: u32,
}

impl IncidentCounts {
    fn incident(&mut self, frame: usize) {
        let is_within = |since: Option<usize>, span| since.is_some_and(|since| frame - since < span);
        if !is_within(self.last, HOUR) || !is_within(self.began, DAY - HOUR) {
            self.incidents += 1;
            self.began = Some(frame);
        }
        self.last = Some(frame);
    }
}

/// True if the CPUs are saturated for three periods in a row.
fn calls_for_a_stop(node: &Node) -> bool {
    let is_saturated =
        |(_, pressure): &Period| pressure.cpu.sigma8_ppm >= 300_000 && pressure.cpu.runq_p99_us >= 25_000;
    let periods = contention::periods(Resource::Cpu, node.machine, node.spread(), node.seconds());
    periods.windows(3).any(|three| three.iter().all(is_saturated))
}

#[rstest]
#[case::twice_a_day(1, 12.0)]
#[case::each_day(2, 24.0)]
#[case::each_week(3, 168.0)]
fn each_correlated_incident_counts_once_and_the_bound_holds(#[case] seed: u64, #[case] apart: f64) {
    let resource = Resource::Cpu;
    let source = Storms::new(seed, apart);
    let run = Run {
        source: &source,
        nodes: 1,
        frames: FRAMES,
        cv: 0.5,
        settings: Settings {
            resource,
            machine: Machine::for_resource(resource),
            bounds: Bounds {
                min: Cents(100),
                max: Cents(200),
            },
            theta_ppm: 900_000,
            is_calibrated: true,
            has_brakes: true,
            oracle_ppm: 1_000_000,
        },
    };
    let mut seen = IncidentCounts {
        accumulated: MARGIN_PPM,
        ..IncidentCounts::default()
    };
    run.play(0, &mut MeasuredSlack::new(&run.settings), |node, _, policy| {
        let accumulated = policy.estimate().accumulator_ppm;
        seen.bad += u64::from(accumulated > seen.accumulated);
        seen.accumulated = accumulated;
        if node.peak(node.now) > node.machine.capacity || calls_for_a_stop(node) {
            seen.incident(node.now);
        }
        let is_in_use = node.bound() > node.machine.raw;
        seen.hours_in_use += u64::from(is_in_use && node.now.is_multiple_of(HOUR));
    });
    assert!(
        seen.bad > 0 && seen.hours_in_use > 100,
        "no ratio was raised: {seen:?}"
    );
    assert!(seen.bad <= seen.incidents, "{seen:?}");
    assert!(seen.bad * 50 <= seen.hours_in_use + SLACK * 50, "{seen:?}");
}
