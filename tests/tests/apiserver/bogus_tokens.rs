//! A thousand made-up tokens a second on the hint port cost the API server few TokenReviews, and agents still
//! reconnect.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use e2e::{
    scripted_agent::ScriptedAgent,
    stand::{AUTO, Stand},
    stranger,
};
use tokio::{
    sync::Semaphore,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;
use tonic::{Code, transport::Channel};

const CHANNELS: u64 = 4;
/// Pause between two tokens on each: a thousand a second on all.
const EVERY: Duration = Duration::from_millis(4);
/// Calls under way on each, as many as the server accepts.
const AT_ONCE: usize = 4;
/// Minimum duration of the stranger's load.
const FOR: Duration = Duration::from_secs(5);
/// Maximum time until an agent has a stream.
const RECONNECTS_WITHIN: Duration = Duration::from_secs(2);

/// A token like a good one in all but its signature; each number gives another.
fn bogus(good: &str, number: u64) -> String {
    let kept = good.len() - 12;
    format!("{}{number:012}", good.get(..kept).expect("a long token"))
}

/// Shows tokens on one connection without end, and counts those that were refused.
async fn flood(channel: Channel, good: String, first: u64, refused: Arc<AtomicU64>) {
    let free = Arc::new(Semaphore::new(AT_ONCE));
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for number in first.. {
        ticks.tick().await;
        let permit = Arc::clone(&free).acquire_owned().await.expect("never closed");
        let (channel, token) = (channel.clone(), bogus(&good, number));
        let refused = Arc::clone(&refused);
        tokio::spawn(async move {
            let status = ScriptedAgent::over(channel, Some(&token))
                .await
                .expect_err("a bogus token");
            let is_ours = [Code::Unauthenticated, Code::ResourceExhausted].contains(&status.code());
            refused.fetch_add(u64::from(is_ours), Ordering::Relaxed);
            drop(permit);
        });
    }
}

/// TokenReviews that the API server has answered.
async fn reviews(stand: &Stand) -> f64 {
    let metrics = stand.metrics().await;
    metrics.sum("apiserver_request_total", &[r#"resource="tokenreviews""#])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_bogus_tokens_per_second_cost_few_reviews_and_block_no_agent() {
    let stand = Stand::start().await;
    let webhook = stand.webhook("webhook-0", AUTO).await;
    let node = stand.create_node("n1", "4", "8Gi").await;
    let good = stand.agent_token(&node).await;
    let before = reviews(&stand).await;
    let refused = Arc::new(AtomicU64::new(0));
    let mut floods = Vec::new();
    for channel in 0..CHANNELS {
        let over = stranger::channel(webhook.hints, &webhook.ca)
            .await
            .expect("a channel");
        let run = flood(over, good.clone(), channel << 32, Arc::clone(&refused));
        floods.push(AbortOnDropHandle::new(tokio::spawn(run)));
    }
    let begun = Instant::now();
    let (mut agents, mut longest) = (0_u32, Duration::ZERO);
    while begun.elapsed() < FOR || refused.load(Ordering::Relaxed) < 2000 {
        assert!(begun.elapsed() < FOR * 12, "the flood is too thin: {refused:?}");
        sleep(Duration::from_millis(300)).await;
        // Each is another token, as after the kubelet made a new one.
        let token = stand.agent_token(&node).await;
        let asked = Instant::now();
        let stream = timeout(
            RECONNECTS_WITHIN,
            ScriptedAgent::open(webhook.hints, &webhook.ca, Some(&token)),
        );
        stream.await.expect("a stream in time").expect("a stream");
        (agents, longest) = (agents + 1, longest.max(asked.elapsed()));
    }
    drop(floods);
    let lasted = begun.elapsed();
    let bogus = reviews(&stand).await - before - f64::from(agents);
    println!(
        "{refused:?} refused in {lasted:?}, {bogus} reviewed; {agents} streams, the slowest after {longest:?}"
    );
    // Three on each connection, then one a second.
    let most = 4.0 * (4.0 + lasted.as_secs_f64());
    assert!(
        bogus <= most,
        "{bogus} TokenReviews of bogus tokens; at most {most:.0}"
    );
}
