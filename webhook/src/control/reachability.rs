//! Probes once a minute whether the API server reaches a replica: a dry run of `nodes/status`, which
//! `/mutate-node-status` answers with a warning. A network policy or a CNI that the API server is no part of lets
//! everything else look healthy.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use headroom_domain::names;
use headroom_kit::{admin::PartReadiness, log::chain};
use http::{HeaderMap, StatusCode, header::WARNING};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Client, Resource as _,
    api::{Patch, PatchParams, Request},
    client::Body,
    core::Status,
};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::metrics::REACHABLE;
use crate::admission::endpoints::{PROBE_ANSWER, PROBE_ANSWER_VERIFIED};

/// Pause after an answered probe.
const EVERY: Duration = Duration::from_secs(60);
/// Pause after any other.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Probes in a row without an answer that are reported. At a start the first ones meet no ready replica.
const MOST_UNANSWERED: u32 = 4;
/// Timeout of a probe. The API server waits for the webhook for at most a second.
const LIMIT: Duration = Duration::from_secs(5);
/// Longest error message of the API server that is kept.
const LONGEST_MESSAGE: usize = 512;

/// Result of the last probe that allowed a conclusion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Reached {
    /// None did so far.
    #[default]
    Unknown,
    /// A replica answered.
    Yes {
        at: Instant,
        /// True if the API server presented its client certificate.
        is_verified: bool,
    },
    /// No replica answered the last probes, for this reason.
    No(String),
}

/// Shared result of the probes.
#[derive(Debug, Default)]
pub struct ReachabilityState(Mutex<Reached>);

/// Conclusion of one probe.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ProbeResult {
    Answered {
        is_verified: bool,
    },
    /// The API server did not call a replica, or had no answer from it.
    Unanswered(String),
    /// No conclusion about the way from the API server to a replica.
    Undecided(String),
}

/// Settings of the probes.
pub struct ProbeOptions {
    pub client: Client,
    /// Name of any node; `None` while there is none, or while the endpoint is switched off.
    pub node: Box<dyn Fn() -> Option<String> + Send + Sync>,
    /// Called if an API server has presented its client certificate.
    pub on_verified: Box<dyn Fn() + Send + Sync>,
    pub state: Arc<ReachabilityState>,
    pub note: PartReadiness,
}

impl ReachabilityState {
    /// Result of the last probes.
    pub fn reached(&self) -> Reached {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, reached: Reached) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = reached;
    }
}

/// Probes until `stop` is cancelled.
pub async fn follow(options: ProbeOptions, stop: CancellationToken) {
    stop.run_until_cancelled(repeat(&options)).await;
}

async fn repeat(options: &ProbeOptions) {
    let mut unanswered = 0_u32;
    loop {
        let result = match (options.node)() {
            Some(node) => probe(&options.client, &node).await,
            None => ProbeResult::Undecided("no node to send a dry run for".to_owned()),
        };
        let pause = match result {
            ProbeResult::Answered { is_verified } => {
                unanswered = 0;
                report_answer(options, is_verified);
                EVERY
            }
            ProbeResult::Unanswered(problem) => {
                unanswered = unanswered.saturating_add(1);
                if unanswered >= MOST_UNANSWERED {
                    report_silence(options, problem);
                }
                RETRY_AFTER
            }
            ProbeResult::Undecided(reason) => {
                debug!(reason, "the probe allowed no conclusion");
                if options.state.reached() == Reached::Unknown {
                    options.note.not_ready(reason);
                }
                RETRY_AFTER
            }
        };
        sleep(pause).await;
    }
}

fn report_answer(options: &ProbeOptions, is_verified: bool) {
    if matches!(options.state.reached(), Reached::No(_)) {
        info!("the API server reaches the webhook again");
    }
    options.state.set(Reached::Yes {
        at: Instant::now(),
        is_verified,
    });
    options.note.ready();
    REACHABLE.with([]).set(1.0);
    if is_verified {
        (options.on_verified)();
    }
}

fn report_silence(options: &ProbeOptions, problem: String) {
    let reached = Reached::No(problem.clone());
    if options.state.reached() != reached {
        warn!(
            problem,
            "the API server does not reach the webhook; writes may pass unchecked"
        );
    }
    options.state.set(reached);
    options.note.not_ready(problem);
    REACHABLE.with([]).set(0.0);
}

/// Sends one dry run without content.
async fn probe(client: &Client, node: &str) -> ProbeResult {
    match timeout(LIMIT, send(client, node)).await {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => ProbeResult::Undecided(chain(&error).to_string()),
        Err(_elapsed) => ProbeResult::Undecided(format!("the API server did not answer within {LIMIT:?}")),
    }
}

async fn send(client: &Client, node: &str) -> kube::Result<ProbeResult> {
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::apply(names::WEBHOOK_SERVICE_ACCOUNT)
    };
    let request = Request::new(Node::url_path(&(), None));
    let request = request
        .patch_subresource("status", node, &params, &Patch::Merge(json!({})))
        .map_err(kube::Error::BuildRequest)?;
    let (parts, body) = client.send(request.map(Body::from)).await?.into_parts();
    if parts.status.is_success() {
        return Ok(conclude(&parts.headers));
    }
    let body = body.collect().await?.to_bytes();
    let message = serde_json::from_slice::<Status>(&body).map(|status| status.message);
    Ok(conclude_refusal(parts.status, &message.unwrap_or_default()))
}

