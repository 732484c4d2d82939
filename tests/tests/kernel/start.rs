//! Memory of the real agent until its first report, and the part that it keeps.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use e2e::{
    agent::{AgentNode, Running},
    kernel::LOOK_EVERY,
    pace::happens_within,
    process_resources::counted_kib,
};
use headroom_agent::local::status::Status;
use tokio::time::{Instant, sleep};

/// The most that an agent that was built with optimisation may ever have had until its first report.
const PEAK_KIB: u64 = 20 << 10;
/// Maximum pages of the program and its libraries while it reads the kernel's types. A program without optimization
/// has twice as many; its other memory is the same.
const PROGRAM_KIB: u64 = 9 << 10;

/// An agent that counts by its kernel programs, has reported, and has been answered; and the most of files that it was seen
/// to have mapped by then, in KiB.
async fn reporting(node: &AgentNode) -> (Running, Status, u64) {
    let mut agent = node.agent("ebpf").await;
    let (pid, files) = (agent.process.pid(), AtomicU64::new(0));
    let has_reported = |status: &Status| {
        files.fetch_max(counted_kib(pid, "RssFile"), Relaxed);
        status.measured.is_some() && status.seq > 0 && status.generation > 0
    };
    let status = agent.status_until("a report and an answer", has_reported).await;
    (agent, status, files.into_inner())
}

#[tokio::test(flavor = "multi_thread")]
async fn startup_memory_beyond_the_program_file_is_bounded() {
    let node = AgentNode::start().await;
    let (agent, status, files) = reporting(&node).await;
    let mut flavours = status.programs.iter().map(|program| program.flavour.as_deref());
    assert!(flavours.all(|flavour| flavour == Some("typed")), "{status:?}");
    let peak = counted_kib(agent.process.pid(), "VmHWM");
    println!("{peak} KiB at most; {files} KiB of files are mapped");
    let beyond = peak.saturating_sub(files);
    assert!(
        beyond <= PEAK_KIB - PROGRAM_KIB,
        "{beyond} KiB in addition to {files} KiB of files"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn program_pages_used_only_at_startup_are_released() {
    let node = AgentNode::start().await;
    let (mut agent, status, at_first) = reporting(&node).await;
    let deadline = Instant::now() + happens_within();
    loop {
        let files = counted_kib(agent.process.pid(), "RssFile");
        if files <= at_first * 3 / 4 {
            println!("{files} KiB of files are mapped; at first {at_first}");
            break;
        }
        assert!(Instant::now() < deadline, "{files} KiB; at first {at_first}");
        sleep(LOOK_EVERY).await;
    }
    let seq = status.seq;
    agent
        .status_until("another report", |status| status.seq > seq)
        .await;
}
