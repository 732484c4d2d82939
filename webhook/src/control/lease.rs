//! Contends for a lease in the API server, so that only one replica at a time is the leader.
//!
//! Clocks are not compared. A lease has expired when this process has seen it unchanged for as long as it lasts, by its
//! own monotonic clock, and a holder stops acting when it has not renewed for [`GIVE_UP`], which is shorter. Every
//! write carries the resource version that it rests on, so only one of two contenders gets the lease. A holder that was
//! frozen may still act for a moment after another took over: the work of holders must bear that.
//!
//! Only a replica that knows the cluster contends, and a holder that no longer knows it gives the lease back. So a
//! lease in another replica's hands also shows that its holder knows the cluster. What else its holder does not know
//! stands in an annotation, and a replica that knows everything gets the lease before one that does not.

use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use headroom_domain::names;
use headroom_kit::log::chain;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
use kube::{Api, Client, api::PostParams};
use tokio::{
    select,
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::store::access::{Access, AccessNamespace, ObjectNames};

const GROUP: &str = "coordination.k8s.io";
const LEASES: &str = "leases";

/// API access that contending needs, in our own namespace and nowhere else: a lease elsewhere is a node's heartbeat.
pub static ACCESS: &[Access] = &[
    // An object under creation has no name yet, so a rule cannot name it.
    Access::to(GROUP, LEASES, ObjectNames::All, &["create"]).in_namespace(AccessNamespace::Own),
    Access::to(
        GROUP,
        LEASES,
        ObjectNames::Ours(&[names::LEASE]),
        &["get", "update"],
    )
    .in_namespace(AccessNamespace::Own),
];

/// Duration of a lease without renewal.
pub const LASTS: Duration = Duration::from_secs(8);
/// Time without renewal after which a holder stops acting. Less than [`LASTS`] by more than [`REQUEST_LIMIT`]: a
/// write that is sent at the last moment has ended before another replica may take over.
pub const GIVE_UP: Duration = Duration::from_secs(5);
/// Time for which a replica that lacks a source leaves a free lease to others.
const LEFT_TO_OTHERS: Duration = LASTS;
/// Annotation with the needed sources that the holder does not know, joined by commas. A holder of an earlier version
/// writes none, and counts as one that knows everything.
const UNKNOWN_SOURCES: &str = "headroom.sh/unknown-sources";
/// Interval of a holder's renewals and of the other replicas' checks.
const EVERY: Duration = Duration::from_secs(2);
/// Timeout of a request to the API server.
const REQUEST_LIMIT: Duration = Duration::from_secs(2);

/// A contender for a lease.
pub struct Contender {
    leases: Api<Lease>,
    namespace: String,
    name: String,
    identity: String,
    is_holder: watch::Sender<bool>,
    elsewhere: watch::Sender<Elsewhere>,
}

/// Holder of the lease, as far as it is another replica.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Elsewhere {
    /// No attempt to read the lease has ended yet.
    #[default]
    NotRead,
    /// No other replica holds it, as far as known.
    Nowhere,
    /// Another replica holds and renews it.
    Held {
        /// Needed sources that its holder does not know either.
        unknown: BTreeSet<String>,
    },
}

/// State between two checks of the lease.
#[derive(Debug, Default)]
struct LeaseView {
    /// The lease as last seen, by resource version, and when that was first seen.
    observed: Option<(Option<String>, Instant)>,
    /// Time of our last successful renewal.
    renewed: Option<Instant>,
    /// Time at which another holder's renewal was last observed, and the sources that it does not know.
    seen_elsewhere: Option<(Instant, BTreeSet<String>)>,
    /// Time since which the lease has been seen free.
    free_since: Option<Instant>,
    /// True if it is ours and no needed source was unknown here.
    was_complete: bool,
}

/// Outcome of a check of the lease.
#[derive(Debug, PartialEq, Eq)]
enum LeaseStep {
    /// There is no lease: create it.
    Create,
    /// It is ours, or free, or has expired: write it.
    Write,
    /// Another replica holds and renews it.
    Leave,
}

