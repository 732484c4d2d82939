//! [`QuotaWorld`]: an API server with quotas, one replica with its watch, and what clients do.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use headroom_kit::gate::GateSet;
use headroom_webhook::{
    admission::{
        callers::CallerCheck,
        endpoint::{Deadline, Family, Stores},
        endpoints::{gates, served},
        features::Features,
        router::{HttpAnswer, Limits, Options, Router},
    },
    store::{
        arrivals::Arrivals,
        caller::ReviewCaller,
        colocation::pods::PodsByName,
        informer::Store as _,
        known::KnownSources,
        quota::{index::QuotaIndex, object::WatchedQuota, with_pods::QuotasWithPods},
        sources,
    },
};
use serde_json::{Value, json};
use tokio::{sync::watch, time::advance};

use super::{
    TreeStep,
    oracle::{self, ModelQuota, ModelQuotas},
};
use crate::patch_of;

const DOMAIN: &str = "quota.scheduling.koordinator.sh";
/// Time for which an admission counts that the watch does not deliver, in seconds.
const LIFETIME: u64 = 30;

/// Fate of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestFate {
    Stored,
    /// The API server asks again before it stores it.
    StoredAfterRetry,
    DryRun,
    /// A later admission plugin refuses it.
    RefusedLater,
    /// The answer does not go out in time.
    AnswerLost,
}

/// Changed field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpecChange {
    Min(u8),
    Parent(Option<u8>),
    IsParent(bool),
    Lists(Option<u8>),
}

/// Something that the watch brings.
#[derive(Debug, Clone)]
enum WatchStep {
    Applied((u8, u8), ModelQuota),
    Deleted((u8, u8), ModelQuota),
}

pub(super) struct QuotaWorld {
    stored: ModelQuotas,
    /// Events that the watch has not delivered, each with its second.
    events: VecDeque<(u64, WatchStep)>,
    versions: u64,
    now: u64,
    /// Names of quotas that were admitted in a way in which they were not stored.
    doubtful: BTreeSet<u8>,
    index: Arc<QuotaIndex>,
    router: Router,
}

impl QuotaWorld {
    pub(super) fn new() -> Self {
        let index = QuotaIndex::new(Arrivals::default());
        let pods = Arc::new(PodsByName::new(Arrivals::default()));
        let known = KnownSources::default();
        for source in sources::ALL {
            known.record(source, watch::channel(true).1);
        }
        let router = Router::new(Options {
            endpoints: served(&[Family::Koordinator]),
            features: Features::with_gates(GateSet::parse(gates(), "").expect("gates")).shared(),
            stores: Stores {
                quotas: Arc::new(QuotasWithPods {
                    index: Arc::clone(&index),
                    pods,
                }),
                known,
                ..Stores::default()
            },
            limits: Limits::default(),
            log_sample: 0,
            callers: CallerCheck::default(),
        });
        Self {
            stored: ModelQuotas::new(),
            events: VecDeque::new(),
            versions: 1,
            now: 0,
            doubtful: BTreeSet::new(),
            index,
            router,
        }
    }

    pub(super) async fn apply(&mut self, step: TreeStep) -> Result<(), String> {
        match step {
            TreeStep::Create {
                name,
                namespace,
                parent,
                is_parent,
                min,
                listed,
                fate,
            } => {
                let quota = ModelQuota {
                    uid: self.versions + 1,
                    version: 0,
                    parent,
                    is_parent,
                    min,
                    listed,
                    is_going: false,
                    used: 0,
                };
                self.create((name, namespace), quota, fate)?;
            }
            TreeStep::Update { at, change, fate } => self.update(at, change, fate)?,
            TreeStep::Delete {
                at,
                has_finalizer,
                fate,
            } => self.delete(at, has_finalizer, fate)?,
            TreeStep::Finalize(at) => {
                if let Some(key) = self.pick(at).filter(|key| self.stored[key].is_going) {
                    self.remove(key);
                }
            }
            TreeStep::Status(at) => {
                if let Some(key) = self.pick(at) {
                    let used = self.stored[&key].used.wrapping_add(1);
                    let quota = ModelQuota {
                        used,
                        ..self.stored[&key].clone()
                    };
                    self.store(key, quota);
                }
            }
            TreeStep::Deliver(count) => self.deliver(count),
            TreeStep::Relist => self.relist(),
            TreeStep::Wait(seconds) => self.wait(seconds.into()).await,
        }
        oracle::check(&self.stored, &self.doubtful)
    }

