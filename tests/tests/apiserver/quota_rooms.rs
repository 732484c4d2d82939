//! Pods and the unused part of their ElasticQuota on a real API server: many clients fill it exactly with one
//! replica, despite dry runs, later refusals and a scheduler; two replicas exceed it at most by requests in flight.

mod bursts;
mod room;

use std::time::Instant;

use e2e::{scheduler_double::SchedulerDouble, stand::until};
use futures::{StreamExt as _, stream};
use rustix::process::Signal;
use tokio::time::sleep;

use self::room::{CLIENTS, FREE_AGAIN, QuotaRoom, ROOM, RUNS, TEAM, pod};

#[tokio::test(flavor = "multi_thread")]
async fn clients_fill_a_quota_exactly() {
    let room = QuotaRoom::start(1).await;
    for run in 0..RUNS {
        room.fill(run, "p", None).await;
        assert_eq!(room.stored(run).await, ROOM, "run {run}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_fill_a_quota_exactly_after_a_thousand_dry_runs() {
    let room = QuotaRoom::start(1).await;
    for run in 0..RUNS {
        let dry = stream::iter(0..1_000).for_each_concurrent(CLIENTS, async |number| {
            let pod = pod(&format!("dry-{number}"), run, "1", None);
            room.dry(&pod).await.expect("a dry run leaves nothing");
        });
        dry.await;
        room.fill(run, "p", None).await;
        assert_eq!(room.stored(run).await, ROOM, "run {run}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_fill_a_quota_exactly_while_a_scheduler_writes_each_second() {
    let room = QuotaRoom::start(1).await;
    let scheduler =
        SchedulerDouble::start(&room.stand, "koord-scheduler", "koord-scheduler", "n1", TEAM).await;
    let mut writes = 0;
    for run in 0..RUNS {
        room.fill(run, "p", None).await;
        assert_eq!(room.stored(run).await, ROOM, "run {run}");
        until("the scheduler has written meanwhile", async || {
            scheduler.quota_writes() > writes
        })
        .await;
        writes = scheduler.quota_writes();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_replica_counts_all_pods() {
    let mut room = QuotaRoom::start(1).await;
    for run in 0..RUNS {
        let mut victim = room.replicas.remove(0);
        let half = *room.created.borrow() + ROOM / 2;
        let mut created = room.created.subscribe();
        let killing = async {
            let reached = created.wait_for(|created| *created >= half).await;
            reached.expect("half of the room is taken");
            victim.process.signal(Signal::KILL).expect("kill the replica");
        };
        tokio::join!(room.fill(run, "first", None), killing);
        let before = room.stored(run).await;
        assert!(before <= ROOM, "{before}");
        room.start_again().await;
        room.fill(run, "then", None).await;
        let stored = room.stored(run).await;
        println!("run {run}: {before} pods were let in before, {stored} then, with room for {ROOM}");
        assert_eq!(stored, ROOM, "run {run}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn quota_of_pods_refused_elsewhere_is_released_within_seconds() {
    let room = QuotaRoom::start(1).await;
    room.refuse_class().await;
    let (mut free, mut held) = (Vec::new(), 0);
    for run in 0..RUNS {
        let began = Instant::now();
        room.fill(run, "first", Some(2)).await;
        let stored = room.stored(run).await;
        assert!(
            stored < ROOM || began.elapsed() > FREE_AGAIN,
            "run {run}: {stored} are stored, nothing was refused after us"
        );
        held += usize::from(stored < ROOM);
        free.push(Instant::now() + FREE_AGAIN);
    }
    assert!(
        held > 0,
        "no run was quick enough to meet pods that count and are refused"
    );
    for (run, free) in free.into_iter().enumerate() {
        sleep(free.saturating_duration_since(Instant::now())).await;
        room.fill(run, "again", None).await;
        assert_eq!(room.stored(run).await, ROOM, "run {run}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_overshoot_a_quota_by_at_most_the_requests_in_flight() {
    let room = QuotaRoom::start(2).await;
    let mut overshoots = Vec::new();
    for run in 0..RUNS {
        room.fill(run, "p", None).await;
        let stored = room.stored(run).await;
        // A replica counts the pods that it admitted; of those that the other admitted it lacks the clients' requests
        // in flight.
        assert!((ROOM..=ROOM + CLIENTS).contains(&stored), "{stored} of {ROOM}");
        overshoots.push(stored - ROOM);
    }
    println!("two replicas overshot {RUNS} quotas for {ROOM} pods by {overshoots:?}");
}
