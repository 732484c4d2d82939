//! Ratio and M outlive a DaemonSet update, an image that is rolled back, and a reboot: agents as processes that follow each
//! other in one folder, and between them the version that wrote the first schema of checkpoints.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use e2e::{
    agent::{AgentNode, Running},
    first_schema::FirstRecord,
    hint_server::this_machine,
};
use headroom_agent::{
    local::checkpoint::{self, CheckpointFile, Owner, Store},
    sample::clock::Clocks,
};
use headroom_bench::brake_reaction::quiet_day::after_a_quiet_day;
use headroom_domain::{
    estimate::{PodRequest, Profile, View},
    policy::Policy,
    resource::{PerResource, Resource},
};
use headroom_proto::{
    status::Status,
    v1alpha1::{Amounts, PodRequest as ListedPod, Pods, Qos},
};

/// The agent's boot time at its start, just after the start of a frame: no frame ends in the test, so the published
/// values are the saved ones. More than a day, so that the history is complete.
const UPTIME: Duration = Duration::from_secs(2 * 24 * 60 * 60);
/// Uptime after the reboot.
const UPTIME_AGAIN: Duration = Duration::from_secs(10 * 60);
/// The boot that the test begins on.
const THIS_BOOT: &str = "this-boot";
/// The pod of the node; it has no cgroup.
const POD: &str = "00000000-0000-4000-8002-000000000001";
/// M where nothing has moved it, in ppm, and by how much the first schema has all M larger.
const LEAST_PPM: u32 = 50_000;
const FIRST_SCHEMA_PPM: u32 = 50_000;
/// State learnt by the version before, and learnt again after the rollback: ratios in cents, and M of CPU and memory
/// in ppm. Without a policy memory is not amplified.
const LEARNT: Learnt = ([140, 100], [99_000, 72_000]);
const LEARNT_LATER: Learnt = ([130, 100], [148_000, 71_000]);
const NOTHING_LEARNT: Learnt = ([100, 100], [LEAST_PPM, LEAST_PPM]);

/// Ratios in cents, and M in ppm, of CPU and memory.
type Learnt = ([u32; 2], [u32; 2]);

/// Options that simulate a machine with this uptime and boot id.
fn machine(uptime: Duration, boot_id: &Path) -> Vec<String> {
    let now = Duration::from_nanos(Clocks::read().boottime_ns);
    let offset =
        i64::try_from(uptime.as_secs()).expect("seconds") - i64::try_from(now.as_secs()).expect("seconds");
    let offset = offset.to_string();
    let script = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
    let words = [
        "unshare",
        "--mount",
        "--time",
        "--boottime",
        &offset,
        // Linux 6.1 leaves the caller itself in its old time namespace, whatever it executes.
        "nsenter",
        "--time=/proc/self/ns/time_for_children",
        "sh",
        "-c",
        script,
    ];
    let words = words.into_iter().map(ToOwned::to_owned);
    words.chain([boot_id.display().to_string()]).collect()
}

/// A record that the version before wrote on this boot: of a day on which a pod that requests all of the node used little.
fn save_first_schema(folder: &Path, learnt: Learnt) {
    let timing = Profile::Production.timing();
    let raw = raw();
    let policy = Policy::default();
    let request = PodRequest {
        requests: raw,
        ..PodRequest::default()
    };
    let view = View {
        generation: 1,
        capacity: raw,
        raw,
        pods: BTreeMap::from([(POD.to_owned(), request)]),
        bounds: policy.bounds,
        target_ppm: policy.target_ppm,
        admitted: PerResource::default(),
    };
    let estimator = after_a_quiet_day(timing, view, UPTIME);
    let record = CheckpointFile {
        owner: Owner {
            node: "n1".to_owned(),
            timing: timing.profile.name().to_owned(),
        },
        boot_id: THIS_BOOT.to_owned(),
        wall: checkpoint::wall().saturating_sub(Duration::from_secs(60)),
        began: None,
        snapshot: estimator.snapshot(Duration::ZERO),
    };
    let store = Store::open(folder, record.wall).expect("a folder");
    store.save(&record).expect("save");
    let mut first = FirstRecord::read(folder, "n1");
    for entry in fs::read_dir(folder).expect("the folder") {
        fs::remove_file(entry.expect("an entry").path()).expect("only the version's own file");
    }
    change(&mut first, learnt);
    first.write(folder);
}

/// Raw allocatable of the kubelet: the whole machine.
fn raw() -> PerResource<u64> {
    let raw = this_machine().raw_allocatable.expect("amounts");
    PerResource {
        cpu: raw.cpu_milli,
        memory: raw.memory_bytes,
    }
}

/// Has the version before learn something.
fn change(record: &mut FirstRecord, (ratios, margins): Learnt) {
    let state = &mut record.state;
    [
        state.publication.cpu.published,
        state.publication.memory.published,
    ] = ratios;
    [
        state.outcomes.cpu.accumulator_ppm,
        state.outcomes.memory.accumulator_ppm,
    ] = margins.map(|ppm| ppm + FIRST_SCHEMA_PPM);
}

