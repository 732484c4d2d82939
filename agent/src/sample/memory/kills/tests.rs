//! Tests of `KillJudge` on polls a quarter of a second apart, each with counts since boot.

use super::*;

const QUARTER: u64 = 250_000_000;
const POD: &str = "0b1c7a52-3f4e-4d6b-9a1e-2c3d4e5f6a7b";
const OTHER: &str = "5d2f0c14-8a77-4f0e-b1c3-9e8d7c6b5a40";

/// A machine whose counters a test moves on.
#[derive(Default)]
struct CounterFiles {
    judge: KillJudge,
    now: KillCounts,
    pods: PodOoms,
}

impl CounterFiles {
    /// After its first poll, with two pods that have met their limits and been killed there before.
    fn begun(limit: LimitEvents) -> Self {
        let mut machine = Self::default();
        machine.now.limit = Some(limit);
        machine.now.vm.oom_kills = 8;
        for uid in [POD, OTHER] {
            *machine.pod(uid) = OomCounts {
                kills: 4,
                at_limit: 9,
            };
        }
        assert_eq!(machine.poll(), Kills::default());
        machine
    }

    fn v1() -> Self {
        Self::begun(LimitEvents { hits: 3, ooms: None })
    }

    fn v2() -> Self {
        let ooms = Ooms {
            own: 0,
            with_below: 18,
        };
        Self::begun(LimitEvents {
            hits: 0,
            ooms: Some(ooms),
        })
    }

    fn pod(&mut self, uid: &str) -> &mut OomCounts {
        let cgroups = self.pods.entry(uid.to_owned()).or_default();
        cgroups.entry(PathBuf::from("container")).or_default()
    }

    /// Kills a process of a pod, or of no pod.
    fn kill(&mut self, of: Option<&str>) {
        self.now.vm.oom_kills += 1;
        if let Some(uid) = of {
            self.pod(uid).kills += 1;
        }
    }

    /// A pod meets its limit, and nothing more can be reclaimed there.
    fn meet_limit(&mut self, uid: &str) {
        self.pod(uid).at_limit += 1;
        if let Some(ooms) = self.now.limit.as_mut().and_then(|limit| limit.ooms.as_mut()) {
            ooms.with_below += 1;
        }
    }

    /// Polls a quarter of a second later; returns the kills so far.
    fn poll(&mut self) -> Kills {
        self.now.at_ns += QUARTER;
        let (kills, read) = self.judge.attribute(self.now, || Ok(self.pods.clone()));
        read.unwrap();
        kills
    }
}

fn node(kills: u64) -> Kills {
    Kills {
        node: kills,
        limit: 0,
    }
}

#[test]
fn kswapd_makes_no_kill_the_nodes() {
    for mut machine in [CounterFiles::v1(), CounterFiles::v2()] {
        machine.now.vm.scanned += 10_000;
        machine.kill(None);
        assert_eq!(machine.poll(), node(0), "a limit outside of kubepods");
    }
}

#[test]
fn oom_kill_at_a_pods_limit_is_the_pods_regardless_of_reclaim() {
    for mut machine in [CounterFiles::v1(), CounterFiles::v2()] {
        for _ in 0..200 {
            machine.now.vm.scanned += 10_000;
            machine.now.vm.stalls += 1;
            machine.meet_limit(POD);
            machine.kill(Some(POD));
            assert_eq!(machine.poll(), node(0));
        }
    }
}

#[test]
fn oom_kill_of_a_pod_does_not_hide_node_kills_of_the_same_poll() {
    for mut machine in [CounterFiles::v1(), CounterFiles::v2()] {
        machine.now.vm.stalls += 1;
        machine.meet_limit(POD);
        machine.kill(Some(POD));
        machine.kill(Some(OTHER));
        assert_eq!(machine.poll(), node(1), "the other pod was not at its limit");
        machine.kill(None);
        assert_eq!(machine.poll(), node(2), "the system's");
        assert_eq!(machine.poll(), node(2), "each counts once");
    }
}

#[test]
fn a_limit_that_was_met_long_ago_explains_no_kill() {
    for mut machine in [CounterFiles::v1(), CounterFiles::v2()] {
        machine.now.vm.stalls += 1;
        machine.meet_limit(POD);
        for _ in 0..12 {
            machine.poll();
        }
        machine.kill(Some(POD));
        assert_eq!(machine.poll(), node(1));
    }
}

