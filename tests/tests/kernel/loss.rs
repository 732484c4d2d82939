//! Tests of the real agent whose measurement is removed while it runs, or refused by the verifier: it attaches again
//! or falls back to procfs, and reports so everywhere.
#![cfg(target_arch = "x86_64")]
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use e2e::{
    confined::{ConfinedAgent, TWO_CAPABILITIES},
    intruder,
    kernel_types::KernelTypes,
    process_resources::links_of,
    seccomp,
};
use headroom_agent::{
    kernel::probe::{Health, Hook},
    local::status::Status,
};
use headroom_proto::v1alpha1::Mode;
use rustix::io::Errno;
use tempfile::TempDir;

/// Metric of repeated attachments.
const REATTACHED: &str = "headroom_agent_bpf_reattach_total";

fn switches(status: &Status) -> u64 {
    status.measured.map_or(0, |measured| measured.switches_per_s)
}

/// An agent with two capabilities that counts.
async fn counting() -> ConfinedAgent {
    let mut confined = ConfinedAgent::start(&TWO_CAPABILITIES).await;
    let counts = |status: &Status| status.mode == "FULL" && switches(status) > 0;
    confined.agent.status_until("FULL, with switches", counts).await;
    assert_eq!(links(&confined), Hook::ALL.len());
    confined
}

fn links(confined: &ConfinedAgent) -> usize {
    links_of(confined.agent.process.pid()).len()
}

/// Takes its links to these hooks away and waits until it has made new ones.
async fn reattached(confined: &mut ConfinedAgent, hooks: &[Hook]) {
    let is_meant = |tracepoint: &str| hooks.iter().any(|hook| hook.tracepoint() == tracepoint);
    let taken = intruder::close_links(confined.agent.process.pid(), is_meant);
    assert_eq!(taken, hooks.len());
    confined
        .agent
        .until("new links", async |agent, status| {
            agent.counted(REATTACHED).await == 1 && switches(status) > 0
        })
        .await;
    assert_eq!(links(confined), Hook::ALL.len());
}

