//! Tests of the programs that the bench compares with the agent's, on the running kernel: they run only while attached,
//! and the shape that others use, a hash, counts waits.
#![expect(clippy::unwrap_used, reason = "tests panic: a returned error has no stack")]

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use headroom_agent::kernel::probe::{
    Hook, Runs,
    bench::{Peer, Shape},
};
use headroom_testbed::{ping_pong, thread::last_cpu};

const LENGTH: Duration = Duration::from_millis(50);

/// One test at a time: they load the same CPU, and their programs run at each other's events.
fn machine() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn counts(peer: &mut Peer) -> Vec<(Hook, u64)> {
    let runs = peer.runs().unwrap().into_iter();
    runs.map(|Runs { hook, count, .. }| (hook, count)).collect()
}

#[test]
fn programs_of_each_shape_run_at_their_hooks_while_they_are_attached_and_not_after() {
    let _machine = machine();
    let cpu = last_cpu().unwrap();
    for shape in Shape::ALL {
        let mut peer = Peer::load(shape, true).unwrap();
        assert!(
            counts(&mut peer).iter().all(|(_, count)| *count == 0),
            "{shape:?}"
        );
        peer.attach().unwrap();
        let round = ping_pong::round(cpu, LENGTH).unwrap();
        peer.detach();
        let during = counts(&mut peer);
        for (hook, count) in &during {
            // Threads are started once a round, and every other switch follows a wake-up on an idle machine, too.
            let is_rare = *hook == Hook::SchedWakeupNew;
            let least = if is_rare { 1 } else { round.switches / 2 };
            assert!(*count >= least, "{shape:?} {hook:?}: {count}, {round:?}");
        }
        ping_pong::round(cpu, LENGTH).unwrap();
        assert_eq!(counts(&mut peer), during, "{shape:?}");
    }
}

#[test]
fn the_hash_counts_the_wait_of_each_task_that_was_woken() {
    let _machine = machine();
    let mut peer = Peer::load(Shape::Hash, false).unwrap();
    peer.attach().unwrap();
    let round = ping_pong::round(last_cpu().unwrap(), LENGTH).unwrap();
    let waits = peer.waits().unwrap();
    assert!(waits >= round.switches / 2, "{waits} waits, {round:?}");
}