    /// Everything is seen, and nothing is claimed any more: the index is what is stored.
    pub(super) async fn settle(&mut self) -> Result<(), String> {
        self.deliver(usize::MAX);
        self.wait(LIFETIME + 1).await;
        if self.index.pending() != 0 || self.index.len() != self.stored.len() {
            return Err(format!(
                "{} pending, {} quotas known, {} stored",
                self.index.pending(),
                self.index.len(),
                self.stored.len()
            ));
        }
        let before = self.index.writes();
        for ((name, namespace), quota) in &self.stored {
            let touched = ModelQuota {
                used: 99,
                ..quota.clone()
            };
            self.index.apply(watched((*name, *namespace), &touched));
        }
        if self.index.writes() == before {
            Ok(())
        } else {
            Err("a write of the status touched the index".to_owned())
        }
    }

    fn pick(&self, at: usize) -> Option<(u8, u8)> {
        let count = self.stored.len().max(1);
        self.stored.keys().nth(at % count).copied()
    }

    fn create(&mut self, key: (u8, u8), quota: ModelQuota, fate: RequestFate) -> Result<(), String> {
        let mut object = json(key, &quota);
        let review = review("CREATE", &object, None, fate);
        let answer = self.ask("/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota", &review)?;
        let response = response(&answer)?;
        if response["allowed"] != true {
            return Ok(());
        }
        json_patch::patch(&mut object, &patch_of(&response)).expect("a patch that applies");
        if !self.is_admitted("CREATE", &object, None, fate, key.0)? || self.stored.contains_key(&key) {
            return Ok(());
        }
        self.store(key, quota);
        Ok(())
    }

    fn update(&mut self, at: usize, change: SpecChange, fate: RequestFate) -> Result<(), String> {
        let Some(key) = self.pick(at) else { return Ok(()) };
        let old = self.stored[&key].clone();
        let mut new = old.clone();
        match change {
            SpecChange::Min(min) => new.min = min,
            SpecChange::Parent(parent) => new.parent = parent,
            SpecChange::IsParent(is_parent) => new.is_parent = is_parent,
            SpecChange::Lists(listed) => new.listed = listed,
        }
        if self.is_admitted("UPDATE", &json(key, &new), Some(&json(key, &old)), fate, key.0)? {
            self.store(key, new);
        }
        Ok(())
    }

    fn delete(&mut self, at: usize, has_finalizer: bool, fate: RequestFate) -> Result<(), String> {
        let Some(key) = self.pick(at) else { return Ok(()) };
        let old = self.stored[&key].clone();
        if !self.is_admitted("DELETE", &json(key, &old), None, fate, key.0)? {
            return Ok(());
        }
        if has_finalizer && !old.is_going {
            self.store(
                key,
                ModelQuota {
                    is_going: true,
                    ..old
                },
            );
        } else if !old.is_going {
            self.remove(key);
        }
        Ok(())
    }

    /// True if the request is admitted and stored.
    fn is_admitted(
        &mut self,
        operation: &str,
        object: &Value,
        old: Option<&Value>,
        fate: RequestFate,
        name: u8,
    ) -> Result<bool, String> {
        let path = "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota";
        let review = review(operation, object, old, fate);
        let times = if fate == RequestFate::StoredAfterRetry {
            2
        } else {
            1
        };
        let mut answers = Vec::new();
        for _ in 0..times {
            let answer = self.ask(path, &review)?;
            let is_allowed = response(&answer)?["allowed"] == true;
            answers.push(is_allowed);
            if fate != RequestFate::AnswerLost {
                answer.pending.keep();
            }
        }
        if answers.iter().any(|is_allowed| *is_allowed != answers[0]) {
            return Err(format!("a repeated question has another answer: {answers:?}"));
        }
        if answers[0] && fate == RequestFate::RefusedLater && operation == "CREATE" {
            self.doubtful.insert(name);
        }
        Ok(answers[0] && matches!(fate, RequestFate::Stored | RequestFate::StoredAfterRetry))
    }