/// Conclusion from the warnings of an accepted dry run.
fn conclude(headers: &HeaderMap) -> ProbeResult {
    let warnings = headers.get_all(WARNING).iter();
    let mut texts = warnings.filter_map(|warning| warning.to_str().ok());
    match texts.find(|text| text.contains(PROBE_ANSWER)) {
        Some(text) => ProbeResult::Answered {
            is_verified: text.contains(&format!("{PROBE_ANSWER}{PROBE_ANSWER_VERIFIED}")),
        },
        None => ProbeResult::Unanswered(
            "the API server accepted a dry run of nodes/status without the webhook's answer".to_owned(),
        ),
    }
}

/// Conclusion from a refused dry run. The API server reports a failed call with code 500 if the failure policy is Fail.
fn conclude_refusal(status: StatusCode, message: &str) -> ProbeResult {
    let message: String = message.chars().take(LONGEST_MESSAGE).collect();
    if status == StatusCode::INTERNAL_SERVER_ERROR && message.contains("webhook") {
        ProbeResult::Unanswered(message)
    } else {
        ProbeResult::Undecided(format!(
            "the API server refused the dry run ({status}): {message}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicU32, Ordering},
    };

    use headroom_kit::admin::Readiness;
    use http::Response;
    use rstest::rstest;

    use super::*;

    fn headers(warnings: &[&str]) -> HeaderMap {
        let warnings = warnings.iter().map(|&text| (WARNING, text.parse().unwrap()));
        warnings.collect()
    }

    #[rstest]
    #[case::other_warnings_only(&["299 - \"unknown field\""], None)]
    #[case::none(&[], None)]
    #[case::answered(&["299 - \"x\"", "299 - \"headroom.sh: a replica answered the probe\""], Some(false))]
    #[case::verified(&["299 - \"headroom.sh: a replica answered the probe of a verified API server\""], Some(true))]
    fn an_accepted_dry_run_is_answered_if_a_warning_says_so(
        #[case] warnings: &[&str],
        #[case] is_verified: Option<bool>,
    ) {
        let expected = is_verified.map(|is_verified| ProbeResult::Answered { is_verified });
        let concluded = conclude(&headers(warnings));
        match expected {
            Some(expected) => assert_eq!(concluded, expected),
            None => assert!(matches!(concluded, ProbeResult::Unanswered(_)), "{concluded:?}"),
        }
    }

    #[test]
    fn only_a_failed_call_of_the_webhook_is_an_unanswered_probe() {
        let failed = "Internal error occurred: failed calling webhook \"mnode-status.koordinator.sh\": ...";
        let concluded = conclude_refusal(StatusCode::INTERNAL_SERVER_ERROR, failed);
        assert_eq!(concluded, ProbeResult::Unanswered(failed.to_owned()));
        for status in [
            StatusCode::FORBIDDEN,
            StatusCode::NOT_FOUND,
            StatusCode::SERVICE_UNAVAILABLE,
        ] {
            let concluded = conclude_refusal(status, "nodes \"a\" not found");
            assert!(matches!(concluded, ProbeResult::Undecided(_)), "{concluded:?}");
        }
    }

    /// An API server whose answers to the n-th request have these warnings; the last one repeats.
    fn api_server(script: &'static [&'static [&'static str]]) -> Client {
        let sent = Arc::new(AtomicU32::new(0));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            assert!(
                request.uri().to_string().contains("dryRun=All"),
                "{}",
                request.uri()
            );
            let n = sent.fetch_add(1, Ordering::Relaxed) as usize;
            let mut response = Response::new(Body::from(b"{}".to_vec()));
            *response.headers_mut() = headers(script[n.min(script.len() - 1)]);
            async move { Ok::<_, Infallible>(response) }
        });
        Client::new(service, "default")
    }

    const ANSWER: &[&str] = &["299 - \"headroom.sh: a replica answered the probe of a verified API server\""];
    const NO_ANSWER: &[&str] = &[];

    #[tokio::test(start_paused = true)]
    async fn silence_is_reported_after_several_probes_and_ends_with_an_answer() {
        let (state, readiness) = (Arc::<ReachabilityState>::default(), Readiness::new());
        let verified = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&verified);
        let options = ProbeOptions {
            client: api_server(&[NO_ANSWER, NO_ANSWER, NO_ANSWER, NO_ANSWER, ANSWER]),
            node: Box::new(|| Some("n".to_owned())),
            on_verified: Box::new(move || {
                counted.fetch_add(1, Ordering::Relaxed);
            }),
            state: Arc::clone(&state),
            note: readiness.note("reachability"),
        };
        let stop = CancellationToken::new();
        let task = tokio::spawn(follow(options, stop.clone()));
        sleep(RETRY_AFTER * 2 + Duration::from_secs(1)).await;
        assert_eq!(state.reached(), Reached::Unknown);
        sleep(RETRY_AFTER).await;
        assert!(matches!(state.reached(), Reached::No(_)));
        assert!(
            readiness.is_ready(),
            "the replica still answers everything that arrives"
        );
        sleep(RETRY_AFTER).await;
        assert!(matches!(
            state.reached(),
            Reached::Yes {
                is_verified: true,
                ..
            }
        ));
        assert_eq!(verified.load(Ordering::Relaxed), 1);
        stop.cancel();
        task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_node_nothing_is_concluded() {
        let (state, readiness) = (Arc::<ReachabilityState>::default(), Readiness::new());
        let options = ProbeOptions {
            client: api_server(&[NO_ANSWER]),
            node: Box::new(|| None),
            on_verified: Box::new(|| ()),
            state: Arc::clone(&state),
            note: readiness.note("reachability"),
        };
        let _elapsed = timeout(EVERY, repeat(&options)).await;
        assert_eq!(state.reached(), Reached::Unknown);
    }
}
