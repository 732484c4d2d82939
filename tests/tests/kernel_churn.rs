//! A million context switches and fifty thousand cgroups that come and go leave the agent as it was.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "tests panic: a returned error has no stack"
)]

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::Range,
    path::Path,
    thread,
    time::Duration,
};

use e2e::{
    hint_server::{HintServer, this_machine},
    kernel::LOOK_EVERY,
    pace::{as_many, happens_within},
    pod_tree::PodTree,
    stand::programs,
};
use headroom_agent::status::Status;
use headroom_domain::estimate::Profile;
use tokio::time::{Instant, sleep};
use xtask::{
    bench::agent_overhead::ping_pong,
    headroom::agent::{Agent, Options},
    thread::last_cpu,
};

const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Pods that are there at the same time.
const AT_ONCE: u32 = 250;
const CGROUPS: u64 = 50_000;
const SWITCHES: u64 = 1_000_000;
/// What the agent's memory may have grown by in the end: 40 bytes for each cgroup, less than a UID takes.
const GROWTH_KIB: u64 = 2_000;

/// What a process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    resident_kib: u64,
    files: usize,
    /// Kernel programs and maps among its files.
    programs: usize,
    maps: usize,
}

impl Held {
    fn of(pid: u32) -> Self {
        let process = Path::new("/proc").join(pid.to_string());
        let status = fs::read_to_string(process.join("status")).expect("its status");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|kib| kib.trim().strip_suffix(" kB"));
        let files = fs::read_dir(process.join("fdinfo")).expect("its files").flatten();
        // One may be closed meanwhile.
        let texts: Vec<String> = files
            .filter_map(|file| fs::read_to_string(file.path()).ok())
            .collect();
        let with = |field: &str| {
            let has = |text: &&String| text.lines().any(|line| line.starts_with(field));
            texts.iter().filter(has).count()
        };
        Self {
            resident_kib: resident.expect("resident memory").parse().expect("a number"),
            files: texts.len(),
            programs: with("prog_id:"),
            maps: with("map_id:"),
        }
    }
}

async fn status_until(agent: &mut Agent, what: &str, is_it: impl Fn(&Status) -> bool) -> Status {
    let deadline = Instant::now() + happens_within();
    loop {
        agent.process.check().expect("the agent goes on");
        match agent.status().await {
            Ok(status) if is_it(&status) => return status,
            status if Instant::now() > deadline => {
                panic!("not in {:?}: {what}; {status:?}", happens_within())
            }
            _not_yet => sleep(Duration::from_millis(20)).await,
        }
    }
}

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
async fn the_agent_is_as_it_was_after_a_million_switches_and_fifty_thousand_cgroups() {
    let folder = tempfile::tempdir().expect("folder");
    let server = HintServer::start(ANY_PORT, &folder.path().join("tls"), this_machine()).await;
    let tree = PodTree::create("agent-churn");
    tree.add("kubepods/burstable");
    let options = Options {
        program: programs().await.agent,
        folder: folder.path().to_owned(),
        node: "n1".to_owned(),
        token: "token".to_owned(),
        servers: vec![server.address],
        ca: server.ca.clone(),
        timing: Profile::Demo,
        source: "ebpf".to_owned(),
        flags: vec![format!("--cgroup-root={}", tree.mount().display())],
    };
    let mut agent = Agent::spawn(&options).expect("start the agent");
    status_until(&mut agent, "FULL", |status| status.mode == "FULL").await;

    // The first ones make room for those that follow.
    let pods = u32::try_from(as_many(CGROUPS)).expect("few") / tree.hierarchies();
    let warm_up = pods / 10;
    churn(&tree, 0..warm_up, as_many(SWITCHES) / 10);
    let before = calm(&mut agent, |_| true).await;
    assert!(before.programs > 0 && before.maps > 0, "{before:?}");
    churn(&tree, warm_up..warm_up + pods, as_many(SWITCHES));
    let Held {
        resident_kib,
        files,
        programs,
        maps,
    } = before;
    // A connection to its admin port may just be there.
    let after = calm(&mut agent, |held| held.files <= files).await;
    println!("{pods} pods: {before:?}, then {after:?}");
    assert_eq!((after.programs, after.maps), (programs, maps));
    assert!(
        after.resident_kib <= resident_kib + GROWTH_KIB,
        "{before:?} {after:?}"
    );
}

fn churn(tree: &PodTree, uids: Range<u32>, switches: u64) {
    thread::scope(|scope| {
        scope.spawn(move || come_and_go(tree, uids));
        scope.spawn(move || switch(switches));
    });
}

/// What the agent holds when it has forgotten the last pods, and is as wanted.
async fn calm(agent: &mut Agent, is_it: impl Fn(&Held) -> bool) -> Held {
    status_until(agent, "no pod", |status| status.pods.tracked == 0).await;
    let deadline = Instant::now() + happens_within();
    loop {
        let held = Held::of(agent.process.pid());
        if is_it(&held) {
            return held;
        }
        assert!(Instant::now() < deadline, "{held:?}");
        sleep(LOOK_EVERY).await;
    }
}
