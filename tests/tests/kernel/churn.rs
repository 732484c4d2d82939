//! A million context switches and a hundred thousand cgroups that come and go leave every part of the agent as it was. Its
//! metrics stay numbers all the while.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{ops::Range, thread, time::Duration};

use e2e::{
    agent::{AgentNode, Running},
    kernel::LOOK_EVERY,
    metrics_watch::NumbersWatch,
    pace::{as_many, happens_within},
    pod_tree::PodTree,
    process_resources::{Parts, ProcessResources, growth, least, without_highest},
};
use headroom_agent::local::status::Status;
use headroom_testbed::{ping_pong, thread::last_cpu};
use tokio::time::{Instant, sleep};

/// Pods that are there at the same time.
const AT_ONCE: u32 = 250;
const CGROUPS: u64 = 100_000;
const SWITCHES: u64 = 1_000_000;
/// Number of equal parts, after each of which the agent rests and is measured. The memory that its allocator keeps
/// for reuse still grows for eight or nine of them, by less each time; a leak grows in all.
const ROUNDS: u32 = 16;
/// Maximum growth of any part of the agent's memory in every round: a few bytes for each of its cgroups, less than
/// any record takes.
const LEAK_KIB: u64 = 16;
/// Maximum growth of its whole memory in all rounds except the one in which each part grew most: 20 bytes for each
/// cgroup, less than a UID takes. One round is left out because the heap grows once, by 3.5 MB, and keeps that size:
/// the round depends on the machine.
const GROWTH_KIB: u64 = 2_000;

/// Makes and removes pods, a crowd at a time, each with a UID of its own.
fn come_and_go(tree: &PodTree, uids: Range<u32>) {
    let cgroup = |uid: u32| format!("kubepods/burstable/pod{uid:08}-0000-4000-8000-000000000000");
    for first in uids.clone().step_by(AT_ONCE as usize) {
        let crowd = first..(first + AT_ONCE).min(uids.end);
        crowd.clone().for_each(|uid| tree.add(&cgroup(uid)));
        crowd.for_each(|uid| tree.remove(&cgroup(uid)));
    }
}

/// Has tasks switch so often, or a few times more.
fn switch(times: u64) {
    let cpu = last_cpu().expect("a CPU");
    let mut switches = 0;
    while switches < times {
        switches += ping_pong::round(cpu, Duration::from_millis(200))
            .expect("switches")
            .switches;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_does_not_grow_after_a_million_switches_and_a_hundred_thousand_cgroups() {
    let node = AgentNode::start().await;
    let tree = PodTree::create("agent-churn");
    tree.add("kubepods/burstable");
    let mut agent = node
        .agent_with(|options| {
            "ebpf".clone_into(&mut options.source);
            options.flags = vec![format!("--cgroup-root={}", tree.mount().display())];
        })
        .await;
    agent.mode_until("FULL").await;
    let numbers = NumbersWatch::begin(agent.admin);

    let pods = u32::try_from(as_many(CGROUPS)).expect("few") / tree.hierarchies() / ROUNDS;
    let round = |round: u32| {
        let uids = round * pods..(round + 1) * pods;
        churn(&tree, uids, as_many(SWITCHES) / u64::from(ROUNDS))
    };
    // The first ones make room for those that follow.
    let took = round(0);
    let first = calm(&mut agent, None).await;
    println!("after {pods} pods in {took:.1?}: {first}");
    assert!(
        first.descriptors["programs"] > 0 && first.descriptors["maps"] > 0,
        "{first}"
    );
    let (mut before, mut growths) = (first.clone(), Vec::new());
    for number in 1..=ROUNDS {
        let took = round(number);
        let after = calm(&mut agent, Some(&first)).await;
        let grown = growth(&before.memory_kib, &after.memory_kib);
        println!("round {number} in {took:.1?}: {after}; grown by {grown:?}");
        assert_eq!(
            after.kernel_kib, first.kernel_kib,
            "maps and programs stay as large as they are"
        );
        growths.push(grown);
        before = after;
    }
    numbers.end().await;
    let leaks: Parts = least(&growths)
        .into_iter()
        .filter(|(_, kib)| *kib > LEAK_KIB)
        .collect();
    assert!(
        leaks.is_empty(),
        "these grow in every round: {leaks:?} of {growths:?}"
    );
    let lasting = without_highest(&growths);
    assert!(
        lasting.values().sum::<u64>() <= GROWTH_KIB,
        "{lasting:?} of {growths:?}: from {first} to {before}"
    );
}

/// Time that it took.
fn churn(tree: &PodTree, uids: Range<u32>, switches: u64) -> Duration {
    let begin = Instant::now();
    thread::scope(|scope| {
        scope.spawn(move || come_and_go(tree, uids));
        scope.spawn(move || switch(switches));
    });
    begin.elapsed()
}

/// Memory of the agent once it has removed the last pods, has allocated again the pages it returned, and has at most
/// the earlier number of descriptors of each kind. A connection to its admin port may exist at that moment.
async fn calm(agent: &mut Running, before: Option<&ProcessResources>) -> ProcessResources {
    let is_calm = |status: &Status| status.pods.tracked == 0 && status.mode == "FULL";
    agent.status_until("calm without a pod", is_calm).await;
    let deadline = Instant::now() + happens_within();
    loop {
        let held = ProcessResources::read(agent.process.pid());
        let more = before.map(|before| growth(&before.descriptors, &held.descriptors));
        if more.is_none_or(|more| more.is_empty()) {
            return held;
        }
        assert!(Instant::now() < deadline, "{before:?} {held}");
        sleep(LOOK_EVERY).await;
    }
}