    fn ask(&self, path: &str, review: &Value) -> Result<HttpAnswer, String> {
        let endpoint = self.router.endpoint(path).map_err(|error| error.to_string())?;
        let deadline = Deadline::after(Instant::now(), Duration::from_secs(60));
        Ok(self.router.answer_to(
            ReviewCaller::Verified,
            endpoint,
            review.to_string().as_bytes(),
            deadline,
        ))
    }

    fn store(&mut self, key: (u8, u8), mut quota: ModelQuota) {
        self.versions += 1;
        quota.version = self.versions;
        self.stored.insert(key, quota.clone());
        self.events.push_back((self.now, WatchStep::Applied(key, quota)));
    }

    fn remove(&mut self, key: (u8, u8)) {
        self.versions += 1;
        let quota = self.stored.remove(&key).expect("a stored quota");
        let last = ModelQuota {
            version: self.versions,
            ..quota
        };
        self.events.push_back((self.now, WatchStep::Deleted(key, last)));
    }

    fn deliver(&mut self, count: usize) {
        for _ in 0..count.min(self.events.len()) {
            match self.events.pop_front() {
                Some((_, WatchStep::Applied(key, quota))) => self.index.apply(watched(key, &quota)),
                Some((_, WatchStep::Deleted(key, quota))) => self.index.delete(watched(key, &quota)),
                None => {}
            }
        }
    }

    fn relist(&mut self) {
        self.events.clear();
        let mut listing = self.index.listing();
        for (key, quota) in &self.stored {
            QuotaIndex::list(&mut listing, watched(*key, quota));
        }
        self.index.replace(listing);
    }

    /// A watch that lags for as long as claims last would be unknown, and nothing decided.
    async fn wait(&mut self, seconds: u64) {
        self.now += seconds;
        let late = self.events.iter().take_while(|(at, _)| at + LIFETIME <= self.now);
        self.deliver(late.count());
        advance(Duration::from_secs(seconds)).await;
    }
}

fn name(name: u8) -> String {
    format!("q{name}")
}

fn json((quota, namespace): (u8, u8), stored: &ModelQuota) -> Value {
    let parent = stored
        .parent
        .map_or_else(|| "koordinator-root-quota".to_owned(), name);
    let namespaces: Vec<String> = stored
        .listed
        .iter()
        .map(|namespace| format!("n{namespace}"))
        .collect();
    let mut metadata = json!({
        "name": name(quota), "namespace": format!("ns{namespace}"), "uid": stored.uid.to_string(),
        "labels": {
            format!("{DOMAIN}/parent"): parent,
            format!("{DOMAIN}/is-parent"): stored.is_parent.to_string(),
        },
        "annotations": {
            format!("{DOMAIN}/namespaces"): json!(namespaces).to_string(),
            format!("{DOMAIN}/child-request"): stored.used.to_string(),
        },
    });
    if stored.version > 0 {
        metadata["resourceVersion"] = stored.version.to_string().into();
    }
    if stored.is_going {
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    json!({
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": metadata,
        "spec": {"min": {"cpu": stored.min}, "max": {"cpu": 100}}, "status": {"used": {"cpu": stored.used}},
    })
}

fn watched(key: (u8, u8), stored: &ModelQuota) -> WatchedQuota {
    serde_json::from_str(&json(key, stored).to_string()).expect("a quota")
}

fn review(operation: &str, object: &Value, old: Option<&Value>, fate: RequestFate) -> Value {
    let (object, old) = match operation {
        "DELETE" => (&Value::Null, object),
        _ => (object, old.unwrap_or(&Value::Null)),
    };
    let metadata = if object.is_null() {
        &old["metadata"]
    } else {
        &object["metadata"]
    };
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "r", "operation": operation, "name": metadata["name"], "namespace": metadata["namespace"],
        "kind": {"group": "scheduling.sigs.k8s.io", "version": "v1alpha1", "kind": "ElasticQuota"},
        "resource": {"group": "scheduling.sigs.k8s.io", "version": "v1alpha1", "resource": "elasticquotas"},
        "userInfo": {"username": "somebody"}, "dryRun": fate == RequestFate::DryRun, "object": object, "oldObject": old,
    }})
}

fn response(answer: &HttpAnswer) -> Result<Value, String> {
    let body: Value = serde_json::from_slice(&answer.body)
        .map_err(|_no_json| String::from_utf8_lossy(&answer.body).into_owned())?;
    Ok(body["response"].clone())
}
