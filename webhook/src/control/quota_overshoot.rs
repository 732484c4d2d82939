//! Finds the quotas whose pods ask for more than the limit, once the watch shows it, for an Event and for metrics.
//!
//! Several replicas may each admit the last pod that fits in a quota. No write at admission prevents that, so it is
//! detected afterwards. A limit that was lowered below use looks the same, and so do pods that were created while the
//! webhook was not called: the report contains the measurement.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use headroom_rules::{
    pod_quota::{Excess, Limits, evaluated, is_limited},
    quota::{Quota, QuotaKey},
};
use tokio::{select, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    metrics::{QUOTA_OVERSHOOTS, QUOTAS_ABOVE_LIMIT},
    time_slices::Slices,
};
use crate::store::{
    lookup::QuotaLookup as _,
    quota_view::{Evaluation, QuotaBehaviour, QuotaView},
};

const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Checks in a row in which a quota must be above its limit before it is reported: pods and quotas have a watch each,
/// and neither waits for the other.
const LOOKS: u32 = 2;
/// Quotas that are read at a time.
const READ_AT_ONCE: usize = 64;
/// Maximum number of resources in a report.
const MOST_RESOURCES: usize = 8;

/// A quota and its UID: a quota that is created again under the same name is another one.
type FoundKey = (QuotaKey, Box<str>);

/// A quota whose pods ask for more than its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overshoot {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Measurement when it was found, or when it was furthest above since.
    pub note: String,
}

/// The quotas above their limit now.
#[derive(Debug, Default)]
pub struct QuotaOvershoots(RwLock<Vec<Overshoot>>);

/// Results of earlier checks.
#[derive(Debug, Default)]
struct OvershootHistory(BTreeMap<FoundKey, SeenOvershoot>);

#[derive(Debug, Default)]
struct SeenOvershoot {
    looks: u32,
    /// Excess in the last report.
    told: Vec<Excess>,
    note: String,
}

impl QuotaOvershoots {
    pub fn list(&self) -> Vec<Overshoot> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, all: Vec<Overshoot>) {
        let number = u32::try_from(all.len()).unwrap_or(u32::MAX);
        QUOTAS_ABOVE_LIMIT.with([]).set(f64::from(number));
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = all;
    }
}

/// Checks repeatedly until `stop` is cancelled.
pub async fn detect(view: QuotaView, found: Arc<QuotaOvershoots>, stop: CancellationToken) {
    let mut history = OvershootHistory::default();
    loop {
        select! {
            () = stop.cancelled() => return,
            () = find_overshoots(&view, &mut history, &found) => {}
        }
        select! {
            () = stop.cancelled() => return,
            () = sleep(LOOK_EVERY) => {}
        }
    }
}

/// Checks all quotas once. Each is read at its own moment, so no admission waits for the whole check.
async fn find_overshoots(view: &QuotaView, history: &mut OvershootHistory, found: &QuotaOvershoots) {
    let behaviour = (view.behaviour)();
    let mut above = BTreeMap::new();
    let is_known = || view.sources().iter().all(|source| source.is_known);
    if behaviour.evaluation != Evaluation::Off && is_known() {
        let (mut key, mut slices) = (QuotaKey::default(), Slices::begin());
        loop {
            let quotas = view.quotas.index.after(&key, READ_AT_ONCE);
            let Some(last) = quotas.last() else { break };
            key = last.key();
            for quota in &quotas {
                if let Some((uid, excesses)) = measure(view, quota, &behaviour) {
                    above.insert((quota.key(), uid), excesses);
                }
                slices.rest().await;
            }
        }
    }
    // A store that became unknown meanwhile proves nothing.
    if !is_known() {
        above.clear();
    }
    found.set(history.note(above, behaviour.evaluation));
}

/// Excess of a quota's stored pods over its limit, with the quota's UID; `None` if there is none. Pods that were
/// admitted and not yet observed do not count, and a quota with a pending change is not evaluated.
fn measure(view: &QuotaView, quota: &Quota, behaviour: &QuotaBehaviour) -> Option<(Box<str>, Vec<Excess>)> {
    if !is_limited(&quota.name) || quota.before.is_some() {
        return None;
    }
    let mut is_one = false;
    view.quotas
        .visit_tree(&mut |tree| is_one = evaluated(&quota.name, tree).is_ok());
    let usage = view.usage(quota, behaviour).filter(|_| is_one)?.usage;
    let limits = Limits::read(quota, &behaviour.switches).ok()?;
    let excesses = limits.exceeded_by(&usage.stored);
    let uid = view.quotas.index.uid(&quota.key())?;
    (!excesses.is_empty()).then_some((uid, excesses))
}

impl OvershootHistory {
    /// Records a check; returns the quotas that were above their limit often enough, by namespace and name.
    fn note(&mut self, above: BTreeMap<FoundKey, Vec<Excess>>, evaluation: Evaluation) -> Vec<Overshoot> {
        self.0.retain(|key, _| above.contains_key(key));
        let mut found = Vec::new();
        for (key, excesses) in above {
            let ((namespace, name), uid) = &key;
            let (namespace, name, uid) = (namespace.to_string(), name.to_string(), uid.to_string());
            let seen = self.0.entry(key).or_default();
            seen.looks = seen.looks.saturating_add(1);
            if seen.looks < LOOKS {
                continue;
            }
            if seen.looks == LOOKS {
                QUOTA_OVERSHOOTS.with([]).increment(1);
            }
            // Less than before is no news, or each pod that ends would be an Event.
            if exceed(&excesses, &seen.told) {
                seen.note = note(&excesses, evaluation);
                seen.told = excesses;
            }
            found.push(Overshoot {
                namespace,
                name,
                uid,
                note: seen.note.clone(),
            });
        }
        found
    }
}

/// True if some resource is further above its limit than before.
fn exceed(now: &[Excess], before: &[Excess]) -> bool {
    now.iter().any(|excess| {
        let before = before.iter().find(|before| before.resource == excess.resource);
        before.is_none_or(|before| excess.above > before.above)
    })
}

/// Measurement, its consequence and its possible cause, as text for users.
fn note(excesses: &[Excess], evaluation: Evaluation) -> String {
    let told = excesses.iter().take(MOST_RESOURCES).map(|excess| {
        let Excess {
            resource,
            used,
            limit,
            above,
            source,
        } = excess;
        format!(
            "{resource}: used {used}, limit {limit} ({}), {above} above",
            source.name()
        )
    });
    let mut told: Vec<String> = told.collect();
    let more = excesses.len().saturating_sub(MOST_RESOURCES);
    if more > 0 {
        told.push(format!("{more} more resources"));
    }
    let follows = match evaluation {
        Evaluation::Refuses => "New pods that request more of it are refused until use falls.",
        Evaluation::Off | Evaluation::Warns => "New pods are still admitted.",
    };
    format!(
        "The pods of the quota request more than its limit. {}. {follows} Possible causes: the limit \
         was lowered below use, pods were created while the webhook was not called, or several \
         replicas admitted at the same moment.",
        told.join("; ")
    )
}

#[cfg(test)]
mod tests;