impl Contender {
    /// Contender under a name such as the replica's; a suffix distinguishes restarts.
    pub fn new(client: Client, namespace: &str, name: &str, replica: &str) -> Self {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            leases: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: format!("{replica}_{:x}", started.as_nanos()),
            is_holder: watch::Sender::new(false),
            elsewhere: watch::Sender::new(Elsewhere::NotRead),
        }
    }

    /// Receiver that is true while this replica holds the lease.
    pub fn is_holder(&self) -> watch::Receiver<bool> {
        self.is_holder.subscribe()
    }

    /// Receiver of the holder, as far as it is another replica.
    pub fn elsewhere(&self) -> watch::Receiver<Elsewhere> {
        self.elsewhere.subscribe()
    }

    /// Contends for the lease while the cluster is known here, until `stop` is cancelled; then releases it. `unknown`
    /// has the needed sources besides those of the cluster's nodes that are unknown here.
    pub async fn contend(
        self,
        mut is_known: watch::Receiver<bool>,
        mut unknown: watch::Receiver<BTreeSet<&'static str>>,
        stop: CancellationToken,
    ) {
        let mut view = LeaseView::default();
        loop {
            let looked = Instant::now();
            let may_lead = *is_known.borrow_and_update();
            let lacking: Vec<&str> = unknown.borrow_and_update().iter().copied().collect();
            // A holder that has lost a source gives way once: if no other replica takes the lease, it comes back.
            if !may_lead || (view.was_complete && !lacking.is_empty()) {
                self.leave(&mut view).await;
            }
            self.poll(&mut view, may_lead, &lacking).await;
            view.was_complete = view.renewed.is_some() && lacking.is_empty();
            let now = Instant::now();
            if !view.may_act(now) {
                view.renewed = None;
            }
            self.log_change(view.renewed.is_some());
            self.elsewhere.send_if_modified(|told| {
                let elsewhere = view.elsewhere(now);
                let has_changed = *told != elsewhere;
                *told = elsewhere;
                has_changed
            });
            // A renewal that fails is tried again; meanwhile the right to act can run out.
            let next = looked + EVERY;
            let until = view.acts_until().map_or(next, |until| until.min(next));
            select! {
                () = stop.cancelled() => break,
                () = sleep_until(until) => {}
                Ok(()) = is_known.changed() => {}
                Ok(()) = unknown.changed() => {}
            }
        }
        self.leave(&mut view).await;
    }

    /// Gives the lease back, if it is ours.
    async fn leave(&self, view: &mut LeaseView) {
        if view.may_act(Instant::now()) {
            self.log_change(false);
            self.release().await;
        }
        view.renewed = None;
    }

    /// Reads the lease, and writes it if this replica may. `lacking` has the sources that are unknown here.
    async fn poll(&self, view: &mut LeaseView, may_lead: bool, lacking: &[&str]) {
        let outcome = async {
            let lease = self.leases.get_opt(&self.name).await?;
            let step = view.step(lease.as_ref(), &self.identity, Instant::now());
            // Before the write: others count from when they see it, so ours ends first.
            let now = Instant::now();
            let theirs = (step == LeaseStep::Leave).then(|| unknown_sources(lease.as_ref()));
            view.seen_elsewhere = theirs.map(|theirs| (now, theirs));
            let may_take = lacking.is_empty() || !view.is_left_to_others(now);
            match (step, lease) {
                (LeaseStep::Leave, _) => view.renewed = None,
                _ if !may_lead || !may_take => {}
                (LeaseStep::Create, _) | (LeaseStep::Write, None) => {
                    let lease = self.ours(None, lacking);
                    self.leases.create(&PostParams::default(), &lease).await?;
                    view.renewed = Some(now);
                }
                (LeaseStep::Write, Some(lease)) => {
                    let lease = self.ours(Some(lease), lacking);
                    self.leases
                        .replace(&self.name, &PostParams::default(), &lease)
                        .await?;
                    view.renewed = Some(now);
                }
            }
            Ok::<_, kube::Error>(())
        };
        match timeout(REQUEST_LIMIT, outcome).await {
            Ok(Ok(())) => {}
            // Another replica was faster; the next check shows which.
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => {
                debug!(lease = self.name, "changed meanwhile");
            }
            Ok(Err(error)) => {
                warn!(lease = self.name, error = %chain(&error), "could not read or renew the lease; retrying");
            }
            Err(_elapsed) => {
                warn!(lease = self.name, limit = ?REQUEST_LIMIT, "the API server did not answer in time");
            }
        }
    }

    /// The lease with us as its holder.
    fn ours(&self, before: Option<Lease>, lacking: &[&str]) -> Lease {
        let now = MicroTime(Timestamp::now());
        let Lease { mut metadata, spec } = before.unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(self.namespace.clone()),
                ..ObjectMeta::default()
            },
            spec: None,
        });
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(UNKNOWN_SOURCES.to_owned(), lacking.join(","));
        let spec = spec.unwrap_or_default();
        let is_new = spec.holder_identity.as_deref() != Some(&self.identity);
        let (acquired, transitions) = if is_new {
            (
                Some(now.clone()),
                spec.lease_transitions.unwrap_or(0).saturating_add(1),
            )
        } else {
            (spec.acquire_time, spec.lease_transitions.unwrap_or(0))
        };
        Lease {
            metadata,
            spec: Some(LeaseSpec {
                holder_identity: Some(self.identity.clone()),
                acquire_time: acquired,
                renew_time: Some(now),
                lease_transitions: Some(transitions),
                lease_duration_seconds: i32::try_from(LASTS.as_secs()).ok(),
                ..spec
            }),
        }
    }

    async fn release(&self) {
        let outcome = async {
            let Some(mut lease) = self.leases.get_opt(&self.name).await? else {
                return Ok(());
            };
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() == Some(&self.identity) {
                spec.holder_identity = None;
                self.leases
                    .replace(&self.name, &PostParams::default(), &lease)
                    .await?;
            }
            Ok::<_, kube::Error>(())
        };
        match timeout(REQUEST_LIMIT, outcome).await {
            Ok(Ok(())) => info!(lease = self.name, "given back"),
            Ok(Err(error)) => {
                warn!(lease = self.name, error = %chain(&error), "could not release the lease; it will expire");
            }
            Err(_elapsed) => warn!(
                lease = self.name,
                "could not release the lease in time; it will expire"
            ),
        }
    }

    fn log_change(&self, is_holder: bool) {
        let has_changed = self.is_holder.send_if_modified(|told| {
            let has_changed = *told != is_holder;
            *told = is_holder;
            has_changed
        });
        if has_changed {
            info!(lease = self.name, is_holder, "the lease changed its holder");
        }
    }
}

