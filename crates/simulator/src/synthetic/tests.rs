//! Tests of the synthetic load's marginals against appendix A, within the error of a few thousand draws.

use super::*;

const FRAMES: usize = 14 * DAY;

fn pods(node: u32) -> Vec<(Nature, Vec<u64>)> {
    let load = Synthetic::new(11, 8, FRAMES).unwrap();
    (0..2000)
        .map(|number| {
            let nature = Nature::draw(Resource::Cpu, &mut Stream::Pod { node, number }.generator(11));
            (nature, load.workload(node, number, 0).usage)
        })
        .collect()
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / real(long(values.count()))
}

#[test]
fn requests_and_lives_are_as_published() {
    let pods = pods(0);
    let mut requests: Vec<u64> = pods.iter().map(|(nature, _)| nature.request).collect();
    requests.sort_unstable();
    assert!((100..=8000).contains(&requests[0]) && requests[1999] <= 8000);
    let median = requests[1000];
    assert!(
        (760..880).contains(&median),
        "median request {median}, exp(-0.2) is 819"
    );

    let batch = mean(
        pods.iter()
            .map(|(nature, _)| f64::from(u8::from(nature.is_batch))),
    );
    assert!((0.37..0.43).contains(&batch), "{batch}");
    let life = |is_batch| {
        let lives = pods.iter().filter(move |(nature, _)| nature.is_batch == is_batch);
        mean(lives.map(|(nature, _)| real(long(nature.life)))) / 12.0
    };
    assert!((1.8..2.3).contains(&life(true)), "{} h", life(true));
    assert!((130.0..158.0).contains(&life(false)), "{} h", life(false));
}

#[test]
fn use_per_request_follows_the_node() {
    for (node, mu) in [(0, 0.18), (1, 0.28), (2, 0.38), (3, 0.55)] {
        let pods = pods(node);
        let shares = pods
            .iter()
            .filter(|(nature, _)| !nature.is_batch)
            .map(|(nature, usage)| {
                let used: u64 = usage.iter().sum();
                real(used) / real(long(usage.len())) / real(nature.request)
            });
        // Weekends subtract 9 %, noise and surges add 6 %, limits subtract a little if mu is high.
        let share = mean(shares) / mu;
        assert!((0.85..1.1).contains(&share), "node {node}: {share} of mu");
    }
}

#[test]
fn no_pod_uses_more_than_four_times_its_request() {
    for (nature, usage) in pods(3) {
        assert!(usage.iter().all(|&used| used <= 4 * nature.request));
        assert!(usage.len() <= nature.life.min(FRAMES) && !usage.is_empty());
    }
}

#[test]
fn services_use_more_by_day_than_by_night() {
    let pods = pods(1);
    let at = |hour: usize| {
        let long = pods
            .iter()
            .filter(|(nature, usage)| !nature.is_batch && usage.len() > DAY);
        mean(long.map(move |(nature, usage)| real(usage[hour * 12]) / real(nature.request)))
    };
    let ratio = at(14) / at(2);
    assert!((2.0..4.5).contains(&ratio), "{ratio}");
}

#[test]
fn a_pod_does_not_depend_on_the_order_of_calls() {
    let load = Synthetic::new(5, 8, FRAMES).unwrap();
    let usage = load.workload(2, 17, 100);
    load.workload(2, 18, 3);
    assert_eq!(usage, load.workload(2, 17, 100));
    assert_ne!(usage, load.workload(2, 16, 100));
}
