//! Tests of the real `headroom-agent` process with few privileges: two capabilities are enough, and anything else that
//! is missing is reported once, everywhere, with a remedy.

use std::{fs, time::Duration};

use e2e::{
    confined::{ConfinedAgent, TWO_CAPABILITIES},
    pace::happens_within,
    seccomp,
};
use headroom_agent::{kernel::probe::Health, local::status::Status};
use headroom_proto::v1alpha1::Mode;
use rustix::{io::Errno, process::Signal};
use tokio::time::{Instant, sleep};

#[tokio::test(flavor = "multi_thread")]
async fn two_capabilities_suffice_and_are_dropped_while_counting() {
    let mut confined = ConfinedAgent::start(&TWO_CAPABILITIES).await;
    let status = confined.assert_mode(Mode::Full, &["no signal is missing"]).await;
    assert_eq!(confined.agent.lines(&status.mode_sentence), 1, "once");
    let hooks: Vec<_> = status
        .programs
        .iter()
        .filter(|program| program.health != "ok" || program.flavour.as_deref() != Some("typed"))
        .collect();
    assert!(hooks.is_empty(), "{hooks:?}");
    let seen = status.measured.expect("a second was measured").until_ns;
    let counts_on = |status: &Status| {
        status
            .measured
            .is_some_and(|measured| measured.until_ns > seen && measured.switches_per_s > 0)
    };
    confined
        .agent
        .status_until("switches of a later second", counts_on)
        .await;
}

/// Checks that the agent uses procfs, that its status and every hook contain these words as the reason, and that its
/// sentence contains the remedy.
async fn assert_procfs_fallback(confined: &mut ConfinedAgent, hooks: Health, words: &[&str], remedy: &str) {
    let status = confined
        .assert_procfs_everywhere(&[words, &[remedy]].concat())
        .await;
    confined.assert_all_hooks(&status, hooks, words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_cap_perfmon_is_reported() {
    let confiner = ["setpriv", "--inh-caps=-all", "--bounding-set=-all,+bpf"];
    let mut confined = ConfinedAgent::start(&confiner).await;
    assert_procfs_fallback(
        &mut confined,
        Health::Failed,
        &["grant CAP_BPF and CAP_PERFMON"],
        "fix this and restart the agent",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_capabilities_are_reported_by_name() {
    let confiner = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"];
    let mut confined = ConfinedAgent::start(&confiner).await;
    assert_procfs_fallback(
        &mut confined,
        Health::Failed,
        &["grant CAP_BPF and CAP_PERFMON"],
        "fix this and restart the agent",
    )
    .await;
}

/// Hides the kernel's BTF from a program.
const WITHOUT_BTF: [&str; 5] = [
    "unshare",
    "--mount",
    "sh",
    "-c",
    r#"mount -t tmpfs none /sys/kernel/btf && exec "$0" "$@""#,
];

#[tokio::test(flavor = "multi_thread")]
async fn without_btf_the_agent_uses_the_configured_btf_file() {
    let folder = tempfile::tempdir().expect("folder");
    let copy = folder.path().join("vmlinux.btf");
    fs::copy("/sys/kernel/btf/vmlinux", &copy).expect("copy it");
    let flag = format!("--btf={}", copy.display());
    let mut confined = ConfinedAgent::start_with(&WITHOUT_BTF, &[&flag]).await;
    let status = confined.assert_mode(Mode::Full, &["no signal is missing"]).await;
    assert!(
        status.programs.iter().all(|program| program.health == "ok"),
        "{status:?}"
    );
    let flavours = status.programs.iter().map(|program| program.flavour.as_deref());
    assert!(
        flavours.clone().all(|flavour| flavour == Some("raw")),
        "{status:?}"
    );
    let counts = |status: &Status| {
        status
            .measured
            .is_some_and(|measured| measured.switches_per_s > 0)
    };
    confined.agent.status_until("switches", counts).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_btf_file_is_reported_by_path() {
    let mut confined = ConfinedAgent::start(&WITHOUT_BTF).await;
    assert_procfs_fallback(
        &mut confined,
        Health::Unsupported,
        &["read /sys/kernel/btf/vmlinux", "CONFIG_DEBUG_INFO_BTF"],
        "set --btf to a BTF file of this kernel, or boot a kernel",
    )
    .await;
}

/// Under a seccomp profile that answers these commands with this error.
async fn denied(commands: &[seccomp::Command], errno: Errno) -> ConfinedAgent {
    let names: Vec<_> = commands.iter().map(|command| command.name()).collect();
    let errno = errno.raw_os_error().to_string();
    ConfinedAgent::start(&[env!("CARGO_BIN_EXE_e2e-denied"), &names.join(","), &errno]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn denied_program_load_is_reported_with_possible_causes() {
    let mut confined = denied(&[seccomp::Command::ProgramLoad], Errno::PERM).await;
    assert_procfs_fallback(
        &mut confined,
        Health::Failed,
        &["lockdown, seccomp or LSM rule against bpf()"],
        "fix this and restart the agent",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kernel_without_the_program_type_is_reported() {
    let mut confined = denied(&[seccomp::Command::ProgramLoad], Errno::INVAL).await;
    assert_procfs_fallback(
        &mut confined,
        Health::Unsupported,
        &["this kernel does not load raw tracepoint programs"],
        "boot a newer kernel, or change the seccomp profile",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn denied_map_creation_is_reported_by_name() {
    let mut confined = denied(&[seccomp::Command::MapCreate], Errno::NOMEM).await;
    assert_procfs_fallback(
        &mut confined,
        Health::Failed,
        &["create map", "Cannot allocate memory"],
        "free memory, allow bpf() to create maps",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn denied_attachment_is_reported() {
    let commands = [seccomp::Command::RawTracepointOpen, seccomp::Command::LinkCreate];
    let mut confined = denied(&commands, Errno::PERM).await;
    let status = confined
        .assert_procfs_everywhere(&[
            "attach to sched_switch",
            "not permitted",
            "fix this and restart the agent",
        ])
        .await;
    confined
        .assert_all_hooks(&status, Health::Failed, &["not permitted"])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn starved_agent_reports_lost_windows_and_voids_the_frame() {
    let mut confined = ConfinedAgent::start(&TWO_CAPABILITIES).await;
    confined.agent.mode_until("FULL").await;
    let before = counters(&confined).await;
    confined.agent.process.signal(Signal::STOP).expect("stop it");
    sleep(Duration::from_secs(5)).await;
    confined.agent.process.signal(Signal::CONT).expect("resume it");
    let deadline = Instant::now() + happens_within();
    loop {
        let [lost, void] = counters(&confined).await;
        // Windows of 8.39 ms in five seconds, less those that the rings and the last poll before contain.
        if lost - before[0] > 200 && void > before[1] {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{before:?}, then {lost} windows lost and {void} frames void"
        );
        sleep(Duration::from_millis(50)).await;
    }
}

/// Windows lost and frames voided so far.
async fn counters(confined: &ConfinedAgent) -> [u64; 2] {
    let agent = &confined.agent;
    [
        agent.counted("headroom_agent_lost_windows_total").await,
        agent
            .counted(r#"headroom_agent_frames_total{result="void"}"#)
            .await,
    ]
}