impl LeaseView {
    /// Decides the next step for the current lease.
    fn step(&mut self, lease: Option<&Lease>, identity: &str, now: Instant) -> LeaseStep {
        let Some(Lease { metadata, spec }) = lease else {
            self.observed = None;
            self.free_since.get_or_insert(now);
            return LeaseStep::Create;
        };
        let version = &metadata.resource_version;
        let since = match &self.observed {
            Some((seen, since)) if seen == version => *since,
            Some(_) | None => {
                self.observed = Some((version.clone(), now));
                now
            }
        };
        let holder = spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
        let lasts = spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        let lasts = lasts.and_then(|seconds| u64::try_from(seconds).ok());
        let lasts = lasts.map_or(LASTS, Duration::from_secs);
        let step = match holder {
            None | Some("") => LeaseStep::Write,
            Some(holder) if holder == identity => LeaseStep::Write,
            Some(_) if now.saturating_duration_since(since) >= lasts => LeaseStep::Write,
            Some(_) => LeaseStep::Leave,
        };
        if step == LeaseStep::Leave || holder == Some(identity) {
            self.free_since = None;
        } else {
            self.free_since.get_or_insert(now);
        }
        step
    }

    /// True while the lease has not been free for long.
    fn is_left_to_others(&self, now: Instant) -> bool {
        self.free_since
            .is_some_and(|since| now.saturating_duration_since(since) < LEFT_TO_OTHERS)
    }

    /// True while the lease is surely ours.
    fn may_act(&self, now: Instant) -> bool {
        self.acts_until().is_some_and(|until| now < until)
    }

    /// Holder of the lease, as far as observed.
    fn elsewhere(&self, now: Instant) -> Elsewhere {
        match &self.seen_elsewhere {
            Some((seen, unknown)) if now.saturating_duration_since(*seen) < LASTS => Elsewhere::Held {
                unknown: unknown.clone(),
            },
            Some(_) | None => Elsewhere::Nowhere,
        }
    }

    fn acts_until(&self) -> Option<Instant> {
        self.renewed.map(|renewed| renewed + GIVE_UP)
    }
}