#[test]
fn a_kill_comes_a_while_after_what_called_for_it() {
    let mut machine = CounterFiles::v2();
    machine.now.vm.stalls += 1;
    machine.poll();
    machine.poll();
    machine.kill(None);
    assert_eq!(machine.poll(), node(1), "reclaim in vain");
    machine.meet_limit(POD);
    machine.poll();
    machine.kill(Some(POD));
    assert_eq!(machine.poll(), node(1), "a limit");
    for _ in 0..20 {
        machine.poll();
    }
    machine.kill(None);
    assert_eq!(machine.poll(), node(1), "nobody reclaims any more");
}

#[test]
fn a_kill_that_the_pod_counts_before_the_machine_does_is_the_pods() {
    for mut machine in [CounterFiles::v1(), CounterFiles::v2()] {
        machine.now.vm.stalls += 1;
        machine.meet_limit(POD);
        machine.pod(POD).kills += 2;
        machine.now.vm.oom_kills += 1;
        assert_eq!(machine.poll(), node(0));
        machine.now.vm.oom_kills += 1;
        assert_eq!(machine.poll(), node(0));
    }
}

#[test]
fn kills_while_kubepods_is_at_its_limit_are_its_own() {
    let mut machine = CounterFiles::v1();
    machine.now.vm.stalls += 1;
    machine.now.limit.as_mut().unwrap().hits += 1;
    machine.kill(Some(POD));
    let mut expected = Kills { node: 0, limit: 1 };
    assert_eq!(machine.poll(), expected);
    machine.meet_limit(OTHER);
    machine.kill(Some(OTHER));
    assert_eq!(machine.poll(), expected, "at the pod's own limit");
    machine.poll();

    let mut machine = CounterFiles::v2();
    machine.now.vm.stalls += 1;
    let ooms = machine.now.limit.as_mut().unwrap().ooms.as_mut().unwrap();
    (ooms.own, ooms.with_below) = (1, 19);
    // One call for a kill ends all processes of a container.
    machine.kill(Some(POD));
    machine.kill(Some(POD));
    expected.limit = 1;
    assert_eq!(machine.poll(), expected);
}

#[test]
fn a_victim_that_was_ending_anyway_is_the_nodes_unless_a_limit_explains_it() {
    let mut machine = CounterFiles::v2();
    machine.now.victims += 1;
    assert_eq!(machine.poll(), node(0), "nobody reclaimed");
    machine.now.vm.stalls += 1;
    machine.meet_limit(POD);
    machine.kill(Some(POD));
    // Threads of the process that is killed.
    machine.now.victims += 4;
    assert_eq!(machine.poll(), node(0));
    for _ in 0..6 {
        machine.poll();
    }
    machine.now.victims += 1;
    assert_eq!(machine.poll(), node(1));
}

#[test]
fn the_programs_may_tell_of_a_kill_after_the_machine_does() {
    let mut machine = CounterFiles::v2();
    machine.now.victims += 3;
    machine.poll();
    machine.now.vm.stalls += 1;
    machine.kill(None);
    assert_eq!(machine.poll(), node(1));
    machine.now.victims += 1;
    assert_eq!(machine.poll(), node(1));
}

#[test]
fn pods_that_cannot_be_read_excuse_nothing() {
    let mut machine = CounterFiles::v2();
    machine.now.vm.stalls += 1;
    machine.meet_limit(POD);
    machine.kill(Some(POD));
    machine.now.at_ns += QUARTER;
    let unreadable = || {
        Err(SampleError::Missing {
            path: "memory.events".into(),
            field: "oom".into(),
        })
    };
    let (kills, read) = machine.judge.attribute(machine.now, unreadable);
    assert_eq!(kills, node(1));
    read.unwrap_err();
}

#[test]
fn pods_are_read_when_a_kill_could_be_theirs_and_not_at_every_poll() {
    let reads = |mut machine: CounterFiles, polls: u32| {
        let mut reads = 0;
        for _ in 0..polls {
            machine.now.at_ns += QUARTER;
            machine.now.vm.stalls += 1;
            let count = || {
                reads += 1;
                Ok(PodOoms::new())
            };
            machine.judge.attribute(machine.now, count).1.unwrap();
        }
        reads
    };
    assert_eq!(reads(CounterFiles::v2(), 400), 0, "no limit was met");
    let v1 = reads(CounterFiles::v1(), 400);
    assert!((60..=100).contains(&v1), "once a second at most: {v1}");
}