/// Checks that all programs have failed and that every output contains these words in the reason.
async fn all_failed(confined: &ConfinedAgent, status: &Status, words: &[&str]) {
    confined.assert_all_hooks(status, Health::Failed, words).await;
    assert_eq!(links(confined), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_links_are_restored_without_any_capability() {
    let mut confined = counting().await;
    reattached(&mut confined, &Hook::ALL).await;
    let status = confined.assert_mode(Mode::Full, &["no signal is missing"]).await;
    assert!(
        status.programs.iter().all(|program| program.health == "ok"),
        "{status:?}"
    );
    assert_eq!(confined.agent.warnings("re-attached the kernel programs"), 1);
    let void = r#"headroom_agent_frames_total{result="void"}"#;
    assert!(
        confined.agent.counted(void).await > 0,
        "missed data is not guessed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_wake_up_links_are_detected_while_switches_are_counted() {
    let mut confined = counting().await;
    reattached(&mut confined, &Hook::WAKE_UPS).await;
    confined.assert_mode(Mode::Full, &["no signal is missing"]).await;
    assert_eq!(
        confined
            .agent
            .warnings("another process removed the link of the kernel program at"),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn second_removal_of_links_falls_back_to_procfs() {
    let mut confined = counting().await;
    reattached(&mut confined, &Hook::ALL).await;
    intruder::close_links(confined.agent.process.pid(), |_| true);
    let words = [
        "another process removed the link of the kernel program at",
        "although the programs were re-attached before",
        "restart the agent",
    ];
    let status = confined.assert_procfs_everywhere(&words).await;
    all_failed(&confined, &status, &words).await;
    assert_eq!(confined.agent.counted(REATTACHED).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn links_that_cannot_be_restored_fall_back_to_procfs() {
    let mut confined = counting().await;
    let pid = confined.agent.process.pid();
    // Nor can it ask whether they are there: it learns it from the silence.
    let commands = [
        seccomp::Command::ObjectInfo,
        seccomp::Command::RawTracepointOpen,
        seccomp::Command::LinkCreate,
    ];
    intruder::deny(pid, &commands, Errno::PERM);
    intruder::close_links(pid, |_| true);
    let words = [
        "no context switch for 10 s",
        "cannot be re-attached",
        "not permitted",
        "lockdown, seccomp or LSM rule against bpf()",
        "restart the agent",
    ];
    let status = confined.assert_procfs_everywhere(&words).await;
    all_failed(&confined, &status, &words).await;
    assert_eq!(confined.agent.counted(REATTACHED).await, 0, "none was made");
    let measures = |now: &Status| {
        let until = |status: &Status| status.measured.map_or(0, |measured| measured.until_ns);
        until(now) > until(&status) && now.source == "procfs"
    };
    confined.agent.status_until("it measures on", measures).await;
}

/// An agent to which the kernel's types are described otherwise than they are.
async fn misled(change: impl FnOnce(&mut KernelTypes)) -> (ConfinedAgent, TempDir) {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("vmlinux");
    let mut types = KernelTypes::read();
    change(&mut types);
    types.write(&path);
    let script = format!(
        r#"mount --bind {} /sys/kernel/btf/vmlinux && exec "$0" "$@""#,
        path.display()
    );
    let confined = ConfinedAgent::start(&["unshare", "--mount", "sh", "-c", &script]).await;
    (confined, folder)
}

#[tokio::test(flavor = "multi_thread")]
async fn verifier_refusal_disables_the_program_and_its_log_is_shown() {
    // A pid instead of a pointer: the raw fallback would read half an address without an error.
    let (mut confined, _types) = misled(|types| types.put("task_struct", "pid", "stack")).await;
    let words = [
        "attach to sched_switch",
        "refused by the verifier",
        "not used",
        "please report the verifier's log",
    ];
    let status = confined.assert_procfs_everywhere(&words).await;
    all_failed(&confined, &status, &[]).await;

    let log = "cannot access ptr member stack";
    for hook in [Hook::SchedWakeup, Hook::SchedWakeupNew, Hook::SchedSwitch] {
        let name = hook.tracepoint();
        let program = status.programs.iter().find(|program| program.hook == name);
        let verdict = program.and_then(|program| program.verifier_log.as_deref());
        let verdict = verdict.unwrap_or_default();
        assert!(verdict.contains(log) && verdict.len() <= 4096, "{program:?}");
    }
    let reclaim = &status.programs[0];
    assert_eq!(reclaim.verifier_log, None, "it reads nothing of a task");
    assert!(
        reclaim
            .reason
            .as_deref()
            .is_some_and(|reason| reason.contains("because sched_switch could not be attached")),
        "{reclaim:?}"
    );

    let table = confined.node.ask(&["status"]).expect("a table");
    assert!(
        table.contains("the kernel's verifier refused the program for") && table.contains(log),
        "{table}"
    );
    let shown = confined.node.json("status").expect("the status");
    let switch = shown["programs"]
        .as_array()
        .expect("programs")
        .last()
        .expect("one");
    let last = status.programs.last().expect("one");
    assert_eq!(switch["verifier_log"].as_str(), last.verifier_log.as_deref());
    let logged = confined.agent.log();
    let logged = logged
        .lines()
        .filter(|line| line.contains("sched_switch") && line.contains("not attached") && line.contains(log));
    assert_eq!(logged.count(), 1, "{}", confined.agent.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_offset_is_not_guessed() {
    let (mut confined, _types) = misled(|types| types.rename("pid", "pie")).await;
    let words = ["`struct task_struct` has no field `pid`"];
    let remedy = "please report it with the kernel's version";
    let status = confined.assert_procfs_everywhere(&[words[0], remedy]).await;
    // This kernel lacks the fields that the programs would read.
    confined
        .assert_all_hooks(&status, Health::Unsupported, &words)
        .await;
    assert_eq!(links(&confined), 0, "none was tried");
    let untried = confined.agent.warnings("kernel program not attached");
    assert_eq!(untried, 0, "one cause is logged once");
}
