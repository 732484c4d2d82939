//! The real agent samples less and less where a CPU switches too often, and reports so. It samples everything again
//! when the CPU calms down.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use aya::maps::{Array, Map, MapData, loaded_maps};
use e2e::{
    confined::{ConfinedAgent, TWO_CAPABILITIES},
    process_resources::{links_of, maps_of},
};
use headroom_agent::{kernel::probe::Hook, local::status::Status};
use headroom_agent_ebpf::{Config, MAP_CFG};
use headroom_proto::v1alpha1::Mode;
use headroom_testbed::{ping_pong, thread::last_cpu};

/// Settings of the kernel programs, from the map.
struct Settings(Array<MapData, Config>);

impl Settings {
    fn read(pid: u32) -> Self {
        let own = maps_of(pid);
        let map = loaded_maps()
            .filter_map(Result::ok)
            .find(|map| own.contains(&map.id()) && map.name_as_str() == Some(MAP_CFG));
        let map = MapData::from_id(map.expect("the map").id()).expect("root may open it");
        Self(Array::try_from(Map::Array(map)).expect("an array of settings"))
    }

    /// Sampling rate: one task in this many.
    fn one_in(&self) -> u32 {
        self.0.get(&0, 0).expect("the settings").mask + 1
    }
}

/// The wake-up hooks that are attached.
fn wake_ups(pid: u32) -> usize {
    let is_wake_up =
        |(tracepoint, _): &(String, i32)| Hook::WAKE_UPS.iter().any(|hook| hook.tracepoint() == tracepoint);
    links_of(pid).iter().filter(|link| is_wake_up(link)).count()
}

/// Switches on one CPU as fast as it can, until it is dropped.
struct Load {
    is_over: &'static AtomicBool,
    thread: Option<thread::JoinHandle<()>>,
}

impl Load {
    fn start() -> Self {
        let is_over: &'static AtomicBool = Box::leak(Box::default());
        let cpu = last_cpu().expect("a CPU");
        let body = move || {
            while !is_over.load(Ordering::Relaxed) {
                ping_pong::round(cpu, Duration::from_millis(100)).expect("switches");
            }
        };
        Self {
            is_over,
            thread: Some(thread::spawn(body)),
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(thread::JoinHandle::join);
        assert!(
            thread::panicking() || ended.is_none_or(|ended| ended.is_ok()),
            "it could not go on"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shed_capacity_returns_when_the_node_calms_down() {
    let mut confined = ConfinedAgent::start(&TWO_CAPABILITIES).await;
    confined.agent.mode_until("FULL").await;
    let pid = confined.agent.process.pid();
    let settings = Settings::read(pid);
    assert_eq!((settings.one_in(), wake_ups(pid)), (8, 2));

    let load = Load::start();
    let expected = ["one task in 64", "one task in 512", "waits after wake-ups"];
    for words in expected {
        let is_told = |status: &Status| status.mode_sentence.contains(words);
        confined.agent.status_until(words, is_told).await;
    }
    confined.assert_mode(Mode::FullShed, &["are not measured"]).await;
    assert_eq!((settings.one_in(), wake_ups(pid)), (512, 0));
    assert_eq!(links_of(pid).len(), Hook::ALL.len() - 2, "the others stay");

    drop(load);
    let status = confined.assert_mode(Mode::Full, &["no signal is missing"]).await;
    assert!(
        status.programs.iter().all(|program| program.health == "ok"),
        "{status:?}"
    );
    confined
        .agent
        .until("the settings of the start", async |_, _| settings.one_in() == 8)
        .await;
    assert_eq!(wake_ups(pid), 2);
    let again = |status: &Status| {
        status
            .signals
            .iter()
            .any(|signal| signal.name == "run-queue-p99" && signal.health == "ok" && signal.value.is_some())
    };
    confined.agent.status_until("run-queue latency", again).await;
    assert_eq!(
        confined.agent.counted("headroom_agent_bpf_reattach_total").await,
        0,
        "nothing was lost"
    );
}