/// State from which the version before would continue.
fn known_to_first_schema(record: &FirstRecord) -> Learnt {
    let state = &record.state;
    let margins = [
        state.outcomes.cpu.accumulator_ppm,
        state.outcomes.memory.accumulator_ppm,
    ];
    (
        [
            state.publication.cpu.published,
            state.publication.memory.published,
        ],
        margins.map(|ppm| ppm - FIRST_SCHEMA_PPM),
    )
}

/// Published ratios of an agent, and its M.
fn shown(status: &Status) -> Learnt {
    let of = |resource| status.resource(resource).expect("a resource");
    (
        Resource::ALL.map(|resource| of(resource).published_cents),
        Resource::ALL.map(|resource| of(resource).calibration.accumulator_ppm),
    )
}

/// Starts an agent, and waits until it has measured and knows its node: the first second, long before a brake can fire.
async fn started(node: &AgentNode, machine: &[String], folder: &Path) -> (Running, Status) {
    let words: Vec<_> = machine.iter().map(String::as_str).collect();
    let mut agent = node
        .agent_under(&words, |options| {
            options.timing = Profile::Production;
            options.flags = vec![
                format!("--checkpoint={}", folder.display()),
                "--margin-calibration=on".to_owned(),
            ];
        })
        .await;
    let status = agent
        .status_until("it measures and knows its node", |status| {
            status.measured.is_some() && status.generation > 0
        })
        .await;
    (agent, status)
}

/// A node with the pod. The kubelet has set aside for admitted pods all that the node ever offers here, so that a
/// brake which a busy machine fires sheds nothing.
async fn node() -> AgentNode {
    let raw = raw();
    let pod = ListedPod {
        uid: POD.to_owned(),
        cpu_milli: raw.cpu,
        memory_bytes: raw.memory,
        qos: Qos::Burstable.into(),
        deleting: false,
        controller: 0,
        version: 0,
    };
    AgentNode::with_pods(Pods {
        pods: vec![pod],
        admitted: Some(Amounts {
            cpu_milli: raw.cpu * 3 / 2,
            memory_bytes: raw.memory * 3 / 2,
        }),
        ..this_machine()
    })
    .await
}

/// A file with the id of a boot.
fn boot(folder: &Path, id: &str) -> PathBuf {
    let file = folder.join(id);
    fs::write(&file, format!("{id}\n")).expect("a boot id");
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn ratio_and_margin_outlive_an_update_a_rollback_and_a_reboot() {
    let began = checkpoint::wall();
    let node = node().await;
    let folder = node.folder.path().join("history");
    let before = machine(UPTIME, &boot(node.folder.path(), THIS_BOOT));

    // A new node has learnt nothing, so this test cannot pass by default values.
    let elsewhere = node.folder.path().join("elsewhere");
    let (agent, status) = started(&node, &before, &elsewhere).await;
    assert_eq!(shown(&status), NOTHING_LEARNT, "{status:?}");
    assert_eq!(status.boot_id, THIS_BOOT);
    assert_eq!(agent.end().await, Some(0));

    // A newer image: the version before left its own file.
    save_first_schema(&folder, LEARNT);
    let (agent, status) = started(&node, &before, &folder).await;
    assert_eq!(shown(&status), LEARNT, "{status:?}");
    assert_eq!(status.history.beginning, "not-recorded");
    assert_eq!(agent.end().await, Some(0));

    // A DaemonSet update: SIGTERM, and another process with the same folder.
    let (agent, status) = started(&node, &before, &folder).await;
    assert_eq!(shown(&status), LEARNT, "{status:?}");
    assert_eq!(agent.end().await, Some(0));

    // The image is rolled back: the previous version continues, learns, and is replaced again.
    let mut first = FirstRecord::read(&folder, "n1");
    assert_eq!(known_to_first_schema(&first), LEARNT);
    assert_eq!(first.boot_id, THIS_BOOT);
    assert!(
        first.wall >= began,
        "today's agent writes what the version before reads"
    );
    change(&mut first, LEARNT_LATER);
    first.wall = checkpoint::wall();
    first.write(&folder);
    let (agent, status) = started(&node, &before, &folder).await;
    assert_eq!(shown(&status), LEARNT_LATER, "{status:?}");
    assert_eq!(agent.end().await, Some(0));
    let coverage = status.resources[0].coverage_ppm;

    // A reboot: other clocks, another boot id.
    let after = machine(UPTIME_AGAIN, &boot(node.folder.path(), "next-boot"));
    let (agent, status) = started(&node, &after, &folder).await;
    assert_eq!(status.boot_id, "next-boot");
    assert_eq!(shown(&status), LEARNT_LATER, "{status:?}");
    assert!(status.resources[0].coverage_ppm > coverage / 10 * 9, "{status:?}");
    assert_eq!(agent.end().await, Some(0));
    let first = FirstRecord::read(&folder, "n1");
    assert_eq!(known_to_first_schema(&first), LEARNT_LATER);
}