/// Sources that the holder does not know.
fn unknown_sources(lease: Option<&Lease>) -> BTreeSet<String> {
    let annotations = lease.and_then(|lease| lease.metadata.annotations.as_ref());
    let text = annotations.and_then(|annotations| annotations.get(UNKNOWN_SOURCES));
    let names = text.into_iter().flat_map(|text| text.split(','));
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: &str, version: &str) -> Lease {
        Lease {
            metadata: ObjectMeta {
                resource_version: Some(version.to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: Some(8),
                ..LeaseSpec::default()
            }),
        }
    }

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_lease_that_changes_is_left_to_its_holder() {
        let (mut view, start) = (LeaseView::default(), Instant::now());
        for look in 0..20 {
            let version = (look / 2).to_string();
            let now = start + seconds(look * 3);
            assert_eq!(view.step(Some(&lease("b", &version)), "a", now), LeaseStep::Leave);
        }
    }

    #[test]
    fn a_lease_seen_unchanged_for_as_long_as_it_lasts_is_taken_whatever_its_times_say() {
        let (mut view, start) = (LeaseView::default(), Instant::now());
        let stale = lease("b", "7");
        assert_eq!(view.step(Some(&stale), "a", start), LeaseStep::Leave);
        let almost = start + seconds(8) - Duration::from_millis(1);
        assert_eq!(view.step(Some(&stale), "a", almost), LeaseStep::Leave);
        assert_eq!(view.step(Some(&stale), "a", start + seconds(8)), LeaseStep::Write);
    }

    #[test]
    fn a_free_lease_is_taken_at_once_and_a_missing_one_made() {
        let (mut view, now) = (LeaseView::default(), Instant::now());
        assert_eq!(view.step(Some(&lease("", "1")), "a", now), LeaseStep::Write);
        assert_eq!(view.step(Some(&lease("a", "1")), "a", now), LeaseStep::Write);
        assert_eq!(view.step(None, "a", now), LeaseStep::Create);
    }

    #[test]
    fn a_holder_that_cannot_renew_stops_before_others_may_take_over() {
        let start = Instant::now();
        let view = LeaseView {
            renewed: Some(start),
            ..LeaseView::default()
        };
        assert!(view.may_act(start + GIVE_UP - Duration::from_millis(1)));
        assert!(!view.may_act(start + GIVE_UP));
        assert!(GIVE_UP + REQUEST_LIMIT < LASTS);
    }

    #[test]
    fn a_lease_is_elsewhere_only_while_it_can_be_seen_there() {
        let seen = Instant::now();
        let view = LeaseView {
            seen_elsewhere: Some((seen, BTreeSet::new())),
            ..LeaseView::default()
        };
        let held = Elsewhere::Held {
            unknown: BTreeSet::new(),
        };
        assert_eq!(view.elsewhere(seen + LASTS - Duration::from_millis(1)), held);
        assert_eq!(view.elsewhere(seen + LASTS), Elsewhere::Nowhere);
        assert_eq!(LeaseView::default().elsewhere(seen), Elsewhere::Nowhere);
    }

    #[test]
    fn a_free_lease_is_left_to_replicas_that_know_everything_for_a_while() {
        let (mut view, start) = (LeaseView::default(), Instant::now());
        assert_eq!(view.step(Some(&lease("", "1")), "a", start), LeaseStep::Write);
        assert!(view.is_left_to_others(start + LEFT_TO_OTHERS - Duration::from_millis(1)));
        let now = start + LEFT_TO_OTHERS;
        view.step(Some(&lease("", "1")), "a", now);
        assert!(!view.is_left_to_others(now));
        // Another replica had it meanwhile.
        view.step(Some(&lease("b", "2")), "a", now);
        view.step(None, "a", now + seconds(1));
        assert!(view.is_left_to_others(now + seconds(2)));
        // It is ours.
        view.step(Some(&lease("a", "3")), "a", now + seconds(3));
        assert!(!view.is_left_to_others(now + seconds(3)));
    }

    #[test]
    fn a_holder_tells_the_sources_that_it_does_not_know() {
        let mut lease = lease("b", "1");
        assert!(unknown_sources(Some(&lease)).is_empty() && unknown_sources(None).is_empty());
        let text = (UNKNOWN_SOURCES.to_owned(), "elasticquotas,quota-pods".to_owned());
        lease.metadata.annotations = Some([text].into());
        let expected = ["elasticquotas", "quota-pods"].map(str::to_owned);
        assert_eq!(unknown_sources(Some(&lease)), BTreeSet::from(expected));
    }
}
